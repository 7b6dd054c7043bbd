/**
 * Computes products of queries and keys in the number format chosen for them;
 * part of entropy_qk.inc.h. Without AMX, a register tile (sums that stay in
 * vector registers) holds the products of one group of queries and TILE keys.
 */
#include "analyzer/entropy/entropy_pack.inc.h"

/* Number of channels whose products are summed before the sum is added to the
   total. The limit matters, because a float32 sum of n products of equal sign
   has a relative error of 2^-26 sqrt(n). */
#define STRETCH 64

/**
 * Writes the sums a and b, which are the products over the last STRETCH
 * channels, to `out` or, if `add` is true, adds them to the sums over earlier
 * channels in `out`. Then resets a and b to 0.
 */
INLINED void store_sums(float *out, vec a[TILE], vec b[TILE], bool add,
                        int n_keys, int n_vectors)
{
    UNROLL
    for (int r = 0; r < n_keys; r++, out += GROUP) {
        store(out, add ? load(out) + a[r] : a[r]);
        if (n_vectors > 1)
            store(out + LANES, add ? load(out + LANES) + b[r] : b[r]);
        a[r] = b[r] = splat(0);
    }
}

/**
 * Computes the products of n_vectors vectors of queries with the first n_keys
 * keys of a tile (one, two or three thirds of the tile). It is inlined, so that
 * n_vectors and n_keys are constants and the sums over STRETCH channels stay in
 * registers.
 */
INLINED void multiply_tile(float *out, const float *queries, const float *tile,
                           int width, int n_keys, int n_vectors)
{
    vec a[TILE], b[TILE];
    UNROLL
    for (int r = 0; r < n_keys; r++)
        a[r] = b[r] = splat(0);
    for (int d = 0; d < width; d += LANES, tile += TILE * LANES) {
        const int n = min_int(LANES, width - d);
        if (d > 0 && d % STRETCH == 0)
            store_sums(out, a, b, d > STRETCH, n_keys, n_vectors);
        for (int c = 0; c < n; c++, queries += GROUP) {
            const vec q0 = load(queries);
            const vec q1 = n_vectors > 1 ? load(queries + LANES) : q0;
            UNROLL
            for (int r = 0; r < n_keys; r++) {
                const vec k = splat(tile[r * LANES + c]);
                a[r] = multiply_add(q0, k, a[r]);
                if (n_vectors > 1)
                    b[r] = multiply_add(q1, k, b[r]);
            }
        }
    }
    store_sums(out, a, b, width > STRETCH, n_keys, n_vectors);
}

/**
 * Computes the products of n_vectors vectors of queries with at least n keys.
 */
INLINED void multiply_tiles(float *out, const float *queries,
                            const float *tiles, int width, int n, int n_vectors,
                            ahead *next)
{
    int j = 0;
    for (; j + 2 * TILE / 3 < n; j += TILE, tiles += tile_size(width)) {
        prefetch_some(next);
        multiply_tile(out + j * GROUP, queries, tiles, width, TILE, n_vectors);
    }
    if (j + TILE / 3 < n)
        multiply_tile(out + j * GROUP, queries, tiles, width, 2 * TILE / 3,
                      n_vectors);
    else if (j < n)
        multiply_tile(out + j * GROUP, queries, tiles, width, TILE / 3,
                      n_vectors);
}

/**
 * Computes the products of a group of queries, which consists of two vectors:
 * the first vector with at least n[0] keys, the second with at least n[1] >=
 * n[0] keys. `out` is (n[1],GROUP).
 */
APART void multiply_group(float *out, const float *queries, const float *tiles,
                          int width, const int n[2], ahead *next)
{
    const int n_tiles = (n[0] + TILE - 1) / TILE;
    const int both = min_int(n_tiles * TILE, n[1]);
    multiply_tiles(out, queries, tiles, width, both, 2, next);
    if (both < n[1])
        multiply_tiles(out + (ptrdiff_t)both * GROUP + LANES, queries + LANES,
                       tiles + n_tiles * tile_size(width), width, n[1] - both,
                       1, next);
}

#ifdef MATRIX_TILES
#include "analyzer/entropy/entropy_fixed.inc.h"
#endif

/* The following functions compute the products of queries and keys for one part
   of a head, in the number format work->form. */

static bool take_keys(workspace *work, const es_entropy_part *part, int first,
                      int end)
{
#ifdef MATRIX_TILES
    if (work->form == AS_HALVES)
        return split_keys(work, part, first, end);
    if (work->form == AS_FIXED)
        return fix_keys(work, part, first, end);
#endif
    pack_keys(work, part, first, end);
    return true;
}

static bool take_queries(const workspace *work, const es_entropy_part *part,
                         int i)
{
#ifdef MATRIX_TILES
    if (work->form == AS_HALVES)
        return split_queries(work, part, i);
    if (work->form == AS_FIXED)
        return fix_queries(work, part, i);
#endif
    copy_queries(work, part, i, GROUP);
    return true;
}

/**
 * Computes the products of a group of queries with the keys from packed key j
 * on. The group's first vector of queries is multiplied by at least n[0] keys,
 * the second by at least n[1].
 */
static void take_products(const workspace *work, const es_entropy_part *part,
                          int j, const int n[2], ahead *next)
{
#ifdef MATRIX_TILES
    if (work->form == AS_HALVES) {
        multiply_split(work, part, j, n[1], next);
        return;
    }
    if (work->form == AS_FIXED) {
        multiply_fixed(work, part, j, n, next);
        return;
    }
#endif
    multiply_group(work->products, work->queries,
                   packed_key(work, j, part->width), part->width, n, next);
}
