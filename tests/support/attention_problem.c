/* Heads to attend, and a run of them on the CPU. */
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
    p->temperature = attention_floats(n);
    p->dt = attention_floats(n);
    es_test_fill(p->temperature, n, 0.5, &seed);
    for (size_t i = 0; i < n; i++)
        p->temperature[i] += 1;
}

void attention_scale_queries(attention_problem *p, float factor)
{
    const int d = p->n_head * p->width;
    for (int i = 0; i < p->n_batch * p->n_ctx; i++)
        for (int c = 0; c < d; c++)
            p->qkv[i * 3 * d + c] *= factor;
}

attention_problem attention_open_below_floor(void)
{
    const float low[] = {1e-4f, 9e-5f, 0, -0.0f, -3, -INFINITY};
    attention_problem p = attention_open(2, 9, 2, 3);
    attention_add_temperatures(&p);
    for (int i = 0; i < 6; i++)
        p.temperature[9 + i + 1] = low[i];
    return p;
}

void attention_close(attention_problem *p)
{
    free(p->temperature);
    free(p->dt);
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

es_attention attention_shape(const attention_problem *p)
{
    return (es_attention){.n_batch = p->n_batch,
                          .n_ctx = p->n_ctx,
                          .n_head = p->n_head,
                          .d_model = p->n_head * p->width,
                          .kind = p->power ? ES_POWER_SOFTMAX : ES_SOFTMAX,
                          .power = p->power,
                          .epsilon = p->epsilon,
                          .temperature = attention_mem(p->temperature)};
}

float *attention_rows(const attention_problem *p, es_row_statistic statistic)
{
    return p->rows + (size_t)statistic * p->n_rows;
}

bool attention_has_rows(const attention_problem *p, es_row_statistic statistic)
{
    return es_row_statistic_exists(statistic,
                                   p->power ? ES_POWER_SOFTMAX : ES_SOFTMAX);
}

es_backend *attention_backend(const es_cpu_kernels *kernels,
                              const attention_problem *p, int n_threads)
{
    const es_ops *ops = &es_cpu_ops;
    const es_extents largest = {.n_rows = p->n_batch * p->n_ctx,
                                .width = 3 * p->n_head * p->width,
                                .n_ctx = p->n_ctx,
                                .n_head = p->n_head,
                                .head_width = p->width};
    es_backend *cpu;
    es_assert_ok(ops->open(&cpu, n_threads));
    cpu->kernels = kernels;
    es_assert_ok(ops->prepare(cpu, &largest));
    return cpu;
}

void attention_run(attention_problem *p, const es_cpu_kernels *kernels,
                   int n_threads, bool entropy)
{
    const es_ops *ops = &es_cpu_ops;
    const es_attention shape = attention_shape(p);
    es_backend *cpu = attention_backend(kernels, p, n_threads);
    if (p->half)
        ops->emulate_fp16(cpu);
    es_row_mem rows;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        rows.array[i] = attention_mem(attention_rows(p, (es_row_statistic)i));
    ops->attention(cpu, attention_mem(p->y), attention_mem(p->saved), &rows,
                   attention_mem(p->qkv), &shape);
    if (p->dt)
        memset(p->dt, 0, (size_t)(p->n_head * p->n_ctx) * sizeof *p->dt);
    ops->attention_backward(
        cpu, attention_mem(p->dqkv), attention_mem(p->dt), attention_mem(p->dy),
        attention_mem(p->y), entropy ? attention_mem(p->dentropy) : NULL,
        attention_mem(p->qkv), attention_mem(p->saved), &shape);
    ops->close(cpu);
}
