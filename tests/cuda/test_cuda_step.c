/* Tests that a complete training step in one call gives the same bits as
 * separate calls, on the CPU and on the CUDA back-end, which captures such a
 * step as a single sequence. */
/* needs: nvcc */
#include "hooks/trainer/model/measure.h"
#include "tests/emulation/counts.h"
#include "tests/support/cmocka_all.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- back-ends ------------------------------------------------------------ */

static const char *emulation(void)
{
    static char path[4096];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/tests/libentropytrain_cuda_host.so",
             build ? build : "build");
    return path;
}

/* Returns the operations of the CUDA back-end, from the library that
 * ENTROPY_TRAIN_CUDA names, or else from the emulation. Returns NULL if there
 * is no library or no device. */
static const es_ops *cuda_ops(es_precision precision)
{
    const es_ops *ops;
    es_backend *backend;
    if (!getenv("ENTROPY_TRAIN_CUDA") && access(emulation(), F_OK) != 0)
        return NULL;
    setenv("ENTROPY_TRAIN_CUDA", emulation(), 0);
    if (es_ops_find(&ops, "cuda", precision) != ES_OK)
        fail_msg("%s", es_message());
    if (ops->open(&backend, 0) != ES_OK) {
        print_message("skipped: no CUDA device: %s\n", es_message());
        return NULL;
    }
    ops->close(backend);
    return ops;
}

/* Returns the emulation's counts. On a device, which does not count, skips the
 * test. */
static es_host_counts *counts(void)
{
    if (!cuda_ops(ES_FP32))
        es_skip("no nvcc");
    void *library = dlopen(getenv("ENTROPY_TRAIN_CUDA"), RTLD_NOW);
    assert_non_null(library);
    es_host_counts *found = dlsym(library, ES_HOST_COUNTS_NAME);
    dlclose(library); /* does not unload the library, because the back-end
                       * still uses it */
    if (!found)
        es_skip("only the emulation counts operations");
    return found;
}

/* --- a model in training -------------------------------------------------- */

/* How a step is run: as one call with capture, as separate calls, or as one
 * call without capture. */
typedef enum taken { WHOLE, BY_CALLS, UNCAPTURED } taken;

typedef struct training {
    es_ops ops;
    es_model *model;
    es_measure *measure;
    es_train_config train;
    es_model_config config;
    int step, n_drawn;
    /* index of the micro-batch that cannot be drawn; -1 for none */
    int fails_at;
    /* index of the micro-batch with an invalid token; -1 for none */
    int strange_at;
    int n_meanwhile;
    const es_host_counts *at; /* the emulation's counts; NULL if the step is
                               * not checked */
    long n_loads;             /* number of copies from the device before the
                               * step, as counted by the emulation */
} training;

/* Arguments of a step. */
typedef struct one_step {
    taken way;
    int n_batches;
    bool measure, may_skip;
    double lr;
} one_step;

static es_status draw(void *user, int32_t *tokens, int32_t *targets, int i)
{
    training *t = user;
    const int n = t->config.batch * t->config.ctx;
    if (i == t->fails_at)
        return es_fail(ES_EFORMAT, "no micro-batch");
    for (int k = 0; k < n; k++) {
        tokens[k] = (t->step * 31 + i * 17 + k * k) % t->config.vocab;
        targets[k] = (t->step * 13 + i * 7 + 3 * k + 1) % t->config.vocab;
    }
    if (i == t->strange_at)
        targets[n - 1] = t->config.vocab;
    t->n_drawn++;
    return ES_OK;
}

/* Callback that the step calls while the device is working. At this time, no
 * results may have been read back. */
static void meanwhile(void *user)
{
    training *t = user;
    t->n_meanwhile++;
    if (t->at)
        assert_int_equal(t->at->loads, t->n_loads);
}

static es_model_config config_of(const char *arch)
{
    es_model_config config;
    es_model_config_default(&config);
    if (es_arch_parse(&config.arch, arch) != ES_OK)
        fail_msg("%s", es_message());
    config.n_layer = 1;
    config.n_head = 3;
    config.d_model = 12;
    config.ctx = 5;
    config.vocab = 19;
    config.batch = 2;
    config.lambda = 0.01;
    return config;
}

