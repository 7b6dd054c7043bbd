/** Transposes a matrix of bfloat16: matrix units for bfloat16 are fastest with
 *  another layout than the gradient of a weight has. */
#ifndef ES_CPU_TRANSPOSE_H
#define ES_CPU_TRANSPOSE_H

#include "hooks/trainer/cpu/bf16.h"
#include <stddef.h>

/**
 * out (n_columns,n_rows) = in^T, in (n_rows,n_columns) with rows `stride`
 * apart. out must not overlap in.
 */
void es_cpu_transpose(es_bfloat *out, const es_bfloat *in, size_t stride,
                      size_t n_rows, size_t n_columns);

#endif
