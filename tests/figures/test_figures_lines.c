/* Tests the figures that consist of lines and are drawn from run files: their
 * lines, texts and messages. */
#include "cli/program/command.h"
#include "cli/scan/scan.h"
#include "render/figures/curves.h"
#include "render/figures/title.h"
#include "render/picture_internal.h"
#include "tests/support/figured.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { L = 3, H = 5, STEPS = 4 };

static const int64_t steps[STEPS] = {0, 10, 20, 30};

static es_recorded record(const char *path, const char *name)
{
    es_run_info info = es_run_of(L, H);
    info.name = name;
    info.ctx = 16;
    info.batch = 3;
    info.config = "{\"steps\": 100, \"accumulate\": 2}";
    return es_record(path, &info);
}

static void finish(es_recorded *to)
{
    es_record_end(to, ES_RUN_FINISHED);
    es_record_close(to);
}

/* Returns a value that is different for every sample i, layer l and head h. */
static float head_value(size_t i, size_t l, size_t h)
{
    static const float of_head[H] = {0.5f, 0.1f, 0.9f, 0.3f, 0.4f};
    return of_head[h] + (float)l + 0.01f * (float)i;
}

static void record_heads(es_recorded *to, const char *name)
{
    float values[L * H];
    for (size_t i = 0; i < STEPS; i++) {
        for (size_t k = 0; k < L * H; k++)
            values[k] = head_value(i, k / H, k % H);
        es_record_sample(to, name, ES_PHASE_TRAIN, steps[i], values, L * H);
    }
}

/* Records a series with the values (STEPS,n). */
static void record_rows(es_recorded *to, const char *name, es_phase phase,
                        const float *values, size_t n)
{
    for (size_t i = 0; i < STEPS; i++)
        es_record_sample(to, name, phase, steps[i], values + i * n, n);
}

static es_picture *picture_of(const es_curves *figure)
{
    es_picture *picture = NULL;
    es_assert_ok(es_curves_draw(&picture, figure));
    return picture;
}

static const char *const layer_names[L] = {"layer 0", "layer 1", "layer 2"};

/* Makes n curves from values (n,STEPS). */
static void lines_of(es_curve *curves, const char *const *names,
                     float (*values)[STEPS], size_t n)
{
    for (size_t i = 0; i < n; i++)
        curves[i] = (es_curve){
            .label = names[i], .x = steps, .values = values[i], .n = STEPS};
}

/* --- curves ---------------------------------------------------------------*/

enum { MEANS = 3, W = 4 }; /* samples, heads */

TEST(curves_are_means_of_layers)
{
    const float M = es_missing();
    const float entropy[MEANS][2 * W] = {
        {1, 2, 3, 5, NAN, NAN, NAN, NAN},
        {NAN, 2, NAN, INFINITY, M, NAN, M, M},
        {M, M, M, M, 4, 3, 4, M},
    };
    const struct {
        const char *series, *subtitle, *labels[2], *line_text;
        size_t n;
        float lines[2][MEANS];
        double reference;
    } cases[] = {
        {"entropy",
         "mean of each layer, eval",
         {"layer 0", "layer 1"},
         "layer",
         2,
         {{2.75f, 2, M}, {NAN, NAN, 11 / 3.0f}},
         es_ceiling(128)},
        {"slope",
         NULL,
         {"layer 0", "layer 1"},
         "layer",
         2,
         {{1, NAN, M}, {2, 2, M}},
         NAN},
        {"loss", NULL, {"loss"}, NULL, 1, {{1, NAN, M}}, NAN},
    };
    const char *path = es_folder_file(state, "means.db");
    es_run_info info = es_run_of(2, W);
    info.name = "a";
    info.ctx = 128;
    es_recorded r = es_record(path, &info);
    for (size_t i = 0; i < MEANS; i++) {
        const float *values = entropy[i];
        es_record_sample(&r, "entropy", ES_PHASE_EVAL, steps[i], values, 2 * W);
        es_record_sample(&r, "slope", ES_PHASE_TRAIN, steps[i], values, 2);
        es_record_sample(&r, "loss", ES_PHASE_TRAIN, steps[i], values, 1);
    }
    es_record_close(&r);
    for (size_t i = 0; i < 3; i++) {
        AUTO_BY(es_unfigure) es_figured s;
        es_curve curves[2];
        for (size_t k = 0; k < 2; k++)
            curves[k] = (es_curve){.label = cases[i].labels[k],
                                   .x = steps,
                                   .values = cases[i].lines[k],
                                   .n = MEANS};
        es_curves_panel panel = {"a", cases[i].subtitle, curves, cases[i].n};
        es_curves figure = {.panels = &panel,
                            .n_panels = 1,
                            .y_text = "y",
                            .line_text = cases[i].line_text,
                            .reference = cases[i].reference,
                            .reference_text = "ceiling ln(T!)/T"};
        es_figure_one(&s, cases[i].series, path);
        es_assert_draws(&s, es_draw_curves, picture_of(&figure));
    }
}

