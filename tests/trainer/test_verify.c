/* The judge of the trainer: it must see every kind of difference. */
#include "hooks/trainer/verify.h"
#include "tests/support/reference_case.h"
#include "tests/support/test.h"

static const es_tolerance within = {1e-4, 1e-6};

static bool is_close(const double *got, double *want, size_t n)
{
    double error;
    es_npy array = {.type = ES_NPY_F8, .n_dims = 1, .n = n, .data = want};
    return es_verify_close(&error, got, &array, &within);
}

TEST(a_distance_is_judged_by_the_norm)
{
    double want[3] = {3, -4, 0};
    assert_true(is_close((double[]){3, -4, 0}, want, 3));
    assert_true(is_close((double[]){3, -4, 4.9e-4}, want, 3));
    assert_false(is_close((double[]){3, -4, 5.1e-4}, want, 3));
    double zero[1] = {0};
    assert_true(is_close((double[]){0.9e-6}, zero, 1));
    assert_false(is_close((double[]){1.1e-6}, zero, 1));
}

TEST(what_is_not_finite_has_to_be_the_same)
{
    double want[3] = {NAN, INFINITY, 1};
    assert_true(is_close((double[]){NAN, INFINITY, 1}, want, 3));
    assert_false(is_close((double[]){0, INFINITY, 1}, want, 3));
    assert_false(is_close((double[]){NAN, -INFINITY, 1}, want, 3));
    assert_false(is_close((double[]){NAN, NAN, 1}, want, 3));
    assert_false(is_close((double[]){NAN, INFINITY, NAN}, want, 3));
}

TEST(integers_are_equal)
{
    int32_t want[2] = {100000, 7};
    es_npy array = {.type = ES_NPY_I4, .n_dims = 1, .n = 2, .data = want};
    double error;
    assert_true(
        es_verify_close(&error, (double[]){100000, 7}, &array, &within));
    assert_false(
        es_verify_close(&error, (double[]){100001, 7}, &array, &within));
}

/* A copy of a case, damaged by a shell command run inside it. */
static es_verify_counts verify_damaged(const char *name, const char *damage)
{
    char dir[] = "/tmp/verify-XXXXXX", command[2048];
    es_verify_counts counts = {0};
    const char *from = es_ref_case_dir(name);
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof command,
             "cp -R '%s/.' '%s' && chmod -R u+w '%s' && cd '%s' && %s", from,
             dir, dir, dir, damage);
    if (system(command) == 0) {
        AUTO(FILE) out = tmpfile();
        const char *dirs[] = {dir};
        es_assert_ok(es_verify(out, dirs, 1, &es_cpu_ops, ES_FP32, 1, &counts));
    }
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
    return counts;
}

TEST(sees_damage)
{
    es_verify_counts whole = verify_damaged("g05_sm", "true");
    assert_int_equal(whole.passed, 1);
    const char *damages[] = {
        "rm grads/wte.npy",
        "rm params/wte.npy",
        "rm case.json",
        "truncate -s -4 grads/h.1.mlp.c_fc.weight.npy",
        /* the last float of an array becomes a NaN, a huge number */
        "truncate -s -4 grads/wte.npy && printf '\\0\\0\\300\\177' "
        ">>grads/wte.npy",
        "truncate -s -4 out/logits.npy && printf '\\0\\0\\0\\110' "
        ">>out/logits.npy",
        "truncate -s -4 params/wpe.npy && printf '\\0\\0\\300\\177' "
        ">>params/wpe.npy",
        "truncate -s -4 out/nonfinite.npy && printf '\\1\\0\\0\\0' "
        ">>out/nonfinite.npy",
        "truncate -s -4 tokens.npy && printf '\\377\\0\\0\\0' >>tokens.npy",
        "sed -i s/gpt2/gpt3/ case.json",
        "sed -i 's/\"n_head\": 1/\"n_head\": 4/' case.json",
        "sed -i 's/\"n_layer\": 2/\"n_layer\": 3/' case.json",
        "echo '{' >case.json",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        es_verify_counts counts = verify_damaged("g05_sm", damages[i]);
        if (counts.failed != 1)
            fail_msg("not seen: %s", damages[i]);
    }
}

/* The vectors of SNorm are read before the step and compared after it. */
TEST(sees_damaged_state)
{
    const char *name = "g12_sm_snorm_qk_ffn";
    es_verify_counts whole = verify_damaged(name, "true");
    if (!whole.passed && !whole.failed && !whole.not_built)
        skip(); /* the reference is not here */
    assert_int_equal(whole.passed, 1);
    const char *damages[] = {
        "rm state/h.1.attn.c_attn.u.npy",
        "rm state_after/h.0.mlp.c_fc.v.npy",
        "cp state/h.0.mlp.c_fc.u.npy state_after/h.0.mlp.c_fc.u.npy",
        "cp state_after/h.1.mlp.c_proj.u.npy state/h.1.mlp.c_proj.u.npy",
        "cp params/h.0.mlp.c_fc.weight.npy state/h.0.mlp.c_fc.u.npy",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++)
        if (verify_damaged(name, damages[i]).failed != 1)
            fail_msg("not seen: %s", damages[i]);
}

/* In bf16 an array may be off by a quarter of its norm; one with a wrong sign
 * or a part missing is off by more, and counts have to be right in all. */
TEST(precisions)
{
    double want[2] = {3, -4}, error;
    int32_t count = 5;
    es_npy array = {.type = ES_NPY_F8, .n_dims = 1, .n = 2, .data = want};
    es_npy counts = {.type = ES_NPY_I4, .n_dims = 1, .n = 1, .data = &count};
    for (int p = ES_FP32; p < ES_N_PRECISIONS; p++) {
        const es_tolerance t = es_verify_tolerance((es_precision)p);
        const double just = 0.99 * t.relative, over = 1.01 * t.relative + 1e-3;
        assert_true(es_verify_close(
            &error, (double[]){3 * (1 + just), -4 * (1 + just)}, &array, &t));
        assert_false(es_verify_close(
            &error, (double[]){3 * (1 + over), -4 * (1 + over)}, &array, &t));
        assert_false(es_verify_close(&error, (double[]){3, 4}, &array, &t));
        assert_false(es_verify_close(&error, (double[]){6}, &counts, &t));
    }
    assert_true(es_verify_tolerance(ES_BF16).relative == 0.25);
    assert_true(es_verify_tolerance(ES_FP16).relative == 0.03125);
}
