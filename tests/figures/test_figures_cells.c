/* Tests the figures that consist of coloured cells and are drawn from run
 * files: their values, colour scales and messages. */
#include "analyzer/base/value.h"
#include "cli/figures/source.h"
#include "render/figures/heatmap.h"
#include "tests/support/figured.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { L = 2, H = 3, N = L * H };

/* Records a run with one sample of a head series. Returns its path. */
static const char *write_run(void **state, const char *file, int64_t n_head,
                             const char *series, const float *values)
{
    const char *path = es_folder_file(state, file);
    es_run_info info = es_run_of(L, n_head);
    info.name = file;
    es_recorded to = es_record(path, &info);
    es_record_sample(&to, series, ES_PHASE_TRAIN, 40, values,
                     (size_t)(L * n_head));
    es_record_close(&to);
    return path;
}

/* --- heatmap --------------------------------------------------------------*/

/* Checks that the heatmap of the runs in `f` equals a heatmap whose colour
 * scale reaches from low to high. */
static void assert_scale(es_figured *f, double low, double high)
{
    es_heatmap_panel panels[2];
    es_picture *wanted = NULL;
    for (size_t i = 0; i < f->drawing.n; i++)
        panels[i] = (es_heatmap_panel){f->runs[i]->name, "step 40",
                                       f->runs[i]->values, L, H};
    es_assert_ok(
        es_heatmap_draw(&wanted, &(es_heatmap){.panels = panels,
                                               .n_panels = f->drawing.n,
                                               .low = low,
                                               .high = high,
                                               .scale_text = "y",
                                               .note = "max = 1"}));
    es_assert_draws(f, es_draw_heatmap, wanted);
}

