/* Tests that the figure overview shows one row per run, merges seeds, and
 * limits the number of rows. */
#include "cli/figures/figures.h"
#include "cli/runs/settings.h"
#include "tests/support/drawn.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { LAYERS = 3, HEADS = 2, MOST = 400 };

/* Runs that are recorded in one file, and the options of the figure. */
typedef struct shown {
    es_recorded file;
    es_run_summary *runs[MOST];
    size_t n;
    es_figure_options options;
} shown;

static void add(shown *to, const char *name, const char *config, int64_t seed)
{
    es_run_info info = es_run_of(LAYERS, HEADS);
    info.name = name;
    info.config = config;
    info.seed = seed;
    info.arch = "SM";
    info.ctx = 64;
    if (to->file.writer)
        es_record_run(&to->file, &info);
    else
        to->file = es_record(run_db, &info);
}

/* Records a sample: the same entropy for all heads, and a loss. */
static void sample(shown *to, int64_t step, float entropy, float loss)
{
    es_record_all(&to->file, "entropy", step, entropy);
    es_record_value(&to->file, "loss", step, loss);
}

static void load(shown *to, size_t n)
{
    es_record_close(&to->file);
    AUTO(es_reader) reader = es_open_reader(run_db);
    for (to->n = 0; to->n < n; to->n++) {
        es_run_summary *run = es_loaded_run(run_db, to->n);
        es_assert_ok(es_run_settings_read(run, reader, to->n));
        es_summary_set_max(run, 3);
        to->runs[to->n] = run;
    }
}

static es_picture *draw(const shown *of, size_t n_unread)
{
    es_picture *picture = NULL;
    const es_figure_job job = {.options = &of->options,
                               .runs = (const es_run_summary *const *)of->runs,
                               .n = of->n,
                               .n_unread = n_unread};
    return sound_picture(
        es_figure_draw_runs(&picture, ES_FIGURE_OVERVIEW, &job, ES_FORMAT_SVG),
        &picture);
}

static void clear(shown *s)
{
    for (size_t i = 0; i < s->n; i++)
        es_summary_free(s->runs[i]);
}

TEST(a_row_shows_settings_that_differ_and_the_result)
{
    shown s = {.n = 0};
    const float gap[LAYERS * HEADS] = {1, 1, es_missing(), es_missing(), 2, 2};
    add(&s, "good", "{\"lr\":0.001}", 1);
    sample(&s, 0, 1.5f, 3);
    sample(&s, 50, 1.5f, 2);
    add(&s, "broken", "{\"lr\":0.01}", 1);
    sample(&s, 0, 1.5f, 3);
    sample(&s, 50, NAN, NAN);
    add(&s, "bare", NULL, ES_UNKNOWN);
    es_record_sample(&s.file, "entropy", ES_PHASE_TRAIN, 0, gap,
                     LAYERS * HEADS);
    load(&s, 3);
    AUTO(es_picture) picture = draw(&s, 2);
    ASSERT_SAYS(picture, "lr", "10\u207b\u00b3", "0.01", "7.389", "NaN", "nan",
                "ok", "interrupted", "missing", "\u2013",
                "m: max = 3 (observed); 2 unreadable, not shown");
    ASSERT_SAYS(picture, "run", "good", "broken",
                "bare"); /* the run "bare" has no settings */
    ASSERT_SAYS_NOT(picture, "batch", "seeds");
    clear(&s);
}

/* There is space for eight columns. The settings a to i have two values each,
 * and lr has four. */
TEST(settings_with_most_values_have_columns)
{
    shown s = {.n = 0};
    for (int i = 0; i < 4; i++) {
        char config[160], *end = config;
        for (char key = 'a'; key <= 'i'; key++)
            end += sprintf(end, "%c\"of %c\":%d", key == 'a' ? '{' : ',', key,
                           i == 2);
        sprintf(end, ",\"lr\":%d}", 100 + i);
        add(&s, "run", config, 1);
        sample(&s, 0, 1, 1);
    }
    load(&s, 4);
    AUTO(es_picture) picture = draw(&s, 0);
    ASSERT_SAYS(picture, "lr", "103", "of a", "of g",
                "m: max = 3 (observed); settings not shown: of h, of i");
    clear(&s);
}

