/* Tests the verb verify, which must detect every difference between a case and
 * a model. */
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

TEST(non_finite_values_must_agree)
{
    double want[3] = {NAN, INFINITY, 1};
    assert_true(is_close((double[]){NAN, INFINITY, 1}, want, 3));
    assert_false(is_close((double[]){0, INFINITY, 1}, want, 3));
    assert_false(is_close((double[]){NAN, -INFINITY, 1}, want, 3));
    assert_false(is_close((double[]){NAN, NAN, 1}, want, 3));
    assert_false(is_close((double[]){NAN, INFINITY, NAN}, want, 3));
}

TEST(integers_must_be_equal)
{
    int32_t want[2] = {100000, 7};
    es_npy array = {.type = ES_NPY_I4, .n_dims = 1, .n = 2, .data = want};
    double error;
    assert_true(
        es_verify_close(&error, (double[]){100000, 7}, &array, &within));
    assert_false(
        es_verify_close(&error, (double[]){100001, 7}, &array, &within));
}

/* --- folders and files --------------------------------------------------- */

/* Runs verify on a case and returns its output without the case's path; the
 * caller frees the output. */
static char *verify_says(const char *path, es_verify_counts *counts)
{
    AUTO(FILE) out = tmpfile();
    char *text = calloc(1, 1 << 16), *at;
    const size_t n = strlen(path);
    assert_true(out && text);
    es_assert_ok(es_verify(out, &path, 1, &es_cpu_ops, ES_FP32, 1, counts));
    rewind(out);
    assert_in_range(fread(text, 1, 1 << 16, out), 1, (1 << 16) - 1);
    while ((at = strstr(text, path)))
        memmove(at, at + n, strlen(at + n) + 1);
    return text;
}

static char scratch[32];

static void make_scratch(void)
{
    snprintf(scratch, sizeof scratch, "/tmp/verify-XXXXXX");
    assert_non_null(mkdtemp(scratch));
}

static void remove_scratch(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    assert_int_equal(system(command), 0);
}

static void compare_forms(const char *path)
{
    es_verify_counts counts;
    make_scratch();
    es_ref_case_unpack(scratch, path);
    AUTO_FREE char *file = verify_says(path, &counts);
    assert_int_equal(counts.passed, 1);
    AUTO_FREE char *folder = verify_says(scratch, &counts);
    assert_string_equal(file, folder);
    remove_scratch();
}

TEST(a_folder_and_a_file_give_the_same_numbers)
{
    static const char *const names[] = {
        "g12_sm_snorm_qk_ffn", "l08_llama3",    "q01_range_psm4",
        "r02_roberta_padding", "t02_ereg_sm_t", "v02_vit_channels"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_forms(es_ref_case_path(names[i]));
}

/* --- damaged files ------------------------------------------------------- */

typedef struct file_text {
    char *bytes;
    size_t n;
} file_text;

static file_text load(const char *path)
{
    file_text out = {.bytes = malloc(1 << 20)};
    FILE *file = fopen(path, "rb");
    assert_true(file && out.bytes);
    out.n = fread(out.bytes, 1, 1 << 20, file);
    assert_in_range(out.n, 9, (1 << 20) - 1);
    fclose(file);
    return out;
}

/* Writes the case to a file, with `from` replaced by `to`, a string of the same
 * length. If `after` is not NULL, only replaces occurrences that follow the
 * text `after`. */
static void write_damaged(const char *path, const file_text *whole,
                          const char *after, const char *from, const char *to)
{
    AUTO_FREE char *bytes = malloc(whole->n);
    assert_non_null(bytes);
    memcpy(bytes, whole->bytes, whole->n);
    char *at = after ? memmem(bytes, whole->n, after, strlen(after)) : bytes;
    assert_non_null(at);
    at = memmem(at, whole->n - (size_t)(at - bytes), from, strlen(from));
    assert_true(at && strlen(from) == strlen(to));
    memcpy(at, to, strlen(to));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, whole->n, file), whole->n);
    assert_int_equal(fclose(file), 0);
}

/* Expects that verify fails with a single line that names the file and the
 * reason. */
static void expect_failure(const char *path, const char *said)
{
    es_verify_counts counts;
    char want[256];
    AUTO_FREE char *text = verify_says(path, &counts);
    snprintf(want, sizeof want, ": fail: %s\n0 passed, 1 failed\n", said);
    assert_string_equal(text, want);
    assert_int_equal(counts.failed, 1);
}

