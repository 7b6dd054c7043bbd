/* Tests heatmaps: cells, numbers, layout and sizes. */
#include "render/figures/color_scale.h"
#include "render/figures/heatmap.h"
#include "render/picture_internal.h"
#include "tests/support/chance.h"
#include "tests/support/drawn.h"
#include "tests/support/paper.h"
#include "tests/support/test.h"

#define MOST 12288 /* 96 x 128 */

/* Fills in n different values in [low, high], without a visible pattern. */
static void fill(float *values, int n, double low, double high)
{
    uint32_t x = 12345;
    for (int i = 0; i < n; i++)
        values[i] = (float)(low + (high - low) * congruence_unit(&x));
}

static es_heatmap figure_of(const es_heatmap_panel *panels, size_t n)
{
    return (es_heatmap){.panels = panels,
                        .n_panels = n,
                        .low = 0,
                        .high = 3.87,
                        .scale_text = "entropy (nats)",
                        .note = "max = 3.87 (observed)"};
}

static es_picture *drawn(const es_heatmap *figure)
{
    es_picture *picture = NULL;
    return sound_picture(es_heatmap_draw(&picture, figure), &picture);
}

/* Checks that a heatmap at the program's default scale has at most 256 colours,
 * so that its PNG has a palette. */
static void check_palette(const es_picture *picture)
{
    AUTO_BY(image_clear) es_image image;
    assert_true(picture_image(&image, picture, 2));
    assert_in_range(image.n_palette, 64, 256);
}

TEST(published_models_are_golden)
{
    float r[ES_PAPER_VALUES], sm[ES_PAPER_VALUES];
    es_paper_heatmap(r, "SM+R");
    es_paper_heatmap(sm, "SM");
    const es_heatmap_panel panels[] = {{"SM+R", "step 32K", r, 12, 12},
                                       {"SM", "step 32K", sm, 12, 12}};
    es_heatmap figure = figure_of(panels, 2);
    es_picture *picture = drawn(&figure);
    ASSERT_SAYS(picture, "3.87", "0.34");
    check_palette(picture);
    assert_golden(picture, "heatmap_published");
}

TEST(mixed_shapes_and_gaps_are_golden)
{
    float a[63], b[6], c[1] = {NAN};
    fill(a, 63, 0, 3.87);
    fill(b, 6, 1, 2);
    a[0] = a[13] = a[14] = NAN;
    a[20] = INFINITY;
    a[31] = -INFINITY;
    a[40] = a[62] = es_missing();
    const es_heatmap_panel panels[] = {{"SM+LN+G", "step 400", a, 7, 9},
                                       {"EReg(SM(t)+ScFuFFNi6)", NULL, b, 3, 2},
                                       {NULL, "step 7", c, 1, 1}};
    es_heatmap figure = figure_of(panels, 3);
    figure.style.title = "Three shapes on one scale";
    es_picture *picture = drawn(&figure);
    ASSERT_SAYS(picture, "NaN or infinite", "missing");
    assert_golden(picture, "heatmap_mixed");
}

TEST(a_large_model_is_golden)
{
    static float values[MOST];
    fill(values, MOST, 0, 3.87);
    for (int i = 40 * 128; i < 41 * 128; i++)
        values[i] = NAN;
    const es_heatmap_panel panel = {"GPT-3", "step 5K", values, 96, 128};
    es_heatmap figure = figure_of(&panel, 1);
    figure.style.colormap = ES_COLORMAP_MAGMA;
    es_picture *picture = drawn(&figure);
    assert_false(picture_says(picture, "3.00"));
    assert_true(picture_says(picture, "NaN or infinite"));
    assert_false(picture_says(picture, "missing"));
    check_palette(picture);
    assert_golden(picture, "heatmap_96x128");
}

