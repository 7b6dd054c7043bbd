/**
 * `entropy-scan importance`: which settings, of those in which runs differ, go
 * with how the runs ended.
 *
 * `--json`, schema 1:
 *
 *     {"schema":1,"runs":12,"quality":"eval_ppl",
 *      "settings":[{"name":"lr","kind":"number","values":4,
 *        "outcomes":{"quality":{"n","strength","p","p_holm","reason":null},
 *                    "overloaded":{...},"collapsed":{...},"nan_step":{...}}}]}
 *
 * Settings come by their largest strength. "strength" is Spearman's rank
 * correlation of a number, and eta squared of ranks of a category
 * (analyzer/statistics/inference.h); p_holm is adjusted for all settings and
 * outcomes. What is not known is null, and "reason" says why.
 */
#ifndef ES_IMPORTANCE_H
#define ES_IMPORTANCE_H

#include "analyzer/base/options.h"
#include "analyzer/statistics/inference.h"
#include "cli/figures/figures.h"
#include "cli/runs/settings.h"

typedef enum es_run_outcome {
    ES_OUTCOME_QUALITY,    /* final perplexity on held-out data, or loss */
    ES_OUTCOME_OVERLOADED, /* share of heads */
    ES_OUTCOME_COLLAPSED,  /* the same */
    ES_OUTCOME_NAN,        /* step of the first NaN; infinite: none came */
    ES_N_OUTCOMES
} es_run_outcome;

/** One setting in which runs differ. */
typedef struct es_important {
    const char *key; /* a run's: escape it */
    bool number;
    size_t n_values;
    es_association by[ES_N_OUTCOMES];
    double p_holm[ES_N_OUTCOMES];
} es_important;

/** Zero is empty. */
typedef struct es_importance {
    es_run_summary **runs; /* (n_runs) */
    size_t n_runs;
    bool evaluated; /* quality is a perplexity on held-out data, else a loss */
    double *outcomes[ES_N_OUTCOMES]; /* (n_runs) NaN: unknown */
    es_important *settings;          /* (n) by their largest strength */
    size_t n;
} es_importance;

/** Frees what it has, runs included. */
void es_importance_free(es_importance *importance);

/**
 * Measures, of the runs that are there, with their settings read.
 *
 * ES_OK; ES_ENOTFOUND: fewer than three runs, or no setting that differs;
 * ES_ENOMEM.
 */
es_status es_importance_measure(es_importance *importance) ES_MUST_USE;

/** "eval ppl" or "loss", "overloaded", "collapsed", "NaN at". */
const char *es_outcome_title(const es_importance *importance,
                             es_run_outcome outcome);

/** The largest strength of a setting, either way; 0 if it has none. */
double es_important_most(const es_important *setting);

/** The caller checks the stream. ES_OK or ES_ENOMEM. */
es_status es_importance_print(const es_importance *importance,
                              FILE *stream) ES_MUST_USE;
void es_importance_print_json(const es_importance *importance, FILE *stream);

/**
 * Prints what the verb does of run files, and draws it.
 *
 *   rules    to judge by; NULL: the design's
 *   picture  a PNG, or none where no setting has a bar
 *
 * Nothing, and ES_OK, where the program is built without GSL, no setting
 * differs, or there are fewer than three runs. ES_EIO, ES_ENOMEM; files that
 * cannot be read are reported and left out.
 */
es_status es_importance_of_files(char *const *paths, size_t n,
                                 const es_rules_file *rules, FILE *stream,
                                 const char *picture) ES_MUST_USE;

/** Bars by setting. As es_bars_draw; ES_ENOTFOUND: no setting has a bar. */
es_status es_importance_draw(es_picture **out, const es_importance *importance,
                             const es_figure_style *style) ES_MUST_USE;

#endif
