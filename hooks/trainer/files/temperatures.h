/**
 * Converts temperatures t (h.L.attn.t), which older checkpoints and reference
 * cases hold, to the logarithms that the model learns (h.L.attn.log_t).
 */
#ifndef ES_TEMPERATURES_H
#define ES_TEMPERATURES_H

#include "hooks/trainer/model/operands.h"
#include <stdbool.h>
#include <stddef.h>

/** Returns true if the name ends with ".attn.log_t", and then writes the name
 *  with the ending ".attn.t" to out (size). */
bool es_temperatures_name(char *out, size_t size, const char *name);

/** Replaces n temperatures t by ln t in place; a temperature below `least` is
 *  first replaced by ES_LEAST_TEMPERATURE. */
void es_temperatures_to_logs(float *values, size_t n, float least);

/** Converts derivatives (n) with respect to t into derivatives with respect to
 *  ln t, in place: multiplies each by t^order, with t as stored in the file. */
void es_temperatures_to_log_gradients(float *values, const float *t, size_t n,
                                      int order);

#endif
