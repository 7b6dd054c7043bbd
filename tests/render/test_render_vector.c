/* Tests SVG and PDF files: texts stored as text, metadata, and reproducible
 * bytes. */
#include "render/picture_internal.h"
#include "tests/support/golden_text.h"
#include "tests/support/pictures.h"
#include "tests/support/test.h"

static const es_picture_note notes[] = {
    {"Title", "a <b> & \"c\" 'd' ]]>"},
    {"run", "h\xc3\xa9llo\n<script>alert(1)</script>"},
    {"bad <key>", "\x01\xff\xed\xa0\x80\xef\xbf\xbe"},
};

/* Makes a picture that has every kind of shape, and texts that look like
 * markup. */
static es_picture *sample(void)
{
    const es_color white = {255, 255, 255, 255}, red = {200, 0, 0, 255};
    const es_color faint = {0, 51, 102, 128};
    const double pairs[] = {10, 12, 20, 15, NAN, NAN, 30, 40, 40, 50};
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, 100, 80, white), ES_OK);
    es_picture_rect(picture, 1, 1, 10, 10, red);
    es_picture_frame(picture, 1, 1, 10, 10, 0.5, red);
    es_picture_hatch(picture, 20, 20, 15, 9, white, red);
    es_picture_line(picture, 0, 0, 50, 50, 1, red);
    es_picture_dashed(picture, 0, 70, 100, 70, 1, 3, red);
    es_picture_polyline(picture, pairs, 5, 1, red);
    es_picture_dashed_polyline(picture, pairs, 5, 1, 2.5, red);
    es_picture_spans(picture, 10, 2, pairs, 5, red);
    es_picture_dot(picture, 60, 60, 2, red);
    es_picture_clip(picture, 0, 0, 50, 50);
    es_picture_clip(picture, 2, 2, 40.125, 50);
    es_picture_text(picture, 5, 40, 9, ES_ALIGN_START, ES_WEIGHT_BOLD, 0, red,
                    "surface12 <svg> & id=\"surface3\"");
    es_picture_unclip(picture);
    es_picture_unclip(picture);
    es_picture_text(picture, 90, 70, 9, ES_ALIGN_END, ES_WEIGHT_NORMAL, 90, red,
                    "Caption \x02  \xff");
    es_picture_text(picture, 50, 78, 6, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                    faint, "  0.25");
    es_picture_clip(picture, 0, 0, 50, 50); /* a clip rectangle that is never
                                             * removed */
    es_picture_line(picture, 0, 0.004, 1, 99.996, 0.001, faint);
    return picture;
}

static char *written(size_t *n, const es_picture *picture, es_format format)
{
    char *bytes = picture_bytes(n, picture, format, 1, notes, 3);
    assert_non_null(bytes);
    return bytes;
}

TEST(the_same_picture_gives_the_same_bytes)
{
    AUTO(es_picture) picture = sample();
    for (int format = ES_FORMAT_SVG; format <= ES_FORMAT_PDF; format++) {
        size_t n, again;
        AUTO_FREE char *a = written(&n, picture, (es_format)format);
        AUTO_FREE char *b = written(&again, picture, (es_format)format);
        assert_int_equal(n, again);
        assert_memory_equal(a, b, n);
    }
}

TEST(svg_metadata_is_escaped)
{
    AUTO(es_picture) picture = sample();
    size_t n;
    AUTO_FREE char *svg = written(&n, picture, ES_FORMAT_SVG);
    assert_int_equal(strlen(svg), n);
    assert_non_null(strstr(svg, "<title>a &lt;b&gt; &amp; "));
    assert_non_null(
        strstr(svg, "<desc>run: h\xc3\xa9llo\xef\xbf\xbd&lt;script"));
    assert_non_null(strstr(svg, "\nbad &lt;key&gt;: \xef\xbf\xbd"));
    assert_null(strstr(svg, "<script"));
    assert_null(strstr(svg, "]]>"));
    /* The character U+FFFE is not allowed in XML. */
    assert_null(strstr(svg, "\xef\xbf\xbe"));
    const char *title = strstr(svg, "<title>");
    assert_true(title > strstr(svg, "<svg") && title < strstr(svg, "<rect"));
    assert_string_equal(svg + n - 7, "</svg>\n");
}

TEST(svg_contains_only_finite_numbers)
{
    AUTO(es_picture) picture = sample();
    size_t n;
    AUTO_FREE char *svg = picture_bytes(&n, picture, ES_FORMAT_SVG, 1, NULL, 0);
    assert_non_null(svg);
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    assert_null(strstr(svg, "<title>"));
    assert_null(strstr(svg, "<desc>"));
    assert_non_null(strstr(svg, "width=\"100pt\" height=\"80pt\""));
}

