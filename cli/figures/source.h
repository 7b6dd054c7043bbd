/** What figures read of a run beyond its summary: any series of it. */
#ifndef ES_SOURCE_H
#define ES_SOURCE_H

#include "cli/figures/drawing.h"

/** Opens the file of a run, which may have been replaced since it was read;
 *  es_damage_close *out in every case. es_reader_open's errors; ES_EIO. */
es_status es_source_open(es_reader **out,
                         const es_run_summary *run) ES_MUST_USE;

/** Which lines a series becomes. */
typedef enum es_reduction {
    ES_REDUCE_NONE, /* each value of a sample its own: 1, L or L*H lines */
    ES_REDUCE_MEAN, /* of a layer's finite heads; the values of the others */
    ES_REDUCE_LEAST,
    ES_REDUCE_MOST,
    ES_REDUCE_LOWER, /* quartile: es_stats_quantile at 1/4 */
    ES_REDUCE_UPPER, /* at 3/4 */
    ES_REDUCE_SUM
} es_reduction;

/** How all lines become one: at each step their least or their largest, NaN
 *  where one is: the layer that broke is what matters. */
typedef enum es_fold { ES_FOLD_NONE, ES_FOLD_LEAST, ES_FOLD_MOST } es_fold;

/** What to read of a run. */
typedef struct es_lines_query {
    const char *series;
    es_phase phase;
    bool either; /* or the other phase, where the series is only there */
    es_reduction reduction;
    bool by_head;  /* instead the heads of a layer, each a line, of a series
                      that has a value for each */
    int64_t layer; /* of these */
    es_fold fold;
} es_lines_query;

/** A series over its steps. The memory is the drawing's. */
typedef struct es_run_lines {
    size_t n_lines, n; /* points of each line */
    int64_t *steps;    /* (n) increasing */
    float *values;     /* (n_lines,n) NaN, infinite, missing as recorded */
    es_shape shape;    /* of the series */
} es_run_lines;

/**
 * Reads a series of a run over all its steps. Long ones are joined as
 * cli/runs/trace.h says: no dip and no NaN gets lost.
 *
 * A layer without a finite head has NaN, or missing if all of its are.
 * ES_OK; ES_ENOTFOUND (the message names the series that there are; or there
 * is no such layer); ES_EIO, ES_EFORMAT, ES_ENOMEM.
 */
es_status es_lines_read(es_run_lines *out, es_drawing *drawing,
                        const es_run_summary *run,
                        const es_lines_query *query) ES_MUST_USE;

/** Smooths the lines where --smooth says so: es_stats_smooth. */
es_status es_lines_smooth(es_run_lines *lines, es_drawing *drawing) ES_MUST_USE;

/** Finds their spikes where --spikes says so, (n_lines,n), which belongs to the
 *  drawing; before they are smoothed. *out NULL: nobody wants them. Returns as
 *  es_stats_spikes. */
es_status es_lines_spikes(float **out, const es_run_lines *lines,
                          es_drawing *drawing) ES_MUST_USE;

/** Runs of one configuration as lines: their mean, least and largest finite
 *  value at each step that one of them has; of those that have other steps what
 *  es_stats_align gives there. */
typedef struct es_group_lines {
    es_run_lines mean, low, high; /* the latter two only of several runs */
    size_t n_runs;                /* that have the series */
    size_t n_nonfinite; /* of these, whose last sample is not finite */
} es_group_lines;

/**
 * Reads a series of all runs that run i of the drawing stands for.
 *
 *   exponential  exp of the values
 *
 * A value is NaN where no run is finite and one is not; missing where all are.
 * Returns as es_lines_read; ES_ENOTFOUND if no run has the series.
 */
es_status es_group_lines_read(es_group_lines *out, es_drawing *drawing,
                              size_t i, const es_lines_query *query,
                              bool exponential) ES_MUST_USE;

#define ES_GROUP_TEXT_MAX 512

/** "SM", or of several seeds "SM (2 of 3 seeds, 1 NaN)". Returns out. */
char *es_group_label(char out[ES_GROUP_TEXT_MAX], const es_drawing *drawing,
                     size_t i, const es_group_lines *lines);

/** One sample of a series. The memory is the drawing's. */
typedef struct es_slice {
    float *values; /* (n_rows,n_columns): (L,H), (L,1) or (1,1) by shape */
    size_t n_rows, n_columns;
    int64_t step;
} es_slice;

/**
 * Reads the newest sample of a series at or before `step`, in `phase` or,
 * where the series is only there, in the other.
 *
 * Returns as es_lines_read; ES_ENOTFOUND too if there is no such sample.
 */
es_status es_slice_read(es_slice *out, es_drawing *drawing,
                        const es_run_summary *run, const char *series,
                        es_phase phase, int64_t step) ES_MUST_USE;

/** The mean of a layer's heads (n), in which one that is not finite makes it
 *  so: it is not to be averaged away. Missing if all of them are. */
float es_layer_of(const float *heads, size_t n);

/** A series as rows over columns of time: what a raster shows. The memory is
 * the drawing's. */
typedef struct es_steps {
    size_t n_layers, n_heads; /* n_heads 0: the series has a value a layer */
    size_t n_rows;            /* the layers, then all heads, layer by layer */
    size_t n_columns;         /* at most ES_STEPS_MOST */
    float *values;            /* (n_rows,n_columns) */
    float *levels;            /* (n_rows) mean over the run; NaN: no value */
    double left, right;       /* steps at the outer edges of the columns */
    double first, last;       /* steps of the first and the last sample */
} es_steps;

#define ES_STEPS_MOST 2048

/**
 * Reads a head or layer series over all its steps.
 *
 * A column for every interval of the usual length, or for several where there
 * are too many: it then shows of each row what es_raster_wins chooses. A
 * sample holds until the next one, unless that is much later than those before
 * and after: then steps are missing, and their columns too. The row of a layer
 * is the mean of its heads, and not finite if one of them is not.
 *
 * Reads the series twice; memory is bounded by ES_STEPS_MOST columns, fewer
 * of many heads. ES_OK; ES_ENOTFOUND, ES_EIO, ES_EFORMAT, ES_ENOMEM.
 */
es_status es_steps_read(es_steps *out, es_drawing *drawing,
                        const es_run_summary *run) ES_MUST_USE;

/**
 * ES_OK if the run has a sample of the series in either phase; otherwise
 * ES_ENOTFOUND, and the message says what the figure called `label` needs and
 * which series there are.
 */
es_status es_source_has(const es_run_summary *run, const char *series,
                        const char *label) ES_MUST_USE;

/** "alpha, beta, entropy": the series of a run that have samples, by name; of
 *  two phases one is listed. heads: only those with a value of each head. */
es_status es_source_list(char *out, size_t size, es_reader *reader,
                         const es_run_summary *run, bool heads) ES_MUST_USE;

#endif
