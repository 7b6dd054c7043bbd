/* Compares the series that --record standard and --record all add with simple
 * formulas in double, computed from the reference model's activations, the
 * model's weights and gradients, and the change of the parameters in a step. */
#include "hooks/trainer/model/measure.h"
#include "tests/support/reference_internal.h"
#include "tests/support/reference_ops.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

#include "analyzer/base/value.h"

AUTO_OF(es_measure, es_measure_free)

enum { L = 2, H = 3, D = 12, WIDTH = D / H, T = 5, B = 2, N = B * T };

static es_small_model open_model(const char *arch, es_family family,
                                 es_series_set set)
{
    es_model_config config = es_small_config(arch);
    config.family = family;
    config.record = set;
    return es_small_open(&config);
}

static es_measure *measure_of(es_small_model *s)
{
    es_measure *measure = NULL;
    es_assert_ok(es_measure_new(&measure, s->config));
    es_measure_add(measure, s->model);
    return measure;
}

static void expect_detail(es_measure *measure, es_detail detail,
                          const double *want)
{
    const size_t n = es_detail_is_of_heads(detail) ? L * H : L;
    assert_true(es_measure_has_detail(measure, detail));
    es_test_expect_within(es_details[detail].name,
                          es_measure_detail(measure, detail), want, n, 3e-5,
                          1e-6);
}

/* --- a forward pass ------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns a quantile of the entropies of head h's rows, like numpy.quantile(x,
 * share). */
static double quantile(const double *entropy, int layer, int h, double share)
{
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = entropy[((layer * B + i / T) * H + h) * T + i % T];
    qsort(x, N, sizeof *x, by_value);
    const double at = share * (N - 1);
    const int low = (int)floor(at), high = low + (low + 1 < N);
    return x[low] + (at - low) * (x[high] - x[low]);
}

static double rms(const double *qkv, int layer, int which, int h)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < WIDTH; c++) {
            const double x =
                qkv[(layer * N + i) * 3 * D + which * D + h * WIDTH + c];
            sum += x * x;
        }
    return sqrt(sum / N);
}

static void expect_heads(es_measure *measure, const es_ref_result *ref)
{
    static const double shares[] = {0.05, 0.5, 0.95};
    double want[L * H];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < L * H; i++)
            want[i] =
                quantile(ref->rows[ES_ROW_ENTROPY], i / H, i % H, shares[k]);
        expect_detail(measure, (es_detail)(ES_DETAIL_ENTROPY_P05 + k), want);
        for (int i = 0; i < L * H; i++)
            want[i] = rms(ref->qkv, i / H, k, i % H);
        expect_detail(measure, (es_detail)(ES_DETAIL_Q_RMS + k), want);
    }
}

static double row_mean(const es_ref_result *ref, int head,
                       es_row_statistic statistic)
{
    double sum = 0;
    for (int b = 0; b < B; b++)
        for (int i = 0; i < T; i++)
            sum += ref->rows[statistic]
                            [((head / H * B + b) * H + head % H) * T + i];
    return sum / N;
}

static void expect_rows(es_measure *measure, const es_ref_result *ref,
                        bool is_softmax)
{
    static const es_head_series series[] = {
        ES_HEAD_LOGIT_MEAN, ES_HEAD_LOGIT_VARIANCE, ES_HEAD_LSE};
    double want[L * H];
    for (int k = 0; k < (is_softmax ? 3 : 2); k++) {
        for (int i = 0; i < L * H; i++)
            want[i] = row_mean(ref, i, es_head_row(series[k]));
        es_test_expect_within(es_head_statistics[series[k]].name,
                              es_measure_heads(measure, series[k]), want, L * H,
                              3e-5, 1e-6);
    }
    for (int i = 0; i < L * H; i++) {
        want[i] = 0;
        for (int j = 0; j < N; j++) {
            const double sink =
                ref->rows[ES_ROW_SINK]
                         [((i / H * B + j / T) * H + i % H) * T + j % T];
            /* no weight on the sink is so near the threshold that rounding to
             * float32 could change the result */
            assert_true(fabs(sink - 0.3) > 1e-4);
            want[i] += sink > 0.3 ? 1.0 / N : 0;
        }
    }
    es_test_expect_within("sink_rate",
                          es_measure_heads(measure, ES_HEAD_SINK_RATE), want,
                          L * H, 1e-6, 0);
}

