/* Tests that SVG and PDF, rendered by other programs, look like the PNG. */
#include "render/figures/curves.h"
#include "render/figures/heatmap.h"
#include "render/picture_internal.h"
#include "tests/support/test.h"
#include "tests/support/viewers.h"

#define SCALE 2

/*
 * Allowed difference between the mean colours of blocks of 4 x 4 points, on a
 * scale from 0 to 255. Programs smooth letters and slanted lines differently,
 * and in PNG a line thinner than a pixel is a whole pixel wide. If a shape is
 * lost, the difference is at least twice this large.
 */
#define TOLERANCE 30.0

static bool there;

static const es_color white = {255, 255, 255, 255}, black = {0, 0, 0, 255},
                      red = {200, 0, 0, 255}, blue = {20, 40, 160, 255},
                      faint = {0, 51, 102, 128};

static void add_lines(es_picture *picture)
{
    const double points[] = {110, 20,  130, 60, 150, 20,
                             NAN, NAN, 160, 20, 180, 60};
    const double dashed[] = {110, 70, 130, 95, 150, 70, 170, 95};
    double spans[240];
    for (int i = 0; i < 120; i++) {
        spans[2 * i] = 100 + 10 * sin(i / 8.0);
        spans[2 * i + 1] = spans[2 * i] + 4 + (i % 7);
    }
    for (int i = 40; i < 50; i++)
        spans[2 * i] = NAN;
    es_picture_line(picture, 10, 75.3, 90, 75.3, 2, black);
    es_picture_line(picture, 10, 80, 90, 95, 1.5, red);
    es_picture_dashed(picture, 10, 100, 90, 100, 3, 5, black);
    es_picture_polyline(picture, points, 6, 2, blue);
    es_picture_dashed_polyline(picture, dashed, 4, 2, 4, black);
    es_picture_spans(picture, 110, 0.5, spans, 120, red);
    es_picture_dot(picture, 190, 60, 4, black);
}

/* Makes a picture that has every kind of shape, without overlaps. */
static es_picture *shapes(void)
{
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, 200, 180, white), ES_OK);
    es_picture_rect(picture, 10.3, 10.2, 20, 20.6, blue);
    es_picture_rect(picture, 40, 10, 20, 20, faint);
    es_picture_frame(picture, 70, 10, 20, 20, 1.5, red);
    es_picture_hatch(picture, 10, 40, 45, 25, faint, black);
    add_lines(picture);
    es_picture_text(picture, 10, 130, 14, ES_ALIGN_START, ES_WEIGHT_BOLD, 0,
                    black, "Bold <&> 0.25");
    es_picture_text(picture, 60, 150, 9, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                    blue, "h\xc3\xa9llo in the middle");
    es_picture_text(picture, 195, 110, 10, ES_ALIGN_END, ES_WEIGHT_NORMAL, 90,
                    red, "upwards");
    es_picture_text(picture, 150, 170, 10, ES_ALIGN_START, ES_WEIGHT_NORMAL, 30,
                    black, "slanting");
    es_picture_clip(picture, 20, 160, 30, 15);
    es_picture_dot(picture, 20, 167, 20, red);
    es_picture_unclip(picture);
    es_picture_rect(picture, 60, 160, 70, 15, blue);
    return picture;
}

static void assert_same(const es_picture *picture, const char *name)
{
    es_image ours, theirs;
    int x, y;
    if (!there)
        es_skip("rsvg-convert, pdftoppm or the font is missing");
    assert_true(picture_image(&ours, picture, SCALE));
    for (int format = ES_FORMAT_SVG; format <= ES_FORMAT_PDF; format++) {
        assert_true(viewers_image(&theirs, picture, (es_format)format, SCALE));
        double difference = image_difference(&ours, &theirs, &x, &y);
        if (!(difference <= TOLERANCE))
            fprintf(stderr, "%s, format %d: differs by %.1f at (%d,%d)\n", name,
                    format, difference, x, y);
        image_clear(&theirs);
        assert_true(difference <= TOLERANCE);
    }
    image_clear(&ours);
}

