/* Tests images in pictures, and raster figures. */
#include "render/figures/raster.h"
#include "render/picture_internal.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

static const es_color palette[3] = {
    {255, 255, 255, 255}, {200, 30, 45, 255}, {10, 120, 240, 255}};

static es_picture *image_picture(void)
{
    /* The index 7 is out of range and is drawn like 0. */
    const uint8_t cells[6] = {0, 1, 2, 2, 7, 1};
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, 60, 40, palette[0]), ES_OK);
    es_picture_image(picture, 10, 5, 45, 30, cells, 3, 2, palette, 3);
    return picture;
}

TEST(cells_become_pixels)
{
    static const int wanted[2][3] = {{0, 1, 2}, {2, 0, 1}};
    AUTO(es_picture) picture = image_picture();
    AUTO_BY(image_clear) es_image image;
    assert_true(picture_image(&image, picture, 2));
    assert_int_equal(image.n_palette, 3); /* no blends */
    for (int y = 0; y < 40; y++)
        for (int x = 0; x < 60; x++) {
            bool inside = x >= 10 && x < 55 && y >= 5 && y < 35;
            int color = inside ? wanted[(y - 5) / 15][(x - 10) / 15] : 0;
            assert_int_equal(image_at(&image, 2 * x, 2 * y),
                             image_color(palette[color]));
        }
}

TEST(empty_images_are_left_out)
{
    const uint8_t cells[1] = {0};
    AUTO(es_picture) picture = NULL;
    assert_int_equal(es_picture_new(&picture, 60, 40, palette[0]), ES_OK);
    es_picture_image(picture, 1, 1, 9, 9, cells, 0, 1, palette, 1);
    es_picture_image(picture, 1, 1, 9, 9, cells, 1, 0, palette, 1);
    es_picture_image(picture, 1, 1, 9, 9, cells, 1, 1, palette, 0);
    es_picture_image(picture, 1, 1, NAN, 9, cells, 1, 1, palette, 1);
    es_picture_image(picture, 1, 1, 0, 9, cells, 1, 1, palette, 1);
    assert_int_equal(picture->n_shapes, 0);
}

TEST(svg_contains_a_png)
{
    AUTO(es_picture) picture = image_picture();
    size_t n;
    AUTO_FREE char *svg = picture_bytes(&n, picture, ES_FORMAT_SVG, 1, NULL, 0);
    assert_non_null(svg);
    /* The string is the signature of a PNG, in base64. */
    assert_non_null(strstr(svg, "data:image/png;base64,iVBORw0KGgo"));
}

/* --- merging --------------------------------------------------------------*/

TEST(merged_cells_keep_nan_and_extremes)
{
    const float M = es_missing();
    const float values[2 * 4] = {2, 1.5f, 2.25f, M, 5, 5.125f, NAN, M};
    const float levels[2] = {2, 5};
    const es_raster_grid grid = {values, levels, 2};
    const struct {
        size_t from[2], to[2];
        float wanted;
    } cases[] = {
        /* The dip is farther from the reference level than the rise. */
        {{0, 0}, {1, 3}, 1.5f},
        /* any value takes precedence over a missing one */
        {{0, 2}, {1, 4}, 2.25f},
        {{1, 0}, {2, 4}, NAN},  /* NaN takes precedence over all values */
        {{0, 0}, {2, 2}, 1.5f}, /* each row has its own reference level */
        /* If two values are equally far from the level, the first is kept. */
        {{0, 0}, {2, 1}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float got = es_raster_join(&grid, 4, cases[i].from, cases[i].to);
        assert_true(got == cases[i].wanted ||
                    (isnan(got) && isnan(cases[i].wanted)));
    }
    const size_t from[2] = {0, 3}, to[2] = {2, 4};
    assert_true(es_is_missing(es_raster_join(&grid, 4, from, to)));
}

/* --- the figure -----------------------------------------------------------*/

/* A run of L layers with H heads over n columns. Its values decrease with
 * depth. */
typedef struct model {
    size_t n_layers, n_heads, n_columns;
    float *values, *levels;
} model;

static model make_model(size_t n_layers, size_t n_heads, size_t n_columns)
{
    size_t n_rows = n_layers * (1 + n_heads);
    model m = {n_layers, n_heads, n_columns,
               malloc(n_rows * n_columns * sizeof(float)),
               malloc(n_rows * sizeof(float))};
    assert_true(m.values && m.levels);
    for (size_t r = 0; r < n_rows; r++) {
        m.levels[r] = 2;
        for (size_t i = 0; i < n_columns; i++)
            m.values[r * n_columns + i] =
                (float)(1.9 + 1.9 * sin((double)(r * 7 + i * 3) / 40));
    }
    return m;
}

static es_raster_panel panel_of(const model *m)
{
    return (es_raster_panel){.title = "SM",
                             .subtitle = "eval",
                             .layers = {m->values, m->levels, m->n_layers},
                             .heads = {m->values + m->n_layers * m->n_columns,
                                       m->levels + m->n_layers,
                                       m->n_layers * m->n_heads},
                             .n_columns = m->n_columns,
                             .left = -0.5,
                             .right = (double)m->n_columns - 0.5,
                             .last = (double)m->n_columns - 1};
}

static void free_model(model *m)
{
    free(m->values);
    free(m->levels);
}

static es_picture *drawn(const es_raster_panel *panels, size_t n,
                         es_theme theme)
{
    es_raster figure = {.panels = panels,
                        .n_panels = n,
                        .low = 0,
                        .high = 3.8,
                        .scale_text = "entropy (nats)",
                        .note = "a note"};
    es_picture *picture = NULL;
    figure.style.theme = theme;
    return sound_picture(es_raster_draw(&picture, &figure), &picture);
}

static size_t count_color(const es_image *image, uint32_t color)
{
    size_t n = 0;
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++)
            n += image_at(image, x, y) == color;
    return n;
}

