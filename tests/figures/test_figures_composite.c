/* Tests composite pages: several figures are aligned on one page, their panels
 * have letters, and the figures share a legend. */
#include "render/picture_internal.h"
#include "tests/support/figured.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { L = 3, H = 5, N_RUNS = 2, N_PARTS = 3 };

static const es_figure_kind kinds[N_PARTS] = {ES_FIGURE_HEATMAP,
                                              ES_FIGURE_CURVES, ES_FIGURE_NANS};

static void record(const char *path, const char *arch)
{
    es_run_info info = es_run_of(L, H);
    info.arch = arch;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 40; step += 10) {
        float heads[L * H], counts[L];
        for (size_t i = 0; i < L * H; i++)
            heads[i] = 0.1F * (float)(i + 1) + 0.01F * (float)step;
        for (size_t l = 0; l < L; l++)
            counts[l] = (float)(step * (int64_t)l);
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, heads, L * H);
        es_record_sample(&to, "nan_activations", ES_PHASE_TRAIN, step, counts,
                         L);
    }
    es_record_close(&to);
}

/* The drawings of the figures on one page. */
typedef struct composed {
    es_figured figures[N_PARTS];
    es_drawing drawings[N_PARTS];
} composed;

static void compose(composed *out, void **state, es_figure_style style)
{
    const char *paths[N_RUNS];
    paths[0] = es_folder_file(state, "a.db");
    paths[1] = es_folder_file(state, "b.db");
    record(paths[0], "SM+LN+G");
    record(paths[1], "SM");
    for (size_t i = 0; i < N_PARTS; i++) {
        es_figure(&out->figures[i], "entropy", N_RUNS, paths);
        out->figures[i].drawing.style = style;
        out->drawings[i] = out->figures[i].drawing;
        out->drawings[i].runs = out->figures[i].runs;
        out->drawings[i].options = &out->figures[i].options;
    }
}

static void clear(composed *c)
{
    for (size_t i = 0; i < N_PARTS; i++) {
        es_drawing_clear(&c->drawings[i]);
        es_unfigure(&c->figures[i]);
    }
}

/* Returns the text that begins with `text`; fails the test unless there is
 * exactly one. */
static const es_picture_shape *find_text(const es_picture *picture,
                                         const char *text)
{
    const es_picture_shape *found = NULL;
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *shape = &picture->shapes[i];
        if (shape->kind != ES_SHAPE_TEXT ||
            strcmp(picture->text + shape->first, text) != 0)
            continue;
        if (found)
            fail_msg("more than one text begins with '%s'", text);
        found = shape;
    }
    if (!found)
        fail_msg("no text begins with '%s'", text);
    return found;
}

static size_t count_texts(const es_picture *picture, const char *text)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n_shapes; i++)
        n += picture->shapes[i].kind == ES_SHAPE_TEXT &&
             strcmp(picture->text + picture->shapes[i].first, text) == 0;
    return n;
}

/* Returns the y coordinate of the lowest text that is above `y`. */
static double baseline_above(const es_picture *picture, double y)
{
    double found = 0;
    for (size_t i = 0; i < picture->n_shapes; i++)
        if (picture->shapes[i].kind == ES_SHAPE_TEXT &&
            picture->shapes[i].y < y - 1)
            found = fmax(found, picture->shapes[i].y);
    return found;
}

static void check_page(void **state, es_figure_style style)
{
    static const char *const letters[] = {"(a) ", "(b) ", "(c) ",
                                          "(d) ", "(e) ", "(f) "};
    const es_picture_shape *at[6];
    es_picture *picture = NULL;
    composed c;
    compose(&c, state, style);
    es_assert_ok(es_composite_draw_runs(&picture, c.drawings, kinds, N_PARTS));
    for (size_t i = 0; i < 6; i++)
        at[i] = find_text(picture, letters[i]);
    /* The widths of cells are rounded to half points, so the positions of the
     * plots may differ slightly. */
    for (size_t i = 2; i < 6; i++) {
        assert_true(fabs(at[i]->x - at[i - 2]->x) < 2.5);
        /* there is space between the note of a figure and the title of the next
         * figure */
        assert_true(at[i]->y - baseline_above(picture, at[i]->y) > 25);
    }
    assert_true(at[0]->x < at[1]->x);
    /* "layer" appears as the legend's title and as the heatmaps' axis name */
    assert_int_equal(count_texts(picture, "layer"), 2);
    assert_int_equal(count_texts(picture, "SM"), N_PARTS);
    es_picture_free(picture);
    clear(&c);
}

TEST(figures_on_a_page_are_aligned_and_lettered)
{
    check_page(state, (es_figure_style){.width = 486});
    check_page(state, (es_figure_style){.width = 0});
}

TEST(a_page_has_the_requested_size)
{
    double width, height;
    es_picture *picture = NULL;
    composed c;
    compose(&c, state, (es_figure_style){.width = 500, .height = 700});
    es_assert_ok(es_composite_draw_runs(&picture, c.drawings, kinds, N_PARTS));
    es_picture_sides(picture, &width, &height);
    assert_true(near(width, 500, 1e-9));
    assert_true(near(height, 700, 1e-9));
    es_picture_free(picture);
    picture = NULL;
    c.drawings[0].style.height = 40;
    es_assert_status(
        ES_EUSAGE, "too small",
        es_composite_draw_runs(&picture, c.drawings, kinds, N_PARTS));
    assert_null(picture);
    clear(&c);
}

TEST(names_joined_by_a_plus_are_one_page)
{
    es_figure_options options = {.title = NULL};
    es_assert_ok(es_figures_want(&options, "loss,heatmap+curves+heatmap"));
    assert_true(options.pictures[ES_FIGURE_COMPOSITE].wanted);
    assert_true(options.pictures[ES_FIGURE_LOSS].wanted);
    assert_false(options.pictures[ES_FIGURE_HEATMAP].wanted);
    assert_true(es_figure_is_drawn(&options, ES_FIGURE_HEATMAP));
    assert_false(es_figure_is_drawn(&options, ES_FIGURE_NANS));
    assert_int_equal(options.n_parts, 3);
    assert_int_equal(options.parts[1], ES_FIGURE_CURVES);
    es_assert_status(ES_EUSAGE, "only one page of several figures can",
                     es_figures_want(&options, "loss+nans"));
    options = (es_figure_options){.title = NULL};
    es_assert_status(ES_EUSAGE,
                     "unknown figure 'map': expected overview, heatmap, ",
                     es_figures_want(&options, "heatmap+map"));
    options = (es_figure_options){.title = NULL};
    es_assert_status(ES_EUSAGE, "unknown figure '': expected ",
                     es_figures_want(&options, "loss+"));
    options = (es_figure_options){.title = NULL};
    es_assert_status(ES_EUSAGE, "a page holds at most 8 figures",
                     es_figures_want(&options,
                                     "loss+loss+loss+loss+loss+loss+loss+"
                                     "loss+loss"));
}

TEST_EACH(es_folder_make, es_folder_remove)
