/**
 * The summary of a run contains the data about one run at one step that the
 * table, JSON, CSV and figures display. It is computed once.
 *
 * Under the policy `observed`, the bands of a run depend on the other runs. The
 * caller therefore loads all runs, then calls es_summary_set_max to set m, the
 * upper edge of their highest band, to the largest value of all runs, and then
 * prints. Runs that cannot be loaded are omitted.
 */
#ifndef ES_SUMMARY_H
#define ES_SUMMARY_H

#include "analyzer/flags/flags.h"
#include "analyzer/heads/bands.h"
#include "analyzer/statistics/stats.h"
#include "cli/alerts/rules/rules_file.h"
#include "cli/runs/model.h"
#include "cli/runs/setting.h"
#include "store/layers.h"
#include "store/reader.h"
#include <stdio.h>

typedef enum es_phase_choice {
    ES_PHASE_ANY, /* train, or eval if only the evaluation phase has samples */
    ES_PHASE_ONLY_TRAIN,
    ES_PHASE_ONLY_EVAL
} es_phase_choice;

typedef struct es_summary_options {
    const char *series; /* "entropy"; borrowed */
    es_phase_choice phase;
    int64_t step; /* step to summarise, or ES_STEP_FIRST or ES_STEP_LAST */
    es_max max;
    const es_rules_file *rules; /* borrowed, also by the summaries; if NULL,
                                   default thresholds and no rules */
    bool without_flags; /* if true, only one sample is read, and flags are not
                           computed */
} es_summary_options;

/** Sets the default options: entropy, any phase, the last step, policy
 *  observed, default rules. */
void es_summary_options_default(es_summary_options *out);

/**
 * Checks the options. Returns ES_OK, or ES_EUSAGE if the policy is ceiling or
 * logT, which only apply to entropies, and the series is not an entropy.
 */
es_status
es_summary_options_check(const es_summary_options *options) ES_MUST_USE;

/** An episode of a flag or rule, with its layers and heads listed. */
typedef struct es_flag {
    es_flag_kind kind;   /* ES_N_FLAG_KINDS if the episode belongs to a rule */
    const es_rule *rule; /* borrowed from the options; NULL if the episode
                            belongs to a flag */
    es_severity severity;
    bool stands;
    int64_t onset, last;
    int64_t reported;          /* step at which the episode could first be
                                  reported, after it had lasted long enough */
    int64_t collapse_reported; /* only for the flag nan: step at which the
                                  collapse that was active when the NaN occurred
                                  could first be reported; -1 if no collapse was
                                  active */
    double value, threshold;
    uint32_t *layers; /* (n_layers) ascending */
    size_t n_layers;
    uint32_t *heads; /* array of n_heads indices layer * H + head, ascending */
    size_t n_heads;
} es_flag;

/** Returns the kind of a flag, such as "collapse", or the name of a rule.
 *  Borrowed; needs no escaping. */
const char *es_flag_title(const es_flag *flag);

/** Returns the description of the flag's kind; NULL for a rule. */
const es_flag_info *es_flag_advice(const es_flag *flag);

/**
 * The summary of a run. A float member that was not recorded is es_missing(); a
 * NaN or an infinity was produced by the training run (analyzer/base/value.h).
 */
