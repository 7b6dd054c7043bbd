/* Tests line charts with shaded areas, marks, categories, logarithmic scales
 * and limits. */
#include "render/figures/curves.h"
#include "render/picture_internal.h"
#include "tests/support/curve_bundles.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

TEST(area_is_a_tint)
{
    float low[40], high[40];
    AUTO_BY(bundle_free) bundle b = bundle_new(1, 40, 0);
    for (size_t i = 0; i < 40; i++) {
        row(&b, 0)[i] = 2;
        low[i] = i == 20 ? 0.1f : 1;
        high[i] = i == 20 ? NAN : 3;
    }
    b.curves[0].low = low;
    b.curves[0].high = high;
    const es_curves_panel panel = {"area", NULL, b.curves, 1};
    es_curves figure = figure_of(&panel, 1);
    shot s = shot_of(&figure, 2);
    uint32_t tint = pixel(&s, 0, 10, 2.7), line = color_of(&s, 0);
    assert_true(tint != 0xffffff && tint != line);
    const struct {
        double step, value;
        uint32_t color;
    } cases[] = {{10, 1.3, tint},
                 /* The line is drawn above the shaded area. */
                 {10, 2, line},
                 {10, 3.3, 0xffffff},
                 {10, 0.7, 0xffffff},
                 {20, 2.7, 0xffffff}, /* `high` is NaN at step 20 */
                 {19.5, 0.55, 0xffffff}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(pixel(&s, 0, cases[i].step, cases[i].value),
                         cases[i].color);
    /* The y axis includes the area, and a NaN bound of the area is not
       marked. */
    assert_true(s.sheet.blocks[0].upright.high > 3);
    assert_false(picture_says(s.picture, "NaN or infinite"));
    shot_clear(&s);
}

TEST(a_logarithmic_scale_shows_zeros)
{
    static const float values[] = {0, 1, 10, 100, 1000, 0};
    AUTO_BY(bundle_free) bundle b = bundle_new(1, 6, 0);
    memcpy(row(&b, 0), values, sizeof values);
    const es_curves_panel panel = {"counts", NULL, b.curves, 1};
    es_curves figure = figure_of(&panel, 1);
    figure.reference = NAN;
    figure.logarithmic = true;
    figure.y_labels = ES_LABELS_COUNT;
    shot s = shot_of(&figure, 2);
    const es_curves_block *block = &s.sheet.blocks[0];
    double bottom = block->plot.y + block->plot.height;
    double decade = es_curves_y(block, 1) - es_curves_y(block, 10);
    assert_true(es_curves_y(block, 0) == bottom);
    assert_true(fabs(bottom - ES_ZERO_HEIGHT - es_curves_y(block, 1)) < 1e-6);
    assert_true(
        fabs(es_curves_y(block, 10) - decade - es_curves_y(block, 100)) < 1e-6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(pixel(&s, 0, (double)i, (double)values[i]),
                         color_of(&s, 0));
    assert_true(picture_says(s.picture, "0"));
    assert_true(picture_says(s.picture, "1K"));
    shot_clear(&s);
    row(&b, 0)[3] = -0.5f;
    es_picture *none = NULL;
    assert_int_equal(es_curves_draw(&none, &figure), ES_EUSAGE);
    assert_non_null(strstr(es_message(), "cannot show -0.5"));
}

/* Counts the pixels with the colour of a curve in the pixel row at the height
 * of `value`. */
static size_t seen_in_row(const shot *s, size_t curve, double value)
{
    const es_box *plot = &s->sheet.blocks[0].plot;
    const int y = (int)(es_curves_y(&s->sheet.blocks[0], value) * s->scale);
    size_t n = 0;
    for (int x = 0; x < (int)(plot->width * s->scale); x++)
        n += image_at(&s->image, (int)(plot->x * s->scale) + x, y) ==
             color_of(s, curve);
    return n;
}

/* Returns true if an arrow stands above the plot of the first panel at a step.
 */
static bool has_arrow(const shot *s, double step)
{
    const es_curves_block *block = &s->sheet.blocks[0];
    double top = es_curves_y(block, block->upright.high);
    return image_at(&s->image, (int)(es_curves_x(block, step) * s->scale),
                    (int)((top - 3) * s->scale)) != 0xffffff;
}

TEST(values_beyond_the_limit_are_clipped_and_marked)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(1, 101, 0);
    for (size_t i = 0; i < b.n; i++)
        row(&b, 0)[i] = i == 40 ? 5e7f : 2 + (float)(i % 2);
    const es_curves_panel panel = {"cut", NULL, b.curves, 1};
    es_curves figure = figure_of(&panel, 1);
    figure.reference = NAN;
    double limit = 3;
    figure.limits = &limit;
    shot s = shot_of(&figure, 2);
    const es_curves_block *block = &s.sheet.blocks[0];
    double top = block->upright.high;
    assert_true(top >= 3 && top < 3.5);
    assert_true(block->upright.low > 1.5); /* the axis fits the values and does
                                              not begin at 0 */
    assert_true(picture_says(s.picture, "5×10⁷"));
    assert_true(has_arrow(&s, 40));
    assert_false(has_arrow(&s, 60));
    shot_clear(&s);
    limit = NAN; /* if no value is clipped, there is no arrow */
    s = shot_of(&figure, 2);
    assert_false(has_arrow(&s, 40));
    shot_clear(&s);
}

/* If arrows would overlap, only the one with the largest value is drawn. An
 * arrow near the right edge has its value to its left. A value has an arrow
 * even if only the shaded area or the ring around it extends above the plot. */
TEST(each_arrow_has_the_largest_value)
{
    enum { N = 101 };
    float high[N], spikes[N];
    AUTO_BY(bundle_free) bundle b = bundle_new(2, N, 0);
    for (size_t i = 0; i < N; i++) {
        row(&b, 0)[i] = i < 3 ? 90.5f - (float)i : 2 + (float)(i % 2);
        row(&b, 1)[i] = i == 4 ? 71.5f : i == 100 ? 812345 : 2;
        high[i] = i == 50 ? 40.5f : 3;
        spikes[i] = i == 75 ? 55.5f : es_missing();
    }
    row(&b, 1)[25] = NAN;
    b.curves[0].low = row(&b, 0);
    b.curves[0].high = high;
    b.curves[1].spikes = spikes;
    const es_curves_panel panel = {NULL, NULL, b.curves, 2};
    es_curves figure = figure_of(&panel, 1);
    figure.reference = NAN;
    double limit = 3;
    figure.limits = &limit;
    shot s = shot_of(&figure, 2);
    ASSERT_SAYS(s.picture, "90.5", "40.5", "55.5", "812345");
    ASSERT_SAYS_NOT(s.picture, "89.5", "71.5");
    for (int step = 0; step <= 100; step += 25)
        assert_int_equal(has_arrow(&s, step), step != 25);
    shot_clear(&s);
}

TEST(a_dashed_line_has_gaps_and_marks)
{
    static const size_t counts[] = {11, 20000};
    for (size_t k = 0; k < 2; k++) {
        AUTO_BY(bundle_free) bundle b = bundle_new(1, counts[k], 0);
        b.curves[0].pen = ES_PEN_DASHED;
        for (size_t i = 0; i < b.n; i++)
            row(&b, 0)[i] = 2;
        const es_curves_panel panel = {NULL, NULL, b.curves, 1};
        es_curves figure = figure_of(&panel, 1);
        figure.colors = ES_CURVES_BY_CATEGORY;
        shot s = shot_of(&figure, 4);
        const es_box *plot = &s.sheet.blocks[0].plot;
        size_t inked = seen_in_row(&s, 0, 2);
        double share = (double)inked / (plot->width * s.scale);
        assert_true(share > 0.4 && share < 0.8);
        shot_clear(&s);
    }
}

/* Two of the three lines are identical up to step 20, and all three after
 * it. */
TEST(identical_lines_alternate_dashes)
{
    enum { N = 3, HALF = 20 };
    size_t seen[2][N] = {{0}};
    AUTO_BY(bundle_free) bundle b = bundle_new(N, 2 * HALF + 1, 0);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < b.n; k++)
            row(&b, i)[k] = i == 0 && k < HALF ? 3 : 2;
    const es_curves_panel panel = {"equal", NULL, b.curves, N};
    es_curves figure = figure_of(&panel, 1);
    shot s = shot_of(&figure, 2);
    for (int at = 2; at < 40 * 8; at++)
        for (size_t i = 0; i < N; i++)
            seen[at / 8 >= HALF][i] +=
                pixel(&s, 0, at / 8.0, 2) == color_of(&s, i);
    assert_int_equal(seen[0][0], 0);
    for (size_t i = 0; i < N; i++) {
        assert_true(i == 0 || seen[0][i] > 30);
        assert_true(seen[1][i] > 20);
    }
    shot_clear(&s);
}

