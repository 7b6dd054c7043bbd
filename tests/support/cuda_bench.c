/* Runs single operations of the CUDA back-end on guarded arrays, on the
 * emulation or on a device. */
#include "tests/support/cuda_bench.h"

#include "hooks/trainer/cpu/half.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/reference_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* AROUND is the number of guard bytes before and after an array, SENTINEL their
 * value. */
enum { AROUND = 256, SENTINEL = 0x5a };

/* Number of repetitions with other orders of threads. It is 0 with sanitizers,
 * because they only check memory accesses, which do not depend on the order. */
enum { N_AGAIN = SANITIZED ? 0 : ES_BENCH_AGAIN };

/* --- opening -------------------------------------------------------------- */

/* The precisions to test, and copies of the arguments of es_bench_first. */
static const es_precision precisions[] = {ES_FP32, ES_BF16, ES_FP16};
static es_bench_kind kind;
static const es_extents *largest;

/* Finds the library of the emulation unless ENTROPY_TRAIN_CUDA names a library.
 * Returns false if there is no library to test. */
static bool find_library(void)
{
    char path[4096];
    const char *build = getenv("BUILD");
    if (getenv("ENTROPY_TRAIN_CUDA"))
        return true;
    snprintf(path, sizeof path, "%s/tests/libentropytrain_cuda_host.so",
             build ? build : "build");
    if (access(path, F_OK) != 0)
        return false;
    return setenv("ENTROPY_TRAIN_CUDA", path, 1) == 0;
}

/* Opens a back-end of the bench. Returns false if there is no device. */
static bool open_one(es_backend **out, const es_ops *ops, const char *emulation)
{
    setenv("ENTROPY_TRAIN_EMULATION", emulation, 1);
    es_status status = ops->open(out, 0);
    unsetenv("ENTROPY_TRAIN_EMULATION");
    if (status != ES_OK)
        return false;
    assert_int_equal(ops->prepare(*out, largest), ES_OK);
    return true;
}

/* Returns true for the emulation, recognised by its configurable amount of
 * memory. */
static bool is_emulated(const es_ops *ops)
{
    es_backend *backend;
    es_mem *memory;
    setenv("ENTROPY_TRAIN_EMULATION", "memory=4096", 1);
    es_status status = ops->open(&backend, 0);
    unsetenv("ENTROPY_TRAIN_EMULATION");
    assert_int_equal(status, ES_OK);
    status = ops->reserve(backend, &memory, 1 << 20);
    ops->release(backend, memory);
    ops->close(backend);
    return status == ES_ENOMEM;
}

static es_bench *open_bench(es_precision precision)
{
    static es_bench bench;
    static const char *const orders[][ES_BENCH_AGAIN] = {
        {"reverse", "random=7"}, {"reverse,bare", "random=7,bare"}};
    const bool bare = kind == ES_BENCH_BARE;
    bench = (es_bench){.precision = precision, .bare = bare};
    if (!find_library())
        es_skip("no nvcc");
    if (es_ops_find(&bench.ops, "cuda", precision) != ES_OK)
        fail_msg("%s", es_message());
    if (!open_one(&bench.backend, bench.ops, bare ? "bare" : "")) {
        print_message("# %s\n", es_message());
        es_skip("no GPU");
    }
    bench.emulated = is_emulated(bench.ops);
    if (bare && !bench.emulated) {
        bench.ops->close(bench.backend);
        es_skip("only the emulation can refuse fused products");
    }
    for (int i = 0; i < N_AGAIN; i++)
        assert_true(open_one(&bench.again[i], bench.ops, orders[bare][i]));
    return &bench;
}

es_bench *es_bench_first(es_bench_kind of, const es_extents *extents)
{
    kind = of;
    largest = extents;
    return open_bench(precisions[0]);
}

static void close_one(const es_bench *bench, es_backend *backend)
{
    assert_int_equal(bench->ops->status(backend), ES_OK);
    bench->ops->close(backend);
}

