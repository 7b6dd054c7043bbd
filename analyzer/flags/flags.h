/**
 * Flags: is a run's attention collapsing, overloaded, or NaN? README.md beside
 * this header says what each means. A judge is fed samples in the order of
 * their steps and reports episodes; the same code serves a finished file and a
 * growing one.
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

/** What is known of a kind of flag. */
typedef struct es_flag_info {
    const char *name; /* "collapse" */
    es_severity mildest, severest;
    const char *meaning;           /* a clause, without a full stop */
    const char *causes, *remedies; /* a sentence each, with what it goes by in
                                      brackets: "(Zhai 2023)" */
    const char *sources[ES_FLAG_SOURCES_MOST]; /* "Zhai 2023: ...", all that
                                                  the two go by; then NULL */
} es_flag_info;

/** The kinds in their order, then the forecast, which a rule may be about
 *  (forecast.h); NULL after those. */
const es_flag_info *es_flag_info_at(size_t i);

/** By its name; NULL if there is none. */
const es_flag_info *es_flag_info_find(const char *name);

#define ES_FLAG_NAMES_MAX 128

/** "nan, collapse, ...": the first n of them. Returns out. */
const char *es_flag_names(char out[ES_FLAG_NAMES_MAX], size_t n);

#define ES_FLAG_SEVERITIES_MAX 48

/** "critical", "warning or error". Returns out. */
const char *es_flag_severities(char out[ES_FLAG_SEVERITIES_MAX],
                               const es_flag_info *info);

/** An overload of severity info: es_flag_rules' overload_steps. */
bool es_flag_is_too_short(es_flag_kind kind, es_severity severity);

/** For people: the severity's name, or of what an overload's info means "too
 * short to judge". */
const char *es_flag_verdict(es_flag_kind kind, es_severity severity);

/**
 * Thresholds; es_flag_rules_default fills in those of es_flag_thresholds, which
 * are said below.
 *
 * A collapse needs `collapse_samples` consecutive samples in one layer, or as
 * many as there are in a run that has fewer. One of at least half of the
 * layers, and of `collapse_layers`, counts for two: a bad batch pulls few
 * layers down, or all of them once. Samples in a row that end in NaN, however
 * few, were a collapse.
 *
 * An overload needs `overload_samples`, or all of a run that has fewer. Every
 * head starts near the ceiling: until the share has stayed below
 * overload_error for as many samples it is a warning at most. What has not
 * come down when the run ends, or 1 - `warm_up` of the planned steps are done,
 * is judged in full by es_judge_finish. A training of fewer than
 * `overload_steps` planned steps is too short for that: if it is seen from the
 * start (its first sample has a mean of 0.98 ceiling and more), what has not
 * come down is of severity info. So is every overload of a training of unknown
 * length (es_judge_run's is_open_ended) before it has taken as many steps; nor
 * is it judged by a layer's own history until then.
 *
 * A spike is a loss more than `spike_deviations` standard deviations above the
 * median of the last 128 losses, by logarithms, and `spike_rise` of the median:
 * `spike_samples` in a row, or a single one that is twice as far above its
 * median as any of the 128 was. So what a training does all the time is not
 * a spike: bad batches, sets of data of which one is harder. The first 32
 * losses are not judged, nor is the warm-up; neither is a loss of 0 and less.
 *
 * The other flags need one sample.
 */
typedef struct es_flag_rules {
    double collapse_head;    /* fraction of the ceiling: 0.05 */
    double collapse_share;   /* of a layer's heads: 0.5 */
    double collapse_history; /* layer mean / its own median: 0.1 */
    int collapse_samples;    /* consecutive: 3 */
    int collapse_layers;     /* at once, to count for two: 3 */
    double overload_head;    /* fraction of the ceiling: 0.75 */
    double overload_warning; /* share of heads: 0.20 */
    double overload_error;   /* 0.40 */
    int overload_samples;    /* consecutive: 10 */
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
    ES_THRESHOLD_SHARE,    /* 0 to 1 */
    ES_THRESHOLD_POSITIVE, /* above 0 */
    ES_THRESHOLD_COUNT     /* 1 and more; an int */
} es_threshold_range;

/** A member of es_flag_rules, for what reads and prints them. */
typedef struct es_flag_threshold {
    es_flag_kind kind;
    const char *key; /* "head" */
    size_t offset;   /* in es_flag_rules */
    es_threshold_range range;
    double value;        /* the default */
    const char *comment; /* what the number is of */
} es_flag_threshold;

/** All of them, those of a kind one after the other. */
#define ES_N_FLAG_THRESHOLDS 16
extern const es_flag_threshold es_flag_thresholds[ES_N_FLAG_THRESHOLDS];

double es_flag_threshold_get(const es_flag_rules *rules,
                             const es_flag_threshold *threshold);
void es_flag_threshold_set(es_flag_rules *rules,
                           const es_flag_threshold *threshold, double value);

/** What the judge has to know of a run. */
typedef struct es_judge_run {
    int n_layers, n_heads, ctx; /* ctx < 1: unknown, so no ceiling flags */
    int64_t planned_steps;      /* <= 0: unknown, everything is judged */
    double ceiling; /* nats, of heads that are not causal; else 0 or NaN: that
                       of ctx */
    const double *ceilings; /* (L,H) nats, of heads that see fewer keys than
                               others; NaN: that of the run. NULL: all of them.
                               Borrowed as long as the run is judged */
    bool is_open_ended; /* the training does not say how long it is: too short
                           to judge before es_flag_rules' overload_steps */
} es_judge_run;

