/**
 * `entropy-scan report`: runs as one HTML file that needs nothing else.
 *
 * The page holds what --json prints, as a zlib stream in base64, and for each
 * series of each run a JSON element:
 * {"run","name","phase","shape","unit","rows","columns",
 * "samples","steps":[..],"values"}, run counted from 0, values (steps,rows,
 * columns) float32, little-endian, base64, so that a NaN, an infinity and a
 * missing value (0x7fc007a2) stay what they are. "samples" is how many the run
 * has; if that is more than there are steps, the series was thinned
 * (cli/report/thin.h), and "curve":{"steps","values"} has the mean of each row
 * over all samples (cli/runs/trace.h), values (rows,steps). Steps beyond 2^53
 * are strings.
 */
#ifndef ES_REPORT_H
#define ES_REPORT_H

#include "analyzer/base/json_write.h"
#include "cli/runs/summary.h"
#include "cli/runs/tree.h"
#include <stdio.h>

#define ES_REPORT_NAMES 64

/** A page of up to 150 runs is meant to be smaller than this, one of 500 than
 *  twice as much: series are thinned to it. */
#define ES_REPORT_BYTES 2000000
#define ES_REPORT_SERIES_BYTES 250 /* of a series beside its numbers */

size_t es_report_bytes(size_t n_runs);

typedef struct es_report_options {
    char **inputs; /* (n_inputs); of folders the run files below them */
    size_t n_inputs;
    es_paths found;               /* es_inputs_free */
    size_t n_unreadable;          /* folders: each was reported */
    char *names[ES_REPORT_NAMES]; /* (n_names) series, the summary's first */
    size_t n_names;
    bool named; /* by --series: a run has to have them */
    es_summary_options summary;
    es_rules_file rules; /* of --rules and --forecast; summary.rules points to
                            it */
    es_forecast_choice forecast;
    const char *title; /* NULL: the runs' */
    const char *output;
    bool quiet;
} es_report_options;

/** A series of a run, as the page will show it. */
typedef struct es_report_series {
    es_series series; /* without strings */
    char *name, *unit;
    size_t n_rows, n_columns, n_samples;
    size_t share; /* of the page: numbers to be written, steps included */
} es_report_series;

typedef struct es_report_run {
    es_run_summary *summary;
    es_report_series *series; /* (n_series) */
    size_t n_series;
} es_report_run;

typedef struct es_report_data {
    es_report_run *runs; /* (n_runs) */
    size_t n_runs;
    double observed; /* largest value of all runs at the step shown */
} es_report_data;

/** Gives each series its share of n_values numbers: all that it needs, or what
 *  the smaller ones leave, divided evenly. */
void es_report_allot(es_report_data *report, size_t n_values);

/**
 * Fixes m of all runs and writes the page.
 *
 *   out   the caller checks it for errors
 *
 * ES_OK; ES_EFORMAT, ES_EIO (an input is damaged, or changed meanwhile),
 * ES_ENOMEM. Memory: the page's samples of one series.
 */
es_status es_report_write(FILE *out, es_report_data *report,
                          const es_report_options *options) ES_MUST_USE;

/** The samples of one series: its JSON element's text. Returns as above. */
es_status es_report_write_series(es_json_writer *json, es_reader *reader,
                                 size_t run,
                                 const es_report_series *series) ES_MUST_USE;

#define ES_REPORT_MAP_VALUES 300000 /* of all runs: half a MB as text */

/**
 * The attention maps of a run's layers, a JSON element, class "maps":
 * {"run","phase","layers","size","ctx","recorded","steps":[..],"packed"}:
 * weights (steps,layers,size,size), float32 in three digits, as a zlib stream
 * in base64; the last steps that fit, of those recorded. Nothing where there
 * are no maps, or one step is too much. Returns as above.
 */
es_status es_report_write_maps(FILE *out, es_reader *reader, size_t run,
                               const es_run_summary *summary,
                               size_t n_runs) ES_MUST_USE;

/** n bytes in base64 (RFC 4648), without line ends. */
void es_report_base64(FILE *out, const void *bytes, size_t n);

#endif
