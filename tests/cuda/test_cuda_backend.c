/* Tests the parts of the CUDA back-end other than operations: memory, copies of
 * weights, captured sequences, and failures. */
/* needs: nvcc */
#include "hooks/trainer/model/ops.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const es_extents small = {
    .n_rows = 64, .width = 64, .n_ctx = 8, .n_head = 2, .head_width = 8};

/* --- memory --------------------------------------------------------------- */

/* Checks store and load for `bytes` bytes, which may be more than a page-locked
 * buffer holds. */
static void check_memory_of(const es_bench *bench, size_t bytes)
{
    unsigned char *in = malloc(bytes), *out = malloc(bytes + 1);
    es_mem *memory;
    assert_true(in && out);
    for (size_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)(i * 7 + i / 251);
    assert_int_equal(bench->ops->reserve(bench->backend, &memory, bytes),
                     ES_OK);
    assert_int_equal((uintptr_t)memory % 64, 0);
    bench->ops->load(bench->backend, out, memory, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(out[i], 0);
    bench->ops->store(bench->backend, memory, in, bytes);
    out[bytes] = 0x5a;
    bench->ops->load(bench->backend, out, memory, bytes);
    assert_memory_equal(out, in, bytes);
    assert_int_equal(out[bytes], 0x5a);
    bench->ops->zero(bench->backend, es_mem_at(memory, bytes / 3), bytes / 3);
    bench->ops->load(bench->backend, out, memory, bytes);
    memset(in + bytes / 3, 0, bytes / 3);
    assert_memory_equal(out, in, bytes);
    bench->ops->release(bench->backend, memory);
    free(in), free(out);
}

static void test_cuda_backend__memory(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        check_memory_of(bench, 1);
        check_memory_of(bench, 1001);
        check_memory_of(bench, (9 << 20) + 5);
        bench->ops->release(bench->backend, NULL);
    }
}

/* The caller may change the source immediately after a store. */
static void test_cuda_backend__stored_memory_may_be_changed(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        enum { N = 3 << 20 };
        int32_t *in = malloc(N * sizeof *in), *out = malloc(N * sizeof *out);
        es_mem *memory;
        assert_true(in && out);
        assert_int_equal(
            bench->ops->reserve(bench->backend, &memory, N * sizeof *in),
            ES_OK);
        for (int i = 0; i < N; i++)
            in[i] = i;
        bench->ops->store(bench->backend, memory, in, N * sizeof *in);
        memset(in, 0xff, N * sizeof *in);
        bench->ops->load(bench->backend, out, memory, N * sizeof *out);
        for (int i = 0; i < N; i++)
            assert_int_equal(out[i], i);
        bench->ops->release(bench->backend, memory);
        free(in), free(out);
    }
}

static void test_cuda_backend__view(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small)) {
        static const float some[] = {0,     -0.0f,    1,   -2.5f,
                                     6e-5f, INFINITY, NAN, -1e4f};
        enum { N = 777 };
        float x[N];
        for (int i = 0; i < N; i++)
            x[i] = i < 8 ? some[i] : (float)es_bench_random();
        es_mem *memory = es_bench_put_acts(bench, ES_CHANGE, x, N);
        bench->ops->store(bench->backend, bench->arrays[0].whole,
                          bench->arrays[0].before,
                          512 + bench->arrays[0].bytes);
        /* n increases, so the memory that `view` returns must grow */
        for (size_t n = 1; n <= N; n += 97) {
            const float *seen = bench->ops->view(bench->backend, memory, n);
            assert_non_null(seen);
            for (size_t i = 0; i < n; i++)
                assert_true(isnan(x[i]) ? isnan(seen[i]) : seen[i] == x[i]);
        }
    }
}

/* --- weights -------------------------------------------------------------- */

/* Returns 1 times `weight`, computed by a matrix product, which reads the copy
 * of the weight that the back-end keeps. */
