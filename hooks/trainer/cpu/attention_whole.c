/* Attention of encoders: every query sees every key that is no padding. For
 * forward passes of models that exist: plain loops over keys, which lie along
 * the lanes, and the rows' statistics by their definition. */
#include "hooks/trainer/cpu/activations.h"

#include "analyzer/base/value.h"

#include <math.h>
#include <stdlib.h>

typedef struct job {
    const es_backend *backend;
    const es_attention *attention;
    es_mem *y;
    const es_mem *qkv;
    const es_row_mem *rows; /* NULL: none */
    const int32_t *tokens;
    int padding;
} job;

/* One head of one sequence; T keys at most, of which n are visible. */
typedef struct head {
    int width, n;
    int *key;        /* (n) places of the visible ones */
    float *keys;     /* (width,n), scaled */
    float *values;   /* (n,width) */
    float *scores;   /* (n), then weights */
    size_t first_of; /* its q in a row of qkv */
} head;

size_t es_cpu_whole_scratch(int n_ctx, int width)
{
    return (size_t)n_ctx * (2 * (size_t)width + 2);
}

static size_t row_at(const job *j, int sequence, int i)
{
    const es_attention *a = j->attention;
    return ((size_t)sequence * (size_t)a->n_ctx + (size_t)i) * 3 *
           (size_t)a->d_model;
}

/* Copies the visible keys and values of a head. */
static void gather(head *to, const job *j, es_share share, int sequence)
{
    const es_attention *a = j->attention;
    const int32_t *tokens = j->tokens + (size_t)sequence * (size_t)a->n_ctx;
    const size_t width = (size_t)to->width, d = (size_t)a->d_model;
    const float scale = 1 / sqrtf((float)to->width);
    to->n = 0;
    for (int i = 0; i < a->n_ctx; i++)
        if (tokens[i] != j->padding)
            to->key[to->n++] = i;
    for (int k = 0; k < to->n; k++) {
        const size_t at = row_at(j, sequence, to->key[k]) + to->first_of;
        const float *x =
            es_cpu_open(j->backend, share, 0, j->qkv, at + d, width);
        for (size_t c = 0; c < width; c++)
            to->keys[c * (size_t)to->n + (size_t)k] = x[c] * scale;
        x = es_cpu_open(j->backend, share, 0, j->qkv, at + 2 * d, width);
        for (size_t c = 0; c < width; c++)
            to->values[(size_t)k * width + c] = x[c];
    }
}

/* scores (n) of a query; their largest. NaN if one is not finite. */
static float score(const head *h, const float *q)
{
    float largest = -INFINITY;
    bool finite = true;
    for (int k = 0; k < h->n; k++)
        h->scores[k] = 0;
    for (int c = 0; c < h->width; c++)
        for (int k = 0; k < h->n; k++)
            h->scores[k] +=
                q[c] * h->keys[(size_t)c * (size_t)h->n + (size_t)k];
    for (int k = 0; k < h->n; k++) {
        finite = finite && isfinite(h->scores[k]);
        largest = h->scores[k] > largest ? h->scores[k] : largest;
    }
    return finite ? largest : NAN;
}

/* What is known of the row of query i, from its scores; they become weights. */
static void weigh(double values[ES_N_ROW_STATISTICS], const head *h,
                  float largest, int i)
{
    double sum = 0, moment = 0, distance = 0, apart = 0, squares = 0;
    for (int k = 0; k < h->n; k++) {
        const double x = (double)(h->scores[k] - largest), p = exp(x);
        apart += x;
        squares += x * x;
        sum += p;
        moment += p > 0 ? p * x : 0;
        distance += p * abs(i - h->key[k]);
        h->scores[k] = (float)p;
    }
    const float share = (float)(1 / sum);
    for (int k = 0; k < h->n; k++)
        h->scores[k] *= share;
    apart /= h->n;
    values[ES_ROW_ENTROPY] = log(sum) - moment / sum;
    values[ES_ROW_LSE] = (double)largest + log(sum);
    values[ES_ROW_MAX_LOGIT] = (double)largest;
    values[ES_ROW_SINK] = (double)h->scores[0];
    values[ES_ROW_DISTANCE] = distance / sum;
    values[ES_ROW_TOP] = 1 / sum;
    values[ES_ROW_LOGIT_MEAN] = (double)largest + apart;
    values[ES_ROW_LOGIT_VARIANCE] = fmax(0, squares / h->n - apart * apart);
}

/* Rows of padding are none: missing, and 0 weights that are not finite. */
static void put(const job *j, int number, int i, const double *values,
                bool is_there)
{
    const size_t at = (size_t)number * (size_t)j->attention->n_ctx + (size_t)i;
    for (int s = 0; j->rows && s < ES_N_ROW_STATISTICS; s++) {
        es_mem *to = j->rows->array[s];
        if (to)
            es_cpu_floats(to)[at] = is_there || s == ES_ROW_NONFINITE
                                        ? (float)values[s]
                                        : es_missing();
    }
}

static void take_row(const job *j, es_share share, const head *h, int number,
                     int i)
{
    const es_attention *a = j->attention;
    const int sequence = number / a->n_head;
    const size_t width = (size_t)h->width;
    const size_t row = row_at(j, sequence, i), at = row / 3 + h->first_of;
    const bool is_there =
        j->tokens[(size_t)sequence * (size_t)a->n_ctx + (size_t)i] !=
        j->padding;
    double values[ES_N_ROW_STATISTICS] = {0};
    const float largest =
        h->n > 0 ? score(h, es_cpu_open(j->backend, share, 0, j->qkv,
                                        row + h->first_of, width))
                 : 0;
    float *y = es_cpu_place(j->backend, share, 1, j->y, at);
    if (isnan(largest)) {
        for (int s = 0; s < ES_N_ROW_STATISTICS; s++)
            values[s] = (double)NAN;
        values[ES_ROW_NONFINITE] = is_there ? h->n : 0;
        for (int k = 0; k < h->n; k++)
            h->scores[k] = NAN;
    } else if (h->n > 0) {
        weigh(values, h, largest, i);
    }
    for (size_t c = 0; c < width; c++)
        y[c] = 0;
    for (int k = 0; k < h->n; k++)
        for (size_t c = 0; c < width; c++)
            y[c] += h->scores[k] * h->values[(size_t)k * width + c];
    es_cpu_close(j->backend, j->y, at, y, width);
    put(j, number, i, values, is_there);
}

static void whole_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    const es_slab slab = es_cpu_slab(share, a->n_batch * a->n_head, 1);
    const int width = a->d_model / a->n_head;
    const size_t size = (size_t)a->n_ctx * (size_t)width;
    float *scratch = es_cpu_scratch(j->backend, share);
    for (int number = slab.first; number < slab.first + slab.n; number++) {
        head h = {.width = width,
                  .keys = scratch,
                  .values = scratch + size,
                  .scores = scratch + 2 * size,
                  .key = (int *)(void *)(scratch + 2 * size + a->n_ctx),
                  .first_of = (size_t)(number % a->n_head) * (size_t)width};
        gather(&h, j, share, number / a->n_head);
        for (int i = 0; i < a->n_ctx; i++)
            take_row(j, share, &h, number, i);
    }
}

void es_cpu_attention_whole(es_backend *backend, es_mem *y,
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
             .padding = padding};
    es_team_run(backend->team, whole_part, &j);
}
