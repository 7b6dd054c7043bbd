/* Transposes matrices of 16-bit numbers for products_onednn.c, in blocks that
 * fit the L1 cache. */
#include "hooks/trainer/cpu/transpose.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define SIDE 8   /* number of rows and columns of a tile in registers */
#define BLOCK 64 /* number of rows and columns of a block */

static void transpose_plain(es_bfloat *out, size_t out_stride,
                            const es_bfloat *in, size_t stride, size_t n_rows,
                            size_t n_columns)
{
    for (size_t j = 0; j < n_columns; j++)
        for (size_t i = 0; i < n_rows; i++)
            out[j * out_stride + i] = in[i * stride + j];
}

#if defined(__SSE2__)
typedef struct tile {
    __m128i rows[SIDE];
} tile;

/* Interleaves rows i and i + 4 of a tile. Three calls transpose the tile. */
static inline tile interleave_rows(tile x)
{
    return (tile){{_mm_unpacklo_epi16(x.rows[0], x.rows[4]),
                   _mm_unpackhi_epi16(x.rows[0], x.rows[4]),
                   _mm_unpacklo_epi16(x.rows[1], x.rows[5]),
                   _mm_unpackhi_epi16(x.rows[1], x.rows[5]),
                   _mm_unpacklo_epi16(x.rows[2], x.rows[6]),
                   _mm_unpackhi_epi16(x.rows[2], x.rows[6]),
                   _mm_unpacklo_epi16(x.rows[3], x.rows[7]),
                   _mm_unpackhi_epi16(x.rows[3], x.rows[7])}};
}

static inline __m128i load_row(const es_bfloat *in)
{
    return _mm_loadu_si128((const __m128i *)in);
}

/* Transposes a tile of SIDE rows and SIDE columns. */
static inline void transpose_tile(es_bfloat *out, size_t out_stride,
                                  const es_bfloat *in, size_t stride)
{
    tile x = {{load_row(in), load_row(in + stride), load_row(in + 2 * stride),
               load_row(in + 3 * stride), load_row(in + 4 * stride),
               load_row(in + 5 * stride), load_row(in + 6 * stride),
               load_row(in + 7 * stride)}};
    x = interleave_rows(interleave_rows(interleave_rows(x)));
#define STORE(i) _mm_storeu_si128((__m128i *)(out + i * out_stride), x.rows[i])
    STORE(0), STORE(1), STORE(2), STORE(3);
    STORE(4), STORE(5), STORE(6), STORE(7);
}
#else
static void transpose_tile(es_bfloat *out, size_t out_stride,
                           const es_bfloat *in, size_t stride)
{
    transpose_plain(out, out_stride, in, stride, SIDE, SIDE);
}
#endif

static void transpose_block(es_bfloat *out, size_t out_stride,
                            const es_bfloat *in, size_t stride, size_t n_rows,
                            size_t n_columns)
{
    const size_t rows = n_rows / SIDE * SIDE;
    const size_t columns = n_columns / SIDE * SIDE;
    for (size_t j = 0; j < columns; j += SIDE)
        for (size_t i = 0; i < rows; i += SIDE)
            transpose_tile(out + j * out_stride + i, out_stride,
                           in + i * stride + j, stride);
    transpose_plain(out + rows, out_stride, in + rows * stride, stride,
                    n_rows - rows, n_columns);
    transpose_plain(out + columns * out_stride, out_stride, in + columns,
                    stride, rows, n_columns - columns);
}

void es_cpu_transpose(es_bfloat *out, const es_bfloat *in, size_t stride,
                      size_t n_rows, size_t n_columns)
{
    for (size_t i = 0; i < n_rows; i += BLOCK)
        for (size_t j = 0; j < n_columns; j += BLOCK)
            transpose_block(out + j * n_rows + i, n_rows, in + i * stride + j,
                            stride, n_rows - i < BLOCK ? n_rows - i : BLOCK,
                            n_columns - j < BLOCK ? n_columns - j : BLOCK);
}
