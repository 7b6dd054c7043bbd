/* The entropy kernels compiled with AVX-512, its bfloat16 and its bytes (VBMI),
   and with the tiles of AMX: nothing in here may run before entropy.c has found
   that the machine has them and the system lets us. */
#define LANES 16
#define TILE 12
#define KERNELS es_entropy_kernels_amx
#define KERNELS_NAME "amx"
#define KERNELS_NEED ES_VECTORS_AMX
/* Clang before 16 has names of its own. */
#if (defined(__AMX_BF16__) && defined(__AMX_INT8__)) ||                        \
    (defined(__AMXBF16__) && defined(__AMXINT8__))
#define MATRIX_TILES
#endif
#include "analyzer/entropy/entropy_kernels.inc.h"
