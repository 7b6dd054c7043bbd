/*
 * Draws several figures on one page. Each figure is drawn twice: first alone,
 * to find its natural width, margins and legend; then with the common width and
 * margins. The second drawings are stacked vertically.
 */
#include "cli/figures/drawing.h"
#include "render/picture.h"

#include "analyzer/base/checked.h"

#include <math.h>

/* One figure on the page. */
typedef struct part {
    const es_composite_part *figure;
    es_figure_style style; /* as requested */
    es_page_frame own;     /* layout measured by the first drawing */
    es_page_frame frame;   /* layout requested from the second drawing */
    es_picture *picture;
    double width, height;
} part;

static es_status draw_part(part *p)
{
    es_picture_free(p->picture);
    p->picture = NULL;
    p->style.frame = &p->frame;
    es_status status =
        p->figure->draw(&p->picture, p->figure->context, &p->style);
    if (status == ES_OK)
        es_picture_sides(p->picture, &p->width, &p->height);
    return status;
}

/*
 * Computes the layout that all figures share from the layouts measured by
 * es_composite_draw. A legend that several figures share is drawn once: with
 * the first of these figures if the legend is to the right of the plots, with
 * the last if it is below them.
 *
 *   many  if true, all figures get the largest number of columns that any of
 *         them has; if false, the smallest
 */
static void align(part *parts, size_t n, bool many)
{
    es_page_frame all = {.left = 0};
    size_t letter = 1, least = SIZE_MAX, most = 1;
    double width = 0;
    for (size_t i = 0; i < n; i++) {
        const es_page_frame *frame = &parts[i].own;
        all.left = fmax(all.left, frame->own_left);
        all.right = fmax(all.right, frame->own_right);
        if (frame->n_panels != parts[0].own.n_panels)
            continue;
        all.inner = fmax(all.inner, frame->own_inner);
        least = least < frame->own_columns ? least : frame->own_columns;
        most = most > frame->own_columns ? most : frame->own_columns;
    }
    all.n_columns = many ? most : least;
    for (size_t i = 0; i < n; i++)
        width = fmax(width, parts[i].width);
    for (size_t i = 0; i < n; i++) {
        es_page_frame *frame = &parts[i].frame;
        *frame = parts[i].own;
        bool same_grid = frame->n_panels == parts[0].own.n_panels;
        frame->left = all.left;
        frame->right = all.right;
        frame->inner = same_grid ? all.inner : 0;
        frame->n_columns = same_grid ? all.n_columns : 0;
        for (size_t k = 0; k < n; k++)
            if (frame->legend && frame->legend == parts[k].own.legend &&
                (frame->legend_below ? k > i : k < i))
                frame->without_legend = true;
        parts[i].style.width = width;
        parts[i].style.letters = letter;
        letter += frame->n_panels;
    }
}

/* Divides the height of the page among the figures in proportion to their
 * natural heights. */
static void share_height(part *parts, size_t n, double height)
{
    double wanted = 0;
    for (size_t i = 0; i < n; i++)
        wanted += parts[i].height;
    for (size_t i = 0; i < n; i++)
        parts[i].style.height = height * parts[i].height / wanted;
}

static es_status stack(es_picture **out, const part *parts, size_t n)
{
    es_figure_style style = parts[0].style;
    double height = 0, y = 0;
    for (size_t i = 0; i < n; i++)
        height += parts[i].height;
    es_picture *picture = NULL;
    es_status status = es_picture_new(&picture, parts[0].width, height,
                                      es_theme_colors(style.theme)->paper);
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        es_picture_add(picture, parts[i].picture, 0, y);
        y += parts[i].height;
    }
    *out = picture;
    return status;
}

/* Draws all figures with a common layout. If `many` is true, all figures get
 * the largest number of columns that any of them has, otherwise the smallest.
 * `height` is the page height in points; 0 means the natural height. */
static es_status draw_aligned(part *parts, size_t n, double height, bool many)
{
    es_status status;
    align(parts, n, many);
    for (int round = 0; round < (height > 0 ? 2 : 1); round++) {
        if (round > 0)
            share_height(parts, n, height);
        for (size_t i = 0; i < n; i++)
            if ((status = draw_part(&parts[i])) < 0)
                return status;
    }
    return ES_OK;
}

es_status es_composite_draw(es_picture **out, const es_composite_part *figures,
                            size_t n, const es_figure_style *style)
{
    es_picture *picture = NULL;
    part *parts;
    es_status status = es_alloc(&parts, n, sizeof *parts, "a page of figures");
    if (status < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        parts[i] = (part){.figure = &figures[i], .style = *style};
        parts[i].style.height = 0;
        parts[i].style.tallest /= (double)n;
        parts[i].style.zoom = 0;
        parts[i].style.letters = 1;
        if (i > 0)
            parts[i].style.title = NULL;
        if ((status = draw_part(&parts[i])) < 0)
            goto done;
        parts[i].own = parts[i].frame;
    }
    status = draw_aligned(parts, n, style->height, true);
    if (status == ES_EUSAGE) /* the page is too narrow for the largest number of
                                columns, so the smallest is used */
        status = draw_aligned(parts, n, style->height, false);
    if (status < 0)
        goto done;
    if ((status = stack(&picture, parts, n)) == ES_OK && style->zoom > 0)
        status = es_picture_zoom(picture, style->zoom);
    if (status == ES_OK) {
        *out = picture;
        picture = NULL;
    }
done:
    for (size_t i = 0; i < n; i++)
        es_picture_free(parts[i].picture);
    es_picture_free(picture);
    free(parts);
    return status;
}

/* --- figures of runs -------------------------------------------------------*/

/* A figure of runs, and the function that draws it; passed to draw_run_figure
 * as its context. */
typedef struct run_figure {
    es_drawing *drawing;
    es_figure_draw *draw;
} run_figure;

static es_status draw_run_figure(es_picture **out, void *context,
                                 const es_figure_style *style)
{
    const run_figure *figure = context;
    figure->drawing->style = *style;
    return figure->draw(out, figure->drawing);
}

es_status es_composite_draw_runs(es_picture **out, es_drawing *drawings,
                                 const es_figure_kind *kinds, size_t n)
{
    const es_figure_style style = drawings[0].style;
    run_figure figures[ES_COMPOSITE_MOST];
    es_composite_part parts[ES_COMPOSITE_MOST];
    for (size_t i = 0; i < n; i++) {
        figures[i] =
            (run_figure){&drawings[i], es_figure_entries[kinds[i]].draw};
        parts[i] = (es_composite_part){draw_run_figure, &figures[i]};
    }
    return es_composite_draw(out, parts, n, &style);
}
