/* Tests --emulate fp16: the rounding itself, and attention with rounded
 * logits. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/cpu/half.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

/* --- rounding ------------------------------------------------------------- */

/* Returns fp16 value number n among the non-negative values in ascending order.
 * n = 0x7c00 stands for 2^16, which would follow the largest finite value. */
static double half_number(int n)
{
    int exponent = n >> 10, fraction = n & 1023;
    return exponent ? ldexp(1024 + fraction, exponent - 25)
                    : ldexp(fraction, -24);
}

static void expect_bits(const char *what, float x, float got, float want)
{
    uint32_t a, b;
    memcpy(&a, &got, sizeof a);
    memcpy(&b, &want, sizeof b);
    if (a != b)
        fail_msg("%s of %a is %a, not %a", what, (double)x, (double)got,
                 (double)want);
}

/* Checks that every implementation rounds x to `want` and -x to -want. The
 * length of the array is not a multiple of the number of vector lanes. */
static void expect_rounded(float x, float want)
{
    expect_bits("scalar", x, es_half_round(x), want);
    expect_bits("scalar", -x, es_half_round(-x), -want);
    EACH_VARIANT(kernels)
    {
        float values[37];
        for (int j = 0; j < 37; j++)
            values[j] = j % 2 ? -x : x;
        (*kernels)->round_half(values, 36);
        for (int j = 0; j < 36; j++)
            expect_bits((*kernels)->name, x, values[j], j % 2 ? -want : want);
        expect_bits("beyond the end", x, values[36], x);
    }
}

static float after_overflow(double value)
{
    return value < 65536 ? (float)value : INFINITY;
}

/* Covers every fp16 value and every midpoint of two values, which must be
 * rounded to even. */
TEST(every_boundary_is_rounded_to_even)
{
    for (int n = 0; n < 0x7c00; n++) {
        double here = half_number(n), next = half_number(n + 1);
        float middle = (float)((here + next) / 2);
        expect_rounded((float)here, (float)here);
        expect_rounded(middle, after_overflow(n % 2 ? next : here));
        expect_rounded(nextafterf(middle, 0), (float)here);
        expect_rounded(nextafterf(middle, INFINITY), after_overflow(next));
    }
}

TEST(extremes_are_rounded)
{
    assert_true(half_number(0x7bff) == 65504);
    expect_rounded(nextafterf(65520, 0), 65504);
    expect_rounded(65520, INFINITY);
    expect_rounded(FLT_MAX, INFINITY);
    expect_rounded(INFINITY, INFINITY);
    expect_rounded(0x1p-25f, 0);
    expect_rounded(nextafterf(0x1p-25f, 1), 0x1p-24f);
    expect_rounded(FLT_MIN, 0);
    expect_rounded(FLT_TRUE_MIN, 0);
    const uint32_t payloads[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001,
                                 0xffffffff};
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        float x;
        memcpy(&x, &payloads[i], sizeof x);
        assert_true(isnan(es_half_round(x)));
        EACH_VARIANT(kernels)
        {
            float y = x;
            (*kernels)->round_half(&y, 1);
            assert_true(isnan(y));
        }
    }
}

/* A faulty rounding that sets subnormal values to zero; the test must detect
 * it. */
