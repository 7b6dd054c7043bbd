/* Implements the operations of family llama: RMSNorm, heads that share keys and
 * values, and SwiGLU. Each thread processes part of the rows. Sums to which
 * several threads contribute, such as the gradient of a norm's weight, stay in
 * each thread's scratch until all threads have finished. */
#include "hooks/trainer/cpu/activations.h"

#include <string.h>

/* The number of rows in a thread's range (slab) is a multiple of this number,
 * so that no two threads write to the same cache line. */
#define ROW_UNIT 16

/* Adds the partial sums of all threads, n per thread, to `to`. Each thread has
 * stored its sums at offset `first` of its scratch memory. */
static void add_sums(const es_backend *backend, es_mem *to, size_t first, int n)
{
    for (int t = 0; to && t < backend->n_threads; t++)
        backend->kernels->add_bias(
            es_cpu_floats(to),
            backend->scratch + (size_t)t * backend->scratch_size + first, 1, n);
}

/* --- RMSNorm -------------------------------------------------------------- */

typedef struct norm {
    const es_backend *backend;
    es_mem *y; /* result; dx in the backward pass */
    es_mem *peak;
    const es_mem *x, *dy;
    float *rstd;
    const float *weight;
    int n_rows, width;
    float epsilon;
} norm;

static void norm_part(void *argument, es_share share)
{
    const norm *n = argument;
    const es_backend *backend = n->backend;
    es_slab slab = es_cpu_slab(share, n->n_rows, ROW_UNIT);
    es_cpu_start_peak(backend, share);
    ES_CPU_EACH_CHUNK(rows, backend, slab, n->width)
    {
        const size_t at = (size_t)rows.first * (size_t)n->width;
        const size_t size = (size_t)rows.n * (size_t)n->width;
        float *y = es_cpu_place(backend, share, 0, n->y, at);
        const float *x = es_cpu_open(backend, share, 1, n->x, at, size);
        if (n->peak)
            es_cpu_see_peak(backend, share, x, at, size);
        backend->kernels->rms_norm(y, n->rstd + rows.first, x, n->weight,
                                   rows.n, n->width, n->epsilon);
        es_cpu_close(backend, n->y, at, y, size);
    }
}

void es_cpu_rms_norm(es_backend *backend, es_mem *y, es_mem *rstd, es_mem *peak,
                     const es_mem *x, const es_mem *weight, int n_rows,
                     int width, float epsilon)
{
    norm n = {.backend = backend,
              .y = y,
              .peak = peak,
              .x = x,
              .rstd = es_cpu_floats(rstd),
              .weight = es_cpu_read(weight),
              .n_rows = n_rows,
              .width = width,
              .epsilon = epsilon};
    es_team_run(backend->team, norm_part, &n);
    if (peak)
        es_cpu_keep_peak(backend, peak, x);
}

static void norm_backward_part(void *argument, es_share share)
{
    const norm *n = argument;
    const es_backend *backend = n->backend;
    es_slab slab = es_cpu_slab(share, n->n_rows, ROW_UNIT);
    float *sums = es_cpu_scratch(backend, share);
    memset(sums, 0, (size_t)n->width * sizeof *sums);
    ES_CPU_EACH_CHUNK(rows, backend, slab, n->width)
    {
        const size_t at = (size_t)rows.first * (size_t)n->width;
        const size_t size = (size_t)rows.n * (size_t)n->width;
        float *dx = es_cpu_change(backend, share, 0, n->y, at, size);
        backend->kernels->rms_norm_backward(
            dx, sums, es_cpu_open(backend, share, 1, n->dy, at, size),
            es_cpu_open(backend, share, 2, n->x, at, size),
            n->rstd + rows.first, n->weight, rows.n, n->width);
        es_cpu_close_gradient(backend, n->y, at, dx, size);
    }
}

void es_cpu_rms_norm_backward(es_backend *backend, es_mem *dx, es_mem *dweight,
                              const es_mem *dy, const es_mem *x,
                              const es_mem *rstd, const es_mem *weight,
                              int n_rows, int width)
{
    norm n = {.backend = backend,
              .y = dx,
              .x = x,
              .dy = dy,
              .rstd = (float *)es_cpu_read(rstd), /* the cast removes const, but
                                                     rstd is only read */
              .weight = es_cpu_read(weight),
              .n_rows = n_rows,
              .width = width};
    es_team_run(backend->team, norm_backward_part, &n);
    add_sums(backend, dweight, 0, width);
}

/* --- shared heads --------------------------------------------------------- */

typedef struct sharing {
    const es_backend *backend;
    es_mem *qkv, *q, *k, *v; /* inputs or outputs, depending on the direction
                              * of the copy */
    float *rstd;
    const es_sharing *how;
} sharing;

