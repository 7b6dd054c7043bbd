/* Compares attention of the CUDA back-end with plain loops in double, on the
 * emulation and, if there is one, on a device. Inputs are rounded to the
 * precision first, so that only the arithmetic causes errors. The tolerance of
 * statistics, and of all results in fp32, is the same as for the CPU back-end;
 * for 16-bit outputs the tolerance allows two roundings. */
/* needs: nvcc */
#include "analyzer/base/value.h"
#include "tests/emulation/counts.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_attention.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

/* --- whole problems --------------------------------------------------------
 */

/* Value of whole_problem.entropy: compute the attention twice, without and with
 * a gradient of the entropies. */
enum { BOTH = 2 };

typedef struct shape {
    int n_batch, n_ctx, n_head, width;
} shape;

/* An attention to be computed with random inputs. Members that are 0 have no
 * effect. */
typedef struct whole_problem {
    shape shape;
    es_precision precision;
    /* 1: with a gradient of the entropies (dentropy), 0: without it, or BOTH */
    int entropy;
    int power;
    double epsilon;
    es_row_length length;
    float temperature; /* factor that multiplies the random temperatures */
    float queries;     /* factor that multiplies the queries */
} whole_problem;

static attention_problem open_whole(const whole_problem *w)
{
    const shape *s = &w->shape;
    attention_problem p =
        attention_open(s->n_batch, s->n_ctx, s->n_head, s->width);
    p.power = w->power;
    p.epsilon = (float)w->epsilon;
    p.length = w->length;
    if (w->temperature > 0)
        attention_add_temperatures(&p);
    for (int i = 0; w->temperature > 0 && i < s->n_head * s->n_ctx; i++)
        p.log_t[i] += logf(w->temperature);
    if (w->queries > 0)
        attention_scale_queries(&p, w->queries);
    return p;
}

/* Returns the emulation's counts, which include the number of launches that
 * recomputed rows. Returns NULL on a device, which does not count. */
static const es_host_counts *counts(const cuda_place *place)
{
    return dlsym(place->plugin, ES_HOST_COUNTS_NAME);
}
static long n_again(const cuda_place *place)
{
    return counts(place) ? counts(place)->again : 0;
}

/* Checks the results for inputs that are all finite. No row may be flagged for
 * recomputation, except the last 16 rows in the forward pass, if they include
 * padding whose sum of weights is 0. */
static void check(whole_problem w)
{
    const bool no_sum =
        w.power > 0 && w.epsilon == 0 && w.shape.n_ctx % 16 != 0;
    EACH_PLACE(place)
    for (int entropy = w.entropy % BOTH; entropy <= (w.entropy > 0);
         entropy++) {
        attention_problem p = open_whole(&w);
        const long before = n_again(place);
        cuda_attention_run(&p, place,
                           (cuda_run){w.precision, .entropy = entropy});
        assert_true(n_again(place) <= before + no_sum);
        attention_check(&p, entropy);
        attention_close(&p);
    }
}

static const es_precision precisions[] = {ES_FP32, ES_BF16, ES_FP16};
static const es_precision both[] = {ES_FP32, ES_BF16};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Tests head widths that have special kernels, and widths between them. */
static void test_cuda_attention__fp32(void **state)
{
    static const shape shapes[] = {
        {1, 1, 1, 1},    {2, 1, 3, 4},    {1, 2, 1, 3},   {3, 5, 2, 1},
        {1, 31, 1, 17},  {1, 64, 2, 32},  {2, 66, 1, 33}, {1, 130, 1, 64},
        {1, 71, 1, 100}, {1, 33, 1, 160}, {1, 18, 1, 256}};
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        check((whole_problem){shapes[i], ES_FP32, .entropy = i % 2});
}

/* Tests shapes for tensor cores, where a warp processes 16 or 32 rows and a
 * block 64 or 128 rows. */
static void test_cuda_attention__tensor_cores(void **state)
{
    static const shape shapes[] = {
        {1, 1, 1, 16},   {2, 15, 3, 16}, {1, 64, 1, 24},   {1, 129, 1, 32},
        {1, 200, 1, 64}, {2, 66, 2, 48}, {1, 131, 1, 128}, {1, 70, 1, 104}};
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(shapes); i++)
        check((whole_problem){shapes[i / 2], precisions[1 + i % 2],
                              .entropy = i / 2 % 2});
}

