/* Attention as operations: heads shared out among threads, the gradient of the
 * temperatures, rows that are not finite, again by their definition, and
 * rotary positions. */
#include "hooks/trainer/cpu/cpu.h"

#include "hooks/trainer/cpu/half.h"
#include <math.h>

size_t es_cpu_attention_scratch(const es_backend *backend,
                                const es_extents *largest)
{
    return backend->kernels->attention_scratch(largest->n_ctx,
                                               largest->head_width);
}

/* --- a row by its definition ---------------------------------------------- */

/* The score as the kernels have it: a float32 product. */
static double score(const es_cpu_head *head, int i, int j)
{
    const float *q = head->q + (size_t)i * head->stride;
    const float *k = head->k + (size_t)j * head->stride;
    const float scale = es_cpu_head_scale(head, i);
    const float early = head->half ? 1 : scale;
    float sum = 0;
    for (int c = 0; c < head->width; c++)
        sum += early * q[c] * k[c];
    return (double)(head->half ? es_half_round(sum) * scale : sum);
}

/* What one pass over the scores of a row gives. */
typedef struct row_sums {
    double largest, sum, moment, first, distance;
    bool finite;
} row_sums;

static row_sums sum_row(const es_cpu_head *head, int i)
{
    row_sums row = {.largest = -(double)INFINITY, .finite = true};
    for (int j = 0; j <= i; j++) {
        double s = score(head, i, j);
        row.finite = row.finite && isfinite(s);
        if (s > row.largest || isnan(s))
            row.largest = s;
    }
    for (int j = 0; j <= i; j++) {
        double x = score(head, i, j) - row.largest, p = exp(x);
        row.sum += p;
        row.moment += p > 0 ? p * x : 0;
        row.distance += p * (i - j);
        if (j == 0)
            row.first = p;
    }
    return row;
}

static void measure_softmax(double values[ES_N_ROW_STATISTICS],
                            const es_cpu_head *head, int i)
{
    const row_sums row = sum_row(head, i);
    const double log_sum = log(row.sum);
    values[ES_ROW_NONFINITE] = 0;
    for (int j = 0; !row.finite && j <= i; j++)
        values[ES_ROW_NONFINITE] +=
            !isfinite(exp(score(head, i, j) - row.largest) / row.sum);
    if (!row.finite)
        return;
    values[ES_ROW_ENTROPY] = log_sum - row.moment / row.sum;
    values[ES_ROW_LSE] = row.largest + log_sum;
    values[ES_ROW_MAX_LOGIT] = row.largest;
    values[ES_ROW_SINK] = row.first / row.sum;
    values[ES_ROW_DISTANCE] = row.distance / row.sum;
    values[ES_ROW_TOP] = 1 / row.sum;
}

void es_cpu_measure_row(const es_cpu_head *head, int i)
{
    double values[ES_N_ROW_STATISTICS];
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        values[k] = (double)NAN;
    /* Each weight of PowerSoftmax holds the largest score and the sum of all:
     * where one is not finite none is. */
    if (head->power)
        values[ES_ROW_NONFINITE] = i + 1;
    else
        measure_softmax(values, head, i);
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        if (head->rows[k])
            head->rows[k][i] = (float)values[k];
}

/* --- all heads ------------------------------------------------------------ */

typedef struct job {
    const es_backend *backend;
    const es_attention *attention;
    const es_row_mem *rows;
    const float *qkv, *temperature, *dy, *dentropy;
    float *y, *saved, *dqkv;
    float *row_sums, *dt;
} job;

/* Head `index` of B H, without statistics and gradients. */
static es_cpu_head head_of(const job *j, es_share share, int index)
{
    const es_attention *a = j->attention;
    const int b = index / a->n_head, h = index % a->n_head;
    const int width = a->d_model / a->n_head;
    const size_t d = (size_t)a->d_model, n_ctx = (size_t)a->n_ctx;
    const size_t column = (size_t)h * (size_t)width;
    const float *q = j->qkv + (size_t)b * n_ctx * 3 * d + column;
    return (es_cpu_head){
        .n_ctx = a->n_ctx,
        .width = width,
        .stride = 3 * d,
        .y_stride = d,
        .q = q,
        .k = q + d,
        .v = q + 2 * d,
        .scale = 1 / sqrtf((float)width),
        .half = j->backend->half,
        .temperature =
            j->temperature ? j->temperature + (size_t)h * n_ctx : NULL,
        .y = j->y + (size_t)b * n_ctx * d + column,
        .saved = j->saved + 2 * (size_t)index * n_ctx,
        .power = a->kind == ES_POWER_SOFTMAX ? a->power : 0,
        .epsilon = a->epsilon,
        .scratch = es_cpu_scratch(j->backend, share),
    };
}

static void attention_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    es_slab slab = es_cpu_slab(share, a->n_batch * a->n_head, 1);
    for (int index = slab.first; index < slab.first + slab.n; index++) {
        es_cpu_head head = head_of(j, share, index);
        for (int i = 0; j->rows && i < ES_N_ROW_STATISTICS; i++)
            if (j->rows->array[i] &&
                es_row_statistic_exists((es_row_statistic)i, a->kind))
                head.rows[i] = es_cpu_floats(j->rows->array[i]) +
                               (size_t)index * (size_t)a->n_ctx;
        j->backend->kernels->attention(&head);
        for (int i = 0; j->backend->half && i < head.n_ctx; i++)
            es_cpu_round(j->backend, head.y + (size_t)i * head.y_stride,
                         (size_t)head.width);
    }
}