TEST(the_spread_of_heads_is_shaded)
{
    const char *path = es_folder_file(state, "a.db");
    float mean[L][STEPS], low[L][STEPS], high[L][STEPS];
    es_curve curves[L];
    es_recorded r = record(path, "a");
    AUTO_BY(es_unfigure) es_figured s;
    record_heads(&r, "entropy");
    finish(&r);
    for (size_t l = 0; l < L; l++)
        for (size_t i = 0; i < STEPS; i++) {
            double sum = 0;
            for (size_t h = 0; h < H; h++)
                sum += (double)head_value(i, l, h);
            mean[l][i] = (float)(sum / H);
            /* the lower quartile of five heads is the second smallest value */
            low[l][i] = head_value(i, l, 3);
            high[l][i] = head_value(i, l, 0);
        }
    lines_of(curves, layer_names, mean, L);
    for (size_t l = 0; l < L; l++) {
        curves[l].low = low[l];
        curves[l].high = high[l];
    }
    es_curves_panel panel = {
        "a", "mean of each layer, shaded: quartiles over heads", curves, L};
    es_curves figure = {.panels = &panel,
                        .n_panels = 1,
                        .y_text = "y",
                        .line_text = "layer",
                        .reference = es_ceiling(16),
                        .reference_text = "ceiling ln(T!)/T"};
    es_figure(&s, "entropy", 1, &path);
    s.options.spread = ES_SPREAD_QUARTILES;
    es_assert_draws(&s, es_draw_curves, picture_of(&figure));
    for (size_t k = 0; k < L * STEPS; k++) {
        low[k / STEPS][k % STEPS] = head_value(k % STEPS, k / STEPS, 1);
        high[k / STEPS][k % STEPS] = head_value(k % STEPS, k / STEPS, 2);
    }
    panel.subtitle = "mean of each layer, shaded: range over heads";
    s.options.spread = ES_SPREAD_RANGE;
    es_assert_draws(&s, es_draw_curves, picture_of(&figure));
}

TEST(the_heads_of_a_layer_are_drawn)
{
    static const char *const names[H] = {"head 0", "head 1", "head 2", "head 3",
                                         "head 4"};
    const char *path = es_folder_file(state, "heads.db");
    float values[H][STEPS];
    es_curve curves[H];
    es_recorded r = record(path, "heads");
    AUTO_BY(es_unfigure) es_figured s;
    record_heads(&r, "sink");
    es_record_value(&r, "loss", 0, 2);
    finish(&r);
    for (size_t k = 0; k < H * STEPS; k++)
        values[k / STEPS][k % STEPS] = head_value(k % STEPS, 2, k / STEPS);
    lines_of(curves, names, values, H);
    es_curves_panel panel = {"heads", "heads of layer 2", curves, H};
    es_figure(&s, "sink", 1, &path);
    s.options.by_head = true;
    s.options.layer = 2;
    es_assert_draws(
        &s, es_draw_curves,
        picture_of(&(es_curves){.panels = &panel,
                                .n_panels = 1,
                                .y_text = "y",
                                .line_text = "head",
                                .reference = NAN,
                                .reference_text = "ceiling ln(T!)/T"}));
    s.options.layer = 3;
    es_assert_undrawn(&s, es_draw_curves, "no layer 3: the last layer is 2");
    es_unfigure(&s);
    es_figure(&s, "loss", 1, &path);
    s.options.by_head = true;
    es_assert_undrawn(&s, es_draw_curves, "series loss has one value per run");
}

/* --- nans -----------------------------------------------------------------*/