TEST(a_damaged_file_fails_and_the_tensor_is_named)
{
    static const struct {
        const char *after, *from, *to, *said;
    } damages[] = {
        {NULL, "\"case\":", "\"cose\":", ": no metadata case"},
        {"\"case\":", "{", "[",
         ": metadata case: line 2: ']' expected near ':'"},
        {NULL, "gpt2", "gpt3",
         ": metadata case: family: unknown value 'gpt3': expected one of gpt2, "
         "pythia, llama, "
         "bert, sas, roberta, vit"},
        {NULL, "\"tokens\"", "\"tokans\"", ": no tensor tokens"},
        {NULL, "\"grads/wte\"", "\"grads/wta\"", ": no tensor grads/wte"},
        {"\"tokens\"", "\"I32\"", "\"F32\"",
         ": tensor tokens: element type float32, expected int32"},
        {"\"tokens\"", "\"I32\"", "\"U32\"",
         ": tensor tokens: dtype is not F32, F64 or I32"},
        {"\"params/wte\"", "\"F32\"", "\"I32\"",
         ": tensor params/wte: element type int32, expected float32"},
        {"\"tokens\"", "[1,13]", "[13,1]",
         ": tensor tokens: shape (13, 1), expected (1, 13)"},
        {"\"params/wpe\"", "[13,6]", "[6,13]",
         ": tensor params/wpe: shape (6, 13), expected (13, 6)"},
    };
    AUTO_FREE char *bytes = NULL;
    const file_text whole = load(es_ref_case_path("g05_sm"));
    bytes = whole.bytes;
    char path[64];
    make_scratch();
    snprintf(path, sizeof path, "%s/damaged", scratch);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        write_damaged(path, &whole, damages[i].after, damages[i].from,
                      damages[i].to);
        expect_failure(path, damages[i].said);
    }
    remove_scratch();
}

/* Reading a case fails at whatever position the file is truncated. */
TEST(a_file_that_is_cut_fails)
{
    const file_text whole = load(es_ref_case_path("g05_sm"));
    AUTO_FREE char *bytes = whole.bytes;
    char path[64];
    make_scratch();
    snprintf(path, sizeof path, "%s/cut", scratch);
    write_damaged(path, &whole, NULL, "case", "case");
    for (size_t n = whole.n - 1;; n = n > 997 ? n - 997 : n / 2) {
        es_verify_counts counts;
        assert_int_equal(truncate(path, (off_t)n), 0);
        AUTO_FREE char *text = verify_says(path, &counts);
        assert_int_equal(counts.failed, 1);
        assert_non_null(strstr(text, n < 8 ? "not a safetensors file" : "cut"));
        if (n == 0)
            break;
    }
    remove_scratch();
}

TEST(a_path_that_is_neither_a_folder_nor_a_file_fails)
{
    expect_failure("/tmp/no such case", ": No such file or directory");
    expect_failure(
        "/dev/null",
        ": not a regular file: copy its contents into a regular file");
}

/* --- damaged folders ----------------------------------------------------- */

/* Runs verify on a case in a folder, after running the shell command `damage`
 * in this folder. */
static es_verify_counts verify_damaged(const char *name, const char *damage)
{
    char command[2048];
    es_verify_counts counts = {0};
    make_scratch();
    es_ref_case_unpack(scratch, es_ref_case_path(name));
    snprintf(command, sizeof command, "cd '%s' && %s", scratch, damage);
    if (system(command) == 0)
        free(verify_says(scratch, &counts));
    remove_scratch();
    return counts;
}

TEST(damage_is_detected)
{
    es_verify_counts whole = verify_damaged("g05_sm", "true");
    assert_int_equal(whole.passed, 1);
    const char *damages[] = {
        "rm grads/wte.npy",
        "rm params/wte.npy",
        "rm case.json",
        "truncate -s -4 grads/h.1.mlp.c_fc.weight.npy",
        /* replace the last float of an array by NaN or by a huge number */
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

/* SNorm's vectors are read before the step and compared after the step, so
 * damage to either array must be detected. */
TEST(damaged_state_is_detected)
{
    const char *name = "g12_sm_snorm_qk_ffn";
    es_verify_counts whole = verify_damaged(name, "true");
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

/* In bf16 the tolerance of an array is a quarter of its norm. An array with a
 * wrong sign or a missing part exceeds this tolerance. Integer arrays must
 * always be equal. */
TEST(each_precision_has_its_tolerance)
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
