/**
 * Flags that report whether a run's attention collapses, is overloaded, or is
 * NaN. README.md in this folder defines each flag. A judge receives samples in
 * the order of their steps and reports episodes; the same code serves a
 * finished file and a growing one.
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

/** Description of a kind of flag. */
typedef struct es_flag_info {
    const char *name; /* "collapse" */
    es_severity mildest, severest;
    const char *meaning;           /* a clause, without a full stop */
    const char *causes, *remedies; /* one sentence each; references in
                                      brackets: "(Zhai 2023)" */
    const char *sources[ES_FLAG_SOURCES_MOST]; /* "Zhai 2023: ...", every
                                                  reference of the two; ends
                                                  with NULL */
} es_flag_info;

/**
 * Returns the description of the kind i; after the kinds that of the forecast,
 * which a rule may be about (forecast.h); then NULL.
 */
const es_flag_info *es_flag_info_at(size_t i);

/** Returns the description of that name; NULL if there is none. */
const es_flag_info *es_flag_info_find(const char *name);

#define ES_FLAG_NAMES_MAX 128

/**
 * Writes the names of the first n kinds: "nan, collapse, ...". Returns `out`.
 */
const char *es_flag_names(char out[ES_FLAG_NAMES_MAX], size_t n);

#define ES_FLAG_SEVERITIES_MAX 48

/**
 * Writes the severities that the flag may have: "critical", "warning or
 * error". Returns `out`.
 */
const char *es_flag_severities(char out[ES_FLAG_SEVERITIES_MAX],
                               const es_flag_info *info);

/**
 * Returns true for an overload of severity info; see overload_steps of
 * es_flag_rules.
 */
bool es_flag_is_too_short(es_flag_kind kind, es_severity severity);

/**
 * Returns a text for people: the name of the severity, or "too short to judge"
 * for an overload of severity info.
 */
const char *es_flag_verdict(es_flag_kind kind, es_severity severity);

/**
 * Thresholds. es_flag_rules_default sets the defaults of es_flag_thresholds,
 * which the comments below state.
 *
 * A collapse needs `collapse_samples` consecutive samples in one layer, or all
 * samples of a run that has fewer. A sample counts for two if at least
 * `collapse_layers` layers, and at least half of the layers, are low: a bad
 * batch pulls down only a few layers, or all of them only once. Consecutive
 * low samples that end in NaN count as a collapse, however few they are.
 *
 * An overload needs `overload_samples` consecutive samples, or all samples of
 * a run that has fewer. Every head starts near the ceiling: until the share of
 * high heads has stayed below overload_error for that many samples, the
 * overload is at most a warning. If the share has not come down when the run
 * ends, or when 1 - `warm_up` of the planned steps are done, es_judge_finish
 * judges it in full. A training of fewer than `overload_steps` planned steps
 * is too short to come down: if it was observed from the start (its first
 * sample has a mean of at least 0.98 ceiling), such an overload has severity
 * info. The same holds for every overload of a training of unknown length
 * (is_open_ended of es_judge_run) before it has taken that many steps; until
 * then the collapse by a layer's own history is not judged either.
 *
 * A spike is a loss that exceeds the median of the last 128 losses by more
 * than `spike_deviations` standard deviations, computed on logarithms, and by
 * more than the share `spike_rise` of the median. It needs `spike_samples`
 * consecutive losses, or a single one that is twice as far above its median as
 * any of the 128 was. Variation that a training shows all the time, such as
 * bad batches or a harder data set, is therefore not a spike. The first 32
 * losses, the warm-up, and losses of 0 or less are not judged.
 *
 * The other flags need one sample.
 */