es_bench *es_bench_next(es_bench *bench)
{
    size_t n = 0;
    es_bench_clear(bench);
    if (++bench->lie < ES_N_LIES)
        return bench;
    close_one(bench, bench->backend);
    for (int i = 0; i < N_AGAIN; i++)
        close_one(bench, bench->again[i]);
    while (precisions[n] != bench->precision)
        n++;
    if (kind == ES_BENCH_FP32 || ++n == sizeof precisions / sizeof *precisions)
        return NULL;
    return open_bench(precisions[n]);
}

/* --- precisions ----------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t bf16_of(float x)
{
    uint32_t bits = bits_of(x);
    if (isnan(x))
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t fp16_of(float x)
{
    uint32_t sign = bits_of(x) >> 16 & 0x8000;
    float size = fabsf(es_half_round(x));
    if (isnan(x))
        return 0x7fff;
    if (isinf(size))
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (uint32_t)(size * 0x1p24f));
    return (uint16_t)(sign | ((bits_of(size) - (112u << 23)) >> 13));
}

static float of_fp16(uint16_t half)
{
    float sign = half & 0x8000 ? -1 : 1;
    uint32_t size = half & 0x7fff;
    if (size >= 0x7c00)
        return size > 0x7c00 ? NAN : sign * INFINITY;
    if (size < 0x400)
        return sign * (float)size * 0x1p-24f;
    return sign * float_of((size << 13) + (112u << 23));
}

static uint16_t narrow(es_precision precision, float x)
{
    return precision == ES_BF16 ? bf16_of(x) : fp16_of(x);
}

static float widen(es_precision precision, uint16_t x)
{
    return precision == ES_BF16 ? float_of((uint32_t)x << 16) : of_fp16(x);
}

float es_bench_round(es_precision precision, float x)
{
    if (precision != ES_BF16 && precision != ES_FP16)
        return x;
    return widen(precision, narrow(precision, x));
}

/* --- arrays --------------------------------------------------------------- */

static size_t shift_of(const es_bench *bench, size_t size)
{
    if (bench->lie == ES_LIE_APART)
        return bench->n_arrays % 2 == 1 ? size : 0;
    return bench->lie == ES_LIE_SHIFTED ? size : 0;
}

/* Memory from es_bench_draw and similar functions, which es_bench_clear
 * frees. */
static void *drawn[64];
static int n_drawn;

static void *bytes(size_t n)
{
    void *out = malloc(n ? n : 1);
    assert_non_null(out);
    return out;
}

static void *draw_bytes(size_t n)
{
    assert_true(n_drawn < (int)(sizeof drawn / sizeof *drawn));
    return drawn[n_drawn++] = bytes(n);
}

es_mem *es_bench_put(es_bench *bench, es_bench_role role, const void *values,
                     size_t n, size_t size)
{
    const size_t shift = shift_of(bench, size), whole = n * size + 2 * AROUND;
    assert_true(bench->n_arrays < ES_BENCH_MOST);
    es_bench_array *array = &bench->arrays[bench->n_arrays++];
    *array = (es_bench_array){.role = role, .bytes = n * size};
    array->before = memset(bytes(whole), SENTINEL, whole);
    array->after = bytes(whole);
    if (values)
        memcpy(array->before + AROUND + shift, values, n * size);
    else
        memset(array->before + AROUND + shift, 0xff, n * size);
    assert_int_equal(bench->ops->reserve(bench->backend, &array->whole, whole),
                     ES_OK);
    array->memory = es_mem_at(array->whole, AROUND + shift);
    return array->memory;
}

es_mem *es_bench_put_floats(es_bench *bench, es_bench_role role,
                            const float *values, size_t n)
{
    return es_bench_put(bench, role, values, n, sizeof *values);
}

es_mem *es_bench_put_acts(es_bench *bench, es_bench_role role, float *values,
                          size_t n)
{
    if (bench->ops->activation_size == sizeof *values)
        return es_bench_put_floats(bench, role, values, n);
    uint16_t *halves = values ? bytes(n * sizeof *halves) : NULL;
    for (size_t i = 0; values && i < n; i++) {
        halves[i] = narrow(bench->precision, values[i]);
        values[i] = widen(bench->precision, halves[i]);
    }
    es_mem *memory = es_bench_put(bench, role, halves, n, sizeof *halves);
    free(halves);
    return memory;
}

