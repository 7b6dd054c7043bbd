/* Vector kernels are trusted only after they have agreed with the plain ones
 * on a small problem with odd sizes. */
#include "hooks/trainer/cpu/kernels.h"

#include "analyzer/base/processor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { T = 37, D = 5, WIDTH = 3 * D, N = T * WIDTH, SCRATCH = 1 << 14 };

/* What one set of kernels makes of the problem. */
typedef struct results {
    float act[4][N], dact[4][N];
    float norm[N], dx[N], sums[2 * WIDTH], mean[T], rstd[T];
    float loss[T], lse[T], dlogits[N];
    struct {
        float y[T * D], dqkv[N], saved[2 * T], dt[T];
        float rows[ES_N_ROW_STATISTICS][T];
    } attention[4];
    float half[2][N];
    float param[N], moment1[N], moment2[N], squares;
    float scaled[N], outer[N], along[T], columns[2 * WIDTH], length;
} results;

typedef struct problem {
    float x[N], weight[WIDTH], bias[WIDTH], temperature[T];
    int32_t targets[T];
    float scratch[SCRATCH];
} problem;

/* Any numbers will do; these fill [-3, 3] evenly. */
static void draw(problem *p)
{
    for (int i = 0; i < N; i++)
        p->x[i] = (float)(i * 7919 % 6001) / 1000 - 3;
    for (int i = 0; i < WIDTH; i++) {
        p->weight[i] = 1 + (float)i / 50;
        p->bias[i] = (float)i / 7 - 1;
    }
    for (int i = 0; i < T; i++) {
        p->targets[i] = i * 11 % WIDTH;
        p->temperature[i] = 1 + (float)(i * 7 % 5) / 10;
    }
}

static void run_acts(results *r, const problem *p, const es_cpu_kernels *k)
{
    static const es_activation kinds[] = {ES_ACT_GELU, ES_ACT_GELU_TANH,
                                          ES_ACT_RELU, ES_ACT_LEAKY};
    for (int i = 0; i < 4; i++) {
        float post[N];
        memcpy(r->dact[i], p->x, sizeof p->x);
        k->act(r->act[i], p->x, N, kinds[i], 0.1f);
        k->act_backward(r->dact[i], post, p->x, N, kinds[i], 0.1f);
    }
}

static void run_rows(results *r, const problem *p, const es_cpu_kernels *k)
{
    k->layer_norm(r->norm, r->mean, r->rstd, p->x, p->weight, p->bias, T,
                  WIDTH);
    k->layer_norm_backward(r->dx, r->sums, r->sums + WIDTH, r->norm, p->x,
                           r->mean, r->rstd, p->weight, T, WIDTH);
    memcpy(r->dlogits, p->x, sizeof p->x);
    k->cross_entropy(r->loss, r->lse, p->x, p->targets, T, WIDTH);
    k->cross_entropy_backward(r->dlogits, r->lse, p->targets, 1, T, WIDTH);
    k->add_column_sums(r->sums, p->x, T, WIDTH, WIDTH);
}

/* Without and with a gradient of the entropies. */
static void run_attention(results *r, problem *p, const es_cpu_kernels *k,
                          int power, bool entropy)
{
    const int which = (power > 0 ? 2 : 0) + entropy;
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
        .temperature = power ? NULL : p->temperature,
        .y = r->attention[which].y,
        .saved = r->attention[which].saved,
        .power = power,
        .epsilon = 0.25f,
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

/* Normal numbers, and subnormal ones made large again. */
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

static results *run(problem *p, const es_cpu_kernels *k)
{
    results *r = calloc(1, sizeof *r);
    if (!r || k->attention_scratch(T, D) > SCRATCH) {
        free(r);
        return NULL;
    }
    run_acts(r, p, k);
    run_rows(r, p, k);
    for (int i = 0; i < 4; i++)
        run_attention(r, p, k, i < 2 ? 0 : 6, i % 2);
    run_half(r, p, k);
    run_update(r, p, k);
    run_columns(r, p, k);
    return r;
}

/* The results are nothing but floats. */
static bool close(const results *a, const results *b)
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
        draw(p);
        want = run(p, &es_cpu_kernels_plain);
        got = run(p, kernels);
    }
    bool agree = want && got && close(got, want);
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

const es_cpu_kernels *es_cpu_kernels_choose(void)
{
    /* Whoever comes at the same time finds the same. */
    static _Atomic(const es_cpu_kernels *) chosen;
    if (!chosen)
        chosen = find_kernels();
    return chosen;
}
