/** dim3, float4 and the like for a compiler that knows no CUDA. */
#ifndef ES_CUDA_TYPES_HOST_H
#define ES_CUDA_TYPES_HOST_H

#include <vector_functions.h>
#include <vector_types.h>

#endif
