/* Compares attention over bf16 activations with plain loops in double over the
 * same rounded values. The kernels run on float32 copies of the values, in
 * every variant, and with matrix units if this machine has them. Row statistics
 * are computed from the bf16 values and are as exact as in float32; outputs and
 * gradients are rounded. */
#include "analyzer/base/processor.h"
#include "tests/support/attention_problem.h"
#include "tests/support/test.h"

/* Maximum relative error of outputs and gradients. Outputs, and the weights
 * that matrix units multiply, have a relative rounding error of 2^-9; gradients
 * are differences of sums of such products. */
#define ROUNDING 0x1p-6

typedef struct shape {
    int n_batch, n_ctx, n_head, width, power;
    bool entropy, temperatures;
} shape;

static attention_problem open_shape(const shape *s, bool tiles)
{
    attention_problem p =
        attention_open(s->n_batch, s->n_ctx, s->n_head, s->width);
    if (s->temperatures)
        attention_add_temperatures(&p);
    p.power = s->power;
    p.epsilon = s->power ? 0.25f : 0;
    p.bf16 = true;
    p.tiles = tiles;
    p.rounding = ROUNDING;
    return p;
}

/* Runs the check with each implementation of the kernels, each time on a new
 * problem. */
static void each_way(const shape *s,
                     void (*check)(attention_problem *p, const shape *s,
                                   const es_cpu_kernels *kernels))
{
    EACH_VARIANT(kernels)
    {
        attention_problem p = open_shape(s, false);
        check(&p, s, *kernels);
        attention_close(&p);
    }
    attention_problem p = open_shape(s, true);
    if (es_cpu_tiles_choose())
        check(&p, s, &es_cpu_kernels_plain);
    attention_close(&p);
}

static void run_and_check(attention_problem *p, const shape *s,
                          const es_cpu_kernels *kernels)
{
    attention_run(p, kernels, 2, s->entropy);
    attention_check(p, s->entropy);
}

