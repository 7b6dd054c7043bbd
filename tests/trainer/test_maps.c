/* Compares each cell of a model's attention maps with weights computed in
 * double. */
#include "analyzer/base/value.h"
#include "hooks/trainer/model/maps.h"
#include "hooks/trainer/model/measure.h"
#include "tests/support/reference_internal.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

#include <math.h>

AUTO_OF(es_maps, es_maps_free)
AUTO_OF(es_measure, es_measure_free)

enum { L = 2, H = 3, D = 12, WIDTH = D / H, T = 5, B = 2 };

/** Computes the attention weights of query i of head h, which are the i + 1
 *  elements of `a`, by their definition. */
static void weigh(double *a, const double *qkv, int h, int i,
                  const es_arch *arch, double t)
{
    const double length = arch->length == ES_LENGTH_CONTEXT   ? T
                          : arch->length == ES_LENGTH_VISIBLE ? i + 1
                                                              : 1;
    double largest = 0, sum = 0;
    for (int j = 0; j <= i; j++) {
        a[j] = 0;
        for (int c = 0; c < WIDTH; c++)
            a[j] += qkv[i * 3 * D + h * WIDTH + c] *
                    qkv[j * 3 * D + D + h * WIDTH + c] / sqrt(WIDTH) / t;
        largest = fmax(largest, fabs(a[j]));
    }
    const double c = arch->power_plain ? 1 : largest + 1e-6;
    for (int j = 0; j <= i; j++) {
        a[j] = arch->attention == ES_SOFTMAX       ? exp(a[j] - largest)
               : arch->attention == ES_SCALED_RELU ? fmax(0, a[j])
                                                   : pow(a[j] / c, arch->power);
        sum += a[j];
    }
    for (int j = 0; j <= i; j++)
        a[j] /= arch->attention == ES_SCALED_RELU
                    ? length
                    : sum + arch->power_epsilon * length;
}

/** Computes a cell of a map: the mean weight over sequences, over the pairs of
 *  query and key in the cell and, if `head` is -1, over heads. */
static double cell(const es_ref_result *ref, const es_ref_model *model,
                   const es_arch *arch, int layer, int head, int size, int q,
                   int k)
{
    const double *log_t = es_ref_of_layer(model, layer, "attn.log_t");
    double sum = 0, n = 0, a[T];
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < T; i++) {
                const double t = log_t ? exp(log_t[h * T + i]) : 1;
                if ((head >= 0 && h != head) || i * size / T != q)
                    continue;
                weigh(a, ref->qkv + (layer * B + b) * T * 3 * D, h, i, arch, t);
                for (int j = 0; j <= i; j++)
                    if (j * size / T == k) {
                        sum += a[j];
                        n++;
                    }
            }
    return n > 0 ? sum / n : (double)NAN;
}

static void check(const char *arch, es_family family, int size)
{
    es_model_config config = es_small_config(arch);
    config.family = family;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    AUTO(es_maps) maps = NULL;
    es_assert_ok(es_maps_new(&maps, s.config, size, true));
    es_small_forward(&s);
    es_assert_ok(es_maps_add(maps, s.model));
    es_ref_model *model = es_ref_model_copy(s.model);
    es_ref_result *want = es_ref_result_new(s.config);
    es_ref_model_run(model, want, s.tokens, s.targets);
    for (int l = 0; l < L; l++)
        for (int h = -1; h < H; h++) {
            float got[T * T];
            es_maps_get(got, maps, l, h);
            for (int q = 0; q < size; q++)
                for (int k = 0; k < size; k++) {
                    const double value =
                        cell(want, model, &s.config->arch, l, h, size, q, k);
                    const float is = got[q * size + k];
                    if (isnan(value))
                        assert_true(es_is_missing(is));
                    else
                        assert_true(fabs((double)is - value) <= 1e-5);
                }
        }
    es_ref_result_free(want);
    es_ref_model_free(model);
}

