/**
 * Where things are in the tiles of attention: plain C, so that a test on the
 * host can go through all of it.
 *
 * A block of threads owns some rows of a head ("own": queries on the way
 * forward and for dq, keys for dk and dv) and goes through the others ("other":
 * keys, or queries) tile by tile. Positions are those of the sequence.
 */
#ifndef ES_CUDA_ATTENTION_TILES_H
#define ES_CUDA_ATTENTION_TILES_H

#include "hooks/trainer/cuda/index.h"

#include <stdbool.h>

/** Whose rows a block owns. */
typedef enum es_tile_owner { ES_OWN_QUERIES, ES_OWN_KEYS } es_tile_owner;

/** Tiles of `size` rows that cover n_ctx positions. */
ES_BOTH int es_tile_count(int n_ctx, int size)
{
    return (n_ctx + size - 1) / size;
}

/** Which tile and head block number `block` has. The tiles of a head are
 *  neighbours, and find its other rows in the cache; what takes longest goes
 *  first: the last queries, the first keys. */
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

/** The other positions that rows first .. first + n_own - 1 meet: begin, a
 *  multiple of n_other, up to but not end. */
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

/** Does row `own` meet `other`, which is a position of the sequence? */
ES_BOTH bool es_tile_visible(int own, int other, es_tile_owner owner)
{
    return owner == ES_OWN_QUERIES ? other <= own : other >= own;
}

/** How rows own .. own + n_own - 1 meet other .. other + n_other - 1. */
typedef enum es_tile_mask {
    ES_TILE_NONE, /* not at all */
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
 * Where 16 bytes `chunk` of row `row` lie in a tile of shared memory whose
 * rows have n_chunks of them (4, 8 or 16): in units of 16 bytes. Eight
 * consecutive rows have any one chunk in eight different groups of four banks,
 * and so do eight consecutive chunks of a row.
 */
ES_BOTH int es_tile_chunk(int row, int chunk, int n_chunks)
{
    int swap = n_chunks >= 8 ? row & 7 : (row >> 1) & 3;
    return row * n_chunks + (chunk ^ swap);
}

/**
 * The same in bytes from row 0, chunk 0 on, of row `row` and chunk `chunk`, 0
 * or 1, for es_tile_move.
 */
ES_BOTH unsigned es_tile_spot_bytes(int row, int chunk, int n_chunks)
{
    return 16 * (unsigned)es_tile_chunk(row, chunk, n_chunks);
}

/**
 * The address `at` of a row's chunk 0 or 1 (es_tile_spot_bytes; the tile
 * begins at a multiple of 128), `row` rows further down, a multiple of 8, and
 * `chunk` chunks further right, even: one exclusive or with a constant, and
 * what the instruction adds itself.
 */
ES_BOTH unsigned es_tile_move(unsigned at, int row, int chunk, int n_chunks)
{
    return (at ^ (16 * ((unsigned)chunk % 8))) +
           (unsigned)(row * 16 * n_chunks + chunk / 8 * 128);
}

/** Row and column, of 16 by 8 sums of m16n8k16, of register 0 .. 3. */
ES_BOTH int es_tile_sum_row(int lane, int i)
{
    return lane / 4 + (i / 2) * 8;
}
ES_BOTH int es_tile_sum_column(int lane, int i)
{
    return lane % 4 * 2 + i % 2;
}

/**
 * Which row and chunk of a tile, counted from a first one of each, a lane names
 * to load four 8 by 8 matrices (ldmatrix x4): as the left operand of 16 rows
 * and 2 chunks, or two right operands.
 */
typedef struct es_tile_spot {
    int row, chunk;
} es_tile_spot;

/** Left operand: 16 rows, 2 chunks. And two right operands as they lie in the
 *  tile, loaded with a transposition: 16 rows, 2 chunks of 8 columns. */
ES_BOTH es_tile_spot es_tile_left_spot(int lane)
{
    es_tile_spot spot = {lane % 16, lane / 16};
    return spot;
}

/** Two right operands, transposed in the tile: 16 rows of it are 2 times 8
 *  columns of the operand, and 2 chunks its 16 rows. */
ES_BOTH es_tile_spot es_tile_right_spot(int lane)
{
    es_tile_spot spot = {lane % 8 + lane / 16 * 8, lane / 8 % 2};
    return spot;
}

#endif
