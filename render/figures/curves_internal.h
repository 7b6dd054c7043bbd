/** Where everything of a figure of curves goes. */
#ifndef ES_CURVES_INTERNAL_H
#define ES_CURVES_INTERNAL_H

#include "render/figures/curves.h"
#include "render/figures/figure_internal.h"

/** One panel on the page. */
typedef struct es_curves_block {
    const es_curves_panel *panel;
    double x, y, width, height; /* of the plot */
    double first, last;         /* steps; first > last: no samples */
    double x0, x_scale;         /* x = x0 + (step - first) * x_scale */
    double y0, y_scale;         /* y = y0 - (value - low) * y_scale */
    es_ticks ticks;             /* of the steps */
} es_curves_block;

typedef struct es_curves_sheet {
    const es_curves *figure;
    const es_colors *colors;
    es_curves_block *blocks; /* (n_panels) */
    size_t n_rows, n_columns;
    double width, height; /* of the page */
    double top;           /* height of the figure's title */
    double head;          /* of the panels' titles */
    double footer;        /* below the panels */
    double least, most;   /* what it has to show */
    double low, high;     /* the shared y scale */
    es_ticks ticks;       /* of it */
    double label_room;    /* left of the first column */
    double legend_x, legend_y, legend_height, legend_room;
    const es_curve *named; /* (n_named) of the panel with the most curves */
    size_t n_named;
    bool listed;    /* the legend is a list; otherwise a bar */
    bool nonfinite; /* there are marks to explain */
} es_curves_sheet;

#define ES_STEP_FOOT 25.0      /* below a plot: step labels and "step" */
#define ES_REFERENCE_ROOM 11.0 /* above the line, for its text */
#define ES_LEGEND_LINE 11.0    /* height of an entry */
#define ES_LEGEND_SWATCH 12.0
#define ES_LEGEND_GAP 14.0

/** What a legend says of a curve: its label without `line_text`; never NULL. */
const char *es_curve_name(const es_curves *figure, const es_curve *curve);

/** The colour of curve i in every panel. */
es_color es_curve_color(const es_curves_sheet *sheet, size_t i);

/** Step -> x and value -> y on the page. Finite for finite values. */
static inline double es_curves_x(const es_curves_block *block, double step)
{
    return block->x0 + (step - block->first) * block->x_scale;
}

static inline double es_curves_y(const es_curves_sheet *sheet,
                                 const es_curves_block *block, double value)
{
    return block->y0 - (value - sheet->low) * block->y_scale;
}

/**
 * Lays the figure out.
 *
 *   out  written; es_curves_sheet_clear it in every case
 *
 * ES_OK, ES_ENOMEM, ES_EUSAGE (size too small, no panel).
 */
es_status es_curves_lay_out(es_curves_sheet *out,
                            const es_curves *figure) ES_MUST_USE;

void es_curves_sheet_clear(es_curves_sheet *sheet);

/**
 * Appends the lines of a panel and the marks of what is not finite.
 * ES_OK or ES_ENOMEM.
 */
es_status es_curves_draw_lines(es_picture *picture,
                               const es_curves_sheet *sheet,
                               const es_curves_block *block) ES_MUST_USE;

#endif
