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
#include "cli/runs/summary.h"
#include "cli/runs/tree.h"
#include <stdio.h>

#define ES_REPORT_NAMES 64

/** Target size of a page of up to 150 runs, which doubles up to 500 runs.
 *  Series are thinned to reach it. */
#define ES_REPORT_BYTES 2000000
#define ES_REPORT_SERIES_BYTES 250 /* of a series without its numbers */

/** Returns the target size of a page of n_runs runs, in bytes. */
size_t es_report_bytes(size_t n_runs);

typedef struct es_report_options {
    char **inputs; /* (n_inputs) run files; folders are expanded to theirs */
    size_t n_inputs;
    es_paths found;      /* freed by es_inputs_free */
    size_t n_unreadable; /* folders, already reported */
    char
        *names[ES_REPORT_NAMES]; /* (n_names) series; the first is summarised */
    size_t n_names;
    bool named; /* --series was given: every run must have the series */
    es_summary_options summary;
    es_rules_file rules; /* of --rules and --forecast; summary.rules refers to
                            them */
    es_forecast_choice forecast;
    const char *title; /* NULL: a title from the runs */
    const char *output;
    bool quiet;
} es_report_options;

/** A series of a run that the page will show. */
typedef struct es_report_series {
    es_series series; /* its strings are not used */
    char *name, *unit;
    size_t n_rows, n_columns, n_samples;
    size_t share; /* maximum of numbers to write, including steps */
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

/** Divides n_values numbers among the series: small series get all that they
 * need, and the others equal shares of the rest. */
void es_report_allot(es_report_data *report, size_t n_values);

/**
 * Sets m of all runs and writes the page.
 *
 *   out   the caller checks it for write errors
 *
 * Returns ES_OK; ES_EFORMAT, ES_EIO (an input is damaged, or changed during the
 * read); ES_ENOMEM. Needs memory for the page's samples of one series.
 */
es_status es_report_write(FILE *out, es_report_data *report,
                          const es_report_options *options) ES_MUST_USE;

/** Writes the samples of one series into its JSON element. Returns as
 *  es_report_write. */
es_status es_report_write_series(es_json_writer *json, es_reader *reader,
                                 size_t run,
                                 const es_report_series *series) ES_MUST_USE;

#define ES_REPORT_MAP_VALUES 300000 /* for all runs: half a MB as text */

/**
 * Writes the attention maps of a run's layers as a JSON element of class
 * "maps":
 * {"run","phase","layers","size","ctx","recorded","steps":[..],"packed"}.
 * "packed" has the weights (steps,layers,size,size), float32 rounded to three
 * digits, as a zlib stream in base64. Only the last steps that fit are written;
 * "recorded" is the number of all steps. Writes nothing if there are no maps or
 * one step is too large. Returns as es_report_write.
 */
es_status es_report_write_maps(FILE *out, es_reader *reader, size_t run,
                               const es_run_summary *summary,
                               size_t n_runs) ES_MUST_USE;

/** Writes n bytes in base64 (RFC 4648), without line breaks. */
void es_report_base64(FILE *out, const void *bytes, size_t n);

#endif