static void check_samples(es_curves_colors colors)
{
    enum { N = 4 };
    AUTO_BY(bundle_free) bundle b = bundle_new(N, 1, 0);
    for (size_t i = 0; i < N; i++) {
        row(&b, i)[0] = i < N - 1 ? 2 : 1;
        b.curves[i].color = i;
    }
    const es_curves_panel panel = {"samples", NULL, b.curves, N};
    es_curves figure = figure_of(&panel, 1);
    figure.colors = colors;
    shot s = shot_of(&figure, 4);
    for (size_t i = 0; i < N; i++)
        assert_true(seen_in_row(&s, i, i < N - 1 ? 2 : 1) >= 2);
    /* A sample that differs from those of the other lines is not moved. */
    if (colors == ES_CURVES_BY_DEPTH)
        assert_int_equal(pixel(&s, 0, 0, 1), color_of(&s, N - 1));
    assert_true(picture_says(s.picture, "identical points are offset"));
    shot_clear(&s);
    row(&b, 1)[0] = 2.5f;
    row(&b, 2)[0] = 3;
    AUTO(es_picture) distinct = drawn(&figure);
    assert_false(picture_says(distinct, "identical points are offset"));
}

TEST(identical_samples_are_side_by_side)
{
    check_samples(ES_CURVES_BY_DEPTH);
    check_samples(ES_CURVES_BY_CATEGORY);
}

