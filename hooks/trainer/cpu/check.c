/* Compares the vector kernels with the plain kernels on a small problem with
 * odd sizes. The back-end uses vector kernels only if the results agree. */
#include "hooks/trainer/cpu/kernels.h"

#include "analyzer/base/processor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { T = 37, D = 5, WIDTH = 3 * D, N = T * WIDTH, SCRATCH = 1 << 15 };

enum { N_ACTS = 5 };

/* Number of kinds of attention weights: softmax, PowerSoftmax, scaled ReLU. */
enum { N_POWERS = 3 };
static const int powers[N_POWERS] = {0, 6, ES_CPU_RELU};

/* Width and number of the heads that are processed as a bundle, and the size of
 * the bundle's scratch memory in floats. */
enum { NARROW = 4, N_HEADS = 3, BUNDLE_SCRATCH = 1 << 16 };

typedef struct bundle_results {
    float y[T * NARROW], dqkv[T * 3 * NARROW], saved[2 * T], dt[T];
    float rows[ES_N_ROW_STATISTICS][T];
} bundle_results;

/* Results that one table of kernels computes for the test problem. */
typedef struct results {
    float act[N_ACTS][N], dact[N_ACTS][N];
    float norm[N], dx[N], sums[2 * WIDTH], mean[T], rstd[T];
    float loss[T], lse[T], dlogits[N];
    struct {
        float y[T * D], dqkv[N], saved[2 * T], dt[T];
        float rows[ES_N_ROW_STATISTICS][T];
    } attention[4 * N_POWERS]; /* first the results of causal heads, then of
                                  encoder heads */
    bundle_results bundle[2 * N_POWERS][N_HEADS];
    float half[2][N], bf16[N], dropped[N];
    float gated[N], open[N], dgate[N];
    float rms[N], rms_dx[N], rms_dweight[WIDTH], rms_rstd[T];
    float swiglu[2][N], up[N], swiglu_gate[N];
    float param[N], moment1[N], moment2[N], squares;
    float scaled[N], outer[N], along[T], columns[2 * WIDTH], length;
    float moments[7], update[2], gram[D * D], size;
} results;

typedef struct problem {
    float x[N], weight[WIDTH], bias[WIDTH], log_t[T], place[T];
    int32_t targets[T];
    float scratch[SCRATCH];
    float bundle_scratch[BUNDLE_SCRATCH];
} problem;

/* Fills the test problem with fixed numbers, spread evenly over [-3, 3]. */
static void fill_problem(problem *p)
{
    for (int i = 0; i < N; i++)
        p->x[i] = (float)(i * 7919 % 6001) / 1000 - 3;
    for (int i = 0; i < WIDTH; i++) {
        p->weight[i] = 1 + (float)i / 50;
        p->bias[i] = (float)i / 7 - 1;
    }
    for (int i = 0; i < T; i++) {
        p->targets[i] = i * 11 % WIDTH;
        p->log_t[i] = (float)(i * 7 % 5) / 10;
        p->place[i] = (float)(i + i / 4);
    }
}

static void run_acts(results *r, const problem *p, const es_cpu_kernels *k)
{
    static const es_activation kinds[] = {ES_ACT_GELU, ES_ACT_GELU_TANH,
                                          ES_ACT_RELU, ES_ACT_LEAKY,
                                          ES_ACT_GELU_SIGMOID};
    for (int i = 0; i < N_ACTS; i++) {
        float post[N];
        memcpy(r->dact[i], p->x, sizeof p->x);
        k->act(r->act[i], p->x, N, kinds[i], 0.1f);
        k->act_backward(r->dact[i], post, p->x, N, kinds[i], 0.1f);
    }
}

static void run_rows(results *r, const problem *p, const es_cpu_kernels *k)
{
    k->layer_norm(r->norm, r->mean, r->rstd, p->x, p->weight, p->bias, T, WIDTH,
                  1e-5f);
    k->layer_norm_backward(r->dx, r->sums, r->sums + WIDTH, r->norm, p->x,
                           r->mean, r->rstd, p->weight, T, WIDTH);
    memcpy(r->dlogits, p->x, sizeof p->x);
    k->cross_entropy(r->loss, r->lse, p->x, p->targets, T, WIDTH);
    k->cross_entropy_backward(r->dlogits, r->lse, p->targets, 1, T, WIDTH);
    k->add_column_sums(r->sums, p->x, T, WIDTH, WIDTH);
}

