/* Tests that the labels of runs show the fewest settings that distinguish the
 * runs. */
#include "analyzer/base/display.h"
#include "cli/runs/labels.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 60 };

/* A run to create; NULL members are unknown. */
typedef struct given {
    const char *name, *arch, *config;
    int64_t seed;
} given;

/* Runs, each in a separate file, and their labels. */
typedef struct labelled {
    es_run_summary *runs[MOST];
    size_t n;
    es_run_labels labels;
} labelled;

static void label(labelled *out, void **state, const given *runs, size_t n)
{
    *out = (labelled){.n = n};
    for (size_t i = 0; i < n; i++) {
        char file[32];
        snprintf(file, sizeof file, "file%zu.db", i);
        const char *path = es_folder_file(state, file);
        unlink(path);
        es_run_info info = es_run_of(3, 2);
        info.name = runs[i].name;
        info.arch = runs[i].arch;
        info.config = runs[i].config;
        info.seed = runs[i].seed;
        es_recorded to = es_record(path, &info);
        es_record_all(&to, "entropy", 5, 1.5F);
        es_record_close(&to);
        out->runs[i] = es_loaded_run(path, 0);
    }
    es_assert_ok(es_run_labels_make(
        &out->labels, (const es_run_summary *const *)out->runs, n));
}

static void clear(labelled *l)
{
    for (size_t i = 0; i < l->n; i++)
        es_summary_free(l->runs[i]);
    es_run_labels_free(&l->labels);
}

/* Checks the labels of n runs: `texts` (n) are the expected labels, and
 * `plains` (n) the expected labels in plain text; `plains` is NULL if both are
 * equal. */
static void expect(void **state, const given *runs, size_t n,
                   const char *const *texts, const char *const *plains)
{
    AUTO_BY(clear) labelled l;
    label(&l, state, runs, n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(l.labels.text[i], texts[i]);
        assert_string_equal(l.labels.plain[i], plains ? plains[i] : texts[i]);
    }
}

#define EXPECT(runs, texts, plains)                                            \
    expect(state, runs, sizeof(runs) / sizeof *(runs), texts, plains)

TEST(runs_of_several_architectures_are_labelled_by_architecture)
{
    static const given runs[] = {{"a", "SM", "{\"lr\":1e-3}", 1},
                                 {"b", "SM+LN+G", "{\"lr\":3e-4}", 2}};
    static const char *const texts[] = {"SM", "SM+LN+G"};
    EXPECT(runs, texts, NULL);
}

TEST(a_single_run_is_labelled_by_its_architecture_or_name)
{
    static const given known[] = {{"a", "SM", "{\"gamma\":0.1}", 1}};
    static const given unknown[] = {{"a", NULL, "{\"gamma\":0.1}", 1}};
    static const given nameless[] = {{"", NULL, NULL, 1}};
    static const char *const by_arch[] = {"SM"}, *const by_name[] = {"a"};
    static const char *const by_file[] = {"file0"};
    EXPECT(known, by_arch, NULL);
    EXPECT(unknown, by_name, NULL);
    EXPECT(nameless, by_file, NULL);
}

TEST(runs_of_one_architecture_are_labelled_by_differing_settings)
{
    static const given runs[] = {
        {"a", "SM", "{\"gamma\":0.05,\"lambda\":1e-5,\"threads\":1}", 1},
        {"b", "SM", "{\"gamma\":0.1,\"lambda\":2e-5,\"threads\":2}", 2},
        {"c", "SM", "{\"gamma\":1e-3,\"lambda\":3e-5,\"threads\":3}", 3}};
    static const char *const texts[] = {"γ = 0.05", "γ = 0.1", "γ = 10⁻³"};
    static const char *const plains[] = {"gamma=0.05", "gamma=0.1",
                                         "gamma=1e-3"};
    EXPECT(runs, texts, plains);
}

TEST(seeds_come_last_and_only_where_they_are_needed)
{
    static const given runs[] = {{"a", "SM", "{\"lr\":0.1}", 1},
                                 {"b", "SM", "{\"lr\":0.1}", 2},
                                 {"c", "SM+G", "{\"lr\":0.2}", 1},
                                 {"d", "SM+G", "{\"lr\":0.1}", 1}};
    static const char *const texts[] = {
        "SM, lr = 0.1, seed 1", "SM, lr = 0.1, seed 2",
        "SM+G, lr = 0.2, seed 1", "SM+G, lr = 0.1, seed 1"};
    static const char *const plains[] = {"SM lr=0.1 seed=1", "SM lr=0.1 seed=2",
                                         "SM+G lr=0.2 seed=1",
                                         "SM+G lr=0.1 seed=1"};
    EXPECT(runs, texts, plains);
}

