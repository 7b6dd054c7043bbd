/* Tests titles: which architectures are typeset, and where their letters are
 * drawn. */
#include "render/figures/title.h"
#include "render/picture_internal.h"
#include "tests/support/pictures.h"
#include "tests/support/test.h"

#define THIN "\xe2\x80\x89"

static const es_color ink = {0, 0, 0, 255};

static es_picture *page(void)
{
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, 400, 40, ink), ES_OK);
    return picture;
}

static es_picture *drawn(const char *text, es_align align, double width)
{
    es_picture *picture = page();
    es_draw_fitted(picture, 200, 20, 9, align, ES_WEIGHT_BOLD, ink, text,
                   width);
    return picture;
}

/* Returns the texts of the picture, joined by "|". */
static const char *texts_of(const es_picture *picture)
{
    static char out[2048];
    out[0] = '\0';
    for (size_t i = 0; i < picture->n_shapes; i++) {
        strcat(out, i > 0 ? "|" : "");
        strcat(out, picture->text + picture->shapes[i].first);
    }
    return out;
}

static void assert_texts(const char *expected, const char *text, double width)
{
    AUTO(es_picture) picture = drawn(text, ES_ALIGN_START, width);
    assert_string_equal(texts_of(picture), expected);
}

TEST(notation_is_recognised)
{
    static const char *const notation[] = {
        "SM",
        "SM+LN+G",
        "SM + LN\t+ GT",
        "SM(t)+ScFuFFN",
        "EReg(SM(t)+ScFuFFNi6)",
        "PSM(4,1e-3)+LN+G",
        "SM+LR(0.05)",
        "SM+LR(layer,0.01)+WNorm(QKVO,FFN)",
        "SM+LR(5e+0)",
        "SM+SNorm(QK,FFN)",
    };
    static const char *const others[] = {
        "",
        "R",
        "SMR",
        "SM LN",
        "SM+LN+LN",
        "SM+LN+G, seed 1",
        "SM+LN+G (2)x",
        "EReg(SM",
        "SM)+(R",
        "SM+ScFuFFNi",
        "SM+ScFuFFNi6b",
        "SM-LN",
        "step 400",
        "\xf0\x9f\x98\x80",
        "SM+\xc3\xa4",
    };
    for (size_t i = 0; i < sizeof notation / sizeof *notation; i++)
        if (!es_title_is_arch(notation[i]))
            fail_msg("%s is notation", notation[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (es_title_is_arch(others[i]))
            fail_msg("'%s' is not recognised as notation", others[i]);
}

TEST(notation_is_typeset)
{
    assert_texts("SM" THIN "+" THIN "LN" THIN "+" THIN "G", "SM+LN + G", 1e3);
    assert_texts("EReg(SM(t)" THIN "+" THIN "ScFuFFN|i|12|)",
                 "EReg(SM(t)+ScFuFFNi12)", 1e3);
    assert_texts("SM" THIN "+" THIN "LR(layer," THIN "0.05)",
                 "SM+LR(layer,0.05)", 1e3);
    assert_texts("SM" THIN "+" THIN "LR(5e+0)", "SM+LR(5e+0)", 1e3);
    assert_texts("SM+LN+G-seed-1", "SM+LN+G-seed-1", 1e3); /* a run's name */
}

TEST(notation_with_settings_or_seeds_is_typeset)
{
    assert_texts("SM" THIN "+" THIN "LN, \xce\xb3 = 0.2, a+b",
                 "SM+LN, \xce\xb3 = 0.2, a+b", 1e3);
    assert_texts("SM" THIN "+" THIN "ScFuFFN|i|6| (3 seeds, 1 NaN)",
                 "SM+ScFuFFNi6 (3 seeds, 1 NaN)", 1e3);
    assert_texts("a+b (3 seeds)", "a+b (3 seeds)", 1e3);
    assert_texts("SM+LR(layer, x+y", "SM+LR(layer, x+y", 1e3);
}

/* With many spaces, a title can be longer than any valid notation. */
TEST(an_overlong_title_is_drawn_as_it_is)
{
    char text[400];
    snprintf(text, sizeof text, "SM%*s+R", 250, "");
    assert_texts("SM" THIN "+" THIN "R", text, 1e3);
    snprintf(text, sizeof text, "SM%*s+R", 300, "");
    assert_texts(text, text, 1e3);
}

/* All letters are inside the requested width, with any alignment. */
TEST(letters_lie_within_the_width)
{
    static const double before[] = {0, 0.5, 1};
    const char *arch = "EReg(SM(t)+ScFuFFNi6)";
    double width = es_title_width(arch, 9, ES_WEIGHT_BOLD);
    for (es_align align = ES_ALIGN_START; align <= ES_ALIGN_END; align++) {
        AUTO(es_picture) picture = drawn(arch, align, width);
        const es_picture_shape *s = picture->shapes;
        assert_int_equal(picture->n_shapes, 4);
        assert_true(fabs(s[0].x - (200 - before[align] * width)) < 1e-9);
        assert_true(s[1].size < s[0].size && s[2].size < s[1].size);
        assert_true(s[1].y > s[0].y && s[2].y > s[1].y);
        assert_true(s[2].y <= 20 + 0.3 * 9);
        assert_true(s[3].y == s[0].y && s[3].size == s[0].size);
        const char *last = picture->text + s[3].first;
        double end = s[3].x + es_text_width(last, 9, ES_WEIGHT_BOLD);
        assert_true(fabs(end - (s[0].x + width)) < 1e-9);
        assert_true(picture_texts_are_apart(picture));
    }
}

TEST(small_indexes_stay_legible)
{
    AUTO(es_picture) picture = page();
    es_draw_fitted(picture, 9, 9, 7, ES_ALIGN_START, ES_WEIGHT_NORMAL, ink,
                   "SM+ScFuFFNi6", 100);
    assert_true(fabs(picture->shapes[1].size - 0.74 * 7) < 1e-9);
    assert_true(picture->shapes[2].size == 5); /* still legible */
    es_draw_fitted(picture, 9, 30, 3, ES_ALIGN_START, ES_WEIGHT_NORMAL, ink,
                   "SM+ScFuFFNi6", 100);
    assert_true(picture->shapes[5].size == 3);
}

TEST(a_wide_title_is_cut)
{
    const char *arch = "SM+ScFuFFNi6";
    double whole = es_title_width(arch, 9, ES_WEIGHT_BOLD);
    assert_texts("SM" THIN "+" THIN "ScFuFFN|i|6", arch, whole);
    for (double width = 0; width < whole; width += 0.5) {
        AUTO(es_picture) picture = drawn(arch, ES_ALIGN_END, width);
        const char *text = texts_of(picture);
        assert_true(es_text_width(text, 9, ES_WEIGHT_BOLD) <= width);
        assert_true(!*text || strstr(text, "\xe2\x80\xa6"));
        assert_null(strchr(text, '|'));
    }
}