TEST(nans_are_counted_by_layer)
{
    const char *paths[2] = {es_folder_file(state, "nans.db"),
                            es_folder_file(state, "rows.db")};
    const float counts[STEPS][L] = {
        {0, 0, 0}, {0, 0, 7}, {1, 0, 90}, {3, 2, 9}};
    float lines[L][STEPS], sums[L][STEPS];
    es_curve a[L], b[L];
    es_recorded r = record(paths[0], "nans");
    AUTO_BY(es_unfigure) es_figured s;
    record_heads(&r, "entropy");
    record_rows(&r, "nan_activations", ES_PHASE_TRAIN, counts[0], L);
    finish(&r);
    r = record(paths[1], "rows");
    record_heads(&r, "entropy");
    record_heads(&r, "nonfinite_rows");
    finish(&r);
    for (size_t l = 0; l < L; l++)
        for (size_t i = 0; i < STEPS; i++) {
            double sum = 0;
            lines[l][i] = counts[i][l];
            for (size_t h = 0; h < H; h++)
                sum += (double)head_value(i, l, h);
            sums[l][i] = (float)sum;
        }
    lines_of(a, layer_names, lines, L);
    lines_of(b, layer_names, sums, L);
    es_curves_panel panels[2] = {
        {"nans", "activations", a, L},
        {"rows", "attention rows, summed over heads", b, L}};
    es_curves figure = {.panels = panels,
                        .n_panels = 2,
                        .y_text = "NaN or infinite",
                        .y_labels = ES_LABELS_COUNT,
                        .line_text = "layer",
                        .reference = NAN};
    es_figure(&s, "entropy", 2, paths);
    for (size_t i = 0; i < 2; i++)
        es_assert_ok(es_figure_fit(ES_FIGURE_NANS, s.runs[i]));
    es_assert_draws(&s, es_draw_nans, picture_of(&figure));
    figure.logarithmic = s.options.logarithmic = true;
    es_assert_draws(&s, es_draw_nans, picture_of(&figure));
}

/* --- scales and slopes ----------------------------------------------------*/

TEST(scales_are_read_at_the_chosen_step)
{
    static const int64_t layers[L] = {0, 1, 2};
    static const float alpha[2][L] = {{1, 2, 0.5f}, {1.25f, NAN, 2}};
    static const float beta[L] = {0.5f, -1, 2};
    const char *paths[2] = {es_folder_file(state, "both.db"),
                            es_folder_file(state, "alpha.db")};
    AUTO_BY(es_unfigure) es_figured s;
    for (size_t i = 0; i < 2; i++) {
        es_recorded r = record(paths[i], i ? "alpha alone" : "both");
        record_heads(&r, "entropy");
        es_record_sample(&r, "alpha", ES_PHASE_TRAIN, 20, alpha[i], L);
        es_record_sample(&r, "alpha", ES_PHASE_TRAIN, 40, beta, L);
        if (i == 0)
            es_record_sample(&r, "beta", ES_PHASE_TRAIN, 20, beta, L);
        finish(&r);
    }
    es_curve curves[4] = {
        {.label = "both", .x = layers, .values = alpha[0], .n = L},
        {.label = "alpha alone",
         .x = layers,
         .values = alpha[1],
         .n = L,
         .color = 1},
        {.label = "both", .x = layers, .values = beta, .n = L},
        {.label = "alpha alone", .x = layers, .color = 1}};
    es_curves_panel panels[2] = {{"α", "step 30", curves, 2},
                                 {"β", "step 30", curves + 2, 2}};
    /* show the runs at step 30, which is the last step */
    es_figure(&s, "entropy", 2, paths);
    for (size_t i = 0; i < 2; i++)
        es_assert_ok(es_figure_fit(ES_FIGURE_SCALES, s.runs[i]));
    es_assert_draws(&s, es_draw_scales,
                    picture_of(&(es_curves){.panels = panels,
                                            .n_panels = 2,
                                            .own_scales = true,
                                            .x_text = "layer",
                                            .colors = ES_CURVES_BY_CATEGORY,
                                            .reference = NAN}));
}