/* The setting z alone distinguishes the most runs, but x and y together
 * distinguish all. */
TEST(a_setting_that_later_ones_made_redundant_is_omitted)
{
    enum { SIDE = 3, N = SIDE * SIDE };
    static const int z[N] = {1, 1, 2, 1, 3, 3, 4, 4, 2};
    char configs[N][64], texts[N][32], plains[N][32];
    const char *wanted[N], *plain[N];
    given runs[N];
    for (int i = 0; i < N; i++) {
        int x = i / SIDE, y = i % SIDE;
        snprintf(configs[i], sizeof configs[i], "{\"z\":%d,\"x\":%d,\"y\":%d}",
                 z[i], x, y);
        snprintf(texts[i], sizeof texts[i], "x = %d, y = %d", x, y);
        snprintf(plains[i], sizeof plains[i], "x=%d y=%d", x, y);
        wanted[i] = texts[i];
        plain[i] = plains[i];
        runs[i] = (given){"r", "SM", configs[i], 1};
    }
    expect(state, runs, N, wanted, plain);
}

/* Either of the two settings alone would distinguish the runs. */
TEST(the_strength_of_ereg_is_named_with_its_reduction)
{
    static const given runs[] = {
        {"a", "SM", "{\"lambda\":1e-5,\"ereg_reduce\":\"token\"}", 1},
        {"b", "SM", "{\"lambda\":0.5,\"ereg_reduce\":\"mean\"}", 1}};
    static const char *const texts[] = {"λ = 10⁻⁵, reduction = token",
                                        "λ = 0.5, reduction = mean"};
    static const char *const plains[] = {"lambda=1e-5 ereg_reduce=token",
                                         "lambda=0.5 ereg_reduce=mean"};
    EXPECT(runs, texts, plains);
    static const given same[] = {
        {"a", "SM", "{\"lambda\":1e-5,\"ereg_reduce\":\"mean\"}", 1},
        {"b", "SM", "{\"lambda\":0.5,\"ereg_reduce\":\"mean\"}", 1}};
    static const char *const strengths[] = {"λ = 10⁻⁵", "λ = 0.5"};
    static const char *const plain[] = {"lambda=1e-5", "lambda=0.5"};
    EXPECT(same, strengths, plain);
}

TEST(a_setting_of_a_part_that_runs_lack_is_not_in_their_labels)
{
    static const given runs[] = {
        {"a", "SM+LN+G", "{\"gamma\":0.2,\"t_init\":1}", 1},
        {"b", "EReg(SM(t))", "{\"gamma\":0.1,\"t_init\":1}", 1},
        {"c", "EReg(SM(t))", "{\"gamma\":0.2,\"t_init\":1}", 1},
        {"d", "EReg(SM(t))", "{\"gamma\":0.2,\"t_init\":0.5}", 1},
        {"e", "Other", "{\"gamma\":0.2,\"t_init\":1}", 1}};
    static const char *const texts[] = {
        "SM+LN+G", "EReg(SM(t)), γ = 0.1, t₀ = 1",
        "EReg(SM(t)), γ = 0.2, t₀ = 1", "EReg(SM(t)), γ = 0.2, t₀ = 0.5",
        "Other, γ = 0.2, t₀ = 1"};
    static const char *const plains[] = {
        "SM+LN+G", "EReg(SM(t)) gamma=0.1 t_init=1",
        "EReg(SM(t)) gamma=0.2 t_init=1", "EReg(SM(t)) gamma=0.2 t_init=0.5",
        "Other gamma=0.2 t_init=1"};
    EXPECT(runs, texts, plains);
    static const given grid[] = {{"a", "SM", "{\"gamma\":0}", 1},
                                 {"b", "SM", "{\"gamma\":0.1}", 1},
                                 {"c", "EReg(SM)", "{\"gamma\":0}", 1}};
    static const char *const all[] = {"SM, γ = 0", "SM, γ = 0.1",
                                      "EReg(SM), γ = 0"};
    static const char *const all_plain[] = {"SM gamma=0", "SM gamma=0.1",
                                            "EReg(SM) gamma=0"};
    EXPECT(grid, all, all_plain);
}

TEST(absent_null_and_nan_are_distinct)
{
    static const given runs[] = {{"a", "SM", "{\"gamma\":0.5}", 1},
                                 {"b", "SM", "{}", 1},
                                 {"c", "SM", "{\"gamma\":null}", 1},
                                 {"d", "SM", "{\"gamma\":\"NaN\"}", 1},
                                 {"e", "SM", "{\"gamma\":-0.5}", 1}};
    static const char *const texts[] = {"γ = 0.5", "no γ", "γ = null",
                                        "γ = NaN", "γ = −0.5"};
    static const char *const plains[] = {"gamma=0.5", "gamma=-", "gamma=null",
                                         "gamma=NaN", "gamma=-0.5"};
    EXPECT(runs, texts, plains);
}

