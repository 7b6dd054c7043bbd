/* Tests scatter plots: the Pareto front, labels without overlaps, and sizes. */
#include "render/figures/scatter.h"
#include "render/picture_internal.h"
#include "tests/support/chance.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

enum { MOST = 150 };

/* Initialises a point that has no interval. */
#define AT(x, y, label)                                                        \
    {                                                                          \
        x, y, label, 0, 0                                                      \
    }

typedef struct bundle {
    es_point points[MOST];
    char labels[MOST][240];
    es_scatter figure;
} bundle;

/* Makes n scattered points; if `spread` is 0, all points are in one place. */
static bundle *bundle_new(size_t n, double spread)
{
    bundle *b = calloc(1, sizeof *b);
    uint32_t x = 7;
    for (size_t i = 0; i < n; i++) {
        double at[2];
        for (int k = 0; k < 2; k++)
            at[k] = congruence_unit(&x);
        snprintf(b->labels[i], sizeof b->labels[i], "SM+LR(0.%zu)", i + 1);
        b->points[i] = (es_point)AT(1e9 * (1 + spread * at[0]),
                                    2.5 + spread * at[1], b->labels[i]);
    }
    b->figure = (es_scatter){.points = b->points,
                             .n = n,
                             .x_counts = true,
                             .front = true,
                             .x_text = "FLOPs of a forward pass",
                             .y_text = "perplexity, eval",
                             .note = "lower left is better"};
    return b;
}

enum { SIZE = 7 }; /* font size of the labels */

/* Checks that no label touches a point. */
static void assert_clear(const es_picture *picture)
{
    for (size_t i = 0; i < picture->n_shapes; i++)
        for (size_t k = 0; k < picture->n_shapes; k++) {
            const es_picture_shape *s = &picture->shapes[i];
            const es_picture_shape *dot = &picture->shapes[k];
            if (dot->kind != ES_SHAPE_DOT || s->kind != ES_SHAPE_TEXT ||
                s->size != SIZE || s->align != ES_ALIGN_START)
                continue;
            double width =
                es_text_width(picture->text + s->first, SIZE, ES_WEIGHT_NORMAL);
            assert_false(dot->x > s->x - 2 && dot->x < s->x + width + 2 &&
                         dot->y > s->y - 0.73 * SIZE - 2 &&
                         dot->y < s->y + 0.3 * SIZE + 2);
        }
}

static es_picture *drawn(const es_scatter *figure)
{
    es_picture *picture = NULL;
    sound_picture(es_scatter_draw(&picture, figure), &picture);
    assert_clear(picture);
    return picture;
}

static const double sizes[][2] = {{0, 0}, {234, 0}, {486, 0}, {480, 270}};

TEST(any_number_of_points_is_drawn_soundly)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 12, 40};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < 16; k++) {
            AUTO_FREE bundle *b = bundle_new(counts[i], k & 8 ? 0 : 1);
            b->figure.style.width = sizes[k % 4][0];
            b->figure.style.height = sizes[k % 4][1];
            b->figure.x_log = b->figure.y_log = k & 4;
            es_picture_free(drawn(&b->figure));
        }
}

/* Every point has a label near it or in the list below the plot. */
TEST(all_points_are_named)
{
    for (int k = 0; k < 2; k++) {
        AUTO_FREE bundle *b = bundle_new(40, k ? 1 : 0.001);
        for (size_t i = 0; i < 40; i++)
            snprintf(b->labels[i], sizeof b->labels[i], "name %zu", i);
        AUTO(es_picture) picture = drawn(&b->figure);
        for (size_t i = 0; i < 40; i++)
            if (!picture_says(picture, b->labels[i]))
                fail_msg("no %s", b->labels[i]);
    }
}

static double gap(double from, double to, double x)
{
    return fmax(fmax(from - x, x - to), 0);
}

/* Returns the distance from a label to the centre of the nearest dot. */
static double distance_to(const es_picture *picture, const char *label,
                          double dot_x, double dot_y)
{
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *s = &picture->shapes[i];
        const char *text = picture->text + s->first;
        if (s->kind != ES_SHAPE_TEXT || strcmp(text, label) != 0)
            continue;
        double width = es_text_width(text, SIZE, ES_WEIGHT_NORMAL);
        return hypot(gap(s->x, s->x + width, dot_x),
                     gap(s->y - 0.73 * SIZE, s->y + 0.3 * SIZE, dot_y));
    }
    fail_msg("no label %s", label);
    return NAN;
}

/* The distance between two neighbouring points is at most the width of a
 * label. */
TEST(labels_are_not_next_to_other_points)
{
    for (int i = 4; i <= 40; i++) {
        es_point points[] = {AT(0.4, 5, "the former"),
                             AT(0.4 + 0.005 * i, 5, "the latter"),
                             AT(0, 1, NULL), AT(1, 1, NULL)};
        const es_scatter figure = {.points = points, .n = 4};
        AUTO(es_picture) picture = drawn(&figure);
        double low = INFINITY, high = -INFINITY, top = INFINITY;
        for (size_t k = 0; k < picture->n_shapes; k++)
            if (picture->shapes[k].kind == ES_SHAPE_DOT)
                top = fmin(top, picture->shapes[k].y);
        for (size_t k = 0; k < picture->n_shapes; k++) {
            const es_picture_shape *s = &picture->shapes[k];
            if (s->kind != ES_SHAPE_DOT || s->y > top + 0.1)
                continue;
            low = fmin(low, s->x);
            high = fmax(high, s->x);
        }
        assert_true(distance_to(picture, "the former", high, top) > 2.8 + 4);
        assert_true(distance_to(picture, "the latter", low, top) > 2.8 + 4);
    }
}