static training open_training(const es_ops *ops, const char *arch, taken way)
{
    training t = {.ops = *ops,
                  .config = config_of(arch),
                  .fails_at = -1,
                  .strange_at = -1};
    if (way == UNCAPTURED) {
        t.ops.replay = NULL;
        t.ops.launch = NULL;
    }
    t.config.record = ES_SERIES_ALL;
    es_train_config_default(&t.train);
    return t;
}

static void start(training *t)
{
    if (es_model_new(&t->model, &t->config, &t->ops, 1) != ES_OK)
        fail_msg("%s", es_message());
    assert_int_equal(es_measure_new(&t->measure, &t->config), ES_OK);
}

static void close_training(training *t)
{
    es_model_free(t->model);
    es_measure_free(t->measure);
}

static es_status step_by_calls(training *t, es_outcome *out,
                               const one_step *how)
{
    int32_t tokens[64], targets[64];
    es_status status = ES_OK;
    es_model_zero_gradients(t->model);
    es_model_begin(t->model, how->measure, &t->train, how->lr);
    for (int i = 0; status == ES_OK && i < how->n_batches; i++) {
        status = draw(t, tokens, targets, i);
        if (status == ES_OK)
            status = es_model_pass(t->model, tokens, targets, true);
        if (status == ES_OK)
            status = es_model_backward(t->model, 1.0 / how->n_batches);
    }
    if (status == ES_OK)
        status = es_model_take_step(t->model, &t->train, how->may_skip);
    return status == ES_OK ? es_model_end(t->model, out) : status;
}

static es_status step_at_once(training *t, es_outcome *out, const one_step *how)
{
    const es_step_plan plan = {.n_batches = how->n_batches,
                               .draw = draw,
                               .meanwhile = meanwhile,
                               .user = t,
                               .lr = how->lr,
                               .measure = how->measure,
                               .may_skip = how->may_skip};
    return es_model_run_step(t->model, out, &plan, &t->train);
}

static es_outcome take(training *t, const one_step *how)
{
    es_outcome out;
    es_status status = how->way == BY_CALLS ? step_by_calls(t, &out, how)
                                            : step_at_once(t, &out, how);
    if (status != ES_OK)
        fail_msg("%s", es_message());
    es_measure_reset(t->measure);
    if (how->measure)
        es_measure_add(t->measure, t->model);
    t->step++;
    return out;
}

/* Runs a forward pass for evaluation, which copies the weights for matrix
 * products and otherwise changes nothing. If `trains` is true, runs the forward
 * pass of training instead, which also applies SNorm's power iteration. */
static void evaluate(training *t, bool trains)
{
    int32_t tokens[64], targets[64];
    es_losses losses;
    assert_int_equal(draw(t, tokens, targets, 0), ES_OK);
    assert_int_equal(
        es_model_forward(t->model, &losses, tokens, targets, trains, true),
        ES_OK);
}

/* --- the same bits -------------------------------------------------------- */

static void expect_same(const char *what, const void *a, const void *b,
                        size_t bytes, int step)
{
    if (memcmp(a, b, bytes) != 0)
        fail_msg("%s differ in step %d", what, step);
}

static void compare_arrays(training *a, training *b)
{
    training *const both[] = {a, b};
    for (size_t i = 0; i < es_model_n_arrays(a->model); i++) {
        const es_parameter p = es_model_parameter(a->model, i);
        const size_t n = p.n;
        /* 4 arrays of model a, then the same 4 arrays of model b */
        float *x = malloc(8 * n * sizeof *x);
        assert_non_null(x);
        for (int k = 0; k < 2; k++) {
            es_model *model = both[k]->model;
            float *to = x + 4 * (size_t)k * n;
            assert_int_equal(es_model_get(model, i, to, n), ES_OK);
            assert_int_equal(es_model_get_gradient(model, i, to + n, n), ES_OK);
            assert_int_equal(
                es_model_get_moment(model, ES_MOMENT_FIRST, i, to + 2 * n, n),
                ES_OK);
            assert_int_equal(
                es_model_get_moment(model, ES_MOMENT_SECOND, i, to + 3 * n, n),
                ES_OK);
        }
        expect_same(p.name, x, x + 4 * n, 4 * n * sizeof *x, a->step);
        free(x);
    }
}

