/**
 * Defines flags that report whether a run's attention collapses, is overloaded,
 * or is NaN. README.md in this folder defines each flag. A judge receives
 * samples in the order of their steps and reports episodes; the same code
 * serves a finished file and a growing one.
 */
#ifndef ES_FLAGS_H
#define ES_FLAGS_H

#include "analyzer/base/severity.h"
#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_flag_kind {
    ES_FLAG_NAN,
    ES_FLAG_COLLAPSE,
    ES_FLAG_OVERLOAD,
    ES_FLAG_LOGITS,
    ES_FLAG_LOSS_SPIKE,
    ES_N_FLAG_KINDS
} es_flag_kind;

const char *es_flag_name(es_flag_kind kind);        /* "collapse" */
const char *es_severity_name(es_severity severity); /* "critical" */

#define ES_FLAG_SOURCES_MOST 6

/** Description of a kind of flag, for help texts and reports. */
typedef struct es_flag_info {
    const char *name; /* "collapse" */
    es_severity mildest, severest;
    const char *meaning; /* what the flag means: a clause without a full stop */
    const char *causes, *remedies; /* one sentence each; a citation is in
                                      brackets: "(Zhai 2023)" */
    const char *sources[ES_FLAG_SOURCES_MOST]; /* one entry for each citation
                                                  in causes and remedies:
                                                  "Zhai 2023: ..."; ends with
                                                  NULL */
} es_flag_info;

/** Returns the description of flag kind i; NULL if there is no such kind. */
const es_flag_info *es_flag_info_at(size_t i);

/**
 * Returns the description of the flag called `name`; NULL if no flag has this
 * name.
 */
const es_flag_info *es_flag_info_find(const char *name);

#define ES_FLAG_NAMES_MAX 128

/**
 * Writes the names of the first n kinds: "nan, collapse, ...". Returns `out`.
 */
const char *es_flag_names(char out[ES_FLAG_NAMES_MAX], size_t n);

#define ES_FLAG_SEVERITIES_MAX 48

/**
 * Writes the severities that a flag may have: "critical", or "warning or
 * error". Returns `out`.
 */
const char *es_flag_severities(char out[ES_FLAG_SEVERITIES_MAX],
                               const es_flag_info *info);

/**
 * Returns true for an overload of severity info, which means that the run is
 * too short to judge; see overload_steps of es_flag_rules.
 */
bool es_flag_is_too_short(es_flag_kind kind, es_severity severity);

/**
 * Returns the severity as text for a report: its name, or "too short to judge"
 * for an overload of severity info.
 */
const char *es_flag_verdict(es_flag_kind kind, es_severity severity);

/**
 * Thresholds of the flags. es_flag_rules_default sets the defaults that
 * es_flag_thresholds lists; the comments of the members state them, too.
 *
 * A collapse needs `collapse_samples` consecutive samples in which the same
 * layer is collapsed, or all samples of a shorter run. A sample counts twice if
 * at least `collapse_layers` layers, and at least half of the layers, are
 * collapsed in it: one bad batch lowers only a few layers, or all layers in a
 * single sample. Consecutive samples with a collapsed layer that end in NaN
 * count as a collapse, whatever their number.
 *
 * An overload needs `overload_samples` consecutive samples, or all samples of a
 * shorter run. Every head starts near the ceiling. Therefore the overload is at
 * most a warning until the share of high heads has stayed below overload_error
 * for `overload_samples` samples. If the share has not come down when the run
 * ends, or when 1 - `warm_up` of the planned steps are done, es_judge_finish
 * judges it without this restriction. In a training run of fewer than
 * `overload_steps` planned steps the heads do not have time to come down: if it
 * was observed from the start (its first sample has a mean of at least 0.98 of
 * the ceiling), such an overload has severity info. In a run of unknown length
 * (is_open_ended of es_judge_run), every overload in the first `overload_steps`
 * steps has severity info too, and no collapse by a layer's own history is
 * detected in these steps.
 *
 * A spike is a loss that exceeds the median of the last 128 losses by more than
 * `spike_deviations` standard deviations, computed on logarithms, and by more
 * than the share `spike_rise` of the median. A spike needs `spike_samples`
 * consecutive such losses, or a single loss whose rise above the median is more
 * than twice the largest rise in the window. (The rise of each loss in the
 * window is measured from the median of the losses before it.) Regular
 * variation, such as bad batches or a harder data set, is therefore not a
 * spike. The first 32 losses, the warm-up, and losses of 0 or less are not
 * judged.
 *
 * The other flags are raised by a single sample.
 */
