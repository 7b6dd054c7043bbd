/* Implements shaped attention of family sas: adds a multiple of the token's own
 * value to each head's output, and subtracts a multiple of the mean of the
 * visible values. Each thread processes whole heads. */
#include "hooks/trainer/cpu/activations.h"

typedef struct job {
    const es_backend *backend;
    const es_attention *attention;
    es_mem *y; /* the result; in the backward pass its gradient dy, which is
                  overwritten by dv */
    es_mem *dheads; /* NULL: forward */
    const es_mem *qkv, *heads;
    const float *gains; /* (3,H) */
    float *dgains;
} job;

/* Returns the offset of head h of a token in a matrix whose rows have d_model
 * numbers. value_place returns the offset of the head's v in qkv. */
static size_t head_place(const job *j, int token, int h)
{
    const es_attention *a = j->attention;
    return (size_t)token * (size_t)a->d_model +
           (size_t)h * (size_t)(a->d_model / a->n_head);
}

static size_t value_place(const job *j, int token, int h)
{
    return head_place(j, token, h) +
           (size_t)(2 * token + 2) * (size_t)j->attention->d_model;
}

static void shape_head(const job *j, es_share share, int sequence, int h)
{
    const es_attention *a = j->attention;
    const size_t width = (size_t)(a->d_model / a->n_head);
    const float *g = j->gains + h;
    float *sum = es_cpu_scratch(j->backend, share);
    for (size_t c = 0; c < width; c++)
        sum[c] = 0;
    for (int i = 0; i < a->n_ctx; i++) {
        const int token = sequence * a->n_ctx + i;
        const size_t at = head_place(j, token, h);
        const float each = g[2 * a->n_head] / (float)(i + 1);
        const float *v = es_cpu_open(j->backend, share, 0, j->qkv,
                                     value_place(j, token, h), width);
        const float *x = es_cpu_open(j->backend, share, 1, j->heads, at, width);
        float *y = es_cpu_place(j->backend, share, 2, j->y, at);
        for (size_t c = 0; c < width; c++) {
            sum[c] += v[c];
            y[c] = g[0] * v[c] + g[a->n_head] * x[c] - each * sum[c];
        }
        es_cpu_close(j->backend, j->y, at, y, width);
    }
}

/* Adds the gradients of the three gains of a head to out (3). The thread's
 * scratch memory holds the running sum of v. */
static void add_gains(double *out, const job *j, es_share share, int sequence,
                      int h)
{
    const es_attention *a = j->attention;
    const size_t width = (size_t)(a->d_model / a->n_head);
    float *sum = es_cpu_scratch(j->backend, share);
    for (size_t c = 0; c < width; c++)
        sum[c] = 0;
    for (int i = 0; i < a->n_ctx; i++) {
        const int token = sequence * a->n_ctx + i;
        const size_t at = head_place(j, token, h);
        const float *v = es_cpu_open(j->backend, share, 0, j->qkv,
                                     value_place(j, token, h), width);
        const float *x = es_cpu_open(j->backend, share, 1, j->heads, at, width);
        const float *d = es_cpu_open(j->backend, share, 2, j->y, at, width);
        for (size_t c = 0; c < width; c++) {
            sum[c] += v[c];
            out[0] += (double)d[c] * (double)v[c];
            out[1] += (double)d[c] * (double)x[c];
            out[2] -= (double)d[c] * (double)sum[c] / (i + 1);
        }
    }
}

/* Computes the gradients of one head. Processes tokens from last to first, and
 * keeps the sum of the contributions to dv from the means of later tokens. */
static void shape_head_back(const job *j, es_share share, int sequence, int h)
{
    const es_attention *a = j->attention;
    const size_t width = (size_t)(a->d_model / a->n_head);
    const float *g = j->gains + h;
    float *later = es_cpu_scratch(j->backend, share);
    for (size_t c = 0; c < width; c++)
        later[c] = 0;
    for (int i = a->n_ctx - 1; i >= 0; i--) {
        const size_t at = head_place(j, sequence * a->n_ctx + i, h);
        float *d = es_cpu_change(j->backend, share, 0, j->y, at, width);
        float *dheads = es_cpu_place(j->backend, share, 1, j->dheads, at);
        for (size_t c = 0; c < width; c++) {
            later[c] += d[c] / (float)(i + 1);
            dheads[c] = g[a->n_head] * d[c];
            d[c] = g[0] * d[c] - g[2 * a->n_head] * later[c];
        }
        es_cpu_close_gradient(j->backend, j->dheads, at, dheads, width);
        es_cpu_close_gradient(j->backend, j->y, at, d, width);
    }
}

static void shape_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    const es_slab slab = es_cpu_slab(share, a->n_head, 1);
    for (int h = slab.first; h < slab.first + slab.n; h++) {
        double sums[3] = {0};
        for (int b = 0; b < a->n_batch; b++) {
            if (!j->dheads) {
                shape_head(j, share, b, h);
                continue;
            }
            add_gains(sums, j, share, b, h);
            shape_head_back(j, share, b, h);
        }
        for (int k = 0; j->dheads && k < 3; k++)
            j->dgains[k * a->n_head + h] += (float)sums[k];
    }
}

void es_cpu_shape_heads(es_backend *backend, es_mem *y, const es_mem *heads,
                        const es_mem *qkv, const es_mem *gains,
                        const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .y = y,
             .qkv = qkv,
             .heads = heads,
             .gains = es_cpu_read(gains)};
    es_team_run(backend->team, shape_part, &j);
}

void es_cpu_shape_heads_backward(es_backend *backend, es_mem *dheads, es_mem *d,
                                 es_mem *dgains, const es_mem *heads,
                                 const es_mem *qkv, const es_mem *gains,
                                 const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .y = d,
             .dheads = dheads,
             .qkv = qkv,
             .heads = heads,
             .gains = es_cpu_read(gains),
             .dgains = es_cpu_floats(dgains)};
    es_team_run(backend->team, shape_part, &j);
}

/* --- sums ----------------------------------------------------------------- */

typedef struct adding {
    const es_backend *backend;
    es_mem *y;
    const es_mem *x;
    size_t n;
} adding;

static void add_part(void *argument, es_share share)
{
    const adding *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 16);
    for (size_t n; first < end; first += n) {
        n = es_cpu_piece(j->backend, end - first);
        float *y = es_cpu_change(j->backend, share, 0, j->y, first, n);
        j->backend->kernels->combine(
            y, y, es_cpu_open(j->backend, share, 1, j->x, first, n), 1, 1, n);
        es_cpu_close_gradient(j->backend, j->y, first, y, n);
    }
}

void es_cpu_add_gradient(es_backend *backend, es_mem *y, const es_mem *x,
                         size_t n)
{
    adding j = {backend, y, x, n};
    es_team_run(backend->team, add_part, &j);
}
