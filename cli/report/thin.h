/**
 * A series thinned to a number of samples that a page can hold.
 *
 * What is kept is real samples, never means. A series that has no more than
 * `capacity` samples is kept whole. Of a longer one, consecutive samples are
 * grouped, and of each group three are kept: the first, the one in which some
 * value lies furthest below that of the first, and the one in which some value
 * lies furthest above. A value that is NaN or infinite where the first is not
 * lies further than any finite one; so does a finite one where the first is
 * not. Missing values decide nothing. The last sample is always kept.
 */
#ifndef ES_REPORT_THIN_H
#define ES_REPORT_THIN_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct es_thin es_thin;

#define ES_THIN_LEAST 4 /* one group and the last sample */

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

/** Samples kept; their steps (n) and values (n,n_values), borrowed. */
size_t es_thin_n(const es_thin *thin);
const int64_t *es_thin_steps(const es_thin *thin);
const float *es_thin_values(const es_thin *thin);

#endif
