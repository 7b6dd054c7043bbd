/**
 * Stores curves over steps, for drawing runs of any length in constant memory.
 *
 * Up to a limit (ES_TRACE_MOST points per curve, fewer with very many curves)
 * every point is kept. Beyond the limit, every four neighbouring points are
 * merged into one entry, which keeps the smallest and largest value, and
 * whether a value was not finite. This is still finer than the pixel columns of
 * a figure, so every dip and every NaN remains visible.
 */
#ifndef ES_TRACE_H
#define ES_TRACE_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** Maximum number of points per curve before points are merged. The limit is
 *  ES_TRACE_MOST, and decreases to ES_TRACE_LEAST with very many curves. */
#define ES_TRACE_MOST 16384
#define ES_TRACE_LEAST 1024

typedef struct es_trace es_trace;

/** Creates a trace of n_lines >= 1 curves. Returns ES_OK or ES_ENOMEM. */
es_status es_trace_new(es_trace **out, size_t n_lines) ES_MUST_USE;

/** Same as es_trace_new, but keeps at most `most` points per curve (`most`
 *  >= 8) before points are merged. es_trace_n_points is then at most 3 *
 *  `most`. */
es_status es_trace_new_within(es_trace **out, size_t n_lines,
                              size_t most) ES_MUST_USE;

void es_trace_free(es_trace *trace); /* trace may be NULL */

/** Adds a step, which must be larger than all earlier steps. `values` (n_lines)
 *  are missing where a curve has no value at this step. */
void es_trace_push(es_trace *trace, int64_t step, const float *values);

/** Returns the number of points that es_trace_steps and es_trace_line write.
 *  All curves have the same number of points. */
size_t es_trace_n_points(const es_trace *trace);

/** Writes the steps (n_points) of the points; the steps increase strictly if
 *  the added steps increased strictly. */
void es_trace_steps(const es_trace *trace, int64_t *steps);

/** Writes the values (n_points) of one curve. A point that was not merged has
 *  the recorded value. Merged points become a point with their smallest value,
 *  a point with their largest value, and a NaN if a value was not finite. */
void es_trace_line(const es_trace *trace, size_t line, float *values);

#endif
