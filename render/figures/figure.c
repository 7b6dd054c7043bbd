#include "render/figures/figure_internal.h"

#include <math.h>

#define COMFORTABLE 0.6 /* factor below which fewer columns are tried */

/* The largest factor, to a part in a million, for which `place` needs no more
 * than `wanted` points; 0 if none. */
static double solve_factor(void *sheet, double wanted,
                           double (*place)(void *sheet, double factor))
{
    double low = 0, high = 1;
    while (high < 1e6 && place(sheet, high) <= wanted)
        high *= 2;
    for (int i = 0; i < 50; i++) {
        double half = low + (high - low) / 2;
        if (place(sheet, half) <= wanted)
            low = half;
        else
            high = half;
    }
    return low;
}

static es_status too_small(const es_layout *layout,
                           const es_figure_style *style)
{
    double width = ceil(layout->across(layout->sheet, layout->least_factor));
    double height = ceil(layout->down(layout->sheet, layout->least_factor));
    return es_fail(ES_EUSAGE,
                   "%s of %.0fx%.0f points has no room for its content: ask "
                   "for at least %.0fx%.0f",
                   layout->what, style->width > 0 ? style->width : width,
                   style->height > 0 ? style->height : height, width, height);
}

static void arrange(const es_layout *layout, size_t n_columns)
{
    *layout->n_columns = n_columns;
    *layout->n_rows = (layout->n_panels + n_columns - 1) / n_columns;
}

/* The factor of a number of columns: the smaller of both sizes asked for. */
static double factor_of(const es_layout *layout, const es_figure_style *style,
                        size_t n_columns)
{
    double factor = INFINITY;
    arrange(layout, n_columns);
    if (style->width > 0)
        factor = solve_factor(layout->sheet, style->width, layout->across);
    if (style->height > 0)
        factor = fmin(factor,
                      solve_factor(layout->sheet, style->height, layout->down));
    return factor;
}

/* As few rows as leave the panels a comfortable size; none is much shorter
 * than the others. */
static void choose_columns(const es_layout *layout,
                           const es_figure_style *style)
{
    size_t n = layout->n_panels < 1 ? 1 : layout->n_panels;
    size_t most = style->most_columns ? style->most_columns : 4;
    size_t n_rows = (n + most - 1) / most, best = (n + n_rows - 1) / n_rows;
    double largest = factor_of(layout, style, best);
    while (++n_rows <= n && largest < COMFORTABLE) {
        size_t n_columns = (n + n_rows - 1) / n_rows;
        double factor = factor_of(layout, style, n_columns);
        if (factor > largest) {
            largest = factor;
            best = n_columns;
        }
    }
    arrange(layout, best);
}

es_status es_layout_fit(es_extent *out, const es_layout *layout,
                        const es_figure_style *style)
{
    double across = 1, down = 1;
    choose_columns(layout, style);
    if (style->width > 0)
        across = down =
            solve_factor(layout->sheet, style->width, layout->across);
    if (style->height > 0)
        down = solve_factor(layout->sheet, style->height, layout->down);
    if (style->height > 0 && !(style->width > 0))
        across = down;
    if (fmin(across, down) < 0.999 * layout->least_factor)
        return too_small(layout, style);
    out->width = layout->across(layout->sheet, across);
    out->height = layout->down(layout->sheet, down);
    return ES_OK;
}

es_status es_figure_finish(es_picture **out, es_picture *picture,
                           const es_figure_style *style, es_status status)
{
    if (status == ES_OK && style->zoom > 0)
        status = es_picture_zoom(picture, style->zoom);
    if (status == ES_OK)
        *out = picture;
    else
        es_picture_free(picture);
    return status;
}

void es_draw_page_title(es_picture *picture, const es_colors *colors, double x,
                        double width, const char *title)
{
    if (title)
        es_draw_fitted(picture, x, ES_MARGIN + ES_TITLE_SIZE - 1, ES_TITLE_SIZE,
                       ES_ALIGN_START, ES_WEIGHT_BOLD, colors->ink, title,
                       width);
}

void es_draw_titles(es_picture *picture, const es_colors *colors, double x,
                    double y, double width, double head, const char *title,
                    const char *subtitle)
{
    if (subtitle)
        es_draw_fitted(picture, x, y, ES_SMALL_SIZE, ES_ALIGN_START,
                       ES_WEIGHT_NORMAL, colors->muted, subtitle, width);
    if (title)
        es_draw_fitted(picture, x, y - head + ES_TITLE_LINE,
                       ES_PANEL_TITLE_SIZE, ES_ALIGN_START, ES_WEIGHT_BOLD,
                       colors->ink, title, width);
}

double es_head(const char *title, const char *subtitle)
{
    return (title && *title ? ES_TITLE_LINE : 0) +
           (subtitle && *subtitle ? ES_SUBTITLE_LINE : 0);
}