TEST(a_heatmap_scale_ends_at_m)
{
    enum { LOW, HIGH, BELOW, ZERO, NONE, N_CASES };
    const float values[N_CASES][N] = {
        [LOW] = {0.5f, 1, 1.5f, 2, 0.25f, 1},
        [HIGH] = {3, 3.5f, NAN, es_missing(), INFINITY, 1},
        [BELOW] = {-0.5f, 1, 1.5f, 2, -1.5f, 1},
        [ZERO] = {0},
        [NONE] = {NAN, NAN, NAN, NAN, NAN, NAN}};
    const struct {
        size_t n, runs[2];
        double m[2], ceiling, low, high;
    } cases[] = {
        /* all runs share one scale, which ends at the largest entropy in any of
         * them */
        {1, {LOW}, {2}, 2, 0, 2},
        {2, {LOW, HIGH}, {2, 3.5}, 2, 0, 3.5},
        {2, {LOW, HIGH}, {2, 9}, 2, 0, 9},
        {2, {LOW, BELOW}, {2, 2}, 2, -1.5, 2},
        /* if all heads are 0, the scale ends at the ceiling, or at 1 if the
         * ceiling is unknown */
        {1, {ZERO}, {0}, 2, 0, 2},
        {1, {ZERO}, {0}, NAN, 0, 1},
        /* a run without a finite value has no scale */
        {1, {NONE}, {NAN}, 2, 0, NAN},
        {2, {NONE, LOW}, {NAN, 2}, 2, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *paths[2] = {es_folder_file(state, "first.db"),
                                es_folder_file(state, "second.db")};
        AUTO_BY(es_unfigure) es_figured f;
        for (size_t k = 0; k < cases[i].n; k++) {
            remove(paths[k]);
            write_run(state, k ? "second.db" : "first.db", H, "entropy",
                      values[cases[i].runs[k]]);
        }
        es_figure(&f, "entropy", cases[i].n, paths);
        for (size_t k = 0; k < cases[i].n; k++) {
            f.loaded[k]->m = cases[i].m[k];
            f.loaded[k]->ceiling = cases[i].ceiling;
        }
        assert_scale(&f, cases[i].low, cases[i].high);
    }
}

/* In each case, the ticks of the colour bar must include the first two labels
 * but not the third. */
TEST(a_heatmap_scale_suits_any_series)
{
    static const struct {
        const char *file, *series;
        float values[N];
        const char *labels[3];
    } cases[] = {
        /* the scale for thresholds begins at their smallest value; the scale
         * for fractions begins at 0 */
        {"a.db",
         "theta",
         {2.01f, 2.02f, 2.03f, 2.04f, 2.05f, 2.09f},
         {"2.04", "2.08", "0.0"}},
        {"b.db",
         "sink",
         {0.52f, 0.54f, 0.56f, 0.57f, 0.59f, 0.61f},
         {"0.0", "0.4", "0.7"}},
        {"c.db",
         "theta",
         {-1.13f, -0.57f, -0.24f, 0.63f, 1.17f, 2.26f},
         {"−1", "2", "−2"}},
        {"d.db", /* a logarithmic scale begins at the smallest positive value */
         "max_logit",
         {0, 1.5f, 20, 300, 4000, 50000},
         {"1", "10000", "0.1"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_BY(es_unfigure) es_figured f;
        es_figure_one(&f, cases[i].series,
                      write_run(state, cases[i].file, H, cases[i].series,
                                cases[i].values));
        AUTO(es_picture) picture = es_figured_picture(&f, es_draw_heatmap);
        ASSERT_SAYS(picture, cases[i].labels[0], cases[i].labels[1]);
        ASSERT_SAYS_NOT(picture, cases[i].labels[2]);
    }
}

/* --- delta ----------------------------------------------------------------*/

TEST(a_delta_is_each_run_minus_the_base)
{
    const float a[N] = {1, 2, NAN, es_missing(), 3, INFINITY};
    const float b[N] = {1.5f, 0.75f, 1, 1, es_missing(), INFINITY};
    const char *paths[2] = {write_run(state, "base.db", H, "entropy", a),
                            write_run(state, "other.db", H, "entropy", b)};
    AUTO_BY(es_unfigure) es_figured f;
    es_figure(&f, "entropy", 2, paths);
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_delta);
    /* The colour scale for differences from the baseline is symmetric about
     * zero. */
    ASSERT_SAYS(picture, "0.50", "−1.25", "NaN or infinite", "missing",
                "difference from base.db", "other.db", "1.0", "−1.0");
    ASSERT_SAYS_NOT(picture, "1.50");
    es_picture_free(picture);
    /* The baseline need not be the first run. */
    f.drawing.baseline = f.runs[1]->path;
    picture = es_figured_picture(&f, es_draw_delta);
    ASSERT_SAYS(picture, "difference from other.db", "1.25", "−0.50");
}

TEST(a_delta_of_two_shapes_is_refused)
{
    const float values[L * 4] = {1, 2, 3, 4, 5, 6, 7, 8};
    const char *paths[2] = {write_run(state, "a3.db", 3, "entropy", values),
                            write_run(state, "a4.db", 4, "entropy", values)};
    AUTO_BY(es_unfigure) es_figured f;
    es_figure(&f, "entropy", 2, paths);
    es_assert_undrawn(&f, es_draw_delta, "has 2 layers of 4 heads");
    assert_non_null(strstr(es_message(), "a3.db has 2 of 3"));
    f.drawing.n = 1;
    es_assert_undrawn(&f, es_draw_delta, "needs at least two runs");
}

/* --- thresholds -----------------------------------------------------------*/

TEST(thresholds_show_theta_with_its_mean_and_variance)
{
    /* The layers have the means 0.2 and 0.5, and the variances 0 and 0.09. */
    const float theta[N] = {0.2f, 0.2f, 0.2f, 0.5f, 0.8f, 0.2f};
    AUTO_BY(es_unfigure) es_figured f;
    double dots[2 * L][2];
    es_figure_one(&f, "theta", write_run(state, "ereg.db", H, "theta", theta));
    es_assert_ok(es_figure_fit(ES_FIGURE_THRESHOLDS, f.runs[0]));
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_thresholds);
    ASSERT_SAYS(picture, "0.80", "step 40", "mean", "variance");
    assert_int_equal(picture_dots(dots, 2 * L, picture), 2 * L);
    assert_true(dots[0][1] == dots[2][1] && dots[1][1] == dots[3][1]);
    assert_true(dots[0][1] < dots[1][1]); /* layer 0 is at the top */
    assert_true(dots[0][0] < dots[1][0]);
    assert_true(dots[2][0] < dots[3][0]);
}

TEST(thresholds_need_theta)
{
    const float values[N] = {1, 2, 3, 4, 5, 6};
    AUTO_BY(es_unfigure) es_figured f;
    es_figure_one(&f, "entropy",
                  write_run(state, "plain.db", H, "entropy", values));
    es_assert_unfit(&f, ES_FIGURE_THRESHOLDS, "needs the series theta");
    assert_non_null(strstr(es_message(), "the run has entropy"));
}

/* --- raster ---------------------------------------------------------------*/

enum { SAMPLES = 3000 };

/* Records a run with a sample every 5 steps, in which the heads of layer l have
 * the value 2 + l. One sample has a dip, another sample has a NaN, and 100
 * samples are missing. */
static const char *write_long_run(void **state, const char *file)
{
    const char *path = es_folder_file(state, file);
    es_run_info info = es_run_of(L, H);
    es_recorded to = es_record(path, &info);
    for (int i = 0; i < SAMPLES; i++) {
        float values[N] = {2, 2, 2, 3, 3, 3};
        if (i == 1001)
            values[4] = 0.25f;
        if (i == 2002)
            values[1] = NAN;
        if (i < 500 || i >= 600)
            es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 5 * i, values, N);
    }
    es_record_close(&to);
    return path;
}

