/* Compiles the inner loops for every processor, with 4 lanes; the other kernels
 * are compared with them. */
#define LANES 4
#define KERNELS es_cpu_kernels_plain
#define KERNELS_NAME "plain"
#include "hooks/trainer/cpu/kernels.inc.h"