static void compare_measures(training *a, training *b)
{
    const size_t n_layers = (size_t)a->config.n_layer;
    const size_t n_heads = n_layers * (size_t)a->config.n_head;
    float heads[16];
    assert_int_equal(es_measure_n_batches(a->measure),
                     es_measure_n_batches(b->measure));
    for (int i = 0; i < ES_N_HEAD_SERIES; i++) {
        memcpy(heads, es_measure_heads(a->measure, (es_head_series)i),
               n_heads * sizeof *heads);
        expect_same(es_head_statistics[i].name, heads,
                    es_measure_heads(b->measure, (es_head_series)i),
                    n_heads * sizeof *heads, a->step);
    }
    for (int i = 0; i < ES_N_LAYER_SERIES; i++) {
        memcpy(heads, es_measure_layers(a->measure, (es_layer_series)i),
               n_layers * sizeof *heads);
        expect_same(es_layer_series_names[i], heads,
                    es_measure_layers(b->measure, (es_layer_series)i),
                    n_layers * sizeof *heads, a->step);
    }
    for (int i = 0; i < ES_N_PARAMETER_SERIES; i++)
        if (es_parameter_series_exists(&a->config, (es_parameter_series)i))
            expect_same(
                es_parameter_series_names[i],
                es_measure_parameters(a->measure, (es_parameter_series)i),
                es_measure_parameters(b->measure, (es_parameter_series)i),
                es_parameter_series_length(&a->config, (es_parameter_series)i) *
                    sizeof(float),
                a->step);
    const size_t n_members = es_parameter_n_members(&a->config);
    if (n_members > 0)
        expect_same("whole parameters", es_measure_members(a->measure),
                    es_measure_members(b->measure),
                    n_members * n_heads * sizeof(float), a->step);
}

static void take_both(training *a, training *b, one_step how, taken other)
{
    es_outcome x, y;
    how.way = WHOLE;
    x = take(a, &how);
    how.way = other;
    y = take(b, &how);
    expect_same("losses", &x.losses, &y.losses, sizeof x.losses, a->step);
    expect_same("norms", &x.grad_norm, &y.grad_norm, sizeof x.grad_norm,
                a->step);
    assert_int_equal(x.skipped, y.skipped);
    assert_int_equal(es_model_n_updates(a->model),
                     es_model_n_updates(b->model));
    compare_arrays(a, b);
    if (how.measure)
        compare_measures(a, b);
}

/* Compares two models over 15 steps. All settings that may change between steps
 * change, and later return to values for which a step has already been
 * captured. */
static void compare(const es_ops *ops, const char *arch, int n, taken other)
{
    training a = open_training(ops, arch, WHOLE);
    training b = open_training(ops, arch, other);
    start(&a), start(&b);
    for (int i = 0; i < 15; i++) {
        const one_step how = {.n_batches = i == 12 ? n + 1 : n,
                              .measure = i % 3 == 0,
                              .may_skip = i < 5 || i > 8,
                              .lr = 1e-2 / (i + 1)};
        if (i % 4 == 2)
            evaluate(&a, i == 6), evaluate(&b, i == 6);
        es_model_set_loss_scale(a.model, i < 10 ? 1024 : 512);
        es_model_set_loss_scale(b.model, i < 10 ? 1024 : 512);
        a.train.weight_decay = b.train.weight_decay = i == 11 ? 0.2 : 0.1;
        take_both(&a, &b, how, other);
    }
    close_training(&a), close_training(&b);
}

static const char *const archs[] = {"SM+LN+G", "EReg(SM(t)+ScFuFFN)",
                                    "EReg(PSM(4)+LR(global))",
                                    "SM+R+SNorm(QK)+WNorm(FFN)"};
enum { N_ARCHS = sizeof archs / sizeof *archs };

static void test_cuda_step__equals_separate_calls_on_the_cpu(void **state)
{
    (void)state;
    for (int i = 0; i < N_ARCHS; i++) {
        compare(&es_cpu_ops, archs[i], 1, BY_CALLS);
        compare(&es_cpu_ops, archs[i], 3, BY_CALLS);
    }
    compare(&es_cpu_ops, archs[0], ES_MAX_UNROLLED, BY_CALLS);
}

