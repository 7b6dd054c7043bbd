/** Declares the layout of an overview, which the files for layout, rows and
 *  legend share. */
#ifndef ES_OVERVIEW_INTERNAL_H
#define ES_OVERVIEW_INTERNAL_H

#include "render/figures/overview.h"
#include "render/figures/page.h"

/** The left end and the width of a column. */
typedef struct es_overview_span {
    double x, width;
} es_overview_span;

typedef struct es_overview_sheet {
    es_page page;
    const es_overview *figure;
    es_color_scale scale;
    double *text_widths; /* (n_columns + 3) natural widths of the columns for
                            settings, value, flag and status */
    /* (n_columns + 3) left ends and widths on the page of the columns of
     * text_widths. */
    es_overview_span *texts;
    es_overview_span dots, heads, layers, time;
    es_overview_span beside; /* column for percentages that are too wide for
                                their segment of a bar */
    double letters;          /* font size of all texts */
    double gap;
    size_t most_layers;
    size_t most_beside; /* largest number of percentages in this column in any
                           row */
    double most;        /* upper end of the value axis; INFINITY: no limit */
    es_range range;     /* range of the values up to `most` */
    /* Decimals of the printed values; -1: print four significant digits. */
    int decimals;
    double last_step;
    bool has_info; /* true if at least one row has a flag of level info */
    es_axis values, steps;
    double row; /* height of a row */
    size_t n_shown;
    char ramp[160]; /* legend text that explains the layers' colours */
} es_overview_sheet;

/** Returns the colour of segment `share` in the bars that show a run's
 *  heads. */
es_color es_overview_share_color(const es_overview_sheet *sheet, int share);

#define ES_BESIDE_WIDTH 34.0 /* maximum width of a percentage next to a bar */

/**
 * Returns true if the printed percentage of a segment is wider than the
 * segment itself. The bar, which shows a run's heads, is `width` points wide.
 * False for an empty segment.
 */
bool es_overview_is_beside(double share, double width);

/** Prints a value as text for the column of values. */
void es_overview_print(char out[ES_LABEL_MAX], const es_overview_sheet *sheet,
                       float value);

/** Draws a text in a column, vertically centred on y; `right` aligns it to the
 *  right end. */
void es_overview_put(const es_overview_sheet *sheet,
                     const es_overview_span *place, double y, bool right,
                     es_color color, const char *text);

/** Draws one row of the overview, vertically centred on y. */
void es_overview_draw_row(const es_overview_sheet *sheet,
                          const es_overview_row *row, double y);

/** Lays out the legend from y on, in lines as wide as the table, and draws it
 *  if the page has a picture. Returns its height. */
double es_overview_legend(const es_overview_sheet *sheet, double y);

/** Writes the text that explains the layers' colours in the legend to
 *  sheet->ramp. */
void es_overview_name_ramp(es_overview_sheet *sheet);

#endif
