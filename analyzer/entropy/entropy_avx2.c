/* The entropy kernels compiled with AVX2 and FMA. entropy.c calls them only on
   machines that have these instructions. */
#define LANES 8
#define TILE 6
#define KERNELS es_entropy_kernels_avx2
#define KERNELS_NAME "avx2"
#define KERNELS_NEED ES_VECTORS_AVX2
#include "analyzer/entropy/entropy_kernels.inc.h"
