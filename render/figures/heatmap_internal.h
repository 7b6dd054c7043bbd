/** A figure of heatmaps laid out, and the numbers in its cells. */
#ifndef ES_HEATMAP_INTERNAL_H
#define ES_HEATMAP_INTERNAL_H

#include "render/figures/heatmap.h"
#include "render/figures/page.h"

/** One panel on the page. */
typedef struct es_heatmap_block {
    const es_heatmap_panel *panel;
    const es_heatmap_side *sides;   /* (n_sides) */
    double x, y;                    /* the plot's upper left corner */
    double cell_width, cell_height; /* drawn */
    double side_width;              /* of each small plot; 0: there is none */
    bool printed;                   /* the values fit into the cells */
    bool compact;                   /* but not with two decimals */
} es_heatmap_block;

typedef struct es_heatmap_sheet {
    es_page page;
    const es_heatmap *figure;
    es_heatmap_block *blocks; /* (n_panels) */
    es_color_scale scale;
    int decimals;      /* of the numbers in the cells */
    double value_size; /* of their letters */
} es_heatmap_sheet;

#define ES_SIDE_GAP 16.0 /* before each small plot */

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

/** Appends the small plots beside a panel. */
void es_heatmap_draw_sides(es_picture *picture, const es_heatmap_sheet *sheet,
                           const es_heatmap_block *block);

/** The least width of a side plot, for its text. */
double es_heatmap_side_width(const es_heatmap_side *sides, size_t n);

#define ES_COMPACT (-1) /* decimals: two digits that count, "1.2e5" */

/** The number a cell shows; "" if it is not finite. */
void es_heatmap_value(char out[ES_LABEL_MAX], float value, int decimals);

/** Decimals that distinguish the finite values of all panels in a cell: none
 *  of counts, two of what is about one; ES_COMPACT where too many. */
int es_heatmap_decimals(const es_heatmap *figure);

/** Chooses the size of the numbers: one for all panels that have space for
 *  them in their cells. */
void es_heatmap_size_values(es_heatmap_sheet *sheet);

#endif
