/**
 * Smooths the noise of lines in figures, finds their spikes, and aligns lines
 * to common steps.
 */
#ifndef ES_SMOOTH_H
#define ES_SMOOTH_H

#include "analyzer/base/status.h"

#include <stddef.h>
#include <stdint.h>

/**
 * Replaces each value by a moving mean with Gaussian weights, in place.
 *
 *   values   (n) non-finite values are kept, and no mean extends across them
 *   window   number of samples, which span 5 standard deviations; an even
 *            number is increased by one
 *   weights  (window / 2 + 1) scratch, overwritten
 *   space    (n) scratch, overwritten
 *
 * Takes O(n * window) time, does not allocate memory, and may be called from
 * any thread.
 */
void es_stats_smooth(float *values, size_t n, size_t window, double *weights,
                     float *space);

/** Thresholds above which a sample is a spike. */
/* Distance from the median, in robust standard deviations of the window. */
#define ES_SPIKE_DEVIATIONS 5.0
/* Smallest spike as a share of the line's range; smaller spikes are invisible
   in a figure. */
#define ES_SPIKE_LEAST 0.01

/**
 * Finds samples that stand out from their neighbours, by an impulse filter.
 *
 *   out     (n) receives the values of spikes; all others become missing
 *   values  (n) non-finite values are not spikes; they divide the samples into
 *           sections of consecutive finite values
 *   window  number of samples, at least 3; an even number is increased by one
 *
 * The distance of a spike from the median of its window exceeds
 * ES_SPIKE_DEVIATIONS times 1.4826 times the median distance of the window's
 * values from the median (Hampel, J. Am. Stat. Assoc. 69 (1974)). A spike also
 * lies above both of its neighbours or below both, so it is never the first or
 * last value of a section. Takes O(n * window * log(window)) time. Returns
 * ES_OK; ES_EUSAGE if built without GSL; ES_ENOMEM.
 */
es_status es_stats_spikes(float *out, const float *values, size_t n,
                          size_t window) ES_MUST_USE;

/**
 * Evaluates a line at other steps by Steffen's interpolation, which has no
 * extremes between the samples (Astron. Astrophys. 239 (1990)).
 *
 *   out     (n_at) must not overlap values
 *   at      (n_at) steps at which to evaluate the line, ascending
 *   x       (n) steps of the line, strictly ascending
 *   values  (n)
 *
 * At a step that x contains, the result is the line's value at this step,
 * finite or not. Between two finite values the result is interpolated. Before
 * the first step, after the last step, and next to a non-finite value, the
 * result is missing. Without GSL nothing is interpolated. Returns ES_OK or
 * ES_ENOMEM.
 */
es_status es_stats_align(float *out, const int64_t *at, size_t n_at,
                         const int64_t *x, const float *values,
                         size_t n) ES_MUST_USE;

/**
 * The part of es_stats_align that uses GSL: writes only the results between
 * finite values. Returns ES_OK or ES_ENOMEM.
 */
es_status es_stats_interpolate(float *out, const int64_t *at, size_t n_at,
                               const int64_t *x, const float *values,
                               size_t n) ES_MUST_USE;

#endif