/* Tests head widths that tensor cores do not support. */
static void test_cuda_attention__odd_widths_of_16_bits(void **state)
{
    static const shape odd[] = {{1, 33, 2, 5}, {2, 67, 1, 20}, {1, 40, 1, 136}};
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(odd); i++)
        check((whole_problem){odd[i / 2], precisions[1 + i % 2],
                              .entropy = i / 2 % 2});
}

/* Tests a context of many tiles, the last of which has 7 rows. */
static void test_cuda_attention__long_context(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++)
        check((whole_problem){{1, 1031, 1, 64}, both[n], .entropy = true});
}

/* --- temperatures --------------------------------------------------------- */

static void test_cuda_attention__temperatures(void **state)
{
    static const whole_problem problems[] = {
        {{3, 7, 2, 2}, ES_FP32, BOTH, .temperature = 1},
        {{1, 71, 1, 16}, ES_FP32, BOTH, .temperature = 1},
        {{2, 67, 1, 16}, ES_BF16, BOTH, .temperature = 1},
        {{1, 70, 1, 64}, ES_FP16, BOTH, .temperature = 1},
        /* In each row one weight is nearly 1, so the gradients are small. The
         * error must be small relative to these gradients. */
        {{1, 75, 2, 16}, ES_FP32, true, .temperature = 0.1f},
        {{1, 75, 2, 16}, ES_BF16, true, .temperature = 0.1f},
        {{1, 75, 2, 16}, ES_FP16, true, .temperature = 0.1f}};
    (void)state;
    for (size_t i = 0; i < COUNT(problems); i++)
        check(problems[i]);
}

static void test_cuda_attention__no_temperature_is_too_small(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int entropy = 0; entropy < 2; entropy++) {
        attention_problem p = attention_open_cold();
        cuda_attention_run(&p, place, (cuda_run){ES_FP32, .entropy = entropy});
        attention_check(&p, entropy);
        attention_expect_pulled(&p);
        attention_close(&p);
    }
}

/* Checks rows with a single weight of 1: the gradients of q, k and t must be
 * exactly 0, even if 1/t is 10^4. With t = 0, attention has no temperatures. */
static void check_one_weight(es_precision precision, shape s, float t,
                             float factor)
{
    EACH_PLACE(place)
    {
        attention_problem p = open_whole(&(whole_problem){s, .temperature = t});
        for (int i = 0; i < p.n_ctx; i++) {
            if (t > 0)
                p.log_t[i] = logf(t);
            for (int c = 0; c < 2 * s.width; c++)
                p.qkv[i * 3 * s.width + c] *= factor;
        }
        cuda_attention_run(&p, place, (cuda_run){precision, .entropy = true});
        for (int i = 0; i < p.n_ctx; i++) {
            for (int c = 0; c < 2 * s.width; c++)
                assert_true(p.dqkv[i * 3 * s.width + c] == 0);
            if (t > 0)
                assert_true(p.dlog_t[i] == 0 && p.rows[i] == 0);
        }
        attention_close(&p);
    }
}

static void test_cuda_attention__one_weight(void **state)
{
    (void)state;
    check_one_weight(ES_FP32, (shape){1, 70, 1, 7}, 1e-4f, 100);
    check_one_weight(ES_BF16, (shape){1, 70, 1, 16}, 1e-4f, 100);
    check_one_weight(ES_FP16, (shape){1, 70, 1, 64}, 1e-4f, 100);
    check_one_weight(ES_FP32, (shape){1, 70, 1, 32}, 1e-2f, 100);
    for (size_t n = 0; n < 3; n++)
        check_one_weight(precisions[n], (shape){1, 90, 1, 32}, 0, 1000);
}

/* --- PowerSoftmax --------------------------------------------------------- */

