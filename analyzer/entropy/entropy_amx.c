/* The entropy kernels compiled with AVX-512, including its bfloat16 and byte
   instructions (VBMI), and with the tiles of AMX. entropy.c calls them only if
   the machine has these instructions and the operating system permits the use
   of the tiles. */
#define LANES 16
#define TILE 12
#define KERNELS es_entropy_kernels_amx
#define KERNELS_NAME "amx"
#define KERNELS_NEED ES_VECTORS_AMX
/* Clang before version 16 defines these macros without the underscore after
 * AMX. */
#if (defined(__AMX_BF16__) && defined(__AMX_INT8__)) ||                        \
    (defined(__AMXBF16__) && defined(__AMXINT8__))
#define MATRIX_TILES
#endif
#include "analyzer/entropy/entropy_kernels.inc.h"
