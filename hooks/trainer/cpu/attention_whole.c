/* Computes attention of encoders, in which every query sees every key that is
 * not padding. Copies each head of a sequence without its padding to the
 * thread's scratch, processes the copy with the kernels of attention.inc.h
 * without a mask, and copies the results back. Rows of padding get outputs and
 * gradients of 0 and missing values as statistics. */
#include "hooks/trainer/cpu/activations.h"

#include "analyzer/base/value.h"

#include <string.h>

typedef struct job {
    const es_backend *backend;
    const es_attention *attention;
    es_mem *y, *dqkv;
    const es_mem *qkv, *dy;
    const es_row_mem *rows; /* NULL if no statistics are requested */
    const int32_t *tokens;  /* NULL if no token is padding */
    int padding;
    float *saved, *row_sums;
    const float *log_t, *dentropy;
} job;

/* A head of one sequence, copied without the padding: n tokens, n <= T.
 * Matrices are (n,width). */
typedef struct copies {
    es_cpu_head head;
    size_t first;      /* first row of the sequence */
    size_t column;     /* offset of the head's q in a row of qkv, and of the
                        * head's y in a row of y */
    size_t statistics; /* offset of the head's statistics in arrays of shape
                          (B,H,T) */
    int *token;        /* positions of the n tokens in the sequence */
    float *place;      /* the same n positions as floats */
    float *q, *k, *v, *y, *dy, *dq, *dk, *dv;
    float *log_t, *dentropy, *dt; /* (n) */
    float *rows;                  /* (ES_N_ROW_STATISTICS,T) */
} copies;

size_t es_cpu_whole_scratch(int n_ctx, int width)
{
    return (size_t)n_ctx * (8 * (size_t)width + 5 + ES_N_ROW_STATISTICS);
}

static float *carve_floats(float **from, size_t n)
{
    float *start = *from;
    *from += n;
    return start;
}

static void lay_out(copies *c, const job *j, es_share share, int number)
{
    const es_attention *a = j->attention;
    const es_cpu_kernels *kernels = j->backend->kernels;
    const size_t n_ctx = (size_t)a->n_ctx;
    const size_t width = (size_t)(a->d_model / a->n_head);
    float *from = es_cpu_scratch(j->backend, share);
    c->head = es_cpu_head_of_kind(a);
    c->head.scratch =
        carve_floats(&from, kernels->attention_scratch(a->n_ctx, (int)width));
    float **const matrices[] = {&c->q,  &c->k,  &c->v,  &c->y,
                                &c->dy, &c->dq, &c->dk, &c->dv};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        *matrices[i] = carve_floats(&from, n_ctx * width);
    float **const vectors[] = {&c->place, &c->log_t, &c->dentropy, &c->dt};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        *vectors[i] = carve_floats(&from, n_ctx);
    c->token = (int *)(void *)carve_floats(&from, n_ctx);
    c->rows = carve_floats(&from, n_ctx * ES_N_ROW_STATISTICS);
    c->first = (size_t)(number / a->n_head) * n_ctx;
    c->column = (size_t)(number % a->n_head) * width;
    c->statistics = (size_t)number * n_ctx;
}

/* Copies the head's columns, from column `column` on, of the rows of `from`
 * that belong to tokens other than padding. The rows of `from` are `stride`
 * numbers apart. */
static void copy_in(float *out, const copies *c, const job *j, es_share share,
                    const es_mem *from, size_t stride, size_t column)
{
    const size_t width = (size_t)c->head.width;
    for (int i = 0; i < c->head.n_ctx; i++, out += width) {
        const size_t row = c->first + (size_t)c->token[i];
        memcpy(out,
               es_cpu_open(j->backend, share, 0, from, row * stride + column,
                           width),
               width * sizeof *out);
    }
}

/* Copies the rows of tokens from `from` back to the matrix `to`, and writes 0
 * to rows of padding. With `rounds`, rounds the values to the precision of
 * activations. */
static void copy_out(const copies *c, const job *j, es_share share, es_mem *to,
                     size_t stride, size_t column, const float *from,
                     bool rounds)
{
    const size_t width = (size_t)c->head.width;
    for (int t = 0, i = 0; t < j->attention->n_ctx; t++) {
        const size_t at = (c->first + (size_t)t) * stride + column;
        const bool is_there = i < c->head.n_ctx && c->token[i] == t;
        float *out = es_cpu_place(j->backend, share, 0, to, at);
        for (size_t x = 0; x < width; x++)
            out[x] = is_there ? from[(size_t)i * width + x] : 0;
        if (rounds)
            es_cpu_round(j->backend, out, width);
        es_cpu_close_gradient(j->backend, to, at, out, width);
        i += is_there;
    }
}

/* Prepares the inputs of one head for the kernels; `number` is its index among
 * the B * H heads. The caller sets the pointers to results. */
