/**
 * Defines the layout of the tiles of attention in plain functions, which a test
 * on the host can check completely.
 *
 * A block of threads owns some rows of a head: queries in the forward pass and
 * for dq, keys for dk and dv ("own" rows). It processes the rows of the
 * opposite kind ("other" rows: keys, or queries) tile by tile. Positions count
 * tokens of the sequence.
 */
#ifndef ES_CUDA_ATTENTION_TILES_H
#define ES_CUDA_ATTENTION_TILES_H

#include "hooks/trainer/cuda/index.h"

#include <stdbool.h>

/** The kind of rows that a block owns. */
typedef enum es_tile_owner { ES_OWN_QUERIES, ES_OWN_KEYS } es_tile_owner;

/** Returns the number of tiles of `size` rows that cover n_ctx positions. */
ES_BOTH int es_tile_count(int n_ctx, int size)
{
    return (n_ctx + size - 1) / size;
}

/** The tile and the head that a block processes. Tiles of the same head are
 *  neighbours, so that they find the head's other rows in the cache. The
 *  longest tiles start first: the tiles of the last queries, or of the first
 *  keys. */
typedef struct es_tile_place {
    int head; /* b H + h */
    int first;
} es_tile_place;

ES_BOTH es_tile_place es_tile_place_of(unsigned block, int n_ctx, int size,
                                       es_tile_owner owner)
{
    const int n_tiles = es_tile_count(n_ctx, size);
    int tile = (int)(block % (unsigned)n_tiles);
    es_tile_place place;
    if (owner == ES_OWN_QUERIES)
        tile = n_tiles - 1 - tile;
    place.head = (int)(block / (unsigned)n_tiles);
    place.first = tile * size;
    return place;
}

/** Range of positions of the other rows that own rows first .. first + n_own -
 *  1 see: from `begin`, a multiple of n_other, to `end` - 1. */
typedef struct es_tile_range {
    int begin, end;
} es_tile_range;

ES_BOTH es_tile_range es_tile_others(int first, int n_own, int n_other,
                                     int n_ctx, es_tile_owner owner)
{
    es_tile_range range;
    range.begin = owner == ES_OWN_QUERIES ? 0 : first / n_other * n_other;
    range.end = owner == ES_OWN_QUERIES ? first + n_own : n_ctx;
    if (range.end > n_ctx)
        range.end = n_ctx;
    return range;
}

/** Returns true if rows `own` and `other` see each other; both are positions in
 *  the sequence. */
ES_BOTH bool es_tile_visible(int own, int other, es_tile_owner owner)
{
    return owner == ES_OWN_QUERIES ? other <= own : other >= own;
}

/** Describes the mask between rows own .. own + n_own - 1 and rows other ..
 *  other + n_other - 1. */
typedef enum es_tile_mask {
    ES_TILE_NONE, /* all masked */
    ES_TILE_SOME,
    ES_TILE_ALL
} es_tile_mask;

ES_BOTH es_tile_mask es_tile_mask_of(int own, int n_own, int other, int n_other,
                                     es_tile_owner owner)
{
    int low = owner == ES_OWN_QUERIES ? other : own;
    int high = owner == ES_OWN_QUERIES ? own : other;
    int n_low = owner == ES_OWN_QUERIES ? n_other : n_own;
    int n_high = owner == ES_OWN_QUERIES ? n_own : n_other;
    if (low > high + n_high - 1)
        return ES_TILE_NONE;
    return low + n_low - 1 <= high ? ES_TILE_ALL : ES_TILE_SOME;
}

/* --- for tensor cores ----------------------------------------------------- */

/**
 * Returns the place of 16-byte chunk `chunk` of row `row` in a tile of shared
 * memory, in units of 16 bytes. Rows have n_chunks chunks (4, 8 or 16). The
 * same chunk of eight consecutive rows lies in eight different groups of four
 * banks, and so do eight consecutive chunks of a row.
 */
ES_BOTH int es_tile_chunk(int row, int chunk, int n_chunks)
{
    int swap = n_chunks >= 8 ? row & 7 : (row >> 1) & 3;
    return row * n_chunks + (chunk ^ swap);
}

/**
 * Returns the distance in bytes of chunk `chunk`, 0 or 1, of row `row` from
 * chunk 0 of row 0. The result is an argument of es_tile_move.
 */
ES_BOTH unsigned es_tile_spot_bytes(int row, int chunk, int n_chunks)
{
    return 16 * (unsigned)es_tile_chunk(row, chunk, n_chunks);
}

/**
 * Returns the address `at` of a row's chunk 0 or 1 (from es_tile_spot_bytes;
 * the tile begins at a multiple of 128), moved down by `row` rows, a multiple
 * of 8, and right by `chunk` chunks, an even number. The cost is one exclusive
 * or with a constant, plus an offset that the load instruction adds.
 */
ES_BOTH unsigned es_tile_move(unsigned at, int row, int chunk, int n_chunks)
{
    return (at ^ (16 * ((unsigned)chunk % 8))) +
           (unsigned)(row * 16 * n_chunks + chunk / 8 * 128);
}

/** Return the row and the column of register 0 .. 3 in the sums (16,8) of
 *  m16n8k16. */
ES_BOTH int es_tile_sum_row(int lane, int i)
{
    return lane / 4 + (i / 2) * 8;
}
ES_BOTH int es_tile_sum_column(int lane, int i)
{
    return lane % 4 * 2 + i % 2;
}

/**
 * The row and chunk whose address a lane passes to ldmatrix x4, which loads
 * four 8 by 8 matrices: a left operand of 16 rows and 2 chunks, or two right
 * operands. Relative to the first row and chunk.
 */
typedef struct es_tile_spot {
    int row, chunk;
} es_tile_spot;

/** Returns the spot for a left operand of 16 rows and 2 chunks. Also for two
 *  right operands stored as in the tile and loaded with transposition: 16 rows
 *  and 2 chunks of 8 columns. */
ES_BOTH es_tile_spot es_tile_left_spot(int lane)
{
    es_tile_spot spot = {lane % 16, lane / 16};
    return spot;
}

/** Returns the spot for two right operands that are stored transposed: the 16
 *  rows of the tile are 2 times 8 columns of the operand, and the 2 chunks are
 *  the operand's 16 rows. */
ES_BOTH es_tile_spot es_tile_right_spot(int lane)
{
    es_tile_spot spot = {lane % 8 + lane / 16 * 8, lane / 8 % 2};
    return spot;
}

#endif
