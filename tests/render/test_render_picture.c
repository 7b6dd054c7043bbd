/* Tests the display list and its writers: shapes, texts and invalid numbers. */
#include "render/picture_internal.h"
#include "tests/support/chance.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

static const es_color white = {255, 255, 255, 255};
static const es_color red = {255, 0, 0, 255};
static const es_color blue = {0, 0, 255, 255};

static es_picture *blank(double width, double height)
{
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, width, height, white), ES_OK);
    return picture;
}

static es_image drawn(const es_picture *picture, double scale)
{
    es_image out;
    assert_true(picture_image(&out, picture, scale));
    return out;
}

TEST(size_is_checked)
{
    static const double bad[] = {0,   0.99,     -5,       20000.5,
                                 NAN, INFINITY, -INFINITY};
    AUTO(es_picture) picture = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(es_picture_new(&picture, bad[i], 10, white),
                         ES_EUSAGE);
        assert_int_equal(es_picture_new(&picture, 10, bad[i], white),
                         ES_EUSAGE);
        assert_null(picture);
    }
    assert_int_equal(es_picture_new(&picture, 1, 20000, white), ES_OK);
    es_picture_free(NULL);
}

/* Calls every append function several times. Each call passes `bad` as a
 * different numeric argument. */
static void append_bad(es_picture *p, double bad)
{
    es_picture_rect(p, bad, 1, 1, 1, red);
    es_picture_rect(p, 1, 1, bad, 1, red);
    es_picture_frame(p, 1, bad, 1, 1, 1, red);
    es_picture_frame(p, 1, 1, 1, 1, bad, red);
    es_picture_hatch(p, 1, 1, 1, bad, red, blue);
    es_picture_line(p, 1, 1, bad, 1, 1, red);
    es_picture_line(p, 1, 1, 5, 1, bad, red);
    es_picture_dashed(p, 1, 1, 5, 1, 1, bad, red);
    es_picture_polyline(p, (double[]){1, 2, 3, 4}, 2, bad, red);
    es_picture_spans(p, bad, 1, (double[]){1, 2}, 1, red);
    es_picture_spans(p, 1, bad, (double[]){1, 2}, 1, red);
    es_picture_dot(p, 1, bad, 1, red);
    es_picture_dot(p, 1, 1, bad, red);
    es_picture_text(p, bad, 1, 8, ES_ALIGN_START, ES_WEIGHT_NORMAL, 0, red,
                    "text");
    es_picture_text(p, 1, 1, bad, ES_ALIGN_START, ES_WEIGHT_NORMAL, 0, red,
                    "text");
    es_picture_text(p, 1, 1, 8, ES_ALIGN_START, ES_WEIGHT_NORMAL, bad, red,
                    "text");
    es_picture_clip(p, 1, 1, bad, 1);
}

TEST(bad_numbers_are_left_out)
{
    AUTO(es_picture) picture = blank(10, 10);
    append_bad(picture, NAN);
    append_bad(picture, INFINITY);
    append_bad(picture, -INFINITY);
    assert_int_equal(picture->n_shapes, 0);
    es_picture_rect(picture, 1, 1, 0, 5, red);
    es_picture_rect(picture, 1, 1, -2, 5, red);
    es_picture_polyline(picture, NULL, 0, 1, red);
    es_picture_text(picture, 1, 1, 8, ES_ALIGN_START, ES_WEIGHT_NORMAL, 0, red,
                    "");
    assert_int_equal(picture->n_shapes, 0);
    es_picture_rect(picture, 1, 1, 1, 1, red);
    assert_int_equal(picture->n_shapes, 1);
}

TEST(large_numbers_are_clamped)
{
    es_picture *picture = blank(10, 10);
    es_picture_rect(picture, -1e300, -1e9, 1e300, 1e300, red);
    es_picture_line(picture, -1e300, 5, 1e300, 5, 1, blue);
    es_picture_polyline(picture, (double[]){0, 0, 1e300, -1e300}, 2, 1, blue);
    assert_int_equal(picture->n_shapes, 3);
    for (size_t i = 0; i < picture->n_shapes; i++) {
        assert_true(fabs(picture->shapes[i].x) <= 1e5);
        assert_true(fabs(picture->shapes[i].width) <= 2e5);
    }
    assert_true(picture->numbers[2] == 1e5 && picture->numbers[3] == -1e5);
    ASSERT_PIXELS(picture, 1, 0, {3, 5, 0x0000ff});
}

