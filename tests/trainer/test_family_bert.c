/* Tests family bert, which only runs forward. Compares attention over all keys
 * except padding with closed forms, and checks which settings are refused.
 * tests/python/test_bert_weights.py compares whole models with transformers. */
#include "analyzer/base/value.h"
#include "analyzer/heads/heads.h"
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/families.h"
#include "tests/support/reference_ops.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

enum { B = 2, T = 7, H = 3, D = 4, WIDTH = H * D, PADDING = 9 };

/* The last four tokens of sequence 1 are padding. */
static const int32_t tokens[B * T] = {1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 9, 9, 9, 9};
static const int n_visible[B] = {7, 3};

typedef struct outputs {
    float y[B * T * WIDTH];
    float rows[ES_N_ROW_STATISTICS][B * H * T];
} outputs;

static void attend(outputs *out, const float *qkv, int n_threads)
{
    const es_ops *ops = &es_cpu_ops;
    const es_extents largest = {.n_rows = B * T,
                                .width = 3 * WIDTH,
                                .n_ctx = T,
                                .n_head = H,
                                .head_width = D,
                                .sees_all = true};
    float saved[B * H * T * ES_N_SAVED];
    const es_attention attention = {
        .n_batch = B, .n_ctx = T, .n_head = H, .d_model = WIDTH};
    es_row_mem rows = {{NULL}};
    es_backend *cpu;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (i != ES_ROW_MISSING)
            rows.array[i] = (es_mem *)out->rows[i];
    es_assert_ok(ops->open(&cpu, n_threads));
    es_assert_ok(ops->prepare(cpu, &largest));
    ops->attention_whole(cpu, (es_mem *)out->y, (es_mem *)saved, &rows,
                         (const es_mem *)qkv, (const es_mem *)tokens, PADDING,
                         &attention);
    ops->close(cpu);
}

static void expect(float got, double want, const char *name)
{
    if (!(fabs((double)got - want) <= 1e-5))
        fail_msg("%s is %g, not %g", name, (double)got, want);
}

/* If all queries are 0, every visible key has the same weight, so the entropy
 * of a row is the logarithm of its number of visible keys. */
TEST(uniform_rows_have_the_logarithm_of_their_visible_keys)
{
    float qkv[B * T * 3 * WIDTH];
    uint64_t seed = 4;
    outputs out;
    es_test_fill(qkv, sizeof qkv / sizeof *qkv, 2, &seed);
    for (int i = 0; i < B * T; i++)
        memset(qkv + i * 3 * WIDTH, 0, WIDTH * sizeof *qkv);
    attend(&out, qkv, 2);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < T; i++) {
                const int at = (b * H + h) * T + i, n = n_visible[b];
                double distance = 0, y = 0;
                for (int k = 0; k < n; k++) {
                    distance += fabs((double)(i - k)) / n;
                    y += (double)qkv[((b * T + k) * 3 + 2) * WIDTH + h * D] / n;
                }
                expect(out.y[(b * T + i) * WIDTH + h * D], i < n ? y : 0, "y");
                assert_true(out.rows[ES_ROW_NONFINITE][at] == 0);
                if (i >= n) {
                    assert_true(es_is_missing(out.rows[ES_ROW_ENTROPY][at]));
                    continue;
                }
                expect(out.rows[ES_ROW_ENTROPY][at], log(n), "entropy");
                expect(out.rows[ES_ROW_LSE][at], log(n), "lse");
                expect(out.rows[ES_ROW_SINK][at], 1.0 / n, "sink");
                expect(out.rows[ES_ROW_TOP][at], 1.0 / n, "top");
                expect(out.rows[ES_ROW_DISTANCE][at], distance, "distance");
                expect(out.rows[ES_ROW_MAX_LOGIT][at], 0, "largest logit");
                expect(out.rows[ES_ROW_LOGIT_VARIANCE][at], 0, "variance");
            }
}

TEST(the_number_of_threads_changes_no_bit)
{
    float qkv[B * T * 3 * WIDTH];
    uint64_t seed = 7;
    outputs one, three;
    memset(&one, 0, sizeof one);
    memset(&three, 0, sizeof three);
    es_test_fill(qkv, sizeof qkv / sizeof *qkv, 2, &seed);
    attend(&one, qkv, 1);
    attend(&three, qkv, 3);
    assert_memory_equal(&one, &three, sizeof one);
}

/* A NaN in a key affects every row that sees the key; a NaN in a padding key
 * affects no row. */
TEST(rows_with_a_score_that_is_not_finite_are_counted)
{
    float qkv[B * T * 3 * WIDTH];
    uint64_t seed = 5;
    outputs out;
    es_test_fill(qkv, sizeof qkv / sizeof *qkv, 2, &seed);
    /* a key of head 0 in sequence 0 */
    qkv[((0 * T + 4) * 3 + 1) * WIDTH] = NAN;
    /* a padding key of head 0 in sequence 1 */
    qkv[((1 * T + 5) * 3 + 1) * WIDTH] = NAN;
    attend(&out, qkv, 1);
    for (int h = 0; h < H; h++)
        for (int i = 0; i < T; i++) {
            const float entropy = out.rows[ES_ROW_ENTROPY][h * T + i];
            assert_int_equal(isnan(entropy), h == 0);
            assert_false(es_is_missing(entropy));
            assert_true(out.rows[ES_ROW_NONFINITE][h * T + i] == (h ? 0 : 7));
            if (i < n_visible[1])
                assert_true(
                    isfinite(out.rows[ES_ROW_ENTROPY][(H + h) * T + i]));
        }
    es_head_sums sums[H];
    const float *rows[ES_N_ROW_STATISTICS];
    for (int h = 0; h < H; h++)
        sums[h] = es_head_sums_start();
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        rows[i] = i == ES_ROW_MISSING ? NULL : out.rows[i];
    es_head_sums_add_rows(sums, rows, B, H, T);
    for (int h = 0; h < H; h++) {
        assert_true(sums[h].finite_rows == (h ? 10 : 3));
        assert_true(es_head_value(&sums[h], ES_HEAD_NONFINITE_ROWS) ==
                    (h ? 0 : 7));
    }
}

/* --- refusals ------------------------------------------------------------- */

TEST(an_encoder_only_runs_forward)
{
    es_model_config config = es_small_config("SM+LN+G");
    es_ops ops = es_cpu_ops;
    es_model *model = NULL;
    config.family = ES_FAMILY_BERT;
    es_expect_config_refused(&config, "--family bert cannot be trained");
    config.forward_only = true;
    es_assert_ok(es_model_config_check(&config));
    ops.attention_whole = NULL;
    assert_int_equal(es_model_new(&model, &config, &ops, 1), ES_EUSAGE);
    assert_non_null(
        strstr(es_message(), "--family bert: not supported by back-end"));
    config.arch.temperature = true;
    es_expect_config_refused(&config, "--family bert needs softmax");
    config = es_small_config("SM+LN+G");
    config.padding = 3;
    es_expect_config_refused(&config, "--padding");
}