/* Runs attention without and with a gradient of the entropies. */
static void run_attention(results *r, problem *p, const es_cpu_kernels *k,
                          int which, bool entropy)
{
    const int power = powers[which / 2 % N_POWERS];
    float *dqkv = r->attention[which].dqkv;
    es_cpu_head head = {
        .n_ctx = T,
        .width = D,
        .stride = WIDTH,
        .y_stride = D,
        .q = p->x,
        .k = p->x + D,
        .v = p->x + 2 * D,
        .scale = 0.5f,
        .log_t = power ? NULL : p->log_t,
        .y = r->attention[which].y,
        .saved = r->attention[which].saved,
        .power = power,
        .epsilon = power == ES_CPU_RELU ? 0 : 0.25f,
        .plain = power == ES_CPU_RELU,
        .length = power ? ES_LENGTH_VISIBLE : ES_LENGTH_NONE,
        .place = which < 2 * N_POWERS ? NULL : p->place,
        .context = T + 2,
        .dy = r->attention[which].y,
        .dentropy = entropy ? p->x : NULL,
        .dq = dqkv,
        .dk = dqkv + D,
        .dv = dqkv + 2 * D,
        .dt = power ? NULL : r->attention[which].dt,
        .scratch = p->scratch,
    };
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (es_row_statistic_exists((es_row_statistic)i,
                                    power ? ES_POWER_SOFTMAX : ES_SOFTMAX))
            head.rows[i] = r->attention[which].rows[i];
    k->attention(&head);
    k->attention_backward(&head);
}

/* Runs attention on a bundle of narrow heads. Successive rows of q, k and v are
 * 3 * NARROW floats apart. */
static void run_bundle(results *r, problem *p, const es_cpu_kernels *k,
                       int which, bool entropy)
{
    const int power = powers[which / 2];
    es_cpu_head heads[N_HEADS];
    for (int h = 0; h < N_HEADS; h++) {
        bundle_results *to = &r->bundle[which][h];
        heads[h] =
            (es_cpu_head){.n_ctx = T,
                          .width = NARROW,
                          .stride = 3 * NARROW,
                          .y_stride = NARROW,
                          .q = p->x + h,
                          .k = p->x + h + NARROW,
                          .v = p->x + h + 2 * NARROW,
                          .scale = 0.5f,
                          .log_t = power ? NULL : p->log_t,
                          .y = to->y,
                          .saved = to->saved,
                          .power = power,
                          .epsilon = power == ES_CPU_RELU ? 0 : 0.25f,
                          .plain = power == ES_CPU_RELU,
                          .length = power ? ES_LENGTH_VISIBLE : ES_LENGTH_NONE,
                          .dy = to->y,
                          .dentropy = entropy ? p->x : NULL,
                          .dq = to->dqkv,
                          .dk = to->dqkv + NARROW,
                          .dv = to->dqkv + 2 * NARROW,
                          .dt = power ? NULL : to->dt,
                          .scratch = p->bundle_scratch};
        for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
            if (es_row_statistic_exists((es_row_statistic)i,
                                        power ? ES_POWER_SOFTMAX : ES_SOFTMAX))
                heads[h].rows[i] = to->rows[i];
    }
    k->attention_bundle(heads, N_HEADS);
    k->attention_bundle_backward(heads, N_HEADS);
}

/* Rounds normal and subnormal numbers to fp16. Multiplies the subnormal results
 * by 2^17, because differences between them would otherwise be smaller than the
 * tolerance of the comparison. */
static void run_half(results *r, const problem *p, const es_cpu_kernels *k)
{
    const float down = 0x1p-17f;
    for (int i = 0; i < N; i++) {
        r->half[0][i] = p->x[i];
        r->half[1][i] = p->x[i] * down;
    }
    k->round_half(r->half[0], N);
    k->round_half(r->half[1], N);
    for (int i = 0; i < N; i++)
        r->half[1][i] /= down;
}

static void run_bf16(results *r, const problem *p, const es_cpu_kernels *k)
{
    es_bfloat halves[N];
    k->narrow(halves, p->x, N);
    k->widen(r->bf16, halves, N);
}

static void run_dropout(results *r, const problem *p, const es_cpu_kernels *k)
{
    const es_dropout how = {.rate = 0.3f, .seed = 5, .place = 7};
    const es_drop_mask mask = es_drop_mask_of(&how, 11);
    k->drop(r->dropped, p->x, p->x, 64, N, &mask);
}

static void run_gate(results *r, const problem *p, const es_cpu_kernels *k)
{
    k->gate(r->gated, p->x + 2, p->x, N - 2);
    memcpy(r->dgate, p->x, sizeof p->x);
    k->gate_backward(r->open, r->dgate, p->x + 1, p->x + 2, N - 2);
}