typedef struct es_run_summary {
    char *path;       /* path as given to es_reader_open */
    size_t number;    /* number of the run within its file, counted from 1 */
    size_t n_in_file; /* number of runs in the file */
    char *uuid;
    char *name;         /* from the file, so it must be escaped for output */
    char *arch;         /* from the file, so it must be escaped for output; NULL
                           if unknown */
    const char *status; /* "running", "finished", "failed", "stopped", or
                           "interrupted", which means that the file says
                           running, but no process on this machine is writing to
                           it */
    char *config;       /* JSON object from the file; NULL if unknown */
    bool config_unread; /* true if the file's configuration is not a JSON
                           object */
    int64_t n_layer, n_head;
    int64_t ctx;  /* context length in tokens; if it is ES_UNKNOWN, the run has
                     no ceiling, and flags that need a ceiling are not
                     evaluated */
    char *family; /* NULL: unknown */
    int64_t d_model, vocab, batch, seed; /* ES_UNKNOWN if not recorded */
    int64_t planned_steps;               /* ES_UNKNOWN if not recorded */
    int64_t last_step;     /* last step of the run; ES_UNKNOWN without
                              samples */
    bool is_open_ended;    /* true if the final number of steps is unknown */
    double common_ceiling; /* ceiling in nats for layers that have no separate
                              ceiling; NaN if unknown */
    es_layers *described;  /* names, kinds and ceilings of layers; NULL if
                              unknown */
    es_cost_model model;   /* model for predicting costs; if its sizes are
                              unknown, they are not set, and costs are NaN */

    char *series, *unit; /* name and unit of `values` */
    es_shape shape;
    es_phase phase; /* phase to which `values`, `loss` and `ppl` belong */
    int64_t step;   /* step of `values` */
    float *values;  /* array of shape (n_rows,n_columns), which is (L,H), (L,1)
                       or (1,1) depending on the shape of the series */
    size_t n_rows, n_columns;
    es_summary *layers; /* statistics of each of the n_rows rows */

    /* Newest values at or before `step`: loss in nats per token, which may
       include a regulariser; ppl = exp(ce), or exp(loss) if ce was not
       recorded. */
    float loss, ppl;
    float eval_loss, eval_ppl; /* loss and ppl on held-out data, independent of
                                  `phase`; with ES_STEP_LAST, the newest values
                                  of the run, because the last evaluation
                                  follows the last step */

    double ceiling; /* ceiling in nats: ln(T!)/T for causal heads, otherwise the
                       largest ceiling of the run's heads; NaN if unknown */
    float *scaled;  /* `values`, each multiplied by the ratio of `ceiling` to
                       the ceiling of its head (es_judge_run_scale); peak and
                       bands are computed from `scaled`, or from `values` if
                       `scaled` is NULL */
    double peak;    /* largest finite value; NaN if no value is finite */
    es_max max;     /* policy of m */
    double m;       /* entropy at which the highest band ends; NaN if unknown */
    es_bands bands; /* bands of a series with one value per head; for other
                       series bands.n_heads is 0 */

    bool judged;                /* true if the run was checked for flags */
    const es_rules_file *rules; /* borrowed from the options */
    bool *heard; /* for each of the rules->n rules, true if the rule's series
                    has a sample; NULL without rules, or if the run was not
                    checked for flags */
    uint64_t *nonfinite; /* for each of the rules->n rules, the number of values
                            that are NaN or infinite, which the rule could not
                            compare; NULL if `heard` is NULL */
    bool checksums;      /* true if the file has checksums */
    es_damaged *damaged; /* the n_damaged damaged samples among those that were
                            read, sorted by step; their values are missing */
    size_t n_damaged;
    bool end_damaged; /* true if the newest sample of a series that flags or
                         rules use is damaged; flags that are not listed may
                         then be active */
    es_flag *flags;   /* all n_flags episodes of the run, sorted by onset and
                         kind; flags are evaluated in `phase`, rules in the
                         phase that each rule names */
    size_t n_flags;
    es_run_settings settings; /* empty until es_run_settings_read */
} es_run_summary;

/**
 * Reads run `run` (0-based) of a reader.
 *
 *   out   the caller frees it with es_summary_free
 *
 * The bands and m, the upper edge of the highest band, are computed; with the
 * policy `observed`, m is the peak of this run until es_summary_set_max is
 * called. The first ES_FLAGS_KEPT episodes of each kind are kept, or fewer if
 * the kept episodes list ES_FLAG_HEADS_KEPT heads in total; later episodes are
 * merged into the last kept episode of their kind, which then includes the gaps
 * between the episodes.
 *
 * Returns ES_OK; ES_ENOTFOUND if the series, sample or step does not exist (the
 * message lists those that exist); ES_EFORMAT or ES_EIO if the run is damaged
 * (other runs of the file may be intact); ES_EUSAGE, also if a rule's aggregate
 * does not fit its series; ES_ENOMEM.
 */
es_status es_summary_load(es_run_summary **out, es_reader *reader, size_t run,
                          const es_summary_options *options) ES_MUST_USE;

#define ES_FLAGS_KEPT 1000
#define ES_FLAG_HEADS_KEPT (1 << 20)

