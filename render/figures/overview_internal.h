/** An overview laid out, for its rows and its legend. */
#ifndef ES_OVERVIEW_INTERNAL_H
#define ES_OVERVIEW_INTERNAL_H

#include "render/figures/overview.h"
#include "render/figures/page.h"

/** Where a column is. */
typedef struct es_overview_span {
    double x, width;
} es_overview_span;

typedef struct es_overview_sheet {
    es_page page;
    const es_overview *figure;
    es_color_scale scale;
    double *text_widths; /* (n_columns + 3) natural: the settings, the value,
                            the flag, the status */
    es_overview_span *texts; /* (n_columns + 3) as they are drawn */
    es_overview_span dots, heads, layers, time;
    double letters; /* size of the texts */
    double gap;
    size_t most_layers;
    double most;    /* that has a place on the scale; infinite: all have */
    es_range range; /* of the values up to that */
    int decimals;   /* of them */
    double last_step;
    bool has_info; /* flags of that level */
    es_axis values, steps;
    double row; /* height */
    size_t n_shown;
    char ramp[160]; /* what the legend says of the layers' colours */
} es_overview_sheet;

/** The colour of a part of the bars of heads. */
es_color es_overview_share_color(const es_overview_sheet *sheet, int share);

/** The value as it is written in its column. */
void es_overview_print(char out[ES_LABEL_MAX], const es_overview_sheet *sheet,
                       float value);

/** A text in its column, around y. */
void es_overview_put(const es_overview_sheet *sheet,
                     const es_overview_span *place, double y, bool right,
                     es_color color, const char *text);

/** One row, around y. */
void es_overview_draw_row(const es_overview_sheet *sheet,
                          const es_overview_row *row, double y);

/** Draws the legend from y on, if there is a picture, in lines as wide as the
 *  plot; returns its height. */
double es_overview_legend(const es_overview_sheet *sheet, double y);

/** What the legend says of the layers' colours, into sheet->ramp. */
void es_overview_name_ramp(es_overview_sheet *sheet);

#endif