static void test_cuda_step__equals_separate_calls(void **state)
{
    (void)state;
    if (!cuda_ops(ES_FP32))
        es_skip("no nvcc");
    compare(cuda_ops(ES_FP32), archs[3], 1, UNCAPTURED);
    if (SANITIZED)
        return;
    compare(cuda_ops(ES_BF16), archs[2], 2, UNCAPTURED);
    compare(cuda_ops(ES_FP32), archs[1], 3, BY_CALLS);
    compare(cuda_ops(ES_FP16), archs[0], 1, BY_CALLS);
}

/* A step that overflows must be skipped, even if it is replayed from a
 * capture. */
static void test_cuda_step__skips_an_overflow(void **state)
{
    (void)state;
    const es_ops *ops = cuda_ops(ES_FP16);
    const one_step how = {.n_batches = 3, .may_skip = true, .lr = 1e-2};
    if (!ops)
        es_skip("no nvcc");
    training a = open_training(ops, archs[0], WHOLE);
    training b = open_training(ops, archs[0], UNCAPTURED);
    start(&a), start(&b);
    for (int i = 0; i < 9; i++) {
        es_model_set_loss_scale(a.model, i % 2 ? 0x1p100 : 1);
        es_model_set_loss_scale(b.model, i % 2 ? 0x1p100 : 1);
        take_both(&a, &b, how, UNCAPTURED);
        assert_int_equal(es_model_n_updates(a.model), i / 2 + 1);
    }
    close_training(&a), close_training(&b);
}

/* --- calls of the device -------------------------------------------------- */

static void expect_counts(training *t, const one_step *how,
                          const es_host_counts *at, es_host_counts want)
{
    const es_host_counts before = *at;
    t->at = at;
    t->n_loads = at->loads;
    take(t, how);
    t->at = NULL;
    const es_host_counts after = {
        at->captures - before.captures, at->replays - before.replays,
        at->loose - before.loose,       at->stores - before.stores,
        at->loads - before.loads,       at->again - before.again};
    if (memcmp(&after, &want, sizeof want) != 0)
        fail_msg("step %d: %ld captures, %ld replays, %ld single launches, %ld "
                 "stores, "
                 "%ld loads",
                 t->step - 1, after.captures, after.replays, after.loose,
                 after.stores, after.loads);
}

/* Checks the emulation's counts. A step must copy its tokens and arguments to
 * the device, replay a single sequence, and read its results back. */
static void check_counts(const char *arch, int n, bool measure)
{
    static const es_host_counts steady = {
        .replays = 1, .stores = 2, .loads = 1};
    static const es_host_counts captured = {
        .captures = 1, .replays = 1, .stores = 2, .loads = 1};
    es_host_counts *at = counts();
    training t = open_training(cuda_ops(ES_BF16), arch, WHOLE);
    one_step how = {
        .n_batches = n, .measure = measure, .may_skip = true, .lr = 1e-2};
    start(&t);
    take(&t, &how);
    expect_counts(&t, &how, at, captured);
    for (int i = 0; i < 2; i++)
        expect_counts(&t, &how, at, steady);
    evaluate(&t, false);
    expect_counts(&t, &how, at, steady);
    how.may_skip = false;
    take(&t, &how);
    expect_counts(&t, &how, at, captured);
    how.may_skip = true;
    expect_counts(&t, &how, at, steady);
    assert_int_equal(t.n_meanwhile, t.step);
    close_training(&t);
}

static void test_cuda_step__is_one_sequence(void **state)
{
    (void)state;
    check_counts(archs[0], 1, false);
    check_counts(archs[1], 3, true);
    if (SANITIZED)
        return;
    check_counts(archs[3], 1, true);
    check_counts(archs[0], ES_MAX_UNROLLED, false);
}

/* With more micro-batches than ES_MAX_UNROLLED, the step is captured as
 * separate sequences for the forward and the backward pass of each micro-batch,
 * and for the update. Two launches are outside of the sequences; they zero the
 * gradients that are stored before and after the gradient of the token
 * matrix. */