/* If three lines meet at one sample, all of their marks remain visible. The
 * same is true for the marks of their first NaN at the lower edge. */
TEST(marks_of_lines_that_meet_are_visible)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(3, 6, 0);
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 5; k++)
            row(&b, i)[k] = k == 2 ? 2 : (float)(i + k);
        row(&b, i)[5] = NAN;
        b.curves[i].color = i;
    }
    row(&b, 2)[2] = 2.001f; /* almost equal */
    const es_curves_panel panel = {"meeting", NULL, b.curves, 3};
    es_curves figure = figure_of(&panel, 1);
    figure.colors = ES_CURVES_BY_CATEGORY;
    figure.reference = NAN;
    shot s = shot_of(&figure, 2);
    const es_curves_block *block = &s.sheet.blocks[0];
    const double y = es_curves_y(block, 2);
    const double foot = block->plot.y + block->plot.height;
    for (size_t i = 0; i < 3; i++) {
        size_t n_here = 0, n_at_foot = 0;
        for (int x = 0; x < s.image.width; x++) {
            n_here += image_at(&s.image, x, (int)(2 * y)) == color_of(&s, i);
            for (int row = 2; row < 10; row++)
                n_at_foot += image_at(&s.image, x, (int)(2 * foot) + row) ==
                             color_of(&s, i);
        }
        assert_true(n_here >= 2);
        assert_true(n_at_foot >= 2);
    }
    shot_clear(&s);
}

/* A mark that would cover another mark is hollow; no mark is moved from its
 * sample. */
