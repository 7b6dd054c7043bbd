/* Tests the timeline chart: golden picture, unusual values and sizes. */
#include "render/figures/timeline.h"
#include "render/picture_internal.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

enum { N = 80 };

static const char *const lanes[] = {"nan", "collapse", "logits"};
static const es_timeline_bar bars[] = {{0, 60, 79, ES_LEVEL_CRITICAL, "L1"},
                                       {1, 20, 45, ES_LEVEL_CRITICAL, "L0-11"},
                                       {1, 47, 48, ES_LEVEL_ERROR, "L3,5-7"},
                                       {2, 40, 59, ES_LEVEL_WARNING, NULL}};
static const es_timeline_mark marks[] = {{10, ES_LEVEL_INFO, "dropped"},
                                         {60, ES_LEVEL_CRITICAL, "nan"},
                                         {79, ES_LEVEL_INFO, "stop"}};

static es_timeline_panel panel_of(const es_timeline_plot *plots, size_t n)
{
    return (es_timeline_panel){.title = "SM",
                               .plots = plots,
                               .n_plots = n,
                               .bars = bars,
                               .n_bars = 4,
                               .marks = marks,
                               .n_marks = 3,
                               .order = "collapse 20, logits 40, nan 60",
                               .first = 0,
                               .last = 79};
}

static es_picture *drawn(const es_timeline_panel *panels, size_t n,
                         es_theme theme, double width)
{
    es_timeline figure = {
        .panels = panels, .n_panels = n, .lanes = lanes, .n_lanes = 3};
    es_picture *picture = NULL;
    figure.style.theme = theme;
    figure.style.width = width;
    return sound_picture(es_timeline_draw(&picture, &figure), &picture);
}

TEST(a_picture_is_golden)
{
    int64_t steps[N];
    float entropy[N], logits[N];
    for (int i = 0; i < N; i++) {
        steps[i] = i;
        entropy[i] = i < 60 ? (float)(2.5 - 0.04 * i) : NAN;
        logits[i] = i == 30 ? es_missing() : (float)exp(0.2 * i);
    }
    const es_timeline_plot plots[] = {
        {"lowest layer mean of entropy", steps, entropy, N, false},
        {"largest logit", steps, logits, N, true}};
    es_timeline_panel panel = panel_of(plots, 2);
    es_picture *picture = drawn(&panel, 1, ES_THEME_LIGHT, 0);
    ASSERT_SAYS(picture, "L0-11", "dropped", "stop");
    assert_golden(picture, "timeline");
}

/* For any values, steps and sizes, no texts overlap and all coordinates are
 * finite. */
TEST(hostile_values_are_drawn_soundly)
{
    static const float kinds[] = {NAN,    INFINITY, 0,        -3,
                                  1e-40f, 3e38f,    -INFINITY};
    enum { LONG = 100000 };
    AUTO_FREE int64_t *steps = malloc(LONG * sizeof *steps);
    AUTO_FREE float *values = malloc(LONG * sizeof *values);
    assert_true(steps && values);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (int64_t i = 0; i < LONG; i++) {
            steps[i] = i * (INT64_MAX / LONG);
            values[i] = i % 3 ? kinds[kind] : (float)i;
        }
        const es_timeline_plot plots[] = {
            {"linear", steps, values, LONG, false},
            {"logarithmic", steps, values, LONG, true},
            {"one", steps, values, 1, false}};
        es_timeline_panel panels[2] = {panel_of(plots, 3), panel_of(NULL, 0)};
        panels[0].last = (double)steps[LONG - 1];
        es_picture_free(drawn(panels, 2, ES_THEME_DARK, 0));
        es_picture_free(drawn(panels, 2, ES_THEME_LIGHT, 234));
    }
}

/* A dip at one of 100,000 samples is drawn, although the line has few
 * points. */
TEST(a_dip_of_one_sample_is_kept)
{
    enum { LONG = 100000 };
    AUTO_FREE int64_t *steps = malloc(LONG * sizeof *steps);
    AUTO_FREE float *values = malloc(LONG * sizeof *values);
    assert_true(steps && values);
    for (int64_t i = 0; i < LONG; i++) {
        steps[i] = i;
        values[i] = i == 54321 ? 0.5f : 2 + (float)(i % 2);
    }
    const es_timeline_plot plot = {"loss", steps, values, LONG, false};
    es_timeline_panel panel = panel_of(&plot, 1);
    panel.last = LONG - 1;
    AUTO(es_picture) picture = drawn(&panel, 1, ES_THEME_LIGHT, 0);
    assert_in_range(picture->n_numbers, 1000, 8000);
    size_t at_dip = 0;
    /* Y positions of the values 3 and 2. */
    double top = picture->numbers[1], low = top;
    for (size_t i = 1; i < 100; i += 2) {
        top = fmin(top, picture->numbers[i]);
        low = fmax(low, picture->numbers[i]);
    }
    for (size_t i = 1; i < picture->n_numbers; i += 2)
        at_dip += fabs(picture->numbers[i] - (low + 1.5 * (low - top))) < 0.01;
    assert_int_equal(at_dip, 1);
}

/* If there are few steps, each step has a tick. There are no ticks between
 * whole steps or between whole counts. */
TEST(whole_numbers_have_whole_ticks)
{
    static const struct {
        int64_t steps[2];
        float values[2];
        const char *there[2], *not_there;
    } cases[] = {
        {{27, 29}, {1.25f, 1.75f}, {"27", "28"}, "27.5"},
        {{27, 29}, {1.25f, 1.75f}, {"29", "1.4"}, "28.5"},
        {{100, 200}, {0, 0}, {"0", "100"}, "0.5"},
        {{100, 200}, {0, 1}, {"0", "1"}, "0.5"},
        {{100, 200}, {0, 2}, {"0", "2"}, "0.5"},
        {{100, 200}, {7, 8}, {"7", "8"}, "7.5"},
        {{100, 200}, {1.6f, 2.4f}, {"1.8", "2.2"}, "1.7"}, /* not only 2 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *steps = cases[i].steps;
        const es_timeline_plot plot = {"loss", steps, cases[i].values, 2,
                                       false};
        es_timeline_panel panel = {.title = "SM",
                                   .plots = &plot,
                                   .n_plots = 1,
                                   .first = (double)steps[0],
                                   .last = (double)steps[1]};
        AUTO(es_picture) picture = drawn(&panel, 1, ES_THEME_LIGHT, 0);
        ASSERT_SAYS(picture, cases[i].there[0], cases[i].there[1]);
        ASSERT_SAYS_NOT(picture, cases[i].not_there);
    }
}

static es_status draw(es_picture **out, const void *figure)
{
    return es_timeline_draw(out, figure);
}

TEST(a_requested_size_is_kept)
{
    es_picture *picture = NULL;
    const int64_t steps[] = {0, 79};
    const float values[] = {1.25f, 1.75f};
    const es_timeline_plot plot = {"loss", steps, values, 2, false};
    es_timeline_panel panel = panel_of(&plot, 1);
    es_timeline figure = {.panels = &panel, .lanes = lanes, .n_lanes = 3};
    assert_int_equal(es_timeline_draw(&picture, &figure), ES_EUSAGE);
    assert_null(picture);
    figure.n_panels = 1;
    assert_sizes_are_kept(draw, &figure, &figure.style);
}
