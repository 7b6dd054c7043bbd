/**
 * Measures the speed of training and the cost of recording.
 */
#ifndef ES_BENCH_H
#define ES_BENCH_H

#include "hooks/trainer/settings/settings.h"
#include <stdio.h>

/**
 * Trains on random tokens in pairs of steps; settings->pairs is the number of
 * pairs. One step of a pair is measured and recorded, the other step is not;
 * the recorded step comes first in every other pair. Otherwise both steps do
 * the same work. Prints medians, fastest steps, tokens/s and the relative cost
 * of recording, in wall time and in CPU time of the training thread.
 *
 * On a shared machine, other processes delay both steps of a pair about
 * equally. The result is the Hodges-Lehmann estimate of the differences within
 * pairs (es_middle_of_means), which a few interrupted steps do not change.
 *
 * Works in a temporary folder under $TMPDIR and removes it afterwards. Returns
 * ES_OK; ES_EUSAGE, ES_EIO, ES_ENOMEM, or a status of es_recorder_open.
 */
es_status es_bench(FILE *out, const es_settings *settings) ES_MUST_USE;

/**
 * The median of a sample, and an interval that contains the median of the
 * sampled distribution with 95 % confidence (from order statistics, without
 * assuming a distribution).
 */
typedef struct es_middle {
    double median, low, high;
} es_middle;

/** Sorts x (n), n >= 1, in place, and returns its median. */
es_middle es_middle_of(double *x, size_t n);

/** Same as es_middle_of, for values distributed symmetrically about their
 *  median, such as differences between alternating measurements of the same
 *  kind. Returns the median of the means of all x[i] and x[j], i <= j (Hodges
 *  and Lehmann), and the interval of Wilcoxon's signed-rank test in the normal
 *  approximation, which is about a fifth narrower than the interval of
 *  es_middle_of. */
es_middle es_middle_of_means(double *x, size_t n);

#endif