TEST(slopes_are_global_or_per_layer)
{
    const float own[STEPS][L] = {
        {0.01f, 0.01f, 0.01f}, {0.1f, 0.2f, -0.1f}, {0, 0, 0}, {1, 1, 2}};
    const float one[STEPS][L] = {
        {0.01f, 0.01f, 0.01f}, {NAN, NAN, NAN}, {-1, -1, -1}, {1, 1, 1}};
    const char *paths[2] = {es_folder_file(state, "own.db"),
                            es_folder_file(state, "one.db")};
    float lines[L][STEPS], line[1][STEPS];
    es_curve a[L], b[1];
    AUTO_BY(es_unfigure) es_figured s;
    for (size_t k = 0; k < 2; k++) {
        es_recorded r = record(paths[k], k ? "one" : "own");
        record_rows(&r, "slope", ES_PHASE_TRAIN, k ? one[0] : own[0], L);
        finish(&r);
    }
    for (size_t i = 0; i < STEPS; i++) {
        for (size_t l = 0; l < L; l++)
            lines[l][i] = own[i][l];
        line[0][i] = one[i][0];
    }
    lines_of(a, layer_names, lines, L);
    lines_of(b, layer_names, line, 1);
    b[0].label = NULL;
    b[0].pen = ES_PEN_INK;
    es_curves_panel panels[2] = {{"own", "slope of each layer", a, L},
                                 {"one", "one slope for all layers", b, 1}};
    es_figure(&s, "slope", 2, paths);
    es_assert_draws(&s, es_draw_slopes,
                    picture_of(&(es_curves){.panels = panels,
                                            .n_panels = 2,
                                            .y_text = "slope",
                                            .line_text = "layer",
                                            .reference = 0}));
}

/* --- loss -----------------------------------------------------------------*/

/* Writes two run files: a run with training and evaluation losses, and a run
 * with an infinite loss and without an evaluation. */
static void write_losses(const char **paths, void **state)
{
    const float train[STEPS] = {5, 4, 3.5f, NAN}, ce[STEPS] = {4, 3, 2.5f, NAN};
    const float other[STEPS] = {5, INFINITY, es_missing(), 2};
    const float eval[2] = {4.5f, 3.25f};
    paths[0] = es_folder_file(state, "both-losses.db");
    paths[1] = es_folder_file(state, "train.db");
    es_recorded r = record(paths[0], "both");
    record_rows(&r, "loss", ES_PHASE_TRAIN, train, 1);
    record_rows(&r, "ce", ES_PHASE_TRAIN, ce, 1);
    for (size_t i = 0; i < 2; i++)
        es_record_sample(&r, "loss", ES_PHASE_EVAL, steps[i] * 3, &eval[i], 1);
    finish(&r);
    r = record(paths[1], "train");
    record_rows(&r, "loss", ES_PHASE_TRAIN, other, 1);
    finish(&r);
}

/* Perplexity is computed from the series ce if the run has it. Each step trains
 * on 3 x 2 x 16 tokens. */
TEST(loss_shows_training_and_evaluation)
{
    static const int64_t late[2] = {0, 30}, late_tokens[2] = {0, 2880};
    static const int64_t tokens[STEPS] = {0, 960, 1920, 2880};
    const char *paths[2];
    write_losses(paths, state);
    for (int perplexity = 0; perplexity < 2; perplexity++) {
        float loss[STEPS] = {5, 4, 3.5f, NAN}, ce[STEPS] = {4, 3, 2.5f, NAN};
        float other[STEPS] = {5, INFINITY, es_missing(), 2};
        /* exp(loss), because the run has no series ce */
        float eval[2] = {4.5f, 3.25f};
        for (size_t i = 0; perplexity && i < STEPS; i++) {
            ce[i] = expf(ce[i]);
            other[i] = i == 2 ? other[i] : expf(other[i]);
            if (i < 2)
                eval[i] = expf(eval[i]);
        }
        const int64_t *x = perplexity ? tokens : steps;
        es_curve curves[4] = {{.values = perplexity ? ce : loss},
                              {.values = other},
                              {.values = eval},
                              {.color = 1}};
        for (size_t i = 0; i < 2; i++) {
            curves[i].x = x;
            curves[i].n = STEPS;
            curves[2 + i].pen = ES_PEN_DASHED;
        }
        curves[0].pen = ES_PEN_THIN;
        curves[1].label = "train";
        curves[1].color = 1;
        curves[2].label = "both";
        curves[2].x = perplexity ? late_tokens : late;
        curves[2].n = 2;
        es_curves_panel panel = {.curves = curves, .n_curves = 4};
        const double limit = 4;
        AUTO_BY(es_unfigure) es_figured s;
        es_figure(&s, "loss", 2, paths);
        s.options.tokens = s.options.perplexity = perplexity;
        s.options.logarithmic = perplexity;
        es_assert_draws(&s, es_draw_loss,
                        picture_of(&(es_curves){
                            .panels = &panel,
                            .n_panels = 1,
                            .y_text = perplexity ? "perplexity" : "loss (nats)",
                            .logarithmic = perplexity,
                            .limits = perplexity ? NULL : &limit,
                            .x_text = perplexity ? "tokens" : "step",
                            .colors = ES_CURVES_BY_CATEGORY,
                            .reference = NAN,
                            .note = "solid: training; dashed: held-out data"}));
    }
}

