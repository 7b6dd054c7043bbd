/* Tests line charts: scales, the reduction of long series, gaps, legends and
 * sizes. */
#include "render/figures/curves.h"
#include "render/figures/curves_internal.h"
#include "tests/support/curve_bundles.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

TEST(two_runs_are_golden)
{
    AUTO_BY(bundle_free)
    bundle a = bundle_new(12, 200, 0.05), b = bundle_new(6, 150, 0.05);
    for (size_t i = 90; i < 150; i++)
        row(&b, 5)[i] = NAN;
    for (size_t i = 120; i < 150; i++)
        row(&b, 4)[i] = i % 2 ? NAN : INFINITY;
    for (size_t i = 40; i < 60; i++)
        row(&b, 0)[i] = es_missing();
    const es_curves_panel panels[] = {{"SM+LN+G", NULL, a.curves, 12},
                                      {"SM", "failed", b.curves, 6}};
    es_curves figure = figure_of(panels, 2);
    figure.style.title = "Two runs";
    es_picture *picture = drawn(&figure);
    /* The legend's title is "layer", and its last entry "11". */
    ASSERT_SAYS(picture, "NaN or infinite", "11");
    ASSERT_SAYS_NOT(picture, "layer 11");
    assert_golden(picture, "curves_two");
}

TEST(deep_and_noisy_runs_are_golden)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(48, 3000, 0.2);
    const es_curves_panel panel = {"GPT-2 XL", "step 3K", b.curves, 48};
    es_curves figure = figure_of(&panel, 1);
    figure.style.colormap = ES_COLORMAP_CIVIDIS;
    es_picture *picture = drawn(&figure);
    assert_int_equal(count_shapes(picture, ES_SHAPE_SPANS), 48);
    assert_int_equal(count_shapes(picture, ES_SHAPE_POLYLINE), 0);
    assert_golden(picture, "curves_deep");
}

/* The lowest of 100,000 samples is drawn in the full colour of its line. */
TEST(a_dip_of_one_sample_stays_visible)
{
    static const struct {
        double scale;
        size_t at;
    } cases[] = {{2, 50001}, {2, 77777}, {1, 50002}, {0.7, 33333}};
    for (size_t k = 0; k < 4; k++) {
        const double scale = cases[k].scale, at = (double)cases[k].at;
        AUTO_BY(bundle_free) bundle b = bundle_new(1, 100000, 0.1);
        for (size_t i = 0; i < b.n; i++)
            row(&b, 0)[i] += 1;
        row(&b, 0)[cases[k].at] = 0.02f;
        const es_curves_panel panel = {"dip", NULL, b.curves, 1};
        es_curves figure = figure_of(&panel, 1);
        shot s = shot_of(&figure, scale);
        double pixels = 1 / s.sheet.blocks[0].x_scale / scale;
        for (double value = 0.1; value < 1.2; value += 0.1) {
            int dark = 0;
            for (int d = -1; d <= 1; d++)
                dark += pixel(&s, 0, at + d * pixels, value) == color_of(&s, 0);
            assert_in_range(dark, 1, 3);
        }
        assert_int_equal(pixel(&s, 0, at - 6 * pixels, 0.25), 0xffffff);
        assert_int_equal(pixel(&s, 0, at + 6 * pixels, 0.25), 0xffffff);
        shot_clear(&s);
    }
}

/* Checks that the spans of adjacent columns touch, so that the line has no
 * gap. */
static void check_spans_touch(const es_picture *picture)
{
    double top = NAN, bottom = NAN;
    size_t n = 0;
    assert_int_equal(count_shapes(picture, ES_SHAPE_SPANS), 1);
    for (size_t i = 0; i < picture->n_numbers; i += 2) {
        double next_top = picture->numbers[i];
        double next_bottom = picture->numbers[i + 1];
        if (isnan(next_top))
            continue;
        assert_true(next_top < next_bottom);
        assert_true(n == 0 || (next_top <= bottom && top <= next_bottom));
        top = next_top;
        bottom = next_bottom;
        n++;
    }
    assert_in_range(n, 660, 680);
}

TEST(spans_touch)
{
    /* lines with fewer samples than pixel columns, about as many, or more */
    static const size_t counts[] = {300, 700, 3000};
    for (size_t k = 0; k < 3; k++) {
        AUTO_BY(bundle_free) bundle b = bundle_new(1, counts[k], 0);
        for (size_t i = 0; i < b.n; i++)
            row(&b, 0)[i] = i % 2 ? 0.5f : 3.5f;
        const es_curves_panel panel = {"comb", NULL, b.curves, 1};
        es_curves figure = figure_of(&panel, 1);
        AUTO(es_picture) picture = drawn(&figure);
        check_spans_touch(picture);
    }
}

