/* Creates inputs of attention heads, and runs attention on the CPU. */
#include "tests/support/attention_problem.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/run_files.h"

#include <math.h>
#include <stdlib.h>

float *attention_floats(size_t n)
{
    float *out = calloc(n, sizeof *out);
    assert_non_null(out);
    return out;
}

attention_problem attention_open(int n_batch, int n_ctx, int n_head, int width)
{
    attention_problem p = {
        .n_batch = n_batch, .n_ctx = n_ctx, .n_head = n_head, .width = width};
    uint64_t seed = (uint64_t)(n_ctx * 1000 + width);
    p.n_rows = (size_t)n_batch * (size_t)n_head * (size_t)n_ctx;
    p.n_values = p.n_rows * (size_t)width;
    p.qkv = attention_floats(3 * p.n_values);
    p.dqkv = attention_floats(3 * p.n_values);
    p.y = attention_floats(p.n_values);
    p.dy = attention_floats(p.n_values);
    p.saved = attention_floats(2 * p.n_rows);
    p.dentropy = attention_floats(p.n_rows);
    p.rows = attention_floats(ES_N_ROW_STATISTICS * p.n_rows);
    es_test_fill(p.qkv, 3 * p.n_values, 3, &seed);
    es_test_fill(p.dy, p.n_values, 1, &seed);
    es_test_fill(p.dentropy, p.n_rows, 1, &seed);
    return p;
}

void attention_add_temperatures(attention_problem *p)
{
    const size_t n = (size_t)p->n_head * (size_t)p->n_ctx;
    uint64_t seed = 11;
    p->log_t = attention_floats(n);
    p->dlog_t = attention_floats(n);
    es_test_fill(p->log_t, n, 0.5, &seed);
}

void attention_scale_queries(attention_problem *p, float factor)
{
    const int d = p->n_head * p->width;
    for (int i = 0; i < p->n_batch * p->n_ctx; i++)
        for (int c = 0; c < d; c++)
            p->qkv[i * 3 * d + c] *= factor;
}

attention_problem attention_open_cold(void)
{
    const int width = 3, n_ctx = 9, d = 2 * width;
    attention_problem p = attention_open(2, n_ctx, 2, width);
    attention_add_temperatures(&p);
    for (int i = 0; i < 2 * n_ctx; i++) { /* queries of both sequences */
        const float t = powf(10, -2 - (float)(i % n_ctx) / 2);
        p.log_t[i] = logf(t);
        for (int c = 0; c < d; c++)
            p.qkv[i * 3 * d + c] *= t;
    }
    return p;
}

void attention_close(attention_problem *p)
{
    free(p->log_t);
    free(p->dlog_t);
    free(p->qkv);
    free(p->dqkv);
    free(p->y);
    free(p->dy);
    free(p->saved);
    free(p->dentropy);
    free(p->rows);
}

es_mem *attention_mem(void *floats_of_cpu)
{
    return (es_mem *)floats_of_cpu;
}

es_attention_kind attention_kind(const attention_problem *p)
{
    return p->power == 0             ? ES_SOFTMAX
           : p->power == ES_CPU_RELU ? ES_SCALED_RELU
                                     : ES_POWER_SOFTMAX;
}

es_attention attention_shape(const attention_problem *p)
{
    return (es_attention){.n_batch = p->n_batch,
                          .n_ctx = p->n_ctx,
                          .n_head = p->n_head,
                          .d_model = p->n_head * p->width,
                          .kind = attention_kind(p),
                          .power = p->power,
                          .epsilon = p->epsilon,
                          .plain = p->plain,
                          .length = p->length,
                          .log_t = attention_mem(p->log_t)};
}

float *attention_rows(const attention_problem *p, es_row_statistic statistic)
{
    return p->rows + (size_t)statistic * p->n_rows;
}

bool attention_has_rows(const attention_problem *p, es_row_statistic statistic)
{
    return es_row_statistic_exists(statistic, attention_kind(p)) &&
           !(p->on_device && es_row_statistic_is_of_scores(statistic));
}

es_backend *attention_backend(const es_cpu_kernels *kernels,
                              const attention_problem *p, int n_threads)
{
    const es_ops *ops = p->bf16 ? &es_cpu_bf16_ops : &es_cpu_ops;
    const es_extents largest = {.n_rows = p->n_batch * p->n_ctx,
                                .width = 3 * p->n_head * p->width,
                                .n_ctx = p->n_ctx,
                                .n_head = p->n_head,
                                .head_width = p->width};
    es_backend *cpu;
    es_assert_ok(ops->open(&cpu, n_threads));
    cpu->kernels = kernels;
    cpu->tiles = p->tiles ? cpu->tiles : NULL;
    es_assert_ok(ops->prepare(cpu, &largest));
    return cpu;
}

/* Rounds n activations to bf16, in place. */
static void round_array(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((es_bfloat *)(void *)x)[i] = es_bfloat_round(x[i]);
}

static void widen_array(float *x, size_t n)
{
    for (size_t i = n; i-- > 0;)
        x[i] = es_bfloat_read(((const es_bfloat *)(const void *)x)[i]);
}

static void convert(const attention_problem *p, void (*by)(float *x, size_t n))
{
    if (!p->bf16)
        return;
    by(p->qkv, 3 * p->n_values);
    by(p->dqkv, 3 * p->n_values);
    by(p->y, p->n_values);
    by(p->dy, p->n_values);
}

void attention_run(attention_problem *p, const es_cpu_kernels *kernels,
                   int n_threads, bool entropy)
{
    const es_ops *ops = p->bf16 ? &es_cpu_bf16_ops : &es_cpu_ops;
    const es_attention shape = attention_shape(p);
    es_backend *cpu = attention_backend(kernels, p, n_threads);
    convert(p, round_array);
    if (p->half)
        ops->emulate_fp16(cpu);
    es_row_mem rows;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        rows.array[i] = attention_mem(attention_rows(p, (es_row_statistic)i));
    ops->attention(cpu, attention_mem(p->y), attention_mem(p->saved), &rows,
                   attention_mem(p->qkv), &shape);
    if (p->dlog_t)
        memset(p->dlog_t, 0,
               (size_t)(p->n_head * p->n_ctx) * sizeof *p->dlog_t);
    ops->attention_backward(
        cpu, attention_mem(p->dqkv), attention_mem(p->dlog_t),
        attention_mem(p->dy), attention_mem(p->y),
        entropy ? attention_mem(p->dentropy) : NULL, attention_mem(p->qkv),
        attention_mem(p->saved), &shape);
    ops->close(cpu);
    convert(p, widen_array);
}
