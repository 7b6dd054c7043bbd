/* Implements the attention operations on the CPU: distributes heads among
 * threads, computes the gradient of the temperatures, and rotates queries and
 * keys by their positions. */
#include "hooks/trainer/cpu/activations.h"

#include <math.h>
#include <string.h>

size_t es_cpu_attention_scratch(const es_backend *backend,
                                const es_extents *largest)
{
    const size_t size = backend->kernels->attention_scratch(
        largest->n_ctx, largest->head_width);
    const size_t copies = es_cpu_halves_scratch(
        largest->n_ctx, largest->head_width, backend->kernels->lanes);
    const size_t tiles =
        backend->tiles
            ? backend->tiles->scratch(largest->n_ctx, largest->head_width)
            : 0;
    if (!backend->bf16)
        return size;
    return size + copies > tiles ? size + copies : tiles;
}

/* --- all heads ------------------------------------------------------------ */

typedef struct job {
    const es_backend *backend;
    const es_attention *attention;
    const es_row_mem *rows;
    const es_mem *qkv, *dy;
    es_mem *y, *dqkv;
    const float *log_t, *dentropy;
    float *saved, *row_sums, *dlog_t;
} job;

/* Sets the head's pointers to its float32 activations, which start at element
 * `at` of qkv and at element y_at of y. */
static void attach_floats(es_cpu_head *head, const job *j, size_t at,
                          size_t y_at)
{
    const size_t d = head->y_stride;
    head->q = es_cpu_read(j->qkv) + at;
    head->k = head->q + d;
    head->v = head->k + d;
    head->y = es_cpu_floats(j->y) + y_at;
    if (!j->dqkv)
        return;
    head->dy = es_cpu_read(j->dy) + y_at;
    head->dq = es_cpu_floats(j->dqkv) + at;
    head->dk = head->dq + d;
    head->dv = head->dk + d;
}

/* Same as attach_floats, for bf16 activations. */
static void attach_halves(es_cpu_head *head, const job *j, size_t at,
                          size_t y_at)
{
    const size_t d = head->y_stride;
    es_cpu_half_head *halves = &head->halves;
    *halves = (es_cpu_half_head){.stride = 3 * d, .y_stride = d};
    halves->q = es_cpu_halves(j->qkv) + at;
    halves->k = halves->q + d;
    halves->v = halves->k + d;
    halves->y = es_cpu_halves(j->y) + y_at;
    if (!j->dqkv)
        return;
    halves->dy = es_cpu_halves(j->dy) + y_at;
    halves->dq = es_cpu_halves(j->dqkv) + at;
    halves->dk = halves->dq + d;
    halves->dv = halves->dk + d;
}

es_cpu_head es_cpu_head_of_kind(const es_attention *a)
{
    const int width = a->d_model / a->n_head;
    return (es_cpu_head){.n_ctx = a->n_ctx,
                         .width = width,
                         .scale = 1 / sqrtf((float)width),
                         .power = a->kind == ES_SOFTMAX       ? 0
                                  : a->kind == ES_SCALED_RELU ? ES_CPU_RELU
                                                              : a->power,
                         .epsilon = a->epsilon,
                         .plain = a->plain || a->kind == ES_SCALED_RELU,
                         .length = a->length};
}

/* Returns head `index` of all B * H heads, without pointers to statistics or
 * gradients. */
static es_cpu_head head_of(const job *j, es_share share, int index)
{
    const es_attention *a = j->attention;
    const int b = index / a->n_head, h = index % a->n_head;
    const int width = a->d_model / a->n_head;
    const size_t d = (size_t)a->d_model, n_ctx = (size_t)a->n_ctx;
    const size_t column = (size_t)h * (size_t)width;
    es_cpu_head head = es_cpu_head_of_kind(a);
    head.stride = 3 * d;
    head.y_stride = d;
    head.half = j->backend->half;
    head.log_t = j->log_t ? j->log_t + (size_t)h * n_ctx : NULL;
    head.saved = j->saved + 2 * (size_t)index * n_ctx;
    head.scratch = es_cpu_scratch(j->backend, share);
    (j->backend->bf16 ? attach_halves : attach_floats)(
        &head, j, (size_t)b * n_ctx * 3 * d + column,
        (size_t)b * n_ctx * d + column);
    return head;
}

/* Returns head `index` for the forward pass, with the statistics that are
 * requested. */