static void test_cuda_attention__power(void **state)
{
    static const whole_problem problems[] = {
        {{1, 1, 1, 1}, ES_FP32, BOTH, .power = 2, .epsilon = 1e-3},
        {{2, 66, 1, 5}, ES_FP32, BOTH, .power = 4, .epsilon = 0},
        {{1, 71, 2, 2}, ES_FP32, BOTH, .power = 6, .epsilon = 1e-3},
        {{1, 40, 1, 64}, ES_FP32, BOTH, .power = 2, .epsilon = 20},
        {{1, 37, 2, 8}, ES_FP32, BOTH, .power = ES_POWER_MAX, .epsilon = 1e-3},
        {{2, 45, 2, 5},
         ES_FP32,
         BOTH,
         .power = 4,
         .epsilon = 0.1,
         .length = ES_LENGTH_VISIBLE},
        {{1, 70, 2, 32},
         ES_BF16,
         BOTH,
         .power = 4,
         .epsilon = 0.1,
         .length = ES_LENGTH_VISIBLE},
        {{1, 37, 1, 16},
         ES_FP32,
         BOTH,
         .power = 2,
         .epsilon = 0.1,
         .length = ES_LENGTH_CONTEXT},
        {{1, 131, 1, 16}, ES_BF16, BOTH, .power = 2, .epsilon = 1e-3},
        {{1, 70, 2, 64}, ES_BF16, BOTH, .power = 4, .epsilon = 0},
        {{1, 67, 1, 128}, ES_FP16, BOTH, .power = 6, .epsilon = 1e-3}};
    /* The factors make scores so small that the 1e-6 in the divisor changes the
     * weights considerably, or so large or small that float32 can barely
     * represent them. */
    static const float factors[] = {1e-4f, 1e-7f, 1e-12f, 1e-20f, 1e9f, 1e30f};
    (void)state;
    for (size_t i = 0; i < COUNT(problems); i++)
        check(problems[i]);
    for (int n = 0; n < 12; n++)
        check((whole_problem){{1, 35, 2, 3},
                              ES_FP32,
                              true,
                              n % 2 ? 2 : 16,
                              n % 3 ? 1e-3 : 0,
                              .queries = factors[n / 2]});
}

/* Tests rows whose scores are all 0: the divisor c is 1e-6, and all weights
 * must be 0. */
static void test_cuda_attention__power_of_zero(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int n = 0; n < 2; n++) {
        attention_problem p = attention_open(1, 37, 1, 16);
        p.power = 2;
        p.epsilon = 1e-3f;
        attention_scale_queries(&p, 0);
        cuda_attention_run(&p, place,
                           (cuda_run){n ? ES_BF16 : ES_FP32, .entropy = true});
        attention_expect_no_weight(&p);
        attention_close(&p);
    }
}

/* Tests a row (row 5 of 7) whose scores are 0 and which has no epsilon, so its
 * weights are 0 / 0. Other rows must not be affected. */
static void test_cuda_attention__power_without_divisor(void **state)
{
    (void)state;
    EACH_PLACE(place)
    {
        attention_problem p = attention_open(1, 7, 1, 2);
        p.power = 4;
        p.qkv[5 * 6] = p.qkv[5 * 6 + 1] = 0;
        cuda_attention_run(&p, place, (cuda_run){.precision = ES_FP32});
        attention_expect_nan_at(&p, 5);
        for (int i = 0; i < 7; i++)
            assert_int_equal(isnan(p.y[2 * i]) != 0, i == 5);
        attention_close(&p);
    }
}

/* --- peaked and flat rows ------------------------------------------------- */

/* Tests scores of several thousands. If the entropy were computed as
 * logsumexp(s) - sum(a * s), without subtracting the largest score, its error
 * would be 1e-3. */
static void test_cuda_attention__peaked(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (size_t n = 0; n < 3; n++) {
        attention_problem p = attention_open(1, 80, 1, n ? 16 : 8);
        for (size_t j = 0; j < 3 * p.n_values; j++)
            p.qkv[j] = roundf(p.qkv[j] * 8);
        cuda_attention_run(&p, place, (cuda_run){.precision = precisions[n]});
        attention_check(&p, false);
        attention_close(&p);
    }
}

/* Tests rows of n equal scores, whose entropy must be ln n except for errors in
 * the last bits. */
static void test_cuda_attention__flat(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int n = 0; n < 2; n++) {
        attention_problem p = attention_open(1, 150, 1, 16);
        attention_scale_queries(&p, 0);
        cuda_attention_run(&p, place,
                           (cuda_run){.precision = n ? ES_BF16 : ES_FP32});
        for (int i = 0; i < p.n_ctx; i++)
            assert_true(fabs((double)p.rows[i] - log(i + 1)) <= 1e-6);
        attention_close(&p);
    }
}