static size_t count(const es_steps *steps, size_t row, float value)
{
    size_t n = 0;
    for (size_t i = 0; i < steps->n_columns; i++) {
        float x = steps->values[row * steps->n_columns + i];
        n += es_is_missing(value) ? es_is_missing(x)
             : isnan(value)       ? isnan(x) && !es_is_missing(x)
                                  : x == value;
    }
    return n;
}

TEST(steps_keep_dips_and_nan)
{
    AUTO_BY(es_unfigure) es_figured f;
    es_steps steps;
    es_figure_one(&f, "entropy", write_long_run(state, "long.db"));
    es_assert_ok(es_steps_read(&steps, &f.drawing, f.runs[0]));
    assert_int_equal(steps.n_rows, L + N);
    assert_in_range(steps.n_columns, 1000, ES_STEPS_MOST);
    assert_true(fabs(steps.left + 2.5) < 1e-9);
    assert_true(steps.right >= 5 * (SAMPLES - 0.5));
    assert_true(steps.first == 0 && steps.last == 5 * (SAMPLES - 1));
    /* Rows 0 and 1 are the layers; the heads of layer 0 and of layer 1
       follow. */
    assert_int_equal(count(&steps, 0, NAN), 1);
    assert_int_equal(count(&steps, L + 1, NAN), 1);
    assert_int_equal(count(&steps, L + 2, NAN), 0);
    assert_int_equal(count(&steps, L + 4, 0.25f), 1);
    assert_int_equal(count(&steps, 1, (0.25f + 3 + 3) / 3), 1);
    /* Only the columns of the 100 missing samples are empty; each column covers
     * two samples. */
    for (size_t row = 0; row < steps.n_rows; row++)
        assert_in_range(count(&steps, row, es_missing()), 49, 50);
    es_drawing_clear(&f.drawing);
}

/* Evaluations at unequal intervals leave no empty columns between samples. A
 * run with a single step has one column. */
TEST(samples_fill_columns_until_the_next_one)
{
    static const int64_t at[] = {0, 10, 20, 30, 130, 230, 330, 630};
    const float values[L] = {1, 2};
    for (size_t n = 1; n <= 8; n += 7) {
        const char *path = es_folder_file(state, n > 1 ? "uneven.db" : "1.db");
        es_run_info info = es_run_of(L, H);
        es_recorded to = es_record(path, &info);
        AUTO_BY(es_unfigure) es_figured f;
        es_steps steps;
        for (size_t i = 0; i < n; i++)
            es_record_sample(&to, "slope", ES_PHASE_TRAIN, at[i], values, L);
        es_record_close(&to);
        es_figure_one(&f, "slope", path);
        es_assert_ok(es_steps_read(&steps, &f.drawing, f.runs[0]));
        assert_int_equal(steps.n_heads, 0);
        /* Each column covers 10 steps, and the last step is 630. */
        assert_int_equal(steps.n_columns, n > 1 ? 64 : 1);
        const float *row = steps.values + steps.n_columns;
        /* Samples fill the columns up to step 330; the gap after step 330 stays
         * missing. */
        double width = (steps.right - steps.left) / (double)steps.n_columns;
        for (size_t i = 0; i < steps.n_columns; i++) {
            double step = steps.left + ((double)i + 0.5) * width;
            if (step <= 330)
                assert_true(row[i] == 2);
            else if (step > 330 + width && step < 630 - width)
                assert_true(es_is_missing(row[i]));
        }
        es_drawing_clear(&f.drawing);
    }
}

TEST(a_raster_shows_layers_and_heads)
{
    AUTO_BY(es_unfigure) es_figured f;
    es_figure_one(&f, "entropy", write_long_run(state, "drawn.db"));
    es_assert_ok(es_figure_fit(ES_FIGURE_RASTER, f.runs[0]));
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_raster);
    ASSERT_SAYS(picture, "heads", "10K", "NaN or infinite", "missing");
    f.loaded[0]->shape = ES_SHAPE_RUN;
    es_assert_unfit(&f, ES_FIGURE_RASTER, "one value per run");
}

/* --- timeline -------------------------------------------------------------*/

/* Records a run of two layers with three heads, in which the second layer
 * collapses at step 30, its logits grow at 40, and the loss is NaN at 50. */
