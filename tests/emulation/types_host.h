/** Defines CUDA's types dim3, float4 and similar, for a compiler that does not
 *  know CUDA. */
#ifndef ES_CUDA_TYPES_HOST_H
#define ES_CUDA_TYPES_HOST_H

#include <vector_functions.h>
#include <vector_types.h>

#endif