static es_cpu_head forward_head(const job *j, es_share share, int index)
{
    const es_attention *a = j->attention;
    es_cpu_head head = head_of(j, share, index);
    for (int i = 0; j->rows && i < ES_N_ROW_STATISTICS; i++)
        if (j->rows->array[i] &&
            es_row_statistic_exists((es_row_statistic)i, a->kind))
            head.rows[i] = es_cpu_floats(j->rows->array[i]) +
                           (size_t)index * (size_t)a->n_ctx;
    return head;
}

/* Returns head `index` for the backward pass, with pointers to its
 * gradients. */
static es_cpu_head backward_head(const job *j, es_share share, int index)
{
    const es_attention *a = j->attention;
    es_cpu_head head = head_of(j, share, index);
    const size_t row = (size_t)index * (size_t)a->n_ctx;
    head.dentropy = j->dentropy ? j->dentropy + row : NULL;
    head.dt = j->dlog_t ? j->row_sums + row : NULL;
    return head;
}

/* Returns the number of heads that are processed together: the number of lanes
 * (a bundle) or 1. A bundle whose lanes are less than half used would take
 * longer than its heads one by one. */
static int heads_together(const job *j)
{
    const es_attention *a = j->attention;
    const es_cpu_kernels *kernels = j->backend->kernels;
    const int n_heads = a->n_batch * a->n_head;
    return 2 * n_heads >= kernels->lanes &&
                   kernels->attention_bundles(a->n_ctx, a->d_model / a->n_head)
               ? kernels->lanes
               : 1;
}

/* Processes n heads on the calling thread. */
typedef void heads_task(const job *j, const es_cpu_head *heads, int n);

static void run_heads(const job *j, es_share share,
                      es_cpu_head (*find)(const job *, es_share, int),
                      heads_task *task)
{
    es_cpu_head heads[ES_CPU_MAX_LANES];
    const int together = heads_together(j);
    const es_attention *a = j->attention;
    es_slab slab = es_cpu_slab(share, a->n_batch * a->n_head, together);
    for (int first = 0; first < slab.n; first += together) {
        const int n = slab.n - first < together ? slab.n - first : together;
        for (int i = 0; i < n; i++)
            heads[i] = find(j, share, slab.first + first + i);
        task(j, heads, n);
    }
}

static void attend_heads(const job *j, const es_cpu_head *heads, int n)
{
    const es_cpu_kernels *kernels = j->backend->kernels;
    if (j->backend->bf16)
        es_cpu_attend_halves(j->backend, heads, n, heads_together(j) > 1);
    else if (heads_together(j) > 1)
        kernels->attention_bundle(heads, n);
    else
        kernels->attention(heads);
    for (int h = 0; j->backend->half && h < n; h++)
        for (int i = 0; i < heads->n_ctx; i++)
            es_cpu_round(j->backend, heads[h].y + (size_t)i * heads->y_stride,
                         (size_t)heads->width);
}

static void attention_part(void *argument, es_share share)
{
    run_heads(argument, share, forward_head, attend_heads);
}

void es_cpu_attention(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, const es_mem *qkv,
                      const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .rows = rows,
             .qkv = qkv,
             .log_t = es_cpu_read(attention->log_t),
             .y = y,
             .saved = es_cpu_floats(saved)};
    es_team_run(backend->team, attention_part, &j);
}

static void attend_backward(const job *j, const es_cpu_head *heads, int n)
{
    const es_cpu_kernels *kernels = j->backend->kernels;
    if (j->backend->bf16)
        es_cpu_attend_halves_backward(j->backend, heads, n,
                                      heads_together(j) > 1);
    else if (heads_together(j) > 1)
        kernels->attention_bundle_backward(heads, n);
    else
        kernels->attention_backward(heads);
}

static void backward_part(void *argument, es_share share)
{
    run_heads(argument, share, backward_head, attend_backward);
}

/* Arguments for computing the gradient of ln t, the logarithm of the
 * temperatures: dL/dln t = -sum over the batch of sum_j dz_j * z_j, where z are
 * the scores of a row and dz their gradients. */
typedef struct temperatures {
    const es_backend *backend;
    const es_attention *attention;
    float *dlog_t;
} temperatures;

static void temperature_part(void *argument, es_share share)
{
    const temperatures *j = argument;
    const es_attention *a = j->attention;
    const int n = a->n_head * a->n_ctx;
    es_slab slab = es_cpu_slab(share, n, 16);
    for (int i = slab.first; i < slab.first + slab.n; i++) {
        float sum = 0;
        for (int b = 0; b < a->n_batch; b++)
            sum += j->backend->row_sums[(size_t)b * (size_t)n + (size_t)i];
        j->dlog_t[i] -= sum;
    }
}

