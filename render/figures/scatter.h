/** Draws scatter plots: points with labels, and their Pareto front. Low values
 *  are best. */
#ifndef ES_SCATTER_H
#define ES_SCATTER_H

#include "render/figures/theme.h"

typedef struct es_point {
    double x, y;       /* coordinates; a point is drawn only if both are finite,
                          and positive on a logarithmic axis */
    const char *label; /* NULL: no label */
    double low, high;  /* interval of x, drawn as a line through the point; no
                          interval if low >= high */
} es_point;

typedef struct es_scatter {
    es_figure_style style;
    const char *subtitle;   /* may be NULL */
    const es_point *points; /* (n) */
    size_t n;
    bool x_log, y_log;
    bool x_counts;      /* print the ticks of the x axis as counts: 5K, 2M */
    bool front;         /* draw a line along the Pareto front */
    const char *x_text; /* name of the x axis; may be NULL */
    const char *y_text; /* name of the y axis; may be NULL */
    const char *note;   /* may be NULL */
} es_scatter;

/** Sets on_front[i] to true for every point i on the Pareto front. A point is
 *  on the front if no other point is lower in one coordinate without being
 *  higher in the other. Points that are not drawn are not on the front. Takes
 *  O(n^2) time. */
void es_scatter_front(bool *on_front, const es_scatter *figure);

/**
 * Draws a scatter plot. Points on the Pareto front stand out from the others.
 *
 *   out  owned by the caller
 *
 * A label is drawn next to its point. If there is no space, the label is a
 * little farther away and a line connects it to the point. If there is no space
 * for that either, the point gets a number and the label is listed below the
 * figure. Labels touch neither each other nor other points. Takes O(n^2) time.
 * Returns the same statuses as es_heatmap_draw.
 */
es_status es_scatter_draw(es_picture **out,
                          const es_scatter *figure) ES_MUST_USE;

#endif