TEST(gaps_stay_open_and_nan_is_marked)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(1, 101, 0);
    for (size_t i = 0; i < b.n; i++)
        row(&b, 0)[i] = 2;
    for (size_t i = 20; i <= 30; i++)
        row(&b, 0)[i] = NAN;
    for (size_t i = 50; i <= 60; i++)
        row(&b, 0)[i] = es_missing();
    row(&b, 0)[83] = -INFINITY;
    const es_curves_panel panel = {"gaps", NULL, b.curves, 1};
    es_curves figure = figure_of(&panel, 1);
    shot s = shot_of(&figure, 2);
    uint32_t line = color_of(&s, 0), alarm = 0xc81e2d, paper = 0xffffff;
    double below = s.sheet.blocks[0].low - 2 / s.sheet.blocks[0].y_scale;
    const struct {
        double step;
        bool line;
        uint32_t below;
    } cases[] = {
        {15, true, paper},  {45, true, paper},  {72, true, paper},
        {25, false, alarm}, {83, false, alarm}, {28.5, false, alarm},
        {55, false, paper}, /* missing values are not marked */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pixel(&s, 0, cases[i].step, 2) == line, cases[i].line);
        assert_int_equal(pixel(&s, 0, cases[i].step, below), cases[i].below);
    }
    shot_clear(&s);
}

TEST(single_samples_are_dots)
{
    AUTO_BY(bundle_free)
    bundle one = bundle_new(3, 1, 0), many = bundle_new(1, 9000, 0.1);
    const es_curves_panel panels[] = {{"one", NULL, one.curves, 3},
                                      {"many", NULL, many.curves, 1}};
    for (size_t i = 3000; i < 6000; i++)
        row(&many, 0)[i] = es_missing();
    /* The sample is isolated among missing values. */
    row(&many, 0)[4500] = 1.5f;
    es_curves figure = figure_of(panels, 2);
    shot s = shot_of(&figure, 2);
    assert_int_equal(count_shapes(s.picture, ES_SHAPE_DOT), 4);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pixel(&s, 0, 0, (double)row(&one, i)[0]),
                         color_of(&s, i));
    assert_int_equal(pixel(&s, 1, 4500, 1.5), color_of(&s, 0));
    shot_clear(&s);
}

TEST(axes_are_shared)
{
    AUTO_BY(bundle_free)
    bundle a = bundle_new(2, 100, 0), b = bundle_new(2, 60, 0),
           c = bundle_new(2, 20, 0);
    row(&b, 1)[5] = 9;
    const es_curves_panel panels[] = {{"a", NULL, a.curves, 2},
                                      {"b", NULL, b.curves, 2},
                                      {"c", NULL, c.curves, 2}};
    es_curves figure = figure_of(panels, 2);
    es_curves_sheet sheet;
    assert_int_equal(es_curves_lay_out(&sheet, &figure), ES_OK);
    assert_true(sheet.blocks[0].upright.low == 0 &&
                sheet.blocks[1].upright.high >= 9 &&
                sheet.blocks[0].upright.high < 11);
    assert_true(sheet.blocks[1].first == 0 && sheet.blocks[1].last == 99);
    assert_true(sheet.blocks[0].plot.y == sheet.blocks[1].plot.y);
    assert_true(sheet.blocks[0].plot.height == sheet.blocks[1].plot.height);
    es_curves_sheet_clear(&sheet);
    /* Panel c has a fifth of the steps, so every panel has a separate x
     * axis. */
    figure.n_panels = 3;
    assert_int_equal(es_curves_lay_out(&sheet, &figure), ES_OK);
    assert_true(sheet.blocks[0].last == 99);
    assert_true(sheet.blocks[1].last == 59);
    assert_true(sheet.blocks[2].last == 19);
    es_curves_sheet_clear(&sheet);
}

TEST(a_scale_includes_zero_if_it_is_near)
{
    static const struct {
        float values[2];
        double reference, low, least_high;
    } cases[] = {
        {{1, 3}, NAN, 0, 3},
        /* Entropies; the dashed line is at the maximum entropy. */
        {{3.6f, 3.7f}, 3.878, 0, 3.878},
        {{2.6f, 2.8f}, NAN, 2.586, 2.8}, /* losses */
        {{-1, 1}, NAN, -1.14, 1},
        {{2.5f, 2.5f}, NAN, 0, 2.5},
        {{0, 0}, NAN, 0, 1},
        {{-2, -2}, NAN, -2.14, 0},
        {{NAN, NAN}, NAN, 0, 1},
        {{NAN, INFINITY}, 3.878, 0, 3.878},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_BY(bundle_free) bundle b = bundle_new(1, 2, 0);
        memcpy(row(&b, 0), cases[i].values, sizeof cases[i].values);
        const es_curves_panel panel = {"x", NULL, b.curves, 1};
        es_curves figure = figure_of(&panel, 1);
        figure.reference = cases[i].reference;
        es_curves_sheet sheet;
        assert_int_equal(es_curves_lay_out(&sheet, &figure), ES_OK);
        const es_axis *axis = &sheet.blocks[0].upright;
        assert_true(fabs(axis->low - cases[i].low) < 1e-6);
        assert_true(axis->high >= cases[i].least_high - 1e-6);
        assert_true(axis->low < axis->high);
        es_curves_sheet_clear(&sheet);
    }
}

