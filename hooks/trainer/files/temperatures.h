/**
 * Converts temperatures t (h.L.attn.t), which older checkpoints and reference
 * cases hold, to the logarithms that the model learns (h.L.attn.log_t).
 */
#ifndef ES_TEMPERATURES_H
#define ES_TEMPERATURES_H

#include <stdbool.h>
#include <stddef.h>

/** Smaller temperatures in such files count as this one. */
#define ES_LEAST_TEMPERATURE 1e-4f

/** Returns true if the name ends with ".attn.log_t" and writes it to out (size)
 *  with the ending ".attn.t". */
bool es_temperatures_name(char *out, size_t size, const char *name);

/** Replaces t (n) by ln t in place; a t below `least` counts as
 *  ES_LEAST_TEMPERATURE. */
void es_temperatures_to_logs(float *values, size_t n, float least);

/** Converts derivatives (n) with respect to t into those with respect to ln t,
 *  in place, by multiplying each by t^order; t as in a file. */
void es_temperatures_to_log_gradients(float *values, const float *t, size_t n,
                                      int order);

#endif