/* Records `n` losses of a run, one every ten steps. */
static const char *write_loss(void **state, size_t i, es_phase phase,
                              const float *losses, size_t n)
{
    char name[] = "loss0.db";
    name[4] = (char)('0' + i);
    const char *path = es_folder_file(state, name);
    es_recorded r = record(path, name);
    if (phase == ES_PHASE_EVAL) /* the figure needs a training loss */
        es_record_value(&r, "loss", 0, losses[0]);
    for (size_t k = 0; k < n; k++)
        es_record_sample(&r, "loss", phase, 10 * (int64_t)k, &losses[k], 1);
    finish(&r);
    return path;
}

/* Counts the arrows above the plot whose value is written as `text`, or all
 * arrows if `text` is NULL. Recognises them by the size of their text, which no
 * other text has. */
static size_t count_arrows(const es_picture *picture, const char *text)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *shape = &picture->shapes[i];
        n += shape->kind == ES_SHAPE_TEXT &&
             shape->size == ES_SMALL_SIZE - 0.5 &&
             (!text || strcmp(picture->text + shape->first, text) == 0);
    }
    return n;
}

/* The axis fits the last two thirds of every run, which for a run of nine
 * samples begin with its fourth sample. Larger values are marked by arrows,
 * unless --full is given. */
