/** Lines that are read through their noise. */
#ifndef ES_SMOOTH_H
#define ES_SMOOTH_H

#include <stddef.h>

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

#endif
