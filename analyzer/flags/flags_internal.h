/** What the judge remembers of the layers, of the share of high heads and of
 *  the loss, in constant memory. */
#ifndef ES_FLAGS_INTERNAL_H
#define ES_FLAGS_INTERNAL_H

#include "analyzer/flags/flags.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ES_HISTORY_OCTAVES 24
#define ES_HISTORY_BINS (ES_HISTORY_OCTAVES * 32)

/** A layer's means as a histogram. All zero is an empty history. */
typedef struct es_history {
    uint32_t counts[ES_HISTORY_BINS];
    uint32_t n;
    uint32_t below; /* values in bins before `bin` */
    uint32_t bin;   /* of the median */
} es_history;

/** Adds a finite mean, nats. The median moves by few bins: amortised O(1). */
void es_history_add(es_history *history, double mean);

/**
 * The lower median: the middle of its bin, within 1/64 of the true value. 0
 * if that is below 2^-20; values of 16 and more count as just below 16. NaN
 * if nothing was added.
 */
double es_history_median(const es_history *history);

/** A layer's way into a collapse: the samples in a row that it has been so.
 *  All zero, `heads` apart, is a layer not yet seen. */
typedef struct es_layer_track {
    es_history history;
    double peak;         /* the largest mean */
    uint32_t streak;     /* collapsed samples in a row; 0: it is not */
    uint32_t n_wide;     /* of them, together with many other layers */
    int64_t onset, last; /* the first and the last of them */
    double share;        /* largest share of low heads since onset that was a
                            collapse; 0: by history only */
    double
        ratio; /* smallest mean / median, or peak, since onset that was one */
    unsigned char *heads; /* (H) below the limit at some sample since onset */
} es_layer_track;

/** One layer's row of an entropy sample. */
typedef struct es_layer_row {
    const float *values; /* (n) nats */
    size_t n;
    bool of_heads; /* false: one value, the layer's mean; n = 1 */
    bool finite;   /* all of them: nothing is missing either */
    bool past_warm_up;
    bool by_history; /* whether the layer's past may make it a collapse */
    int64_t step;
} es_layer_row;

/**
 * Follows a layer by one sample. A row of missing values changes nothing; one
 * of NaN ends a streak.
 *
 *   ceiling   nats; NaN: unknown, then only its own past is judged
 *
 * True if NaN has ended one.
 */
bool es_layer_track_push(es_layer_track *track, const es_flag_rules *rules,
                         double ceiling, const es_layer_row *row);

/** Consecutive samples a collapse needs, at least 1. */
uint32_t es_collapse_samples(const es_flag_rules *rules);

/** The share of high heads on its way through a run. All zero: not seen. */
typedef struct es_overload_track {
    uint32_t n_judged;
    uint32_t n_mild, n_severe, n_below; /* in a row, up to the last: at the
                                           levels, and below the error's */
    bool severe;          /* since n_severe sufficed, until n_below does */
    bool came_down;       /* from the ceiling that all heads start at */
    bool begun, is_brief; /* seen from the start, and too short to come down */
    int64_t onset, last;  /* the first of the mild ones; of all */
    double value;         /* the largest share since onset */
} es_overload_track;

/** Returns true if the run does not state its length and its newest step,
 *  `step`, comes too early to judge it. */
bool es_is_early(const es_flag_rules *rules, const es_judge_run *run,
                 int64_t step);

/** The first sample of a run's heads: the mean of those that were measured,
 *  nats; later ones change nothing. */
void es_overload_begin(es_overload_track *track, const es_flag_rules *rules,
                       int64_t planned_steps, double mean, double ceiling);

/** One sample after the warm-up. The level that holds with it. */
es_severity es_overload_push(es_overload_track *track,
                             const es_flag_rules *rules,
                             const es_judge_run *run, int64_t step,
                             double share);

/** The level that the run ends with; `step` is its newest. */
es_severity es_overload_finish(const es_overload_track *track,
                               const es_flag_rules *rules,
                               const es_judge_run *run, int64_t step);

#define ES_SPIKE_WINDOW 128 /* losses that a spike rises above */

/** The newest losses, as logarithms but for `largest`. All zero: none seen. */
typedef struct es_spike_track {
    float losses[ES_SPIKE_WINDOW]; /* (n) the oldest at `next`, if n is all */
    float rises[ES_SPIKE_WINDOW];  /* (n) of each above the median before it */
    float sorted[ES_SPIKE_WINDOW]; /* (n) the losses, ascending */
    uint32_t n, next;
    uint32_t streak; /* losses in a row above `limit` */
    bool open;       /* they are a spike, until one is not above `back` */
    double median, limit, back; /* as the first of them was met */
    int64_t onset;              /* its step */
    double largest;             /* the largest loss since then */
} es_spike_track;

/**
 * One finite loss above 0. Before the window has 32 of them, and in the
 * warm-up, it is remembered and not judged. True if it is part of a spike.
 */
bool es_spike_push(es_spike_track *track, const es_flag_rules *rules,
                   bool past_warm_up, int64_t step, float loss);

#endif