static void expect_layers(es_measure *measure, const es_ref_result *ref,
                          const es_arch *arch)
{
    double top[L] = {0}, kurtosis[L], ratio[L];
    for (int l = 0; l < L; l++) {
        const double *x = ref->x + l * N * D, *y = ref->residual + l * N * D;
        double mean = 0, second = 0, fourth = 0, added = 0, kept = 0;
        for (int i = 0; i < N * D; i++) {
            mean += x[i] / (N * D);
            top[l] = fmax(top[l], fabs(x[i]));
            added += (x[i] - y[i]) * (x[i] - y[i]);
            kept += y[i] * y[i];
        }
        for (int i = 0; i < N * D; i++) {
            second += pow(x[i] - mean, 2) / (N * D);
            fourth += pow(x[i] - mean, 4) / (N * D);
        }
        kurtosis[l] = fourth / (second * second);
        ratio[l] = sqrt(added / kept);
    }
    expect_detail(measure, ES_DETAIL_ACT_MAX, top);
    expect_detail(measure, ES_DETAIL_ACT_KURTOSIS, kurtosis);
    const float *got = es_measure_detail(measure, ES_DETAIL_FFN_RATIO);
    for (int l = 0; l < L; l++)
        if (!es_arch_has_ffn(arch, l, L))
            assert_true(es_is_missing(got[l]));
        else
            assert_true(fabs((double)got[l] - ratio[l]) <= 1e-4 * ratio[l]);
}

static void check_forward(const char *arch, es_family family)
{
    AUTO_BY(es_small_close)
    es_small_model s = open_model(arch, family, ES_SERIES_STANDARD);
    es_small_forward(&s);
    AUTO(es_measure) measure = measure_of(&s);
    /* Copy the model after the pass, because the pass has changed SNorm's u and
     * v. */
    es_ref_model *ref = es_ref_model_copy(s.model);
    es_ref_result *want = es_ref_result_new(s.config);
    es_ref_model_run(ref, want, s.tokens, s.targets);
    expect_heads(measure, want);
    expect_rows(measure, want, s.config->arch.attention == ES_SOFTMAX);
    expect_layers(measure, want, &s.config->arch);
    es_ref_result_free(want);
    es_ref_model_free(ref);
}

TEST(a_pass_has_the_details_of_its_formulas)
{
    check_forward("SM+LN+G", ES_FAMILY_GPT2);
    check_forward("SM(t)+R", ES_FAMILY_GPT2);
    check_forward("SM+LN+G", ES_FAMILY_PYTHIA);
    check_forward("SM+ScFFN", ES_FAMILY_PYTHIA);
    check_forward("PSM(4)+LN+G", ES_FAMILY_GPT2);
    check_forward("SM+ScFuFFNi1", ES_FAMILY_GPT2);
    check_forward("SM+LN+G+SNorm(QK,FFN)", ES_FAMILY_GPT2);
    check_forward("SM+LN[0]+G+ScFFN[1]", ES_FAMILY_GPT2);
    check_forward("SM+LN[1]+G+ScFuFFN[0]", ES_FAMILY_PYTHIA);
    check_forward("SM+LN+G+ScFFN[1]", ES_FAMILY_PYTHIA);
    check_forward("SM+LN+G+NoFFN[0]", ES_FAMILY_GPT2);
    check_forward("SM+LN+G+NoFFN[1]", ES_FAMILY_PYTHIA);
    check_forward("SM+LN+NoFFN", ES_FAMILY_GPT2);
    check_forward("SM(t)+NoFFN", ES_FAMILY_PYTHIA);
}

/* --- a step --------------------------------------------------------------- */

typedef struct arrays {
    float *values[64];
} arrays;