TEST(a_half_bad_pair_is_a_gap)
{
    AUTO(es_picture) picture = blank(10, 10);
    const double points[] = {0, 1, NAN, 2, 3, INFINITY, 4, 5};
    es_picture_polyline(picture, points, 4, 1, red);
    es_picture_spans(picture, 0, 1, points, 4, red);
    assert_int_equal(picture->n_shapes, 2);
    assert_true(picture_is_finite(picture));
    assert_true(isnan(picture->numbers[3]) && isnan(picture->numbers[4]));
    assert_true(picture->numbers[7] == 5);
}

TEST(out_of_memory_is_reported)
{
    es_picture *picture = blank(10, 10);
    es_picture_rect(picture, 1, 1, 1, 1, red);
    /* The number of bytes overflows, so the array must not be read. */
    es_picture_polyline(picture, (double[]){0, 0}, SIZE_MAX / 4, 1, red);
    es_picture_rect(picture, 2, 2, 1, 1, red);
    assert_int_equal(picture->n_shapes, 1);
    FILE *out = fopen("/dev/null", "wb");
    assert_int_equal(es_picture_write(picture, out, ES_FORMAT_PNG, 1, NULL, 0),
                     ES_ENOMEM);
    assert_int_equal(es_picture_write(picture, out, ES_FORMAT_SVG, 1, NULL, 0),
                     ES_ENOMEM);
    fclose(out);
    es_picture_free(picture);

    picture = blank(10, 10);
    es_picture_spans(picture, 0, 1, (double[]){0, 0}, SIZE_MAX / 2 + 1, red);
    assert_true(picture->failed);
    es_picture_free(picture);
}

TEST(rects_meet_at_pixels)
{
    es_picture *picture = blank(8, 4);
    /* 2.4 points are 4.8 pixels at scale 2, so the edge snaps to pixel 5. */
    es_picture_rect(picture, 0, 0, 2.4, 4, red);
    es_picture_rect(picture, 2.4, 0, 3, 4, blue);
    ASSERT_PIXELS(picture, 2, 3, {4, 7, 0xff0000}, {5, 0, 0x0000ff},
                  {10, 0, 0x0000ff}, {11, 0, 0xffffff}, {15, 7, 0xffffff});
}

TEST(lines_are_sharp)
{
    es_picture *picture = blank(10, 10);
    es_picture_line(picture, 0, 5.2, 10, 5.2, 0.5, red);
    es_picture_frame(picture, 2, 1, 5, 2, 0.5, blue);
    ASSERT_PIXELS(picture, 1, 3 /* no blends */, {0, 5, 0xff0000},
                  {9, 5, 0xff0000}, {0, 4, 0xffffff});
}

TEST(a_clip_cuts_until_it_ends)
{
    es_picture *picture = blank(10, 10);
    es_picture_clip(picture, 2, 2, 4, 4);
    es_picture_rect(picture, 0, 0, 10, 10, red);
    es_picture_unclip(picture);
    es_picture_rect(picture, 8, 8, 2, 2, blue);
    ASSERT_PIXELS(picture, 1, 0, {1, 2, 0xffffff}, {2, 2, 0xff0000},
                  {5, 5, 0xff0000}, {6, 5, 0xffffff}, {9, 9, 0x0000ff});
}

TEST(a_polyline_is_interrupted_at_gaps)
{
    es_picture *picture = blank(30, 9);
    const double points[] = {0, 4.5, 9, 4.5, NAN, NAN, 21, 4.5, 30, 4.5};
    es_picture_polyline(picture, points, 5, 3, red);
    ASSERT_PIXELS(picture, 1, 0, {5, 4, 0xff0000}, {15, 4, 0xffffff},
                  {25, 4, 0xff0000});
}

TEST(spans_fill_their_columns)
{
    es_picture *picture = blank(6, 10);
    const double spans[] = {0, 5, NAN, NAN, 5, 10, 7, 3};
    es_picture_spans(picture, 1, 1, spans, 4, blue);
    ASSERT_PIXELS(picture, 1, 0, {0, 2, 0xffffff}, {1, 4, 0x0000ff},
                  {1, 5, 0xffffff}, {2, 4, 0xffffff} /* a gap */,
                  {3, 9, 0x0000ff}, {4, 5, 0xffffff} /* upside down */);
}

