/** Options of a scan, which determine the runs to read and how they are
 *  output. */
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
    ES_TEXT_GITHUB, /* annotations for the flags that --check finds */
    ES_TEXT_NONE
} es_text_kind;

/** Tag of options that apply only to pictures. An option that applies only to
 *  some figures also has the tag 1 << figure for each of these figures. */
#define ES_SCAN_PICTURE_TAG (1u << 31)

/** Tag of options that belong to other verbs. `entropy-scan RUN.db` still
 *  accepts these options, but only the help of the verbs lists them. */
#define ES_SCAN_OLD_TAG (1u << 25)

#define ES_SCAN_TASKS_MOST 1000 /* below Slurm's default limit of 1001 */

/** Options of a scan. Strings are borrowed from argv. */
typedef struct es_scan_options {
    char **inputs; /* paths of n_inputs run files, after folders were expanded;
                      has space for one more path, the baseline */
    size_t n_inputs;
    size_t n_unreadable; /* number of unreadable folders, which have been
                            reported */
    es_paths found;      /* owns the paths found in folders, to which `inputs`
                            points */
    es_where where;
    es_order order;
    es_summary_options summary;
    es_rules_file rules; /* rules from the file of --rules; summary.rules points
                            to them */
    es_figure_options figures;
    es_text_kind text;
    const char *text_file; /* "-": standard output */
    bool quiet;
    es_severity check; /* lowest severity that causes exit code 1; NONE for exit
                          code 0 in every case */
    int check_format;  /* 0: table; 1: github */
    /* tui: draw on the terminal; follow: redraw as the runs grow. */
    bool tui, follow;
    bool compare, trends;
    bool best_first;       /* with --compare, print only configurations, the
                              best first */
    const char *baseline;  /* file given by --baseline; NULL without a
                              baseline */
    size_t baseline_input; /* index of the baseline in `inputs` */
    bool baseline_added;   /* true if the baseline was not among the inputs, and
                              was appended to them */

    /* Options as given on the command line. es_scan_judge derives the members
       above from the following members. */
    bool json, jsonl, csv;
    const char *output; /* NULL if no -o was given */
    es_format format;
    int64_t n_processes; /* maximum number of processes that read files; 0 for
                            one per CPU */
    bool slurm;          /* if true, Slurm tasks read the files
                            (cli/scan/parts.h) */
    int64_t n_tasks;     /* maximum number of Slurm tasks */
    const char *work;    /* folder for the files of the Slurm tasks */
    int64_t part;        /* number of the Slurm task's part of the runs, which
                            this process reads and writes to a file; -1 if the
                            process is not a Slurm task */
    char **words;        /* command line for the tasks, n_words words;
                            borrowed */
    char **slurm_words;  /* options for sbatch, n_slurm_words words; borrowed */
    int n_words, n_slurm_words;

    bool given[ES_MAX_OPTIONS]; /* true if the option was given; indexed by row
                                   of es_scan_command */
} es_scan_options;

/**
 * Sets the options to those of an empty command line.
 *
 *   out       freed with es_scan_options_free, even after a failure
 *   n_inputs  capacity of out->inputs, which stays empty
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_scan_options_default(es_scan_options *out,
                                  size_t n_inputs) ES_MUST_USE;

/**
 * Parses and checks the command line.
 *
 *   out      freed with es_scan_options_free, even after a failure
 *   command  the command that is run: a scan, or `summarise`
 *
 * Returns ES_OK; ES_DONE (--help or --version was printed); ES_EUSAGE;
 * ES_ENOMEM.
 */
es_status es_scan_options_parse(es_scan_options *out, const es_command *command,
                                int argc, char **argv) ES_MUST_USE;

/**
 * Checks options that depend on each other: rejects contradictory options,
 * determines the file of each output, and expands folders. Stores the results
 * in *options.
 *
 * Returns ES_OK; ES_EUSAGE; ES_ENOTFOUND or ES_EIO for a folder; ES_ENOMEM.
 */
es_status es_scan_judge(es_scan_options *options) ES_MUST_USE;

void es_scan_options_free(es_scan_options *options);

/**
 * Reads the runs, writes all outputs, and prints a message for each failure.
 * Returns the exit code.
 *
 *   options  options from es_scan_options_parse, which has called es_scan_judge
 */
int es_scan_run(const es_scan_options *options);

#endif
