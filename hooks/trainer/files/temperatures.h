/**
 * Temperatures t where a file has them instead of the logarithms that are
 * learnt (h.L.attn.log_t): checkpoints of before, and reference cases, call
 * them h.L.attn.t.
 */
#ifndef ES_TEMPERATURES_H
#define ES_TEMPERATURES_H

#include <stdbool.h>
#include <stddef.h>

/** Such a t below this counted as this. */
#define ES_LEAST_TEMPERATURE 1e-4f

/** True for a name that ends with ".attn.log_t"; out (size): the same with
 *  ".attn.t". */
bool es_temperatures_name(char *out, size_t size, const char *name);

/** In place: t (n) becomes ln t; of those below `least` it is that of
 *  ES_LEAST_TEMPERATURE, as which they counted. */
void es_temperatures_to_logs(float *values, size_t n, float least);

/** In place: derivatives (n) by t become those by ln t, each times t to the
 *  power that is their order; t as in a file. */
void es_temperatures_to_log_gradients(float *values, const float *t, size_t n,
                                      int order);

#endif
