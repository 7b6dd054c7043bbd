/**
 * Thins a series to a number of samples that fits into a page.
 *
 * Only real samples are kept, never means. A series with at most `capacity`
 * samples is kept unchanged. The samples of a longer series are divided into
 * groups of consecutive samples, and three samples of each group are kept: the
 * first, the sample with a value furthest below the corresponding value of the
 * first, and the sample with a value furthest above. If the value of the first
 * sample is finite, a NaN or infinity is treated as further away than any
 * finite value; if it is not finite, any finite value is treated as further
 * away. Missing values are ignored. The last sample is always kept; if the
 * capacity is below 4, only the first and the last sample are kept.
 */
#ifndef ES_REPORT_THIN_H
#define ES_REPORT_THIN_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/**
 * The sample of the current group that is so far farthest below or above the
 * group's first sample. The sample is kept when the group ends.
 */
typedef struct es_thin_candidate {
    int64_t step;
    /* Distance of `values` from the values of the group's first sample; 0 until
     * a candidate has been found. */
    double distance;
    float *values; /* (n_values) */
} es_thin_candidate;

/**
 * The state of a series that is being thinned. The members n, steps and values
 * contain the samples kept so far.
 */
typedef struct es_thin {
    size_t n;       /* samples kept */
    int64_t *steps; /* (n) */
    float *values;  /* (n,n_values) */

    size_t n_values, n_samples, n_groups, n_pushed;
    size_t group; /* index of the group that the next samples belong to */
    size_t first; /* index of the group's first sample in steps and values */
    es_thin_candidate low, high;
} es_thin;

/* Minimum capacity, which suffices for the first and the last sample. */
#define ES_THIN_LEAST 2

/**
 * Creates an es_thin.
 *
 *   n_values   values per sample; at least 1
 *   n_samples  number of samples that will be added; further samples are
 *              ignored
 *   capacity   maximum number of samples to keep; at least ES_THIN_LEAST
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_thin_new(es_thin **out, size_t n_values, size_t n_samples,
                      size_t capacity) ES_MUST_USE;

void es_thin_free(es_thin *thin); /* accepts NULL */

/** Adds the next sample, which has n_values values. */
void es_thin_push(es_thin *thin, int64_t step, const float *values);

/**
 * Completes the last group: keeps the samples farthest below and above the
 * group's first sample. Must be called after the last sample was added.
 */
void es_thin_finish(es_thin *thin);

#endif