static void run_llama(results *r, const problem *p, const es_cpu_kernels *k)
{
    k->rms_norm(r->rms, r->rms_rstd, p->x, p->weight, T, WIDTH, 1e-5f);
    k->rms_norm_backward(r->rms_dx, r->rms_dweight, r->rms, p->x, r->rms_rstd,
                         p->weight, T, WIDTH);
    k->swiglu(r->swiglu[0], p->x, p->x + 1, N - 1);
    memcpy(r->up, p->x + 2, (N - 2) * sizeof *p->x);
    memcpy(r->swiglu_gate, p->x, sizeof p->x);
    k->swiglu_backward(r->up, r->swiglu_gate, r->swiglu[1], p->x + 1, N - 2);
}

static void run_update(results *r, const problem *p, const es_cpu_kernels *k)
{
    const es_adamw how = {0.9f, 0.99f, 1e-3f, 0.1f};
    const es_control control = {.lr = 0.1f,
                                .correction1 = 0.1f,
                                .correction2 = 0.01f,
                                .grad_scale = 0.5f};
    memcpy(r->param, p->x, sizeof p->x);
    k->adamw(r->param, r->moment1, r->moment2, p->x, N, &how, &control);
    r->squares = (float)k->dot(p->x, p->x, N);
}

static void run_details(results *r, const problem *p, const es_cpu_kernels *k)
{
    const es_adamw how = {0.9f, 0.99f, 1e-3f, 0.1f};
    const es_control control = {
        .lr = 0.1f, .correction1 = 0.1f, .correction2 = 0.01f};
    double moments[7] = {0}, update[2] = {0}, gram[D * D] = {0};
    k->add_moments(moments, p->x, p->x + 1, 0.5f, N - 1);
    k->add_update(update, p->x, r->moment1, r->moment2, N, &how, &control);
    k->add_gram(gram, p->x, T, D, WIDTH);
    const uint32_t size = k->largest_size(p->x, N);
    memcpy(&r->size, &size, sizeof size);
    for (int i = 0; i < 7; i++)
        r->moments[i] = (float)moments[i];
    for (int i = 0; i < 2; i++)
        r->update[i] = (float)update[i];
    for (int i = 0; i < D * D; i++)
        r->gram[i] = (float)gram[i];
}

static void run_columns(results *r, const problem *p, const es_cpu_kernels *k)
{
    double sums[2 * WIDTH] = {0};
    k->add_column_products(sums, p->x, p->x, T, WIDTH, WIDTH);
    r->length = (float)k->multiply_twice(r->along, sums + WIDTH, p->x,
                                         p->weight, T, WIDTH, WIDTH);
    for (int i = 0; i < 2 * WIDTH; i++)
        r->columns[i] = (float)sums[i];
    k->scale_columns(r->scaled, p->x, p->weight, T, WIDTH, WIDTH);
    k->add_scaled_columns(r->scaled, p->x, p->weight, p->x, p->bias, T, WIDTH,
                          WIDTH);
    k->add_outer_product(r->outer, p->x, 0.5f, 2, r->along, p->bias, T, WIDTH,
                         WIDTH);
}

static results *run_kernels(problem *p, const es_cpu_kernels *k)
{
    results *r = calloc(1, sizeof *r);
    if (!r || k->attention_scratch(T, D) > SCRATCH ||
        k->attention_scratch(T, NARROW) > BUNDLE_SCRATCH) {
        free(r);
        return NULL;
    }
    run_acts(r, p, k);
    run_rows(r, p, k);
    for (int i = 0; i < 4 * N_POWERS; i++)
        run_attention(r, p, k, i, i % 2);
    for (int i = 0; i < 2 * N_POWERS; i++)
        run_bundle(r, p, k, i, i % 2);
    run_half(r, p, k);
    run_bf16(r, p, k);
    run_dropout(r, p, k);
    run_gate(r, p, k);
    run_llama(r, p, k);
    run_update(r, p, k);
    run_details(r, p, k);
    run_columns(r, p, k);
    return r;
}

/* Returns true if two sets of results are close. The sets contain only floats
 * and are compared as arrays of floats. */
static bool are_close(const results *a, const results *b)
{
    const float *x = (const float *)a, *y = (const float *)b;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-4f * (1 + fabsf(y[i]))))
            return false;
    return true;
}

bool es_cpu_kernels_agree(const es_cpu_kernels *kernels)
{
    problem *p = calloc(1, sizeof *p);
    results *want = NULL, *got = NULL;
    if (p) {
        fill_problem(p);
        want = run_kernels(p, &es_cpu_kernels_plain);
        got = run_kernels(p, kernels);
    }
    bool agree = want && got && are_close(got, want);
    free(p);
    free(want);
    free(got);
    return agree;
}

