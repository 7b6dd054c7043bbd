/**
 * Lines over the steps in constant memory: what a picture needs of a run of
 * any length.
 *
 * Up to a limit (ES_TRACE_MOST points of a line, fewer of very many lines)
 * every point is kept. Beyond it neighbours are joined, four into one, of
 * which the smallest and the largest value are kept, and whether one was not
 * finite. That is still finer than the columns of a picture, so no dip and no
 * NaN gets lost.
 */
#ifndef ES_TRACE_H
#define ES_TRACE_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

#define ES_TRACE_MOST 16384 /* points of a line before joining */
#define ES_TRACE_LEAST 1024 /* the same with very many lines */

typedef struct es_trace es_trace;

/** n_lines >= 1. ES_OK or ES_ENOMEM. */
es_status es_trace_new(es_trace **out, size_t n_lines) ES_MUST_USE;

/** The same with at most `most` points before joining (8 at least), which
 *  makes at most three times as many in the end. */
es_status es_trace_new_within(es_trace **out, size_t n_lines,
                              size_t most) ES_MUST_USE;

void es_trace_free(es_trace *trace); /* NULL is fine */

/** One step, after all before it: values (n_lines). Missing is no value. */
void es_trace_push(es_trace *trace, int64_t step, const float *values);

/** Number of points that es_trace_steps and es_trace_line write; the same for
 *  all lines. */
size_t es_trace_n_points(const es_trace *trace);

/** steps (n_points), strictly increasing if those pushed were. */
void es_trace_steps(const es_trace *trace, int64_t *steps);

/** values (n_points) of one line: as pushed, or the smallest, the largest and
 *  a NaN if there was one, or infinity, for each join. */
void es_trace_line(const es_trace *trace, size_t line, float *values);

#endif
