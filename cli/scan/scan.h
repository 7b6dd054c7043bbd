/** Options of a scan: which runs the command line selects, and how they are
 *  shown. */
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
    ES_TEXT_GITHUB, /* annotations for the findings of --check */
    ES_TEXT_NONE
} es_text_kind;

/** Tag of options that apply only to pictures. An option that applies only to
 *  some figures also has the tag 1 << figure for each of them. */
#define ES_SCAN_PICTURE_TAG (1u << 31)

#define ES_SCAN_TASKS_MOST                                                     \
    1000 /* Slurm's default limit of an array is 1001                          \
          */

/** Strings are borrowed from argv. */
typedef struct es_scan_options {
    char **inputs; /* (n_inputs) run files, folders already expanded;
                      capacity for one more if there is a baseline */
    size_t n_inputs;
    size_t n_unreadable; /* folders that cannot be read; reported already */
    es_paths found;      /* files found in folders; `inputs` points into it */
    es_where where;
    es_order order;
    es_summary_options summary;
    es_rules_file rules; /* of --rules and --forecast; summary.rules points
                            to it */
    es_forecast_choice forecast;
    es_figure_options figures;
    es_text_kind text;
    const char *text_file; /* "-": standard output */
    bool quiet;
    es_severity check; /* exit 1 from this severity on; NONE: never */
    int check_format;  /* 0: table; 1: github */
    bool tui, follow;  /* draw on the terminal instead of a table */
    bool compare, trends;
    bool best_first;       /* with compare: print only configurations, best
                              first */
    const char *baseline;  /* file of --baseline; NULL: no baseline */
    size_t baseline_input; /* index of the baseline in `inputs` */
    bool baseline_added;   /* the baseline was not an input: it was appended */

    /* As given on the command line; es_scan_judge derives the members above. */
    bool json, jsonl, csv;
    const char *output; /* NULL: not given */
    es_format format;
    int64_t n_processes; /* readers; 0: one for each processor */
    bool slurm;          /* read by tasks of Slurm: cli/scan/parts.h */
    int64_t n_tasks;     /* limit of the number of tasks */
    const char *work;    /* folder of the tasks */
    int64_t part;        /* part that this process writes; -1: none */
    char **words;        /* (n_words) command line of a task, borrowed */
    char **slurm_words;  /* (n_slurm_words) options of sbatch, borrowed */
    int n_words, n_slurm_words;

    bool given[ES_MAX_OPTIONS]; /* indexed by row of es_scan_command */
} es_scan_options;

/**
 * Sets the options that an empty command line gives.
 *
 *   out       freed by es_scan_options_free, also after a failure
 *   n_inputs  capacity of out->inputs, which stays empty
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_scan_options_default(es_scan_options *out,
                                  size_t n_inputs) ES_MUST_USE;

/**
 * Parses and checks the command line.
 *
 *   out      freed by es_scan_options_free, also after a failure
 *   command  the scan, or the verb summarise
 *
 * Returns ES_OK; ES_DONE (--help or --version was printed); ES_EUSAGE;
 * ES_ENOMEM.
 */
es_status es_scan_options_parse(es_scan_options *out, const es_command *command,
                                int argc, char **argv) ES_MUST_USE;

/**
 * Checks the options together: which exclude each other, which output goes
 * where, which files are meant. Completes *options.
 *
 * Returns ES_OK; ES_EUSAGE; ES_ENOTFOUND or ES_EIO for a folder; ES_ENOMEM.
 */
es_status es_scan_judge(es_scan_options *options) ES_MUST_USE;

void es_scan_options_free(es_scan_options *options);

/**
 * Shows the runs, and prints a message for each failure. Returns the exit code.
 *
 *   options  completed by es_scan_judge (es_scan_options_parse calls it)
 */
int es_scan_run(const es_scan_options *options);

#endif