/* query_width returns the number of elements in all queries of a token, and
 * key_width the number of elements in all keys of a token. */
static size_t query_width(const es_sharing *how)
{
    return (size_t)how->n_head * (size_t)how->width;
}

static size_t key_width(const es_sharing *how)
{
    return (size_t)how->n_kv_head * (size_t)how->width;
}

/* Returns the values 1 / rms that RMSNorm has computed for the heads of a row,
 * or NULL if the heads are not normalised. */
static float *row_rstd(const sharing *s, int row)
{
    const size_t n = (size_t)(s->how->n_head + s->how->n_kv_head);
    return s->rstd ? s->rstd + (size_t)row * n : NULL;
}

/* Copies each head of from (n_kv_head,width) to all heads of to (n_head,width)
 * that share it. `from` and `to` may begin at the same address. */
static void repeat_heads(float *to, const float *from, const es_sharing *how)
{
    const size_t width = (size_t)how->width;
    const int each = how->n_head / how->n_kv_head;
    for (int h = how->n_head - 1; h >= 0; h--)
        memmove(to + (size_t)h * width, from + (size_t)(h / each) * width,
                width * sizeof *to);
}

static void spread_row(const sharing *s, es_share share, int row)
{
    const es_sharing *how = s->how;
    const es_backend *backend = s->backend;
    const size_t n_q = query_width(how), n_k = key_width(how);
    const size_t at = (size_t)row * 3 * n_q, n = (size_t)row;
    float *to = es_cpu_place(backend, share, 0, s->qkv, at);
    float *rstd = row_rstd(s, row);
    const float *q = es_cpu_open(backend, share, 1, s->q, n * n_q, n_q);
    const float *k = es_cpu_open(backend, share, 2, s->k, n * n_k, n_k);
    const float *v = es_cpu_open(backend, share, 3, s->v, n * n_k, n_k);
    if (rstd) {
        backend->kernels->rms_norm(to, rstd, q, es_cpu_read(how->q_weight),
                                   how->n_head, how->width, how->epsilon);
        backend->kernels->rms_norm(to + n_q, rstd + how->n_head, k,
                                   es_cpu_read(how->k_weight), how->n_kv_head,
                                   how->width, how->epsilon);
        k = to + n_q;
    } else {
        memcpy(to, q, n_q * sizeof *to);
    }
    repeat_heads(to + n_q, k, how);
    repeat_heads(to + 2 * n_q, v, how);
    es_cpu_close(backend, s->qkv, at, to, 3 * n_q);
}

static void spread_part(void *argument, es_share share)
{
    const sharing *s = argument;
    es_slab slab = es_cpu_slab(share, s->how->n_rows, 1);
    for (int row = slab.first; row < slab.first + slab.n; row++)
        spread_row(s, share, row);
}

void es_cpu_spread_heads(es_backend *backend, es_mem *qkv, es_mem *rstd,
                         const es_mem *q, const es_mem *k, const es_mem *v,
                         const es_sharing *how)
{
    sharing s = {.backend = backend,
                 .qkv = qkv,
                 .q = (es_mem *)q, /* the casts remove const, but q, k and v are
                                      only read */
                 .k = (es_mem *)k,
                 .v = (es_mem *)v,
                 .rstd = es_cpu_floats(rstd),
                 .how = how};
    es_team_run(backend->team, spread_part, &s);
}

/* Sums the gradients of the query heads, from (n_head,width), over the heads
 * that share a key head, and writes the sums to `to` (n_kv_head,width). */
static void add_heads(float *to, const float *from, const es_sharing *how)
{
    const size_t width = (size_t)how->width;
    const int each = how->n_head / how->n_kv_head;
    memset(to, 0, key_width(how) * sizeof *to);
    for (int h = 0; h < how->n_head; h++)
        for (size_t c = 0; c < width; c++)
            to[(size_t)(h / each) * width + c] += from[(size_t)h * width + c];
}

/* Replaces x (n,width), the n heads of a token before RMSNorm, by the gradient
 * of x. Reads the gradient of the normalised heads from d (n,width), and adds
 * the gradient of the norm's weight to dweight (width). dx (n,width) is working
 * memory. */
static void norm_heads_back(const es_backend *backend, float *x, float *d,
                            float *dx, float *dweight, const float *rstd,
                            const es_mem *weight, int n, int width)
{
    const size_t size = (size_t)n * (size_t)width;
    if (weight) {
        memset(dx, 0, size * sizeof *dx);
        backend->kernels->rms_norm_backward(dx, dweight, d, x, rstd,
                                            es_cpu_read(weight), n, width);
    }
    memcpy(x, weight ? dx : d, size * sizeof *x);
}

