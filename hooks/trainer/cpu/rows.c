/* Implements operations that process rows one by one: embedding, LayerNorm,
 * cross-entropy. Threads split the rows. If several rows contribute to the same
 * sum, threads split the columns instead. */
#include "hooks/trainer/cpu/activations.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The number of rows in a thread's range (slab) is a multiple of this number,
 * so that no two threads write to the same cache line. */
#define ROW_UNIT 16

static const int32_t *read_tokens(const es_mem *tokens)
{
    return (const int32_t *)(const void *)tokens;
}

/* --- embedding ------------------------------------------------------------ */

typedef struct embedding {
    const es_backend *backend;
    es_mem *x;
    const es_mem *dx;
    const float *wte, *wpe;
    float *dwte, *dwpe;
    const int32_t *tokens;
    int n_rows, n_ctx, width;
} embedding;

static void embed_part(void *argument, es_share share)
{
    const embedding *e = argument;
    const size_t n = (size_t)e->width;
    es_slab slab = es_cpu_slab(share, e->n_rows, 1);
    ES_CPU_EACH_CHUNK(rows, e->backend, slab, e->width)
    {
        const size_t at = (size_t)rows.first * n;
        float *x = es_cpu_place(e->backend, share, 0, e->x, at), *to = x;
        for (int i = rows.first; i < rows.first + rows.n; i++, to += n)
            e->backend->kernels->start_rows(
                to, e->wte + (size_t)e->tokens[i] * n,
                e->wpe ? e->wpe + (size_t)(i % e->n_ctx) * n : NULL, 1,
                e->width);
        es_cpu_close(e->backend, e->x, at, x, (size_t)rows.n * n);
    }
}

void es_cpu_embed(es_backend *backend, es_mem *x, const es_mem *tokens,
                  const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                  int width)
{
    embedding e = {.backend = backend,
                   .x = x,
                   .wte = es_cpu_read(wte),
                   .wpe = es_cpu_read(wpe),
                   .tokens = read_tokens(tokens),
                   .n_rows = n_batch * n_ctx,
                   .n_ctx = n_ctx,
                   .width = width};
    es_team_run(backend->team, embed_part, &e);
}

/* Threads split the columns, because several rows may hold the same token and
 * add to the same row of dwte. */
static void embed_backward_part(void *argument, es_share share)
{
    const embedding *e = argument;
    const es_cpu_kernels *kernels = e->backend->kernels;
    const size_t n = (size_t)e->width;
    es_slab slab = es_cpu_slab(share, e->width, ROW_UNIT);
    for (int i = 0; i < e->n_rows; i++) {
        const float *from =
            es_cpu_open(e->backend, share, 0, e->dx,
                        (size_t)i * n + (size_t)slab.first, (size_t)slab.n);
        size_t token = (size_t)e->tokens[i], place = (size_t)(i % e->n_ctx);
        kernels->add_bias(e->dwte + token * n + slab.first, from, 1, slab.n);
        if (e->dwpe)
            kernels->add_bias(e->dwpe + place * n + slab.first, from, 1,
                              slab.n);
    }
}

void es_cpu_embed_backward(es_backend *backend, es_mem *dwte, es_mem *dwpe,
                           const es_mem *tokens, const es_mem *dx, int n_batch,
                           int n_ctx, int width)
{
    embedding e = {.backend = backend,
                   .dx = dx,
                   .dwte = es_cpu_floats(dwte),
                   .dwpe = es_cpu_floats(dwpe),
                   .tokens = read_tokens(tokens),
                   .n_rows = n_batch * n_ctx,
                   .n_ctx = n_ctx,
                   .width = width};
    es_team_run(backend->team, embed_backward_part, &e);
}

/* --- layer norm ----------------------------------------------------------- */

typedef struct norm {
    const es_backend *backend;
    es_mem *y, *dx, *peak;
    const es_mem *x, *dy;
    float *mean, *rstd;
    const float *weight, *bias;
    int n_rows, width;
    float epsilon;
} norm;

static void norm_part(void *argument, es_share share)
{
    const norm *n = argument;
    es_slab slab = es_cpu_slab(share, n->n_rows, ROW_UNIT);
    es_cpu_start_peak(n->backend, share);
    ES_CPU_EACH_CHUNK(rows, n->backend, slab, n->width)
    {
        const size_t at = (size_t)rows.first * (size_t)n->width;
        const size_t size = (size_t)rows.n * (size_t)n->width;
        float *y = es_cpu_place(n->backend, share, 0, n->y, at);
        const float *x = es_cpu_open(n->backend, share, 1, n->x, at, size);
        const uint32_t largest = n->backend->kernels->layer_norm(
            y, n->mean + rows.first, n->rstd + rows.first, x, n->weight,
            n->bias, rows.n, n->width, n->epsilon);
        if (n->peak)
            es_cpu_see_size(n->backend, share, largest, at, size);
        es_cpu_close(n->backend, n->y, at, y, size);
    }
}