/* --- non-finite numbers --------------------------------------------------- */

/* Computes an attention in which one number at position 37 of 90 has been
 * replaced by `value`, which is not finite. The position lies inside tiles of
 * 16, 32 and 64 rows. */
static attention_problem run_spoilt(const cuda_place *place, int power,
                                    es_precision precision, int column,
                                    float value)
{
    attention_problem p = attention_open(1, 90, 1, 16);
    p.power = power;
    p.epsilon = 1e-3f;
    p.qkv[37 * 48 + column] = value;
    cuda_attention_run(&p, place, (cuda_run){precision, .entropy = true});
    return p;
}

/* A NaN in a key affects the key's row and all later rows. A NaN in a value
 * affects outputs, but no statistics. */
static void test_cuda_attention__nan_key_or_value(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int n = 0; n < 8; n++) {
        const bool of_key = n / 4;
        const long before = n_again(place);
        attention_problem p = run_spoilt(place, n / 2 % 2 * 4, both[n % 2],
                                         (of_key ? 16 : 32) + 2, NAN);
        if (counts(place)) /* one launch in the forward pass, and one in the
                            * backward pass */
            assert_int_equal(n_again(place) - before,
                             both[n % 2] == ES_BF16 ? 2 : 0);
        if (of_key)
            attention_expect_nan_from(&p, 37);
        else
            attention_expect_nan_value(&p, 37, 2);
        for (int i = 0; i < p.n_ctx; i++)
            assert_int_equal(isnan(p.dqkv[i * 48 + 1]) != 0, i >= 37);
        attention_close(&p);
    }
}

/* An infinity in a query makes all scores of the query's row infinite or NaN,
 * but does not affect other rows. It also affects the gradients of all keys
 * that the query sees. */
static void test_cuda_attention__infinite_query(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int n = 0; n < 4; n++) {
        attention_problem p =
            run_spoilt(place, n / 2 * 4, both[n % 2], 1, INFINITY);
        for (int row = 0; row < p.n_ctx; row++) {
            assert_int_equal(isnan(p.rows[row]) != 0, row == 37);
            assert_int_equal(attention_rows(&p, ES_ROW_NONFINITE)[row],
                             row == 37 ? 38 : 0);
            assert_int_equal(isnan(p.dqkv[row * 48 + 3]) != 0, row == 37);
            for (int c = 16; c < 48; c++)
                assert_int_equal(isnan(p.dqkv[row * 48 + c]) != 0, row <= 37);
        }
        attention_close(&p);
    }
}

/* A score of -inf has a weight of 0, which is correct, but the tensor-core
 * kernels flag the row. With 90 tokens, the key is also multiplied by the zeros
 * with which the last tile of queries is padded. */
static void test_cuda_attention__one_minus_infinity(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int n = 0; n < 8; n++) {
        const int at = n / 2 % 2 ? 3 : 0, n_ctx = n / 4 ? 90 : 6;
        attention_problem p = attention_open(1, n_ctx, 1, 16);
        for (int j = 0; j < n_ctx; j++) {
            memset(p.qkv + 48 * j, 0, 32 * sizeof *p.qkv);
            p.qkv[48 * j] = 2;
            p.qkv[48 * j + 16] = j == at ? -INFINITY : 1;
        }
        cuda_attention_run(&p, place, (cuda_run){.precision = both[n % 2]});
        for (int row = 0; row < n_ctx; row++) {
            assert_int_equal(isnan(p.rows[row]) != 0, row >= at);
            assert_int_equal(attention_rows(&p, ES_ROW_NONFINITE)[row],
                             at == 0 && row == 0);
            assert_int_equal(isfinite(p.y[16 * row]) != 0, at != 0 || row != 0);
            assert_int_equal(isfinite(p.dqkv[48 * row + 40]) != 0,
                             at != 0 || row != 0);
        }
        attention_close(&p);
    }
}

static void test_cuda_attention__nan_temperature(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int n = 0; n < 2; n++) {
        attention_problem p = attention_open(2, 70, 2, 16);
        attention_add_temperatures(&p);
        p.log_t[70 + 3] = NAN;
        cuda_attention_run(&p, place, (cuda_run){both[n], .entropy = true});
        attention_expect_nan_temperature(&p, 1, 3);
        attention_close(&p);
    }
}