/* Computes the gradients of q, k and v of one row. The thread's scratch memory
 * holds the sums of the gradients of both norms' weights, followed by working
 * memory for two rows. */
static void gather_row(const sharing *s, es_share share, int row)
{
    const es_sharing *how = s->how;
    const es_backend *backend = s->backend;
    const size_t n_q = query_width(how), n_k = key_width(how);
    const size_t n = (size_t)row, width = (size_t)how->width;
    float *sums = es_cpu_scratch(backend, share);
    float *sum = sums + 2 * width, *dx = sum + n_q;
    const float *rstd = row_rstd(s, row);
    const float *from =
        es_cpu_open(backend, share, 0, s->qkv, n * 3 * n_q, 3 * n_q);
    float *q = es_cpu_change(backend, share, 1, s->q, n * n_q, n_q);
    float *k = es_cpu_change(backend, share, 2, s->k, n * n_k, n_k);
    float *v = es_cpu_place(backend, share, 3, s->v, n * n_k);
    memcpy(sum, from, n_q * sizeof *sum);
    norm_heads_back(backend, q, sum, dx, sums, rstd, how->q_weight, how->n_head,
                    how->width);
    add_heads(sum, from + n_q, how);
    norm_heads_back(backend, k, sum, dx, sums + width,
                    rstd ? rstd + how->n_head : NULL, how->k_weight,
                    how->n_kv_head, how->width);
    add_heads(v, from + 2 * n_q, how);
    es_cpu_close_gradient(backend, s->q, n * n_q, q, n_q);
    es_cpu_close_gradient(backend, s->k, n * n_k, k, n_k);
    es_cpu_close_gradient(backend, s->v, n * n_k, v, n_k);
}

static void gather_part(void *argument, es_share share)
{
    const sharing *s = argument;
    es_slab slab = es_cpu_slab(share, s->how->n_rows, 1);
    memset(es_cpu_scratch(s->backend, share), 0,
           2 * (size_t)s->how->width * sizeof(float));
    for (int row = slab.first; row < slab.first + slab.n; row++)
        gather_row(s, share, row);
}

void es_cpu_gather_heads(es_backend *backend, es_mem *q, es_mem *k, es_mem *v,
                         es_mem *dq_weight, es_mem *dk_weight,
                         const es_mem *dqkv, const es_mem *rstd,
                         const es_sharing *how)
{
    sharing s = {.backend = backend,
                 .qkv = (es_mem *)dqkv, /* the cast removes const, but dqkv is
                                           only read */
                 .q = q,
                 .k = k,
                 .v = v,
                 .rstd = (float *)es_cpu_read(rstd), /* rstd is only read */
                 .how = how};
    es_team_run(backend->team, gather_part, &s);
    add_sums(backend, dq_weight, 0, how->width);
    add_sums(backend, dk_weight, (size_t)how->width, how->width);
}

/* --- SwiGLU --------------------------------------------------------------- */

typedef struct swiglu_job {
    const es_backend *backend;
    es_mem *y, *gate, *d; /* d is NULL in the forward pass, which only reads
                           * gate */
    const es_mem *up;
    size_t n;
} swiglu_job;

static void swiglu_part(void *argument, es_share share)
{
    const swiglu_job *j = argument;
    const es_backend *backend = j->backend;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 16);
    for (size_t n; first < end; first += n) {
        n = es_cpu_piece(backend, end - first);
        float *y = es_cpu_place(backend, share, 0, j->y, first);
        float *gate = es_cpu_change(backend, share, 1, j->gate, first, n);
        const float *up = es_cpu_open(backend, share, 2, j->up, first, n);
        if (j->d) {
            float *d = es_cpu_change(backend, share, 3, j->d, first, n);
            backend->kernels->swiglu_backward(d, gate, y, up, n);
            es_cpu_close_gradient(backend, j->d, first, d, n);
            es_cpu_close_gradient(backend, j->gate, first, gate, n);
        } else {
            backend->kernels->swiglu(y, gate, up, n);
        }
        es_cpu_close(backend, j->y, first, y, n);
    }
}

void es_cpu_swiglu(es_backend *backend, es_mem *y, const es_mem *gate,
                   const es_mem *up, size_t n)
{
    swiglu_job j = {.backend = backend,
                    .y = y,
                    .gate = (es_mem *)gate, /* the forward pass does not
                                             * change gate */
                    .up = up,
                    .n = n};
    es_team_run(backend->team, swiglu_part, &j);
}

void es_cpu_swiglu_backward(es_backend *backend, es_mem *d, es_mem *gate,
                            es_mem *y, const es_mem *up, size_t n)
{
    swiglu_job j = {
        .backend = backend, .y = y, .gate = gate, .d = d, .up = up, .n = n};
    es_team_run(backend->team, swiglu_part, &j);
}