static void open_head(copies *c, const job *j, es_share share, int number)
{
    const es_attention *a = j->attention;
    const size_t d = (size_t)a->d_model;
    lay_out(c, j, share, number);
    es_cpu_head *head = &c->head;
    head->n_ctx = 0;
    for (int t = 0; t < a->n_ctx; t++) {
        if (j->tokens && j->tokens[c->first + (size_t)t] == j->padding)
            continue;
        c->token[head->n_ctx] = t;
        c->place[head->n_ctx] = (float)t;
        if (j->log_t)
            c->log_t[head->n_ctx] =
                j->log_t[(size_t)(number % a->n_head) * (size_t)a->n_ctx +
                         (size_t)t];
        head->n_ctx++;
    }
    copy_in(c->q, c, j, share, j->qkv, 3 * d, c->column);
    copy_in(c->k, c, j, share, j->qkv, 3 * d, c->column + d);
    copy_in(c->v, c, j, share, j->qkv, 3 * d, c->column + 2 * d);
    head->q = c->q;
    head->k = c->k;
    head->v = c->v;
    head->y = c->y;
    head->stride = head->y_stride = (size_t)head->width;
    head->half = j->backend->half;
    head->log_t = j->log_t ? c->log_t : NULL;
    head->saved = j->saved + 2 * c->statistics;
    head->place = c->place;
    head->context = a->n_ctx;
}

/* --- forward -------------------------------------------------------------- */

/* Writes the statistics of rows of padding: 0 for the number of non-finite
 * weights, and missing values (NaN) for all other statistics. */
static void put_statistics(const copies *c, const job *j)
{
    const int n_ctx = j->attention->n_ctx;
    for (int s = 0; s < ES_N_ROW_STATISTICS; s++) {
        if (!c->head.rows[s])
            continue;
        float *to = es_cpu_floats(j->rows->array[s]) + c->statistics;
        for (int t = 0; t < n_ctx; t++)
            to[t] = s == ES_ROW_NONFINITE ? 0 : es_missing();
        for (int i = 0; i < c->head.n_ctx; i++)
            to[c->token[i]] = c->head.rows[s][i];
    }
}

static void whole_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    const es_slab slab = es_cpu_slab(share, a->n_batch * a->n_head, 1);
    for (int number = slab.first; number < slab.first + slab.n; number++) {
        copies c;
        open_head(&c, j, share, number);
        for (int s = 0; j->rows && s < ES_N_ROW_STATISTICS; s++)
            if (j->rows->array[s] &&
                es_row_statistic_exists((es_row_statistic)s, a->kind))
                c.head.rows[s] = c.rows + s * a->n_ctx;
        if (c.head.n_ctx > 0)
            j->backend->kernels->attention(&c.head);
        copy_out(&c, j, share, j->y, (size_t)a->d_model, c.column, c.y, true);
        put_statistics(&c, j);
    }
}

void es_cpu_attention_whole(es_backend *backend, es_mem *y, es_mem *saved,
                            const es_row_mem *rows, const es_mem *qkv,
                            const es_mem *tokens, int padding,
                            const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .y = y,
             .qkv = qkv,
             .rows = rows,
             .tokens = (const int32_t *)(const void *)tokens,
             .padding = padding,
             .log_t = es_cpu_read(attention->log_t),
             .saved = es_cpu_floats(saved)};
    es_team_run(backend->team, whole_part, &j);
}

/* --- backward ------------------------------------------------------------- */

static void open_gradients(copies *c, const job *j, es_share share)
{
    const size_t d = (size_t)j->attention->d_model;
    es_cpu_head *head = &c->head;
    copy_in(c->y, c, j, share, j->y, d, c->column);
    copy_in(c->dy, c, j, share, j->dy, d, c->column);
    for (int i = 0; j->dentropy && i < head->n_ctx; i++)
        c->dentropy[i] = j->dentropy[c->statistics + (size_t)c->token[i]];
    head->dy = c->dy;
    head->dq = c->dq;
    head->dk = c->dk;
    head->dv = c->dv;
    head->dentropy = j->dentropy ? c->dentropy : NULL;
    head->dt = j->log_t ? c->dt : NULL;
}

static void whole_backward_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    const size_t d = (size_t)a->d_model;
    const es_slab slab = es_cpu_slab(share, a->n_batch * a->n_head, 1);
    for (int number = slab.first; number < slab.first + slab.n; number++) {
        copies c;
        open_head(&c, j, share, number);
        open_gradients(&c, j, share);
        if (c.head.n_ctx > 0)
            j->backend->kernels->attention_backward(&c.head);
        copy_out(&c, j, share, j->dqkv, 3 * d, c.column, c.dq, false);
        copy_out(&c, j, share, j->dqkv, 3 * d, c.column + d, c.dk, false);
        copy_out(&c, j, share, j->dqkv, 3 * d, c.column + 2 * d, c.dv, false);
        if (!c.head.dt)
            continue;
        memset(j->row_sums + c.statistics, 0,
               (size_t)a->n_ctx * sizeof *j->row_sums);
        for (int i = 0; i < c.head.n_ctx; i++)
            j->row_sums[c.statistics + (size_t)c.token[i]] = c.dt[i];
    }
}

void es_cpu_attention_whole_backward(es_backend *backend, es_mem *dqkv,
                                     es_mem *dlog_t, const es_mem *dy,
                                     const es_mem *y, const es_mem *dentropy,
                                     const es_mem *qkv, const es_mem *saved,
                                     const es_mem *tokens, int padding,
                                     const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .y = (es_mem *)(uintptr_t)y, /* y is not written in the backward
                                           * pass */
             .dqkv = dqkv,
             .qkv = qkv,
             .dy = dy,
             .tokens = (const int32_t *)(const void *)tokens,
             .padding = padding,
             .saved = (float *)(uintptr_t)es_cpu_read(saved),
             .row_sums = backend->row_sums,
             .log_t = es_cpu_read(attention->log_t),
             .dentropy = es_cpu_read(dentropy)};
    es_team_run(backend->team, whole_backward_part, &j);
    if (dlog_t)
        es_cpu_add_temperatures(backend, dlog_t, attention);
}
