/* Tests the computation of logits in blocks of rows. Losses and gradients must
 * equal those of a single block with all rows, and a step must have the same
 * result whether it computes losses in the forward or in the backward pass. */
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/reference_ops.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/* Returns the number of rows of logits that are computed at a time. With three
 * rows per block, the last block of the 10 rows is shorter. */
static int three_rows(int vocab)
{
    (void)vocab;
    return 3;
}

static es_ops in_blocks(const es_ops *whole)
{
    es_ops ops = *whole;
    ops.loss_rows = three_rows;
    return ops;
}

/* Opens a model on another back-end, with the parameters and tokens of
 * `like`. */
static es_small_model open_on(const es_ops *ops, const es_small_model *like)
{
    es_small_model s = *like;
    es_assert_ok(es_model_new(&s.model, like->config, ops, 2));
    s.config = es_model_config_of(s.model);
    for (size_t i = 0; i < es_model_n_arrays(s.model); i++) {
        const size_t n = es_model_parameter(s.model, i).n;
        AUTO_FREE float *values = calloc(n, sizeof *values);
        es_assert_ok(es_model_get(like->model, i, values, n));
        es_assert_ok(es_model_set(s.model, i, values, n));
    }
    return s;
}

static void expect_close(const char *name, const float *got, const float *want,
                         size_t n)
{
    AUTO_FREE double *wide = calloc(n, sizeof *wide);
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)want[i];
    es_test_expect_close(name, got, wide, n);
}

typedef es_status reader(es_model *model, size_t index, float *values,
                         size_t n);

static void expect_arrays(const es_small_model *a, const es_small_model *b,
                          reader *read, bool same)
{
    for (size_t i = 0; i < es_model_n_arrays(a->model); i++) {
        const es_parameter array = es_model_parameter(a->model, i);
        AUTO_FREE float *x = calloc(array.n, sizeof *x);
        AUTO_FREE float *y = calloc(array.n, sizeof *y);
        es_assert_ok(read(a->model, i, x, array.n));
        es_assert_ok(read(b->model, i, y, array.n));
        if (same && memcmp(x, y, array.n * sizeof *x) != 0)
            fail_msg("%s: other bits", array.name);
        expect_close(array.name, x, y, array.n);
    }
}

static const char *const archs[] = {"SM+LN+G", "SM+R", "EReg(SM(t)+ScFuFFNi1)"};
#define N_ARCHS (sizeof archs / sizeof *archs)

TEST(blocks_have_the_losses_and_gradients_of_all_rows)
{
    const es_ops ops = in_blocks(&es_cpu_ops);
    for (size_t i = 0; i < N_ARCHS; i++) {
        AUTO_BY(es_small_close)
        es_small_model whole = es_small_open_arch(archs[i]);
        AUTO_BY(es_small_close) es_small_model s = open_on(&ops, &whole);
        es_small_gradients(&whole);
        es_small_gradients(&s);
        assert_true(near(s.losses.ce, whole.losses.ce, 1e-6));
        assert_true(near(s.losses.loss, whole.losses.loss, 1e-6));
        expect_arrays(&s, &whole, es_model_get_gradient, false);
        expect_close("logits", es_model_logits(s.model),
                     es_model_logits(whole.model),
                     (size_t)(s.n * s.config->vocab));
    }
}

static es_status draw(void *user, int32_t *tokens, int32_t *targets, int i)
{
    const es_small_model *s = user;
    for (int r = 0; r < s->n; r++) {
        tokens[r] = s->tokens[(r + i) % s->n];
        targets[r] = s->targets[(r + 2 * i) % s->n];
    }
    return ES_OK;
}

#define LR 0.01

static es_outcome step_by_calls(es_small_model *s, const es_train_config *train,
                                int n)
{
    es_outcome out;
    int32_t tokens[ES_SMALL_TOKENS], targets[ES_SMALL_TOKENS];
    es_model_zero_gradients(s->model);
    es_model_begin(s->model, true, train, LR);
    for (int i = 0; i < n; i++) {
        draw(s, tokens, targets, i);
        es_assert_ok(es_model_pass(s->model, tokens, targets, true));
        es_assert_ok(es_model_backward(s->model, 1.0 / n));
    }
    es_assert_ok(es_model_take_step(s->model, train, false));
    es_assert_ok(es_model_end(s->model, &out));
    return out;
}

/* Compares a step with its passes run one by one. A step of three micro-batches
 * runs as one captured sequence of operations; a step of ten runs as separate
 * passes. */
static void check_step(const es_ops *ops, const char *arch, int n)
{
    AUTO_BY(es_small_close) es_small_model whole = es_small_open_arch(arch);
    AUTO_BY(es_small_close) es_small_model calls = open_on(ops, &whole);
    AUTO_BY(es_small_close) es_small_model step = open_on(ops, &whole);
    const es_step_plan plan = {
        .n_batches = n, .draw = draw, .user = &step, .lr = LR, .measure = true};
    es_train_config train;
    es_outcome out, want;
    es_train_config_default(&train);
    want = step_by_calls(&calls, &train, n);
    es_assert_ok(es_model_run_step(step.model, &out, &plan, &train));
    assert_memory_equal(&out.losses, &want.losses, sizeof out.losses);
    assert_true(isfinite(out.losses.ce) && out.losses.ce > 0);
    assert_true(near(out.grad_norm, want.grad_norm, 0));
    expect_arrays(&step, &calls, es_model_get, true);
    /* the loss of an evaluation must not include the loss of the step before
     * it */
    es_small_forward(&step);
    es_small_forward(&calls);
    assert_true(near(step.losses.ce, calls.losses.ce, 0));
}

TEST(a_step_that_defers_losses_has_the_same_bits)
{
    const es_ops fp32 = in_blocks(&es_cpu_ops);
    const es_ops bf16 = in_blocks(&es_cpu_bf16_ops);
    for (size_t i = 0; i < N_ARCHS; i++)
        for (int n = 3; n <= 10; n += 7) {
            check_step(&fp32, archs[i], n);
            check_step(&bf16, archs[i], n);
        }
}