typedef struct es_flag_rules {
    double collapse_head;  /* a head counts as low if its entropy is below this
                              fraction of the ceiling; default 0.05 */
    double collapse_share; /* a layer is collapsed in a sample if at least this
                              share of its heads is low; default 0.5 */
    double collapse_history; /* a layer is also collapsed if its mean entropy is
                                below this fraction of the median of its earlier
                                means; default 0.1 */
    int collapse_samples;    /* number of consecutive samples that a collapse
                                needs; default 3 */
    int collapse_layers; /* a sample in which at least this number of layers are
                            collapsed counts as two samples; default 3 */
    double overload_head;    /* a head counts as high if its entropy is at or
                                above this fraction of the ceiling; default
                                0.75 */
    double overload_warning; /* an overload is a warning if at least this share
                                of the heads is high; default 0.20 */
    double overload_error;   /* an overload is an error if at least this share
                                of the heads is high; default 0.40 */
    int overload_samples;    /* number of consecutive samples that an overload
                                needs; default 10 */
    int overload_steps;      /* a run with fewer planned steps than this is too
                                short to judge; default 1000 */
    double warm_up; /* share of the planned steps, at the start of the run, that
                       is not judged; default 0.05 */
    double logits_warning; /* a max_logit above this value is a warning; default
                              100 */
    double logits_error;   /* a max_logit above this value is an error; default
                              1000 */
    double spike_deviations; /* least rise of a spike above the median, in
                                standard deviations; default 7 */
    double spike_rise; /* least rise of a spike, relative to the median; default
                          0.15 */
    int spike_samples; /* number of consecutive losses that a spike needs;
                          default 5 */
} es_flag_rules;

void es_flag_rules_default(es_flag_rules *out);

typedef enum es_threshold_range {
    ES_THRESHOLD_SHARE,    /* from 0 to 1 */
    ES_THRESHOLD_POSITIVE, /* above 0 */
    ES_THRESHOLD_COUNT     /* an int of 1 or more */
} es_threshold_range;

/** A member of es_flag_rules, for code that reads and prints thresholds. */
typedef struct es_flag_threshold {
    es_flag_kind kind;
    const char *key; /* "head" */
    size_t offset;   /* offset of the member in es_flag_rules */
    es_threshold_range range;
    double value;        /* the default */
    const char *comment; /* description for help texts and rules files */
} es_flag_threshold;

/** All thresholds, grouped by kind of flag. */
#define ES_N_FLAG_THRESHOLDS 16
extern const es_flag_threshold es_flag_thresholds[ES_N_FLAG_THRESHOLDS];

double es_flag_threshold_get(const es_flag_rules *rules,
                             const es_flag_threshold *threshold);
void es_flag_threshold_set(es_flag_rules *rules,
                           const es_flag_threshold *threshold, double value);

/** The properties of a run that a judge needs. */
typedef struct es_judge_run {
    /* ctx is T, the context length. If ctx is unknown (< 1), no flag that needs
     * the ceiling is raised. */
    int n_layers, n_heads, ctx;
    int64_t planned_steps; /* number of steps planned for the run. If it is
                              unknown (<= 0), every step is judged */
    /* Largest mean entropy of a head in nats, for heads that are not causal; if
     * 0 or NaN, the ceiling is computed from ctx. */
    double ceiling;
    const double *ceilings; /* ceiling of each head (L,H) in nats, if some heads
                               see fewer keys than others. NaN: that head has
                               the run's ceiling. NULL: all heads have the run's
                               ceiling. Borrowed until the judge is finished */
    bool is_open_ended; /* true if the length of the run is unknown. The run is
                           then too short to judge before step overload_steps of
                           es_flag_rules */
} es_judge_run;

/**
 * Returns the largest mean entropy in nats that any head of the run can have;
 * NaN if it is unknown.
 */
double es_judge_run_ceiling(const es_judge_run *run);

/**
 * Returns the ceiling in nats of the head at index `head` of (L,H); 0 if the
 * head sees only one key.
 */
double es_judge_run_ceiling_of(const es_judge_run *run, size_t head);

/** Returns the mean of the ceilings of a layer's heads in nats. */
double es_judge_run_layer_ceiling(const es_judge_run *run, size_t layer);

/**
 * Scales entropies so that they can be compared with es_judge_run_ceiling:
 * multiplies each entropy by the run's ceiling and divides it by the head's own
 * ceiling.
 *
 *   out     (n) receives the scaled values; may be `values`
 *   values  (n) entropies of heads (L,H), or means of layers (L); arrays of
 *           other sizes are copied
 *
 * A finite value of a head or layer whose ceiling is 0 becomes missing. Values
 * that are not finite, and all values of a run without `ceilings`, keep their
 * bits.
 */
void es_judge_run_scale(float *out, const es_judge_run *run,
                        const float *values, size_t n);

/**
 * The series that the flags use. Samples with an unsuitable number of values
 * are ignored.
 */
typedef enum es_judge_series {
    ES_JUDGE_ENTROPY, /* entropies of heads (L,H) in nats; or means of layers
                         (L), from which only the flag nan and a collapse
                         relative to the layer's own history can be detected */
    ES_JUDGE_NONFINITE_ROWS,  /* (L,H) counts */
    ES_JUDGE_NAN_ACTIVATIONS, /* (L) counts */
    ES_JUDGE_MAX_LOGIT,       /* (L,H) */
    ES_JUDGE_LOSS,            /* (1) */
    ES_JUDGE_OTHER            /* ignored */
} es_judge_series;