static es_bench_array *array_of(es_bench *bench, const es_mem *memory)
{
    for (int i = 0; i < bench->n_arrays; i++)
        if (bench->arrays[i].memory == memory)
            return &bench->arrays[i];
    fail_msg("this memory belongs to no array of the bench");
    return NULL;
}

/* Returns the offset of the array's first element in its reserved memory. */
static size_t start_of(const es_bench_array *array)
{
    return (size_t)((const char *)array->memory - (const char *)array->whole);
}

const void *es_bench_get(es_bench *bench, const es_mem *memory)
{
    es_bench_array *array = array_of(bench, memory);
    /* The host's copy must be aligned, whatever the array's alignment on the
     * device. */
    free(array->floats);
    array->floats = bytes(array->bytes);
    return memcpy(array->floats, array->after + start_of(array), array->bytes);
}

const float *es_bench_get_acts(es_bench *bench, const es_mem *memory)
{
    const uint16_t *halves = es_bench_get(bench, memory);
    es_bench_array *array = array_of(bench, memory);
    if (bench->ops->activation_size == sizeof(float))
        return array->floats;
    const size_t n = array->bytes / sizeof *halves;
    float *floats = bytes(n * sizeof *floats);
    for (size_t i = 0; i < n; i++)
        floats[i] = widen(bench->precision, halves[i]);
    free(array->floats);
    return array->floats = floats;
}

void es_bench_clear(es_bench *bench)
{
    for (int i = 0; i < bench->n_arrays; i++) {
        es_bench_array *array = &bench->arrays[i];
        bench->ops->release(bench->backend, array->whole);
        free(array->before);
        free(array->after);
        free(array->floats);
    }
    while (n_drawn > 0)
        free(drawn[--n_drawn]);
    bench->n_arrays = 0;
    bench->kept = NULL;
}

void es_bench_keep(es_bench *bench, const es_mem *weights, size_t n)
{
    bench->kept = bench->ops->keep ? weights : NULL;
    bench->n_kept = n;
}

/* --- running -------------------------------------------------------------- */

static void store_all(es_bench *bench, es_backend *backend)
{
    for (int i = 0; i < bench->n_arrays; i++) {
        es_bench_array *array = &bench->arrays[i];
        bench->ops->store(backend, array->whole, array->before,
                          array->bytes + 2 * AROUND);
    }
}

/* Fails the test if the memory around the array has changed, or if the array
 * has changed although the operation only reads it. */
static void expect_kept(const es_bench_array *array, int index)
{
    const size_t start = start_of(array), end = start + array->bytes;
    for (size_t i = 0; i < array->bytes + 2 * AROUND; i++) {
        bool inside = i >= start && i < end;
        if (inside && array->role != ES_READ)
            continue;
        if (array->after[i] != array->before[i])
            fail_msg("array %d: byte %zd of %zu is overwritten", index,
                     (ssize_t)(i - start), array->bytes);
    }
}

static void expect_same(es_bench *bench, es_backend *backend, int index)
{
    es_bench_array *array = &bench->arrays[index];
    const size_t whole = array->bytes + 2 * AROUND;
    unsigned char *again = bytes(whole);
    bench->ops->load(backend, again, array->whole, whole);
    if (memcmp(again, array->after, whole) != 0)
        fail_msg("array %d: a repeated run gives different bits", index);
    free(again);
}

static es_backend *start_run(es_bench *bench, es_backend *on)
{
    store_all(bench, on);
    if (bench->kept)
        assert_int_equal(bench->ops->keep(on, bench->kept, bench->n_kept),
                         ES_OK);
    return on;
}

es_backend *es_bench_begin(es_bench *bench)
{
    bench->n_runs = 0;
    return start_run(bench, bench->backend);
}