TEST(a_cell_is_the_mean_weight_of_its_pairs)
{
    static const int sizes[] = {1, 2, 3, 5};
    for (int i = 0; i < 4; i++) {
        check("SM+LN+G", ES_FAMILY_GPT2, sizes[i]);
        check("SM(t)+R", ES_FAMILY_GPT2, sizes[i]);
        check("SM+LN+G", ES_FAMILY_PYTHIA, sizes[i]);
        check("PSM(4)+LN+G", ES_FAMILY_GPT2, sizes[i]);
        check("PSM(4,0.1,plain,length)+LN+G", ES_FAMILY_GPT2, sizes[i]);
        check("PSM(2,0.1,lengthT)", ES_FAMILY_GPT2, sizes[i]);
        check("RA+LN+G", ES_FAMILY_GPT2, sizes[i]);
    }
}

/* In a map with one cell for each pair of query and key, the mean of the first
 * column equals the sink series, and the mean distance computed from the map
 * equals the distance series. */
TEST(a_full_map_agrees_with_the_series_of_heads)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM+LN+G");
    AUTO(es_maps) maps = NULL;
    AUTO(es_measure) measure = NULL;
    es_assert_ok(es_maps_new(&maps, s.config, 64, true));
    es_assert_ok(es_measure_new(&measure, s.config));
    assert_int_equal(es_maps_size(maps), T);
    es_small_forward(&s);
    es_assert_ok(es_maps_add(maps, s.model));
    es_measure_add(measure, s.model);
    for (int head = 0; head < L * H; head++) {
        float map[T * T];
        double sink = 0, distance = 0;
        es_maps_get(map, maps, head / H, head % H);
        for (int i = 0; i < T; i++)
            for (int j = 0; j <= i; j++) {
                const double a = (double)map[i * T + j];
                sink += j == 0 ? a / T : 0;
                distance += a * (i - j) / T;
            }
        const double got[] = {
            (double)es_measure_heads(measure, ES_HEAD_SINK)[head],
            (double)es_measure_heads(measure, ES_HEAD_DISTANCE)[head]};
        assert_true(fabs(got[0] - sink) <= 1e-5);
        assert_true(fabs(got[1] - distance) <= 1e-4);
    }
}

TEST(without_maps_of_heads_a_layer_has_the_same_mean)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM+LN+G");
    AUTO(es_maps) heads = NULL;
    AUTO(es_maps) layers = NULL;
    float a[9], b[9];
    es_assert_ok(es_maps_new(&heads, s.config, 3, true));
    es_assert_ok(es_maps_new(&layers, s.config, 3, false));
    assert_int_equal(es_maps_n_heads(heads), H);
    assert_int_equal(es_maps_n_heads(layers), 0);
    es_small_forward(&s);
    /* Add more sequences than a map uses; only the first 16 contribute to the
     * mean. */
    for (int i = 0; i < 9; i++) {
        es_assert_ok(es_maps_add(heads, s.model));
        es_assert_ok(es_maps_add(layers, s.model));
    }
    es_maps_get(a, heads, 1, ES_MAP_MEAN);
    es_maps_get(b, layers, 1, ES_MAP_MEAN);
    for (int i = 0; i < 9; i++)
        assert_true(es_is_missing(a[i]) ? es_is_missing(b[i])
                                        : fabsf(a[i] - b[i]) <= 1e-6F);
    es_maps_reset(layers);
    es_maps_get(b, layers, 1, ES_MAP_MEAN);
    for (int i = 0; i < 9; i++)
        assert_true(es_is_missing(b[i]));
}

TEST(a_row_that_is_not_finite_is_nan_only_in_its_cells)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM+LN+G");
    AUTO(es_maps) maps = NULL;
    const size_t array = es_small_find(&s, "wpe");
    const size_t n = es_model_parameter(s.model, array).n;
    float *values = calloc(n, sizeof *values), map[T * T];
    es_assert_ok(es_model_get(s.model, array, values, n));
    values[(T - 1) * D] = NAN; /* the embedding of the last position */
    es_assert_ok(es_model_set(s.model, array, values, n));
    free(values);
    es_assert_ok(es_maps_new(&maps, s.config, T, false));
    es_small_forward(&s);
    es_assert_ok(es_maps_add(maps, s.model));
    es_maps_get(map, maps, 0, ES_MAP_MEAN);
    for (int i = 0; i < T * T; i++) {
        const int q = i / T, k = i % T;
        if (k > q)
            assert_true(es_is_missing(map[i]));
        else
            assert_true(q == T - 1 ? isnan(map[i]) && !es_is_missing(map[i])
                                   : isfinite(map[i]));
    }
}

TEST_EACH(NULL, NULL)
