/* Draws, checks, compares and searches the pictures of tests. */
#include "tests/support/drawn.h"
#include "render/picture_internal.h"
#include "tests/support/test.h"

es_picture *sound_picture(es_status status, es_picture *const *picture)
{
    if (status != ES_OK)
        fail_msg("%s", es_message());
    assert_true(picture_is_finite(*picture));
    assert_true(picture_texts_are_apart(*picture));
    return *picture;
}

void assert_golden(es_picture *picture, const char *name)
{
    bool golden = picture_is_golden(picture, name);
    es_picture_free(picture);
    assert_true(golden);
}

void assert_pixels(es_picture *picture, double scale, int n_colors,
                   const es_wanted_pixel *wanted, size_t n)
{
    AUTO_BY(image_clear) es_image image;
    assert_true(picture_image(&image, picture, scale));
    for (size_t i = 0; i < n; i++)
        if (image_at(&image, wanted[i].x, wanted[i].y) != wanted[i].color)
            fail_msg("(%d,%d) is %06x, not %06x", wanted[i].x, wanted[i].y,
                     image_at(&image, wanted[i].x, wanted[i].y),
                     wanted[i].color);
    if (n_colors)
        assert_int_equal(image.n_palette, n_colors);
    es_picture_free(picture);
}

void assert_sizes_are_kept(es_draw_any *draw, const void *figure,
                           es_figure_style *style)
{
    static const double sizes[][2] = {{510, 0},   {0, 210},   {320, 300},
                                      {900, 190}, {340, 900}, {3000, 2500}};
    es_picture *picture = NULL;
    double width = 0, height = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        style->width = sizes[i][0];
        style->height = sizes[i][1];
        sound_picture(draw(&picture, figure), &picture);
        assert_true(sizes[i][0] == 0 || picture->width == sizes[i][0]);
        assert_true(sizes[i][1] == 0 || picture->height == sizes[i][1]);
        es_picture_free(picture);
        picture = NULL;
    }
    style->width = 40;
    style->height = 30;
    assert_int_equal(draw(&picture, figure), ES_EUSAGE);
    assert_null(picture);
    assert_non_null(strstr(es_message(), "of 40x30 points"));
    const char *least = strstr(es_message(), "at least");
    assert_non_null(least);
    assert_int_equal(sscanf(least, "at least %lfx%lf", &width, &height), 2);
    style->width = width - 2;
    style->height = height;
    assert_int_equal(draw(&picture, figure), ES_EUSAGE);
    style->width = width;
    es_picture_free(sound_picture(draw(&picture, figure), &picture));
}

void assert_same_picture(es_picture *a, es_picture *b)
{
    size_t n_a, n_b;
    AUTO_FREE char *x = picture_bytes(&n_a, a, ES_FORMAT_SVG, 1, NULL, 0);
    AUTO_FREE char *y = picture_bytes(&n_b, b, ES_FORMAT_SVG, 1, NULL, 0);
    assert_true(x && y);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(x, y, n_b);
    es_picture_free(a);
    es_picture_free(b);
}

void assert_says(const es_picture *picture, bool said, const char *const *texts)
{
    for (; *texts; texts++)
        if (picture_says(picture, *texts) != said)
            fail_msg("'%s' is %sin the picture", *texts, said ? "not " : "");
}
