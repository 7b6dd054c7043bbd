/* Compiles the inner loops for any processor, with vectors of 4 floats. At
 * first use, the program compares the other kernels with these plain
 * kernels. */
#define LANES 4
#define KERNELS es_cpu_kernels_plain
#define KERNELS_NAME "plain"
#include "hooks/trainer/cpu/kernels.inc.h"