/* Returns true if the outputs of a row equal those computed in float32, except
 * for one rounding. */
static bool is_rounded(const attention_problem *p, const attention_problem *q,
                       int row)
{
    bool all = true;
    for (int i = row * p->width; i < (row + 1) * p->width; i++)
        all = all && ((isnan(p->y[i]) && isnan(q->y[i])) ||
                      fabsf(p->y[i] - q->y[i]) <= 0x1p-8f * fabsf(q->y[i]));
    return all;
}

/* Puts a NaN into the value at position 37. The float32 kernels must recompute
 * the group of 16 rows that contains position 37, and all later rows. Earlier
 * rows must keep the results of the tensor-core kernels. */
static void test_cuda_attention__only_flagged_rows_are_recomputed(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int power = 0; power <= 4; power += 4) {
        attention_problem p = run_spoilt(place, power, ES_BF16, 32 + 2, NAN);
        attention_problem q = attention_open(1, 90, 1, 16);
        bool before = true;
        memcpy(q.qkv, p.qkv, 3 * p.n_values * sizeof *p.qkv);
        q.power = p.power;
        q.epsilon = p.epsilon;
        cuda_attention_run(&q, place, (cuda_run){.precision = ES_FP32});
        for (int row = 0; row < p.n_ctx; row++)
            if (row < 32)
                before = before && is_rounded(&p, &q, row);
            else
                assert_true(is_rounded(&p, &q, row));
        assert_false(before);
        attention_close(&p);
        attention_close(&q);
    }
}

/* Returns true if element i of the gradients equals that computed in float32,
 * except for roundings to 16 bits. */
static bool is_near(const attention_problem *p, const attention_problem *q,
                    int i, float largest)
{
    return (isnan(p->dqkv[i]) && isnan(q->dqkv[i])) ||
           fabsf(p->dqkv[i] - q->dqkv[i]) <= 0.02f * largest;
}

/* Puts an infinity into the query at position 37. The other 15 rows of its
 * group, which are recomputed, and later keys must have correct gradients,
 * including the contribution of the entropies. */
static void
test_cuda_attention__recomputed_rows_have_their_gradients(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int power = 0; power <= 4; power += 4) {
        attention_problem p = run_spoilt(place, power, ES_BF16, 1, INFINITY);
        attention_problem q = attention_open(1, 90, 1, 16);
        float largest = 0;
        memcpy(q.qkv, p.qkv, 3 * p.n_values * sizeof *p.qkv);
        memcpy(q.dy, p.dy, p.n_values * sizeof *p.dy);
        memcpy(q.dentropy, p.dentropy, p.n_rows * sizeof *p.dentropy);
        q.power = p.power;
        q.epsilon = p.epsilon;
        cuda_attention_run(&q, place, (cuda_run){ES_FP32, .entropy = true});
        for (int i = 48 * 38; i < 48 * 90; i++)
            largest = fmaxf(largest, fabsf(q.dqkv[i]));
        assert_true(largest > 0 && largest < INFINITY);
        for (int i = 48 * 32; i < 48 * 90; i++)
            if (i >= 48 * 38 || (i < 48 * 37 && i % 48 < 16))
                assert_true(is_near(&p, &q, i, largest));
        attention_close(&p);
        attention_close(&q);
    }
}

/* --- bits ----------------------------------------------------------------- */

static void expect_same(const attention_problem *p, const attention_problem *q)
{
    assert_memory_equal(p->y, q->y, p->n_values * sizeof *p->y);
    assert_memory_equal(p->dqkv, q->dqkv, 3 * p->n_values * sizeof *p->dqkv);
}

/* Runs attention twice with statistics and once without. The outputs must have
 * the same bits. */