static void flushing(float *x, size_t n)
{
    es_cpu_kernels_plain.round_half(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = fabsf(x[i]) < 0x1p-14f ? 0 : x[i];
}

TEST(a_wrong_rounding_is_detected_at_first_use)
{
    es_cpu_kernels wrong = es_cpu_kernels_plain;
    assert_true(es_cpu_kernels_agree(&wrong));
    wrong.round_half = flushing;
    assert_false(es_cpu_kernels_agree(&wrong));
}

/* --- attention ------------------------------------------------------------ */

/* One head with as many queries as dimensions, and with more than one block of
 * queries. The keys are the identity matrix, so the elements of a query equal
 * its products q . k with the keys. The reference, computed in double, can then
 * use rounded products as queries. */
enum { T = 35, N = T * T };

typedef struct head_case {
    float qkv[3 * N], log_t[T], y[N], saved[2 * T], dy[N], dqkv[3 * N],
        dlog_t[T];
    float entropy[T], dentropy[T];
    /* operands of the reference, which is computed in double */
    double q[N], k[N], v[N], identity[N], products[N];
    double ref_log_t[T], ref_y[N], ref_rows[ES_N_ROW_STATISTICS * T];
    double ref_dy[N], ref_dentropy[T], dproducts[N], dk[N], dv[N],
        ref_dlog_t[T];
} head_case;

/* Draws multiples of 1/8, for which sums of products in float32 are exact. */
static void draw_head(head_case *c)
{
    uint64_t seed = 5;
    for (int i = 0; i < N; i++) {
        float *row = c->qkv + i / T * 3 * T + i % T;
        c->q[i] = round(96 * es_test_random(&seed)) / 8;
        c->k[i] = round(96 * es_test_random(&seed)) / 8;
        c->v[i] = es_test_random(&seed);
        row[0] = (float)c->q[i];
        row[T] = (float)c->k[i];
        row[2 * T] = (float)c->v[i];
        c->v[i] = (double)row[2 * T];
        c->dy[i] = (float)es_test_random(&seed);
        c->ref_dy[i] = (double)c->dy[i];
        c->identity[i] = i / T == i % T;
    }
    for (int i = 0; i < T; i++) {
        c->log_t[i] = logf(8 + (float)i / 8);
        c->ref_log_t[i] = (double)c->log_t[i];
        c->dentropy[i] = (float)es_test_random(&seed);
        c->ref_dentropy[i] = (double)c->dentropy[i];
    }
}

/* Computes the products q . k, and rounds them to fp16 unless `exact`. */
static void multiply_head(head_case *c, bool exact)
{
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) {
            double sum = 0;
            for (int d = 0; d < T; d++)
                sum += c->q[i * T + d] * c->k[j * T + d];
            assert_true((double)(float)sum == sum);
            c->products[i * T + j] =
                exact ? sum : (double)es_half_round((float)sum);
        }
}

static void refer(head_case *c)
{
    const es_ref_head head = {.n_ctx = T,
                              .width = T,
                              .q = c->products,
                              .k = c->identity,
                              .v = c->v,
                              .log_t = c->ref_log_t,
                              .y = c->ref_y,
                              .rows = c->ref_rows,
                              .dy = c->ref_dy,
                              .dentropy = c->ref_dentropy,
                              .dq = c->dproducts,
                              .dk = c->dk,
                              .dv = c->dv,
                              .dlog_t = c->ref_dlog_t};
    es_ref_attention(&head);
    es_ref_attention_backward(&head);
}

static es_mem *mem(void *floats_of_cpu)
{
    return (es_mem *)floats_of_cpu;
}

/* Runs the head forward and backward. The backward pass reads the output `y`,
 * or the output of the forward pass if `y` is NULL. */
static void run_head(head_case *c, const es_cpu_kernels *kernels, float *y)
{
    const es_ops *ops = &es_cpu_ops;
    const es_extents largest = {T, 3 * T, T, 1, T, false};
    const es_attention shape = {.n_batch = 1,
                                .n_ctx = T,
                                .n_head = 1,
                                .d_model = T,
                                .log_t = mem(c->log_t)};
    const es_row_mem rows = {.array = {[ES_ROW_ENTROPY] = mem(c->entropy)}};
    es_backend *cpu;
    es_assert_ok(ops->open(&cpu, 2));
    cpu->kernels = kernels;
    es_assert_ok(ops->prepare(cpu, &largest));
    ops->emulate_fp16(cpu);
    memset(c->dlog_t, 0, sizeof c->dlog_t);
    ops->attention(cpu, mem(c->y), mem(c->saved), &rows, mem(c->qkv), &shape);
    ops->attention_backward(cpu, mem(c->dqkv), mem(c->dlog_t), mem(c->dy),
                            mem(y ? y : c->y), mem(c->dentropy), mem(c->qkv),
                            mem(c->saved), &shape);
    ops->close(cpu);
}

