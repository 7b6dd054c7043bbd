/**
 * Multiplies sixteen queries by sixteen keys at a time with AMX. Part of
 * entropy_qk.inc.h.
 *
 * AMX multiplies bfloat16 and adds in float32. A float16 is exactly the sum of
 * two bfloat16, called its levels; the second level is at most 2^-8 of the
 * first. The result is as accurate as a sum of float32 products, because the
 * products of the second levels are added first. AMX treats subnormal numbers
 * as 0, and the largest numbers overflow, so numbers and scales above
 * MOST_SPLIT are multiplied without AMX.
 */
#include "analyzer/base/tiles.h"

#include <immintrin.h>

#define MOST_SPLIT 0x1p40F
#define MOST_LEVELS 2
#define SIDE 16 /* number of keys or queries in an AMX tile */
#define DEEP 32 /* number of bfloat16 values of each key or query in a tile */
#define MATRIX 512 /* number of bfloat16 values in a tile: SIDE * DEEP */

/**
 * Returns the number of levels, which are the bfloat16 values whose sum
 * represents one number of the type.
 */
static inline int levels_of(es_entropy_type type)
{
    return type == ES_ENTROPY_F16 ? 2 : 1;
}

/**
 * Returns the number of AMX tiles that hold SIDE queries or SIDE keys of the
 * given width.
 */
static inline int matrices_of(int width, es_entropy_type type)
{
    return (width + DEEP - 1) / DEEP * levels_of(type);
}

/** Rounds x to the nearest bfloat16. */
static inline vec round_half(vec x)
{
    return (vec)(((uvec)x + 0x8000) & 0xffff0000);
}

/**
 * Splits DEEP numbers of a row, beginning with number c, into bfloat16 parts
 * (levels), and updates the sum of squares and the largest absolute value of
 * the row. Numbers beyond n are 0.
 */
INLINED void split_row(vec levels[MOST_LEVELS], es_numbers row, int c, int n,
                       vec *squares, vec *heights)
{
    vec low = load_numbers(row, c, clamp_int(n - c, 0, LANES));
    vec high = load_numbers(row, c + LANES, clamp_int(n - c - LANES, 0, LANES));
    *squares = multiply_add(low, low, *squares);
    *squares = multiply_add(high, high, *squares);
    *heights = larger(size_of(low), *heights);
    *heights = larger(size_of(high), *heights);
    const int last = levels_of(row.type) - 1;
    UNROLL
    for (int level = 0; level <= last; level++) {
        /* The last level is not rounded, because it is the exact remainder. A
         * NaN in the row therefore remains a NaN. */
        const vec a = level < last ? round_half(low) : low;
        const vec b = level < last ? round_half(high) : high;
        levels[level] = (vec)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
        low -= a;
        high -= b;
    }
}

/**
 * Packs the visible keys [first, end). Each AMX tile contains one level (see
 * levels_of) of DEEP numbers of SIDE keys. The last tile is filled up with
 * zeros.
 */
INLINED void split_keys_of(workspace *work, const es_entropy_part *part,
                           int first, int end, es_numbers k)
{
    const int width = part->width, n_levels = levels_of(k.type);
    uint16_t *out = (uint16_t *)(void *)work->keys;
    vec longest = splat(work->longest_key), highest = splat(work->highest_key);
    for (int j = first; j < end; j += SIDE) {
        vec squares[LANES];
        for (int r = 0; r < SIDE; r++) {
            const int n = j + r < end ? width : 0;
            const es_numbers key =
                es_numbers_from(k, n ? key_row(part, j + r) : 0);
            squares[r] = splat(0);
            for (int c = 0; c < width; c += DEEP) {
                vec levels[MOST_LEVELS];
                split_row(levels, key, c, n, &squares[r], &highest);
                for (int level = 0; level < n_levels; level++)
                    memcpy(out + (c / DEEP * n_levels + level) * MATRIX +
                               r * DEEP,
                           &levels[level], sizeof levels[level]);
            }
        }
        longest = larger(sum_rows(squares), longest);
        out += (ptrdiff_t)matrices_of(width, k.type) * MATRIX;
    }
    work->longest_key = largest_lane(longest);
    work->highest_key = largest_lane(highest);
}

static bool split_keys(workspace *work, const es_entropy_part *part, int first,
                       int end)
{
    WITH_TYPE(part->k, split_keys_of, work, part, first, end);
    return work->highest_key <= MOST_SPLIT;
}

/**
 * Packs SIDE queries, beginning with row i, into AMX tiles. A tile contains one
 * level (see levels_of) of DEEP consecutive elements of every query. A row of a
 * tile contains two of these elements of every query.
 */
INLINED void split_queries_of(uint16_t *out, const workspace *work,
                              const es_entropy_part *part, int i, es_numbers in)
{
    const int width = part->width, n_levels = levels_of(in.type);
    vec squares[LANES], heights[LANES];
    for (int r = 0; r < SIDE; r++)
        squares[r] = heights[r] = splat(0);
    for (int c = 0; c < width; c += DEEP) {
        vec blocks[MOST_LEVELS][LANES];
        for (int r = 0; r < SIDE; r++) {
            const int n = i + r < part->end ? width : 0;
            const es_numbers row =
                es_numbers_from(in, n ? (i + r) * part->in_row : 0);
            vec levels[MOST_LEVELS];
            split_row(levels, row, c, n, &squares[r], &heights[r]);
            for (int level = 0; level < n_levels; level++)
                blocks[level][r] = levels[level];
        }
        for (int level = 0; level < n_levels; level++, out += MATRIX) {
            transpose(blocks[level]);
            memcpy(out, blocks[level], sizeof blocks[level]);
        }
    }
    store(work->length + i - part->first, sum_rows(squares));
    store(work->height + i - part->first, largest_of_rows(heights));
}

