/* The entropy kernels compiled with AVX-512 F, BW, DQ and VL. entropy.c calls
   them only on machines that have these instructions. */
#define LANES 16
#define TILE 12
#define KERNELS es_entropy_kernels_avx512
#define KERNELS_NAME "avx512"
#define KERNELS_NEED ES_VECTORS_AVX512
#include "analyzer/entropy/entropy_kernels.inc.h"
