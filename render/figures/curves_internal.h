/** A figure of curves laid out: scales, legend, lines. */
#ifndef ES_CURVES_INTERNAL_H
#define ES_CURVES_INTERNAL_H

#include "render/figures/curves.h"
#include "render/figures/page.h"

/** One panel on the page. */
typedef struct es_curves_block {
    const es_curves_panel *panel;
    es_box plot;
    double first, last; /* of x; first > last: no samples */
    es_range range;     /* of y: of this panel, or of all; finite when it
                           is chosen */
    double x0, x_scale; /* x = x0 + (step - first) * x_scale */
    double y0, y_scale; /* y = y0 - (f(value) - low) * y_scale; f is the
                           logarithm, or nothing */
    double low;         /* at y0 */
    bool logarithmic;
    es_axis across, upright;
} es_curves_block;

typedef struct es_curves_sheet {
    es_page page;
    const es_curves *figure;
    es_curves_block *blocks; /* (n_panels) */
    double legend_x, legend_y, legend_height;
    double legend_width;   /* beside the panels; 0: there is no legend */
    double entry_width;    /* of the legend below */
    const es_curve *named; /* (n_named) of the panel with the most curves */
    size_t n_named;
    size_t n_categories; /* above every curve's `color` */
    size_t n_entries;    /* of them: those with a label */
    bool movable;        /* the legend is a list, and may stand below */
    bool below;          /* it does */
    bool listed;         /* beside them: it is a list; otherwise a bar */
    bool nonfinite;      /* there are marks to explain */
    bool equal;          /* some lines are equal somewhere */
    bool beside;         /* so are some samples without neighbours */
    double beyond;       /* the largest value above the limit, or NaN */
    char beyond_text[64];
} es_curves_sheet;

#define ES_REFERENCE_HEIGHT 11.0 /* above the line, for its text */
#define ES_ZERO_HEIGHT 11.0      /* below the decades, for zeros */
#define ES_LEGEND_LINE 11.0      /* height of an entry */
#define ES_LEGEND_SWATCH 12.0
#define ES_LEGEND_GAP 14.0
#define ES_LISTED_MOST 16 /* entries by depth; more are a bar */
#define ES_MARK_RADIUS 2.4

/** The colour of curve i in every panel. */
es_color es_curve_color(const es_curves_sheet *sheet, const es_curve *curve,
                        size_t i);

/** Points; n_curves: of its panel. */
double es_curve_width(const es_curve *curve, size_t n_curves);

/** True if the line has marks, too. */
bool es_curve_is_marked(const es_curves_sheet *sheet, const es_curve *curve);

/** The mark of a category: one of ES_N_MARKS outlines, half of them filled
 *  with the paper's colour. */
void es_draw_mark(const es_canvas *canvas, double x, double y, size_t category,
                  es_color color);

/** Lines of a panel that are equal at a sample, or from one to the next. */
typedef struct es_curves_equals {
    size_t n;    /* with the line itself */
    size_t rank; /* of the line among them */
} es_curves_equals;

/** The lines of curve i's pen that have its finite value at sample k; onwards:
 *  and at sample k + 1, too. Lines of many (more than 48) count as distinct. */
es_curves_equals es_curves_equals_at(const es_curves_panel *panel, size_t i,
                                     size_t k, bool onwards);

/** True if no line leads to sample k or from it. */
bool es_curve_is_lone(const es_curve *curve, size_t k);

/** The curves that have the lone sample k of curve i as a lone one, too; as
 *  es_curves_equals_at. */
es_curves_equals es_curves_lone_equals_at(const es_curves_panel *panel,
                                          size_t i, size_t k);

/** x -> x on the page. Finite for finite values. */
static inline double es_curves_x(const es_curves_block *block, double x)
{
    return block->x0 + (x - block->first) * block->x_scale;
}

/** value -> y on the page. Finite for finite values. */
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
 *   out  written; es_curves_sheet_clear it in every case
 *
 * ES_OK, ES_ENOMEM, ES_EUSAGE (size too small, no panel, no logarithm).
 */
es_status es_curves_lay_out(es_curves_sheet *out,
                            const es_curves *figure) ES_MUST_USE;

void es_curves_sheet_clear(es_curves_sheet *sheet);

/** Measures the legend, and decides where it stands. */
void es_curves_measure_legend(es_curves_sheet *sheet);

/** Height of the legend below plots of that width. */
double es_curves_legend_height(const es_curves_sheet *sheet, double width);

void es_curves_draw_legend(const es_page *page);

/**
 * Appends the lines of a panel and the marks of what is not finite.
 * ES_OK or ES_ENOMEM.
 */
es_status es_curves_draw_lines(const es_curves_sheet *sheet,
                               const es_curves_block *block) ES_MUST_USE;

#endif
