#include "render/figures/curves_internal.h"

#include <stdlib.h>

/* What the content wants, in points. */
#define ONE_WIDTH 340.0
#define ONE_HEIGHT 210.0
#define MANY_WIDTH 250.0
#define MANY_HEIGHT 165.0
#define BOTH_MEANINGS 320.0 /* of the marks at the edges, in one line */
#define LEAST_FACTOR 0.3    /* of that, when a size is asked for */

static double natural_height(const es_curves_sheet *sheet)
{
    return sheet->figure->n_panels > 1 ? MANY_HEIGHT : ONE_HEIGHT;
}

/* The widest labels are those of the most ticks. */
static void measure_labels(es_curves_sheet *sheet)
{
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        es_curves_block *b = &sheet->blocks[i];
        b->plot.height = natural_height(sheet);
        es_curves_set_upright(sheet, b);
        sheet->label_room =
            fmax(sheet->label_room,
                 es_upright_room(&b->upright, sheet->figure->y_text));
    }
}

static es_status measure(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    es_status status = es_curves_measure_panels(sheet);
    if (status != ES_OK)
        return status;
    measure_labels(sheet);
    es_curves_measure_legend(sheet);
    sheet->top = figure->style.title ? ES_TITLE_SIZE + 9 : 0;
    bool beyond = !isnan(sheet->beyond), both = sheet->nonfinite && beyond;
    sheet->stacked =
        both && figure->style.width > 0 && figure->style.width < BOTH_MEANINGS;
    sheet->footer = (sheet->nonfinite || beyond ? 15 : 0) +
                    (sheet->stacked ? 12 : 0) + (figure->note ? 14 : 0);
    return ES_OK;
}

static double place_across(void *user, double factor)
{
    es_curves_sheet *sheet = user;
    size_t n = sheet->figure->n_panels;
    double natural = n > 1 ? MANY_WIDTH : ONE_WIDTH;
    double width = floor(2 * factor * natural) / 2;
    double room = ceil(2 * sheet->label_room) / 2, x = ES_MARGIN + room;
    for (size_t column = 0; column < sheet->n_columns; column++) {
        if (column > 0)
            x += ES_GUTTER + (sheet->figure->own_scales ? room : 0);
        for (size_t i = column; i < n; i += sheet->n_columns) {
            sheet->blocks[i].plot.x = x;
            sheet->blocks[i].plot.width = width;
        }
        x += width;
    }
    sheet->legend_x =
        sheet->below ? sheet->blocks[0].plot.x : x + ES_LEGEND_GAP;
    /* The last step's label is wider than the plot where nothing follows. */
    bool beside = sheet->legend_room > 0 && !sheet->below;
    return x + (beside ? sheet->legend_room : 4) + ES_MARGIN;
}

static double place_legend_below(es_curves_sheet *sheet, double y)
{
    const es_box *first = &sheet->blocks[0].plot;
    const es_box *last = &sheet->blocks[sheet->n_columns - 1].plot;
    sheet->legend_y = y + 6;
    sheet->legend_height =
        es_curves_legend_height(sheet, last->x + last->width - first->x);
    return sheet->legend_y + sheet->legend_height + 2;
}

static double place_down(void *user, double factor)
{
    es_curves_sheet *sheet = user;
    size_t n = sheet->figure->n_panels;
    double height = floor(2 * factor * natural_height(sheet)) / 2;
    double y = ES_MARGIN + sheet->top;
    sheet->legend_y = y + sheet->head;
    for (size_t row = 0; row < sheet->n_rows; row++) {
        y += sheet->head + (row == 0 && sheet->head == 0 ? 4 : 0);
        for (size_t i = row * sheet->n_columns;
             i < n && i < (row + 1) * sheet->n_columns; i++) {
            sheet->blocks[i].plot.y = y;
            sheet->blocks[i].plot.height = height;
        }
        y += height;
        sheet->legend_height = y - sheet->legend_y;
        y += ES_AXIS_FOOT + (row + 1 < sheet->n_rows ? 12 : 0);
    }
    if (sheet->below)
        y = place_legend_below(sheet, y);
    return y + sheet->footer + ES_MARGIN;
}

/* A list, unless it is longer than the panels are high. */
static bool list_fits(const es_curves_sheet *sheet)
{
    size_t lines = sheet->n_entries + (sheet->figure->line_text ? 1 : 0);
    return sheet->n_entries <= ES_LISTED_MOST &&
           (double)lines * ES_LEGEND_LINE + 2 <=
               sheet->legend_height + ES_AXIS_FOOT;
}

static es_status place(es_curves_sheet *sheet)
{
    const es_figure_style *style = &sheet->figure->style;
    const es_layout layout = {
        sheet,          place_across,         place_down,
        LEAST_FACTOR,   "a figure of curves", sheet->figure->n_panels,
        &sheet->n_rows, &sheet->n_columns};
    es_extent needed;
    es_status status = es_layout_fit(&needed, &layout, style);
    if (status == ES_EUSAGE && sheet->movable && !sheet->below) {
        sheet->below = true;
        status = es_layout_fit(&needed, &layout, style);
    }
    if (status != ES_OK)
        return status;
    sheet->listed = list_fits(sheet);
    sheet->width = style->width > 0 ? style->width : ceil(needed.width);
    sheet->height = style->height > 0 ? style->height : ceil(needed.height);
    return ES_OK;
}

es_status es_curves_lay_out(es_curves_sheet *out, const es_curves *figure)
{
    *out = (es_curves_sheet){.figure = figure,
                             .colors = es_theme_colors(figure->style.theme)};
    if (figure->n_panels == 0)
        return es_fail(ES_EUSAGE, "curves need at least one run");
    out->blocks = calloc(figure->n_panels, sizeof *out->blocks);
    if (!out->blocks)
        return es_fail(ES_ENOMEM, "curves: out of memory");
    es_status status = measure(out);
    if (status == ES_OK)
        status = place(out);
    for (size_t i = 0; status == ES_OK && i < figure->n_panels; i++) {
        es_curves_set_upright(out, &out->blocks[i]);
        es_curves_set_across(&out->blocks[i]);
    }
    return status;
}

void es_curves_sheet_clear(es_curves_sheet *sheet)
{
    free(sheet->blocks);
    sheet->blocks = NULL;
}
