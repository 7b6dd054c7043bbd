/**
 * A series thinned to a number of samples that a page can hold.
 *
 * What is kept is real samples, never means. A series that has no more than
 * `capacity` samples is kept whole. Of a longer one, consecutive samples are
 * grouped, and of each group three are kept: the first, the one in which some
 * value lies furthest below that of the first, and the one in which some value
 * lies furthest above. A value that is NaN or infinite where the first is not
 * lies further than any finite one; so does a finite one where the first is
 * not. Missing values decide nothing. The last sample is always kept; where
 * there is no capacity for one group and it (4 samples), the first and it.
 */
#ifndef ES_REPORT_THIN_H
#define ES_REPORT_THIN_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** A sample set aside until its group is over. */
typedef struct es_thin_candidate {
    int64_t step;
    double distance; /* from the group's first; 0: there is none */
    float *values;   /* (n_values) */
} es_thin_candidate;

/** What is kept is to be read; the rest is es_thin_push's. */
typedef struct es_thin {
    size_t n;       /* samples kept */
    int64_t *steps; /* (n) */
    float *values;  /* (n,n_values) */

    size_t n_values, n_samples, n_groups, n_pushed;
    size_t group; /* that is open */
    size_t first; /* index of its first among those kept */
    es_thin_candidate low, high;
} es_thin;

#define ES_THIN_LEAST 2 /* the first sample and the last: of no group */

/**
 *   n_values   of a sample; at least 1
 *   n_samples  that will be pushed; those beyond are ignored
 *   capacity       samples to keep at most; taken as ES_THIN_LEAST if less
 *
 * ES_OK or ES_ENOMEM.
 */
es_status es_thin_new(es_thin **out, size_t n_values, size_t n_samples,
                      size_t capacity) ES_MUST_USE;

void es_thin_free(es_thin *thin); /* NULL is fine */

/** The next sample: values (n_values). */
void es_thin_push(es_thin *thin, int64_t step, const float *values);

/** After the last sample: closes the group that is open. */
void es_thin_finish(es_thin *thin);

#endif
