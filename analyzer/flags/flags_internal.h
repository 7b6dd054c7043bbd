/**
 * The state that the judge keeps of layers, of the share of high heads and of
 * the loss, in constant memory.
 */
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
    uint32_t bin;   /* the bin that holds the median */
} es_history;

/**
 * Adds a finite mean, nats. The median moves by few bins, so this is amortised
 * O(1).
 */
void es_history_add(es_history *history, double mean);

/**
 * Returns the lower median as the middle of its bin, within 1/64 of the true
 * value. Returns 0 if it is below 2^-20; values of 16 and more count as just
 * below 16. NaN if nothing was added.
 */
double es_history_median(const es_history *history);

/**
 * The progress of a layer towards a collapse: its current streak of collapsed
 * samples. All zero, except `heads`, is a layer not yet seen.
 */
typedef struct es_layer_track {
    es_history history;
    double peak;         /* the largest mean so far */
    uint32_t streak;     /* collapsed samples in a row; 0: not collapsed */
    uint32_t n_wide;     /* of these, samples with many other layers low */
    int64_t onset, last; /* steps of the first and the last of these */
    double share;        /* largest share of low heads since onset that was a
                            collapse; 0: only by history */
    double ratio; /* smallest mean / median or peak since onset that was a
                     collapse */
    unsigned char *heads; /* (H) 1 = below the limit at some sample since
                             onset */
} es_layer_track;

/** One layer's row of an entropy sample. */
typedef struct es_layer_row {
    const float *values; /* (n) nats */
    size_t n;
    bool of_heads; /* false: one value, the layer's mean; n = 1 */
    bool finite;   /* all values are finite, none is missing */
    bool past_warm_up;
    bool by_history; /* true if the layer's history may make it a collapse */
    int64_t step;
} es_layer_row;

/**
 * Adds one sample of a layer. A row of missing values changes nothing; a row
 * of NaN ends a streak.
 *
 *   ceiling  nats; NaN: unknown, only the layer's own past is judged
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
 * The share of high heads over the course of a run. All zero: no sample seen.
 */
typedef struct es_overload_track {
    uint32_t n_judged;
    uint32_t n_mild, n_severe, n_below; /* consecutive samples up to the last:
                                           at the levels of a warning and an
                                           error, and below the error's level */
    bool severe;          /* set when n_severe suffices, until n_below does */
    bool came_down;       /* the share has come down from the start */
    bool begun, is_brief; /* a sample was seen; observed from the start and too
                             short to come down */
    int64_t onset, last;  /* the first of the n_mild samples; the newest
                             sample */
    double value;         /* the largest share since onset */
} es_overload_track;

/**
 * Returns true if the run does not state its length and its newest step,
 * `step`, comes too early to judge it.
 */
bool es_is_early(const es_flag_rules *rules, const es_judge_run *run,
                 int64_t step);

/**
 * Records the first sample of a run: the mean over the heads measured, nats.
 * Later calls change nothing.
 */
void es_overload_begin(es_overload_track *track, const es_flag_rules *rules,
                       int64_t planned_steps, double mean, double ceiling);

/** Adds one sample after the warm-up. Returns the level that holds with it. */
es_severity es_overload_push(es_overload_track *track,
                             const es_flag_rules *rules,
                             const es_judge_run *run, int64_t step,
                             double share);

/** Returns the level at the end of the run; `step` is the newest step. */
es_severity es_overload_finish(const es_overload_track *track,
                               const es_flag_rules *rules,
                               const es_judge_run *run, int64_t step);

#define ES_SPIKE_WINDOW 128 /* losses that a spike is compared with */

/**
 * The newest losses. All are logarithms except `largest`. All zero: none seen.
 */
typedef struct es_spike_track {
    float losses[ES_SPIKE_WINDOW]; /* (n) ring; `next` is the oldest once it is
                                      full */
    float rises[ES_SPIKE_WINDOW];  /* (n) of each loss above the median before
                                      it */
    float sorted[ES_SPIKE_WINDOW]; /* (n) the losses, ascending */
    uint32_t n, next;
    uint32_t streak; /* consecutive losses above `limit` */
    bool open;       /* the streak is a spike, until a loss is at or below
                        `back` */
    double median, limit, back; /* computed at the first loss of the streak */
    int64_t onset;              /* step of that loss */
    double largest;             /* the largest loss since then */
} es_spike_track;

/**
 * Adds one finite loss above 0. Before the window has 32 losses, and in the
 * warm-up, the loss is recorded but not judged. Returns true if the loss is
 * part of a spike.
 */
bool es_spike_push(es_spike_track *track, const es_flag_rules *rules,
                   bool past_warm_up, int64_t step, float loss);

#endif
