/* Compares the trainer with the double-precision reference model for random
 * architectures. Gradients are compared with central differences.
 *
 *   ES_PROPERTY_SEED   seed of the first draw (default 1); later draws use the
 *                      following numbers
 *   ES_PROPERTY_COUNT  number of draws (default 40) */
#include "tests/support/random_models.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"

/* Tolerances of a float32 implementation, from the README of the reference
 * cases. For gradients the absolute tolerance is a fraction (of_whole) of the
 * norm of the gradient of all parameters together, because for example alpha's
 * gradient may be the small sum of a thousand terms that cancel. */
static const double relative = 1e-4, absolute = 1e-6, of_whole = 5e-6;

typedef struct draw {
    unsigned long long seed;
    char arch[ES_ARCH_TEXT_MAX];
    es_ref_case it;
    es_ref_result *want;
    es_model *model;
    double norm;    /* norm of the gradient of all parameters together */
    uint64_t state; /* state of the random number generator of the check */
} draw;

static unsigned long long first_seed = 1;
static unsigned long long n_draws = 40;

/* Fails with a message that contains everything needed to reproduce the
 * failure. */
static void refuse(const draw *d, const char *what, double got, double want)
{
    const es_model_config *config = &d->it.model->config;
    fail_msg("%s: %.9g, not %.9g; ES_PROPERTY_SEED=%llu ES_PROPERTY_COUNT=1: "
             "%s %s L%d H%d d%d T%d V%d B%d m%d bias %d final norm %d gamma %g "
             "lambda %g reduce %d",
             what, got, want, d->seed, d->arch,
             config->family == ES_FAMILY_GPT2 ? "gpt2" : "pythia",
             config->n_layer, config->n_head, config->d_model, config->ctx,
             config->vocab, config->batch, config->mlp_mult, (int)config->bias,
             (int)config->final_norm, config->gamma, config->lambda,
             (int)config->ereg_reduce);
}

static void expect_number(const draw *d, const char *what, double got,
                          double want)
{
    if (!(fabs(got - want) <= relative * fabs(want) + absolute))
        refuse(d, what, got, want);
}

/* Compares two arrays by the norm of their difference. The message names the
 * first NaN or, without a NaN, the entry with the largest difference. */
static void expect_array(const draw *d, const char *what, const float *got,
                         const double *want, size_t n)
{
    double distance = 0, norm = 0, worst = -1;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const double off = fabs((double)got[i] - want[i]);
        distance += off * off;
        norm += want[i] * want[i];
        if (!isnan(worst) && !(off <= worst)) {
            worst = off;
            at = i;
        }
    }
    if (!(sqrt(distance) <= relative * sqrt(norm) + absolute * sqrt((double)n)))
        refuse(d, what, (double)got[at], want[at]);
}

static double norm_of(const float *x, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* --- outputs -------------------------------------------------------------- */

static void set_parameters(draw *d)
{
    const es_ref_model *ref = d->it.model;
    for (size_t i = 0; i < ref->n_arrays; i++) {
        AUTO_FREE float *values = calloc(ref->sizes[i], sizeof *values);
        for (size_t j = 0; j < ref->sizes[i]; j++)
            values[j] = (float)ref->values[i][j];
        es_assert_ok(es_model_set(d->model, i, values, ref->sizes[i]));
    }
    /* Copying the model also checks that both models have the same names and
     * sizes. */
    es_ref_model_free(es_ref_model_copy(d->model));
}

static void check_outputs(draw *d)
{
    const es_ref_result *want = d->want;
    const es_model_config *config = &d->it.model->config;
    const size_t n = (size_t)(config->batch * config->ctx);
    const size_t n_rows = n * (size_t)(config->n_head * config->n_layer);
    es_losses got;
    es_assert_ok(es_model_forward(d->model, &got, d->it.tokens, d->it.targets,
                                  true, true));
    expect_number(d, "loss", got.loss, want->loss);
    expect_number(d, "ce", got.ce, want->ce);
    expect_number(d, "ereg", got.ereg, want->ereg);
    expect_array(d, "logits", es_model_logits(d->model), want->logits,
                 n * (size_t)config->vocab);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++) {
        const float *rows = es_model_rows(d->model, (es_row_statistic)i);
        assert_true(!!rows == es_row_statistic_exists((es_row_statistic)i,
                                                      config->arch.attention));
        if (rows && i != ES_ROW_LSE)
            expect_array(d, es_row_statistic_names[i], rows, want->rows[i],
                         n_rows);
    }
}

/* Compares SNorm's u and v with the reference after the step's power
 * iteration. */
static void check_state(draw *d)
{
    const es_ref_model *ref = d->it.model;
    for (size_t i = 0; i < ref->n_arrays; i++) {
        if (!es_ref_is_state(ref->names[i]))
            continue;
        AUTO_FREE float *got = calloc(ref->sizes[i], sizeof *got);
        es_assert_ok(es_model_get(d->model, i, got, ref->sizes[i]));
        expect_array(d, ref->names[i], got, ref->values[i], ref->sizes[i]);
    }
}

/* --- gradients ------------------------------------------------------------ */