TEST(a_legend_suits_any_depth)
{
    static const size_t counts[] = {1, 2, 12, 16, 17, 24, 48, 96, 128};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        AUTO_BY(bundle_free) bundle b = bundle_new(counts[i], 50, 0.1);
        const es_curves_panel panel = {"deep", NULL, b.curves, counts[i]};
        es_curves figure = figure_of(&panel, 1);
        shot s = shot_of(&figure, 2);
        const es_curves_block *block = &s.sheet.blocks[0];
        assert_true(s.sheet.legend_x > block->plot.x + block->plot.width);
        assert_true(picture_says(s.picture, "0"));
        assert_int_equal(s.sheet.listed, counts[i] <= 16);
        /* The first colour in the legend is the colour of the first line. */
        bool found = false;
        for (int y = 0; y < s.image.height; y++)
            found = found || image_at(&s.image, (int)(s.sheet.legend_x * 2) + 4,
                                      y) == color_of(&s, 0);
        assert_true(found);
        shot_clear(&s);
    }
}

TEST(a_panel_without_samples_says_so)
{
    AUTO_BY(bundle_free)
    bundle empty = bundle_new(2, 0, 0), nan = bundle_new(2, 5, 0);
    for (size_t i = 0; i < 10; i++)
        nan.values[i] = NAN;
    const es_curves_panel panels[] = {{"no curves", NULL, NULL, 0},
                                      {"no samples", NULL, empty.curves, 2},
                                      {"no numbers", NULL, nan.curves, 2}};
    es_curves figure = figure_of(panels, 3);
    es_picture *picture = drawn(&figure);
    assert_true(picture_says(picture, "no samples"));
    es_picture_free(picture);
    figure.n_panels = 0;
    picture = NULL;
    assert_int_equal(es_curves_draw(&picture, &figure), ES_EUSAGE);
    assert_null(picture);
}

TEST(hostile_values_and_steps_are_drawn_soundly)
{
    static const double values[] = {NAN,     INFINITY, -INFINITY, 0,
                                    -0.0,    1e-45,    FLT_MAX,   -FLT_MAX,
                                    DBL_MAX, -DBL_MAX, 5e-324,    3.8};
    static const int64_t steps[] = {INT64_MIN, -1,        0, 1, 1,  INT64_MAX,
                                    7,         INT64_MAX, 3, 2, -5, 0};
    size_t n = sizeof values / sizeof *values;
    AUTO_BY(bundle_free) bundle b = bundle_new(1, n, 0);
    const es_curves_panel panel = {"hostile", NULL, b.curves, 1};
    es_curves figure = figure_of(&panel, 1);
    memcpy(b.steps, steps, sizeof steps);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            for (size_t v = 0; v < n; v++)
                row(&b, 0)[v] = (float)values[(v * i + k) % n];
            for (size_t r = 0; r < n; r++) {
                figure.reference = values[r];
                es_picture_free(drawn(&figure));
            }
        }
    }
}

TEST(wide_step_labels_do_not_touch)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(2, 60, 0.1);
    for (size_t i = 0; i < b.n; i++)
        b.steps[i] = 123456700 + 2 * (int64_t)i;
    const es_curves_panel panels[] = {{"resumed", NULL, b.curves, 2},
                                      {"again", NULL, b.curves, 2}};
    es_curves figure = figure_of(panels, 2);
    AUTO(es_picture) picture = drawn(&figure);
    assert_true(picture_says(picture, "123.45675M"));
}

TEST(a_denormal_range_is_drawn_soundly)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(1, 3, 0);
    memset(b.values, 0, 3 * sizeof *b.values);
    const es_curves_panel panel = {"zeros", NULL, b.curves, 1};
    es_curves figure = figure_of(&panel, 1);
    figure.reference = 5e-324;
    es_curves_sheet sheet;
    assert_int_equal(es_curves_lay_out(&sheet, &figure), ES_OK);
    const es_curves_block *block = &sheet.blocks[0];
    assert_true(es_curves_y(block, 0) == block->plot.y + block->plot.height);
    assert_true(isfinite(es_curves_y(block, 5e-324)));
    es_curves_sheet_clear(&sheet);
}

static es_status draw(es_picture **out, const void *figure)
{
    return es_curves_draw(out, figure);
}

TEST(a_requested_size_is_kept)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(12, 100, 0.1);
    const es_curves_panel panels[] = {{"a", "first", b.curves, 12},
                                      {"b", "second", b.curves, 12}};
    es_curves figure = figure_of(panels, 2);
    assert_sizes_are_kept(draw, &figure, &figure.style);
}

TEST(long_texts_are_cut)
{
    char longest[201];
    memset(longest, 'M', 200);
    longest[200] = '\0';
    AUTO_BY(bundle_free) bundle b = bundle_new(3, 40, 0.1);
    b.curves[0].label = longest;
    b.curves[1].label = "\x01\xf0\x9f\x98\x80\xff";
    b.curves[2].label = NULL;
    const es_curves_panel panels[] = {{longest, longest, b.curves, 3},
                                      {longest, NULL, b.curves, 3}};
    es_curves figure = figure_of(panels, 2);
    figure.style.title = figure.note = figure.reference_text = longest;
    es_picture_free(drawn(&figure));
}