static void take(arrays *out, es_model *model, bool gradients)
{
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const size_t n = es_model_parameter(model, i).n;
        out->values[i] = calloc(n, sizeof(float));
        es_assert_ok(gradients
                         ? es_model_get_gradient(model, i, out->values[i], n)
                         : es_model_get(model, i, out->values[i], n));
    }
}

static void drop(arrays *a)
{
    for (int i = 0; i < 64; i++)
        free(a->values[i]);
}

/* Returns the sum of squares over the parts of c_attn.weight (D,3D) or
 * c_proj.weight (D,D) that belong to head h. */
static double head_square(const char *name, const float *g, int h)
{
    const bool is_attn = strstr(name, "attn.c_attn.weight") != NULL;
    double sum = 0;
    if (!is_attn && !strstr(name, "attn.c_proj.weight"))
        return 0;
    for (int i = 0; i < D; i++)
        for (int j = 0; j < (is_attn ? 3 * D : D); j++)
            if ((is_attn ? j % D : i) / WIDTH == h)
                sum += pow((double)g[i * (is_attn ? 3 * D : D) + j], 2);
    return sum;
}

static void expect_gradients(es_measure *measure, es_model *model,
                             const arrays *g)
{
    double heads[L * H] = {0}, layers[L] = {0};
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter of = es_model_parameter(model, i);
        int layer;
        if (!of.trainable || sscanf(of.name, "h.%d.", &layer) != 1)
            continue;
        for (size_t k = 0; k < of.n; k++)
            layers[layer] += pow((double)g->values[i][k], 2);
        for (int h = 0; h < H; h++)
            heads[layer * H + h] += head_square(of.name, g->values[i], h);
    }
    for (int i = 0; i < L * H; i++)
        heads[i] = sqrt(heads[i]);
    for (int i = 0; i < L; i++)
        layers[i] = sqrt(layers[i]);
    expect_detail(measure, ES_DETAIL_HEAD_GRAD_NORM, heads);
    expect_detail(measure, ES_DETAIL_LAYER_GRAD_NORM, layers);
}

static void expect_update(es_measure *measure, es_model *model,
                          const arrays *before, const arrays *after)
{
    double want[L], change[L] = {0}, square[L] = {0};
    const es_bias model_bias = es_model_config_of(model)->bias;
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter of = es_model_parameter(model, i);
        int layer;
        if (!of.trainable || sscanf(of.name, "h.%d.", &layer) != 1)
            continue;
        const bool is_part =
            model_bias == ES_BIAS_QK && strstr(of.name, "c_attn.bias") != NULL;
        for (size_t k = 0; k < (is_part ? 2 * D : of.n); k++) {
            const double x = (double)before->values[i][k];
            change[layer] += pow((double)after->values[i][k] - x, 2);
            square[layer] += x * x;
        }
    }
    for (int l = 0; l < L; l++)
        want[l] = sqrt(change[l] / square[l]);
    expect_detail(measure, ES_DETAIL_UPDATE_RATIO, want);
}

/* Takes one measured step of the model. */
static void take_step(es_small_model *s, const es_train_config *train)
{
    es_outcome outcome;
    es_model_zero_gradients(s->model);
    es_model_begin(s->model, true, train, 0.01);
    es_assert_ok(es_model_pass(s->model, s->tokens, s->targets, true));
    es_assert_ok(es_model_backward(s->model, 1));
    es_assert_ok(es_model_take_step(s->model, train, true));
    es_assert_ok(es_model_end(s->model, &outcome));
}

static void check_step(const char *arch, es_bias bias)
{
    es_model_config config = es_small_config(arch);
    es_train_config train;
    es_train_config_default(&train);
    train.clip = 0.5; /* limit the norm so that gradients are clipped */
    train.weight_decay = 3;
    config.bias = bias;
    config.record = ES_SERIES_ALL;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    for (int step = 0; step < 3; step++) {
        arrays before = {{0}}, after = {{0}}, gradients = {{0}};
        take(&before, s.model, false);
        take_step(&s, &train);
        take(&after, s.model, false);
        take(&gradients, s.model, true);
        AUTO(es_measure) measure = measure_of(&s);
        expect_gradients(measure, s.model, &gradients);
        expect_update(measure, s.model, &before, &after);
        drop(&before);
        drop(&after);
        drop(&gradients);
    }
}

