/* The PNG writer: palettes, exact colours, notes. */
#include "render/picture_internal.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/pictures.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>

static const es_color white = {255, 255, 255, 255};

static es_picture *blank(double width, double height)
{
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, width, height, white), ES_OK);
    return picture;
}

static es_color color_of(unsigned i)
{
    return (es_color){(uint8_t)(i * 7), (uint8_t)(i >> 3), (uint8_t)(i * 13),
                      255};
}

/* n squares of n colours, in rows of 20. */
static es_picture *squares(unsigned n)
{
    es_picture *picture = blank(40, 40);
    for (unsigned i = 0; i < n; i++)
        es_picture_rect(picture, i % 20 * 2, i / 20 * 2, 2, 2, color_of(i));
    return picture;
}

static void check_squares(unsigned n, int color_type)
{
    es_picture *picture = squares(n);
    es_image image;
    assert_true(picture_image(&image, picture, 1));
    assert_int_equal(image.color_type, color_type);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(
            image_at(&image, (int)(i % 20 * 2), (int)(i / 20 * 2 + 1)),
            image_color(color_of(i)));
    image_clear(&image);
    es_picture_free(picture);
}

static void test_png__up_to_256_colors_are_a_palette(void **state)
{
    (void)state;
    check_squares(7, PNG_COLOR_TYPE_PALETTE);
    check_squares(255, PNG_COLOR_TYPE_PALETTE); /* and the background */
    check_squares(256, PNG_COLOR_TYPE_RGB);
    check_squares(400, PNG_COLOR_TYPE_RGB);
}

static bool is_named(uint32_t color, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (image_color(color_of(i)) == color)
            return true;
    return color == 0xffffff;
}

/* What the merged blends may cost, and that named colours cost nothing. */
static void test_png__blends_share_entries(void **state)
{
    (void)state;
    es_picture *picture = squares(120);
    for (int i = 0; i < 12; i++)
        es_picture_text(picture, 0, 4 + i, 7, ES_ALIGN_START, ES_WEIGHT_NORMAL,
                        0, color_of((unsigned)i), "%@&WQ8");
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, 80, 80);
    cairo_t *cr = cairo_create(surface);
    assert_int_equal(es_picture_play(picture, cr, 2), CAIRO_STATUS_SUCCESS);
    cairo_surface_flush(surface);
    const unsigned char *data = cairo_image_surface_get_data(surface);
    es_image image;
    assert_true(picture_image(&image, picture, 2));
    assert_int_equal(image.color_type, PNG_COLOR_TYPE_PALETTE);
    int changed = 0;
    for (int y = 0; y < 80; y++) {
        for (int x = 0; x < 80; x++) {
            const unsigned char *p =
                data + y * cairo_image_surface_get_stride(surface) + 4 * x;
            uint32_t got = image_at(&image, x, y);
            uint32_t drawn = image_color((es_color){p[2], p[1], p[0], 255});
            assert_true(got == drawn || !is_named(drawn, 120));
            changed += got != drawn;
            for (int c = 0; c < 3; c++)
                assert_in_range(p[c] + 31 - (int)(got >> 8 * c & 255), 0, 62);
        }
    }
    assert_true(changed > 0);
    image_clear(&image);
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    es_picture_free(picture);
}

static void check_wide(int color_type, unsigned n_colors)
{
    es_picture *picture = blank(16000, 3);
    for (unsigned x = 0; x < 16000; x++)
        es_picture_rect(picture, x, 1, 1, 1, color_of(x % n_colors));
    es_image image;
    assert_true(picture_image(&image, picture, 2));
    assert_int_equal(image.color_type, color_type);
    assert_int_equal(image.width, 32000);
    for (int x = 0; x < 32000; x += 999)
        assert_int_equal(image_at(&image, x, 2),
                         image_color(color_of((unsigned)x / 2 % n_colors)));
    assert_int_equal(image_at(&image, 31999, 3),
                     image_color(color_of(15999 % n_colors)));
    image_clear(&image);
    es_picture_free(picture);
}

static void test_png__wide_rows_are_written(void **state)
{
    (void)state;
    check_wide(PNG_COLOR_TYPE_PALETTE, 200);
    check_wide(PNG_COLOR_TYPE_RGB, 1500);
}

static void test_png__size_is_checked(void **state)
{
    (void)state;
    es_picture *picture = blank(20000, 2);
    FILE *out = fopen("/dev/null", "wb");
    assert_int_equal(es_picture_write(picture, out, ES_FORMAT_PNG, 2, NULL, 0),
                     ES_EUSAGE);
    assert_non_null(strstr(es_message(), "40000x4"));
    assert_int_equal(es_picture_write(picture, out, ES_FORMAT_PNG, 0, NULL, 0),
                     ES_EUSAGE);
    assert_int_equal(
        es_picture_write(picture, out, ES_FORMAT_PNG, NAN, NULL, 0), ES_EUSAGE);
    assert_int_equal(
        es_picture_write(picture, out, ES_FORMAT_PNG, INFINITY, NULL, 0),
        ES_EUSAGE);
    assert_int_equal(
        es_picture_write(picture, out, ES_FORMAT_PNG, 0.01, NULL, 0), ES_OK);
    fclose(out);
    es_picture_free(picture);
}

