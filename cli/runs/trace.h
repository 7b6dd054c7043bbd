/**
 * Lines over the steps in constant memory: enough for a picture of a run of any
 * length.
 *
 * Up to a limit (ES_TRACE_MOST points per line, fewer with very many lines)
 * every point is kept. Beyond it four neighbours are joined into one, which
 * keeps their smallest and largest value, and whether one of them was not
 * finite. This is still finer than the columns of a picture, so every dip and
 * every NaN remains visible.
 */
#ifndef ES_TRACE_H
#define ES_TRACE_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

#define ES_TRACE_MOST 16384 /* points of a line before joining */
#define ES_TRACE_LEAST 1024 /* limit with very many lines */

typedef struct es_trace es_trace;

/** n_lines >= 1. Returns ES_OK or ES_ENOMEM. */
es_status es_trace_new(es_trace **out, size_t n_lines) ES_MUST_USE;

/** The same with at most `most` points per line before joining (at least 8),
 *  which result in at most three times as many points. */
es_status es_trace_new_within(es_trace **out, size_t n_lines,
                              size_t most) ES_MUST_USE;

void es_trace_free(es_trace *trace); /* trace may be NULL */

/** Adds a step, which must follow the earlier ones. values: (n_lines), missing
 *  where a line has no value. */
void es_trace_push(es_trace *trace, int64_t step, const float *values);

/** Returns the number of points that es_trace_steps and es_trace_line write;
 *  the same for all lines. */
size_t es_trace_n_points(const es_trace *trace);

/** Writes steps (n_points), strictly increasing if the added ones were. */
void es_trace_steps(const es_trace *trace, int64_t *steps);

/** Writes values (n_points) of one line: as added, or for each join the
 *  smallest, the largest, and NaN if one of them was not finite. */
void es_trace_line(const es_trace *trace, size_t line, float *values);

#endif
