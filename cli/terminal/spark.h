/** Sparklines: lines over the steps in one row of text. */
#ifndef ES_SPARK_H
#define ES_SPARK_H

#include "cli/terminal/screen.h"

#include <stddef.h>

/** The samples of a line that fall into one column of the terminal. */
typedef struct es_spark_column {
    bool seen;       /* there is a sample, possibly missing */
    bool broken;     /* a sample is NaN or infinite */
    float low, high; /* of the finite samples; NaN if there are none */
} es_spark_column;

/** The outliers that a column shows: falls of an entropy, or peaks of a
 *  loss. */
typedef enum es_spark_side { ES_SPARK_FALLS, ES_SPARK_PEAKS } es_spark_side;

/** Empties n columns. */
void es_spark_clear(es_spark_column *columns, size_t n);

/**
 * Adds a line to the columns, which may hold several merged lines.
 *
 *   columns  (n) for the steps from..to
 *   line     (n) workspace
 *   steps, values  (n_values) as in es_trace; n_values >= 1
 *
 * A sample fills the columns up to the next sample; the last sample fills the
 * rest only if it is at step `to`. O(n + n_values).
 */
void es_spark_add(es_spark_column *columns, es_spark_column *line, size_t n,
                  int64_t from, int64_t to, const int64_t *steps,
                  const float *values, size_t n_values);

/** Returns the column of a step. */
size_t es_spark_column_of(int64_t step, int64_t from, int64_t to, size_t n);

/** Sets the smallest and largest finite value; both NaN if there is none. */
void es_spark_range(double *low, double *high, const es_spark_column *columns,
                    size_t n);

/**
 * Returns the value that column i shows: an outlier relative to the adjacent
 * columns, on `side` if there are two, otherwise the middle of the range. So a
 * single sample that falls or peaks is visible even if many share its column.
 * NaN if no sample is finite.
 *
 *   unit   least distance of an outlier
 */
double es_spark_value(const es_spark_column *columns, size_t n, size_t i,
                      double unit, es_spark_side side);

/** How columns are drawn as bars. */
typedef struct es_spark_scale {
    double low, high; /* values of the lowest and the highest bar */
    es_spark_side side;
    bool coloured; /* use the colours of `map`, not the default colour */
    es_colormap map;
} es_spark_scale;

/** Draws the columns from (x, y) to the right; a NaN or infinity is a red
 *  cross, a missing value is blank. */
void es_spark_draw(es_screen *screen, int x, int y,
                   const es_spark_column *columns, size_t n,
                   const es_spark_scale *scale);

#endif