TEST(all_panels_have_one_scale)
{
    /* The second row begins with 3, which is at three quarters of the scale. */
    const float a[6] = {0, 1, 2, 3, 4, 2.5f}, b[2] = {2, es_missing()};
    static const double shown[] = {0, 0.25, 0.5, 0.75, 1, 0.625, 0.5};
    const es_heatmap_panel panels[] = {{"a", NULL, a, 2, 3},
                                       {"b", NULL, b, 2, 1}};
    es_heatmap figure = figure_of(panels, 2);
    figure.high = 4;
    es_picture *picture = drawn(&figure);
    size_t n = 0;
    for (size_t i = 0; i < picture->n_shapes && n < 8; i++) {
        if (picture->shapes[i].kind != ES_SHAPE_RECT)
            continue;
        double level = n < 7 ? round(shown[n] * 127) / 127 : 0;
        uint32_t wanted =
            image_color(es_colormap_at(ES_COLORMAP_VIRIDIS, level));
        assert_int_equal(image_color(picture->shapes[i].color),
                         n < 7 ? wanted : 0xffffff);
        n++;
    }
    assert_int_equal(n, 8);
    es_picture_free(picture);
}

/* For panels of any shape, no texts overlap and nothing is outside of the
 * page. */
TEST(every_shape_is_drawn_soundly)
{
    static const int shapes[][2] = {{1, 1},   {1, 2},   {2, 1},   {1, 128},
                                    {96, 1},  {3, 5},   {12, 12}, {18, 12},
                                    {6, 8},   {24, 16}, {48, 25}, {96, 96},
                                    {1, 999}, {999, 1}, {200, 31}};
    static float values[MOST];
    fill(values, MOST, 0, 3.87);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const es_heatmap_panel panel = {"SM+LN+G", "step 400", values,
                                        shapes[i][0], shapes[i][1]};
        es_heatmap figure = figure_of(&panel, 1);
        AUTO(es_picture) picture = drawn(&figure);
        assert_true(picture->width < 1500 && picture->height < 1500);
    }
}

/* Panels are arranged in the smallest number of rows with at most four panels
 * per row. */
TEST(many_panels_wrap)
{
    float values[144];
    fill(values, 144, 0, 3.87);
    es_heatmap_panel panels[9];
    for (size_t n = 1; n <= 9; n++) {
        panels[n - 1] = (es_heatmap_panel){"SM+LN+R", "step 1", values,
                                           n % 2 ? 12 : 5, n % 3 ? 12 : 7};
        es_heatmap figure = figure_of(panels, n);
        es_picture *picture = drawn(&figure);
        size_t n_rows = 0, in_row = 0;
        double y = 0;
        for (size_t i = 0; i < picture->n_shapes; i++) {
            const es_picture_shape *s = &picture->shapes[i];
            if (s->kind != ES_SHAPE_TEXT ||
                strcmp(picture->text + s->first, "step 1") != 0)
                continue;
            in_row = s->y > y ? 1 : in_row + 1;
            n_rows += s->y > y;
            y = s->y;
            assert_true(in_row <= 4);
        }
        assert_int_equal(n_rows, (n + 3) / 4);
        es_picture_free(picture);
    }
}

static const double hostile[] = {
    NAN,      INFINITY, -INFINITY, 0,       -0.0,  1,      -1,     FLT_MAX,
    -FLT_MAX, DBL_MAX,  -DBL_MAX,  FLT_MIN, 1e-45, 1e-320, 5e-324, 3.87};

#define N_HOSTILE (sizeof hostile / sizeof *hostile)

TEST(hostile_scales_and_values_are_drawn_soundly)
{
    float values[N_HOSTILE];
    for (size_t i = 0; i < N_HOSTILE; i++)
        values[i] = (float)hostile[i];
    const es_heatmap_panel panel = {"hostile", NULL, values, 4, 4};
    es_heatmap figure = figure_of(&panel, 1);
    for (size_t low = 0; low < N_HOSTILE; low++) {
        for (size_t high = 0; high < N_HOSTILE; high++) {
            figure.low = hostile[low];
            figure.high = hostile[high];
            AUTO(es_picture) picture = drawn(&figure);
            AUTO_BY(image_clear) es_image image;
            assert_true(picture_image(&image, picture, 0.5));
        }
    }
}