TEST(runs_with_equal_settings_have_names)
{
    shown s = {.n = 0};
    for (int i = 0; i < 2; i++) {
        add(&s, i ? "second" : "first", "{\"lr\":0.001}", 1);
        sample(&s, 0, 1, 1);
    }
    load(&s, 2);
    AUTO(es_picture) picture = draw(&s, 0);
    ASSERT_SAYS(picture, "run", "first", "second");
    ASSERT_SAYS_NOT(picture, "lr");
    clear(&s);
}

/* The losses 0, ln 3 and NaN give a mean perplexity of 2. */
TEST(seeds_are_one_row_with_mean_and_range)
{
    const float losses[] = {0, 1.0986123f, NAN, 1.6094379f};
    shown s = {.options.group = ES_GROUP_SEED};
    for (int i = 0; i < 4; i++) {
        add(&s, "x", i < 3 ? "{\"lr\":0.001}" : "{\"lr\":0.01}", i);
        sample(&s, 0, 1, losses[i]);
    }
    load(&s, 4);
    AUTO(es_picture) picture = draw(&s, 0);
    ASSERT_SAYS(picture, "seeds", "3", "2.000", "5.000", "nan (1 of 3)");
    ASSERT_SAYS_NOT(picture, "seed", "1.000", "3.000");
    clear(&s);
}

/* Of 101 configurations with three seeds each, only 100 get a row. */
TEST(too_many_runs_are_merged_and_the_rest_is_counted)
{
    char config[32];
    shown s = {.n = 0};
    for (int i = 0; i < 303; i++) {
        snprintf(config, sizeof config, "{\"lr\":%d}", 1 + i / 3);
        add(&s, "x", config, i % 3);
        sample(&s, 0, 1, (float)(i / 3) / 100);
    }
    load(&s, 303);
    AUTO(es_picture) picture = draw(&s, 0);
    ASSERT_SAYS(picture, "seeds", "100", "and 1 more configuration");
    ASSERT_SAYS_NOT(picture, "101", "seed");
    double width, height;
    es_picture_sides(picture, &width, &height);
    assert_true(height > 1000 && height < 1120); /* in points */
    s.options.width = 1200; /* A smaller picture has fewer rows. */
    s.options.height = 700;
    AUTO(es_picture) small = draw(&s, 0);
    es_picture_sides(small, &width, &height);
    assert_true(width == 1200 && height == 700);
    ASSERT_SAYS_NOT(small, "and 1 more configuration", "99");
    clear(&s);
}

static es_picture *draw_kind(const shown *of, es_figure_kind kind)
{
    es_picture *picture = NULL;
    const es_figure_job job = {.options = &of->options,
                               .runs = (const es_run_summary *const *)of->runs,
                               .n = of->n};
    return sound_picture(
        es_figure_draw_runs(&picture, kind, &job, ES_FORMAT_SVG), &picture);
}

/* If there are many runs, heatmaps are drawn as thumbnails, curves have one
 * panel for all seeds of a configuration, and bands become rows of a table. */
TEST(pictures_of_many_runs_are_small)
{
    char config[32];
    double width, height;
    shown s = {.n = 0};
    for (int i = 0; i < 96; i++) {
        snprintf(config, sizeof config, "{\"lr\":%d}", 1 + i / 4);
        add(&s, "x", config, i % 4);
        sample(&s, 0, 1.234f, 1);
        sample(&s, 7, 1.234f, 1);
    }
    load(&s, 96);
    AUTO(es_picture) heatmap = draw_kind(&s, ES_FIGURE_HEATMAP);
    es_picture_sides(heatmap, &width, &height);
    assert_true(height <= 1100 && width <= 1300);
    ASSERT_SAYS(heatmap, "step 7; max = 3 (observed)");
    ASSERT_SAYS_NOT(heatmap, "1.23", "1.2", "step 7", "head");
    AUTO(es_picture) curves = draw_kind(&s, ES_FIGURE_CURVES);
    es_picture_sides(curves, &width, &height);
    assert_true(height <= 1100);
    ASSERT_SAYS(curves, "lr = 1 (4 seeds)", "lr = 24 (4 seeds)");
    AUTO(es_picture) bands = draw_kind(&s, ES_FIGURE_BANDS);
    es_picture_sides(bands, &width, &height);
    assert_true(height <= 1100);
    ASSERT_SAYS(bands, "lr", "24", "heads by quarter", "100%");
    ASSERT_SAYS_NOT(bands, "perplexity", "flag", "critical");
    clear(&s);
}

TEST_EACH(es_folder_make, es_folder_remove)
