/**
 * The data that entropy-scan shows of one run at one step, computed once for
 * the table, JSON, CSV and pictures.
 *
 * Under the policy `observed` a run's bands depend on the other runs: load all
 * runs, set m to the largest value of all of them with es_summary_set_max, then
 * print. A run that fails is not shown.
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
    ES_PHASE_ANY, /* train; eval if only that phase has samples */
    ES_PHASE_ONLY_TRAIN,
    ES_PHASE_ONLY_EVAL
} es_phase_choice;

typedef struct es_summary_options {
    const char *series; /* "entropy"; borrowed */
    es_phase_choice phase;
    int64_t step; /* a number, ES_STEP_FIRST or ES_STEP_LAST */
    es_max max;
    const es_rules_file *rules; /* borrowed, also by the summaries; NULL:
                                   default thresholds, no rules */
    bool without_flags; /* do not judge: read one sample instead of the run */
} es_summary_options;

/** Sets: entropy, any phase, the last step, policy observed, default rules. */
void es_summary_options_default(es_summary_options *out);

/**
 * Checks the options. Returns ES_OK, or ES_EUSAGE if the members exclude each
 * other: the policies ceiling and logT only apply to entropies.
 */
es_status
es_summary_options_check(const es_summary_options *options) ES_MUST_USE;

/** An episode of a flag or rule, with its layers and heads listed. */
typedef struct es_flag {
    es_flag_kind kind;   /* ES_N_FLAG_KINDS: of a rule */
    const es_rule *rule; /* borrowed from the options; NULL: a flag */
    es_severity severity;
    bool stands;
    int64_t onset, last;
    int64_t reported;          /* step of the first sample at which it could be
                                  reported, after it had held long enough */
    int64_t collapse_reported; /* for a NaN: `reported` of the collapse
                                  that was active when it occurred; -1: none */
    double value, threshold;
    uint32_t *layers; /* (n_layers) ascending */
    size_t n_layers;
    uint32_t *heads; /* (n_heads) layer * H + head, ascending */
    size_t n_heads;
} es_flag;

/** Returns "collapse", or the rule's name. Borrowed; needs no escaping. */
const char *es_flag_title(const es_flag *flag);

/** Returns the description of the flag's kind; NULL for rules, except rules
 *  about the forecast. */
const es_flag_info *es_flag_advice(const es_flag *flag);

/**
 * The summary of a run. A float member that was not recorded is es_missing(); a
 * NaN or an infinity is what the training produced (analyzer/base/value.h).
 */
typedef struct es_run_summary {
    char *path;       /* path as given to es_reader_open */
    size_t number;    /* number of the run in its file, from 1 */
    size_t n_in_file; /* number of runs in the file */
    char *uuid;
    char *name;         /* from the file: must be escaped */
    char *arch;         /* the same; NULL: unknown */
    const char *status; /* "running", "finished", "failed", "stopped", or
                           "interrupted": the file says running, but no
                           process of this machine is writing it */
    char *config;       /* JSON object, from the file; NULL: unknown */
    bool config_unread; /* the file has a text that is not a JSON object */
    int64_t n_layer, n_head;
    int64_t ctx;  /* ES_UNKNOWN: no ceiling, and flags that need one are not
                     judged */
    char *family; /* NULL: unknown */
    int64_t d_model, vocab, batch, seed; /* or ES_UNKNOWN */
    int64_t planned_steps;               /* or ES_UNKNOWN */
    int64_t last_step;     /* last step of the run; or ES_UNKNOWN */
    bool is_open_ended;    /* see es_judge_run */
    double common_ceiling; /* nats; for layers without their own; or NaN */
    es_layers *described;  /* names, kinds, ceilings of layers; NULL: unknown */
    es_cost_model model;   /* without sizes if unknown: costs are NaN */

    char *series, *unit; /* name and unit of `values` */
    es_shape shape;
    es_phase phase; /* phase of values, loss and ppl */
    int64_t step;   /* step of `values` */
    float *values;  /* (n_rows,n_columns): (L,H), (L,1) or (1,1), by shape */
    size_t n_rows, n_columns;
    es_summary *layers; /* (n_rows) statistics of each row */

    /* The newest values at or before `step`, in nats per token. ppl is exp(ce),
       or exp(loss) if ce was not recorded; loss may include a regulariser. */
    float loss, ppl;
    float eval_loss, eval_ppl; /* the same on held-out data, whatever phase
                                  is shown; under ES_STEP_LAST the newest of
                                  the run, since the last evaluation follows
                                  the last step */

    double ceiling; /* of a causal head ln(T!)/T, or the largest of the run's
                       heads; NaN: unknown */
    float *scaled;  /* values scaled from the heads' own ceilings to
                       `ceiling`, for peak and bands (es_judge_run_scale);
                       NULL: use `values` */
    double peak;    /* largest finite value; NaN: none */
    es_max max;     /* policy of m */
    double m;       /* upper edge of the bands; NaN: unknown */
    es_bands bands; /* bands of a head series; otherwise n_heads = 0 */

    bool judged;                /* false if without_flags */
    const es_rules_file *rules; /* those of the options */
    bool *heard; /* (rules->n) true if the rule's series has a sample; NULL:
                    no rules, or not judged */
    uint64_t *nonfinite; /* (rules->n) number of values that the rule could
                            not compare, NaN and infinities; NULL likewise */
    bool checksums;      /* the file has checksums */
    es_damaged *damaged; /* (n_damaged) among the samples read, by step;
                            shown as missing */
    size_t n_damaged;
    bool end_damaged; /* the newest sample of a judged series is damaged:
                         other flags may be active */
    es_flag *flags;   /* (n_flags) by onset, then kind; all episodes of the
                         run: flags in the phase shown, rules in their own */
    size_t n_flags;
    es_run_settings settings; /* empty until es_run_settings_read */
} es_run_summary;