TEST(pictures_are_golden)
{
    model a = make_model(3, 4, 200), b = make_model(5, 2, 40);
    a.values[8 * 200 + 120] = NAN;
    for (size_t r = 0; r < 15; r++)
        for (size_t i = 20; i < 24; i++)
            b.values[r * 40 + i] = es_missing();
    const es_raster_panel panels[2] = {panel_of(&a), panel_of(&b)};
    assert_golden(drawn(panels, 2, ES_THEME_DARK), "raster_two");
    free_model(&a);
    free_model(&b);
}

/* A single NaN among 2048 x 148 cells is visible in the image and at both
 * edges. The file has a palette. */
TEST(one_nan_is_marked)
{
    model m = make_model(4, 36, 2048);
    es_raster_panel panel = panel_of(&m);
    uint32_t alarm = image_color(es_theme_colors(ES_THEME_LIGHT)->alarm);
    AUTO_BY(image_clear) es_image image;
    AUTO(es_picture) clean = drawn(&panel, 1, ES_THEME_LIGHT);
    assert_true(picture_image(&image, clean, 2));
    assert_int_equal(count_color(&image, alarm), 0);
    image_clear(&image);
    m.values[100 * 2048 + 1777] = NAN;
    AUTO(es_picture) picture = drawn(&panel, 1, ES_THEME_LIGHT);
    assert_true(picture_says(picture, "NaN or infinite"));
    assert_true(picture_image(&image, picture, 2));
    assert_in_range(image.n_palette, 64, 256);
    /* In the legend, the square for NaN has 15 x 15 pixels within its frame.
     * Each mark at an edge of the raster has 2 x 6 pixels. */
    assert_true(count_color(&image, alarm) >= 15 * 15 + 12 + 12 + 1);
    free_model(&m);
}

TEST(every_shape_is_drawn_soundly)
{
    static const size_t shapes[][3] = {{1, 1, 1},    {1, 128, 3}, {96, 1, 2048},
                                       {96, 128, 7}, {12, 12, 1}, {2, 3, 500}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        model m = make_model(shapes[i][0], shapes[i][1], shapes[i][2]);
        es_raster_panel panel = panel_of(&m);
        es_picture_free(drawn(&panel, 1, ES_THEME_LIGHT));
        for (size_t k = 0; k < shapes[i][0] * (1 + shapes[i][1]) * shapes[i][2];
             k++)
            m.values[k] = NAN;
        panel.right = panel.left + 3e18;
        panel.last = panel.right;
        es_picture_free(drawn(&panel, 1, ES_THEME_DARK));
        panel.heads.n_rows = 0;
        es_picture_free(drawn(&panel, 1, ES_THEME_LIGHT));
        free_model(&m);
    }
}

/* All ticks are at steps that have a sample, whatever the width of the
 * columns. */
TEST(ticks_are_at_samples)
{
    static const struct {
        size_t n;
        double left, right, first, last;
        const char *there[3], *not_there[2];
    } cases[] = {
        {2, 200, 1000, 400, 800, {"400", "600", "800"}, {"200", "1K"}},
        {2, 6, 10, 7, 9, {"7", "8", "9"}, {"6", "10"}},
        {1, 499.5, 500.5, 500, 500, {"500"}, {"499.5", "500.5"}},
        {1024, 999.5, 3047.5, 1000, 3047, {"1K", "2K", "3K"}, {"500", "3.5K"}},
        {512, 1000, 3050, 1002, 2994, {"1.5K", "2K", "2.5K"}, {"1K", "3K"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model m = make_model(2, 3, cases[i].n);
        es_raster_panel panel = panel_of(&m);
        panel.left = cases[i].left;
        panel.right = cases[i].right;
        panel.first = cases[i].first;
        panel.last = cases[i].last;
        AUTO(es_picture) picture = drawn(&panel, 1, ES_THEME_LIGHT);
        for (size_t k = 0; k < 3 && cases[i].there[k]; k++)
            assert_true(picture_says(picture, cases[i].there[k]));
        for (size_t k = 0; k < 2; k++)
            assert_false(picture_says(picture, cases[i].not_there[k]));
        free_model(&m);
    }
}

/* In a figure as wide as a paper's column, one, two or three rasters side by
 * side have names on their axes. */
TEST(a_narrow_raster_has_names_of_its_axes)
{
    model m = make_model(3, 4, 50);
    const es_raster_panel panels[] = {panel_of(&m), panel_of(&m), panel_of(&m)};
    for (size_t n = 1; n <= 3; n++) {
        es_raster figure = {
            .panels = panels, .n_panels = n, .high = 3.8, .style.width = 234};
        es_picture *picture = NULL;
        sound_picture(es_raster_draw(&picture, &figure), &picture);
        ASSERT_SAYS(picture, "layer", "step");
        es_picture_free(picture);
    }
    free_model(&m);
}

static es_status draw(es_picture **out, const void *figure)
{
    return es_raster_draw(out, figure);
}

TEST(a_requested_size_is_kept)
{
    es_picture *picture = NULL;
    es_raster_panel panel = {.title = "none"};
    es_raster figure = {.panels = &panel, .n_panels = 1};
    assert_int_equal(es_raster_draw(&picture, &figure), ES_EUSAGE);
    figure.n_panels = 0;
    assert_int_equal(es_raster_draw(&picture, &figure), ES_EUSAGE);
    assert_null(picture);
    model m = make_model(2, 3, 4);
    panel = panel_of(&m);
    figure.n_panels = 1;
    assert_sizes_are_kept(draw, &figure, &figure.style);
    free_model(&m);
}
