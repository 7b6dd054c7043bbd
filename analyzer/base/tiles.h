/**
 * Configures the AMX tiles for the project's kernels. Only files that are
 * compiled for AMX may include this header.
 */
#ifndef ES_TILES_H
#define ES_TILES_H

#include <immintrin.h>
#include <stdint.h>

/**
 * Configures all eight AMX tiles of this thread as 16 rows of 64 bytes. The
 * configuration lasts until _tile_release.
 */
static inline void es_tiles_configure(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t n_rows[16];
    } setting = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        setting.row_bytes[i] = 64;
        setting.n_rows[i] = 16;
    }
    _tile_loadconfig(&setting);
}

#endif
