/**
 * Defines the state that the flag detection (es_judge) keeps for each layer,
 * for the share of heads with high entropy and for the loss. The state has a
 * constant size.
 */
#ifndef ES_FLAGS_INTERNAL_H
#define ES_FLAGS_INTERNAL_H

#include "analyzer/flags/flags.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ES_HISTORY_OCTAVES 24
#define ES_HISTORY_BINS (ES_HISTORY_OCTAVES * 32)

/**
 * The history of a layer: a histogram of its mean entropies. A history is empty
 * if all fields are 0.
 */
typedef struct es_history {
    uint32_t counts[ES_HISTORY_BINS];
    uint32_t n;
    uint32_t below; /* number of values in bins before `bin` */
    uint32_t bin;   /* index of the bin that contains the median */
} es_history;

/**
 * Adds a finite mean in nats to the histogram. The median moves by few bins, so
 * the amortised cost is O(1).
 */
void es_history_add(es_history *history, double mean);

/**
 * Returns the lower median as the middle of its bin, within 1/64 of the true
 * value. Returns 0 if the median is below 2^-20, and a value just below 16 if
 * the median is 16 or more. Returns NaN if the history is empty.
 */
double es_history_median(const es_history *history);

/**
 * The progress of a layer towards a collapse: its current streak of collapsed
 * samples. Before the first sample all fields except `heads` are 0.
 */
typedef struct es_layer_track {
    es_history history;
    double peak;         /* largest mean of the layer so far */
    uint32_t streak;     /* number of consecutive collapsed samples; 0: not
                            collapsed */
    uint32_t n_wide;     /* number of samples in the streak at which many other
                            layers had collapsed, too */
    int64_t onset, last; /* steps of the first and last sample of the streak */
    double share;        /* largest share of heads with a low entropy in the
                            streak; 0 if the collapse is only relative to the
                            layer's history */
    double ratio; /* smallest ratio, in the streak, of the layer's mean to the
                     median or peak of its earlier means */
    unsigned char *heads; /* one element for each head: 1 if the head was below
                             the limit at some sample of the streak */
} es_layer_track;

/** The row of one layer in an entropy sample. */
typedef struct es_layer_row {
    const float *values; /* (n) nats */
    size_t n;
    bool of_heads; /* true if the row has one value per head; false if it has a
                      single value, the layer's mean */
    bool finite;   /* true if all values are finite and none is missing */
    bool past_warm_up;
    bool by_history; /* true if a collapse relative to the layer's own history
                        may be detected */
    int64_t step;
} es_layer_row;

/**
 * Adds one sample of a layer. A row of missing values changes nothing. A row of
 * NaN ends the current streak of collapsed samples.
 *
 *   ceiling  ceiling of the run in nats. If it is unknown (NaN), the layer is
 *            only compared with its own past
 *
 * Returns true if NaN ended a streak.
 */
bool es_layer_track_push(es_layer_track *track, const es_flag_rules *rules,
                         double ceiling, const es_layer_row *row);

/**
 * Returns the number of consecutive samples that a collapse needs, at least 1.
 */
uint32_t es_collapse_samples(const es_flag_rules *rules);

/**
 * Tracks the share of high heads (heads with an entropy close to the ceiling)
 * during a run. Before the first sample all fields are 0.
 */
typedef struct es_overload_track {
    uint32_t n_judged;
    /* Numbers of consecutive samples, up to the newest sample, whose share of
     * high heads is at warning level or above (n_mild), at error level
     * (n_severe) or below error level (n_below). */
    uint32_t n_mild, n_severe, n_below;
    bool severe; /* becomes true when n_severe is large enough, and false when
                    n_below is large enough */
    bool came_down; /* true once the share of high heads has come down from its
                       initial value */
    bool begun, is_brief; /* begun: true once a sample was added. is_brief:
                             true if the run is recorded from its start and
                             has too few steps for the share of high heads to
                             decrease */
    int64_t onset, last;  /* onset: step of the first of the n_mild samples;
                             last: step of the newest sample */
    double value;         /* largest share of high heads since `onset` */
} es_overload_track;

/**
 * Returns true if the length of the run is unknown and `step`, its newest step,
 * is too early to judge the run.
 */
bool es_is_early(const es_flag_rules *rules, const es_judge_run *run,
                 int64_t step);

/**
 * Records the first sample of a run, given as the mean entropy of the measured
 * heads in nats. Later calls change nothing.
 */
void es_overload_begin(es_overload_track *track, const es_flag_rules *rules,
                       int64_t planned_steps, double mean, double ceiling);

/** Adds a sample after the warm-up. Returns the severity after this sample. */
es_severity es_overload_push(es_overload_track *track,
                             const es_flag_rules *rules,
                             const es_judge_run *run, int64_t step,
                             double share);

/** Returns the severity at the end of the run; `step` is the newest step. */
es_severity es_overload_finish(const es_overload_track *track,
                               const es_flag_rules *rules,
                               const es_judge_run *run, int64_t step);

/* Number of earlier losses that a loss is compared with. */
#define ES_SPIKE_WINDOW 128

/**
 * The newest losses, stored as logarithms except in `largest`. Before the first
 * loss all fields are 0.
 */
typedef struct es_spike_track {
    float losses[ES_SPIKE_WINDOW]; /* ring buffer of the newest n losses; once
                                      it is full, `next` is the index of the
                                      oldest loss */
    float rises[ES_SPIKE_WINDOW];  /* difference between each of the n losses
                                      and the median of the losses before it */
    float sorted[ES_SPIKE_WINDOW]; /* the n losses in ascending order */
    uint32_t n, next;
    uint32_t streak; /* number of consecutive losses above `limit` */
    bool open; /* true if the streak is a spike; the spike ends with a loss at
                  or below `back` */
    /* Median of the window, limit above which a loss is high, and level at
     * which the spike ends; all computed at the first loss of the streak. */
    double median, limit, back;
    int64_t onset;  /* step of the first loss of the streak */
    double largest; /* largest loss of the streak */
} es_spike_track;

/**
 * Adds one finite loss above 0. The first 32 losses, and losses in the warm-up,
 * are recorded but not judged. Returns true if the loss is part of a spike.
 */
bool es_spike_push(es_spike_track *track, const es_flag_rules *rules,
                   bool past_warm_up, int64_t step, float loss);

#endif
