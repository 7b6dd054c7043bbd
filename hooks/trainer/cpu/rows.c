/* Operations that take rows one by one: embedding, LayerNorm, cross-entropy. */
#include "hooks/trainer/cpu/cpu.h"

#include <assert.h>
#include <string.h>

/* Rows of a slab come in multiples of this: no line of the cache has two
 * owners. */
#define ROW_UNIT 16

static const int32_t *read_tokens(const es_mem *tokens)
{
    return (const int32_t *)(const void *)tokens;
}

/* --- embedding ------------------------------------------------------------ */

typedef struct embedding {
    const es_backend *backend;
    float *x;
    const float *wte, *wpe, *dx;
    float *dwte, *dwpe;
    const int32_t *tokens;
    int n_rows, n_ctx, width;
} embedding;

static void embed_part(void *argument, es_share share)
{
    const embedding *e = argument;
    const size_t n = (size_t)e->width;
    es_slab slab = es_cpu_slab(share, e->n_rows, 1);
    for (int i = slab.first; i < slab.first + slab.n; i++)
        e->backend->kernels->start_rows(
            e->x + (size_t)i * n, e->wte + (size_t)e->tokens[i] * n,
            e->wpe ? e->wpe + (size_t)(i % e->n_ctx) * n : NULL, 1, e->width);
    es_cpu_round(e->backend, e->x + (size_t)slab.first * n, (size_t)slab.n * n);
}

void es_cpu_embed(es_backend *backend, es_mem *x, const es_mem *tokens,
                  const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                  int width)
{
    embedding e = {.backend = backend,
                   .x = es_cpu_floats(x),
                   .wte = es_cpu_read(wte),
                   .wpe = es_cpu_read(wpe),
                   .tokens = read_tokens(tokens),
                   .n_rows = n_batch * n_ctx,
                   .n_ctx = n_ctx,
                   .width = width};
    es_team_run(backend->team, embed_part, &e);
}

/* Threads share out the columns: rows may meet in one token. */
static void embed_backward_part(void *argument, es_share share)
{
    const embedding *e = argument;
    const es_cpu_kernels *kernels = e->backend->kernels;
    const size_t n = (size_t)e->width;
    es_slab slab = es_cpu_slab(share, e->width, ROW_UNIT);
    for (int i = 0; i < e->n_rows; i++) {
        const float *from = e->dx + (size_t)i * n + slab.first;
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
                   .dx = es_cpu_read(dx),
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
    float *y, *mean, *rstd;
    const float *x, *weight, *bias, *dy;
    float *dx, *dweight, *dbias;
    int n_rows, width;
} norm;

static void norm_part(void *argument, es_share share)
{
    const norm *n = argument;
    es_slab slab = es_cpu_slab(share, n->n_rows, ROW_UNIT);
    size_t at = (size_t)slab.first * (size_t)n->width;
    n->backend->kernels->layer_norm(n->y + at, n->mean + slab.first,
                                    n->rstd + slab.first, n->x + at, n->weight,
                                    n->bias, slab.n, n->width);
    es_cpu_round(n->backend, n->y + at, (size_t)slab.n * (size_t)n->width);
}

void es_cpu_layer_norm(es_backend *backend, es_mem *y, es_mem *mean,
                       es_mem *rstd, const es_mem *x, const es_mem *weight,
                       const es_mem *bias, int n_rows, int width)
{
    norm n = {.backend = backend,
              .y = es_cpu_floats(y),
              .mean = es_cpu_floats(mean),
              .rstd = es_cpu_floats(rstd),
              .x = es_cpu_read(x),
              .weight = es_cpu_read(weight),
              .bias = es_cpu_read(bias),
              .n_rows = n_rows,
              .width = width};
    es_team_run(backend->team, norm_part, &n);
}

/* Leaves the slab's dweight, dbias in the thread's scratch. */
static void norm_backward_part(void *argument, es_share share)
{
    const norm *n = argument;
    es_slab slab = es_cpu_slab(share, n->n_rows, ROW_UNIT);
    size_t at = (size_t)slab.first * (size_t)n->width;
    float *sums = es_cpu_scratch(n->backend, share);
    memset(sums, 0, 2 * (size_t)n->width * sizeof *sums);
    n->backend->kernels->layer_norm_backward(
        n->dx + at, sums, sums + n->width, n->dy + at, n->x + at,
        n->mean + slab.first, n->rstd + slab.first, n->weight, slab.n,
        n->width);
}

void es_cpu_layer_norm_backward(es_backend *backend, es_mem *dx,
                                es_mem *dweight, es_mem *dbias,
                                const es_mem *dy, const es_mem *x,
                                const es_mem *mean, const es_mem *rstd,
                                const es_mem *weight, int n_rows, int width)
{
    norm n = {.backend = backend,
              .mean = (float *)es_cpu_read(mean), /* only read here */
              .rstd = (float *)es_cpu_read(rstd),
              .x = es_cpu_read(x),
              .weight = es_cpu_read(weight),
              .dy = es_cpu_read(dy),
              .dx = es_cpu_floats(dx),
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
    float *row_loss, *lse, *logits;
    const int32_t *targets;
    float scale;
    int n_rows, vocab;
} loss;

static void loss_part(void *argument, es_share share)
{
    const loss *l = argument;
    es_slab slab = es_cpu_slab(share, l->n_rows, ROW_UNIT);
    l->backend->kernels->cross_entropy(
        l->row_loss + slab.first, l->lse + slab.first,
        l->logits + (size_t)slab.first * (size_t)l->vocab,
        l->targets + slab.first, slab.n, l->vocab);
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
              .logits = (float *)es_cpu_read(logits), /* only read here */
              .targets = read_tokens(targets),
              .n_rows = n_rows,
              .vocab = vocab};
    es_team_run(backend->team, loss_part, &l);
}

static void loss_backward_part(void *argument, es_share share)
{
    const loss *l = argument;
    es_slab slab = es_cpu_slab(share, l->n_rows, ROW_UNIT);
    l->backend->kernels->cross_entropy_backward(
        l->logits + (size_t)slab.first * (size_t)l->vocab, l->lse + slab.first,
        l->targets + slab.first, l->scale, slab.n, l->vocab);
}

void es_cpu_cross_entropy_backward(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride)
{
    assert(stride == vocab);
    (void)stride;
    loss l = {.backend = backend,
              .lse = (float *)es_cpu_read(lse), /* only read here */
              .logits = es_cpu_floats(logits),
              .targets = read_tokens(targets),
              .scale = scale * es_cpu_loss_scale(control),
              .n_rows = n_rows,
              .vocab = vocab};
    es_team_run(backend->team, loss_backward_part, &l);
}