static float product_with(es_bench *bench, const es_mem *weight)
{
    float one = 1, got;
    es_bench side = *bench;
    side.n_arrays = 0;
    es_mem *x = es_bench_put_acts(&side, ES_READ, &one, 1);
    es_mem *y = es_bench_put_acts(&side, ES_WRITE, NULL, 1);
    const es_linear linear = {weight, NULL, 1, 1, 0, false, 0};
    for (int i = 0; i < 2; i++)
        bench->ops->store(bench->backend, side.arrays[i].whole,
                          side.arrays[i].before, 512 + side.arrays[i].bytes);
    bench->ops->linear(bench->backend, y, NULL, x, &linear, 1);
    got = bench->ops->view(bench->backend, y, 1)[0];
    es_bench_clear(&side);
    return got;
}

static es_mem *store_floats(const es_bench *bench, const float *values,
                            size_t n)
{
    es_mem *memory;
    assert_int_equal(
        bench->ops->reserve(bench->backend, &memory, n * sizeof *values),
        ES_OK);
    bench->ops->store(bench->backend, memory, values, n * sizeof *values);
    return memory;
}

/* Tests that a matrix product uses the values that the last call of `refresh`
 * copied. */
static void test_cuda_backend__weights_are_copied(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small)) {
        const es_ops *ops = bench->ops;
        float a[40], b[40];
        for (int i = 0; i < 40; i++)
            a[i] = (float)i + 1, b[i] = -(float)i - 1;
        es_mem *first = store_floats(bench, a, 40), *second;
        second = store_floats(bench, b, 40);
        if (ops->keep) {
            assert_int_equal(ops->keep(bench->backend, first, 40), ES_OK);
            assert_int_equal(ops->keep(bench->backend, second, 40), ES_OK);
        }
        assert_true(product_with(bench, first) == 1);
        assert_true(product_with(bench, es_mem_at(first, 39 * 4)) == 40);
        assert_true(product_with(bench, es_mem_at(second, 7 * 4)) == -8);
        ops->store(bench->backend, first, b, 40 * 4);
        if (ops->refresh) {
            assert_true(product_with(bench, es_mem_at(first, 39 * 4)) == 40);
            ops->refresh(bench->backend, es_mem_at(first, 20 * 4), 20);
            assert_true(product_with(bench, es_mem_at(first, 19 * 4)) == 20);
        }
        assert_true(product_with(bench, es_mem_at(first, 39 * 4)) == -40);
        if (ops->keep) {
            assert_int_equal(ops->keep(bench->backend, first, 0), ES_OK);
            assert_int_equal(ops->keep(bench->backend, first, 0), ES_OK);
        }
        assert_true(product_with(bench, es_mem_at(second, 7 * 4)) == -8);
        ops->release(bench->backend, first);
        ops->release(bench->backend, second);
        if (ops->keep)
            assert_int_equal(ops->keep(bench->backend, second, 0), ES_OK);
    }
}

/* Halves elements first .. first + n - 1 by AdamW with a zero gradient and
 * weight decay; changes nothing if `skips` is 1. */
static void decay(const es_bench *bench, es_mem *param, int first, int n,
                  float skips)
{
    const es_ops *ops = bench->ops;
    const float zeros[40] = {0};
    const es_control c = {.skips = skips,
                          .lr = 0.5f,
                          .correction1 = 1,
                          .correction2 = 1,
                          .grad_scale = 1};
    const es_adamw how = {0.9f, 0.999f, 1e-8f, 1};
    es_mem *rest[4];
    for (int i = 0; i < 4; i++)
        rest[i] = store_floats(bench, i < 3 ? zeros : &c.skips,
                               i < 3 ? 40 : sizeof c / sizeof(float));
    const size_t at = (size_t)first * sizeof(float);
    ops->adamw(bench->backend, es_mem_at(param, at), es_mem_at(rest[0], at),
               es_mem_at(rest[1], at), es_mem_at(rest[2], at), (size_t)n, &how,
               rest[3]);
    for (int i = 0; i < 4; i++)
        ops->release(bench->backend, rest[i]);
}

/* After AdamW, a matrix product must use the updated weights exactly. A skipped
 * update must not change the copy of the weights that products read. */