static es_status draw(es_picture **out, const void *figure)
{
    return es_heatmap_draw(out, figure);
}

TEST(a_requested_size_is_kept)
{
    float values[144];
    fill(values, 144, 0, 3.87);
    const es_heatmap_panel panels[] = {{"SM+R", "step 1", values, 12, 12},
                                       {"SM", "step 1", values, 6, 7}};
    es_heatmap figure = figure_of(panels, 2);
    assert_sizes_are_kept(draw, &figure, &figure.style);
}

/* Draws seven panels, each of six layers and four heads, in a figure as wide as
 * a paper's column. Returns the width and height of the figure. */
static void sides_of(double *width, double *height, double tallest,
                     size_t most_columns)
{
    float values[24];
    es_heatmap_panel panels[7];
    fill(values, 24, 0, 3.87);
    for (size_t i = 0; i < 7; i++)
        panels[i] =
            (es_heatmap_panel){"\xce\xb3 = 0.05", "step 239", values, 6, 4};
    es_heatmap figure = figure_of(panels, 7);
    figure.style.width = 234;
    figure.style.tallest = tallest;
    figure.style.most_columns = most_columns;
    AUTO(es_picture) picture = drawn(&figure);
    es_picture_sides(picture, width, height);
}

TEST(a_column_of_many_panels_fits_on_a_page)
{
    double width, free_height, height, narrow;
    sides_of(&width, &free_height, 0, 0);
    assert_true(width == 234 && free_height > 1000);
    sides_of(&width, &height, 648, 0);
    assert_true(width == 234 && height <= 648);
    /* If only one column of panels is allowed, a height limit of 648 points
     * makes the page lower, but by less than half. */
    sides_of(&width, &narrow, 648, 1);
    assert_true(narrow < 0.85 * free_height && narrow > 0.5 * free_height);
    /* A limit that exceeds the natural height of the page changes nothing. */
    sides_of(&width, &height, 5000, 0);
    assert_true(height == free_height);
}

TEST(narrow_side_plots_have_two_numbers)
{
    float values[24], means[6] = {0.57F, 0.5F, 0.45F, 0.4F, 0.38F, 0.35F};
    float variances[6] = {0.0051F, 0, 0, 0.001F, 0, 0};
    fill(values, 24, 0, 1);
    const es_heatmap_panel panel = {"narrow", NULL, values, 6, 4};
    const es_heatmap_side sides[] = {{"mean", means, 0.3, 0.65},
                                     {"variance", variances, 0, 0.0051}};
    es_heatmap figure = figure_of(&panel, 1);
    figure.sides = sides;
    figure.n_sides = 2;
    figure.style.width = 190;
    AUTO(es_picture) picture = drawn(&figure);
    ASSERT_SAYS(picture, "0.4", "0.6", "0.000", "0.005");
    assert_true(picture_texts_are_apart(picture));
}

TEST(bad_shapes_are_refused)
{
    float value = 1;
    es_picture *picture = NULL;
    es_heatmap_panel panel = {"x", NULL, &value, 0, 1};
    es_heatmap figure = figure_of(&panel, 1);
    assert_int_equal(es_heatmap_draw(&picture, &figure), ES_EUSAGE);
    panel.n_layers = 1;
    panel.n_heads = -3;
    assert_int_equal(es_heatmap_draw(&picture, &figure), ES_EUSAGE);
    figure.n_panels = 0;
    assert_int_equal(es_heatmap_draw(&picture, &figure), ES_EUSAGE);
    assert_null(picture);
}

