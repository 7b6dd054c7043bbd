/** Reads any series of a run for figures, beyond its summary. */
#ifndef ES_SOURCE_H
#define ES_SOURCE_H

#include "cli/figures/drawing.h"

/** Opens the file of a run. The caller closes *out with es_damage_close, also
 *  after an error. Returns errors of es_reader_open, and ES_EIO if the file was
 *  replaced and no longer has the run. */
es_status es_source_open(es_reader **out,
                         const es_run_summary *run) ES_MUST_USE;

/** How the heads of a layer are reduced to lines. */
typedef enum es_reduction {
    ES_REDUCE_NONE, /* no reduction: 1, L or L*H lines by the shape */
    ES_REDUCE_MEAN, /* of a layer's finite heads */
    ES_REDUCE_LEAST,
    ES_REDUCE_MOST,
    ES_REDUCE_LOWER, /* lower quartile, by es_stats_quantile */
    ES_REDUCE_UPPER, /* upper quartile */
    ES_REDUCE_SUM
} es_reduction;

/** How all lines are folded into one: the smallest or largest at each step, or
 *  NaN if any line is NaN, because the broken layer is what matters. */
typedef enum es_fold { ES_FOLD_NONE, ES_FOLD_LEAST, ES_FOLD_MOST } es_fold;

/** Selects the lines to read from a run. */
typedef struct es_lines_query {
    const char *series;
    es_phase phase;
    bool either; /* use the other phase if only that has the series */
    es_reduction reduction;
    bool by_head;  /* read the heads of `layer`, each as a line, from a series
                      with a value per head */
    int64_t layer; /* if by_head */
    es_fold fold;
} es_lines_query;

/** A series over its steps. The drawing owns the memory. */
typedef struct es_run_lines {
    size_t n_lines, n; /* points of each line */
    int64_t *steps;    /* (n) increasing */
    float *values;     /* (n_lines,n) may be NaN, infinite or missing */
    es_shape shape;    /* shape of the series */
} es_run_lines;

/**
 * Reads a series of a run over all its steps. Samples of long series are merged
 * as in cli/runs/trace.h, so that no dip and no NaN is lost.
 *
 * A layer without a finite head is NaN, or missing if all of its heads are.
 * Returns ES_OK; ES_ENOTFOUND (no such series, and the message names the
 * existing ones, or no such layer); ES_EIO, ES_EFORMAT, ES_ENOMEM.
 */
es_status es_lines_read(es_run_lines *out, es_drawing *drawing,
                        const es_run_summary *run,
                        const es_lines_query *query) ES_MUST_USE;

/** Smooths the lines by es_stats_smooth if --smooth was given. Returns ES_OK or
 *  ES_ENOMEM. */
es_status es_lines_smooth(es_run_lines *lines, es_drawing *drawing) ES_MUST_USE;

/** Finds the spikes of lines that are not smoothed yet, if --spikes was given.
 *  *out (n_lines,n) belongs to the drawing; NULL without --spikes. Returns as
 *  es_stats_spikes. */
es_status es_lines_spikes(float **out, const es_run_lines *lines,
                          es_drawing *drawing) ES_MUST_USE;

/** Runs of one configuration as lines: the mean, smallest and largest finite
 * value at every step of any run. Runs without a step are interpolated there by
 *  es_stats_align. */
typedef struct es_group_lines {
    es_run_lines mean, low, high; /* low, high: only of several runs */
    size_t n_runs;                /* runs that have the series */
    size_t n_nonfinite;           /* runs whose last sample is not finite */
} es_group_lines;

/**
 * Reads a series of all runs that run i of the drawing stands for.
 *
 *   exponential  true: the values are replaced by their exp
 *
 * Where no run is finite, a value is NaN or infinite if any run is, otherwise
 * missing. Returns as es_lines_read; ES_ENOTFOUND if no run has the series.
 */
es_status es_group_lines_read(es_group_lines *out, es_drawing *drawing,
                              size_t i, const es_lines_query *query,
                              bool exponential) ES_MUST_USE;

#define ES_GROUP_TEXT_MAX 512

/** Prints "SM", or for several seeds "SM (2 of 3 seeds, 1 NaN)". Returns
 *  out. */
char *es_group_label(char out[ES_GROUP_TEXT_MAX], const es_drawing *drawing,
                     size_t i, const es_group_lines *lines);

/** One sample of a series. The drawing owns the memory. */
typedef struct es_slice {
    float *values; /* (n_rows,n_columns): (L,H), (L,1) or (1,1) by shape */
    size_t n_rows, n_columns;
    int64_t step;
} es_slice;

/**
 * Reads the newest sample of a series at or before `step`, in `phase` or, if
 * only the other phase has the series, in that.
 *
 * Returns as es_lines_read, and ES_ENOTFOUND if there is no such sample.
 */
es_status es_slice_read(es_slice *out, es_drawing *drawing,
                        const es_run_summary *run, const char *series,
                        es_phase phase, int64_t step) ES_MUST_USE;

/** Returns the mean of a layer's n heads; NaN if any head is NaN or infinite,
 * so that it is not averaged away; missing if all heads are missing. */
float es_layer_of(const float *heads, size_t n);

/** A series as rows over columns of time, for a raster. The drawing owns the
 *  memory. */
typedef struct es_steps {
    size_t n_layers, n_heads; /* n_heads 0: one value per layer */
    size_t n_rows;            /* the layers, then all heads, layer by layer */
    size_t n_columns;         /* at most ES_STEPS_MOST */
    float *values;            /* (n_rows,n_columns) */
    float *levels;            /* (n_rows) mean over the run; NaN if no value */
    double left, right;       /* steps at the outer edges of the columns */
    double first, last;       /* steps of the first and the last sample */
} es_steps;

#define ES_STEPS_MOST 2048

/**
 * Reads a head or layer series over all its steps.
 *
 * A column covers one interval of the usual length between samples, or several
 * intervals if there are too many; es_raster_wins then chooses the sample shown
 * in each row. A sample fills the columns up to the next one, unless this gap
 * is much longer than the gaps around it: then the columns in between are
 * missing. The row of a layer is the mean of its heads, and NaN if a head is
 * not finite.
 *
 * Reads the series twice. Memory is bounded by ES_STEPS_MOST columns, or fewer
 * if there are many heads. Returns ES_OK; ES_ENOTFOUND, ES_EIO, ES_EFORMAT,
 * ES_ENOMEM.
 */
es_status es_steps_read(es_steps *out, es_drawing *drawing,
                        const es_run_summary *run) ES_MUST_USE;

/**
 * Returns ES_OK if the run has a sample of the series in either phase;
 * otherwise ES_ENOTFOUND with a message that says what the figure called
 * `label` needs and which series the run has.
 */
es_status es_source_has(const es_run_summary *run, const char *series,
                        const char *label) ES_MUST_USE;

/** Prints "alpha, beta, entropy", the names of a run's series with samples,
 * each once for both phases. heads: only series with a value per head. */
es_status es_source_list(char *out, size_t size, es_reader *reader,
                         const es_run_summary *run, bool heads) ES_MUST_USE;

#endif
