/* Runs `entropy-train verify` on cases with sizes and combinations of parts
 * that the reference cases do not have. verify must pass these cases, and must
 * fail them if any value is changed. */
#include "hooks/trainer/files/npy.h"
#include "tests/support/random_models.h"
#include "tests/support/test.h"

#include <ftw.h>
#include <sys/wait.h>

enum { MAX_FILES = 200 };

static char folder[] = "/tmp/es_cases_XXXXXX";

/* --- running verify ------------------------------------------------------- */

/* Runs verify with the given library of matrix products, writes its output to
 * `folder`/output, and returns its exit code. */
static int verify_by(const char *dir, const char *products)
{
    const char *build = getenv("BUILD");
    char command[512];
    snprintf(command, sizeof command,
             "%s/entropy-train verify --threads 1 --products %s '%s' "
             ">%s/output 2>&1",
             build ? build : "build", products, dir, folder);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int verify(const char *dir)
{
    return verify_by(dir, "auto");
}

static void fail_with_output(const char *what)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "%s/output", folder);
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = 0;
    if (file)
        fclose(file);
    fail_msg("%s:\n%s", what, text);
}

static int drop(const char *path, const struct stat *about, int type,
                struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* --- the cases ------------------------------------------------------------ */

typedef struct wanted {
    const char *arch;
    es_family family;
    int n_layer, n_head, d_model, ctx, vocab, batch, mlp_mult;
    es_bias bias;
    es_final_norm final_norm;
} wanted;

static es_model_config config_of(const wanted *w)
{
    es_model_config config;
    es_model_config_default(&config);
    es_assert_ok(es_arch_parse(&config.arch, w->arch));
    config.family = w->family;
    config.n_layer = w->n_layer;
    config.n_head = w->n_head;
    config.d_model = w->d_model;
    config.ctx = w->ctx;
    config.vocab = w->vocab;
    config.batch = w->batch;
    config.mlp_mult = w->mlp_mult;
    config.bias = w->bias;
    config.final_norm = w->final_norm;
    config.gamma = 0.1;
    config.lambda = 0.3 / (w->batch * w->ctx);
    if (w->n_head % 2 == 0)
        config.ereg_reduce = ES_EREG_MEAN;
    return config;
}

static void write_case(char *dir, size_t size, const wanted *w, uint64_t seed)
{
    const es_model_config config = config_of(w);
    es_ref_case it = es_random_case_of(&config, seed);
    snprintf(dir, size, "%s/case-XXXXXX", folder);
    if (!mkdtemp(dir))
        fail_msg("%s: cannot create this folder", dir);
    es_ref_case_write(dir, &it);
    es_ref_case_free(&it);
}

#define GPT2 ES_FAMILY_GPT2
#define PYTHIA ES_FAMILY_PYTHIA
#define ALL ES_BIAS_ALL
#define QK ES_BIAS_QK
#define NONE ES_BIAS_NONE
#define USUAL ES_FINAL_AUTO
#define ON ES_FINAL_ON
#define OFF ES_FINAL_OFF

static const wanted cases[] = {
    /* The columns are arch, family, L, H, d, T, V, B, m, bias and final norm.
     * The first case is the smallest possible one. */
    {"SM", GPT2, 1, 1, 2, 1, 2, 1, 1, QK, USUAL},
    {"SM+R", PYTHIA, 1, 1, 2, 1, 2, 1, 1, NONE, USUAL},
    {"SM+LN+GT", GPT2, 1, 2, 4, 1, 2, 1, 1, ALL, USUAL},
    {"SM(t)+ScFFN", PYTHIA, 1, 1, 2, 3, 2, 1, 1, ALL, USUAL},
    {"PSM(2)", GPT2, 1, 1, 2, 4, 2, 1, 1, QK, USUAL},
    {"SM+SNorm(QKVO,FFN)", PYTHIA, 1, 1, 2, 2, 2, 1, 1, QK, USUAL},
    {"SM+WNorm(QKVO,FFN)", GPT2, 1, 1, 2, 2, 2, 1, 1, ALL, USUAL},
    {"EReg(SM(t)+ScFuFFNi1)", GPT2, 1, 1, 2, 2, 2, 1, 1, QK, USUAL},
    /* ScFuFFNi1 removes the FFN of the only layer */
    {"SM+ScFuFFNi1", PYTHIA, 1, 3, 6, 1, 3, 2, 1, ALL, ON},
    {"SM+NoFFN", GPT2, 1, 1, 2, 2, 2, 1, 1, QK, USUAL},
    {"EReg(SM(t)+LN+NoFFN)", PYTHIA, 3, 1, 4, 5, 3, 2, 1, ALL, USUAL},
    {"SM+LN+GT+NoFFN[1]", GPT2, 3, 2, 6, 4, 5, 1, 2, ALL, USUAL},
    {"EReg(SM(t)+LN+ScFuFFNi3+WNorm(QK))", GPT2, 3, 1, 3, 6, 5, 2, 2, QK, OFF},
    {"EReg(SM(t)+ScFuFFNi2+SNorm(QKV,FFN))", PYTHIA, 2, 3, 9, 4, 7, 1, 1, NONE,
     USUAL},
    /* combinations of several architecture parts */
    {"EReg(SM+LN+R)", GPT2, 2, 1, 5, 1, 4, 3, 2, ALL, USUAL},
    {"EReg(PSM(4,1e-2)+LN+GT+WNorm(QKVO,FFN))", PYTHIA, 2, 3, 9, 5, 7, 2, 1,
     ALL, USUAL},
    {"EReg(PSM(2)+ScFFN+WNorm(QKV)+SNorm(FFN))", GPT2, 2, 2, 8, 5, 3, 1, 3, QK,
     ON},
    {"SM+LN+LR(global,0.2)+WNorm(FFN)+SNorm(QKVO)", PYTHIA, 3, 2, 6, 7, 5, 1, 1,
     ALL, OFF},
    {"SM(t)+LN+LR(layer)+SNorm(FFN)", PYTHIA, 2, 1, 17, 5, 6, 1, 1, NONE,
     USUAL},
    {"EReg(SM(t)+ScFuFFNi1+WNorm(FFN)+SNorm(QK))", GPT2, 2, 3, 6, 9, 12, 1, 4,
     ALL, ON},
};

TEST(cases_of_any_size_pass)
{
    char dir[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_case(dir, sizeof dir, &cases[i], i + 1);
        if (verify(dir) != 0)
            fail_with_output(cases[i].arch);
        remove_folder(dir);
    }
}

/* A library that is not installed is refused with exit code 3. */
TEST(cases_pass_with_each_library_of_products)
{
    static const char *const libraries[] = {"openblas", "onednn"};
    char dir[64];
    const size_t last = sizeof cases / sizeof *cases - 1;
    write_case(dir, sizeof dir, &cases[last], 77);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        const int code = verify_by(dir, libraries[i]);
        if (code != 0 && !(code == 3 && i == 1))
            fail_with_output(libraries[i]);
    }
    remove_folder(dir);
}