/* The number of decimals depends on the largest value of all panels. */
TEST(decimals_distinguish_values)
{
    static const struct {
        float a[2], b;
        const char *texts[3]; /* texts in the cells; NULL: no text */
    } cases[] = {
        {{0, 3}, 7, {"0", "3", "7"}},
        {{0.5f, 2.906f}, 7, {"0.50", "2.91", "7.00"}},
        {{-0.001f, -0.5f}, 7, {"0.00", "−0.50", "7.00"}},
        {{0, -0.5f}, 42, {"0.0", "−0.5", "42.0"}},
        {{0.5f, -142}, 3, {"0", "−142", "3"}},
        {{0.5f, 12345.6f}, 3, {"0", "12346", "3"}},
        {{0.5f, 3}, -2e5f, {"0.5", "3", "−2e5"}},
        {{12.3f, INFINITY}, 1e30f, {"12", NULL, "1e30"}},
        {{0.05f, 0.01f}, 0, {"0.050", "0.010", "0.000"}},
        {{0.005f, 0.00123f}, NAN, {"0.0050", "0.0012", NULL}},
        {{1e-4f, 0}, 0, {"0.0001", "0", "0"}},
        {{-0.00012f, -1.25e-7f}, 0, {"−0.00012", "−1.2e−7", "0"}},
        {{0, 0}, 0, {"0.00", "0.00", "0.00"}},
        {{NAN, INFINITY}, NAN, {NULL, NULL, NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const es_heatmap_panel panels[] = {{"a", NULL, cases[i].a, 2, 1},
                                           {"b", NULL, &cases[i].b, 1, 1}};
        es_heatmap figure = figure_of(panels, 2);
        const char *texts[4] = {0};
        size_t n = 0, wanted = 0;
        figure.style.width = 700;
        AUTO(es_picture) picture = drawn(&figure);
        for (size_t k = 0; k < picture->n_shapes; k++) {
            const es_picture_shape *s = &picture->shapes[k];
            bool number = s->kind == ES_SHAPE_TEXT && n < 4 &&
                          s->align == ES_ALIGN_MIDDLE && s->degrees == 0 &&
                          s->size != ES_SMALL_SIZE && s->size != ES_LABEL_SIZE;
            if (number)
                texts[n++] = picture->text + s->first;
        }
        for (size_t k = 0; k < 3; k++)
            if (cases[i].texts[k])
                assert_string_equal(texts[wanted++], cases[i].texts[k]);
        assert_int_equal(n, wanted);
    }
}

/* Two panels have cells of the same size, and numbers fit only into the first.
 * Then neither panel shows numbers. */
TEST(panels_of_equal_cells_have_numbers_together)
{
    const float wide[6] = {2e5f, 3e5f, 4e5f, 2e5f, 3e5f, 4e5f};
    const float narrow[6] = {-1.2e-10f, 3e5f, 4e5f, 2e5f, 3e5f, 4e5f};
    const es_heatmap_panel panels[] = {{"a", NULL, wide, 2, 3},
                                       {"b", NULL, wide, 2, 3},
                                       {"c", NULL, narrow, 2, 3}};
    es_heatmap figure = figure_of(panels, 2);
    es_picture *picture = drawn(&figure);
    ASSERT_SAYS(picture, "2e5");
    es_picture_free(picture);
    figure.n_panels = 3;
    picture = drawn(&figure);
    ASSERT_SAYS_NOT(picture, "2e5", "3e5");
    es_picture_free(picture);
}

/* Powers of ten are equally spaced on the colour bar. Values below the scale
 * have the colour of its lower end. */
TEST(a_logarithmic_scale_has_decades)
{
    const es_color_scale scale = {0.5, 5e5, true, ES_COLORMAP_VIRIDIS};
    assert_int_equal(es_scale_level(&scale, 0.5), 0);
    assert_int_equal(es_scale_level(&scale, 0), 0);
    assert_int_equal(es_scale_level(&scale, -INFINITY), 0);
    assert_int_equal(es_scale_level(&scale, 500), 64);
    assert_int_equal(es_scale_level(&scale, 5e5), 127);
    assert_int_equal(es_scale_level(&scale, 1e9), 127);
    float values[6] = {0, 1, 20, 300, 4000, 5e5f};
    const es_heatmap_panel panel = {"counts", NULL, values, 2, 3};
    es_heatmap figure = figure_of(&panel, 1);
    figure.low = 0.5;
    figure.high = 5e5;
    figure.logarithmic = true;
    figure.style.height = 200;
    AUTO(es_picture) picture = drawn(&figure);
    ASSERT_SAYS(picture, "1", "10³");
}