TEST(a_hatching_stays_inside)
{
    AUTO(es_picture) picture = blank(20, 20);
    es_picture_hatch(picture, 5, 5, 10, 10, white, red);
    AUTO_BY(image_clear) es_image image = drawn(picture, 1);
    int inside = 0;
    for (int y = 0; y < 20; y++) {
        for (int x = 0; x < 20; x++) {
            bool touched = image_at(&image, x, y) != 0xffffff;
            bool within = x >= 5 && x < 15 && y >= 5 && y < 15;
            assert_true(within || !touched);
            inside += touched;
        }
    }
    assert_in_range(inside, 20, 80);
}

/* Finds the leftmost and the rightmost pixel that is not white, and frees the
 * picture. */
static void ink_extent(es_picture *picture, int *left, int *right)
{
    es_image image = drawn(picture, 1);
    *left = image.width;
    *right = -1;
    for (int i = 0; i < image.height * image.width; i++) {
        int x = i % image.width;
        if (image_at(&image, x, i / image.width) == 0xffffff)
            continue;
        *left = x < *left ? x : *left;
        *right = x > *right ? x : *right;
    }
    image_clear(&image);
    es_picture_free(picture);
}

TEST(text_is_aligned_and_turned)
{
    double width = es_text_width("HHHH", 20, ES_WEIGHT_BOLD);
    int left, right;
    for (int i = ES_ALIGN_START; i <= ES_ALIGN_END; i++) {
        es_picture *picture = blank(200, 30);
        es_picture_text(picture, 100, 25, 20, (es_align)i, ES_WEIGHT_BOLD, 0,
                        red, "HHHH");
        ink_extent(picture, &left, &right);
        assert_true(fabs(left - (100 - width * i / 2)) < 4);
        assert_true(fabs(right - (100 + width * (2 - i) / 2)) < 4);
    }
    es_picture *picture = blank(40, 200);
    es_picture_text(picture, 20, 190, 12, ES_ALIGN_START, ES_WEIGHT_NORMAL, 90,
                    red, "upwards");
    ink_extent(picture, &left, &right);
    assert_true(right <= 24 && left >= 8);
}

#define BAD "\ufffd" /* replaces an invalid byte or character */

TEST(text_is_cleaned)
{
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"h\u00e9llo", "h\u00e9llo"},
        {"\U0001f600", "\U0001f600"},
        {"a\tb\x7f", "a" BAD "b" BAD},
        {"\x1b[31m", BAD "[31m"},
        {"\xc2\x9b", BAD}, /* C1 */
        {"\xff"
         "a",
         /* A continuation byte cannot begin a character. */
         BAD "a"},
        {"\xc3", BAD},                 /* truncated */
        {"\xc0\xaf", BAD BAD},         /* overlong */
        {"\xed\xa0\x80", BAD BAD BAD}, /* D800 */
        {"\xf4\x90\x80\x80", BAD BAD BAD BAD},
        {"\xef\xbf\xbe\xef\xbf\xbf", BAD BAD}, /* FFFE */
        {"\xf0\x9f\xbf\xbe", BAD},             /* 1FFFE */
        {"\xef\xb7\x90", BAD},                 /* FDD0 */
        {BAD "\xef\xb7\x8f", BAD "\xef\xb7\x8f"},
        {"", ""},
    };
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i][1]);
        assert_int_equal(es_text_clean(NULL, cases[i][0]), n);
        assert_int_equal(es_text_clean(out, cases[i][0]), n);
        assert_string_equal(out, cases[i][1]);
    }
}

TEST(text_width_grows_with_the_text)
{
    double one = es_text_width("0", 10, ES_WEIGHT_NORMAL);
    /* In DejaVu Sans a digit is 1303 units wide, where 2048 units are one
     * em. */
    assert_true(fabs(one - 10 * 1303.0 / 2048) < 0.02);
    assert_true(fabs(es_text_width("0000", 10, ES_WEIGHT_NORMAL) - 4 * one) <
                1e-6);
    assert_true(fabs(es_text_width("0", 20, ES_WEIGHT_NORMAL) - 2 * one) <
                1e-6);
    assert_true(es_text_width("0", 10, ES_WEIGHT_BOLD) > one);
    assert_true(es_text_width("", 10, ES_WEIGHT_NORMAL) == 0);
    assert_true(es_text_width("\xff\xfe", 10, ES_WEIGHT_NORMAL) > one);
}