TEST(the_axis_fits_the_last_two_thirds)
{
    enum { RUNS_MOST = 2, LONGEST = 9 };
    static const struct {
        es_phase phase;
        float losses[RUNS_MOST][LONGEST];
        size_t n[RUNS_MOST];
        const char *arrow; /* text of the only arrow above the plot; NULL if all
                              values are within the axis */
    } cases[] = {
        {ES_PHASE_TRAIN, {{9, 8, 7, 3, 3, 3, 2.9f, 2.8f, 2.7f}}, {9}, "9"},
        {ES_PHASE_TRAIN,
         {{3, 2.9f, 2.8f, 3, 3, 3, 2.9f, 2.8f, 2.7f}},
         {9},
         NULL},
        /* for the axis, a run ends at its last finite value */
        {ES_PHASE_TRAIN,
         {{9, 8, 3, 3, NAN, NAN, NAN, NAN, INFINITY}},
         {9},
         "9"},
        {ES_PHASE_TRAIN,
         {{NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 4}},
         {9},
         NULL},
        {ES_PHASE_TRAIN, {{NAN}}, {1}, NULL},
        {ES_PHASE_TRAIN, {{5}}, {1}, NULL},
        /* two runs, of which the second has a single sample or is shorter */
        {ES_PHASE_TRAIN, {{9, 8, 7, 3, 3, 3, 3, 3, 3}, {8}}, {9, 1}, "9"},
        {ES_PHASE_TRAIN, {{9, 8, 7, 3, 3, 3, 3, 3, 3}, {8, 6, 6}}, {9, 3}, "9"},
        /* held-out values count */
        {ES_PHASE_EVAL, {{12, 8, 7, 6, 3, 3, 3, 3, 3}}, {9}, "12"},
        /* if there are several runs, the axis is not extended for a run that
         * diverges */
        {ES_PHASE_TRAIN,
         {{3, 3, 3, 3, 3, 3, 3, 3, 3}, {3, 3, 3, 99, 98}},
         {9, 5},
         "99"},
        {ES_PHASE_TRAIN,
         {{3, 3, 3, 3, 3, 3, 3, 3, 3}, {3, 3, 3, 4.7f, 4.6f}},
         {9, 5},
         "4.7"},
        {ES_PHASE_TRAIN,
         {{3, 3, 3, 3, 3, 3, 3, 3, 3}, {3, 3, 3, 4.2f, 4.1f}},
         {9, 5},
         NULL},
        {ES_PHASE_TRAIN, {{9, 9, 9, 99, 98}}, {5}, NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *paths[RUNS_MOST];
        size_t n = 0;
        for (; n < RUNS_MOST && cases[k].n[n]; n++)
            paths[n] = write_loss(state, n, cases[k].phase, cases[k].losses[n],
                                  cases[k].n[n]);
        for (int full = 0; full < 2; full++) {
            AUTO_BY(es_unfigure) es_figured s;
            es_figure(&s, "loss", n, paths);
            s.options.full = full;
            AUTO(es_picture) picture = es_figured_picture(&s, es_draw_loss);
            const char *arrow = full ? NULL : cases[k].arrow;
            assert_int_equal(count_arrows(picture, NULL), arrow != NULL);
            assert_true(!arrow || count_arrows(picture, arrow) == 1);
        }
        for (size_t i = 0; i < n; i++)
            unlink(paths[i]);
    }
}

/* A single huge loss must not compress all other values at the bottom of the
 * plot. */
TEST(outliers_are_above_the_axis)
{
    float losses[60];
    for (size_t i = 0; i < 60; i++)
        losses[i] = i == 40 ? 1e6f : 3 - (float)i / 60;
    const char *path = write_loss(state, 0, ES_PHASE_TRAIN, losses, 60);
    AUTO_BY(es_unfigure) es_figured s;
    es_figure(&s, "loss", 1, &path);
    AUTO(es_picture) picture = es_figured_picture(&s, es_draw_loss);
    assert_int_equal(count_arrows(picture, "10⁶"), 1);
    assert_int_equal(count_arrows(picture, NULL), 2); /* the other arrow belongs
                                                         to the first value */
}

TEST(tokens_must_be_known)
{
    const char *path = es_folder_file(state, "no-batch.db");
    es_run_info info = es_run_of(L, H);
    AUTO_BY(es_unfigure) es_figured s;
    info.ctx = 16;
    es_recorded r = es_record(path, &info);
    es_record_value(&r, "loss", 0, 2);
    finish(&r);
    es_figure(&s, "loss", 1, &path);
    s.options.tokens = true;
    es_assert_undrawn(&s, es_draw_loss, "omit --tokens");
}

/* --- messages -------------------------------------------------------------*/

TEST(a_missing_series_is_named)
{
    const char *path = es_folder_file(state, "bare.db");
    es_recorded r = record(path, "bare");
    AUTO_BY(es_unfigure) es_figured s;
    record_heads(&r, "entropy");
    finish(&r);
    es_figure(&s, "entropy", 1, &path);
    es_assert_unfit(&s, ES_FIGURE_NANS,
                    "a figure of NaNs needs the series nan_act");
    es_assert_unfit(&s, ES_FIGURE_SCALES,
                    "a figure of scales needs the series alpha");
    es_assert_unfit(&s, ES_FIGURE_SLOPES,
                    "a figure of slopes needs the series slope");
    es_assert_unfit(&s, ES_FIGURE_LOSS, "has entropy");
}

TEST(options_of_other_figures_are_refused)
{
    static const struct {
        const char *words[3], *message; /* NULL: accepted */
    } cases[] = {
        {{"--heatmap", "--tokens"}, "--tokens applies only to --figure loss"},
        {{"--curves", "--perplexity"},
         "--perplexity applies only to --figure loss"},
        {{"--figure=loss", "--spread=range"},
         "--spread applies only to --figure curves"},
        {{"--nans", "--heads=1"}, "--heads applies only to --figure curves"},
        {{"--figure=slopes", "--log"},
         "--log applies only to --figure curves, nans, loss or values"},
        {{"--curves", "--heads=1", "--spread=range"}, "are mutually exclusive"},
        {{"--curves", "--spread=all"}, "none, range or quartiles"},
        {{"--curves", "--heads=-1"}, "number of a layer"},
        {{"--nans", "--log"}, NULL},
        {{"--figure=curves,loss", "--tokens", "--heads=0"}, NULL},
        {{"--all", "--perplexity", "--spread=quartiles"}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_scan_options options;
        const char *words[5] = {"entropy-scan", "./a.db"};
        char *argv[5];
        int n = 2;
        while (n < 5 && cases[i].words[n - 2]) {
            words[n] = cases[i].words[n - 2];
            n++;
        }
        memcpy(argv, words, sizeof argv);
        es_assert_status(
            cases[i].message ? ES_EUSAGE : ES_OK,
            cases[i].message ? cases[i].message : "",
            es_scan_options_parse(&options, &es_scan_command, n, argv));
        es_scan_options_free(&options);
    }
}

TEST_GROUP(es_folder_make, es_folder_remove)
