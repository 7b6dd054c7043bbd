/**
 * Reads series of a run for figures. Any series can be read, not only the
 * series of the run's summary.
 */
#ifndef ES_SOURCE_H
#define ES_SOURCE_H

#include "cli/figures/drawing.h"

/**
 * Opens the run file that contains a run. The caller closes *out with
 * es_damage_close, also after an error. Returns ES_OK; the errors of
 * es_reader_open; ES_EIO if the file was replaced and no longer contains the
 * run.
 */
es_status es_source_open(es_reader **out,
                         const es_run_summary *run) ES_MUST_USE;

/**
 * Opens a cursor over the samples of a series in a range of steps. The caller
 * closes *out. Returns the statuses of es_cursor_open.
 */
es_status es_source_scan(es_cursor **out, es_reader *reader,
                         const es_series *series,
                         const es_step_range *steps) ES_MUST_USE;

/** Returns ES_ENOTFOUND with a message that a series has no sample, or has none
 *  in the range of steps. */
es_status es_source_empty(es_reader *reader, const es_series *series,
                          const es_step_range *steps);

/** Selects how the values of a layer's heads are reduced to one value. */
typedef enum es_reduction {
    /* No reduction: each value becomes a line. A series with one value per run,
     * layer or head therefore has 1, L or L*H lines. */
    ES_REDUCE_NONE,
    ES_REDUCE_MEAN, /* mean of the layer's finite heads */
    ES_REDUCE_LEAST,
    ES_REDUCE_MOST,
    ES_REDUCE_LOWER, /* lower quartile of the heads, by es_stats_quantile */
    ES_REDUCE_UPPER, /* upper quartile */
    ES_REDUCE_SUM
} es_reduction;

/**
 * Selects whether all lines are reduced to one line, which contains the
 * smallest or the largest of their values at each step. The result is NaN if
 * any line is NaN, so that a broken layer is visible.
 */
typedef enum es_fold { ES_FOLD_NONE, ES_FOLD_LEAST, ES_FOLD_MOST } es_fold;

/** Selects the lines to read from a run. */
typedef struct es_lines_query {
    const char *series;
    es_phase phase;
    bool either; /* if the series exists only in the other phase, read it
                    there */
    es_reduction reduction;
    bool by_head;  /* read one line for each head of `layer`; the series must
                      have one value per head */
    int64_t layer; /* layer whose heads are read; used only if by_head is
                      true */
    es_fold fold;
    bool every_step; /* read all steps, even if the option --steps was given */
} es_lines_query;

/** A series of a run as lines over the steps. The drawing owns the memory. */
typedef struct es_run_lines {
    size_t n_lines, n; /* number of lines, and number of points of each line */
    int64_t *steps;    /* (n) increasing */
    float *values;     /* array of shape (n_lines,n); a value may be NaN,
                          infinite or missing */
    es_shape shape;    /* shape of the series */
} es_run_lines;

/**
 * Reads a series of a run over all its steps, or over those of the option
 * --steps. In a long series, neighbouring samples are merged as described in
 * cli/runs/trace.h, so that no dip and no NaN is lost.
 *
 * If heads are reduced, the value of a layer is NaN if none of its heads is
 * finite, and missing if all of its heads are missing. Returns ES_OK;
 * ES_ENOTFOUND if the run lacks the series (the message names the existing
 * series), the layer, or a sample in the range of --steps; ES_EIO, ES_EFORMAT,
 * ES_ENOMEM.
 */
es_status es_lines_read(es_run_lines *out, es_drawing *drawing,
                        const es_run_summary *run,
                        const es_lines_query *query) ES_MUST_USE;

/** Smooths the lines with es_stats_smooth if the option --smooth was given.
 *  Returns ES_OK or ES_ENOMEM. */
es_status es_lines_smooth(es_run_lines *lines, es_drawing *drawing) ES_MUST_USE;

/**
 * Finds the spikes of lines if the option --spikes was given. Must be called
 * before es_lines_smooth. *out (n_lines,n) has the values of the spikes and is
 * missing elsewhere; NULL without --spikes. The drawing owns *out. Returns the
 * statuses of es_stats_spikes.
 */
es_status es_lines_spikes(float **out, const es_run_lines *lines,
                          es_drawing *drawing) ES_MUST_USE;

/** The lines of a configuration's runs, merged: the mean, the smallest and the
 *  largest finite value at each step at which at least one run has a sample. If
 *  another run has no sample at a step, its value is interpolated by
 *  es_stats_align. */