/* The SVG of a picture with every shape equals the golden file. */
TEST(svg_is_golden)
{
    AUTO(es_picture) picture = sample();
    size_t n;
    AUTO_FREE char *svg = written(&n, picture, ES_FORMAT_SVG);
    assert_true(es_text_is_golden(svg, "shapes.svg"));
}

/* Right-to-left text is stored in reading order, and its left and right edges
 * are placed as in PNG. */
TEST(svg_contains_leftward_text_in_reading_order)
{
    static const char *const wanted[] = {
        "<text x=\"9\" y=\"9\" font-size=\"9\" text-anchor=\"end\""
        " direction=\"rtl\"",
        "<text x=\"9\" y=\"9\" font-size=\"9\" text-anchor=\"middle\""
        " direction=\"rtl\"",
        "<text x=\"9\" y=\"9\" font-size=\"9\" direction=\"rtl\"",
    };
    for (int align = ES_ALIGN_START; align <= ES_ALIGN_END; align++) {
        AUTO(es_picture) picture = NULL;
        size_t n;
        assert_int_equal(es_picture_new(&picture, 50, 9, (es_color){.a = 255}),
                         ES_OK);
        es_picture_text(picture, 9, 9, 9, (es_align)align, ES_WEIGHT_NORMAL, 0,
                        (es_color){.a = 255}, "\u05e9\u05dc run");
        AUTO_FREE char *svg = written(&n, picture, ES_FORMAT_SVG);
        assert_non_null(strstr(svg, ">\u05e9\u05dc run</text>"));
        assert_non_null(strstr(svg, wanted[align]));
    }
}

TEST(numbers_are_short)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "0"},
        {0.004, "0"},
        {-0.004, "0"},
        {0.005, ".01"},
        {-0.05, "-.05"},
        {0.1, ".1"},
        {1, "1"},
        {10, "10"},
        {100.5, "100.5"},
        {-123.456, "-123.46"},
        {99.999, "100"},
        {1e5, "100000"},
        {-2e5 + 0.01, "-199999.99"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_buffer b = {0};
        es_buffer_number(&b, cases[i].x);
        es_buffer_add(&b, "", 1);
        assert_string_equal(b.data, cases[i].text);
        free(b.data);
    }
}

TEST(pdf_has_its_metadata)
{
    AUTO(es_picture) picture = sample();
    size_t n;
    AUTO_FREE char *pdf = written(&n, picture, ES_FORMAT_PDF);
    assert_memory_equal(pdf, "%PDF-", 5);
    assert_non_null(memmem(pdf, n, "/Title (a <b> & ", 16));
    assert_non_null(memmem(pdf, n, "/Subject", 8));
    assert_null(memmem(pdf, n, "/CreationDate", 13));
    assert_non_null(
        /* If the font is used, texts are stored as text and not as outlines. */
        memmem(pdf, n, "DejaVuSans", 10));
    assert_non_null(memmem(pdf, n, "%%EOF", 5));
    free(pdf);
    pdf = picture_bytes(&n, picture, ES_FORMAT_PDF, 1, NULL, 0);
    assert_non_null(pdf);
    assert_null(memmem(pdf, n, "/CreationDate", 13));
    assert_null(memmem(pdf, n, "/Title", 6));
}

TEST(a_full_disk_is_an_error)
{
    AUTO(es_picture) picture = sample();
    for (int format = ES_FORMAT_SVG; format <= ES_FORMAT_PDF; format++) {
        for (int buffered = 0; buffered < 2; buffered++) {
            AUTO(FILE) out = fopen("/dev/full", "wb");
            assert_non_null(out);
            if (!buffered)
                setvbuf(out, NULL, _IONBF, 0);
            assert_int_equal(
                es_picture_write(picture, out, (es_format)format, 1, notes, 3),
                ES_EIO);
            assert_non_null(strstr(es_message(), "No space left"));
        }
    }
}

/* The scale in pixels per point does not change SVG or PDF. */
TEST(scale_is_ignored)
{
    AUTO(es_picture) picture = sample();
    size_t n, m;
    AUTO_FREE char *a = picture_bytes(&n, picture, ES_FORMAT_SVG, 1, NULL, 0);
    AUTO_FREE char *b = picture_bytes(&m, picture, ES_FORMAT_SVG, NAN, NULL, 0);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
}