static void expect_gradients(head_case *c)
{
    float got[3][N];
    double want[3][N] = {{0}};
    for (int i = 0; i < N; i++) {
        const float *row = c->dqkv + i / T * 3 * T + i % T;
        got[0][i] = row[0], got[1][i] = row[T], got[2][i] = row[2 * T];
        want[2][i] = c->dv[i];
        for (int d = 0; d < T; d++) {
            want[0][i / T * T + d] += c->dproducts[i] * c->k[i % T * T + d];
            want[1][i % T * T + d] += c->dproducts[i] * c->q[i / T * T + d];
        }
    }
    es_test_expect_close("dq", got[0], want[0], N);
    es_test_expect_close("dk", got[1], want[1], N);
    es_test_expect_close("dv", got[2], want[2], N);
    es_test_expect_close("dlog_t", c->dlog_t, c->ref_dlog_t, T);
}

static bool is_close(const float *got, const double *want, size_t n)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        off += pow((double)got[i] - want[i], 2);
        size += pow(want[i], 2);
    }
    return sqrt(off) <= 2e-5 * sqrt(size);
}

TEST(attention_rounds_products)
{
    AUTO_FREE head_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    draw_head(c);
    multiply_head(c, true);
    refer(c);
    double exact[T];
    memcpy(exact, c->ref_rows, sizeof exact);
    multiply_head(c, false);
    refer(c);
    EACH_VARIANT(kernels)
    {
        float y[N];
        for (int i = 0; i < N; i++)
            y[i] = (float)c->ref_y[i];
        run_head(c, *kernels, y);
        es_test_expect_close("entropy", c->entropy, c->ref_rows, T);
        assert_false(is_close(c->entropy, exact, T));
        expect_gradients(c);
        for (int i = 0; i < N; i++) {
            assert_true(c->y[i] == es_half_round(c->y[i]));
            assert_true(fabs((double)c->y[i] - c->ref_y[i]) <=
                        0x1.01p-11 * fabs(c->ref_y[i]) + 0x1p-20);
        }
    }
}

/* Makes the product of query 2 and key 1 infinite. With -infinity, the key has
 * no weight and no gradient, and only the row's entropy is NaN. With +infinity,
 * the whole row is NaN. */
static void check_overflow(head_case *c, const es_cpu_kernels *kernels,
                           float size)
{
    memset(c->qkv + 3 * T + T, 0, T * sizeof(float)); /* key 1 */
    c->qkv[3 * T + T] = size;
    for (int i = 0; i < T; i++)
        c->qkv[i * 3 * T] = i == 2 ? 300 : 0; /* the first element of query i */
    run_head(c, kernels, NULL);
    for (int i = 0; i < T; i++) {
        assert_int_equal(isnan(c->entropy[i]), i == 2);
        assert_int_equal(isnan(c->dlog_t[i]), i == 2 && size > 0);
        for (int d = 0; d < T; d++)
            assert_int_equal(isnan(c->y[i * T + d]), i == 2 && size > 0);
    }
    for (int i = 0; i < 3 * N; i++)
        if (size < 0)
            assert_true(isfinite(c->dqkv[i]));
}

TEST(logits_beyond_fp16_are_infinite)
{
    AUTO_FREE head_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    EACH_VARIANT(kernels)
    {
        draw_head(c);
        /* as in training, where the regulariser has no gradient for a row that
         * is not finite */
        c->dentropy[2] = 0;
        check_overflow(c, *kernels, -300);
        check_overflow(c, *kernels, 300);
    }
}