void es_cpu_layer_norm(es_backend *backend, es_mem *y, es_mem *mean,
                       es_mem *rstd, es_mem *peak, const es_mem *x,
                       const es_mem *weight, const es_mem *bias, int n_rows,
                       int width, float epsilon)
{
    norm n = {.backend = backend,
              .y = y,
              .peak = peak,
              .mean = es_cpu_floats(mean),
              .rstd = es_cpu_floats(rstd),
              .x = x,
              .weight = es_cpu_read(weight),
              .bias = es_cpu_read(bias),
              .n_rows = n_rows,
              .width = width,
              .epsilon = epsilon};
    es_team_run(backend->team, norm_part, &n);
    if (peak)
        es_cpu_keep_peak(backend, peak, x);
}

/* Computes the gradients of the thread's rows. Stores the rows' contributions
 * to dweight and dbias in the thread's scratch memory. */
static void norm_backward_part(void *argument, es_share share)
{
    const norm *n = argument;
    es_slab slab = es_cpu_slab(share, n->n_rows, ROW_UNIT);
    float *sums = es_cpu_scratch(n->backend, share);
    memset(sums, 0, 2 * (size_t)n->width * sizeof *sums);
    ES_CPU_EACH_CHUNK(rows, n->backend, slab, n->width)
    {
        const size_t at = (size_t)rows.first * (size_t)n->width;
        const size_t size = (size_t)rows.n * (size_t)n->width;
        float *dx = es_cpu_change(n->backend, share, 0, n->dx, at, size);
        n->backend->kernels->layer_norm_backward(
            dx, sums, sums + n->width,
            es_cpu_open(n->backend, share, 1, n->dy, at, size),
            es_cpu_open(n->backend, share, 2, n->x, at, size),
            n->mean + rows.first, n->rstd + rows.first, n->weight, rows.n,
            n->width);
        es_cpu_close_gradient(n->backend, n->dx, at, dx, size);
    }
}

void es_cpu_layer_norm_backward(es_backend *backend, es_mem *dx,
                                es_mem *dweight, es_mem *dbias,
                                const es_mem *dy, const es_mem *x,
                                const es_mem *mean, const es_mem *rstd,
                                const es_mem *weight, int n_rows, int width)
{
    norm n = {.backend = backend,
              /* The casts remove const, but mean and rstd are not written. */
              .mean = (float *)es_cpu_read(mean),
              .rstd = (float *)es_cpu_read(rstd),
              .x = x,
              .weight = es_cpu_read(weight),
              .dy = dy,
              .dx = dx,
              .n_rows = n_rows,
              .width = width};
    es_team_run(backend->team, norm_backward_part, &n);
    for (int t = 0; t < backend->n_threads; t++) {
        const float *sums =
            backend->scratch + (size_t)t * backend->scratch_size;
        backend->kernels->add_bias(es_cpu_floats(dweight), sums, 1, width);
        backend->kernels->add_bias(es_cpu_floats(dbias), sums + width, 1,
                                   width);
    }
}

/* --- loss ----------------------------------------------------------------- */

typedef struct loss {
    const es_backend *backend;
    float *row_loss, *lse;
    es_mem *logits;
    const int32_t *targets;
    float scale;
    int n_rows, vocab;
} loss;

/* Returns how many columns of a row of bf16 logits, starting at column `first`,
 * fit in a panel (conversion buffer). */
static int columns_from(const loss *l, int first)
{
    const int most = (int)l->backend->panel_size;
    return l->vocab - first < most ? l->vocab - first : most;
}

/* Computes the loss of a row of bf16 logits: divides the row into parts that
 * fit in a panel (conversion buffer), computes the log-sum-exp of each part,
 * and combines the results. */
static void row_part(const loss *l, es_share share, int row)
{
    const size_t at = (size_t)row * (size_t)l->vocab;
    const int32_t target = l->targets[row];
    double largest = -(double)INFINITY, sum = 0;
    for (int first = 0, n; first < l->vocab; first += n) {
        float unused, lse;
        n = columns_from(l, first);
        const float *logits = es_cpu_open(l->backend, share, 0, l->logits,
                                          at + (size_t)first, (size_t)n);
        l->backend->kernels->cross_entropy(&unused, &lse, logits, &(int32_t){0},
                                           1, n);
        const double next = (double)lse > largest ? (double)lse : largest;
        sum = sum * exp(largest - next) + exp((double)lse - next);
        largest = next;
    }
    const double lse = largest + log(sum);
    const es_bfloat logit = es_cpu_halves(l->logits)[at + (size_t)target];
    l->lse[row] = (float)lse;
    l->row_loss[row] = (float)(lse - (double)es_bfloat_read(logit));
}

