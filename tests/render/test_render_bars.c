/* Tests bar charts: heights, texts, labels and sizes. */
#include "render/figures/bars.h"
#include "render/picture_internal.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

enum { MOST = 14 };

/* A bar chart with memory for its bars, texts and names. */
typedef struct bundle {
    es_bar bars[MOST * MOST];
    char texts[MOST * MOST][16], briefs[MOST * MOST][16];
    char group_names[MOST][40], series_names[MOST][240];
    const char *groups[MOST], *series[MOST], *totals[MOST];
    es_bars_panel panels[3];
    es_bars figure;
} bundle;

static bundle *bundle_new(size_t n_groups, size_t n_series)
{
    bundle *b = calloc(1, sizeof *b);
    for (size_t i = 0; i < n_groups * n_series; i++) {
        double value = 1 + (double)((i * 37) % 83);
        snprintf(b->texts[i], sizeof b->texts[i], "%.1f%%", value);
        snprintf(b->briefs[i], sizeof b->briefs[i], "%.0f", value);
        b->bars[i] = (es_bar){value, b->texts[i], b->briefs[i], NULL};
    }
    for (size_t i = 0; i < MOST; i++) {
        snprintf(b->group_names[i], sizeof b->group_names[i], "group %zu", i);
        snprintf(b->series_names[i], sizeof b->series_names[i], "run %zu", i);
        b->groups[i] = b->group_names[i];
        b->series[i] = b->series_names[i];
        b->totals[i] = "123B";
    }
    for (size_t i = 0; i < 3; i++)
        b->panels[i] = (es_bars_panel){.bars = b->bars, .title = "SM+LN+G"};
    b->figure = (es_bars){.panels = b->panels,
                          .n_panels = 1,
                          .groups = b->groups,
                          .n_groups = n_groups,
                          .series = b->series,
                          .n_series = n_series,
                          .high = NAN,
                          .y_text = "heads (%)",
                          .group_text = "entropy (nats)",
                          .note = "m = 3.87 (observed)"};
    return b;
}

static es_picture *drawn(const es_bars *figure)
{
    es_picture *picture = NULL;
    return sound_picture(es_bars_draw(&picture, figure), &picture);
}

/* Widths and heights of pages in points; 0 0 means the natural size. */
static const double sizes[][2] = {{0, 0}, {234, 0}, {486, 0}, {480, 270}};

TEST(every_shape_is_drawn_soundly)
{
    static const size_t counts[] = {1, 2, 3, 5, 7, 12};
    for (size_t g = 0; g < 6; g++)
        for (size_t s = 0; s < 6; s++)
            for (size_t k = 0; k < 16; k++) {
                AUTO_FREE bundle *b = bundle_new(counts[g], counts[s]);
                b->figure.style.width = sizes[k % 4][0];
                b->figure.style.height = sizes[k % 4][1];
                b->figure.n_panels = k & 8 ? 3 : 1;
                b->figure.stacked = k & 4;
                b->panels[0].totals = k & 4 ? b->totals : NULL;
                es_picture_free(drawn(&b->figure));
            }
}

/* The bottom of the plot is the value 0, and the heights of bars above it are
 * proportional to their values. */
TEST(heights_are_proportional_to_values)
{
    bundle *b = bundle_new(3, 2);
    es_picture *picture = drawn(&b->figure);
    double foot = 0, each = 0; /* y coordinate of the value 0, and height of a
                                  bar of value 1 */
    size_t n = 0;
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *s = &picture->shapes[i];
        bool colored = image_color(s->color) ==
                       image_color(es_theme_category(ES_THEME_LIGHT, n % 2));
        if (s->kind == ES_SHAPE_TEXT &&
            strcmp(picture->text + s->first, "0") == 0)
            foot = s->y - 0.36 * ES_SMALL_SIZE;
        if (s->kind == ES_SHAPE_TEXT &&
            strcmp(picture->text + s->first, "40") == 0)
            each = (foot + 0.36 * ES_SMALL_SIZE - s->y) / 40;
        if (s->kind != ES_SHAPE_RECT || !colored || n == 6)
            continue; /* skips the legend, whose rectangles come after the six
                         bars */
        assert_true(fabs(s->y + s->height - foot) < 1e-6);
        assert_true(fabs(s->height - each * b->bars[n].value) < 1e-6);
        assert_true(picture_says(picture, b->texts[n++]));
    }
    assert_int_equal(n, 6);
    es_picture_free(picture);
    free(b);
}