/* Compares the derivative of the loss along a random direction with a finite
 * difference. Every element of the array contributes to the direction. */
static void check_direction(draw *d, size_t index, const float *got)
{
    const es_ref_model *ref = d->it.model;
    const size_t n = ref->sizes[index];
    double **at = calloc(n, sizeof *at);
    AUTO_FREE double *direction = calloc(n, sizeof *direction);
    double along = 0;
    for (size_t i = 0; i < n; i++) {
        const bool frozen = es_ref_model_is_frozen(ref, index, i);
        const double sign = es_test_random(&d->state) < 0 ? -1 : 1;
        if (frozen && got[i] != 0)
            refuse(d, "gradient of an element that is not trained",
                   (double)got[i], 0);
        at[i] = &ref->values[index][i];
        direction[i] = frozen ? 0 : sign;
        along += direction[i] * (double)got[i];
    }
    const double want = es_ref_model_difference(
        ref, d->want, d->it.tokens, d->it.targets, at, direction, n);
    /* The sum adds the rounding errors of the elements with random signs that
     * do not depend on the errors. The limit is four standard deviations of
     * this sum. */
    const double limit =
        4 * (relative * norm_of(got, n) +
             (absolute + of_whole * d->norm) * sqrt((double)n));
    if (!(fabs(along - want) <= limit))
        refuse(d, ref->names[index], along, want);
    free(at);
}

/* Compares the gradients of at most eight elements of the array with finite
 * differences. */
static void check_entries(draw *d, size_t index, const float *got)
{
    const es_ref_model *ref = d->it.model;
    const size_t n = ref->sizes[index], stride = 1 + n / 8;
    const double limit =
        relative * norm_of(got, n) + absolute + of_whole * d->norm;
    const double share = (es_test_random(&d->state) + 1) / 2;
    for (size_t i = (size_t)(share * (double)(stride < n ? stride : n)); i < n;
         i += stride) {
        const double want = es_ref_model_gradient(ref, d->want, d->it.tokens,
                                                  d->it.targets, index, i);
        if (!(fabs((double)got[i] - want) <= limit))
            refuse(d, ref->names[index], (double)got[i], want);
    }
}

/* Returns a parameter's gradient; the caller frees it. */
static float *gradient_of(const draw *d, size_t index)
{
    const size_t n = d->it.model->sizes[index];
    float *got = calloc(n, sizeof *got);
    es_assert_ok(es_model_get_gradient(d->model, index, got, n));
    return got;
}

static void check_gradients(draw *d)
{
    const es_ref_model *ref = d->it.model;
    es_losses again;
    es_model_zero_gradients(d->model);
    /* Compute the gradient in two parts, which add up. The second forward pass
     * runs no power iteration. */
    if (es_model_backward(d->model, 0.25) != ES_OK ||
        es_model_forward(d->model, &again, d->it.tokens, d->it.targets, false,
                         false) != ES_OK ||
        es_model_backward(d->model, 0.75) != ES_OK)
        fail_msg("%s", es_message());
    expect_number(d, "loss of the second pass", again.loss, d->want->loss);
    for (size_t i = 0; i < ref->n_arrays; i++) {
        AUTO_FREE float *got = gradient_of(d, i);
        d->norm = hypot(d->norm, norm_of(got, ref->sizes[i]));
    }
    for (size_t i = 0; i < ref->n_arrays; i++) {
        AUTO_FREE float *got = gradient_of(d, i);
        check_direction(d, i, got);
        check_entries(d, i, got);
    }
}

/* --- draws ---------------------------------------------------------------- */

static void check_draw(unsigned long long seed)
{
    draw d = {.seed = seed, .state = seed};
    d.it = es_random_case(d.arch, seed);
    const es_model_config *config = &d.it.model->config;
    d.it.model->config.record = ES_SERIES_STANDARD;
    if (es_model_new(&d.model, config, &es_cpu_ops, 1 + (int)(seed % 3)) !=
        ES_OK)
        fail_msg("%s: %s", d.arch, es_message());
    d.want = es_ref_result_new(config);
    set_parameters(&d);
    es_ref_model_iterate(d.it.model);
    es_ref_model_run(d.it.model, d.want, d.it.tokens, d.it.targets);
    check_outputs(&d);
    check_state(&d);
    check_gradients(&d);
    es_ref_result_free(d.want);
    es_model_free(d.model);
    es_ref_case_free(&d.it);
}

static void test_property__random_architectures(void **state)
{
    for (unsigned long long i = 0; i < n_draws; i++)
        check_draw(first_seed + i);
}

static unsigned long long from_environment(const char *name,
                                           unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

int main(void)
{
    char name[96];
    first_seed = from_environment("ES_PROPERTY_SEED", first_seed);
    n_draws = from_environment("ES_PROPERTY_COUNT", n_draws);
    snprintf(name, sizeof name,
             "test_property__random_architectures (seed %llu, %llu draws)",
             first_seed, n_draws);
    const struct CMUnitTest tests[] = {
        {name, test_property__random_architectures, NULL, NULL, NULL}};
    return cmocka_run_group_tests_name("property", tests, NULL, NULL);
}
