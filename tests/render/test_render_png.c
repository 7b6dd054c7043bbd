/* Tests the PNG writer: palettes, exact colours and notes. */
#include "render/picture_internal.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

#include <png.h>

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

/* Makes a picture of n squares with n colours, in rows of 20 squares. */
static es_picture *squares(unsigned n)
{
    es_picture *picture = blank(40, 40);
    for (unsigned i = 0; i < n; i++)
        es_picture_rect(picture, i % 20 * 2, i / 20 * 2, 2, 2, color_of(i));
    return picture;
}

TEST(up_to_256_colors_are_a_palette)
{
    /* With the background, 255 squares have 256 colours. */
    static const unsigned counts[] = {7, 255, 256, 400};
    for (size_t k = 0; k < 4; k++) {
        AUTO(es_picture) picture = squares(counts[k]);
        AUTO_BY(image_clear) es_image image;
        assert_true(picture_image(&image, picture, 1));
        assert_int_equal(image.color_type, counts[k] < 256
                                               ? PNG_COLOR_TYPE_PALETTE
                                               : PNG_COLOR_TYPE_RGB);
        for (unsigned i = 0; i < counts[k]; i++)
            assert_int_equal(
                image_at(&image, (int)(i % 20 * 2), (int)(i / 20 * 2 + 1)),
                image_color(color_of(i)));
    }
}

static bool is_named(uint32_t color, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (image_color(color_of(i)) == color)
            return true;
    return color == 0xffffff;
}

/* If the smoothed edges of letters need too many colours, similar colours share
 * a palette entry. They change by a bounded amount only; the colours of shapes
 * stay exact. */
TEST(blends_share_entries)
{
    AUTO(es_picture) picture = squares(120);
    for (int i = 0; i < 12; i++)
        es_picture_text(picture, 0, 4 + i, 7, ES_ALIGN_START, ES_WEIGHT_NORMAL,
                        0, color_of((unsigned)i), "%@&WQ8");
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, 80, 80);
    cairo_t *cr = cairo_create(surface);
    assert_int_equal(es_picture_play(picture, cr, 2), CAIRO_STATUS_SUCCESS);
    cairo_surface_flush(surface);
    const unsigned char *data = cairo_image_surface_get_data(surface);
    AUTO_BY(image_clear) es_image image;
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
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
}

TEST(wide_rows_are_written)
{
    for (unsigned n = 200; n <= 1500; n += 1300) {
        AUTO(es_picture) picture = blank(16000, 3);
        for (unsigned x = 0; x < 16000; x++)
            es_picture_rect(picture, x, 1, 1, 1, color_of(x % n));
        AUTO_BY(image_clear) es_image image;
        assert_true(picture_image(&image, picture, 2));
        assert_int_equal(image.color_type, n == 200 ? PNG_COLOR_TYPE_PALETTE
                                                    : PNG_COLOR_TYPE_RGB);
        assert_int_equal(image.width, 32000);
        for (int x = 31999; x > 0; x -= 998)
            assert_int_equal(image_at(&image, x, 2 + (x & 1)),
                             image_color(color_of((unsigned)x / 2 % n)));
    }
}

TEST(size_is_checked)
{
    static const struct {
        double scale;
        es_status status;
    } cases[] = {{0.01, ES_OK},
                 {0, ES_EUSAGE},
                 {NAN, ES_EUSAGE},
                 {INFINITY, ES_EUSAGE},
                 {2, ES_EUSAGE}};
    AUTO(es_picture) picture = blank(20000, 2);
    AUTO(FILE) out = fopen("/dev/null", "wb");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(es_picture_write(picture, out, ES_FORMAT_PNG,
                                          cases[i].scale, NULL, 0),
                         cases[i].status);
    assert_non_null(strstr(es_message(), "40000x4"));
}

TEST(notes_are_read_back)
{
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
    AUTO(es_picture) picture = blank(10, 10);
    size_t n;
    AUTO_FREE char *bytes =
        picture_bytes(&n, picture, ES_FORMAT_PNG, 1, notes, 6);
    AUTO_BY(image_clear) es_image image;
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
}

TEST(the_same_picture_gives_the_same_bytes)
{
    AUTO(es_picture) picture = squares(99);
    es_picture_text(picture, 1, 9, 8, ES_ALIGN_START, ES_WEIGHT_NORMAL, 0,
                    color_of(3), "text");
    size_t n, again;
    AUTO_FREE char *a = picture_bytes(&n, picture, ES_FORMAT_PNG, 2, NULL, 0);
    AUTO_FREE char *b =
        picture_bytes(&again, picture, ES_FORMAT_PNG, 2, NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(n, again);
    assert_memory_equal(a, b, n);
}

/* The writer reports a full disk for a PNG with a palette, for RGB, and for a
 * picture that is so small that only the final flush writes it. */
TEST(a_full_disk_is_an_error)
{
    static const struct {
        unsigned n;
        double scale;
    } cases[] = {{3, 20}, {400, 20}, {1, 0.1}};
    for (size_t i = 0; i < 6; i++) {
        AUTO(es_picture) picture = squares(cases[i / 2].n);
        AUTO(FILE) out = fopen("/dev/full", "wb");
        assert_non_null(out);
        if (i % 2)
            setvbuf(out, NULL, _IONBF, 0);
        assert_int_equal(es_picture_write(picture, out, ES_FORMAT_PNG,
                                          cases[i / 2].scale, NULL, 0),
                         ES_EIO);
        assert_non_null(strstr(es_message(), "No space left"));
    }
}

TEST(formats_are_parsed)
{
    static const struct {
        const char *path;
        bool found;
        es_format format;
    } paths[] = {{"a.b/x.y.PDF", true, ES_FORMAT_PDF},
                 {"x.png", true, ES_FORMAT_PNG},
                 {"a.svg/x", false, 0},
                 {"png", false, 0},
                 {"x.pngx", false, 0},
                 {"", false, 0}};
    es_format format = ES_FORMAT_PNG;
    assert_int_equal(es_format_parse(&format, "svg"), ES_OK);
    assert_int_equal(format, ES_FORMAT_SVG);
    assert_string_equal(es_format_name(format), "svg");
    assert_int_equal(es_format_parse(&format, "jpeg"), ES_EUSAGE);
    assert_non_null(strstr(es_message(), "png, svg, pdf or txt"));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(es_format_of_path(&format, paths[i].path),
                         paths[i].found);
        assert_true(!paths[i].found || format == paths[i].format);
    }
}
