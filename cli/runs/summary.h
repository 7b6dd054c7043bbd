/**
 * What entropy-scan says about one run at one step, computed once: the table,
 * the JSON, the CSV and the pictures all read it from here.
 *
 * Under the policy `observed` a run's bands depend on the other runs: load all,
 * then give each the largest value of them as its m (es_summary_set_max) and
 * print it. A run that fails is shown by neither.
 */
#ifndef ES_SUMMARY_H
#define ES_SUMMARY_H

#include "analyzer/flags/bands.h"
#include "analyzer/flags/flags.h"
#include "analyzer/statistics/stats.h"
#include "cli/alerts/rules/rules_file.h"
#include "cli/runs/model.h"
#include "cli/runs/setting.h"
#include "store/layers.h"
#include "store/reader.h"
#include <stdio.h>

typedef enum es_phase_choice {
    ES_PHASE_ANY, /* train; eval if the run has the series only there */
    ES_PHASE_ONLY_TRAIN,
    ES_PHASE_ONLY_EVAL
} es_phase_choice;

typedef struct es_summary_options {
    const char *series; /* "entropy"; borrowed */
    es_phase_choice phase;
    int64_t step; /* a number, ES_STEP_FIRST or ES_STEP_LAST */
    es_max max;
    const es_rules_file *rules; /* borrowed, by the summaries too; NULL: the
                                   design's thresholds, no further rules */
    bool without_flags; /* do not judge: reads one sample, not the run */
} es_summary_options;

/** entropy, any phase, the last step, observed, the design's rules. */
void es_summary_options_default(es_summary_options *out);

/**
 * ES_OK, or ES_EUSAGE if the members exclude each other: the policies ceiling
 * and logT bound entropies, and no other series.
 */
es_status
es_summary_options_check(const es_summary_options *options) ES_MUST_USE;

/** An episode with its layers and heads listed. */
typedef struct es_flag {
    es_flag_kind kind;   /* ES_N_FLAG_KINDS: a further rule's */
    const es_rule *rule; /* borrowed from the options; NULL: a flag's */
    es_severity severity;
    bool stands;
    int64_t onset, last;
    int64_t reported; /* the sample that it could first be reported at, when it
                        had held for long enough */
    int64_t collapse_reported; /* nan: the same of the collapse that held as it
                                 came; -1: there was none */
    double value, threshold;
    uint32_t *layers; /* (n_layers) ascending */
    size_t n_layers;
    uint32_t *heads; /* (n_heads) layer * H + head, ascending */
    size_t n_heads;
} es_flag;

/** "collapse", or the rule's name. Borrowed; needs no escaping. */
const char *es_flag_title(const es_flag *flag);

/** What is known of the flag's kind; of a rule's: NULL, but for a rule about
 *  the forecast. */
const es_flag_info *es_flag_advice(const es_flag *flag);

/**
 * A float member that nobody recorded is es_missing(); a NaN or an infinity
 * in it is what training produced (analyzer/base/value.h).
 */
typedef struct es_run_summary {
    char *path;       /* as it was given to es_reader_open */
    size_t number;    /* of the run within the file, from 1 */
    size_t n_in_file; /* runs in the file */
    char *uuid;
    char *name;         /* from the file: escape it */
    char *arch;         /* the same; NULL if unknown */
    const char *status; /* "running", "finished", "failed", "stopped", or
                           "interrupted": the file says running, and no live
                           process of this machine writes it */
    char *config;       /* JSON object, from the file; NULL if unknown */
    bool config_unread; /* the file has a text that is no JSON object */
    int64_t n_layer, n_head;
    int64_t ctx;  /* ES_UNKNOWN: no ceiling, and flags that need one
                     are not judged */
    char *family; /* NULL if unknown */
    int64_t d_model, vocab, batch, seed; /* or ES_UNKNOWN */
    int64_t planned_steps;               /* the same */
    int64_t last_step;                   /* of the run; or ES_UNKNOWN */
    bool is_open_ended;                  /* es_judge_run's */
    double common_ceiling; /* nats, of layers without their own; or NaN */
    es_layers *described;  /* names, kinds, ceilings of layers; NULL: unknown */
    es_cost_model model;   /* without sizes if it is unknown: costs are NaN */

    char *series, *unit; /* what `values` are */
    es_shape shape;
    es_phase phase; /* of values, loss and ppl */
    int64_t step;   /* of values */
    float *values;  /* (n_rows,n_columns): (L,H), (L,1) or (1,1) by shape */
    size_t n_rows, n_columns;
    es_summary *layers; /* (n_rows) statistics of each row */

    /* The newest at or before `step`, in nats a token. ppl is exp(ce), or
       exp(loss) where ce was not recorded: a regulariser is no perplexity. */
    float loss, ppl;
    float eval_loss, eval_ppl; /* the same on held-out data, any phase shown;
                                  under ES_STEP_LAST the newest of the run:
                                  the last evaluation follows the last step */

    double ceiling; /* of a causal head ln(T!)/T, or the largest of the run's
                       heads; NaN if it is unknown */
    float *scaled;  /* values by the heads' own ceilings, which peak and bands
                       are of (es_judge_run_scale); NULL: `values` itself */
    double peak;    /* largest finite value; NaN if there is none */
    es_max max;     /* policy */
    double m;       /* upper edge of the bands; NaN: nothing to go by */
    es_bands bands; /* of head series; n_heads = 0 otherwise */

    bool judged;                /* false: without_flags */
    const es_rules_file *rules; /* the options' */
    bool *heard; /* (rules->n) whether there is a sample of the rule's series;
                    NULL: no rules, or not judged */
    uint64_t *nonfinite; /* (rules->n) values that the rule could not compare:
                            NaN and infinities; NULL as well */
    bool checksums;      /* the file has them */
    es_damaged *damaged; /* (n_damaged) of the samples read, by step: they are
                            missing in all that is said of the run */
    size_t n_damaged;
    bool end_damaged; /* the newest sample of a series that was judged is one of
                         them: that no flag stands is not known to be true */
    es_flag *flags;   /* (n_flags) by onset, then kind; every episode,
                         judged over the whole run: flags in the phase
                         shown, further rules in their own */
    size_t n_flags;
    es_run_settings settings; /* empty until es_run_settings_read */
} es_run_summary;