/* Returns the longest sequence of rows that starts at row `first` of the
 * thread's range `slab` and in which either all rows have a target or no row
 * has one. */
static es_slab run_from(const loss *l, es_slab slab, int first)
{
    const int end = slab.first + slab.n;
    int i = first;
    while (i < end && (l->targets[i] == ES_NO_TARGET) ==
                          (l->targets[first] == ES_NO_TARGET))
        i++;
    return (es_slab){first, i - first};
}

static void loss_part(void *argument, es_share share)
{
    const loss *l = argument;
    const es_slab slab = es_cpu_slab(share, l->n_rows, ROW_UNIT);
    es_slab run;
    for (int at = slab.first; at < slab.first + slab.n; at += run.n) {
        run = run_from(l, slab, at);
        if (l->targets[at] == ES_NO_TARGET) {
            memset(l->row_loss + at, 0, (size_t)run.n * sizeof *l->row_loss);
            memset(l->lse + at, 0, (size_t)run.n * sizeof *l->lse);
            continue;
        }
        if (!l->backend->bf16)
            l->backend->kernels->cross_entropy(
                l->row_loss + at, l->lse + at,
                es_cpu_read(l->logits) + (size_t)at * (size_t)l->vocab,
                l->targets + at, run.n, l->vocab);
        for (int i = at; l->backend->bf16 && i < at + run.n; i++)
            row_part(l, share, i);
    }
}

void es_cpu_cross_entropy(es_backend *backend, es_mem *row_loss, es_mem *lse,
                          const es_mem *logits, const es_mem *targets,
                          int n_rows, int vocab, int stride)
{
    assert(stride == vocab);
    (void)stride;
    loss l = {.backend = backend,
              .row_loss = es_cpu_floats(row_loss),
              .lse = es_cpu_floats(lse),
              .logits = (es_mem *)logits, /* the cast removes const, but
                                             logits are not written */
              .targets = read_tokens(targets),
              .n_rows = n_rows,
              .vocab = vocab};
    es_team_run(backend->team, loss_part, &l);
}

static void row_backward_part(const loss *l, es_share share, int row)
{
    for (int first = 0, n; first < l->vocab; first += n) {
        const size_t at = (size_t)row * (size_t)l->vocab + (size_t)first;
        const int32_t target = l->targets[row] - first;
        n = columns_from(l, first);
        float *logits =
            es_cpu_change(l->backend, share, 0, l->logits, at, (size_t)n);
        l->backend->kernels->cross_entropy_backward(logits, l->lse + row,
                                                    &target, l->scale, 1, n);
        es_cpu_close_gradient(l->backend, l->logits, at, logits, (size_t)n);
    }
}

static void loss_backward_part(void *argument, es_share share)
{
    const loss *l = argument;
    const es_slab slab = es_cpu_slab(share, l->n_rows, ROW_UNIT);
    const size_t size = (size_t)l->vocab * es_cpu_act_size(l->backend);
    es_slab run;
    for (int at = slab.first; at < slab.first + slab.n; at += run.n) {
        run = run_from(l, slab, at);
        if (l->targets[at] == ES_NO_TARGET) {
            memset((char *)l->logits + (size_t)at * size, 0,
                   (size_t)run.n * size);
            continue;
        }
        if (!l->backend->bf16)
            l->backend->kernels->cross_entropy_backward(
                es_cpu_floats(l->logits) + (size_t)at * (size_t)l->vocab,
                l->lse + at, l->targets + at, l->scale, run.n, l->vocab);
        for (int i = at; l->backend->bf16 && i < at + run.n; i++)
            row_backward_part(l, share, i);
    }
}

void es_cpu_cross_entropy_backward(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride)
{
    assert(stride == vocab);
    (void)stride;
    loss l = {.backend = backend,
              .lse = (float *)es_cpu_read(lse), /* the cast removes const,
                                                   but lse is not written */
              .logits = logits,
              .targets = read_tokens(targets),
              .scale = scale * es_cpu_loss_scale(control),
              .n_rows = n_rows,
              .vocab = vocab};
    es_team_run(backend->team, loss_backward_part, &l);
}
