/** Transposes a matrix of bfloat16 before the product that computes a weight's
 *  gradient, because matrix units for bfloat16 need another layout to be
 *  fast. */
#ifndef ES_CPU_TRANSPOSE_H
#define ES_CPU_TRANSPOSE_H

#include "hooks/trainer/cpu/bf16.h"
#include <stddef.h>

/**
 * Computes out (n_columns,n_rows) = in^T. The rows of in (n_rows,n_columns) are
 * `stride` elements apart. `out` must not overlap `in`.
 */
void es_cpu_transpose(es_bfloat *out, const es_bfloat *in, size_t stride,
                      size_t n_rows, size_t n_columns);

#endif