static const char *write_failing_run(void **state)
{
    const char *path = es_folder_file(state, "failing.db");
    es_run_info info = es_run_of(L, H);
    info.ctx = 128;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step <= 60; step += 10) {
        float low = step < 30 ? 2 : 0.01f, logit = step < 40 ? 5 : 5000;
        const float entropy[N] = {2, 2.1f, 2.2f, low, low, 2};
        const float logits[N] = {1, 2, 3, 4, 4, logit};
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, entropy, N);
        es_record_sample(&to, "max_logit", ES_PHASE_TRAIN, step, logits, N);
        es_record_value(&to, "loss", step, step < 50 ? 3 : NAN);
    }
    es_event event = {.step = 55,
                      .kind = "stop",
                      .severity = ES_SEVERITY_INFO,
                      .layer = ES_UNKNOWN,
                      .head = ES_UNKNOWN,
                      .message = "stop requested"};
    es_assert_ok(es_writer_event(to.writer, to.run, &event));
    es_record_close(&to);
    return path;
}

TEST(a_timeline_shows_flags_and_events)
{
    AUTO_BY(es_unfigure) es_figured f;
    es_figure_one(&f, "entropy", write_failing_run(state));
    for (int theme = ES_THEME_LIGHT; theme <= ES_THEME_DARK; theme++) {
        f.drawing.style.theme = (es_theme)theme;
        AUTO(es_picture) picture = es_figured_picture(&f, es_draw_timeline);
        ASSERT_SAYS(picture, "collapse 30 \u2192 logits 40 \u2192 nan 50",
                    "lowest layer mean of entropy", "largest logit", "stop",
                    "L1");
        ASSERT_SAYS_NOT(picture, "NaN activations of a layer");
    }
    /* A flag raised by a rule gets a separate lane in the timeline. */
    es_rule rule;
    es_rule_default(&rule);
    snprintf(rule.name, sizeof rule.name, "ahead");
    f.loaded[0]->flags[0].kind = ES_N_FLAG_KINDS;
    f.loaded[0]->flags[0].rule = &rule;
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_timeline);
    ASSERT_SAYS(picture, "ahead", "ahead 30 \u2192 logits 40 \u2192 nan 50");
}

TEST(a_timeline_of_one_step_is_drawn)
{
    const float values[N] = {2, 2.5f, 3, 2, 2.5f, 3};
    AUTO_BY(es_unfigure) es_figured f;
    double dots[1][2];
    es_figure_one(&f, "entropy",
                  write_run(state, "one.db", H, "entropy", values));
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_timeline);
    assert_int_equal(picture_dots(dots, 1, picture), 1);
    ASSERT_SAYS(picture, "no flags", "40");
}

/* --- --all ----------------------------------------------------------------*/

/* Makes all figures of the runs. Returns the text printed on standard error,
 * which the caller frees. */
static char *make_all(size_t *n_failed, es_status *status, char *folder,
                      const es_run_summary *const *runs, size_t n)
{
    char *said = NULL, input[] = "a.db", *inputs[] = {input};
    size_t size = 0;
    FILE *stream = tmpfile();
    int before = dup(STDERR_FILENO);
    es_figure_options options = {.title = NULL};
    const es_figure_job job = {.options = &options,
                               .inputs = inputs,
                               .n_inputs = 1,
                               .runs = runs,
                               .n = n,
                               .quiet = true};
    es_figures_want_all(&options, folder);
    assert_true(stream && before >= 0 && dup2(fileno(stream), 2) == 2);
    *status = es_figures_make(n_failed, &job);
    fflush(stderr);
    assert_int_equal(dup2(before, 2), 2);
    close(before);
    rewind(stream);
    assert_true(getdelim(&said, &size, '\0', stream) > 0);
    fclose(stream);
    return said;
}

static size_t occurrences(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

TEST(an_unreadable_file_is_reported_once)
{
    const float values[N] = {2, 2.5f, 3, 2, 2.5f, 3};
    char *folder = es_folder_file(state, "figures");
    const char *paths[2] = {write_run(state, "kept.db", H, "entropy", values),
                            write_run(state, "gone.db", H, "entropy", values)};
    AUTO_BY(es_unfigure) es_figured f;
    es_figure(&f, "entropy", 2, paths);
    for (size_t i = 0; i < 2; i++)
        es_summary_set_max(f.loaded[i], f.runs[i]->peak);
    assert_int_equal(unlink(paths[1]), 0);
    /* First draw the unreadable file together with a readable one, then
     * alone. */
    for (size_t first = 0; first < 2; first++) {
        size_t n_failed;
        es_status status;
        char *said =
            make_all(&n_failed, &status, folder, f.runs + first, 2 - first);
        assert_true(status < 0 || n_failed > 0);
        assert_int_equal(occurrences(said, "gone.db: "), 1);
        assert_int_equal(occurrences(said, "\n"), 1);
        free(said);
    }
}

TEST_GROUP(es_folder_make, es_folder_remove)
