/**
 * `entropy-scan report`: writes runs as one self-contained HTML file.
 *
 * The page contains the output of --json as a zlib stream in base64, and for
 * each series of each run a JSON element:
 * {"run","name","phase","shape","unit","rows","columns",
 * "samples","steps":[..],"values"}. "run" counts from 0. "values" (steps,rows,
 * columns) is little-endian float32 in base64, which preserves NaN, infinity
 * and missing values (0x7fc007a2). "samples" is the number of samples in the
 * run; if there are fewer steps, the series was thinned (cli/report/thin.h),
 * and "curve":{"steps","values"} has the mean of each row over all samples
 * (cli/runs/trace.h), with values (rows,steps). Steps beyond 2^53 are strings.
 */
#ifndef ES_REPORT_H
#define ES_REPORT_H

#include "analyzer/base/json_write.h"
#include "cli/figures/figures.h"
#include "cli/report/thin.h"
#include "cli/runs/summary.h"
#include "cli/runs/trace.h"
#include "cli/runs/tree.h"
#include "store/map.h"
#include <stdio.h>

#define ES_REPORT_NAMES 64

/** Target size in bytes of a page of up to 150 runs. The target grows to twice
 *  this size for 500 runs. Series are thinned to reach the target. */
#define ES_REPORT_BYTES 2000000
/* Estimated size of a series on the page in bytes, without its samples. */
#define ES_REPORT_SERIES_BYTES 250

/** Returns the target size of a page of n_runs runs, in bytes. */
size_t es_report_bytes(size_t n_runs);

typedef struct es_report_options {
    /* n_inputs paths of run files. Each folder has been replaced by the run
     * files that it contains. */
    char **inputs;
    size_t n_inputs;
    es_paths found; /* run files found in the folders; freed by
                       es_inputs_free */
    /* Number of unreadable folders, which have been reported. */
    size_t n_unreadable;
    /* Names of the n_names series on the page. The runs' summaries are computed
     * from the series names[0]. */
    char *names[ES_REPORT_NAMES];
    size_t n_names;
    bool named; /* true if --series was given; every run must then have all of
                   the named series */
    es_summary_options summary;
    es_rules_file rules; /* rules of the option --rules; summary.rules points to
                            them */
    const char *title;   /* title of the page; NULL if it is to be made from the
                            runs */
    const char *output;
    bool quiet;
} es_report_options;

/** A series of a run that the page will show. */
typedef struct es_report_series {
    /* Properties of the series; the strings in it are not used. */
    es_series series;
    char *name, *unit;
    size_t n_rows, n_columns, n_samples;
    size_t share; /* maximum number of values of the series on the page,
                     including steps */
} es_report_series;

typedef struct es_report_run {
    es_run_summary *summary;
    es_report_series *series; /* (n_series) */
    size_t n_series;
} es_report_run;

typedef struct es_report_data {
    es_report_run *runs; /* (n_runs) */
    size_t n_runs;
    /* Largest value of all runs at the steps of their summaries. */
    double observed;
} es_report_data;

/**
 * Sets the share of every series, the number of values that the page may show
 * of it, so that the shares add up to n_values. Series with few values get
 * shares for all of their values; the remaining values are divided equally
 * among the other series.
 */
void es_report_allot(es_report_data *report, size_t n_values);

/**
 * Sets the largest entropy (m) of all runs and writes the page.
 *
 *   out   stream of the page, which the caller checks for write errors
 *
 * Returns ES_OK; ES_EFORMAT, ES_EIO if an input is damaged or was changed
 * during the read; ES_ENOMEM. Memory holds the samples of one series at a time.
 */
es_status es_report_write(FILE *out, es_report_data *report,
                          const es_report_options *options) ES_MUST_USE;

/** Properties of a live page, which entropy-scan serve sends. */
typedef struct es_report_live {
    const char *boot; /* identifies the process that sent the page */
    const char *title;
    bool can_stop; /* true if the page may request that a run stop */
} es_report_live;

/** Writes the page without runs: its script requests them from the program that
 *  sent the page (cli/serve/README.md). */
void es_report_write_live(FILE *out, const es_report_live *live);

/** Writes the Content-Security-Policy of a live page. */
void es_report_write_live_policy(FILE *out);

/** Writes the samples of one series as a JSON element. Returns the statuses of
 *  es_report_write. */
es_status es_report_write_series(es_json_writer *json, es_reader *reader,
                                 size_t run,
                                 const es_report_series *series) ES_MUST_USE;

