/* Compiles the inner loops for processors with AVX-512: 16 lanes. */
#define LANES 16
#define KERNELS es_cpu_kernels_avx512
#define KERNELS_NAME "avx512"
#include "hooks/trainer/cpu/kernels.inc.h"