/**
 * Reads run `run` (0-based) of a reader.
 *
 *   out   owned by the caller: es_summary_free
 *
 * m and bands are filled in at once; under `observed` m is the run's own peak
 * until es_summary_set_max. Of each kind the first ES_FLAGS_KEPT episodes are
 * kept, and fewer once they name ES_FLAG_HEADS_KEPT heads in all; what comes
 * after lengthens the last of its kind, gaps included.
 *
 * ES_OK; ES_ENOTFOUND (no such series, no sample yet, no such step: the
 * message says what there is); ES_EFORMAT, ES_EIO (the run is damaged; others
 * of the file may be fine); ES_EUSAGE (also: a rule
 * whose aggregate does not fit its series); ES_ENOMEM.
 */
es_status es_summary_load(es_run_summary **out, es_reader *reader, size_t run,
                          const es_summary_options *options) ES_MUST_USE;

#define ES_FLAGS_KEPT 1000
#define ES_FLAG_HEADS_KEPT (1 << 20)

void es_summary_free(es_run_summary *summary); /* NULL is fine */

/** The newest perplexity on held-out data, missing if there is none: the
 *  eval_ppl of a summary, of a run that needs no series to show. As
 *  es_summary_load. */
es_status es_summary_eval_ppl(float *out, es_reader *reader,
                              size_t run) ES_MUST_USE;

/** The larger of two peaks, of which either may be NaN. */
double es_peak_of(double a, double b);

/** Fixes m and the bands; observed: es_peak_of of all runs shown. */
void es_summary_set_max(es_run_summary *summary, double observed);

/** The run as judges see it; its ceilings are the summary's. */
es_judge_run es_summary_judged(const es_run_summary *summary);

/** Whether nobody knows what is possible: overload and collapse are not judged
 *  by it. */
bool es_summary_lacks_ceiling(const es_run_summary *summary);

/** The largest mean entropy that a layer can have, nats; NaN if unknown. */
double es_summary_layer_ceiling(const es_run_summary *summary, size_t layer);

/** Entropies of the run, values (n_rows,n_columns), as shares of the heads' own
 *  ceilings; missing where that is not known. */
void es_summary_shares(float *out, const es_run_summary *summary,
                       const float *values);

/** "L0-4 window, ceiling 2.31; L5 full, ceiling 4.56", to be freed; NULL if
 *  nothing is known of them. ES_OK or ES_ENOMEM. */
es_status es_summary_copy_layers(char **out,
                                 const es_run_summary *summary) ES_MUST_USE;

/** Reports on standard error what of a run's configuration could not be used.
 */
void es_summary_note_config(const es_run_summary *summary);

/** A flag of severity error or above stands. */
bool es_summary_alarms(const es_run_summary *summary);

/** The run was judged to its end, and nothing stands. */
bool es_summary_is_ok(const es_run_summary *summary);

/**
 * What stands, worst first: "collapse L9-11 (critical); overload (error)".
 * Where the file says what kinds of layers they are: "overload L0-4 window, L5
 * full (error)"; a single layer has its module's name as well. A NaN after a
 * collapse: "nan L0-11 (critical, 35 steps after collapse)". If nothing stands
 * "ok", "ok (no ctx)" where the ceiling was not known, "unknown (damaged)"
 * where the newest samples are damaged, or "-" where the run was not judged.
 * Returns the length as snprintf does.
 */
size_t es_summary_print_flags(char *out, size_t size,
                              const es_run_summary *summary);

/** The same text, to be freed. ES_OK or ES_ENOMEM. */
es_status es_summary_copy_flags(char **out,
                                const es_run_summary *summary) ES_MUST_USE;

/** The line that says what m is: its value where all runs share it, its policy,
 *  the unit, and the series if that is not entropy. Any text: it is escaped. */
void es_summary_print_max(FILE *stream, es_max_policy policy, double m,
                          const char *unit, const char *series);

/**
 * How early the heads warned of the run's first NaN: the steps to it from the
 * sample that the collapse it came out of could first be reported at.
 * ES_UNKNOWN: no collapse was reported that still held then, or there is no
 * NaN.
 */
int64_t es_summary_collapse_before_nan(const es_run_summary *summary);

/** The highest severity that stands; ES_SEVERITY_NONE if none does. */
es_severity es_summary_severity(const es_run_summary *summary);

#endif