/**
 * Returns the series called `name`; ES_JUDGE_OTHER if the flags do not use it.
 */
es_judge_series es_judge_series_of(const char *name);

/**
 * One episode: the condition of a flag held at every sample from `onset` to
 * `last`. The arrays belong to the judge and are valid during the callback.
 *
 * nan: a value of a judged series is NaN or infinite, or a series that counts
 * such values is not 0. The episode ends when the newest sample of every series
 * has no such value. collapse: one episode covers all layers; it ends when no
 * layer is collapsed. A layer whose heads are all NaN raises the flag nan, not
 * collapse. overload, logits: one episode covers both levels of severity. An
 * overload reaches a level of severity when enough consecutive samples are at
 * this level or above, and leaves it when the same number of consecutive
 * samples are below it. loss_spike: the episode lasts until a loss has fallen
 * by half of the rise above the median at the onset. Losses that are not finite
 * are ignored.
 */
typedef struct es_episode {
    es_flag_kind kind;
    es_severity severity; /* severity at the last sample if `stands`,
                             otherwise the highest severity reached */
    bool stands; /* true if the flag's condition holds at the last sample; in
                    episodes of the flag nan always true */
    int64_t onset, last;
    int64_t reported; /* step of the first sample at which the condition had
                         lasted long enough to be reported */
    int64_t collapse_reported; /* only for the flag nan: step at which the
                                  collapse that was open when the NaN appeared
                                  could first be reported; -1 if no collapse was
                                  open */
    /* One value per layer (L): 1 if the layer was affected at some sample. For
     * an overload, it is 1 if the share of high heads in this layer alone
     * reached the warning level. */
    const unsigned char *layers;
    /* One value per head (L,H): 1 if the head was affected at some sample. All
     * values are 0 in episodes of losses, activations and means of layers. */
    const unsigned char *heads;
    /*
     * Worst value of the episode. nan: number of non-finite values in one
     * sample; collapse: largest share of low heads in a layer; if the collapse
     * is detected only by history, instead the smallest ratio of a layer's mean
     * to its median or peak; overload: largest share of high heads; logits:
     * largest logit; loss_spike: largest loss.
     */
    double value;
    double threshold; /* the threshold for `severity` with which `value` is
                         compared */
} es_episode;

typedef void es_episode_handler(void *user, const es_episode *episode);

typedef struct es_judge es_judge;

/**
 * Returns the number of bytes of workspace that a judge needs; 0 if a size is <
 * 1 or the total overflows.
 */
size_t es_judge_size(const es_judge_run *run);

/**
 * Creates a judge inside `workspace`, which has es_judge_size(run) bytes and is
 * aligned for any type. The caller owns the workspace; freeing it frees the
 * judge.
 *
 * `handler` receives each episode once, when it is over or at es_judge_finish.
 */
es_judge *es_judge_init(void *workspace, const es_judge_run *run,
                        const es_flag_rules *rules, es_episode_handler *handler,
                        void *user);

/**
 * Makes `handler` also receive each episode at the sample that opens it, and
 * again at a sample that raises its severity. In these calls `stands` is true;
 * `last`, `layers`, `heads` and `value` describe the episode so far, and
 * `threshold` belongs to the new severity. Each es_judge_push calls `handler`
 * at most once per kind of flag. If a run has fewer samples than the
 * consecutive samples that a flag needs, only es_judge_finish reports the flag.
 */
void es_judge_announce(es_judge *judge, es_episode_handler *handler,
                       void *user);

/**
 * Adds one sample. Steps must not decrease within a series; samples of
 * different series may come in any order as long as all samples of one step
 * precede those of the next step. A missing value is not a NaN. A missing
 * entropy is replaced by the newest one measured for the same head; a head that
 * has never been measured is ignored. A sample, or a row of a layer, that
 * contains only missing values is ignored too. Entropies are scaled by
 * es_judge_run_scale before they are judged.
 *
 * Memory is constant: instead of all means of a layer, the judge keeps a
 * histogram over [2^-20, 16) nats with 32 bins per octave (the history), so the
 * median is exact to 1/64 of its value. Means that count as a collapse by
 * history are not added to the histogram; otherwise a long collapse would pull
 * the median down. The history is not used as long as it has fewer than
 * `collapse_samples` means (at least 1). If ctx is unknown and only means
 * of layers are recorded, a mean below `collapse_head` times the layer's
 * largest mean so far is a collapse too, because the largest mean was probably
 * near the largest possible entropy.
 */
void es_judge_push(es_judge *judge, es_judge_series series, int64_t step,
                   const float *values, size_t n);

/** Reports the open episodes. This must be the last call for a judge. */
void es_judge_finish(es_judge *judge);

#endif
