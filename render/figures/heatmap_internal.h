/** Where everything of a heatmap figure goes. */
#ifndef ES_HEATMAP_INTERNAL_H
#define ES_HEATMAP_INTERNAL_H

#include "render/figures/color_scale.h"
#include "render/figures/figure_internal.h"
#include "render/figures/heatmap.h"

/** One panel on the page. */
typedef struct es_heatmap_block {
    const es_heatmap_panel *panel;
    const es_heatmap_side *sides; /* (n_sides) */
    size_t n_sides;
    double x, y;                    /* the plot's upper left corner */
    double cell_width, cell_height; /* drawn */
    double side_least;              /* the width that its text wants */
    double side_width;              /* of each small plot; 0: there is none */
    double left;                    /* of the plot: row labels */
    double room;                    /* that the titles have */
    double title_width;             /* that they would like */
    bool printed;                   /* the values fit into the cells */
    bool compact;                   /* but not with two decimals */
} es_heatmap_block;

typedef struct es_heatmap_sheet {
    const es_heatmap *figure;
    const es_colors *colors;
    es_heatmap_block *blocks; /* (n_panels) */
    size_t n_rows, n_columns;
    double width, height; /* of the page */
    double top;           /* height of the figure's title */
    double head;          /* of the panels' titles */
    double bar_x, bar_y, bar_height, bar_room, bar_least;
    es_color_scale scale;
    int decimals;      /* of the numbers in the cells */
    bool nonfinite;    /* there are hatched cells to explain */
    bool missing;      /* and blank ones */
    double footer;     /* height below the panels */
    double value_size; /* of the numbers in the cells */
} es_heatmap_sheet;

#define ES_SIDE_GAP 16.0 /* before each small plot */
#define ES_FOOT 24.0     /* below a plot: column labels and "head" */

/**
 * Lays the figure out.
 *
 *   out  written; es_heatmap_sheet_clear it in every case
 *
 * ES_OK, ES_ENOMEM, ES_EUSAGE (size too small, shapes below 1x1).
 */
es_status es_heatmap_lay_out(es_heatmap_sheet *out,
                             const es_heatmap *figure) ES_MUST_USE;

void es_heatmap_sheet_clear(es_heatmap_sheet *sheet);

#define ES_COMPACT (-1) /* decimals: two digits that count, "1.2e5" */

/** Appends the small plots beside a panel. */
void es_heatmap_draw_sides(es_picture *picture, const es_colors *colors,
                           const es_heatmap_block *block);

/** The number a cell shows; "" if it is not finite. */
void es_heatmap_value(char out[ES_LABEL_MAX], float value, int decimals);

/** Decimals that tell the finite values of all panels apart in a cell: none
 *  of counts, two of what is about one; ES_COMPACT where too many. */
int es_heatmap_decimals(const es_heatmap *figure);

#endif