/** The largest mean entropy that any head of the run can have, nats; NaN if
 *  it is unknown. */
double es_judge_run_ceiling(const es_judge_run *run);

/** The same of head `head` in (L,H). 0: it sees one key. */
double es_judge_run_ceiling_of(const es_judge_run *run, size_t head);

/** The same of a layer: the mean over its heads. */
double es_judge_run_layer_ceiling(const es_judge_run *run, size_t layer);

/**
 * Entropies that can be compared with es_judge_run_ceiling, whichever head they
 * are of: each times that ceiling over its own.
 *
 *   out     (n) written; may be `values`
 *   values  (n) of heads (L,H), or means of layers (L); a copy otherwise
 *
 * A finite value whose own ceiling is 0 becomes missing. What is not finite,
 * and all values of a run without `ceilings`, keep their bits.
 */
void es_judge_run_scale(float *out, const es_judge_run *run,
                        const float *values, size_t n);

/**
 * Which series a sample belongs to, as far as the flags care. A sample of a
 * size that its series cannot have is ignored.
 */
typedef enum es_judge_series {
    ES_JUDGE_ENTROPY,         /* (L,H) nats; or (L) means of layers, which only
                                 nan and the collapse by history can judge */
    ES_JUDGE_NONFINITE_ROWS,  /* (L,H) counts */
    ES_JUDGE_NAN_ACTIVATIONS, /* (L) counts */
    ES_JUDGE_MAX_LOGIT,       /* (L,H) */
    ES_JUDGE_LOSS,            /* (1) */
    ES_JUDGE_OTHER            /* ignored */
} es_judge_series;

/** The series' role by its name; ES_JUDGE_OTHER if it has none. */
es_judge_series es_judge_series_of(const char *name);

/**
 * One episode: the condition of a flag held at every sample from `onset` to
 * `last`. The arrays are the judge's, valid during the callback.
 *
 * nan: some value of a judged series is NaN or infinite, or counts such
 * things. The episode ends when the newest sample of every series is clean.
 * collapse: one episode for all layers; it ends when no layer is collapsed.
 * A layer all of whose heads are NaN is not collapsed: it is nan.
 * overload, logits: one episode whatever its level; an overload's level holds
 * from its consecutive samples on until as many in a row are below it.
 * spike: until a loss is back within half of the rise that made it a spike, as
 * the window was at its onset. Losses that are not finite change nothing.
 */
typedef struct es_episode {
    es_flag_kind kind;
    es_severity severity; /* if it stands, its level at the last sample; else
                             the highest that it reached */
    bool stands;          /* it holds at the last sample; a NaN always does */
    int64_t onset, last;
    int64_t reported; /* the sample that it could first be reported at, when it
                        had held for long enough */
    int64_t collapse_reported; /* nan: that sample of the collapse that held as
                                 it came; -1: there was none */
    const unsigned char *layers; /* (L) 1 = affected at some sample; overload:
                                    its own share of heads is a warning's */
    const unsigned char *heads;  /* (L,H) the same; none are known of loss,
                                    activations and means of layers */
    double value;     /* the worst seen. nan: non-finite things in one sample;
                         collapse: largest share of one layer's heads, or
                         only by its past, the smallest ratio of mean to
                         median or peak; overload: share; logits:
                         logit; spike: loss */
    double threshold; /* of `severity`, what `value` is compared with */
} es_episode;

typedef void es_episode_handler(void *user, const es_episode *episode);

typedef struct es_judge es_judge;

/** Bytes of workspace a judge needs; 0 if the sizes overflow or are < 1. */
size_t es_judge_size(const es_judge_run *run);

/**
 * Makes a judge inside `workspace` (es_judge_size(run) bytes, aligned for any
 * type, owned by the caller, who frees it and nothing else).
 *
 * `handler` gets each episode once, when it is over or at es_judge_finish.
 */
es_judge *es_judge_init(void *workspace, const es_judge_run *run,
                        const es_flag_rules *rules, es_episode_handler *handler,
                        void *user);

/**
 * From now on `handler` also gets each episode at the sample that opens it,
 * and again at one that raises its severity: `stands` is true, `last`, the
 * marks and `value` are as far as they have come, `threshold` is that of the
 * severity. At most one call a kind and push. What runs of fewer samples than
 * a flag needs end with is reported by es_judge_finish.
 */
void es_judge_announce(es_judge *judge, es_episode_handler *handler,
                       void *user);

/**
 * One sample. Steps must not decrease within a series; series may interleave
 * in any order as long as all samples of one step come before the next step's.
 * A missing value is no NaN. Of entropies it stands for the newest one that
 * was measured of its head; a head never measured does not count. A sample of
 * nothing else is none, nor is such a row one of its layer. Entropies are
 * judged as es_judge_run_scale makes them.
 *
 * Memory is constant: instead of a layer's history of means the judge keeps a
 * histogram over [2^-20, 16) nats with 32 bins an octave, so the median is
 * exact to 1/64 of its value. Means that are a collapse by history stay out of
 * it: a collapse that lasts does not become the norm. With fewer than
 * `collapse_samples` means in it (1 at least) it judges nothing. Without ctx,
 * and where there are only means of layers, a mean below `collapse_head` of the
 * layer's largest so far is a collapse too: that was near the ceiling once.
 */
void es_judge_push(es_judge *judge, es_judge_series series, int64_t step,
                   const float *values, size_t n);

/** Reports the episodes still open and ends the judge. */
void es_judge_finish(es_judge *judge);

#endif
