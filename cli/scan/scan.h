/** Showing runs: what the command line says is to be shown, and how. */
#ifndef ES_SCAN_H
#define ES_SCAN_H

#include "analyzer/base/options.h"
#include "cli/figures/figures.h"
#include "cli/runs/summary.h"
#include "cli/runs/tree.h"
#include "cli/scan/where.h"

typedef enum es_text_kind {
    ES_TEXT_TABLE,
    ES_TEXT_JSON,
    ES_TEXT_JSON_LINES,
    ES_TEXT_CSV,
    ES_TEXT_GITHUB, /* annotations of what --check finds */
    ES_TEXT_NONE
} es_text_kind;

/** A tag of options that are for pictures alone; one that some figures have
 *  has 1 << figure of each, too. */
#define ES_SCAN_PICTURE_TAG (1u << 31)

#define ES_SCAN_TASKS_MOST 1000 /* of Slurm; an array may have 1001 */

/** Strings are argv's. */
typedef struct es_scan_options {
    char **inputs; /* (n_inputs) files; of folders those below. With
                      capacity for one more where there is a baseline */
    size_t n_inputs;
    size_t n_unreadable; /* folders: each was reported */
    es_paths found;      /* of folders; inputs point into it */
    es_where where;
    es_order order;
    es_summary_options summary;
    es_rules_file rules; /* of --rules and --forecast; summary.rules points to
                            it */
    es_forecast_choice forecast;
    es_figure_options figures;
    es_text_kind text;
    const char *text_file; /* "-": standard output */
    bool quiet;
    es_severity check; /* exit 1 from this one on; NONE: never */
    int check_format;  /* 1: github */
    bool tui, follow;  /* on the terminal instead of a table */
    bool compare, trends;
    bool best_first;       /* with compare: configurations alone, best first */
    const char *baseline;  /* of --compare; NULL: none */
    size_t baseline_input; /* which input it is */
    bool baseline_added;   /* it was not one: it is the last input now */

    /* As given, and judged into what is above. */
    bool json, jsonl, csv;
    const char *output; /* NULL: none */
    es_format format;
    int64_t n_processes; /* that read; 0: one for each processor */
    bool slurm;          /* by tasks of Slurm: cli/scan/parts.h */
    int64_t n_tasks;     /* at most */
    const char *work;    /* their folder */
    int64_t part;        /* which part this process is to write; -1: none */
    char **words;        /* (n_words) the command line, borrowed */
    char **slurm_words;  /* (n_slurm_words) what sbatch gets of it */
    int n_words, n_slurm_words;

    bool given[ES_MAX_OPTIONS]; /* by row of es_scan_command */
} es_scan_options;

/**
 * What a command line without options gives.
 *
 *   out       es_scan_options_free, also on failure
 *   n_inputs  capacity of its inputs, of which it has none
 *
 * ES_OK; ES_ENOMEM.
 */
es_status es_scan_options_default(es_scan_options *out,
                                  size_t n_inputs) ES_MUST_USE;

/**
 * Reads and checks the command line.
 *
 *   out   es_scan_options_free, also on failure
 *   command  the scan, or the verb summarise
 *
 * ES_OK; ES_DONE (--help, --version: printed); ES_EUSAGE; ES_ENOMEM.
 */
es_status es_scan_options_parse(es_scan_options *out, const es_command *command,
                                int argc, char **argv) ES_MUST_USE;

/**
 * Judges the options together: what excludes what, which output goes where,
 * which files are meant. Completes *options.
 *
 * ES_OK; ES_EUSAGE; ES_ENOTFOUND, ES_EIO (a folder); ES_ENOMEM.
 */
es_status es_scan_judge(es_scan_options *options) ES_MUST_USE;

void es_scan_options_free(es_scan_options *options);

/** Shows the runs. Returns the exit code; messages have been printed.
 *
 *   options  es_scan_judge has judged them, as es_scan_options_parse does */
int es_scan_run(const es_scan_options *options);

#endif
