/* Compiles the inner loops for processors with AVX2: 8 lanes. */
#define LANES 8
#define KERNELS es_cpu_kernels_avx2
#define KERNELS_NAME "avx2"
#include "hooks/trainer/cpu/kernels.inc.h"