/* Cairo accepts the picture of any string of bytes. */
TEST(any_bytes_can_be_drawn)
{
    uint32_t x = 2024;
    for (int round = 0; round < 300; round++) {
        char text[33] = {0};
        for (int i = 0; i < 32; i++) {
            congruence_bits(&x);
            /* Most bytes belong to multi-byte characters. */
            text[i] = (char)((x >> 24) % 3 ? 0x80 | x >> 20 : x >> 20);
        }
        AUTO(es_picture) picture = blank(300, 20);
        es_picture_text(picture, 2, 15, 9, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                        red, text);
        AUTO_BY(image_clear) es_image image = drawn(picture, 1);
    }
}

TEST(text_is_fitted)
{
    const char *text = "h\xc3\xa9\xc3\xa9\xc3\xa9 \xf0\x9f\x98\x80 \xd7\xa9\xd7"
                       "\x9c\xd7\x95\xd7\x9d and more";
    double whole = es_text_width(text, 9, ES_WEIGHT_BOLD);
    AUTO_FREE char *fitted = es_text_fit(text, whole, 9, ES_WEIGHT_BOLD);
    assert_string_equal(fitted, text);
    free(fitted);
    double widest = 0;
    for (double space = 0; space < whole; space += 0.7) {
        fitted = es_text_fit(text, space, 9, ES_WEIGHT_BOLD);
        double width = es_text_width(fitted, 9, ES_WEIGHT_BOLD);
        assert_true(width <= space);
        assert_null(strstr(fitted, "\xef\xbf\xbd")); /* whole characters */
        /* A larger width never gives a shorter text. */
        assert_true(width >= widest - 1e-9);
        widest = width;
        if (fitted[0])
            assert_non_null(strstr(fitted, "\xe2\x80\xa6"));
        free(fitted);
    }
    assert_true(widest > 0.8 * whole);
    fitted = es_text_fit("x", NAN, 9, ES_WEIGHT_NORMAL);
    assert_string_equal(fitted, "");
}

/* Hebrew and Arabic words with their drawn forms, in code points. */
#define SHALOM "\u05e9\u05dc\u05d5\u05dd"
#define MOLAHS "\u05dd\u05d5\u05dc\u05e9"
#define SALAM "\u0633\u0644\u0627\u0645" /* lam and alef form one glyph */
#define MALAS "\ufee1\ufefc\ufeb3"

