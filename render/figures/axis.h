/** Axes of a plot: ticks, their labels, and the mapping of values to the
 *  page. */
#ifndef ES_AXIS_H
#define ES_AXIS_H

#include "render/figures/theme.h"
#include <math.h>

/** The range of the finite values that were added, for an axis or a scale. */
typedef struct es_range {
    double low, high;      /* low > high if no value was added */
    double least_positive; /* INFINITY if no value is positive */
    bool zero;             /* a value is 0 */
} es_range;

#define ES_RANGE_NONE                                                          \
    {                                                                          \
        INFINITY, -INFINITY, INFINITY, false                                   \
    }

/** Add a value, or n values; values that are not finite are ignored. */
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

/** n >= 0 ticks at first, first + step, ... */
typedef struct es_ticks {
    double first, step;
    int n;
    int decimals; /* number that distinguishes the ticks */
} es_ticks;

/**
 * Returns at most `most` ticks in [low, high], with a step of 1, 2 or 5 times a
 * power of ten: one tick if low == high, no tick if a bound is not finite or
 * high < low.
 */
es_ticks es_ticks_make(double low, double high, int most);

/** Returns the value of tick i, which is exactly 0 at zero. */
double es_ticks_at(const es_ticks *ticks, int i);

#define ES_LABEL_MAX 32

/** Typesets a number printed by printf in place, if the result fits into `size`
 *  bytes: "-2.5e-09" becomes "−2.5×10⁻⁹", and "1e+15" becomes "10¹⁵". */
void es_label_typeset(char *out, size_t size);

/** Prints tick i of a value axis: "0.25", or "1.5e+06" if that is shorter. */
void es_label_value(char out[ES_LABEL_MAX], const es_ticks *ticks, int i);

/** Prints a count of steps, tokens or samples: 400, 5K, 2.5M, 1B, 1T. */
void es_label_count(char out[ES_LABEL_MAX], double count);

/**
 * Returns (x - low) / (high - low) without overflow: 0 at low, 1 at high; 0 if
 * the range is empty or not finite, or if x is NaN.
 */
double es_fraction(double x, double low, double high);

/** Returns the smallest power of two, from 1 on, that is at least `least`. */
int es_power_step(double least);

/** A rectangle of the page, such as a plot without its labels. */
typedef struct es_box {
    double x, y, width, height;
} es_box;

/** The number format of an axis. */
typedef enum es_labels { ES_LABELS_VALUE, ES_LABELS_COUNT } es_labels;

/** An axis, which maps values from low to high to the page from start to
 *  end. */
typedef struct es_axis {
    double low, high; /* finite, low < high; 0 < low if logarithmic */
    bool logarithmic;
    double start, end; /* points on the page; end may be less than start */
    es_labels labels;
    es_ticks ticks; /* of the values, or of log10 if logarithmic */
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

/** Returns the place of a value on the page, clamped to the axis; `start` for a
 *  NaN. */
double es_axis_place(const es_axis *axis, double value);

/** Return the value of tick i, and its label, with U+2212 as minus sign. */
double es_axis_tick(const es_axis *axis, int i);
void es_axis_label(char out[ES_LABEL_MAX], const es_axis *axis, int i);

/** Returns the width of the widest label in points, in small letters. */
double es_axis_label_width(const es_axis *axis);

#define ES_AXIS_FOOT 25.0 /* height of tick labels and the axis' name */

/** Draws the axis line, ticks, labels and name below the plot; leaves out
 *  labels that would touch. `text` is the name and may be NULL. */
void es_draw_across(const es_canvas *canvas, const es_box *plot,
                    const es_axis *axis, const char *text);

/**
 * Draws the axis to the left of the plot, with grid lines through the plot.
 *
 *   labelled  false: only the grid, because a neighbour has the labels
 *   text      the axis' name, rotated, left of the labels; may be NULL
 */
void es_draw_upright(const es_canvas *canvas, const es_box *plot,
                     const es_axis *axis, bool labelled, const char *text);

/**
 * Numbers n horizontal bands of a box from 0, at its left. Numbers without
 * enough space are left out.
 *
 *   marks   (n) a letter after each number, or NUL for none; may be NULL
 *   ticked  true: every number has a tick; false: only if numbers are left out
 *   text    name of the bands, rotated, at text_x; may be NULL
 */
void es_draw_band_numbers(const es_canvas *canvas, const es_box *box, size_t n,
                          const char *marks, bool ticked, const char *text,
                          double text_x);

/** Returns the width that es_draw_upright needs to the left of the plot. */
double es_upright_width(const es_axis *axis, const char *text);

#endif