enum { SIDE = 24, N_LOOKS = 12 };

/* Computes how a series looks in greyscale: one value in [0,1] per pixel. */
static void look_of(double *out, es_theme theme, size_t series)
{
    const es_box area = {0, 0, SIDE, SIDE};
    AUTO(es_picture) picture = NULL;
    AUTO_BY(image_clear) es_image image;
    assert_int_equal(
        es_picture_new(&picture, SIDE, SIDE, es_theme_colors(theme)->paper),
        ES_OK);
    es_draw_pattern(picture, theme, series, &area);
    assert_true(picture_image(&image, picture, 1));
    for (int i = 0; i < SIDE * SIDE; i++) {
        const unsigned char *rgb = image.rgb + 3 * i;
        es_color color = {rgb[0], rgb[1], rgb[2], 255};
        out[i] = sqrt(es_color_luminance(color));
    }
}

/* All of the first twelve series look different in greyscale. */
TEST(series_differ_in_grey)
{
    static double looks[N_LOOKS][SIDE * SIDE];
    for (size_t theme = 0; theme < 2; theme++)
        for (size_t i = 0; i < N_LOOKS; i++) {
            look_of(looks[i], (es_theme)theme, i);
            for (size_t k = 0; k < i; k++) {
                double difference = 0;
                for (size_t p = 0; p < SIDE * SIDE; p++)
                    difference += fabs(looks[i][p] - looks[k][p]);
                if (!(difference > 0.06 * SIDE * SIDE))
                    fail_msg("theme %zu: series %zu and %zu differ by only %g",
                             theme, i, k, difference / (SIDE * SIDE));
            }
        }
}

TEST(texts_shrink_turn_and_vanish_with_the_width)
{
    static const struct {
        size_t n_series;
        double width;
        /* A text that is drawn on the first bar, and one that is not drawn. */
        const char *there, *not_there;
        bool is_long, turned;
    } cases[] = {
        {2, 0, "1.0%", "1", false, false},
        {4, 234, "1", "1.0%", false, false},
        {4, 234, "1234567", "1", true, true},
        {12, 234, NULL, "1234567", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_FREE bundle *b = bundle_new(4, cases[i].n_series);
        size_t n_turned = 0;
        b->figure.style.width = cases[i].width;
        for (size_t k = 0; cases[i].is_long && k < 48; k++)
            b->bars[k].brief = b->bars[k].text = "1234567";
        AUTO(es_picture) picture = drawn(&b->figure);
        for (size_t k = 0; k < picture->n_shapes; k++)
            n_turned += picture->shapes[k].degrees == 90;
        assert_true(!cases[i].there || picture_says(picture, cases[i].there));
        assert_false(picture_says(picture, cases[i].not_there));
        /* Besides the 16 bar texts, the axis name "heads (%)" is rotated. */
        assert_int_equal(n_turned, cases[i].turned ? 17 : 1);
    }
}

/* A bar whose value is not finite has only a text. Charts in which no value is
 * finite, or all values are 0, can be drawn too. */
TEST(a_value_that_is_not_finite_has_only_its_text)
{
    static const double values[] = {NAN, INFINITY, -3, 0, 1e-310, 1e308};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int stacked = 0; stacked < 2; stacked++) {
            AUTO_FREE bundle *b = bundle_new(3, 2);
            for (size_t k = 0; k < 6; k++)
                b->bars[k] = (es_bar){values[i], "n/a", "-", NULL};
            b->figure.stacked = stacked;
            AUTO(es_picture) picture = drawn(&b->figure);
            assert_true(stacked || picture_says(picture, "n/a"));
        }
}

/* If a part of a stack is too low for its text, the text is to the right of the
 * stack, at the height of the part's middle and below the total. */
