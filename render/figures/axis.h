/** Computes and draws the axes of plots: ticks, their labels, and the mapping
 *  of values to the page. */
#ifndef ES_AXIS_H
#define ES_AXIS_H

#include "render/figures/theme.h"
#include <math.h>

/** The range of the finite values that were added, used to choose an axis or a
 *  scale. */
typedef struct es_range {
    double low, high; /* low > high if no value was added yet */
    /* Smallest positive value; INFINITY if no value is positive. */
    double least_positive;
    bool zero; /* a value is 0 */
} es_range;

#define ES_RANGE_NONE                                                          \
    {                                                                          \
        INFINITY, -INFINITY, INFINITY, false                                   \
    }

/** Add one value or n values to the range. Values that are not finite are
 *  ignored. */
static inline void es_range_add(es_range *range, double value)
{
    if (!isfinite(value))
        return;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
    range->zero = range->zero || value == 0;
    if (value > 0)
        range->least_positive = fmin(range->least_positive, value);
}

void es_range_add_all(es_range *range, const float *values, size_t n);

/** The ticks of an axis: n >= 0 ticks at first, first + step, first + 2 * step,
 *  ... */
typedef struct es_ticks {
    double first, step;
    int n;
    int decimals; /* number of decimals that the labels need to differ */
} es_ticks;

/**
 * Returns at most `most` ticks in [low, high]. Their step is 1, 2 or 5 times a
 * power of ten. There is one tick if low == high, and no tick if a bound is not
 * finite or high < low.
 */
es_ticks es_ticks_make(double low, double high, int most);

/** Returns the value of tick i. A tick at zero is exactly 0. */
double es_ticks_at(const es_ticks *ticks, int i);

#define ES_LABEL_MAX 32

/** Typesets a number that printf printed, in place: "-2.5e-09" becomes
 *  "−2.5×10⁻⁹", and "1e+15" becomes "10¹⁵". A number whose result does not fit
 *  into `size` bytes is unchanged. */
void es_label_typeset(char *out, size_t size);

/** Prints the label of tick i on an axis of values: "0.25", or "1.5e+06" if
 *  that is shorter. */
void es_label_value(char out[ES_LABEL_MAX], const es_ticks *ticks, int i);

/** Prints a count of steps, tokens or samples, such as 400, 5K, 2.5M, 1B or
 *  1T. */
void es_label_count(char out[ES_LABEL_MAX], double count);

/**
 * Returns the position of x in a range, (x - low) / (high - low), without
 * overflow. The result is 0 if the range is empty or not finite, or if x is
 * NaN.
 */
double es_fraction(double x, double low, double high);

/**
 * Returns the smallest of the powers of two 1, 2, 4, ... that is at least
 * `least`.
 */
int es_power_step(double least);

/** A rectangle on the page, such as the area of a plot without its labels. */
typedef struct es_box {
    double x, y, width, height;
} es_box;

/** Selects how the numbers of an axis are printed: es_label_value or
 *  es_label_count. */
typedef enum es_labels { ES_LABELS_VALUE, ES_LABELS_COUNT } es_labels;

/** An axis of a plot. It maps values from low to high to positions on the page
 *  from start to end. */
typedef struct es_axis {
    double low, high; /* finite, low < high; if logarithmic, low > 0 */
    bool logarithmic;
    double start, end; /* positions in points; end may be less than start */
    es_labels labels;
    /* Ticks of the values, or of log10 of the values if logarithmic. */
    es_ticks ticks;
} es_axis;

/**
 * Makes an axis for values from low to high.
 *
 *   most  maximum number of ticks
 *
 * An empty range is widened around its value, and a range that is not finite
 * becomes [0, 1]. A logarithmic axis begins at a positive value and spans at
 * least a decade.
 */
es_axis es_axis_make(double low, double high, bool logarithmic, double start,
                     double end, int most);

/** Returns the position of a value on the page. Positions are clamped to the
 *  axis; NaN is at `start`. */
double es_axis_place(const es_axis *axis, double value);

/** Return the value of tick i, and print its label with U+2212 as the minus
 *  sign. */
double es_axis_tick(const es_axis *axis, int i);
void es_axis_label(char out[ES_LABEL_MAX], const es_axis *axis, int i);

/** Returns the width of the widest tick label in points, at the size
 *  ES_SMALL_SIZE. */
double es_axis_label_width(const es_axis *axis);

#define ES_AXIS_FOOT 25.0 /* height of tick labels and the axis name */

/** Draws an x axis below the plot: line, ticks, labels and name. Labels that
 *  would touch others are left out. `text` is the name of the axis; may be
 *  NULL. */
void es_draw_across(const es_canvas *canvas, const es_box *plot,
                    const es_axis *axis, const char *text);

/**
 * Draws a y axis to the left of the plot, with grid lines through the plot.
 *
 *   labelled  false: draw only the grid, because an adjacent plot has the
 *             labels
 *   text      name of the axis, rotated, left of the labels; may be NULL
 */
void es_draw_upright(const es_canvas *canvas, const es_box *plot,
                     const es_axis *axis, bool labelled, const char *text);

/**
 * Numbers the n horizontal bands of a box, such as layers, from 0. The numbers
 * are to the left of the box; numbers without enough space are left out.
 *
 *   marks   (n) a letter after each number, or NUL for no letter; may be NULL
 *   ticked  true: every number has a tick; false: ticks are drawn only if
 *           numbers are left out
 *   text    name of the bands, rotated, at text_x; may be NULL
 */
void es_draw_band_numbers(const es_canvas *canvas, const es_box *box, size_t n,
                          const char *marks, bool ticked, const char *text,
                          double text_x);

/** Returns the width in points that es_draw_upright needs to the left of the
 *  plot. */
double es_upright_width(const es_axis *axis, const char *text);

#endif