TEST(a_step_has_the_gradients_and_the_change_of_its_weights)
{
    check_step("SM+LN+G", ES_BIAS_ALL);
    check_step("SM(t)+LR(layer)", ES_BIAS_QK);
    check_step("EReg(SM+ScFuFFNi1)", ES_BIAS_NONE);
    check_step("SM+R+WNorm(QKVO,FFN)", ES_BIAS_ALL);
}

/* --- weights -------------------------------------------------------------- */

/* Computes the squares of the singular values of m (n,n) with one-sided Jacobi
 * rotations, which rotate pairs of columns until all columns are orthogonal. */
static void singular_squares(double *out, double *m, int n)
{
    for (int sweep = 0; sweep < 60; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double pp = 0, qq = 0, pq = 0;
                for (int i = 0; i < n; i++) {
                    pp += m[i * n + p] * m[i * n + p];
                    qq += m[i * n + q] * m[i * n + q];
                    pq += m[i * n + p] * m[i * n + q];
                }
                const double angle = 0.5 * atan2(2 * pq, pp - qq);
                for (int i = 0; i < n; i++) {
                    const double x = m[i * n + p], y = m[i * n + q];
                    m[i * n + p] = cos(angle) * x + sin(angle) * y;
                    m[i * n + q] = cos(angle) * y - sin(angle) * x;
                }
            }
    for (int p = 0; p < n; p++) {
        out[p] = 0;
        for (int i = 0; i < n; i++)
            out[p] += m[i * n + p] * m[i * n + p];
    }
}

static void expect_spectra(es_measure *measure, const es_ref_model *ref)
{
    double sigma[L * H], rank[L * H];
    for (int i = 0; i < L * H; i++) {
        double *w = es_ref_weight(ref, i / H, "attn.c_attn");
        double m[D * D] = {0}, squares[D], largest = 0, sum = 0;
        for (int a = 0; a < D; a++)
            for (int b = 0; b < D; b++)
                for (int c = i % H * WIDTH; c < (i % H + 1) * WIDTH; c++)
                    m[a * D + b] += w[a * 3 * D + c] * w[b * 3 * D + D + c];
        singular_squares(squares, m, D);
        for (int k = 0; k < D; k++) {
            largest = fmax(largest, squares[k]);
            sum += squares[k];
        }
        sigma[i] = sqrt(largest);
        rank[i] = sum / largest;
        free(w);
    }
    expect_detail(measure, ES_DETAIL_QK_SIGMA, sigma);
    expect_detail(measure, ES_DETAIL_QK_STABLE_RANK, rank);
}

static void check_weights(const char *arch)
{
    AUTO_BY(es_small_close)
    es_small_model s = open_model(arch, ES_FAMILY_GPT2, ES_SERIES_ALL);
    es_small_forward(&s);
    AUTO(es_measure) measure = measure_of(&s);
    es_ref_model *ref = es_ref_model_copy(s.model);
    expect_spectra(measure, ref);
    es_ref_model_free(ref);
}

TEST(spectra_are_those_of_the_products_of_weights)
{
    check_weights("SM+LN+G");
    check_weights("SM+SNorm(QK,FFN)");
    check_weights("SM+WNorm(QKV)");
}

/* Returns sigma = v^T W u of SNorm for a matrix, or for the part q, k or v of
 * c_attn. */
static double sigma_of(const es_ref_model *ref, int layer, const char *module,
                       int part, int n_parts, int n_in, int n_out)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", module);
    const double *w = es_ref_of_layer(ref, layer, name);
    snprintf(name, sizeof name, "%s.u", module);
    const double *u = es_ref_of_layer(ref, layer, name) + part * n_out;
    snprintf(name, sizeof name, "%s.v", module);
    const double *v = es_ref_of_layer(ref, layer, name) + part * n_in;
    double sum = 0;
    for (int i = 0; i < n_in; i++)
        for (int j = 0; j < n_out; j++)
            sum += v[i] * w[i * n_parts * n_out + part * n_out + j] * u[j];
    return sum;
}