/**
 * Packs a group of queries. Returns false if a query has numbers that are too
 * large.
 */
static bool split_queries(const workspace *work, const es_entropy_part *part,
                          int i)
{
    uint16_t *out = (uint16_t *)(void *)work->queries;
    const ptrdiff_t half =
        (ptrdiff_t)matrices_of(part->width, part->in.type) * MATRIX;
    const float *height = work->height + i - part->first;
    WITH_TYPE(part->in, split_queries_of, out, work, part, i);
    WITH_TYPE(part->in, split_queries_of, out + half, work, part, i + SIDE);
    return largest_lane(larger(load(height), load(height + SIDE))) <=
           MOST_SPLIT;
}

/** The packed keys and queries of one call. */
typedef struct matrices {
    const uint16_t *keys, *queries;
    ptrdiff_t key_side, query_side; /* distance in memory between consecutive
                                       groups of SIDE keys, and between groups
                                       of SIDE queries */
    int n_deep, key_levels, query_levels;
} matrices;

/**
 * Adds the products of n_sides * SIDE keys with a group of queries, for DEEP
 * numbers of each vector, beginning with number DEEP * d. Each number is split
 * into bfloat16 values (its levels, see levels_of), and the products are those
 * of level a of the keys and level b of the queries. AMX tiles 0 to 3
 * accumulate the products; tiles 4 and 5 hold keys, tiles 6 and 7 queries.
 */
INLINED void add_matrices(const matrices *m, int d, int a, int b, int n_sides)
{
    const uint16_t *k = m->keys + (d * m->key_levels + a) * MATRIX;
    const uint16_t *q = m->queries + (d * m->query_levels + b) * MATRIX;
    _tile_loadd(4, k, 64);
    _tile_loadd(6, q, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, q + m->query_side, 64);
    _tile_dpbf16ps(1, 4, 7);
    if (n_sides > 1) {
        _tile_loadd(5, k + m->key_side, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

/**
 * Computes the products of a group of queries with n_sides * SIDE keys; n_sides
 * is 1 or 2.
 */
INLINED void multiply_matrices(float *out, const matrices *m, int n_sides)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int d = 0; d < m->n_deep; d++)
        for (int depth = 2 * (MOST_LEVELS - 1); depth >= 0; depth--)
            for (int a = 0; a <= depth; a++)
                if (a < m->key_levels && depth - a < m->query_levels)
                    add_matrices(m, d, a, depth - a, n_sides);
    _tile_stored(0, out, GROUP * 4);
    _tile_stored(1, out + SIDE, GROUP * 4);
    if (n_sides > 1) {
        _tile_stored(2, out + SIDE * GROUP, GROUP * 4);
        _tile_stored(3, out + SIDE * GROUP + SIDE, GROUP * 4);
    }
}

/**
 * Computes the dot products of a group of queries with at least n packed keys,
 * starting with key j.
 */
APART void multiply_split(const workspace *work, const es_entropy_part *part,
                          int j, int n, ahead *next)
{
    const int width = part->width;
    matrices m = {
        .queries = (const uint16_t *)(const void *)work->queries,
        .key_side = (ptrdiff_t)matrices_of(width, part->k.type) * MATRIX,
        .query_side = (ptrdiff_t)matrices_of(width, part->in.type) * MATRIX,
        .n_deep = (width + DEEP - 1) / DEEP,
        .key_levels = levels_of(part->k.type),
        .query_levels = levels_of(part->in.type)};
    m.keys = (const uint16_t *)(const void *)work->keys + j / SIDE * m.key_side;
    for (int c = 0; c < n; c += 2 * SIDE, m.keys += 2 * m.key_side) {
        float *out = work->products + (ptrdiff_t)c * GROUP;
        prefetch_some(next);
        if (c + SIDE < n)
            multiply_matrices(out, &m, 2);
        else
            multiply_matrices(out, &m, 1);
    }
}

/**
 * Returns true if the part's numbers are multiplied in fixed point by
 * entropy_fixed.inc.h.
 */
static inline bool is_fixed(const es_entropy_part *part)
{
    return part->in.type == ES_ENTROPY_F32 || part->k.type == ES_ENTROPY_F32;
}

/**
 * Returns true if the part's width and scales suit AMX tiles. Narrow float32
 * heads do not, because their bytes would leave most of a tile empty.
 */
static bool can_split(const es_entropy_part *part)
{
    const double most = part->temperature
                            ? part->scale * (1 / ES_TEMPERATURE_FLOOR)
                            : part->scale;
    return part->width <= ES_QK_WIDTH_SPLIT &&
           (!is_fixed(part) || part->width > ES_QK_WIDTH_FIXED) &&
           most <= (double)MOST_SPLIT;
}
