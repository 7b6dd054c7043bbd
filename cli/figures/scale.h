/** Colour scales that suit a series. */
#ifndef ES_SCALE_H
#define ES_SCALE_H

#include "cli/figures/drawing.h"
#include <math.h>

/** The finite values of what is to be drawn. */
typedef struct es_value_range {
    double low, high;      /* infinite if there is none */
    double least_positive; /* the same */
    bool zero;             /* there is one */
} es_value_range;

#define ES_NO_VALUES                                                           \
    {                                                                          \
        INFINITY, -INFINITY, INFINITY, false                                   \
    }

/** Adds n values. */
void es_value_range_add(es_value_range *range, const float *values, size_t n);

typedef struct es_series_scale {
    double low, high; /* high is NaN if there is nothing to go by */
    bool logarithmic;
} es_series_scale;

/**
 * A scale up to `top`, which may be NaN, for values of the drawing's series.
 *
 * From 0 where that is the natural foot (of what is an amount, a share or a
 * count); else from the smallest value, for the differences of the heads are
 * what is looked for. Logarithmic where a linear scale would show one head
 * alone, zeros then with a colour of their own: never for entropies, whose
 * colours are compared between figures. If all of them are 0, they go up to
 * the ceiling, the largest of the runs'.
 */
es_series_scale es_drawing_scale(const es_drawing *drawing,
                                 const es_value_range *range, double top);

/** The largest m of the runs; NaN if none is known. */
double es_drawing_top(const es_drawing *drawing);

#endif