TEST(sigma_is_recorded_for_each_matrix_of_snorm)
{
    AUTO_BY(es_small_close)
    es_small_model s =
        open_model("SM+R+SNorm(QK,FFN)", ES_FAMILY_GPT2, ES_SERIES_STANDARD);
    double q[L], k[L], fc[L], proj[L];
    es_small_forward(&s);
    AUTO(es_measure) measure = measure_of(&s);
    es_ref_model *ref = es_ref_model_copy(s.model);
    for (int l = 0; l < L; l++) {
        q[l] = sigma_of(ref, l, "attn.c_attn", 0, 3, D, D);
        k[l] = sigma_of(ref, l, "attn.c_attn", 1, 3, D, D);
        fc[l] = sigma_of(ref, l, "mlp.c_fc", 0, 1, D, 2 * D);
        proj[l] = sigma_of(ref, l, "mlp.c_proj", 0, 1, 2 * D, D);
    }
    es_ref_model_free(ref);
    expect_detail(measure, ES_DETAIL_SIGMA_Q, q);
    expect_detail(measure, ES_DETAIL_SIGMA_K, k);
    expect_detail(measure, ES_DETAIL_SIGMA_FC, fc);
    expect_detail(measure, ES_DETAIL_SIGMA_PROJ, proj);
    assert_false(es_detail_exists(s.model, ES_DETAIL_SIGMA_V));
    assert_false(es_detail_exists(s.model, ES_DETAIL_SIGMA_O));
    assert_false(es_detail_exists(s.model, ES_DETAIL_G_Q));
}

TEST(g_is_recorded_for_each_matrix_of_wnorm)
{
    AUTO_BY(es_small_close)
    es_small_model s = open_model("SM+ScFuFFNi1+WNorm(QKV,FFN)", ES_FAMILY_GPT2,
                                  ES_SERIES_STANDARD);
    double v[L] = {0}, fc = 0;
    es_small_forward(&s);
    AUTO(es_measure) measure = measure_of(&s);
    es_ref_model *ref = es_ref_model_copy(s.model);
    for (int l = 0; l < L; l++)
        for (int c = 0; c < D; c++)
            v[l] +=
                pow(es_ref_of_layer(ref, l, "attn.c_attn.g")[2 * D + c], 2) / D;
    for (int c = 0; c < D; c++)
        fc += pow(es_ref_of_layer(ref, 0, "mlp.w.g")[c], 2) / D;
    es_ref_model_free(ref);
    for (int l = 0; l < L; l++)
        v[l] = sqrt(v[l]);
    expect_detail(measure, ES_DETAIL_G_V, v);
    const float *got = es_measure_detail(measure, ES_DETAIL_G_FC);
    assert_true(fabs((double)got[0] - sqrt(fc)) <= 1e-5 * sqrt(fc));
    assert_true(es_is_missing(got[1]));
    assert_false(es_detail_exists(s.model, ES_DETAIL_G_PROJ));
    assert_false(es_detail_exists(s.model, ES_DETAIL_G_O));
}

/* If a matrix is normalised in one layer only, its values in the other layer
 * are missing. */
TEST(sigma_and_g_are_missing_in_layers_without_them)
{
    AUTO_BY(es_small_close)
    es_small_model s = open_model("SM+R[0]+ScFuFFN[1]+SNorm(FFN)+WNorm(QK)[1]",
                                  ES_FAMILY_GPT2, ES_SERIES_STANDARD);
    es_small_forward(&s);
    AUTO(es_measure) measure = measure_of(&s);
    es_ref_model *ref = es_ref_model_copy(s.model);
    const double fc[L] = {sigma_of(ref, 0, "mlp.c_fc", 0, 1, D, 2 * D),
                          sigma_of(ref, 1, "mlp.w", 0, 1, D, D)};
    es_ref_model_free(ref);
    expect_detail(measure, ES_DETAIL_SIGMA_FC, fc);
    const float *got = es_measure_detail(measure, ES_DETAIL_SIGMA_PROJ);
    assert_true(isfinite(got[0]) && es_is_missing(got[1]));
    got = es_measure_detail(measure, ES_DETAIL_G_Q);
    assert_true(es_is_missing(got[0]) && isfinite(got[1]));
    assert_false(es_detail_exists(s.model, ES_DETAIL_SIGMA_Q));
    assert_false(es_detail_exists(s.model, ES_DETAIL_G_FC));
}

