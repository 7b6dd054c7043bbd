/* Tests the colour maps: their tables, lightness and names. */
#include "render/colormap.h"
#include "tests/support/test.h"

static uint32_t rgb(es_color c)
{
    assert_int_equal(c.a, 255);
    return (uint32_t)c.r << 16 | (uint32_t)c.g << 8 | c.b;
}

/* Each map has the colours that its authors published. Positions outside of
 * [0,1] are clamped. */
TEST(colors_are_the_published_ones)
{
    static const struct {
        es_colormap map;
        double x;
        uint32_t color;
    } cases[] = {
        {ES_COLORMAP_VIRIDIS, 0, 0x440154},
        {ES_COLORMAP_VIRIDIS, 1, 0xfde725},
        {ES_COLORMAP_VIRIDIS, 0.25, 0x3b528b},
        {ES_COLORMAP_VIRIDIS, 0.75, 0x5cc863},
        {ES_COLORMAP_CIVIDIS, 0, 0x00224e},
        {ES_COLORMAP_CIVIDIS, 1, 0xfee838},
        {ES_COLORMAP_MAGMA, 0, 0x000004},
        {ES_COLORMAP_MAGMA, 1, 0xfcfdbf},
        {ES_COLORMAP_MAGMA, -0.5, 0x000004},
        {ES_COLORMAP_MAGMA, -INFINITY, 0x000004},
        {ES_COLORMAP_MAGMA, NAN, 0x000004},
        {ES_COLORMAP_MAGMA, 1.5, 0xfcfdbf},
        {ES_COLORMAP_MAGMA, INFINITY, 0xfcfdbf},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(rgb(es_colormap_at(cases[i].map, cases[i].x)),
                         cases[i].color);
}

TEST(lightness_rises)
{
    for (int map = 0; map < ES_COLORMAP_DIVERGING; map++) {
        double last = -1;
        for (int i = 0; i < 256; i++) {
            es_color c = es_colormap_at((es_colormap)map, i / 255.0);
            double now = es_color_luminance(c);
            /* Rounding to bytes may change a channel by one. */
            assert_true(now > last - 0.002);
            last = now;
        }
        assert_true(last > 0.75);
    }
}

TEST(names_are_parsed)
{
    es_colormap map = ES_COLORMAP_VIRIDIS;
    assert_int_equal(es_colormap_parse(&map, "magma"), ES_OK);
    assert_int_equal(map, ES_COLORMAP_MAGMA);
    assert_int_equal(es_colormap_parse(&map, "cividis"), ES_OK);
    assert_int_equal(map, ES_COLORMAP_CIVIDIS);
    assert_int_equal(es_colormap_parse(&map, "jet"), ES_EUSAGE);
    assert_int_equal(map, ES_COLORMAP_CIVIDIS);
    assert_non_null(strstr(es_message(), "jet"));
    assert_int_equal(es_colormap_parse(&map, ""), ES_EUSAGE);
}

TEST(luminance_is_that_of_srgb)
{
    double white = es_color_luminance((es_color){255, 255, 255, 255});
    double red = es_color_luminance((es_color){255, 0, 0, 255});
    assert_true(fabs(white - 1) < 1e-12);
    assert_true(fabs(red - 0.2126) < 1e-12);
    assert_true(es_color_luminance((es_color){0, 0, 0, 255}) == 0);
    /* Grey 119 of 255 looks half as light as white: it has about 18% of the
       light. */
    double grey = es_color_luminance((es_color){119, 119, 119, 255});
    assert_true(fabs(grey - 0.1844) < 1e-3);
}

/* --- diverging ------------------------------------------------------------*/

static double linear(uint8_t channel)
{
    double s = channel / 255.0;
    return s <= 0.04045 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4);
}