typedef struct es_flag_rules {
    double collapse_head;    /* fraction of the ceiling: 0.05 */
    double collapse_share;   /* share of a layer's heads: 0.5 */
    double collapse_history; /* layer mean / its own median: 0.1 */
    int collapse_samples;    /* consecutive: 3 */
    int collapse_layers;     /* low at once, for a sample to count twice: 3 */
    double overload_head;    /* fraction of the ceiling: 0.75 */
    double overload_warning; /* share of heads: 0.20 */
    double overload_error;   /* 0.40 */
    int overload_samples;    /* after which heads have come down: 1000 */
    int overload_steps;      /* that heads need to come down: 1000 */
    double warm_up;          /* share of the planned steps: 0.05 */
    double logits_warning;   /* 100 */
    double logits_error;     /* 1000 */
    double spike_deviations; /* above the median: 7 */
    double spike_rise;       /* share of the median: 0.15 */
    int spike_samples;       /* consecutive: 5 */
} es_flag_rules;

void es_flag_rules_default(es_flag_rules *out);

typedef enum es_threshold_range {
    ES_THRESHOLD_SHARE,    /* from 0 to 1 */
    ES_THRESHOLD_POSITIVE, /* above 0 */
    ES_THRESHOLD_COUNT     /* 1 or more; an int */
} es_threshold_range;

/** A member of es_flag_rules, for code that reads and prints thresholds. */
typedef struct es_flag_threshold {
    es_flag_kind kind;
    const char *key; /* "head" */
    size_t offset;   /* of the member in es_flag_rules */
    es_threshold_range range;
    double value;        /* the default */
    const char *comment; /* meaning of the number */
} es_flag_threshold;

/** All thresholds, grouped by kind. */
#define ES_N_FLAG_THRESHOLDS 16
extern const es_flag_threshold es_flag_thresholds[ES_N_FLAG_THRESHOLDS];

double es_flag_threshold_get(const es_flag_rules *rules,
                             const es_flag_threshold *threshold);
void es_flag_threshold_set(es_flag_rules *rules,
                           const es_flag_threshold *threshold, double value);

/** The properties of a run that the judge needs. */
typedef struct es_judge_run {
    int n_layers, n_heads, ctx; /* ctx < 1: unknown, so no flag that needs the
                                   ceiling */
    int64_t planned_steps;      /* <= 0: unknown, every step is judged */
    double ceiling; /* nats, for heads that are not causal; 0 or NaN: computed
                       from ctx */
    const double *ceilings; /* (L,H) nats, for runs in which some heads see
                               fewer keys than others; NaN: the run's ceiling.
                               NULL: all heads have it. Borrowed while the run
                               is judged */
    bool is_open_ended;     /* the length of the training is unknown: it is too
                               short to judge before overload_steps of
                               es_flag_rules */
} es_judge_run;

/**
 * Returns the largest mean entropy that any head of the run can have, nats;
 * NaN if it is unknown.
 */
double es_judge_run_ceiling(const es_judge_run *run);

/**
 * Returns the ceiling of the head with index `head` in (L,H), nats. It is 0 if
 * the head sees only one key.
 */
double es_judge_run_ceiling_of(const es_judge_run *run, size_t head);

/** Returns the mean of the ceilings of a layer's heads, nats. */
double es_judge_run_layer_ceiling(const es_judge_run *run, size_t layer);

/**
 * Scales entropies so that they can be compared with es_judge_run_ceiling:
 * multiplies each by that ceiling and divides it by the head's own ceiling.
 *
 *   out     (n) written; may be `values`
 *   values  (n) of heads (L,H), or means of layers (L); other sizes are copied
 *
 * A finite value whose own ceiling is 0 becomes missing. Values that are not
 * finite, and all values of a run without `ceilings`, keep their bits.
 */
void es_judge_run_scale(float *out, const es_judge_run *run,
                        const float *values, size_t n);

/**
 * The series that the flags use. A sample whose size its series cannot have is
 * ignored.
 */
typedef enum es_judge_series {
    ES_JUDGE_ENTROPY,         /* (L,H) nats; or (L) means of layers, which can
                                 only raise nan and the collapse by history */
    ES_JUDGE_NONFINITE_ROWS,  /* (L,H) counts */
    ES_JUDGE_NAN_ACTIVATIONS, /* (L) counts */
    ES_JUDGE_MAX_LOGIT,       /* (L,H) */
    ES_JUDGE_LOSS,            /* (1) */
    ES_JUDGE_OTHER            /* ignored */
} es_judge_series;