static void test_png__notes_are_read_back(void **state)
{
    (void)state;
    char longest[101];
    memset(longest, 'k', 100);
    longest[100] = '\0';
    const es_picture_note notes[] = {
        {"Title", "SM+LN+G & <friends>"},
        {"run", "h\xc3\xa9llo \xf0\x9f\x98\x80"},
        {"bad \x01 value", "a\nb\xff"},
        {longest, "long"},
        {"", "empty"},
        {" x ", ""},
    };
    es_picture *picture = blank(10, 10);
    size_t n;
    char *bytes = picture_bytes(&n, picture, ES_FORMAT_PNG, 1, notes, 6);
    es_image image;
    assert_non_null(bytes);
    assert_true(image_read(&image, bytes, n));
    assert_int_equal(image.n_notes, 6);
    assert_string_equal(image_note(&image, "Title"), "SM+LN+G & <friends>");
    assert_string_equal(image_note(&image, "run"),
                        "h\xc3\xa9llo \xf0\x9f\x98\x80");
    assert_string_equal(image_note(&image, "bad - value"), "a\xef\xbf\xbd"
                                                           "b\xef\xbf\xbd");
    assert_string_equal(image_note(&image, longest + 21), "long");
    assert_string_equal(image_note(&image, "-"), "empty");
    assert_string_equal(image_note(&image, "-x-"), "");
    assert_true(memmem(bytes, n, "tEXtTitle", 9) != NULL);
    assert_true(memmem(bytes, n, "iTXtrun", 7) != NULL);
    assert_true(memmem(bytes, n, "tIME", 4) == NULL);
    image_clear(&image);
    free(bytes);
    es_picture_free(picture);
}

static void test_png__the_same_picture_gives_the_same_bytes(void **state)
{
    (void)state;
    es_picture *picture = squares(99);
    es_picture_text(picture, 1, 9, 8, ES_ALIGN_START, ES_WEIGHT_NORMAL, 0,
                    color_of(3), "text");
    size_t n, again;
    char *a = picture_bytes(&n, picture, ES_FORMAT_PNG, 2, NULL, 0);
    char *b = picture_bytes(&again, picture, ES_FORMAT_PNG, 2, NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(n, again);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
    es_picture_free(picture);
}

static void test_png__a_full_disk_is_an_error(void **state)
{
    (void)state;
    for (unsigned n = 3; n <= 400; n += 397) { /* palette, RGB */
        es_picture *picture = squares(n);
        FILE *out = fopen("/dev/full", "wb");
        assert_non_null(out);
        assert_int_equal(
            es_picture_write(picture, out, ES_FORMAT_PNG, 20, NULL, 0), ES_EIO);
        assert_non_null(strstr(es_message(), "No space left"));
        setvbuf(out, NULL, _IONBF, 0);
        assert_int_equal(
            es_picture_write(picture, out, ES_FORMAT_PNG, 1, NULL, 0), ES_EIO);
        fclose(out);
        es_picture_free(picture);
    }
}

/* So small that nothing is written before the flush. */
static void test_png__a_disk_full_at_the_flush_is_an_error(void **state)
{
    (void)state;
    es_picture *picture = blank(2, 2);
    FILE *out = fopen("/dev/full", "wb");
    assert_non_null(out);
    assert_int_equal(es_picture_write(picture, out, ES_FORMAT_PNG, 1, NULL, 0),
                     ES_EIO);
    assert_non_null(strstr(es_message(), "No space left"));
    fclose(out);
    es_picture_free(picture);
}

static void test_png__formats_are_parsed(void **state)
{
    (void)state;
    es_format format = ES_FORMAT_PNG;
    assert_int_equal(es_format_parse(&format, "svg"), ES_OK);
    assert_int_equal(format, ES_FORMAT_SVG);
    assert_int_equal(es_format_parse(&format, "jpeg"), ES_EUSAGE);
    assert_non_null(strstr(es_message(), "png, svg or pdf"));
    assert_true(es_format_of_path(&format, "a.b/x.y.PDF"));
    assert_int_equal(format, ES_FORMAT_PDF);
    assert_true(es_format_of_path(&format, "x.png"));
    assert_int_equal(format, ES_FORMAT_PNG);
    assert_false(es_format_of_path(&format, "a.svg/x"));
    assert_false(es_format_of_path(&format, "png"));
    assert_false(es_format_of_path(&format, "x.pngx"));
    assert_false(es_format_of_path(&format, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png__up_to_256_colors_are_a_palette),
        cmocka_unit_test(test_png__blends_share_entries),
        cmocka_unit_test(test_png__wide_rows_are_written),
        cmocka_unit_test(test_png__size_is_checked),
        cmocka_unit_test(test_png__notes_are_read_back),
        cmocka_unit_test(test_png__the_same_picture_gives_the_same_bytes),
        cmocka_unit_test(test_png__a_full_disk_is_an_error),
        cmocka_unit_test(test_png__a_disk_full_at_the_flush_is_an_error),
        cmocka_unit_test(test_png__formats_are_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