static void test_cuda_step__many_batches_take_several_sequences(void **state)
{
    enum { N = ES_MAX_UNROLLED + 1 };
    const es_host_counts want = {
        .replays = 2 * N + 1, .loose = 2, .stores = 2 * N + 1, .loads = 1};
    es_host_counts *at = counts();
    training t = open_training(cuda_ops(ES_BF16), archs[0], WHOLE);
    const one_step how = {.n_batches = N, .may_skip = true, .lr = 1e-2};
    (void)state;
    start(&t);
    take(&t, &how), take(&t, &how);
    expect_counts(&t, &how, at, want);
    close_training(&t);
}

/* --- errors --------------------------------------------------------------- */

/* A step whose micro-batch cannot be drawn must have no effect: the model
 * continues as if the step had not been requested. */
static void check_draws(const es_ops *ops)
{
    training a = open_training(ops, archs[0], WHOLE);
    training b = open_training(ops, archs[0], WHOLE);
    const one_step how = {.n_batches = 3, .measure = true, .lr = 1e-2};
    es_outcome out;
    start(&a), start(&b);
    for (int i = 0; i < (SANITIZED ? 2 : 5); i++) {
        a.fails_at = 2;
        assert_int_equal(step_at_once(&a, &out, &how), ES_EFORMAT);
        assert_string_equal(es_message(), "no micro-batch");
        a.fails_at = -1;
        a.strange_at = 1;
        assert_int_equal(step_at_once(&a, &out, &how), ES_EFORMAT);
        assert_non_null(strstr(es_message(), "target 9 of the micro-batch"));
        a.strange_at = -1;
        take_both(&a, &b, how, WHOLE);
    }
    close_training(&a), close_training(&b);
}

static void test_cuda_step__without_a_batch_does_not_count(void **state)
{
    (void)state;
    check_draws(&es_cpu_ops);
    if (cuda_ops(ES_FP32))
        check_draws(cuda_ops(ES_FP32));
}

static void test_cuda_step__forward_only(void **state)
{
    (void)state;
    training t = open_training(&es_cpu_ops, archs[0], WHOLE);
    const one_step how = {.n_batches = 1};
    es_outcome out;
    t.config.forward_only = true;
    start(&t);
    assert_int_equal(step_at_once(&t, &out, &how), ES_EARGUMENT);
    assert_int_equal(t.n_drawn, 0);
    close_training(&t);
}

/* Makes the device fail in the middle of a step that runs for the first time,
 * is being captured, or is replayed. The failure must be reported at the end of
 * this step and of every later step, and no capture may remain open. */
static void check_trouble(const char *fault, int n_good)
{
    training t = open_training(cuda_ops(ES_FP32), archs[0], WHOLE);
    const one_step how = {.n_batches = 2, .measure = true, .lr = 1e-2};
    es_outcome out;
    float x = 0;
    setenv("ENTROPY_TRAIN_EMULATION", fault, 1);
    start(&t);
    unsetenv("ENTROPY_TRAIN_EMULATION");
    for (int i = 0; i < n_good; i++)
        assert_int_equal(step_at_once(&t, &out, &how), ES_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(step_at_once(&t, &out, &how), ES_EIO);
        assert_non_null(strstr(es_message(), "that was meant to fail"));
        assert_true(isnan(out.losses.loss));
    }
    const size_t last = es_model_n_arrays(t.model) - 1;
    const es_parameter p = es_model_parameter(t.model, last);
    float *values = malloc(p.n * sizeof *values);
    assert_int_equal(es_model_get(t.model, last, values, p.n), ES_OK);
    x = values[0];
    free(values);
    assert_true(isnan(x));
    close_training(&t);
}

static void test_cuda_step__reports_its_failure(void **state)
{
    (void)state;
    counts(); /* skips the test without the emulation */
    check_trouble("fail=60", 0);
    check_trouble("captured=60", 1);
    check_trouble("captured=1", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_step__equals_separate_calls_on_the_cpu),
        cmocka_unit_test(test_cuda_step__equals_separate_calls),
        cmocka_unit_test(test_cuda_step__skips_an_overflow),
        cmocka_unit_test(test_cuda_step__is_one_sequence),
        cmocka_unit_test(test_cuda_step__many_batches_take_several_sequences),
        cmocka_unit_test(test_cuda_step__without_a_batch_does_not_count),
        cmocka_unit_test(test_cuda_step__forward_only),
        cmocka_unit_test(test_cuda_step__reports_its_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