TEST(a_mark_on_another_mark_is_hollow)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(2, 5, 0);
    for (size_t k = 0; k < 5; k++) {
        row(&b, 0)[k] = 2;
        row(&b, 1)[k] = k == 2 ? 2.001f : (float)k;
    }
    /* A hollow mark has a dot in the background colour under it. */
    b.curves[1].color = 1;
    const es_curves_panel panel = {"crossing", NULL, b.curves, 2};
    es_curves figure = figure_of(&panel, 1);
    figure.colors = ES_CURVES_BY_CATEGORY;
    figure.reference = NAN;
    shot s = shot_of(&figure, 2);
    const es_curves_block *block = &s.sheet.blocks[0];
    const double left = es_curves_x(block, 0), right = es_curves_x(block, 4);
    const es_color paper = es_theme_colors(ES_THEME_LIGHT)->paper;
    int n_filled[5] = {0};
    for (size_t i = 0; i < s.picture->n_shapes; i++) {
        const es_picture_shape *shape = &s.picture->shapes[i];
        const double step = 4 * (shape->x - left) / (right - left);
        if (shape->kind != ES_SHAPE_DOT || step < -0.01 || step > 4.01 ||
            memcmp(&shape->color, &paper, sizeof paper) != 0 ||
            shape->y > block->plot.y + block->plot.height)
            continue; /* skip dots in the legend and at the lower edge */
        const long k = lround(step);
        assert_true(fabs(step - (double)k) < 0.01);
        assert_true(fabs(shape->y - es_curves_y(block, row(&b, 1)[k])) < 0.1);
        n_filled[k]++;
    }
    for (int k = 0; k < 5; k++)
        assert_int_equal(n_filled[k], k != 2);
    shot_clear(&s);
}

TEST(all_marks_are_different)
{
    const es_colors *colors = es_theme_colors(ES_THEME_LIGHT);
    char *svgs[ES_N_MARKS];
    for (size_t i = 0; i < ES_N_MARKS; i++) {
        AUTO(es_picture) picture = NULL;
        size_t n;
        assert_int_equal(es_picture_new(&picture, 20, 20, colors->paper),
                         ES_OK);
        es_draw_mark(&(es_canvas){picture, colors}, 10, 10, i, colors->ink,
                     false);
        svgs[i] = picture_bytes(&n, picture, ES_FORMAT_SVG, 1, NULL, 0);
        assert_non_null(svgs[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(svgs[k], svgs[i]);
    }
    for (size_t i = 0; i < ES_N_MARKS; i++)
        free(svgs[i]);
}

/* Makes curves of different runs. Every second curve has only `n_few`
 * samples. */
static bundle categories_new(size_t n_curves, size_t n_few)
{
    bundle b = bundle_new(n_curves, 100, 0.15);
    for (size_t i = 0; i < n_curves; i++) {
        b.curves[i].color = i;
        if (i % 2)
            b.curves[i].n = n_few;
    }
    return b;
}

static es_curves runs_figure(const es_curves_panel *panels, size_t n)
{
    es_curves figure = figure_of(panels, n);
    figure.colors = ES_CURVES_BY_CATEGORY;
    figure.reference = NAN;
    figure.line_text = NULL;
    figure.note = NULL;
    return figure;
}

TEST(categories_are_golden)
{
    AUTO_BY(bundle_free) bundle b = categories_new(12, 100);
    row(&b, 3)[70] = NAN;
    for (size_t i = 0; i < 12; i++)
        for (size_t k = 0; k < 100; k++)
            row(&b, i)[k] += (float)i / 2;
    b.curves[10].pen = ES_PEN_THIN;
    b.curves[11].pen = ES_PEN_INK;
    const es_curves_panel panels[] = {{"all", NULL, b.curves, 12},
                                      {"first", "own scale", b.curves, 2}};
    es_curves figure = runs_figure(panels, 2);
    figure.own_scales = true;
    es_picture *picture = drawn(&figure);
    ASSERT_SAYS(picture, "layer 11");
    assert_golden(picture, "curves_categories");
}

/* A wide panel that shares a page with other figures is not higher than their
 * panels. Alone on a page, it would be higher. */
TEST(a_panel_among_other_figures_is_flat)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(1, 9, 0);
    const es_curves_panel panel = {"a", NULL, b.curves, 1};
    for (int i = 0; i < 2; i++) {
        es_page_frame frame = {.left = 0};
        es_curves figure = figure_of(&panel, 1);
        es_curves_sheet sheet;
        figure.style.width = 900;
        figure.style.frame = i ? &frame : NULL;
        assert_int_equal(es_curves_lay_out(&sheet, &figure), ES_OK);
        assert_int_equal(sheet.blocks[0].plot.height <= 165, i);
        assert_true(sheet.blocks[0].plot.width > 700);
        es_curves_sheet_clear(&sheet);
    }
}

TEST(panels_may_have_separate_scales)
{
    AUTO_BY(bundle_free)
    bundle a = bundle_new(1, 9, 0), b = bundle_new(1, 9, 0);
    row(&b, 0)[4] = 1000;
    const es_curves_panel panels[] = {{"a", NULL, a.curves, 1},
                                      {"b", NULL, b.curves, 1}};
    es_curves figure = figure_of(panels, 2);
    figure.reference = NAN;
    figure.own_scales = true;
    es_curves_sheet sheet;
    assert_int_equal(es_curves_lay_out(&sheet, &figure), ES_OK);
    assert_true(sheet.blocks[0].upright.high < 5);
    assert_true(sheet.blocks[1].upright.high >= 1000);
    es_curves_sheet_clear(&sheet);
    AUTO(es_picture) picture = drawn(&figure);
    assert_true(picture_says(picture, "1000"));
}

/* Checks that the legend is to the right of the panels, or below their axes. */
static void check_legend_is_clear(const es_curves *figure)
{
    es_curves_sheet sheet;
    assert_int_equal(es_curves_lay_out(&sheet, figure), ES_OK);
    /* A legend at the right takes less than a third of the width of a paper's
     * column. */
    assert_true(sheet.below || figure->style.width != 234 ||
                figure->n_panels == 1);
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_box *plot = &sheet.blocks[i].plot;
        bool beside = sheet.legend_x >= plot->x + plot->width + ES_MARK_RADIUS;
        bool below = sheet.legend_y >= plot->y + plot->height + ES_AXIS_FOOT;
        assert_true(sheet.below ? below : beside);
        assert_true(sheet.legend_y + sheet.legend_height <=
                    sheet.page.height_points - ES_MARGIN + 1);
    }
    es_curves_sheet_clear(&sheet);
}

