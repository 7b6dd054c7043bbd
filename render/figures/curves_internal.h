/** The layout of a figure of curves, shared by its files and tests. */
#ifndef ES_CURVES_INTERNAL_H
#define ES_CURVES_INTERNAL_H

#include "render/figures/curves.h"
#include "render/figures/page.h"

/** One panel on the page. */
typedef struct es_curves_block {
    const es_curves_panel *panel;
    es_box plot;
    double first, last; /* range of x; first > last: no samples */
    es_range range;     /* of y, in this panel or in all; finite after
                           choose_range */
    double x0, x_scale; /* x = x0 + (step - first) * x_scale */
    double y0, y_scale; /* y = y0 - (f(value) - low) * y_scale; f is log10 if
                           logarithmic, otherwise the identity */
    double low;         /* f(value) at y0 */
    bool logarithmic;
    es_axis across, upright;
} es_curves_block;

typedef struct es_curves_sheet {
    es_page page;
    const es_curves *figure;
    es_curves_block *blocks; /* (n_panels) */
    double legend_x, legend_y, legend_height;
    double legend_width;   /* right of the panels; 0: no legend */
    double entry_width;    /* of a legend below the panels */
    const es_curve *named; /* (n_named) curves of the panel with most curves */
    size_t n_named;
    size_t n_categories; /* greater than every curve's `color` */
    size_t n_entries;    /* named curves with a label */
    bool movable;        /* the legend is a list, which may go below */
    bool below;          /* the legend is below the panels */
    bool listed;         /* right of the panels: a list, not a bar */
    bool nonfinite;      /* there are NaN or infinite values */
    bool equal;          /* some lines coincide somewhere */
    bool beside;         /* some isolated samples coincide */
    double beyond;       /* the largest value above the limit, or NaN */
    char beyond_text[64];
} es_curves_sheet;

#define ES_REFERENCE_HEIGHT 11.0 /* height of the reference's text */
#define ES_ZERO_HEIGHT 11.0      /* height of the zeros' line */
#define ES_LEGEND_LINE 11.0      /* height of an entry */
#define ES_LEGEND_SWATCH 12.0
#define ES_LEGEND_GAP 14.0
#define ES_LISTED_MOST 16 /* maximum of listed entries by depth */
#define ES_MARK_RADIUS 2.4

/** Returns the colour of curve i in every panel. */
es_color es_curve_color(const es_curves_sheet *sheet, const es_curve *curve,
                        size_t i);

/** Returns the line width in points; n_curves is the number in the panel. */
double es_curve_width(const es_curve *curve, size_t n_curves);

/** Returns true if the line also has marks. */
bool es_curve_is_marked(const es_curves_sheet *sheet, const es_curve *curve);

/** Draws the mark of a category: one of ES_N_MARKS shapes, some of them filled
 *  with the paper's colour. */
void es_draw_mark(const es_canvas *canvas, double x, double y, size_t category,
                  es_color color);

/** Lines of a panel that coincide at a sample or between two samples. */
typedef struct es_curves_equals {
    size_t n;    /* number, including the line itself */
    size_t rank; /* index of the line among them */
} es_curves_equals;

/** Counts the lines with the pen of curve i that have the same finite value at
 *  sample k and, if `onwards`, at sample k + 1. In a panel of more than 48
 * lines all count as distinct. */
es_curves_equals es_curves_equals_at(const es_curves_panel *panel, size_t i,
                                     size_t k, bool onwards);

/** Returns true if sample k has no finite neighbour. */
bool es_curve_is_lone(const es_curve *curve, size_t k);

/** Counts the curves that share the isolated sample k of curve i, isolated in
 *  them too; otherwise as es_curves_equals_at. */
es_curves_equals es_curves_lone_equals_at(const es_curves_panel *panel,
                                          size_t i, size_t k);

/** Maps x to the page; finite for finite x. */
static inline double es_curves_x(const es_curves_block *block, double x)
{
    return block->x0 + (x - block->first) * block->x_scale;
}

/** Maps a value to y on the page; finite for finite values. */
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
 * Lays the figure out.
 *
 *   out  written; the caller clears it with es_curves_sheet_clear, also after
 *        an error
 *
 * Returns ES_OK, ES_ENOMEM, or ES_EUSAGE (size too small, no panel, negative
 * value on a logarithmic scale).
 */
es_status es_curves_lay_out(es_curves_sheet *out,
                            const es_curves *figure) ES_MUST_USE;

void es_curves_sheet_clear(es_curves_sheet *sheet);

/** Measures the legend and decides its place. */
void es_curves_measure_legend(es_curves_sheet *sheet);

/** Returns the height of the legend below plots of that width. */
double es_curves_legend_height(const es_curves_sheet *sheet, double width);

void es_curves_draw_legend(const es_page *page);

/**
 * Draws the lines of a panel and the marks of values that are not finite.
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_curves_draw_lines(const es_curves_sheet *sheet,
                               const es_curves_block *block) ES_MUST_USE;

#endif