/* --- planted faults ------------------------------------------------------- */

static char files[MAX_FILES][128];
static int n_files;

static int collect(const char *path, const struct stat *about, int type,
                   struct FTW *ftw)
{
    (void)about;
    (void)ftw;
    const bool compared = strstr(path, "/out/") || strstr(path, "/grads/") ||
                          strstr(path, "/state_after/");
    if (type == FTW_F && compared && n_files < MAX_FILES)
        snprintf(files[n_files++], sizeof *files, "%s", path);
    return 0;
}

/* Adds `more` to the last element of the array in a file. */
static void spoil(const char *path, int more)
{
    AUTO_BY(es_npy_free) es_npy array = {0};
    es_assert_ok(es_npy_read(&array, path));
    const double number = es_npy_at(&array, array.n - 1) + more;
    const float single = (float)number;
    const int32_t whole = (int32_t)number;
    const bool is_double = array.type == ES_NPY_F8;
    const void *bytes = is_double                 ? (const void *)&number
                        : array.type == ES_NPY_I4 ? (const void *)&whole
                                                  : &single;
    const long size = is_double ? 8 : 4;
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -size, SEEK_END), 0);
    assert_int_equal(fwrite(bytes, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
}

TEST(a_case_may_be_a_file)
{
    const char *path = es_ref_case_path("g02_sm_ln_gt");
    if (verify(path) != 0)
        fail_with_output(path);
}

/* Changes one element of one file at a time. */
TEST(a_wrong_number_fails)
{
    const wanted w = {"EReg(SM(t)+LN+ScFuFFN+WNorm(FFN)+SNorm(QKVO))",
                      PYTHIA,
                      2,
                      1,
                      5,
                      4,
                      6,
                      2,
                      1,
                      ALL,
                      USUAL};
    char dir[64];
    write_case(dir, sizeof dir, &w, 5);
    if (verify(dir) != 0)
        fail_with_output("verify before a number was changed");
    n_files = 0;
    nftw(dir, collect, 8, FTW_PHYS);
    assert_in_range(n_files, 40, MAX_FILES - 1);
    for (int i = 0; i < n_files; i++) {
        spoil(files[i], 1);
        if (verify(dir) != 1)
            fail_with_output(files[i]);
        spoil(files[i], -1);
    }
    assert_int_equal(verify(dir), 0);
    remove_folder(dir);
}

static int set_up(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    remove_folder(folder);
    return 0;
}

TEST_GROUP(set_up, tear_down)