typedef struct es_group_lines {
    es_run_lines mean, low, high; /* low and high are empty if only one run has
                                     the series */
    size_t n_runs;                /* number of runs that have the series */
    /* Number of runs whose last sample is NaN or infinite. */
    size_t n_nonfinite;
} es_group_lines;

/**
 * Reads a series of all runs in the group of run i (es_drawing_members).
 *
 *   exponential  if true, each value x is replaced by exp(x)
 *
 * At a step where no run has a finite value, the merged value is NaN or
 * infinite if a run has such a value, otherwise missing. Returns the statuses
 * of es_lines_read; ES_ENOTFOUND if no run has the series.
 */
es_status es_group_lines_read(es_group_lines *out, es_drawing *drawing,
                              size_t i, const es_lines_query *query,
                              bool exponential) ES_MUST_USE;

#define ES_GROUP_TEXT_MAX 512

/** Prints the label of a run, such as "SM", or for several seeds "SM (2 of 3
 *  seeds, 1 NaN)". Returns out. */
char *es_group_label(char out[ES_GROUP_TEXT_MAX], const es_drawing *drawing,
                     size_t i, const es_group_lines *lines);

/** One sample of a series. The drawing owns the memory. */
typedef struct es_slice {
    float *values; /* array of shape (n_rows,n_columns), which is (L,H), (L,1)
                      or (1,1), depending on the shape of the series */
    size_t n_rows, n_columns;
    int64_t step;
} es_slice;

/**
 * Reads the newest sample of a series at or before `step`. If the series exists
 * only in the other phase, reads it there.
 *
 * Returns the statuses of es_lines_read; ES_ENOTFOUND if there is no sample at
 * or before `step`.
 */
es_status es_slice_read(es_slice *out, es_drawing *drawing,
                        const es_run_summary *run, const char *series,
                        es_phase phase, int64_t step) ES_MUST_USE;

/** Returns the mean of the values of a layer's n heads; NaN if any head is NaN
 *  or infinite, because a mean of the finite heads would hide the problem;
 *  missing if all heads are missing. */
float es_layer_of(const float *heads, size_t n);

/**
 * A series as the grid of a raster figure: its rows are layers and heads, its
 * columns are ranges of steps. The drawing owns the memory.
 */
typedef struct es_steps {
    /* n_heads is 0 for a series with one value per layer. */
    size_t n_layers, n_heads;
    /* The rows are all layers, followed by all heads, layer by layer. */
    size_t n_rows;
    size_t n_columns; /* number of columns, at most ES_STEPS_MOST */
    float *values;    /* (n_rows,n_columns) */
    /* Mean of each of the n_rows rows over all samples; NaN if the row has no
     * value. */
    float *levels;
    double left, right; /* steps at the left edge of the first column and at the
                           right edge of the last column */
    double first, last; /* steps of the first and the last sample */
    bool merged;        /* true if a column has several samples */
} es_steps;

#define ES_STEPS_MOST 2048

/**
 * Reads a head or layer series over all its steps, or over those of the option
 * --steps.
 *
 * The width of a column is the most frequent interval between two samples, or a
 * multiple of this interval if there would be too many columns; es_raster_wins
 * then chooses which of the column's samples is shown in each row. A sample
 * also fills the columns up to the next sample, unless this gap is much longer
 * than the gaps before and after it; the columns of such a gap are missing. The
 * value of a layer is the mean of its heads, or NaN if a head is not finite.
 *
 * Reads the series twice. Memory is bounded by ES_STEPS_MOST columns, or fewer
 * if there are many heads. Returns ES_OK; ES_ENOTFOUND, ES_EIO, ES_EFORMAT,
 * ES_ENOMEM.
 */
es_status es_steps_read(es_steps *out, es_drawing *drawing,
                        const es_run_summary *run) ES_MUST_USE;

/**
 * Returns ES_OK if the run has a sample of the series in either phase;
 * otherwise ES_ENOTFOUND, with a message that says which series the figure
 * `label` needs and which series the run has.
 */
es_status es_source_has(const es_run_summary *run, const char *series,
                        const char *label) ES_MUST_USE;

/**
 * Prints the names of those series of a run that have samples, such as "alpha,
 * beta, entropy". A series that was recorded in both phases is listed once.
 *
 *   heads  if true, only series with one value per head are listed
 */
es_status es_source_list(char *out, size_t size, es_reader *reader,
                         const es_run_summary *run, bool heads) ES_MUST_USE;

#endif
