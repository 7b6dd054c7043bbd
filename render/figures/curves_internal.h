/** Declares the layout of a line chart, for the sources that draw line charts
 *  and for their tests. */
#ifndef ES_CURVES_INTERNAL_H
#define ES_CURVES_INTERNAL_H

#include "render/figures/curves.h"
#include "render/figures/page.h"

/** One panel of a line chart, as placed on the page. */
typedef struct es_curves_block {
    const es_curves_panel *panel;
    es_box plot;
    double first, last; /* range of x; first > last if there are no samples */
    /* Range of y in this panel, or in all panels if they share the scale;
     * finite after choose_range. */
    es_range range;
    double x0, x_scale; /* x on the page is x0 + (step - first) * x_scale */
    double y0, y_scale; /* y on the page is y0 - (f(value) - low) * y_scale; f
                           is log10 on a logarithmic scale, otherwise the
                           identity */
    double low;         /* f(value) at y0 */
    bool logarithmic;
    es_axis across, upright;
} es_curves_block;

typedef struct es_curves_sheet {
    es_page page;
    const es_curves *figure;
    es_curves_block *blocks; /* (n_panels) */
    double legend_x, legend_y, legend_height;
    /* Width of a legend to the right of the panels; 0: no legend there. */
    double legend_width;
    double entry_width; /* width of an entry in a legend below the panels */
    /* (n_named) curves in the legend: those of the panel with the most
     * curves. */
    const es_curve *named;
    size_t n_named;
    size_t n_categories; /* one more than the largest `color` of a curve */
    size_t n_entries;    /* number of named curves that have a label */
    /* True if the legend is a list, which may be placed below the panels. */
    bool movable;
    bool below; /* the legend is below the panels */
    /* True if the legend to the right of the panels is a list of lines, false
       if it is a colour bar. */
    bool listed;
    bool nonfinite; /* a NaN or infinite value exists */
    bool equal;     /* two lines coincide somewhere */
    bool beside;    /* two isolated samples coincide */
    bool beyond;    /* a value is above the limit of the y axis */
} es_curves_sheet;

#define ES_REFERENCE_HEIGHT 11.0 /* height of the reference line's text */
#define ES_ZERO_HEIGHT 11.0      /* height of the separate line for zeros */
#define ES_LEGEND_LINE 11.0      /* height of a line of the legend */
#define ES_LEGEND_SWATCH 12.0
#define ES_LEGEND_GAP 14.0
/* Maximum number of lines that a legend lists if the lines are coloured by
 * depth. */
#define ES_LISTED_MOST 16
#define ES_MARK_RADIUS 2.4
#define ES_DASH 4.0 /* length of the dashes of a dashed line */

/** Returns the colour of curve i, which is the same in every panel. */
es_color es_curve_color(const es_curves_sheet *sheet, const es_curve *curve,
                        size_t i);

/** Returns the width of a line in points. `n_curves` is the number of curves in
 *  its panel. */
double es_curve_width(const es_curve *curve, size_t n_curves);

/** Returns true if the line has marks at its samples. */
bool es_curve_is_marked(const es_curves_sheet *sheet, const es_curve *curve);

/**
 * Draws the mark of a category at (x, y): one of ES_N_MARKS shapes, some of
 * which are filled with the background colour. If `hollow` is true, draws only
 * the outline, so that marks underneath remain visible.
 */
void es_draw_mark(const es_canvas *canvas, double x, double y, size_t category,
                  es_color color, bool hollow);

/** Returns the position of x on the page; finite for finite x. */
static inline double es_curves_x(const es_curves_block *block, double x)
{
    return block->x0 + (x - block->first) * block->x_scale;
}

/** Returns the y position of a value on the page; finite for finite values. */
static inline double es_curves_y(const es_curves_block *block, double value)
{
    if (block->logarithmic) {
        if (!(value > 0))
            return block->plot.y + block->plot.height;
        value = log10(value);
    }
    return block->y0 - (value - block->low) * block->y_scale;
}

/**
 * Lays out a line chart on its page.
 *
 *   out  receives the layout; the caller clears it with es_curves_sheet_clear,
 *        even after an error
 *
 * Returns ES_OK, ES_ENOMEM, or ES_EUSAGE if the size is too small, there is no
 * panel, or a value on a logarithmic scale is negative.
 */
es_status es_curves_lay_out(es_curves_sheet *out,
                            const es_curves *figure) ES_MUST_USE;

void es_curves_sheet_clear(es_curves_sheet *sheet);

/** Measures the legend, and decides if it is to the right of the panels or
 *  below. */
void es_curves_measure_legend(es_curves_sheet *sheet);

/** Returns the height of the legend if it is below plots that are `width`
 *  points wide. */
double es_curves_legend_height(const es_curves_sheet *sheet, double width);

void es_curves_draw_legend(const es_page *page);

#endif