void es_cpu_add_temperatures(es_backend *backend, es_mem *dlog_t,
                             const es_attention *attention)
{
    temperatures j = {backend, attention, es_cpu_floats(dlog_t)};
    es_team_run(backend->team, temperature_part, &j);
}

void es_cpu_attention_backward(es_backend *backend, es_mem *dqkv,
                               es_mem *dlog_t, const es_mem *dy,
                               const es_mem *y, const es_mem *dentropy,
                               const es_mem *qkv, const es_mem *saved,
                               const es_attention *attention)
{
    job j = {.backend = backend,
             .attention = attention,
             .qkv = qkv,
             .log_t = es_cpu_read(attention->log_t),
             .dy = dy,
             .dentropy = es_cpu_read(dentropy),
             .y = (es_mem *)y, /* y is not written in the backward pass */
             .saved = (float *)es_cpu_read(saved),
             .dqkv = dqkv,
             .row_sums = backend->row_sums,
             .dlog_t = es_cpu_floats(dlog_t)};
    es_team_run(backend->team, backward_part, &j);
    if (dlog_t)
        es_cpu_add_temperatures(backend, dlog_t, attention);
}

/* --- rotation ------------------------------------------------------------- */

/* Applies rotary position embeddings. The first r dimensions of each head's q
 * and k (a quarter in Pythia) are rotated in pairs (c, c + r/2): at position i,
 * pair c is rotated by the angle i * BASE^(-2c/r). */
#define BASE 10000.0

int es_cpu_n_rotated(int head_width)
{
    int quarter = head_width / 4 / 2 * 2;
    return quarter > 2 ? quarter : 2;
}

/* Returns the frequency of pair c, scaled as es_rope describes. */
static double frequency(const es_rope *rope, int c, int n_rotated)
{
    const double base = rope->base > 0 ? rope->base : BASE;
    const double f = pow(base, -2.0 * c / n_rotated);
    if (!(rope->factor > 0))
        return f;
    const double turns = rope->original * f / (2 * M_PI);
    const double stays = (turns - rope->low) / (rope->high - rope->low);
    const double share = stays < 0 ? 0 : stays > 1 ? 1 : stays;
    return share * f + (1 - share) * f / rope->factor;
}

/* Fills `turns` with n_rotated numbers per position: the cosines of the
 * position's rotation angles, then the sines. */
static void fill_turns(float *turns, int n_ctx, int n_rotated,
                       const es_rope *rope)
{
    const int n_pairs = n_rotated / 2;
    for (int i = 0; i < n_ctx; i++, turns += n_rotated)
        for (int c = 0; c < n_pairs; c++) {
            double angle = i * frequency(rope, c, n_rotated);
            turns[c] = (float)cos(angle);
            turns[n_pairs + c] = (float)sin(angle);
        }
}

/* Rotates q or k of one head at one position. `turns` holds the cosines and
 * sines of the position's angles; with `back`, the angles are negated. */
static void rotate_pairs(float *x, const float *turns, int n_rotated, bool back)
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
    es_mem *qkv;
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
        const size_t at = (size_t)row * 3 * (size_t)a->d_model;
        const size_t n = 2 * (size_t)a->d_model;
        float *qk = es_cpu_change(j->backend, share, 0, j->qkv, at, n);
        /* a row stores q of all heads, then k of all heads */
        for (int h = 0; h < 2 * a->n_head; h++)
            rotate_pairs(qk + (ptrdiff_t)h * width, turns, n_rotated, j->back);
        if (j->back)
            es_cpu_close_gradient(j->backend, j->qkv, at, qk, n);
        else
            es_cpu_close(j->backend, j->qkv, at, qk, n);
    }
}

void es_cpu_rotate(es_backend *backend, es_mem *qkv,
                   const es_attention *attention, bool back)
{
    const int n_rotated =
        attention->n_rotated > 0
            ? attention->n_rotated
            : es_cpu_n_rotated(attention->d_model / attention->n_head);
    /* A model has a single head width and base, so the table of rotations is
     * filled only once. */
    if (backend->n_rotated != n_rotated ||
        memcmp(&backend->rope, &attention->rope, sizeof backend->rope) != 0)
        fill_turns(backend->turns, backend->n_turns, n_rotated,
                   &attention->rope);
    backend->n_rotated = n_rotated;
    backend->rope = attention->rope;
    rotation j = {backend, attention, qkv, back};
    es_team_run(backend->team, rotate_part, &j);
}