/** Moves the flags of an earlier summary of the same run, and the damage that
 *  was found while the flags were computed, from `from` to `to`, which was
 *  loaded without flags. Afterwards `from` has no flags. */
void es_summary_move_flags(es_run_summary *to, es_run_summary *from);

void es_summary_free(es_run_summary *summary); /* summary may be NULL */

/** Reads the newest perplexity on held-out data; the result is missing if
 *  nothing was recorded. The result is the same as eval_ppl of a summary, but
 *  the run need not have the selected series. Returns the same statuses as
 *  es_summary_load. */
es_status es_summary_eval_ppl(float *out, es_reader *reader,
                              size_t run) ES_MUST_USE;

/** Returns the larger of two peaks, either of which may be NaN. */
double es_peak_of(double a, double b);

/** Sets the bands and m, the upper edge of the highest band. `observed` is the
 *  largest peak of all loaded runs (es_peak_of). */
void es_summary_set_max(es_run_summary *summary, double observed);

/** Returns a description of the run for the detection of flags (es_judge); its
 *  ceilings are borrowed from the summary. */
es_judge_run es_summary_judged(const es_run_summary *summary);

/** Returns true if the ceiling is unknown. In this case, overload and collapse
 *  are not evaluated, because these flags are defined relative to the
 *  ceiling. */
bool es_summary_lacks_ceiling(const es_run_summary *summary);

/** Returns the largest possible mean entropy of the layer's heads, in nats; NaN
 *  if unknown. */
double es_summary_layer_ceiling(const es_run_summary *summary, size_t layer);

/** Divides the run's entropies, values (n_rows,n_columns), by the ceiling of
 *  each head; the result is missing where the ceiling is unknown. */
void es_summary_shares(float *out, const es_run_summary *summary,
                       const float *values);

/** Describes the layers: "L0-4 window, ceiling 2.31; L5 full, ceiling 4.56".
 *  The caller frees *out, which is NULL if the layers are not described.
 *  Returns ES_OK or ES_ENOMEM. */
es_status es_summary_copy_layers(char **out,
                                 const es_run_summary *summary) ES_MUST_USE;

/** Prints a line on standard error for each part of the run's configuration
 *  that could not be used. */
void es_summary_note_config(const es_run_summary *summary);

/** Returns true if a flag of severity error or above is active. */
bool es_summary_alarms(const es_run_summary *summary);

/** Returns true if the run was checked for flags, none of its newest samples is
 *  damaged, and no flag is active. */
bool es_summary_is_ok(const es_run_summary *summary);

/**
 * Prints the active flags, worst first: "collapse L9-11 (critical); overload
 * (error)". If the kinds of the layers are known, they are included, as in
 * "overload L0-4 window, L5 full (error)"; a single layer is followed by the
 * name of its module. A NaN after a collapse is printed as "nan L0-11
 * (critical, 35 steps after collapse)". If no flag is active, prints "ok"; "ok
 * (no ctx)" if the largest possible entropy is unknown; "unknown (damaged)" if
 * the newest samples are damaged; or "-" if the run was not checked for flags.
 * Returns the length like snprintf.
 */
size_t es_summary_print_flags(char *out, size_t size,
                              const es_run_summary *summary);

/** Same as es_summary_print_flags, but allocates the text; the caller frees
 *  *out. Returns ES_OK or ES_ENOMEM. */
es_status es_summary_copy_flags(char **out,
                                const es_run_summary *summary) ES_MUST_USE;

/** Prints the line about m, the entropy at which the highest band ends: the
 *  value of m if all runs share it, the policy, the unit, and the name of the
 *  series unless it is entropy. Unit and series are escaped. */
void es_summary_print_max(FILE *stream, es_max_policy policy, double m,
                          const char *unit, const char *series);

/**
 * Returns how many steps before the first NaN of the run the preceding collapse
 * could first be reported. Returns ES_UNKNOWN if the run has no NaN, or if no
 * reported collapse was active when the NaN occurred.
 */
int64_t es_summary_collapse_before_nan(const es_run_summary *summary);

/** Returns the highest severity of the active flags; ES_SEVERITY_NONE if no
 *  flag is active. */
es_severity es_summary_severity(const es_run_summary *summary);

#endif
