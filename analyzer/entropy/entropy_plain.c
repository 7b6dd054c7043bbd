/* The entropy kernels with vectors of four floats, which gcc and clang support
   on every machine. */
#define LANES 4
#define TILE 6
#define KERNELS es_entropy_kernels_plain
#define KERNELS_NAME "plain"
#define KERNELS_NEED ES_VECTORS_PLAIN
#include "analyzer/entropy/entropy_kernels.inc.h"
