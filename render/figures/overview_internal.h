/** The layout of an overview, shared by its layout, rows and legend. */
#ifndef ES_OVERVIEW_INTERNAL_H
#define ES_OVERVIEW_INTERNAL_H

#include "render/figures/overview.h"
#include "render/figures/page.h"

/** The horizontal extent of a column. */
typedef struct es_overview_span {
    double x, width;
} es_overview_span;

typedef struct es_overview_sheet {
    es_page page;
    const es_overview *figure;
    es_color_scale scale;
    double *text_widths; /* (n_columns + 3) natural widths of the settings, the
                            value, the flag and the status */
    es_overview_span *texts; /* (n_columns + 3) their columns as drawn */
    es_overview_span dots, heads, layers, time;
    double letters; /* font size of the texts */
    double gap;
    size_t most_layers;
    double most;    /* largest value on the scale; INFINITY: no limit */
    es_range range; /* of the values up to `most` */
    int decimals;   /* of the printed values; -1: four digits */
    double last_step;
    bool has_info; /* there are flags of level info */
    es_axis values, steps;
    double row; /* height of a row */
    size_t n_shown;
    char ramp[160]; /* legend text of the layers' colours */
} es_overview_sheet;

/** Returns the colour of a part of the bars of heads. */
es_color es_overview_share_color(const es_overview_sheet *sheet, int share);

/** Prints the value for its column. */
void es_overview_print(char out[ES_LABEL_MAX], const es_overview_sheet *sheet,
                       float value);

/** Draws a text in its column, vertically centred on y. */
void es_overview_put(const es_overview_sheet *sheet,
                     const es_overview_span *place, double y, bool right,
                     es_color color, const char *text);

/** Draws a row, vertically centred on y. */
void es_overview_draw_row(const es_overview_sheet *sheet,
                          const es_overview_row *row, double y);

/** Lays out the legend from y on, in lines as wide as the plot, and draws it if
 *  the page has a picture. Returns its height. */
double es_overview_legend(const es_overview_sheet *sheet, double y);

/** Writes the legend text of the layers' colours to sheet->ramp. */
void es_overview_name_ramp(es_overview_sheet *sheet);

#endif
