/** A figure of points laid out: marks, and what stands for their labels. */
#ifndef ES_SCATTER_INTERNAL_H
#define ES_SCATTER_INTERNAL_H

#include "render/figures/page.h"
#include "render/figures/scatter.h"

/** What stands for a label. */
typedef enum es_scatter_label {
    ES_SCATTER_NONE,
    ES_SCATTER_BESIDE,
    ES_SCATTER_AWAY,    /* with a line to it */
    ES_SCATTER_NUMBERED /* a number beside it; the label below the figure */
} es_scatter_label;

/** One point on the page. */
typedef struct es_scatter_mark {
    double x, y;
    bool shown, on_front;
    es_scatter_label kind;
    int number;  /* of those numbered, from 1; 0 where not even that fits */
    es_box text; /* of the label or the number */
} es_scatter_mark;

typedef struct es_scatter_sheet {
    es_page page;
    const es_scatter *figure;
    es_scatter_mark *marks; /* (n) */
    bool *on_front;         /* (n) */
    size_t n_shown;
    es_axis x_axis, y_axis;
} es_scatter_sheet;

#define ES_POINT_RADIUS 2.8
#define ES_SCATTER_SIZE 7.0 /* of labels */

/** Gives every shown mark with a label its place within the plot. */
void es_scatter_place_labels(es_scatter_sheet *sheet);

/** The list of numbered labels, `width` wide: its height. Draws it too, its
 *  upper left corner at (x, y), unless picture is NULL. */
double es_scatter_numbers(es_picture *picture, const es_scatter_sheet *sheet,
                          double x, double y, double width);

/** Lays the figure out; es_scatter_sheet_clear it in every case. ES_OK,
 *  ES_ENOMEM, ES_EUSAGE (size too small). */
es_status es_scatter_lay_out(es_scatter_sheet *out,
                             const es_scatter *figure) ES_MUST_USE;

void es_scatter_sheet_clear(es_scatter_sheet *sheet);

#endif