static void test_cuda_backend__adamw_copies_weights(void **state)
{
    static const int spans[][2] = {{0, 40}, {3, 30}, {8, 5}, {39, 1}};
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (int s = 0; s < 4; s++) {
            const es_ops *ops = bench->ops;
            const int first = spans[s][0], end = first + spans[s][1];
            float a[40];
            for (int i = 0; i < 40; i++)
                a[i] = (float)(2 * i + 2);
            es_mem *weights = store_floats(bench, a, 40);
            if (ops->keep)
                assert_int_equal(ops->keep(bench->backend, weights, 40), ES_OK);
            decay(bench, weights, first, end - first, 1);
            assert_true(product_with(bench, es_mem_at(weights, 39 * 4)) == 80);
            decay(bench, weights, first, end - first, 0);
            for (int i = 0; i < 40; i++)
                assert_true(
                    product_with(bench, es_mem_at(weights, (size_t)i * 4)) ==
                    (i >= first && i < end ? a[i] / 2 : a[i]));
            if (ops->keep)
                assert_int_equal(ops->keep(bench->backend, weights, 0), ES_OK);
            ops->release(bench->backend, weights);
        }
}

/* --- fetches -------------------------------------------------------------- */

/* Tests that a fetch returns the contents at the time of the fetch, not at the
 * time of the wait, and that fetches to the two host buffers do not affect each
 * other. */
static void test_cuda_backend__fetches(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        const es_ops *ops = bench->ops;
        const float x[3][2] = {{1, 2}, {3, 4}, {5, 6}};
        const void *got;
        es_mem *memory = store_floats(bench, x[0], 2);
        for (int i = 0; i < 5; i++) {
            ops->store(bench->backend, memory, x[i % 3], sizeof x[0]);
            ops->fetch(bench->backend, i % 2, memory,
                       i == 0 ? sizeof x[0] / 2 : sizeof x[0]);
            if (i == 0)
                continue;
            assert_int_equal(ops->fetched(bench->backend, &got, (i - 1) % 2),
                             ES_OK);
            assert_memory_equal(got, x[(i - 1) % 3],
                                i == 1 ? sizeof x[0] / 2 : sizeof x[0]);
        }
        ops->release(bench->backend, memory);
    }
}

/* --- sequences ------------------------------------------------------------ */

/* Adds the mean of the first two elements of x to sum[0], sets sum[2] to 0, and
 * adds the first element of x to sum[1]. Runs these operations as a sequence,
 * or replays the sequence if it has been captured. */
static void add_twice(const es_bench *bench, int sequence, es_mem *sum,
                      const es_mem *x, int *n_called)
{
    const es_ops *ops = bench->ops;
    if (ops->replay(bench->backend, sequence))
        return;
    ops->add_mean(bench->backend, sum, x, 2);
    ops->zero(bench->backend, es_mem_at(sum, 16), 8);
    ops->add_mean(bench->backend, es_mem_at(sum, 8), x, 1);
    ops->launch(bench->backend);
    ++*n_called;
}

static void test_cuda_backend__sequences_run_again(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        const es_ops *ops = bench->ops;
        const float x[2][2] = {{1, 3}, {10, 30}};
        double sum[3] = {0, 0, 7}, want[2] = {0};
        /* number of the first sequence of operations; it depends on the
         * alignment of the arrays, so each alignment uses different
         * sequences */
        const int first = (int)bench->lie;
        int n_called = 0;
        es_mem *of_x = store_floats(bench, x[0], 2), *of_sum;
        assert_int_equal(ops->reserve(bench->backend, &of_sum, sizeof sum),
                         ES_OK);
        for (int i = 0; i < 9; i++) {
            ops->store(bench->backend, of_x, x[i % 2], sizeof x[0]);
            sum[0] = want[0], sum[1] = want[1], sum[2] = 7;
            ops->store(bench->backend, of_sum, sum, sizeof sum);
            add_twice(bench, i % 3 == 2 ? first : ES_MAX_SEQUENCES - 1 - first,
                      of_sum, of_x, &n_called);
            want[0] += (double)(x[i % 2][0] + x[i % 2][1]) / 2;
            want[1] += (double)x[i % 2][0];
            ops->load(bench->backend, sum, of_sum, sizeof sum);
            assert_true(sum[0] == want[0] && sum[1] == want[1] && sum[2] == 0);
        }
        /* The operations are only called twice for each of the two sequences:
         * for the first run and for the capture. */
        assert_int_equal(n_called, 4);
        assert_int_equal(ops->status(bench->backend), ES_OK);
        ops->release(bench->backend, of_x);
        ops->release(bench->backend, of_sum);
    }
}