TEST(no_point_beats_the_front)
{
    static const es_point points[] = {
        AT(1, 9, "a"),   AT(2, 9, "b"),          AT(2, 5, "c"),
        AT(3, 5, "d"),   AT(4, 1, "e"),          AT(4, 1, "f"),
        AT(5, NAN, "g"), AT(NAN, 0, "h"),        AT(0.5, 20, "i"),
        AT(9, 0.5, "j"), AT(-INFINITY, -9, "k"), AT(0.5, 25, "l")};
    static const bool wanted[] = {1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0};
    const size_t n = sizeof points / sizeof *points;
    es_scatter figure = {.points = points, .n = n, .front = true};
    bool on_front[12];
    es_scatter_front(on_front, &figure);
    for (size_t i = 0; i < n; i++)
        if (on_front[i] != wanted[i])
            fail_msg("point %s", points[i].label);
    es_picture_free(drawn(&figure));
}

/* Powers of ten are equally spaced on a logarithmic axis. */
TEST(points_are_at_their_values)
{
    static const es_point points[] = {AT(10, 1000, "a"), AT(100, 10, "b"),
                                      AT(1000, 100, "c"), AT(0, 5, "zero")};
    es_scatter figure = {
        .points = points, .n = 4, .x_log = true, .y_log = true};
    double dots[6][2];
    AUTO(es_picture) picture = drawn(&figure);
    /* A point is drawn as two dots. Point "c" is not on the Pareto front and is
       drawn first. */
    assert_int_equal(picture_dots(dots, 6, picture), 6);
    const double *c = dots[0], *a = dots[2], *b = dots[4];
    assert_true(fabs((c[0] - b[0]) - (b[0] - a[0])) < 1e-9);
    assert_true(fabs((b[1] - c[1]) - (c[1] - a[1])) < 1e-9);
    assert_true(b[1] > c[1] && c[1] > a[1]);
}

/* The point at x = 100 has an interval from 40 to 200, which includes the x
 * values of other points. */
TEST(an_interval_is_a_line_through_its_point)
{
    static const es_point points[] = {
        AT(40, 4.13, "a"),
        {100, 3.17, "b", 40, 200},
        AT(200, 2.71, "c"),
        {300, 1.37, "d", 350, 250},
    };
    es_scatter figure = {.points = points, .n = 4};
    double dots[8][2];
    size_t n = 0;
    AUTO(es_picture) picture = drawn(&figure);
    /* A point is drawn as two dots. */
    assert_int_equal(picture_dots(dots, 8, picture), 8);
    const double *a = dots[0], *b = dots[2], *c = dots[4], *d = dots[6];
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *s = &picture->shapes[i];
        if (s->kind != ES_SHAPE_LINE || s->height != 0)
            continue;
        n += s->y == b[1] && s->x == a[0] &&
             fabs(s->width - (c[0] - a[0])) < 1e-9;
        assert_true(s->y != a[1] && s->y != c[1] && s->y != d[1]);
    }
    assert_int_equal(n, 1);
}

TEST(points_that_are_not_finite_are_left_out)
{
    static const double values[] = {NAN, INFINITY, 0, -5, 1e-310, 1e308};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int logarithmic = 0; logarithmic < 2; logarithmic++) {
            AUTO_FREE bundle *b = bundle_new(5, 1);
            b->figure.x_log = b->figure.y_log = logarithmic;
            for (size_t k = 0; k < 5; k++)
                b->points[k].x = b->points[k].y = values[i];
            AUTO(es_picture) picture = drawn(&b->figure);
            bool none = !isfinite(values[i]) || (logarithmic && values[i] <= 0);
            assert_int_equal(picture_says(picture, "no finite values"), none);
        }
}

TEST(long_names_are_numbered)
{
    for (size_t k = 0; k < 4; k++) {
        AUTO_FREE bundle *b = bundle_new(7, 1);
        for (size_t i = 0; i < 7; i++)
            memset(b->labels[i], 'w', 200);
        b->figure.style.title = b->labels[0];
        b->figure.style.width = sizes[k][0];
        es_picture_free(drawn(&b->figure));
    }
}

static es_status draw(es_picture **out, const void *figure)
{
    return es_scatter_draw(out, figure);
}

TEST(a_requested_size_is_kept)
{
    AUTO_FREE bundle *b = bundle_new(5, 1);
    /* On a small page, the labels would be listed below the plot and change its
     * size. */
    for (size_t i = 0; i < 5; i++)
        b->points[i].label = NULL;
    assert_sizes_are_kept(draw, &b->figure, &b->figure.style);
}

TEST(pictures_are_golden)
{
    AUTO_FREE bundle *b = bundle_new(30, 1);
    assert_golden(drawn(&b->figure), "scatter_crowded");
    b->figure.n = 5;
    b->figure.style = (es_figure_style){.theme = ES_THEME_DARK, .width = 234};
    assert_golden(drawn(&b->figure), "scatter_few");
}