TEST(runs_with_equal_settings_are_labelled_by_name_file_or_number)
{
    static const given named[] = {{"a", "SM", NULL, 1},
                                  {"b", "SM", NULL, 1},
                                  {"c", "SM+G", NULL, 1},
                                  {"d", NULL, NULL, 1}};
    static const char *const names[] = {"a", "b", "SM+G", "d"};
    EXPECT(named, names, NULL);
    static const given some[] = {{"a", "SM", "{\"gamma\":1}", 1},
                                 {"b", "SM", "{\"gamma\":1}", 1},
                                 {"c", "SM", "{\"gamma\":2}", 1}};
    static const char *const both[] = {"γ = 1, a", "γ = 1, b", "γ = 2"};
    static const char *const plain[] = {"gamma=1 a", "gamma=1 b", "gamma=2"};
    EXPECT(some, both, plain);
    static const given equal[] = {{"a", "SM", NULL, 1}, {"a", "SM", NULL, 1}};
    static const char *const files[] = {"SM, file0", "SM, file1"};
    static const char *const file[] = {"SM file0", "SM file1"};
    EXPECT(equal, files, file);

    AUTO_BY(clear) labelled l;
    label(&l, state, equal, 1);
    const es_run_summary *const same[] = {l.runs[0], l.runs[0]};
    es_run_labels_free(&l.labels);
    es_assert_ok(es_run_labels_make(&l.labels, same, 2));
    assert_string_equal(l.labels.text[0], "SM, file0 #1");
    assert_string_equal(l.labels.text[1], "SM, file0 #2");
}

static void assert_all_differ(const labelled *l)
{
    for (size_t i = 0; i < l->n; i++) {
        assert_true(es_display_width(l->labels.text[i]) <= ES_LABEL_COLUMNS);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(l->labels.text[i], l->labels.text[k]);
            assert_string_not_equal(l->labels.plain[i], l->labels.plain[k]);
        }
    }
}

/* The labels differ only in the middle, which is removed when they are
 * shortened. */
TEST(long_labels_are_shortened_and_still_differ)
{
    enum { N = 4, LONG = 300 };
    char names[N][LONG + 1];
    given runs[N];
    AUTO_BY(clear) labelled l;
    for (size_t i = 0; i < N; i++) {
        memset(names[i], 'x', LONG);
        names[i][LONG] = '\0';
        names[i][LONG / 2] = (char)('a' + i / 2);
        names[i][LONG / 2 + 40] = (char)('a' + i);
        runs[i] = (given){names[i], "SM", NULL, 1};
    }
    label(&l, state, runs, N);
    assert_all_differ(&l);
}

/* The names of the architectures differ only in the middle, which is removed
 * when they are shortened. */
TEST(names_replace_labels_that_shortening_makes_equal)
{
    enum { N = 3, LONG = 100 };
    static const char *const names[] = {"first", "second", "third"};
    char archs[N][LONG + 1];
    given runs[N];
    for (size_t i = 0; i < N; i++) {
        memset(archs[i], 'x', LONG);
        archs[i][LONG] = '\0';
        archs[i][LONG / 2] = (char)('a' + i);
        runs[i] = (given){names[i], archs[i], NULL, 1};
    }
    expect(state, runs, N, names, NULL);
    /* if names are equal, the labels begin where the architectures differ */
    runs[2].name = "second";
    AUTO_BY(clear) labelled l;
    label(&l, state, runs, N);
    assert_all_differ(&l);
    assert_string_equal(l.labels.text[2] + 3, archs[2] + LONG / 2);
}

TEST(sixty_runs_have_distinct_labels)
{
    char configs[MOST][64];
    given runs[MOST];
    AUTO_BY(clear) labelled l;
    for (size_t i = 0; i < MOST; i++) {
        snprintf(configs[i], sizeof configs[i],
                 "{\"gamma\":%g,\"note\":\"%s\"}", 0.05 * (double)(i / 5),
                 i % 2 ? "γ … é" : "");
        runs[i] = (given){"r", "SM", configs[i], (int64_t)(i % 5)};
    }
    label(&l, state, runs, MOST);
    assert_all_differ(&l);
    assert_string_equal(l.labels.text[7], "γ = 0.05, seed 2");
}

TEST(quantities_have_their_symbols)
{
    assert_string_equal(es_symbol_of("theta"), "θ");
    assert_string_equal(es_symbol_of("beta2"), "β₂");
    assert_null(es_symbol_of("thetas"));
}

TEST_EACH(es_folder_make, es_folder_remove)
