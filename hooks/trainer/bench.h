/** How fast training is, and what recording costs. */
#ifndef ES_BENCH_H
#define ES_BENCH_H

#include "hooks/trainer/settings/settings.h"
#include <stdio.h>

/**
 * Trains on random tokens; each of `pairs` pairs is one step that is measured
 * and recorded and one that is neither, in turns first. Both do the same
 * training. Prints medians, fastest steps, tokens/s and the share that
 * recording takes, in wall time and in CPU time of the training thread.
 *
 * Single steps side by side meet the same noise of a shared machine; of the
 * differences within pairs the middle of their means is taken, which a few
 * interrupted steps do not move.
 *
 * On the CPU back-end, at the end, a table of what the operations of a plain
 * step take (cpu/phases.h): the fastest of a few steps of a second model.
 *
 * Works in a folder of its own under $TMPDIR, which it removes.
 * ES_OK; ES_EUSAGE, ES_EIO, ES_ENOMEM, what es_recorder_open returns.
 */
es_status es_bench(FILE *out, const es_settings *settings) ES_MUST_USE;

/** Middle of a sample, and an interval that holds the middle of what it was
 *  drawn from with 95 % confidence (order statistics, no distribution). */
typedef struct es_middle {
    double median, low, high;
} es_middle;

/** Sorts x (n), n >= 1. */
es_middle es_middle_of(double *x, size_t n);

/** The same of what differs from its middle as often and as much to both sides,
 *  as differences of like things by turns do: the median of the means of all
 *  x[i] and x[j], i <= j (Hodges and Lehmann), and the interval of Wilcoxon's
 *  signed-rank test, by the normal distribution. Narrower by about a fifth. */
es_middle es_middle_of_means(double *x, size_t n);

#endif