/* --- trouble, on the emulation ---------------------------------------------
 */

static const es_ops *emulated_ops(void)
{
    const es_ops *ops;
    char path[4096];
    const char *build = getenv("BUILD"), *given = getenv("ENTROPY_TRAIN_CUDA");
    snprintf(path, sizeof path, "%s/tests/libentropytrain_cuda_host.so",
             build ? build : "build");
    if (access(path, F_OK) != 0)
        es_skip("no nvcc");
    if (given && strcmp(given, path) != 0)
        es_skip("ENTROPY_TRAIN_CUDA does not name the emulation");
    setenv("ENTROPY_TRAIN_CUDA", path, 1);
    assert_int_equal(es_ops_find(&ops, "cuda", ES_FP32), ES_OK);
    return ops;
}

static es_backend *open_with(const es_ops *ops, const char *fault)
{
    es_backend *backend;
    setenv("ENTROPY_TRAIN_EMULATION", fault, 1);
    assert_int_equal(ops->open(&backend, 0), ES_OK);
    unsetenv("ENTROPY_TRAIN_EMULATION");
    return backend;
}

/* Makes the third launch fail; the launches that initialise reserved memory are
 * counted, too. Afterwards nothing may run, and no operation may return a
 * finite number. */
static void test_cuda_backend__a_launch_fails(void **state)
{
    (void)state;
    const es_ops *ops = emulated_ops();
    es_backend *backend = open_with(ops, "fail=3");
    const float x[2] = {1, 3};
    double sum = 5;
    es_mem *of_x, *of_sum;
    assert_int_equal(ops->reserve(backend, &of_x, sizeof x), ES_OK);
    assert_int_equal(ops->reserve(backend, &of_sum, sizeof sum), ES_OK);
    ops->store(backend, of_x, x, sizeof x);
    assert_int_equal(ops->status(backend), ES_OK);
    ops->add_mean(backend, of_sum, of_x, 2);
    ops->add_mean(backend, of_sum, of_x, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ops->status(backend), ES_EIO);
        assert_non_null(strstr(es_message(), "host emulation"));
        assert_non_null(strstr(es_message(), "meant to fail"));
    }
    ops->load(backend, &sum, of_sum, sizeof sum);
    assert_true(isnan(sum));
    /* after the failure, launches and replays must have no effect */
    for (int i = 0; i < 4; i++)
        if (!ops->replay(backend, 1))
            ops->launch(backend);
    const float *seen = ops->view(backend, of_x, 2);
    assert_true(seen && isnan(seen[0]) && isnan(seen[1]));
    ops->release(backend, of_x);
    ops->release(backend, of_sum);
    ops->close(backend);
}

static void test_cuda_backend__memory_runs_out(void **state)
{
    (void)state;
    const es_ops *ops = emulated_ops();
    es_backend *backend = open_with(ops, "memory=3000000");
    es_mem *first, *second;
    assert_int_equal(ops->reserve(backend, &first, 2 << 20), ES_OK);
    assert_int_equal(ops->reserve(backend, &second, 1 << 20), ES_ENOMEM);
    assert_null(second);
    assert_non_null(strstr(es_message(), "out of memory: 1 MiB wanted"));
    assert_int_equal(ops->status(backend), ES_OK);
    ops->release(backend, first);
    assert_int_equal(ops->reserve(backend, &second, 1 << 20), ES_OK);
    ops->release(backend, second);
    assert_int_equal(ops->reserve(backend, &second, SIZE_MAX), ES_ENOMEM);
    ops->close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_backend__memory),
        cmocka_unit_test(test_cuda_backend__stored_memory_may_be_changed),
        cmocka_unit_test(test_cuda_backend__view),
        cmocka_unit_test(test_cuda_backend__weights_are_copied),
        cmocka_unit_test(test_cuda_backend__adamw_copies_weights),
        cmocka_unit_test(test_cuda_backend__fetches),
        cmocka_unit_test(test_cuda_backend__sequences_run_again),
        cmocka_unit_test(test_cuda_backend__a_launch_fails),
        cmocka_unit_test(test_cuda_backend__memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