/* Converts linear light to Oklab by the published matrices. */
static void oklab(double out[3], const double light[3])
{
    static const double to_cone[3][3] = {
        {0.4122214708, 0.5363325363, 0.0514459929},
        {0.2119034982, 0.6806995451, 0.1073969566},
        {0.0883024619, 0.2817188376, 0.6299787005}};
    static const double to_lab[3][3] = {
        {0.2104542553, 0.7936177850, -0.0040720468},
        {1.9779984951, -2.4285922050, 0.4505937099},
        {0.0259040371, 0.7827717662, -0.8086757660}};
    double cone[3];
    for (int i = 0; i < 3; i++)
        cone[i] = cbrt(to_cone[i][0] * light[0] + to_cone[i][1] * light[1] +
                       to_cone[i][2] * light[2]);
    for (int i = 0; i < 3; i++)
        out[i] = to_lab[i][0] * cone[0] + to_lab[i][1] * cone[1] +
                 to_lab[i][2] * cone[2];
}

/* Returns the distance of two colours for a viewer without red or green cones,
 * by the projection `seen`: Vienot, Brettel, Mollon 1999. */
static double distance(es_color a, es_color b, const double seen[3][3])
{
    double labs[2][3], sum = 0;
    for (int k = 0; k < 2; k++) {
        es_color c = k ? b : a;
        const double light[3] = {linear(c.r), linear(c.g), linear(c.b)};
        double changed[3];
        for (int i = 0; i < 3; i++)
            changed[i] = fmax(0, seen[i][0] * light[0] + seen[i][1] * light[1] +
                                     seen[i][2] * light[2]);
        oklab(labs[k], changed);
    }
    for (int i = 0; i < 3; i++)
        sum += (labs[0][i] - labs[1][i]) * (labs[0][i] - labs[1][i]);
    return sqrt(sum);
}

static const double all_cones[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
static const double no_red[3][3] = {
    {0.11238, 0.88762, 0}, {0.11238, 0.88762, 0}, {0.00401, -0.00401, 1}};
static const double no_green[3][3] = {
    {0.29275, 0.70725, 0}, {0.29275, 0.70725, 0}, {-0.02234, 0.02234, 1}};

TEST(diverging_steps_are_even)
{
    for (int map = ES_COLORMAP_DIVERGING; map <= ES_COLORMAP_DIVERGING_DARK;
         map++) {
        int last = es_colormap_levels((es_colormap)map) - 1;
        for (int i = 0; i + 6 <= last; i += 3) {
            es_color a = es_colormap_at((es_colormap)map, (double)i / last);
            es_color b =
                es_colormap_at((es_colormap)map, (double)(i + 6) / last);
            double step = distance(a, b, all_cones);
            double whole =
                distance(es_colormap_at((es_colormap)map, i < last / 2 ? 0 : 1),
                         es_colormap_at((es_colormap)map, 0.5), all_cones);
            if (i + 6 <= last / 2 ||
                /* Both colours are on the same side of the map's middle. */
                i >= last / 2)
                assert_true(fabs(step / whole * last / 12 - 1) < 0.15);
        }
    }
}

TEST(diverging_sides_are_equally_light)
{
    for (int map = ES_COLORMAP_DIVERGING; map <= ES_COLORMAP_DIVERGING_DARK;
         map++) {
        es_color middle = es_colormap_at((es_colormap)map, 0.5);
        assert_int_equal(middle.r, middle.g);
        assert_int_equal(middle.g, middle.b);
        for (double x = 0; x < 0.45; x += 0.05) {
            es_color a = es_colormap_at((es_colormap)map, x);
            es_color b = es_colormap_at((es_colormap)map, 1 - x);
            double lightness[2][3];
            oklab(lightness[0],
                  (double[]){linear(a.r), linear(a.g), linear(a.b)});
            oklab(lightness[1],
                  (double[]){linear(b.r), linear(b.g), linear(b.b)});
            assert_true(fabs(lightness[0][0] - lightness[1][0]) < 0.01);
            /* Colours on opposite sides of the map's middle can be
             * distinguished: the distance between the colours is at least a
             * quarter of the distance of each position from the middle. */
            assert_true(distance(a, b, no_red) > 0.25 * (0.5 - x));
            assert_true(distance(a, b, no_green) > 0.25 * (0.5 - x));
        }
    }
}