static void test_cuda_attention__same_bits(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int n = 0; n < 4; n++) {
        const cuda_run runs[] = {
            {.precision = both[n % 2]},
            {.precision = both[n % 2]},
            {.precision = both[n % 2], .unmeasured = true}};
        attention_problem p[3];
        for (int i = 0; i < 3; i++) {
            p[i] = attention_open(2, 70, 2, 24);
            p[i].power = n / 2 * 2;
            cuda_attention_run(&p[i], place, runs[i]);
            expect_same(&p[0], &p[i]);
        }
        assert_memory_equal(p[0].rows, p[1].rows,
                            ES_N_ROW_STATISTICS * p[0].n_rows * sizeof(float));
        for (int i = 0; i < 3; i++)
            attention_close(&p[i]);
    }
}

/* Runs threads in order, in reverse order and in random orders, which must not
 * change any bit. A device chooses the order itself and must give the same bits
 * every time. Sanitizers see the same memory accesses in each order, so one
 * order is enough for them. */
static void test_cuda_attention__any_order_of_threads(void **state)
{
    enum { N_ORDERS = SANITIZED ? 1 : 4 };
    static const char *const orders[] = {"", "reverse", "random=1", "random=2"};
    static const whole_problem problems[] = {
        {{1, 135, 2, 32}, ES_BF16, .temperature = 1},
        {{1, 260, 1, 64}, ES_BF16, .power = 0},
        {{1, 131, 1, 128}, ES_BF16, .power = 4},
        {{1, 70, 1, 20},
         ES_BF16,
         .power = 0} /* tensor cores do not support this head width */
    };
    (void)state;
    EACH_PLACE(place)
    for (size_t n = 0; n < COUNT(problems); n++) {
        attention_problem p[N_ORDERS];
        for (size_t i = 0; i < N_ORDERS; i++) {
            p[i] = open_whole(&problems[n]);
            setenv("ENTROPY_TRAIN_EMULATION", orders[i], 1);
            cuda_attention_run(
                &p[i], place,
                (cuda_run){problems[n].precision, .entropy = true});
            expect_same(&p[0], &p[i]);
            assert_memory_equal(p[0].rows, p[i].rows,
                                ES_N_ROW_STATISTICS * p[0].n_rows *
                                    sizeof(float));
        }
        unsetenv("ENTROPY_TRAIN_EMULATION");
        for (size_t i = 0; i < N_ORDERS; i++)
            attention_close(&p[i]);
    }
}

/* Returns the length of the context to test. With emulated kernels the context
 * is shorter, and with sanitizers it is even shorter. */
static int longest(const cuda_place *place, int power)
{
    if (strstr(place->file, "host") == NULL)
        return 8192;
    return SANITIZED ? 777 : power ? 2049 : 4097;
}

static void test_cuda_attention__longest_context(void **state)
{
    (void)state;
    EACH_PLACE(place)
    for (int power = 0; power <= 4; power += 4) {
        attention_problem p = attention_open(1, longest(place, power), 1, 16);
        p.power = power;
        cuda_attention_run(&p, place, (cuda_run){ES_BF16, .entropy = true});
        attention_check(&p, true);
        attention_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_attention__fp32),
        cmocka_unit_test(test_cuda_attention__tensor_cores),
        cmocka_unit_test(test_cuda_attention__odd_widths_of_16_bits),
        cmocka_unit_test(test_cuda_attention__long_context),
        cmocka_unit_test(test_cuda_attention__temperatures),
        cmocka_unit_test(test_cuda_attention__no_temperature_is_too_small),
        cmocka_unit_test(test_cuda_attention__one_weight),
        cmocka_unit_test(test_cuda_attention__power),
        cmocka_unit_test(test_cuda_attention__power_of_zero),
        cmocka_unit_test(test_cuda_attention__power_without_divisor),
        cmocka_unit_test(test_cuda_attention__peaked),
        cmocka_unit_test(test_cuda_attention__flat),
        cmocka_unit_test(test_cuda_attention__nan_key_or_value),
        cmocka_unit_test(test_cuda_attention__infinite_query),
        cmocka_unit_test(test_cuda_attention__one_minus_infinity),
        cmocka_unit_test(test_cuda_attention__nan_temperature),
        cmocka_unit_test(test_cuda_attention__only_flagged_rows_are_recomputed),
        cmocka_unit_test(
            test_cuda_attention__recomputed_rows_have_their_gradients),
        cmocka_unit_test(test_cuda_attention__same_bits),
        cmocka_unit_test(test_cuda_attention__any_order_of_threads),
        cmocka_unit_test(test_cuda_attention__longest_context),
    };
    cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