es_backend *es_bench_again(es_bench *bench, es_backend *on)
{
    if (bench->kept)
        assert_int_equal(bench->ops->keep(on, bench->kept, 0), ES_OK);
    for (int i = 0; i < bench->n_arrays; i++) {
        es_bench_array *array = &bench->arrays[i];
        if (bench->n_runs > 0) {
            expect_same(bench, on, i);
            continue;
        }
        bench->ops->load(on, array->after, array->whole,
                         array->bytes + 2 * AROUND);
        expect_kept(array, i);
    }
    if (bench->n_runs == N_AGAIN)
        return NULL;
    return start_run(bench, bench->again[bench->n_runs++]);
}

/* --- comparing ------------------------------------------------------------ */

/* Returns the maximum relative change of a value when it is rounded to the
 * nearest. */
static double unit_roundoff(es_precision precision)
{
    if (precision == ES_BF16)
        return 0x1p-8;
    return precision == ES_FP16 ? 0x1p-11 : 0;
}

static double root_mean_square(const double *x, size_t n)
{
    double sum = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) {
            sum += x[i] * x[i];
            finite++;
        }
    return finite > 0 ? sqrt(sum / (double)finite) : 0;
}

void es_bench_expect_within(es_bench *bench, const char *what, const float *got,
                            const double *want, const double *slack, size_t n,
                            bool acts)
{
    const double floor = 2e-5 * root_mean_square(want, n) + 1e-6;
    const double relative = acts ? 1.01 * unit_roundoff(bench->precision) : 0;
    /* error and tolerance of the entry whose error is nearest to its
     * tolerance */
    double error = 0, tolerance = floor;
    size_t bad = n; /* index of the first entry outside its tolerance */
    char name[64];
    for (size_t i = 0; i < n; i++) {
        const double a = (double)got[i], b = want[i], off = fabs(a - b);
        const double most = floor + relative * fabs(b) + (slack ? slack[i] : 0);
        if ((isnan(a) && isnan(b)) || (isinf(a) && a == b))
            continue;
        if (!isnan(error) && !(off * tolerance <= error * most))
            error = off, tolerance = most;
        if (!(off <= most) && bad == n)
            bad = i;
    }
    snprintf(name, sizeof name, "%s, %s", what,
             es_precision_names[bench->precision]);
    es_test_report_error(name, error, tolerance);
    if (bad < n)
        fail_msg("%s: entry %zu of %zu is %.9g, not %.9g", name, bad, n,
                 (double)got[bad], want[bad]);
}

void es_bench_expect(es_bench *bench, const char *what, const float *got,
                     const double *want, size_t n, bool acts)
{
    es_bench_expect_within(bench, what, got, want, NULL, n, acts);
}

void es_bench_expect_acts(es_bench *bench, const char *what,
                          const es_mem *memory, const double *want, size_t n)
{
    es_bench_expect(bench, what, es_bench_get_acts(bench, memory), want, n,
                    true);
}

void es_bench_expect_floats(es_bench *bench, const char *what,
                            const es_mem *memory, const double *want, size_t n)
{
    es_bench_expect(bench, what, es_bench_get(bench, memory), want, n, false);
}

/* --- numbers -------------------------------------------------------------- */

static uint64_t seed = 3;

double es_bench_random(void)
{
    return es_test_random(&seed);
}

float *es_bench_draw(size_t n, double scale)
{
    float *out = draw_bytes(n * sizeof *out);
    es_test_fill(out, n, scale, &seed);
    return out;
}

double *es_bench_doubles(size_t n)
{
    return memset(draw_bytes(n * sizeof(double)), 0, n * sizeof(double));
}

double *es_bench_widen(const float *from, size_t n)
{
    double *out = es_bench_doubles(n);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)from[i];
    return out;
}

int32_t *es_bench_tokens(size_t n, int vocab)
{
    int32_t *out = draw_bytes(n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)((es_bench_random() + 1) / 2 * vocab) % vocab;
    return out;
}
