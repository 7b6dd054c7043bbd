/**
 * Defines the layout of attention tiles by plain functions, so that a test on
 * the host can check all cases.
 *
 * A block of threads owns some rows of a head ("own" rows): queries in the
 * forward pass and for dq, keys for dk and dv. The block processes the rows of
 * the opposite kind ("other" rows: keys or queries) tile by tile. A position is
 * the number of a token in its sequence.
 */
#ifndef ES_CUDA_ATTENTION_TILES_H
#define ES_CUDA_ATTENTION_TILES_H

#include "hooks/trainer/cuda/index.h"

#include <stdbool.h>

/** The rows that are divided among the thread blocks: queries or keys. */
typedef enum es_tile_owner { ES_OWN_QUERIES, ES_OWN_KEYS } es_tile_owner;

/** Returns the number of tiles of `size` rows that cover n_ctx positions. */
ES_BOTH int es_tile_count(int n_ctx, int size)
{
    return (n_ctx + size - 1) / size;
}

/** The head that a block processes, and its first own row. Blocks with adjacent
 *  numbers process tiles of the same head, so that they find the head's other
 *  rows in the cache. The tiles with the most work come first: those of the
 *  last queries, or of the first keys. */
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

/** A range of "other" rows, which the block does not own: the positions from
 *  `begin`, a multiple of n_other, to `end` - 1. The range contains all other
 *  rows that are visible to the block's own rows first .. first + n_own - 1. */
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

/** Returns true if a query sees a key. If `owner` is ES_OWN_QUERIES, the query
 *  is at position `own` and the key at position `other`; otherwise the key is
 *  at `own` and the query at `other`. */
ES_BOTH bool es_tile_visible(int own, int other, es_tile_owner owner)
{
    return owner == ES_OWN_QUERIES ? other <= own : other >= own;
}

/** Tells how many of the scores between rows own .. own + n_own - 1 and rows
 *  other .. other + n_other - 1 are visible. */
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
 * Returns the index at which chunk `chunk` of row `row` is stored in a tile in
 * shared memory. A chunk has 16 bytes, and a row has n_chunks chunks (4, 8 or
 * 16). The chunks are permuted to avoid bank conflicts: chunks with the same
 * number in eight consecutive rows lie in eight different groups of four banks,
 * and so do eight consecutive chunks of one row.
 */
ES_BOTH int es_tile_chunk(int row, int chunk, int n_chunks)
{
    int swap = n_chunks >= 8 ? row & 7 : (row >> 1) & 3;
    return row * n_chunks + (chunk ^ swap);
}

/**
 * Returns the offset in bytes of chunk 0 or 1 of row `row` from the start of
 * the tile. An address with this offset may be passed to es_tile_move.
 */
ES_BOTH unsigned es_tile_spot_bytes(int row, int chunk, int n_chunks)
{
    return 16 * (unsigned)es_tile_chunk(row, chunk, n_chunks);
}

/**
 * Moves an address within a tile down by `row` rows, a multiple of 8, and right
 * by `chunk` chunks, an even number. `at` is the address of chunk 0 or 1 of a
 * row, computed with es_tile_spot_bytes; the tile begins at a multiple of 128.
 * The cost is one exclusive or with a constant, plus an offset that the load
 * instruction adds.
 */
ES_BOTH unsigned es_tile_move(unsigned at, int row, int chunk, int n_chunks)
{
    return (at ^ (16 * ((unsigned)chunk % 8))) +
           (unsigned)(row * 16 * n_chunks + chunk / 8 * 128);
}

/** The instruction m16n8k16 computes 16 x 8 sums, four of which each lane holds
 *  in its registers i = 0 .. 3. es_tile_sum_row returns the row, and
 *  es_tile_sum_column the column, of the sum in register i. */
ES_BOTH int es_tile_sum_row(int lane, int i)
{
    return lane / 4 + (i / 2) * 8;
}
ES_BOTH int es_tile_sum_column(int lane, int i)
{
    return lane % 4 * 2 + i % 2;
}

/**
 * Row and chunk, relative to the first row and chunk, whose address a lane
 * passes to the instruction ldmatrix x4. The instruction loads four 8 by 8
 * matrices: a left operand of 16 rows and 2 chunks, or two right operands.
 */
typedef struct es_tile_spot {
    int row, chunk;
} es_tile_spot;

/** Returns the row and chunk that the lane passes to ldmatrix to load a left
 *  operand of 16 rows and 2 chunks. They are also valid for two right operands
 *  of 16 rows and 8 columns (one chunk) each, which are loaded with
 *  transposition. */
ES_BOTH es_tile_spot es_tile_left_spot(int lane)
{
    es_tile_spot spot = {lane % 16, lane / 16};
    return spot;
}

/** Returns the row and chunk that the lane passes to ldmatrix to load two right
 *  operands that are stored transposed: the tile's first 8 rows are the columns
 *  of the first operand, the next 8 those of the second, and the tile's 2
 *  chunks are the 16 rows of both operands. */
ES_BOTH es_tile_spot es_tile_right_spot(int lane)
{
    es_tile_spot spot = {lane % 8 + lane / 16 * 8, lane / 8 % 2};
    return spot;
}

#endif