TEST(leftward_text_is_turned)
{
    static const struct {
        const char *clean, *drawn;
        bool leftward;
    } cases[] = {
        {SHALOM, MOLAHS, true},
        {"run " SHALOM " 12 (a)", "run 12 " MOLAHS " (a)", false},
        {SHALOM " 12 (a)", "(a) 12 " MOLAHS, true},
        {SHALOM " [x] 3.5", "3.5 [x] " MOLAHS, true},
        {SALAM, MALAS, true},
        /* Digits do not determine the direction of a text. */
        {"1 " SALAM, MALAS " 1", true},
        /* A combining mark precedes its letter in the drawn form. */
        {"\u05e0\u05b4\u05d3", "\u05d3\u05b4\u05e0", true},
        /* The first word begins with the Persian letter peh in its joined form;
           the second word has letters beyond U+FFFF. */
        {"\u067e\u0628", "\ufe90\ufb58", true},
        {"\U00010900\U00010901", "\U00010901\U00010900", true},
        {"\U0001f600 " SHALOM, MOLAHS " \U0001f600", true},
        {"a\u202egnp.exe", "aexe.png", false},
        {"a\u200eb", "ab", false},
        {"\u2067" SHALOM "\u2069 a", MOLAHS " a", false},
        {SHALOM BAD, BAD MOLAHS, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(es_text_is_bidi(cases[i].clean));
        es_drawn drawn = es_text_turn(cases[i].clean);
        assert_non_null(drawn.text);
        assert_string_equal(drawn.text, cases[i].drawn);
        assert_int_equal(drawn.leftward, cases[i].leftward);
        free(drawn.text);
    }
}

/* A PDF stores the original letter of each drawn character, so that text can be
 * searched. */
TEST(turned_text_keeps_its_letters)
{
    es_drawn drawn = es_text_turn(SALAM " (\u200e");
    assert_non_null(drawn.text);
    assert_string_equal(drawn.text, ") " MALAS);
    const char *letters = drawn.text + strlen(drawn.text) + 1;
    assert_string_equal(letters, "( \u0645\ufefc\u0633");
    assert_ptr_equal(drawn.text + drawn.n, letters + strlen(letters) + 1);
    free(drawn.text);
}

TEST(other_text_is_drawn_as_it_is)
{
    static const char *const texts[] = {
        "",       "SM+LN+G 0.25",       "h\u00e9llo", "\u0416\u03a9",
        "\u6f22", "\ue000\u058f\ufb00", "\U0001f680", BAD,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(es_text_is_bidi(texts[i]));
}

/* The width of right-to-left text is the width of its drawn form, and text is
 * cut at its left end, where reading ends. */
TEST(leftward_text_is_measured)
{
    double drawn = es_drawn_width(MALAS, 9, ES_WEIGHT_NORMAL);
    assert_true(es_text_width(SALAM, 9, ES_WEIGHT_NORMAL) == drawn);
    assert_true(es_drawn_width(SALAM, 9, ES_WEIGHT_NORMAL) > drawn);
    const char *text = SHALOM " " SALAM " and more";
    double space = es_text_width(SHALOM "\u2026", 9, ES_WEIGHT_NORMAL) + 0.1;
    AUTO_FREE char *fitted = es_text_fit(text, space, 9, ES_WEIGHT_NORMAL);
    assert_string_equal(fitted, SHALOM "\u2026");
}

/* Right-to-left text covers the same pixels as the same characters in visual
 * order, with any alignment. */
TEST(leftward_text_is_placed)
{
    for (int align = ES_ALIGN_START; align <= ES_ALIGN_END; align++) {
        const char *texts[] = {SALAM " 0.25", "0.25 " MALAS};
        es_image images[2];
        for (int i = 0; i < 2; i++) {
            AUTO(es_picture) picture = blank(200, 30);
            es_picture_text(picture, 100, 20, 12, (es_align)align,
                            ES_WEIGHT_NORMAL, 0, red, texts[i]);
            if (i == 1) /* this text is already in its drawn form */
                picture->shapes[0].drawn = picture->shapes[0].first;
            assert_true(picture_says(picture, texts[i]));
            images[i] = drawn(picture, 1);
        }
        assert_memory_equal(images[0].rgb, images[1].rgb, 200 * 30 * 3);
        image_clear(&images[0]);
        image_clear(&images[1]);
    }
}

static void draw_name(es_picture *picture, const char *name, double x, double y,
                      es_align align, es_font_weight weight)
{
    AUTO_FREE char *fitted = es_text_fit(name, 135, 10, weight);
    assert_non_null(fitted);
    es_picture_frame(picture, x, y, 135, 14, 0.5, blue);
    es_picture_text(picture, align == ES_ALIGN_END ? x + 135 : x, y + 11, 10,
                    align, weight, 0, red, fitted);
}

/* Unusual and malicious names are drawn inside their frames. */
TEST(names_of_any_script_are_drawn)
{
    static char longest[201];
    static const char *const names[] = {
        longest,
        "SM+LN+G lr=3e-4 \u03b3=0.20 \u00b5P \u2192 r\u00e9sum\u00e9",
        "\u041e\u043f\u044b\u0442 \u2116 7, \u03b5\u03bd\u03c4\u03c1",
        SHALOM " run 3.5 (x)",
        "run " SHALOM " 12 (" SHALOM ")",
        "\u05e2\u05b4\u05d1\u05e8\u05b4\u05d9\u05ea " SALAM,
        "\u0645\u064f\u062d\u064e\u0645\u0651\u0644 SM 0.25 " SALAM SALAM,
        "\U0001f600 \u2764\ufe0f \U0001f680 \U0001f469\u200d\U0001f4bb",
        "\u6f22\u5b57 \u0939\u093f",
        SHALOM " " SHALOM " " SALAM " 0.25 " SHALOM " " SHALOM " " SHALOM,
        "a\u202egnp.exe \u2067b\u2069",
        "\x1b[31mred\x1b[0m\r\n\t\x07 \xff\xc3",
        "<b>&amp;</b> \"' ]]> %s%n ../..",
    };
    size_t n = sizeof names / sizeof *names;
    memset(longest, 'W', 200);
    es_picture *picture = blank(300, 20.0 * (double)n + 10);
    for (size_t i = 0; i < n; i++) {
        double y = 20.0 * (double)i + 10;
        draw_name(picture, names[i], 10, y, ES_ALIGN_START, ES_WEIGHT_NORMAL);
        draw_name(picture, names[i], 155, y, ES_ALIGN_END, ES_WEIGHT_BOLD);
    }
    assert_golden(picture, "names");
}