TEST(texts_of_low_parts_are_beside_the_stack)
{
    static const double values[] = {1.5, 60, 37, 1.5};
    static const char *const wanted[] = {"2% a", "60", "37", "2% d"};
    AUTO_FREE bundle *b = bundle_new(3, 4);
    for (size_t k = 0; k < 12; k++)
        b->bars[k] = (es_bar){values[k % 4], wanted[k % 4], NULL, NULL};
    b->bars[8] = (es_bar){1.5, "3.25B", NULL, "2% a"};
    b->figure.stacked = true;
    b->panels[0].totals = b->totals;
    AUTO(es_picture) picture = drawn(&b->figure);
    double middle = NAN;
    size_t n[4] = {0};
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *s = &picture->shapes[i];
        const char *text = picture->text + s->first;
        for (size_t k = 0; s->kind == ES_SHAPE_TEXT && k < 4; k++)
            if (strcmp(text, wanted[k]) == 0 && s->size < ES_SMALL_SIZE) {
                bool beside = k == 0 || k == 3;
                assert_int_equal(s->align,
                                 beside ? ES_ALIGN_START : ES_ALIGN_MIDDLE);
                assert_true(!beside || !(s->x < middle + 5));
                middle = beside ? middle : s->x;
                n[k]++;
            }
    }
    for (size_t k = 0; k < 4; k++)
        assert_int_equal(n[k], 3);
    assert_false(picture_says(picture, "3.25B"));
}

TEST(long_names_are_cut)
{
    for (size_t k = 0; k < 4; k++) {
        AUTO_FREE bundle *b = bundle_new(5, 12);
        for (size_t i = 0; i < 12; i++) {
            memset(b->series_names[i], 'w', 200);
            snprintf(b->group_names[i], 40, "a group with a long name %zu", i);
        }
        b->figure.note = b->series_names[0];
        b->figure.style = (es_figure_style){.title = b->series_names[1],
                                            .width = sizes[k][0]};
        es_picture_free(drawn(&b->figure));
        b->figure.note = "many short words that have to be broken into several "
                         "lines; the last line is cut because there is not "
                         "enough space for all of the words in this long note";
        es_picture_free(drawn(&b->figure));
    }
}

/* In a figure as wide as a paper's column, all labels except the first would be
 * cut if they were horizontal. */
TEST(group_labels_that_would_be_cut_are_turned)
{
    enum { N = 7 };
    AUTO_FREE bundle *b = bundle_new(N, 1);
    for (size_t i = 1; i < N; i++)
        snprintf(b->group_names[i], sizeof b->group_names[i],
                 "SM(t)+ScFuFFNi%zu, seed %zu", i, i);
    b->figure.style.width = 234;
    es_picture *picture = drawn(&b->figure);
    for (size_t i = 0; i < N; i++) {
        bool turned = false;
        for (size_t k = 0; k < picture->n_shapes; k++)
            turned = turned || (picture->shapes[k].kind == ES_SHAPE_TEXT &&
                                picture->shapes[k].degrees == 90 &&
                                strcmp(picture->text + picture->shapes[k].first,
                                       b->group_names[i]) == 0);
        assert_true(turned);
    }
    es_picture_free(picture);
    b->figure.style.width = 900;
    picture = drawn(&b->figure);
    for (size_t k = 0; k < picture->n_shapes; k++)
        assert_true(picture->shapes[k].kind != ES_SHAPE_TEXT ||
                    picture->shapes[k].degrees == 0 ||
                    !strstr(picture->text + picture->shapes[k].first, "SM"));
    es_picture_free(picture);
}

static es_status draw(es_picture **out, const void *figure)
{
    return es_bars_draw(out, figure);
}

TEST(a_requested_size_is_kept)
{
    es_picture *picture = NULL;
    AUTO_FREE bundle *b = bundle_new(4, 3);
    assert_sizes_are_kept(draw, &b->figure, &b->figure.style);
    b->figure.n_groups = 0;
    assert_int_equal(es_bars_draw(&picture, &b->figure), ES_EUSAGE);
    assert_null(picture);
}

TEST(pictures_are_golden)
{
    AUTO_FREE bundle *b = bundle_new(4, 12);
    assert_golden(drawn(&b->figure), "bars_grouped");
    b->figure.n_series = 3;
    b->figure.n_panels = 2;
    b->figure.stacked = true;
    b->panels[0].totals = b->panels[1].totals = b->totals;
    b->figure.style.theme = ES_THEME_DARK;
    assert_golden(drawn(&b->figure), "bars_stacked");
}
