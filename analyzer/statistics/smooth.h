/**
 * Lines of figures: smoothing their noise, finding their spikes, and aligning
 * them to common steps.
 */
#ifndef ES_SMOOTH_H
#define ES_SMOOTH_H

#include "analyzer/base/status.h"

#include <stddef.h>
#include <stdint.h>

/**
 * Replaces each value by a moving mean with Gaussian weights, in place.
 *
 *   values   (n) values that are not finite stay, and no mean extends across
 *            them
 *   window   samples, 5 standard deviations; an even number counts as one more
 *   weights  (window / 2 + 1) written
 *   space    (n) written
 *
 * O(n window), no allocation, any thread.
 */
void es_stats_smooth(float *values, size_t n, size_t window, double *weights,
                     float *space);

/** The thresholds that make a sample a spike. */
#define ES_SPIKE_DEVIATIONS 5.0 /* in deviations of the window */
#define ES_SPIKE_LEAST                                                         \
    0.01 /* as a share of the line's range; smaller ones                       \
            are invisible */

/**
 * Finds samples that stand out from their neighbours, by an impulse filter.
 *
 *   out     (n) the values of spikes; missing elsewhere
 *   values  (n) values that are not finite are not spikes and end windows
 *   window  samples, at least 3; an even number counts as one more
 *
 * A spike is farther from the median of its window than ES_SPIKE_DEVIATIONS
 * times 1.4826 times the median distance from that median (Hampel, J. Am.
 * Stat. Assoc. 69 (1974)) and lies above both of its neighbours or below both,
 * so it is never the first or last of a stretch. O(n window log window).
 * Returns ES_OK; ES_EUSAGE if built without GSL; ES_ENOMEM.
 */
es_status es_stats_spikes(float *out, const float *values, size_t n,
                          size_t window) ES_MUST_USE;

/**
 * Evaluates a line at other steps, by Steffen's interpolation, whose only
 * extremes are samples (Astron. Astrophys. 239 (1990)).
 *
 *   out     (n_at) must not overlap values
 *   at      (n_at) ascending
 *   x       (n) strictly ascending
 *   values  (n)
 *
 * At a step of x the result is its value, finite or not; between two finite
 * values it is interpolated; before the first, after the last, and next to a
 * value that is not finite it is missing. Without GSL nothing is interpolated.
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_stats_align(float *out, const int64_t *at, size_t n_at,
                         const int64_t *x, const float *values,
                         size_t n) ES_MUST_USE;

/**
 * The part of es_stats_align that uses GSL: writes only the values between
 * finite samples. Returns ES_OK or ES_ENOMEM.
 */
es_status es_stats_interpolate(float *out, const int64_t *at, size_t n_at,
                               const int64_t *x, const float *values,
                               size_t n) ES_MUST_USE;

#endif