void es_cpu_attention(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, const es_mem *qkv,
                      const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .rows = rows,
             .qkv = es_cpu_read(qkv),
             .temperature = es_cpu_read(attention->temperature),
             .y = es_cpu_floats(y),
             .saved = es_cpu_floats(saved)};
    es_team_run(backend->team, attention_part, &j);
}

static void backward_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    es_slab slab = es_cpu_slab(share, a->n_batch * a->n_head, 1);
    for (int index = slab.first; index < slab.first + slab.n; index++) {
        es_cpu_head head = head_of(j, share, index);
        size_t row = (size_t)index * (size_t)a->n_ctx;
        head.dq = j->dqkv + (head.q - j->qkv);
        head.dk = head.dq + a->d_model;
        head.dv = head.dk + a->d_model;
        head.dy = j->dy + (head.y - j->y);
        head.dentropy = j->dentropy ? j->dentropy + row : NULL;
        head.dt = j->dt ? j->row_sums + row : NULL;
        j->backend->kernels->attention_backward(&head);
    }
}

/* dt = -(1/t) sum over the batch of sum_j dz_j z_j; 0 below the floor. */
static void temperature_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    const int n = a->n_head * a->n_ctx;
    es_slab slab = es_cpu_slab(share, n, 16);
    for (int i = slab.first; i < slab.first + slab.n; i++) {
        float t = j->temperature[i], sum = 0;
        for (int b = 0; b < a->n_batch; b++)
            sum += j->row_sums[(size_t)b * (size_t)n + (size_t)i];
        if (!(t <= ES_CPU_MIN_TEMPERATURE))
            j->dt[i] -= sum / t;
    }
}

void es_cpu_attention_backward(es_backend *backend, es_mem *dqkv, es_mem *dt,
                               const es_mem *dy, const es_mem *y,
                               const es_mem *dentropy, const es_mem *qkv,
                               const es_mem *saved,
                               const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .qkv = es_cpu_read(qkv),
             .temperature = es_cpu_read(attention->temperature),
             .dy = es_cpu_read(dy),
             .dentropy = es_cpu_read(dentropy),
             .y = (float *)es_cpu_read(y), /* only read in the backward pass */
             .saved = (float *)es_cpu_read(saved),
             .dqkv = es_cpu_floats(dqkv),
             .row_sums = backend->row_sums,
             .dt = es_cpu_floats(dt)};
    es_team_run(backend->team, backward_part, &j);
    if (dt)
        es_team_run(backend->team, temperature_part, &j);
}

/* --- rotation ------------------------------------------------------------- */

/* Pythia's rotary position embedding. Of each head's q and k the first r
 * dimensions turn, in pairs (c, c + r/2): pair c of position i by the angle
 * i BASE^(-2c/r). */
#define BASE 10000.0

int es_cpu_n_rotated(int head_width)
{
    int quarter = head_width / 4 / 2 * 2;
    return quarter > 2 ? quarter : 2;
}

/* Cosines of a position's angles, then their sines. */
static void fill_turns(float *turns, int n_ctx, int n_rotated)
{
    const int n_pairs = n_rotated / 2;
    for (int i = 0; i < n_ctx; i++, turns += n_rotated)
        for (int c = 0; c < n_pairs; c++) {
            double angle = i * pow(BASE, -2.0 * c / n_rotated);
            turns[c] = (float)cos(angle);
            turns[n_pairs + c] = (float)sin(angle);
        }
}

/* One head's q or k at one position. */
static void turn(float *x, const float *turns, int n_rotated, bool back)
{
    const int n_pairs = n_rotated / 2;
    const float *cosine = turns, *sine = turns + n_pairs;
    for (int c = 0; c < n_pairs; c++) {
        float a = x[c], b = x[n_pairs + c];
        float s = back ? -sine[c] : sine[c];
        x[c] = a * cosine[c] - b * s;
        x[n_pairs + c] = b * cosine[c] + a * s;
    }
}

typedef struct rotation {
    const es_backend *backend;
    const es_attention *attention;
    float *qkv;
    bool back;
} rotation;

static void rotate_part(void *argument, es_share share)
{
    const rotation *j = argument;
    const es_attention *a = j->attention;
    const int width = a->d_model / a->n_head;
    const int n_rotated = j->backend->n_rotated;
    es_slab slab = es_cpu_slab(share, a->n_batch * a->n_ctx, 1);
    for (int row = slab.first; row < slab.first + slab.n; row++) {
        const int position = row % a->n_ctx;
        const float *turns =
            j->backend->turns + (ptrdiff_t)position * n_rotated;
        float *qk = j->qkv + (size_t)row * 3 * (size_t)a->d_model;
        /* The heads of k follow those of q. */
        for (int h = 0; h < 2 * a->n_head; h++)
            turn(qk + (ptrdiff_t)h * width, turns, n_rotated, j->back);
        if (!j->back)
            es_cpu_round(j->backend, qk, 2 * (size_t)a->d_model);
    }
}

void es_cpu_rotate(es_backend *backend, es_mem *qkv,
                   const es_attention *attention, bool back)
{
    const int n_rotated =
        es_cpu_n_rotated(attention->d_model / attention->n_head);
    /* A model has one width, so this is done once. */
    if (backend->n_rotated != n_rotated)
        fill_turns(backend->turns, backend->n_turns, n_rotated);
    backend->n_rotated = n_rotated;
    rotation j = {backend, attention, es_cpu_floats(qkv), back};
    es_team_run(backend->team, rotate_part, &j);
}