TEST(every_shape_looks_alike_in_all_formats)
{
    AUTO(es_picture) picture = shapes();
    assert_same(picture, "shapes");
}

static void remove_shape(es_picture *picture, size_t i)
{
    memmove(picture->shapes + i, picture->shapes + i + 1,
            (picture->n_shapes - i - 1) * sizeof *picture->shapes);
    picture->n_shapes--;
}

/* If any shape or clip is lost, the comparison notices it. */
TEST(a_lost_shape_is_noticed)
{
    AUTO(es_picture) whole = shapes();
    size_t n = whole->n_shapes;
    AUTO_BY(image_clear) es_image ours;
    int x, y;
    if (!there)
        es_skip("rsvg-convert, pdftoppm or the font is missing");
    assert_true(picture_image(&ours, whole, SCALE));
    for (size_t i = 0; i < n; i++) {
        AUTO(es_picture) picture = shapes();
        AUTO_BY(image_clear) es_image theirs;
        remove_shape(picture, i);
        assert_true(viewers_image(&theirs, picture, ES_FORMAT_SVG, SCALE));
        double difference = image_difference(&ours, &theirs, &x, &y);
        if (!(difference > 2 * TOLERANCE))
            fprintf(stderr, "without shape %zu: differs by only %.1f\n", i,
                    difference);
        assert_true(difference > 2 * TOLERANCE);
    }
}

static es_picture *heatmap(void)
{
    enum { L = 7, H = 9 };
    float values[L * H];
    for (int i = 0; i < L * H; i++)
        values[i] = (float)(i * 37 % 61) / 16;
    values[11] = values[12] = NAN;
    values[30] = INFINITY;
    const es_heatmap_panel panels[] = {
        {"SM+LN+G", "step 400", values, L, H},
        {"one head", "step 12K", values + 8, L, 1},
    };
    const es_heatmap figure = {.style = {.title = "A title"},
                               .panels = panels,
                               .n_panels = 2,
                               .high = 3.87,
                               .scale_text = "entropy (nats)",
                               .note = "a note"};
    es_picture *picture = NULL;
    assert_int_equal(es_heatmap_draw(&picture, &figure), ES_OK);
    return picture;
}

TEST(a_heatmap_looks_alike_in_all_formats)
{
    AUTO(es_picture) picture = heatmap();
    assert_same(picture, "heatmap");
}

static es_picture *leftward(void)
{
    static const char *const texts[] = {
        "\u05e9\u05dc\u05d5\u05dd run 3.5 (x)",
        "run \u05e9\u05dc\u05d5\u05dd 12 (a)",
        "\u0645\u0631\u062d\u0628\u0627 SM+LN 0.25",
        "SM \u0633\u0644\u0627\u0645",
    };
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, 560, 120, white), ES_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int align = ES_ALIGN_START; align <= ES_ALIGN_END; align++)
            es_picture_text(picture, 10 + 270 * align, 25.0 + 25 * (double)i, 9,
                            (es_align)align, ES_WEIGHT_NORMAL, 0, black,
                            texts[i]);
    }
    return picture;
}

/* Viewers reorder and join right-to-left letters in the same way as the PNG
 * writer. */
TEST(leftward_text_looks_alike_in_all_formats)
{
    AUTO(es_picture) picture = leftward();
    assert_same(picture, "leftward text");
}

