/** Transposes a matrix of bfloat16, because matrix units for bfloat16 are
 *  fastest with a different layout from that of a weight's gradient. */
#ifndef ES_CPU_TRANSPOSE_H
#define ES_CPU_TRANSPOSE_H

#include "hooks/trainer/cpu/bf16.h"
#include <stddef.h>

/**
 * Computes out (n_columns,n_rows) = in^T, where in (n_rows,n_columns) has rows
 * `stride` elements apart. `out` must not overlap `in`.
 */
void es_cpu_transpose(es_bfloat *out, const es_bfloat *in, size_t stride,
                      size_t n_rows, size_t n_columns);

#endif