/**
 * Reads run `run` (0-based) of a reader.
 *
 *   out   owned by the caller: es_summary_free
 *
 * m and bands are computed; under `observed` m is the run's own peak until
 * es_summary_set_max. The first ES_FLAGS_KEPT episodes of each kind are kept,
 * fewer once they list ES_FLAG_HEADS_KEPT heads in total; later episodes extend
 * the last one of their kind, including the gaps.
 *
 * Returns ES_OK; ES_ENOTFOUND: no such series, sample or step (the message says
 * what exists); ES_EFORMAT, ES_EIO: the run is damaged (other runs of the file
 * may be intact); ES_EUSAGE, also if a rule's aggregate does not fit its
 * series; ES_ENOMEM.
 */
es_status es_summary_load(es_run_summary **out, es_reader *reader, size_t run,
                          const es_summary_options *options) ES_MUST_USE;

#define ES_FLAGS_KEPT 1000
#define ES_FLAG_HEADS_KEPT (1 << 20)

void es_summary_free(es_run_summary *summary); /* summary may be NULL */

/** Reads the newest perplexity on held-out data, missing if there is none: the
 *  eval_ppl of a summary, but the run needs no series to show. Returns as
 *  es_summary_load. */
es_status es_summary_eval_ppl(float *out, es_reader *reader,
                              size_t run) ES_MUST_USE;

/** Returns the larger of two peaks, either of which may be NaN. */
double es_peak_of(double a, double b);

/** Sets m and the bands. observed: es_peak_of of all runs shown. */
void es_summary_set_max(es_run_summary *summary, double observed);

/** Returns the run's description for judges; its ceilings are borrowed. */
es_judge_run es_summary_judged(const es_run_summary *summary);

/** Returns true if the ceiling is unknown, so that overload and collapse
 *  against it are not judged. */
bool es_summary_lacks_ceiling(const es_run_summary *summary);

/** Returns the largest possible mean entropy of a layer, in nats; NaN if
 *  unknown. */
double es_summary_layer_ceiling(const es_run_summary *summary, size_t layer);

/** Converts entropies of the run, values (n_rows,n_columns), to shares of the
 *  heads' own ceilings; missing where the ceiling is unknown. */
void es_summary_shares(float *out, const es_run_summary *summary,
                       const float *values);

/** Describes the layers: "L0-4 window, ceiling 2.31; L5 full, ceiling 4.56".
 *  *out is owned by the caller; NULL if nothing is known of the layers. Returns
 *  ES_OK or ES_ENOMEM. */
es_status es_summary_copy_layers(char **out,
                                 const es_run_summary *summary) ES_MUST_USE;

/** Reports on standard error which parts of the run's configuration could not
 *  be used. */
void es_summary_note_config(const es_run_summary *summary);

/** Returns true if a flag of severity error or above is active. */
bool es_summary_alarms(const es_run_summary *summary);

/** Returns true if the run was judged to its end, and no flag is active. */
bool es_summary_is_ok(const es_run_summary *summary);

/**
 * Prints the active flags, worst first: "collapse L9-11 (critical); overload
 * (error)". If the kinds of the layers are known: "overload L0-4 window, L5
 * full (error)"; a single layer also has its module's name. A NaN after a
 * collapse: "nan L0-11 (critical, 35 steps after collapse)". If no flag is
 * active: "ok", "ok (no ctx)" if the ceiling is unknown, "unknown (damaged)" if
 * the newest samples are damaged, or "-" if the run was not judged. Returns the
 * length as snprintf does.
 */
size_t es_summary_print_flags(char *out, size_t size,
                              const es_run_summary *summary);

/** Makes the same text; *out is owned by the caller. Returns ES_OK or
 *  ES_ENOMEM. */
es_status es_summary_copy_flags(char **out,
                                const es_run_summary *summary) ES_MUST_USE;

/** Prints the line about m: its value if all runs share it, its policy, the
 *  unit, and the series if it is not entropy. The texts are escaped. */
void es_summary_print_max(FILE *stream, es_max_policy policy, double m,
                          const char *unit, const char *series);

/**
 * Returns how early the heads warned of the run's first NaN: the number of
 * steps from the first sample at which the preceding collapse could be
 * reported. ES_UNKNOWN: there was no NaN, or no reported collapse was active
 * when it occurred.
 */
int64_t es_summary_collapse_before_nan(const es_run_summary *summary);

/** Returns the highest severity of the active flags; ES_SEVERITY_NONE if no
 *  flag is active. */
es_severity es_summary_severity(const es_run_summary *summary);

#endif
