/**
 * Thins a series to a number of samples that fits into a page.
 *
 * Only real samples are kept, never means. A series with at most `capacity`
 * samples is kept whole. The samples of a longer series are divided into groups
 * of consecutive samples, and three of each group are kept: the first, the one
 * with the value furthest below that of the first, and the one with the value
 * furthest above. A NaN or infinity counts as further than any finite value if
 * the first sample is finite there; so does a finite value if the first is not.
 * Missing values are ignored. The last sample is always kept; if the capacity
 * is below 4, only the first and the last sample are kept.
 */
#ifndef ES_REPORT_THIN_H
#define ES_REPORT_THIN_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** The sample of an open group that is farthest below or above the first
 *  sample; it is kept when the group ends. */
typedef struct es_thin_candidate {
    int64_t step;
    /* Distance from the group's first sample; 0: no candidate. */
    double distance;
    float *values; /* (n_values) */
} es_thin_candidate;

/** The state of es_thin_push. Callers read the kept samples in n, steps and
 *  values. */
typedef struct es_thin {
    size_t n;       /* samples kept */
    int64_t *steps; /* (n) */
    float *values;  /* (n,n_values) */

    size_t n_values, n_samples, n_groups, n_pushed;
    size_t group; /* index of the group that the next samples belong to */
    size_t first; /* index of the group's first sample in steps and values */
    es_thin_candidate low, high;
} es_thin;

#define ES_THIN_LEAST 2 /* minimum capacity: the first and the last sample */

/**
 * Creates an es_thin.
 *
 *   n_values   values per sample; at least 1
 *   n_samples  number of samples to be pushed; further ones are ignored
 *   capacity   maximum number of samples to keep; at least ES_THIN_LEAST
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_thin_new(es_thin **out, size_t n_values, size_t n_samples,
                      size_t capacity) ES_MUST_USE;

void es_thin_free(es_thin *thin); /* accepts NULL */

/** Adds the next sample: values (n_values). */
void es_thin_push(es_thin *thin, int64_t step, const float *values);

/** Keeps the candidates of the last group; call it after the last sample. */
void es_thin_finish(es_thin *thin);

#endif