static const es_cpu_kernels *find_kernels(void)
{
    if (es_vectors_supported(ES_VECTORS_AVX512) &&
        es_cpu_kernels_agree(&es_cpu_kernels_avx512))
        return &es_cpu_kernels_avx512;
    if (es_vectors_supported(ES_VECTORS_AVX2) &&
        es_cpu_kernels_agree(&es_cpu_kernels_avx2))
        return &es_cpu_kernels_avx2;
    return &es_cpu_kernels_plain;
}

/* --- matrix units --------------------------------------------------------- */

/* Results of attention of one bf16 head. Outputs and gradients are bf16; the
 * other results have the same types as those of the plain kernels. */
typedef struct half_results {
    es_bfloat qkv[N], y[T * D], dqkv[N];
    float saved[2 * T], dt[T], rows[ES_N_ROW_STATISTICS][T];
} half_results;

/* Rounds the problem's numbers to bf16, and computes attention on the rounded
 * numbers with matrix units (into `halves`) and with plain kernels (into
 * `floats`). */
static bool run_tiles(half_results *halves, results *floats, problem *p,
                      const es_cpu_tiles *tiles)
{
    const es_cpu_kernels *plain = &es_cpu_kernels_plain;
    const es_cpu_half_head in = {.q = halves->qkv,
                                 .k = halves->qkv + D,
                                 .v = halves->qkv + 2 * D,
                                 .dy = halves->y,
                                 .y = halves->y,
                                 .dq = halves->dqkv,
                                 .dk = halves->dqkv + D,
                                 .dv = halves->dqkv + 2 * D,
                                 .stride = WIDTH,
                                 .y_stride = D};
    plain->narrow(halves->qkv, p->x, N);
    plain->widen(p->x, halves->qkv, N);
    run_attention(floats, p, plain, 1, true);
    es_cpu_head head = {.n_ctx = T,
                        .width = D,
                        .scale = 0.5f,
                        .log_t = p->log_t,
                        .saved = halves->saved,
                        .dentropy = p->x,
                        .dt = halves->dt,
                        .scratch = p->scratch,
                        .halves = in};
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (es_row_statistic_exists((es_row_statistic)i, ES_SOFTMAX))
            head.rows[i] = halves->rows[i];
    return tiles->attention(&head) && tiles->attention_backward(&head);
}

/* Returns true if x and y, outputs or gradients computed from rounded numbers,
 * differ by at most 3 % of the largest number. */
static bool are_near(const float *x, const float *y, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(y[i]));
    for (int i = 0; i < n; i++)
        if (!(fabsf(x[i] - y[i]) <= 0.03f * largest))
            return false;
    return true;
}

static bool halves_agree(const half_results *halves, const results *floats)
{
    const float *rows = &halves->rows[0][0];
    const float *want = &floats->attention[1].rows[0][0];
    float y[T * D], dqkv[N];
    es_cpu_kernels_plain.widen(y, halves->y, T * D);
    es_cpu_kernels_plain.widen(dqkv, halves->dqkv, N);
    for (int i = 0; i < ES_N_ROW_STATISTICS * T; i++)
        if (!(fabsf(rows[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i]))))
            return false;
    return are_near(y, floats->attention[1].y, T * D) &&
           are_near(dqkv, floats->attention[1].dqkv, N) &&
           are_near(halves->dt, floats->attention[1].dt, T);
}

static const es_cpu_tiles *find_tiles(void)
{
    const es_cpu_tiles *tiles = &es_cpu_tiles_amx;
    if (!tiles->name || !es_vectors_supported(ES_VECTORS_AMX) ||
        tiles->scratch(T, D) > SCRATCH)
        return NULL;
    problem *p = calloc(1, sizeof *p);
    half_results *halves = calloc(1, sizeof *halves);
    results *floats = calloc(1, sizeof *floats);
    if (p)
        fill_problem(p);
    const bool good = p && halves && floats &&
                      run_tiles(halves, floats, p, tiles) &&
                      halves_agree(halves, floats);
    free(p);
    free(halves);
    free(floats);
    return good ? tiles : NULL;
}

const es_cpu_tiles *es_cpu_tiles_choose(void)
{
    static _Atomic(const es_cpu_tiles *) chosen;
    static _Atomic bool is_chosen;
    if (!is_chosen)
        chosen = find_tiles();
    is_chosen = true;
    return chosen;
}

/* --- the kernels ---------------------------------------------------------- */

const es_cpu_kernels *es_cpu_kernels_choose(void)
{
    /* concurrent first calls are harmless, because all find the same kernels */
    static _Atomic(const es_cpu_kernels *) chosen;
    if (!chosen)
        chosen = find_kernels();
    return chosen;
}
