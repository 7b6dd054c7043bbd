/** Scales of a plot: ticks, their labels, where values lie on the page. */
#ifndef ES_AXIS_H
#define ES_AXIS_H

#include "render/figures/theme.h"
#include <math.h>

/** What an axis or a scale has to show: the finite ones of the values added. */
typedef struct es_range {
    double low, high;      /* low > high: there is none */
    double least_positive; /* infinite: none is above zero */
    bool zero;             /* there is one */
} es_range;

#define ES_RANGE_NONE                                                          \
    {                                                                          \
        INFINITY, -INFINITY, INFINITY, false                                   \
    }

/** Adds a value, or (n) of them; what is not finite is left out. */
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

/** Ticks at first, first + step, ...: n of them, n >= 0. */
typedef struct es_ticks {
    double first, step;
    int n;
    int decimals; /* that distinguish the ticks */
} es_ticks;

/**
 * At most `most` ticks inside [low, high], a step of 1, 2 or 5 times a power
 * of ten. One tick if low == high. None if a bound is not finite, or high
 * < low.
 */
es_ticks es_ticks_make(double low, double high, int most);

/** Tick i; exactly 0 where it should be. */
double es_ticks_at(const es_ticks *ticks, int i);

#define ES_LABEL_MAX 32

/** Typesets a number as printf leaves it, in place, if the result fits into
 *  `size` bytes: "-2.5e-09" becomes "−2.5×10⁻⁹", "1e+15" "10¹⁵". */
void es_label_typeset(char *out, size_t size);

/** A tick of a value axis: "0.25", "1.5e+06" where that is shorter. */
void es_label_value(char out[ES_LABEL_MAX], const es_ticks *ticks, int i);

/** A number of steps, tokens, samples: 400, 5K, 2.5M, 1B, 1T. */
void es_label_count(char out[ES_LABEL_MAX], double count);

/**
 * Where x lies between low and high: 0 at low, 1 at high. 0 if the range is
 * empty or not finite, or x is NaN; nothing overflows.
 */
double es_fraction(double x, double low, double high);

/** Smallest of 1, 2, 4, 8 ... that is at least `least`. */
int es_power_step(double least);

/** A rectangle of the page: a plot without its labels. */
typedef struct es_box {
    double x, y, width, height;
} es_box;

/** How the numbers of an axis are written. */
typedef enum es_labels { ES_LABELS_VALUE, ES_LABELS_COUNT } es_labels;

/** One side of a plot: values from low to high lie from start to end. */
typedef struct es_axis {
    double low, high; /* finite, low < high; logarithmic: 0 < low */
    bool logarithmic;
    double start, end; /* points on the page; end may be the smaller */
    es_labels labels;
    es_ticks ticks; /* of the values; logarithmic: of their decades */
} es_axis;

/**
 * An axis for what lies between low and high.
 *
 *   most  ticks at most
 *
 * A range that is empty or not finite becomes one around it, or [0, 1];
 * a logarithmic one begins at a positive value and is at least a decade.
 */
es_axis es_axis_make(double low, double high, bool logarithmic, double start,
                     double end, int most);

/** The value's place on the page: within the axis, at its nearer end where
 *  the value is outside; `start` for a NaN. */
double es_axis_place(const es_axis *axis, double value);

/** The value and the label of a tick, in which minus signs are U+2212. */
double es_axis_tick(const es_axis *axis, int i);
void es_axis_label(char out[ES_LABEL_MAX], const es_axis *axis, int i);

/** Width of the widest label in points, in small letters. */
double es_axis_label_width(const es_axis *axis);

#define ES_AXIS_FOOT 25.0 /* below a plot: tick labels and the axis' name */

/** Line, ticks and labels under the plot, and the axis' name; leaves out
 *  labels that would touch. `text` may be NULL. */
void es_draw_across(const es_canvas *canvas, const es_box *plot,
                    const es_axis *axis, const char *text);

/**
 * The same to the left of the plot, with grid lines through it.
 *
 *   labelled  false: the grid alone, where a neighbour has the labels
 *   text      turned, outside of the labels; may be NULL
 */
void es_draw_upright(const es_canvas *canvas, const es_box *plot,
                     const es_axis *axis, bool labelled, const char *text);

/**
 * Numbers 0 .. n - 1 to the left of a box of n bands, as many as fit.
 *
 *   marks   (n) a letter after each number, NUL: none; NULL: no number has one
 *   ticked  each has a tick; false: only where some are left out
 *   text    turned, around text_x; NULL: none
 */
void es_draw_band_numbers(const es_canvas *canvas, const es_box *box, size_t n,
                          const char *marks, bool ticked, const char *text,
                          double text_x);

/** What es_draw_upright takes to the left of the plot. */
double es_upright_width(const es_axis *axis, const char *text);

#endif