/**
 * The samples of a series, thinned so that they fit the series' share of the
 * page.
 */
typedef struct es_report_samples {
    es_thin *thin;   /* the samples that are kept */
    es_trace *trace; /* curves of the means of all rows over all samples; NULL
                        if no sample was left out, or if the series has one
                        value per step */
    float *means;    /* mean of each of the n_rows rows of the current sample */
} es_report_samples;

/**
 * Reads the samples of a series from the step `from` on, and thins them to the
 * number of values that the page allows for the series (series->share).
 *
 *   out     zero-initialised; the caller frees it with es_report_samples_free,
 *           also after a failure
 *   series  its n_samples counts the samples from the step `from` on
 *
 * Returns the statuses of es_report_write.
 */
es_status es_report_samples_read(es_report_samples *out, es_reader *reader,
                                 size_t run, const es_report_series *series,
                                 int64_t from) ES_MUST_USE;

void es_report_samples_free(es_report_samples *samples);

/** The attention maps of a run's layers at its last steps, as many steps as a
 *  limit allows. All maps have the phase and size of the last map in the
 *  file. */
typedef struct es_report_maps {
    size_t n_layer;
    es_map first;   /* description of one of the maps */
    int64_t *steps; /* (n_steps) */
    size_t n_steps;
    size_t n_recorded; /* number of all steps with maps of this phase and
                          size */
    float *values; /* weights of shape (n_steps,L,S,S), rounded to three digits;
                      missing where a layer has no map */
    size_t n_seen, from; /* used only while the maps are being read */
} es_report_maps;

/**
 * Reads attention maps with at most `most` weights. out->n_steps is 0 if the
 * run has no maps, or if the maps of one step are too large.
 *
 *   out  zero-initialised; the caller frees it with es_report_maps_free, also
 *        after a failure
 *   run  index of the run in the file
 *
 * Returns the statuses of es_report_write.
 */
es_status es_report_maps_read(es_report_maps *out, es_reader *reader,
                              size_t run, size_t n_layer,
                              size_t most) ES_MUST_USE;

void es_report_maps_free(es_report_maps *maps);

/* Maximum number of weights in the maps of a run, so that they take at most
 * about 0.5 MB of the page. */
#define ES_REPORT_MAP_VALUES 300000

/**
 * Writes the attention maps of a run's layers as a JSON element of class
 * "maps":
 * {"run","phase","layers","size","ctx","recorded","steps":[..],"packed"}.
 * "packed" has the weights (steps,layers,size,size), float32 rounded to three
 * digits, as a zlib stream in base64. If not all steps fit into the page, only
 * the last steps are written; "recorded" is the number of all steps with maps
 * in the run. Writes nothing if the run has no maps or the maps of one step are
 * too large. Returns the statuses of es_report_write.
 */
es_status es_report_write_maps(FILE *out, es_reader *reader, size_t run,
                               const es_run_summary *summary,
                               size_t n_runs) ES_MUST_USE;

/** A figure of the page: an SVG, or the reason why the page lacks it. */
typedef struct es_report_figure {
    es_figure_kind kind;
    unsigned char *packed; /* the SVG as a zlib stream of n_packed bytes */
    size_t n_packed, size; /* sizes of the compressed and of the original SVG in
                              bytes */
    char *reason;          /* NULL if the SVG is in the page */
} es_report_figure;

typedef struct es_report_figures {
    es_report_figure *list; /* n figures, at most one of each kind */
    size_t n;
} es_report_figures;

/**
 * Draws every figure that can be drawn from the runs. Figures that need too
 * much time for so many runs, and figures that are too large, are left out with
 * a reason.
 *
 *   out         zero-initialised; the caller frees it with
 *               es_report_figures_free, also after an error
 *   runs        n summaries, in which m, the upper end of the entropy scale,
 *               must be final
 *   page_bytes  size of the page; the figures get a fifth of it
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_report_figures_draw(es_report_figures *out,
                                 const es_run_summary *const *runs, size_t n,
                                 size_t page_bytes) ES_MUST_USE;

/** Returns the number of bytes that the figures take in the page. */
size_t es_report_figures_bytes(const es_report_figures *figures);

/** Writes a JSON element of class "figure" for each figure. Its members are
 *  "name" and "about", and either "size" and "packed" (base64) or "reason". */
void es_report_figures_write(FILE *out, const es_report_figures *figures);

void es_report_figures_free(es_report_figures *figures);

/** Writes n bytes in base64 (RFC 4648), without line breaks. */
void es_report_base64(FILE *out, const void *bytes, size_t n);

#endif