TEST(legend_is_clear_of_data)
{
    static const double sizes[][2] = {{0, 0},     {234, 0},   {486, 0},
                                      {480, 270}, {600, 220}, {700, 500}};
    static const size_t counts[] = {1, 2, 6, 12, 20};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        AUTO_BY(bundle_free) bundle b = categories_new(counts[k], 7);
        const es_curves_panel panels[] = {{"a", NULL, b.curves, counts[k]},
                                          {"b", NULL, b.curves, counts[k]}};
        for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
            es_curves figure = runs_figure(panels, 1 + i % 2);
            figure.style.width = sizes[i / 2][0];
            figure.style.height = sizes[i / 2][1];
            check_legend_is_clear(&figure);
            AUTO(es_picture) picture = drawn(&figure);
            for (size_t c = 0; c < counts[k]; c++)
                assert_true(picture_says(picture, b.labels[c]));
        }
    }
}

TEST(few_samples_are_dots_at_whole_ticks)
{
    AUTO_BY(bundle_free) bundle b = bundle_new(2, 4, 0);
    b.curves[1].pen = ES_PEN_DASHED;
    b.curves[1].color = 1;
    const es_curves_panel panel = {"few", NULL, b.curves, 2};
    es_curves figure = figure_of(&panel, 1);
    figure.x_text = "layer";
    AUTO(es_picture)
    /* Lines coloured by depth show each sample as a dot. */
    picture = drawn(&figure);
    assert_int_equal(count_shapes(picture, ES_SHAPE_DOT), 8);
    assert_int_equal(count_shapes(picture, ES_SHAPE_POLYLINE), 2);
    ASSERT_SAYS(picture, "layer", "3");
    ASSERT_SAYS_NOT(picture, "0.5", "step");
}
