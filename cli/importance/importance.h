/**
 * Implements `entropy-scan importance`, which measures how strongly the
 * settings in which runs differ are associated with the outcomes of the runs,
 * such as the final perplexity.
 *
 * `--json`, schema 1:
 *
 *     {"schema":1,"runs":12,"quality":"eval_ppl",
 *      "settings":[{"name":"lr","kind":"number","values":4,
 *        "outcomes":{"quality":{"n","strength","p","p_holm","reason":null},
 *                    "overloaded":{...},"collapsed":{...},"nan_step":{...}}}]}
 *
 * Settings are sorted by their largest strength. "strength" is Spearman's rank
 * correlation for a number, and eta squared of ranks for a category
 * (analyzer/statistics/inference.h). "p_holm" is p, adjusted for all settings
 * and outcomes. Unknown values are null, and "reason" contains the reason.
 */
#ifndef ES_IMPORTANCE_H
#define ES_IMPORTANCE_H

#include "analyzer/base/options.h"
#include "analyzer/statistics/inference.h"
#include "cli/figures/figures.h"
#include "cli/runs/settings.h"

typedef enum es_run_outcome {
    ES_OUTCOME_QUALITY,    /* final perplexity on held-out data, or final loss
                              if no run was evaluated */
    ES_OUTCOME_OVERLOADED, /* share of overloaded heads */
    ES_OUTCOME_COLLAPSED,  /* share of collapsed heads */
    ES_OUTCOME_NAN,        /* step of the first NaN; infinity for a run without
                              a NaN */
    ES_N_OUTCOMES
} es_run_outcome;

/** A setting in which the runs differ, with its association to each outcome. */
typedef struct es_important {
    const char *key; /* name of the setting from a run file, so it must be
                        escaped before printing */
    bool number;
    size_t n_values;
    es_association by[ES_N_OUTCOMES];
    double p_holm[ES_N_OUTCOMES];
} es_important;

/** The data of an analysis: runs, outcomes and settings. A struct of zeros is
 *  empty. */
typedef struct es_importance {
    es_run_summary **runs; /* (n_runs) */
    size_t n_runs;
    bool evaluated; /* true if the outcome "quality" is a perplexity on
                       held-out data, false if it is a loss */
    double *outcomes[ES_N_OUTCOMES]; /* n_runs values of each outcome; NaN if
                                        unknown */
    es_important *settings;          /* n settings, sorted by their largest
                                        strength */
    size_t n;
} es_importance;

/** Frees all members, including the runs. */
void es_importance_free(es_importance *importance);

/**
 * Measures the associations between settings and outcomes of importance->runs,
 * whose settings must have been read.
 *
 * Returns ES_OK; ES_ENOTFOUND if there are fewer than three runs or no setting
 * differs; ES_ENOMEM.
 */
es_status es_importance_measure(es_importance *importance) ES_MUST_USE;

/**
 * Returns the column title of an outcome: "eval ppl" or "loss", "overloaded",
 * "collapsed", "NaN at".
 */
const char *es_outcome_title(const es_importance *importance,
                             es_run_outcome outcome);

/**
 * Returns the largest absolute strength of a setting's associations; 0 if no
 * strength is known.
 */
double es_important_most(const es_important *setting);

/**
 * Print the results as a table or as JSON. The caller checks the stream for
 * errors. Return ES_OK or ES_ENOMEM.
 */
es_status es_importance_print(const es_importance *importance,
                              FILE *stream) ES_MUST_USE;
void es_importance_print_json(const es_importance *importance, FILE *stream);

/**
 * Prints and draws the importance of settings in run files, like `entropy-scan
 * importance`.
 *
 *   rules    thresholds and rules for flags; NULL for the default thresholds
 *   picture  path of the PNG to write; not written if no setting has a bar
 *
 * Returns ES_OK, ES_EIO or ES_ENOMEM. Does nothing and returns ES_OK if the
 * program is built without GSL, no setting differs, or there are fewer than
 * three runs. Files that cannot be read are reported and skipped.
 */
es_status es_importance_of_files(char *const *paths, size_t n,
                                 const es_rules_file *rules, FILE *stream,
                                 const char *picture) ES_MUST_USE;

/**
 * Draws a group of bars for each setting. Returns the statuses of es_bars_draw,
 * or ES_ENOTFOUND if no association is known.
 */
es_status es_importance_draw(es_picture **out, const es_importance *importance,
                             const es_figure_style *style) ES_MUST_USE;

#endif
