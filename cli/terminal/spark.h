/** Sparklines: a line over the steps in one row of the terminal. */
#ifndef ES_SPARK_H
#define ES_SPARK_H

#include "cli/terminal/screen.h"

#include <stddef.h>

/** What one column of the terminal shows of a line's samples. */
typedef struct es_spark_column {
    bool seen;       /* some sample is in it, be it missing */
    bool broken;     /* one is NaN or infinite */
    float low, high; /* of the finite ones; NaN if there is none */
} es_spark_column;

/** Which way a sample stands out where a column shows one: falls of an
 *  entropy, peaks of a loss. */
typedef enum es_spark_side { ES_SPARK_FALLS, ES_SPARK_PEAKS } es_spark_side;

/** (n) columns that nothing is in. */
void es_spark_clear(es_spark_column *columns, size_t n);

/**
 * Adds a line; columns may get several, and then join them.
 *
 *   columns  (n) for the steps from..to
 *   line     (n) workspace
 *   steps, values  (n_values) as es_trace has them
 *
 * Between two samples that are further apart than a column the first one
 * lasts, and so does that of the step `to`. n_values >= 1. O(n + n_values).
 */
void es_spark_add(es_spark_column *columns, es_spark_column *line, size_t n,
                  int64_t from, int64_t to, const int64_t *steps,
                  const float *values, size_t n_values);

/** The column that a step falls into. */
size_t es_spark_column_of(int64_t step, int64_t from, int64_t to, size_t n);

/** Smallest and largest finite value; both NaN if there is none. */
void es_spark_range(double *low, double *high, const es_spark_column *columns,
                    size_t n);

/**
 * The value that column i shows: what stands out from the columns beside it,
 * on `side` first, else the middle. So a single sample that falls, or peaks,
 * is seen however many share its column. NaN: none is finite.
 *
 *   unit   less than this is nothing that stands out
 */
double es_spark_value(const es_spark_column *columns, size_t n, size_t i,
                      double unit, es_spark_side side);

/** How columns become bars. */
typedef struct es_spark_scale {
    double low, high; /* of the lowest and the highest bar */
    es_spark_side side;
    bool coloured; /* bars in the colours of `map`; else in the terminal's */
    es_colormap map;
} es_spark_scale;

/** Draws the columns from (x, y) to the right; a red cross for what is broken,
 *  a blank for what is missing. */
void es_spark_draw(es_screen *screen, int x, int y,
                   const es_spark_column *columns, size_t n,
                   const es_spark_scale *scale);

#endif