TEST(every_shape_matches_plain_loops)
{
    const shape shapes[] = {
        {1, 1, 1, 1, 0, false, false},   {2, 1, 3, 4, 0, true, false},
        {3, 5, 2, 1, 0, false, true},    {1, 31, 1, 17, 0, true, true},
        {1, 32, 2, 16, 0, false, false}, {2, 33, 3, 5, 0, true, false},
        {1, 71, 2, 32, 0, true, true},   {1, 100, 1, 64, 0, false, false},
        {1, 129, 2, 33, 0, true, false}, {1, 16, 2, 96, 0, false, false},
        {1, 71, 2, 24, 2, true, false},  {2, 40, 1, 7, 6, false, false},
        {4, 20, 5, 4, 0, true, true},    {1, 9, 17, 8, 0, true, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        each_way(&shapes[i], run_and_check);
}

TEST(every_available_kernel_is_checked)
{
    const bool has = es_vectors_supported(ES_VECTORS_AMX);
    assert_int_equal(es_cpu_tiles_choose() != NULL, has);
}

/* Expects each row's entropy to be within 1e-5 nats of the entropy computed in
 * double from the same scores, for a sequence of several blocks. */
static void expect_exact(attention_problem *p, const shape *s,
                         const es_cpu_kernels *kernels)
{
    attention_run(p, kernels, 1, false);
    for (int i = 0; i < p->n_ctx; i++) {
        double sum = 0, largest = -(double)INFINITY, entropy = 0;
        double score[300];
        for (int j = 0; j <= i; j++) {
            score[j] = 0;
            for (int c = 0; c < s->width; c++)
                score[j] += (double)p->qkv[i * 3 * s->width + c] *
                            (double)p->qkv[(j * 3 + 1) * s->width + c] /
                            sqrt(s->width);
            largest = fmax(largest, score[j]);
        }
        for (int j = 0; j <= i; j++)
            sum += exp(score[j] - largest);
        for (int j = 0; j <= i; j++) {
            const double a = exp(score[j] - largest) / sum;
            entropy -= a > 0 ? a * log(a) : 0;
        }
        if (!near((double)p->rows[i], entropy, 1e-5))
            fail_msg("row %d: %.7f, not %.7f", i, (double)p->rows[i], entropy);
    }
}

TEST(entropies_are_those_of_the_bf16_scores)
{
    each_way(&(shape){1, 300, 1, 32, 0, false, false}, expect_exact);
    each_way(&(shape){1, 130, 1, 64, 0, false, false}, expect_exact);
}

/* Expects the same bits for any number of threads and any distribution of rows
 * over threads. */
static void expect_same_bits(attention_problem *p, const shape *s,
                             const es_cpu_kernels *kernels)
{
    attention_problem again = open_shape(s, p->tiles);
    attention_run(p, kernels, 1, true);
    attention_run(&again, kernels, 3, true);
    assert_memory_equal(p->y, again.y, p->n_values * sizeof *p->y);
    assert_memory_equal(p->dqkv, again.dqkv, 3 * p->n_values * sizeof *p->y);
    assert_memory_equal(p->rows, again.rows, p->n_rows * sizeof *p->rows);
    attention_close(&again);
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    each_way(&(shape){2, 45, 3, 40, 0, true, true}, expect_same_bits);
}

/* --- values that are not finite ------------------------------------------ */

static void expect_spoilt_key(attention_problem *p, const shape *s,
                              const es_cpu_kernels *kernels)
{
    (void)s;
    p->qkv[37 * 15 + 5 + 2] = NAN;
    attention_run(p, kernels, 1, false);
    attention_expect_nan_from(p, 37);
}

TEST(a_nan_key_spoils_only_later_rows)
{
    each_way(&(shape){1, 45, 1, 5, 0, false, false}, expect_spoilt_key);
}

static void expect_spoilt_value(attention_problem *p, const shape *s,
                                const es_cpu_kernels *kernels)
{
    (void)s;
    p->qkv[37 * 15 + 10 + 2] = NAN;
    attention_run(p, kernels, 1, false);
    attention_expect_nan_value(p, 37, 2);
}

TEST(a_nan_value_reaches_only_outputs)
{
    each_way(&(shape){1, 45, 1, 5, 0, false, false}, expect_spoilt_value);
}

/* Makes the gradient of one query's output NaN. The NaN must reach gradients of
 * earlier keys but not of later keys. */
static void expect_spoilt_gradient(attention_problem *p, const shape *s,
                                   const es_cpu_kernels *kernels)
{
    (void)s;
    p->dy[37 * 5 + 1] = INFINITY;
    attention_run(p, kernels, 1, false);
    for (int j = 0; j < 45; j++)
        for (int c = 5; c < 15; c++)
            if (c < 10 || c == 11)
                assert_int_equal(isfinite(p->dqkv[j * 15 + c]) != 0, j > 37);
}

TEST(an_infinite_gradient_reaches_the_keys_of_its_row)
{
    each_way(&(shape){1, 45, 1, 5, 0, false, false}, expect_spoilt_gradient);
}

/* Uses finite operands whose products overflow, so the scores of one row are
 * infinite. */
static void expect_spoilt_product(attention_problem *p, const shape *s,
                                  const es_cpu_kernels *kernels)
{
    (void)s;
    for (int c = 0; c < 32; c++)
        p->qkv[11 * 96 + c] = 3e38f;
    for (int j = 0; j <= 11; j++)
        for (int c = 32; c < 64; c++)
            p->qkv[j * 96 + c] = 4;
    attention_run(p, kernels, 1, false);
    for (int row = 0; row < p->n_ctx; row++) {
        assert_int_equal(isnan(p->rows[row]) != 0, row == 11);
        assert_int_equal(attention_rows(p, ES_ROW_NONFINITE)[row] > 0,
                         row == 11);
    }
}

TEST(scores_that_overflow_spoil_their_row)
{
    each_way(&(shape){1, 40, 1, 32, 0, false, false}, expect_spoilt_product);
}