/* --- NaN, missing, zero -------------------------------------------------- */

static void set_all(es_small_model *s, const char *name, float value)
{
    const size_t index = es_small_find(s, name);
    const size_t n = es_model_parameter(s->model, index).n;
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    es_assert_ok(es_model_set(s->model, index, values, n));
    free(values);
}

static bool is_nan_not_missing(float x)
{
    return isnan(x) && !es_is_missing(x);
}

TEST(a_dead_layer_has_zeros_and_nan_but_nothing_missing)
{
    AUTO_BY(es_small_close)
    es_small_model s = open_model("SM", ES_FAMILY_GPT2, ES_SERIES_ALL);
    static const char *const names[] = {"wte",
                                        "wpe",
                                        "h.0.attn.c_attn.weight",
                                        "h.0.attn.c_attn.bias",
                                        "h.0.attn.c_proj.weight",
                                        "h.0.attn.c_proj.bias",
                                        "h.0.mlp.c_fc.weight",
                                        "h.0.mlp.c_fc.bias",
                                        "h.0.mlp.c_proj.weight",
                                        "h.0.mlp.c_proj.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        set_all(&s, names[i], 0);
    es_small_forward(&s);
    AUTO(es_measure) m = measure_of(&s);
    assert_true(es_measure_detail(m, ES_DETAIL_Q_RMS)[0] == 0);
    assert_true(es_measure_detail(m, ES_DETAIL_QK_SIGMA)[0] == 0);
    assert_true(
        is_nan_not_missing(es_measure_detail(m, ES_DETAIL_QK_STABLE_RANK)[0]));
    assert_true(es_measure_detail(m, ES_DETAIL_QK_STABLE_RANK)[H] >= 1);
    assert_true(es_measure_detail(m, ES_DETAIL_ACT_MAX)[0] == 0);
    assert_true(
        is_nan_not_missing(es_measure_detail(m, ES_DETAIL_ACT_KURTOSIS)[0]));
    assert_true(
        is_nan_not_missing(es_measure_detail(m, ES_DETAIL_FFN_RATIO)[0]));
    assert_true(es_measure_heads(m, ES_HEAD_LOGIT_VARIANCE)[0] == 0);
    assert_true(es_measure_heads(m, ES_HEAD_LOGIT_MEAN)[0] == 0);
    assert_true(es_measure_detail(m, ES_DETAIL_QK_SIGMA)[H] > 0);
}

TEST(the_variance_of_one_key_is_zero)
{
    es_model_config config = es_small_config("SM+LN+G");
    config.ctx = 1;
    config.record = ES_SERIES_STANDARD;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    es_small_forward(&s);
    AUTO(es_measure) m = measure_of(&s);
    for (int i = 0; i < L * H; i++) {
        assert_true(es_measure_heads(m, ES_HEAD_LOGIT_VARIANCE)[i] == 0);
        assert_true(es_measure_heads(m, ES_HEAD_SINK_RATE)[i] == 1);
        assert_true(es_measure_detail(m, ES_DETAIL_ENTROPY_P95)[i] == 0);
        assert_true(es_measure_heads(m, ES_HEAD_LOGIT_MEAN)[i] != 0);
    }
}

TEST(values_that_are_not_finite_are_nan_and_do_not_spread)
{
    AUTO_BY(es_small_close)
    es_small_model s = open_model("SM+LN+G", ES_FAMILY_GPT2, ES_SERIES_ALL);
    float values[D * 3 * D];
    const size_t index = es_small_find(&s, "h.1.attn.c_attn.weight");
    es_assert_ok(es_model_get(s.model, index, values, D * 3 * D));
    /* the first element of W_Q that belongs to head 1 of layer 1 */
    values[WIDTH] = es_missing();
    es_assert_ok(es_model_set(s.model, index, values, D * 3 * D));
    es_small_forward(&s);
    AUTO(es_measure) m = measure_of(&s);
    for (int d = 0; d < ES_N_DETAILS; d++) {
        if (!es_detail_exists(s.model, (es_detail)d) ||
            !es_measure_has_detail(m, (es_detail)d))
            continue;
        const bool heads = es_detail_is_of_heads((es_detail)d);
        const float *got = es_measure_detail(m, (es_detail)d);
        const bool is_value_alone =
            d == ES_DETAIL_K_RMS || d == ES_DETAIL_V_RMS;
        for (int i = 0; i < (heads ? L * H : L); i++) {
            const bool bad = i == (heads ? H + 1 : 1) && !is_value_alone;
            if (bad ? !is_nan_not_missing(got[i]) : !isfinite(got[i]))
                fail_msg("%s %d: %g", es_details[d].name, i, (double)got[i]);
        }
    }
    assert_true(
        is_nan_not_missing(es_measure_heads(m, ES_HEAD_SINK_RATE)[H + 1]));
    assert_true(
        is_nan_not_missing(es_measure_heads(m, ES_HEAD_LOGIT_VARIANCE)[H + 1]));
}

/* --- sums ----------------------------------------------------------------- */

TEST(passes_are_added_up)
{
    AUTO_BY(es_small_close)
    es_small_model s =
        open_model("SM+LN+G", ES_FAMILY_GPT2, ES_SERIES_STANDARD);
    es_outcome outcome;
    double q[2], kurtosis[2], median[2], both;
    for (int i = 0; i < 2; i++) {
        s.tokens[3] = i ? 9 : 2;
        es_small_forward(&s);
        AUTO(es_measure) m = measure_of(&s);
        q[i] = (double)es_measure_detail(m, ES_DETAIL_Q_RMS)[4];
        kurtosis[i] = (double)es_measure_detail(m, ES_DETAIL_ACT_KURTOSIS)[0];
        median[i] = (double)es_measure_detail(m, ES_DETAIL_ENTROPY_P50)[4];
    }
    es_model_begin(s.model, true, NULL, 0);
    for (int i = 0; i < 2; i++) {
        s.tokens[3] = i ? 9 : 2;
        es_assert_ok(es_model_pass(s.model, s.tokens, s.targets, true));
    }
    es_assert_ok(es_model_end(s.model, &outcome));
    AUTO(es_measure) m = measure_of(&s);
    both = (double)es_measure_detail(m, ES_DETAIL_Q_RMS)[4];
    assert_true(q[0] != q[1] && fabs(both - sqrt((q[0] * q[0] + q[1] * q[1]) /
                                                 2)) <= 1e-6 * both);
    both = (double)es_measure_detail(m, ES_DETAIL_ENTROPY_P50)[4];
    assert_true(fabs(both - (median[0] + median[1]) / 2) <= 1e-6);
    both = (double)es_measure_detail(m, ES_DETAIL_ACT_KURTOSIS)[0];
    assert_true(both > fmin(kurtosis[0], kurtosis[1]) * 0.9 &&
                both < fmax(kurtosis[0], kurtosis[1]) * 1.1);
}

TEST(core_records_no_details)
{
    AUTO_BY(es_small_close)
    es_small_model s = open_model("SM+LN+G", ES_FAMILY_GPT2, ES_SERIES_CORE);
    es_small_forward(&s);
    AUTO(es_measure) m = measure_of(&s);
    for (int d = 0; d < ES_N_DETAILS; d++) {
        assert_false(es_detail_exists(s.model, (es_detail)d));
        assert_false(es_measure_has_detail(m, (es_detail)d));
    }
    assert_null(es_model_rows(s.model, ES_ROW_LOGIT_MEAN));
}

TEST_EACH(NULL, NULL)