TEST(curves_look_alike_in_all_formats)
{
    enum { N = 4000, FEW = 40 };
    static int64_t steps[N];
    static float many[N], few[FEW];
    for (int i = 0; i < N; i++) {
        steps[i] = i * 5;
        many[i] = (float)(2 + sin(i / 300.0) + (i * 31 % 97) / 400.0);
    }
    for (int i = 0; i < FEW; i++)
        few[i] = i % 11 == 5 ? NAN : (float)(1 + cos(i / 4.0));
    const es_curve curves[] = {
        {.label = "layer 0", .x = steps, .values = many, .n = N},
        {.label = "layer 1", .x = steps, .values = few, .n = FEW}};
    const es_curves_panel panels[] = {{"SM", "many samples", curves, 1},
                                      {"SM+LN", "few", curves + 1, 1}};
    const es_curves figure = {.panels = panels,
                              .n_panels = 2,
                              .reference = 3.2,
                              .reference_text = "ceiling",
                              .line_text = "layer"};
    AUTO(es_picture) picture = NULL;
    assert_int_equal(es_curves_draw(&picture, &figure), ES_OK);
    assert_same(picture, "curves");
}

/* Replaces thin spaces by plain spaces, as pdftotext does. The caller frees the
 * string. */
static char *plain_spaces(const char *text)
{
    static const char thin[] = "\u2009";
    char *out = strdup(text), *at;
    assert_non_null(out);
    while ((at = strstr(out, thin))) {
        *at = ' ';
        memmove(at + 1, at + sizeof thin - 1, strlen(at + sizeof thin - 1) + 1);
    }
    return out;
}

/* Checks that `text`, the output of pdftotext, contains all texts of the
 * picture. pdftotext puts rotated letters on separate lines. */
static void assert_texts_are_in(const es_picture *picture, const char *text)
{
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *s = &picture->shapes[i];
        if (s->kind != ES_SHAPE_TEXT || fmod(s->degrees, 90) != 0)
            continue;
        AUTO_FREE char *wanted = plain_spaces(picture->text + s->first);
        if (!strstr(text, wanted))
            fprintf(stderr, "not found: %s\n", wanted);
        assert_non_null(strstr(text, wanted));
    }
}

static char *pdf_text(const es_picture *picture)
{
    char *text = viewers_print(picture, "pdftotext");
    assert_non_null(text);
    return text;
}

TEST(pdf_text_is_found)
{
    if (!there)
        es_skip("rsvg-convert, pdftoppm or the font is missing");
    es_picture *pictures[] = {shapes(), heatmap()};
    for (size_t i = 0; i < 2; i++) {
        AUTO_FREE char *text = pdf_text(pictures[i]);
        assert_texts_are_in(pictures[i], text);
        es_picture_free(pictures[i]);
    }
}

/* pdftotext finds right-to-left text in reading order and as plain letters,
 * except the ligature of lam and alef. It adds directional marks around the
 * text. */
TEST(pdf_leftward_text_is_found)
{
    static const char *const words[] = {
        "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627",
        "\u0633\ufefc\u0645", "SM+LN 0.25", "run 3.5 (x"};
    if (!there)
        es_skip("rsvg-convert, pdftoppm or the font is missing");
    AUTO(es_picture) picture = leftward();
    AUTO_FREE char *text = pdf_text(picture);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_non_null(strstr(text, words[i]));
}

/* The columns of pdffonts are name, type, encoding, embedded, subset and
 * Unicode. */
TEST(pdf_fonts_are_embedded)
{
    if (!there)
        es_skip("rsvg-convert, pdftoppm or the font is missing");
    AUTO(es_picture) picture = shapes();
    AUTO_FREE char *fonts = viewers_print(picture, "pdffonts");
    assert_non_null(fonts);
    assert_non_null(strstr(fonts, "+DejaVuSans "));
    assert_non_null(strstr(fonts, "+DejaVuSans-Bold "));
    size_t n = 0;
    for (const char *line = strchr(fonts, '+'); line;
         line = strchr(line, '+')) {
        line = strchr(line, '\n');
        assert_non_null(line);
        assert_non_null(memmem(line - 30, 30, " yes yes yes ", 13));
        n++;
    }
    assert_int_equal(n, 2);
}

static int open_viewers(void **state)
{
    there = viewers_open();
    return 0;
}

static int close_viewers(void **state)
{
    viewers_close();
    return 0;
}

TEST_GROUP(open_viewers, close_viewers)
