/** Lines of figures: read through their noise, their spikes, and put on common
 *  steps. */
#ifndef ES_SMOOTH_H
#define ES_SMOOTH_H

#include "analyzer/base/status.h"

#include <stddef.h>
#include <stdint.h>

/**
 * A moving mean by a Gaussian's weights, in place.
 *
 *   values   (n) what is not finite stays, and nothing is averaged across it
 *   window   samples, 5 standard deviations; even ones are one larger
 *   weights  (window / 2 + 1) written
 *   space    (n) written
 *
 * O(n window), no allocation, any thread.
 */
void es_stats_smooth(float *values, size_t n, size_t window, double *weights,
                     float *space);

/** What makes a sample a spike. */
#define ES_SPIKE_DEVIATIONS 5.0 /* of the window's spread */
#define ES_SPIKE_LEAST 0.01     /* of the line's range: less is not seen */

/**
 * Finds samples that stand out of those about them: a filter of impulses.
 *
 *   out     (n) the values of spikes; missing where there is none
 *   values  (n) what is not finite is no spike, and windows end there
 *   window  samples, at least 3; even ones are one larger
 *
 * A spike is farther from the median of its window than ES_SPIKE_DEVIATIONS
 * times 1.4826 times the median distance from that (Hampel, J. Am. Stat. Assoc.
 * 69 (1974)), lies above both of its neighbours or below both, and so is never
 * the first or last of a stretch. O(n window log window). ES_OK; ES_EUSAGE:
 * built without GSL; ES_ENOMEM.
 */
es_status es_stats_spikes(float *out, const float *values, size_t n,
                          size_t window) ES_MUST_USE;

/**
 * A line at other steps, by Steffen's interpolation, which has no extremes but
 * the samples (Astron. Astrophys. 239 (1990)).
 *
 *   out     (n_at) must not overlap values
 *   at      (n_at) ascending
 *   x       (n) ascending, no two equal
 *   values  (n)
 *
 * At a step of x its value, whatever it is; between two finite ones what is
 * interpolated; missing before the first, after the last, and beside what is
 * not finite. Without GSL nothing is interpolated. ES_OK or ES_ENOMEM.
 */
es_status es_stats_align(float *out, const int64_t *at, size_t n_at,
                         const int64_t *x, const float *values,
                         size_t n) ES_MUST_USE;

/** The part of it that is GSL's: writes what lies between finite samples, and
 *  nothing else. ES_OK or ES_ENOMEM. */
es_status es_stats_interpolate(float *out, const int64_t *at, size_t n_at,
                               const int64_t *x, const float *values,
                               size_t n) ES_MUST_USE;

#endif
