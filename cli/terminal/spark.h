/** Draws sparklines, which show a series over the steps in one row of text. */
#ifndef ES_SPARK_H
#define ES_SPARK_H

#include "render/screen.h"

#include <stddef.h>

/** The samples of a series that fall into one column of the terminal. */
typedef struct es_spark_column {
    bool seen;       /* true if the column contains a sample; the sample's value
                        may be missing */
    bool broken;     /* true if a sample of the column is NaN or infinite */
    float low, high; /* range of the finite samples; NaN if there are none */
} es_spark_column;

/**
 * The direction of outliers that a column shows if it has outliers in both
 * directions: falls for an entropy, peaks for a loss.
 */
typedef enum es_spark_side { ES_SPARK_FALLS, ES_SPARK_PEAKS } es_spark_side;

/** Empties n columns. */
void es_spark_clear(es_spark_column *columns, size_t n);

/**
 * Adds a series to the columns of a sparkline. If several series are added to
 * the same columns, their values are merged.
 *
 *   columns  (n) columns, which cover the steps from `from` to `to`
 *   line     (n) workspace
 *   steps, values  (n_values) steps in ascending order and values of the
 *                  samples; n_values >= 1
 *
 * A sample fills the columns up to the next sample; the last sample fills the
 * remaining columns only if it is at step `to`. O(n + n_values).
 */
void es_spark_add(es_spark_column *columns, es_spark_column *line, size_t n,
                  int64_t from, int64_t to, const int64_t *steps,
                  const float *values, size_t n_values);

/**
 * Returns the index of the column that contains `step`, if n columns cover the
 * steps from `from` to `to`.
 */
size_t es_spark_column_of(int64_t step, int64_t from, int64_t to, size_t n);

/**
 * Sets *low and *high to the smallest and the largest finite value of n
 * columns, or to NaN if no column has a finite value.
 */
void es_spark_range(double *low, double *high, const es_spark_column *columns,
                    size_t n);

/**
 * Returns the value shown in column i. If the lowest or the highest sample of
 * the column is an outlier relative to the adjacent columns, returns this
 * sample; if both are outliers, `side` decides between them. Otherwise returns
 * the middle of the column's range. A single sample that falls or peaks is
 * therefore visible even if many samples share its column. Returns NaN if no
 * sample is finite.
 *
 *   unit   minimum distance of an outlier from the adjacent columns
 */
double es_spark_value(const es_spark_column *columns, size_t n, size_t i,
                      double unit, es_spark_side side);

/** The scale and colours for drawing columns as bars. */
typedef struct es_spark_scale {
    double low, high; /* values that the lowest bar and the highest bar
                         represent */
    es_spark_side side;
    bool coloured; /* true: use the colours of `map` instead of the default
                      colour */
    es_colormap map;
} es_spark_scale;

/**
 * Draws n columns from (x, y) to the right. A column with a NaN or infinity is
 * drawn as a red cross; a column without a value is blank.
 */
void es_spark_draw(es_screen *screen, int x, int y,
                   const es_spark_column *columns, size_t n,
                   const es_spark_scale *scale);

#endif