/**
 * Returns the series of that name; ES_JUDGE_OTHER if the flags do not use it.
 */
es_judge_series es_judge_series_of(const char *name);

/**
 * One episode: the condition of a flag held at every sample from `onset` to
 * `last`. The arrays belong to the judge and are valid during the callback.
 *
 * nan: some value of a judged series is NaN or infinite, or counts such
 * values. The episode ends when the newest sample of every series is clean.
 * collapse: one episode for all layers; it ends when no layer is collapsed. A
 * layer whose heads are all NaN is not collapsed but nan. overload, logits:
 * one episode at any level. An overload's level holds from its consecutive
 * samples on until as many consecutive samples are below it. spike: lasts
 * until a loss is back within half of the rise that made it a spike, measured
 * from the window at its onset. Losses that are not finite are ignored.
 */
typedef struct es_episode {
    es_flag_kind kind;
    es_severity severity; /* while it stands, its level at the last sample;
                             otherwise the highest level that it reached */
    bool stands;          /* the condition holds at the last sample; always
                             true for a NaN */
    int64_t onset, last;
    int64_t reported; /* the first sample at which the episode had lasted long
                         enough to be reported */
    int64_t collapse_reported;   /* nan: `reported` of the collapse that stood
                                    when the NaN came; -1: there was no
                                    collapse */
    const unsigned char *layers; /* (L) 1 = affected at some sample; for
                                    overload: the layer's own share of high
                                    heads is at least a warning's */
    const unsigned char *heads;  /* (L,H) likewise; all 0 for losses,
                                    activations and means of layers */
    double value;     /* the worst value seen. nan: non-finite values in one
                         sample; collapse: largest share of one layer's low
                         heads, or, if only by history, the smallest ratio of
                         mean to median or peak; overload: share of heads;
                         logits: logit; spike: loss */
    double threshold; /* of `severity`; `value` is compared with it */
} es_episode;

typedef void es_episode_handler(void *user, const es_episode *episode);

typedef struct es_judge es_judge;

/**
 * Returns the bytes of workspace that a judge needs; 0 if the sizes overflow
 * or are < 1.
 */
size_t es_judge_size(const es_judge_run *run);

/**
 * Makes a judge inside `workspace`, which has es_judge_size(run) bytes and is
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
 * again at a sample that raises its severity. `stands` is then true; `last`,
 * the marks and `value` describe the episode so far; `threshold` is that of
 * the severity. There is at most one call per kind and push. Flags that need
 * more samples than the run has are reported only by es_judge_finish.
 */
void es_judge_announce(es_judge *judge, es_episode_handler *handler,
                       void *user);

/**
 * Adds one sample. Steps must not decrease within a series; series may
 * interleave in any order as long as all samples of one step come before the
 * next step's. A missing value is not a NaN. A missing entropy is replaced by
 * the newest one measured for the same head; a head that was never measured
 * does not count. A sample with only missing values is ignored, and so is a
 * layer's row with only missing values. Entropies are judged after
 * es_judge_run_scale.
 *
 * Memory is constant: instead of a layer's history of means, the judge keeps a
 * histogram over [2^-20, 16) nats with 32 bins per octave, so the median is
 * exact to 1/64 of its value. Means that are a collapse by history are not
 * added, so that a lasting collapse does not become the norm. With fewer than
 * `collapse_samples` means in it (at least 1) the history is not used. Without
 * ctx, and if only means of layers are recorded, a mean below `collapse_head`
 * of the layer's largest mean so far is a collapse too, because that largest
 * mean was once near the ceiling.
 */
void es_judge_push(es_judge *judge, es_judge_series series, int64_t step,
                   const float *values, size_t n);

/** Reports the open episodes and ends the judge. */
void es_judge_finish(es_judge *judge);

#endif
