/** Points with names, and the front that none of them beats. */
#ifndef ES_SCATTER_H
#define ES_SCATTER_H

#include "render/figures/theme.h"

typedef struct es_point {
    double x, y;       /* not finite, or not above 0 on a logarithmic axis:
                          not drawn */
    const char *label; /* NULL: none */
    double low, high;  /* the interval of x, a line through the point;
                          low >= high: none */
} es_point;

typedef struct es_scatter {
    es_figure_style style;
    const char *subtitle;   /* may be NULL */
    const es_point *points; /* (n) */
    size_t n;
    bool x_log, y_log;
    bool x_counts;      /* ticks read 5K, 2M */
    bool front;         /* a line along the points that no other beats */
    const char *x_text; /* may be NULL */
    const char *y_text; /* may be NULL */
    const char *note;   /* may be NULL */
} es_scatter;

/** on_front[i]: no other point is as low in both coordinates and lower in one.
 *  Points that are not drawn are not on it. O(n^2). */
void es_scatter_front(bool *on_front, const es_scatter *figure);

/**
 * Draws the points; those on the front stand out from the others.
 *
 *   out  owned by the caller
 *
 * A label stands beside its point; where that is taken, a little away with
 * a line to it; where there is none either, its point has a number, and the
 * label stands below the figure. No labels touch each other or another point.
 * O(n^2). Returns as es_heatmap_draw.
 */
es_status es_scatter_draw(es_picture **out,
                          const es_scatter *figure) ES_MUST_USE;

#endif
