/**
 * The entropy kernels, written once for every vector width.
 *
 * A variant (entropy_plain.c, entropy_avx2.c, entropy_avx512.c) includes this
 * file after it has defined, for its instruction set,
 *
 *   ES_KERNELS, ES_KERNELS_NAME, ES_KERNELS_NEED
 *                                 its table, and what that holds
 *   WIDTH, vec                    floats in a vector (at least 4, at most 16);
 *                                 + - * / work on vec
 *   TILE, PANELS                  rows and vectors of a register tile; TILE
 *                                 divides WIDTH, PANELS is 2 or 3
 *   load(p), store(p, a), set(x)
 *   load_first(p, n)              lanes < n from p, 0 elsewhere; reads only
 *                                 those
 *   select_first(n, a, b)         lanes < n from a, the others from b
 *   fma(a, b, c)                  a * b + c
 *   max(a, b)                     b where either is NaN
 *   exp2(x)                       2^x for -126 <= x < 128; NaN for NaN
 *   log2(x)                       of a normal x > 0; NaN for x < 0; for NaN
 *                                 and infinity such that x * log2(x) is not
 *                                 finite
 *   transpose(rows)               WIDTH x WIDTH, in place
 *   sum_rows(rows), max_rows(rows)   lane r: the sum, the maximum of rows[r]
 *
 * (all static inline, and with `vec_` before the name).
 */
#ifndef ES_ENTROPY_KERNELS_H
#define ES_ENTROPY_KERNELS_H

#include "analyzer/entropy/entropy_internal.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define LN2 0.693147180559945309F
#define LOG2_E 1.44269504088896341F

static inline int min_int(int a, int b)
{
    return a < b ? a : b;
}

static inline int clamp_int(int x, int low, int high)
{
    return x < low ? low : min_int(x, high);
}

/** Asks for WIDTH floats of each of WIDTH rows to come near. They may lie
 *  behind an array: nobody notices there. */
static inline void prefetch_rows(const float *rows, ptrdiff_t row)
{
    UNROLL
    for (int r = 0; r < WIDTH; r++)
        __builtin_prefetch(rows + r * row, 0, 2);
}

/* --- from probabilities ----------------------------------------------------
 */

/** a log2(a + 1e-9) added to sum. The 1e-9 matters where weights are near it,
 *  and makes rows of zeros give 0. */
static inline vec add_surprise(vec sum, vec a)
{
    return vec_fma(a, vec_log2(a + vec_set(1e-9F)), sum);
}

/** Weights first .. n-1 of a row added to sum. Reads nothing beyond. */
static inline vec add_weights(vec sum, const float *att, int first, int n)
{
    int j = first;
    for (; j + WIDTH <= n; j += WIDTH)
        sum = add_surprise(sum, vec_load(att + j));
    if (j < n)
        sum = add_surprise(sum, vec_load_first(att + j, n - j));
    return sum;
}

static void store_probs_row(const es_probs_part *part, int i, float entropy)
{
    const float *att = part->att + (ptrdiff_t)i * part->shape->n_keys;
    const es_rows *rows = &part->rows;
    if (!isfinite(entropy)) {
        es_ref_row row = es_ref_row_probs(att, es_visible_keys(part->shape, i));
        es_rows_store(rows, (size_t)i, &row, false);
        return;
    }
    if (rows->entropy)
        rows->entropy[i] = entropy;
    if (rows->sink)
        rows->sink[i] = att[0];
    if (rows->nonfinite)
        rows->nonfinite[i] = 0;
}

#define BLOCK (32 * WIDTH)
#define AHEAD 128 /* columns; enough for a memory that takes 200 ns */

/** Columns that a group of rows, from i on, goes through. */
static inline int columns_of(const es_probs_part *part, int i)
{
    int n = es_visible_keys(part->shape, i + WIDTH - 1);
    return (n + WIDTH - 1) / WIDTH * WIDTH;
}

/**
 * Where the reading will be AHEAD columns after column j of the group at i:
 * after its last column it goes on with the next group, after those with the
 * next head. To be prefetched only.
 */
static inline const float *read_soon(const es_probs_part *part, int i, int j)
{
    ptrdiff_t n_keys = part->shape->n_keys;
    const float *att = part->att;
    int column = j + AHEAD, n_columns = columns_of(part, i);
    while (column >= n_columns) {
        column -= n_columns;
        i += WIDTH;
        if (i >= part->shape->n_queries) {
            att += part->shape->n_queries * n_keys;
            i = 0;
        }
        n_columns = columns_of(part, i);
    }
    return att + i * n_keys + min_int(column, part->shape->n_keys - 1);
}

/** Adds columns [first, end) of WIDTH rows, a multiple of WIDTH, to sums. */
static inline void add_columns(vec sums[WIDTH], const es_probs_part *part,
                               int i, int first, int end)
{
    ptrdiff_t n_keys = part->shape->n_keys;
    const float *att = part->att + i * n_keys;
    vec s[WIDTH];
    UNROLL
    for (int r = 0; r < WIDTH; r++)
        s[r] = vec_set(0);
    for (int j = first; j < end; j += WIDTH) {
        prefetch_rows(read_soon(part, i, j), n_keys);
        UNROLL
        for (int r = 0; r < WIDTH; r++)
            s[r] = add_surprise(s[r], vec_load(att + r * n_keys + j));
    }
    UNROLL
    for (int r = 0; r < WIDTH; r++)
        sums[r] += s[r];
}

/**
 * The sum of a log2(a + 1e-9) over the visible weights of WIDTH rows, each in
 * WIDTH parts; not finite if some weight is not, NaN if one is negative.
 *
 * Column by column, not row by row: a causal row is left in the middle, and
 * what the machine had fetched ahead of it would be wasted. In blocks, so that
 * rounding errors grow with the root of the length only.
 */
static inline void group_surprise(vec sums[WIDTH], const es_probs_part *part,
                                  int i)
{
    ptrdiff_t n_keys = part->shape->n_keys;
    int shared = es_visible_keys(part->shape, i) / WIDTH * WIDTH;
    for (int r = 0; r < WIDTH; r++)
        sums[r] = vec_set(0);
    for (int j = 0; j < shared; j += BLOCK)
        add_columns(sums, part, i, j, min_int(j + BLOCK, shared));
    prefetch_rows(read_soon(part, i, shared), n_keys);
    for (int r = 0; r < WIDTH; r++)
        sums[r] = add_weights(sums[r], part->att + (i + r) * n_keys, shared,
                              es_visible_keys(part->shape, i + r));
}

static void probs_rows(const es_probs_part *part)
{
    ptrdiff_t n_keys = part->shape->n_keys;
    for (int i = part->first; i < part->end; i += WIDTH) {
        int n = min_int(WIDTH, part->end - i);
        vec sums[WIDTH];
        float entropy[WIDTH];
        if (n == WIDTH)
            group_surprise(sums, part, i);
        for (int r = 0; r < WIDTH && n < WIDTH; r++)
            sums[r] =
                add_weights(vec_set(0), part->att + (i + r) * n_keys, 0,
                            r < n ? es_visible_keys(part->shape, i + r) : 0);
        /* + 0 so that a row of zeros gives 0, not -0 */
        vec_store(entropy,
                  vec_fma(vec_sum_rows(sums), vec_set(-LN2), vec_set(0)));
        for (int r = 0; r < n; r++)
            store_probs_row(part, i + r, entropy[r]);
    }
}

/* --- from queries and keys -------------------------------------------------
 *
 * WIDTH keys make a packed panel (D,WIDTH), WIDTH queries a group. The products
 * q.k of a group and up to CHUNK keys are computed in register tiles of TILE
 * queries and PANELS panels, and kept in the first-level cache; then each row
 * goes over its products once for the maximum and once for the sums. With m
 * the largest product so far, x_j = (q.k_j - m) log2(e) / (t sqrt(D)) <= 0 and
 * p_j = 2^x_j:
 *
 *   weight = sum p_j,  spread = sum p_j x_j
 *   e = ln 2 (log2 weight - spread / weight)
 *   lse = m / (t sqrt(D)) + ln weight
 */

#define CHUNK ES_QK_CHUNK
#define KEYS_AHEAD 32 /* rows; in packed arrays, into the next head */
#define LOWEST_EXPONENT (-126.0F) /* smaller weights count as 1e-38 */

/** Carved out of the caller's scratch. */
typedef struct workspace {
    float *products; /* (WIDTH,CHUNK) */
    float *queries;  /* (WIDTH,q_row), one group */
    float *keys;     /* one block of panels */
    ptrdiff_t q_row;
    /* of each row of the part, up to ES_QK_ROWS: */
    float *scale;                 /* 1 / (t sqrt(D)) */
    float *first;                 /* product with key 0 */
    float *top, *weight, *spread; /* over the keys so far */
} workspace;

static workspace carve(float *scratch, int width)
{
    workspace work = {.products = scratch, .q_row = es_qk_query_row(width)};
    work.scale = work.products + WIDTH * CHUNK;
    work.first = work.scale + ES_QK_ROWS;
    work.top = work.first + ES_QK_ROWS;
    work.weight = work.top + ES_QK_ROWS;
    work.spread = work.weight + ES_QK_ROWS;
    work.queries = work.spread + ES_QK_ROWS;
    work.keys = work.queries + WIDTH * work.q_row;
    return work;
}

/** WIDTH rows of WIDTH floats: n_rows x n_columns from `in`, the rest 0. */
static inline void load_block(vec block[WIDTH], const float *in,
                              ptrdiff_t in_row, int n_rows, int n_columns)
{
    if (n_rows >= WIDTH && n_columns >= WIDTH) {
        UNROLL
        for (int r = 0; r < WIDTH; r++)
            block[r] = vec_load(in + r * in_row);
        return;
    }
    n_columns = min_int(n_columns, WIDTH);
    for (int r = 0; r < WIDTH; r++)
        block[r] = r < n_rows ? vec_load_first(in + r * in_row, n_columns)
                              : vec_set(0);
}

/** The first n rows of a block, one after the other. */
static inline void store_block(float *out, const vec block[WIDTH], int n)
{
    if (n < WIDTH) {
        for (int i = 0; i < n; i++)
            vec_store(out + i * WIDTH, block[i]);
        return;
    }
    UNROLL
    for (int i = 0; i < WIDTH; i++)
        vec_store(out + i * WIDTH, block[i]);
}

/** Packs keys [first, end) as panels; missing keys of the last are 0. */
static void pack_keys(float *out, const es_qk_part *part, int first, int end)
{
    int width = part->shape->head_width;
    for (int j = first; j < end; j += WIDTH) {
        const float *in = part->k + j * part->k_row;
        for (int c = 0; c < width; c += WIDTH) {
            vec block[WIDTH];
            prefetch_rows(in + c + KEYS_AHEAD * part->k_row, part->k_row);
            load_block(block, in + c, part->k_row, end - j, width - c);
            vec_transpose(block);
            store_block(out + (ptrdiff_t)c * WIDTH, block, width - c);
        }
        out += (ptrdiff_t)width * WIDTH;
    }
}

/** Copies a group of queries, rows from i on, so that their distance in memory
 *  suits the cache; missing ones are 0. Asks for the next group. */
static void copy_queries(const workspace *work, const es_qk_part *part, int i)
{
    int width = part->shape->head_width;
    for (int r = 0; r < WIDTH; r++) {
        const float *in = part->q + (i + r) * part->q_row;
        float *out = work->queries + r * work->q_row;
        for (int c = 0; c < width; c += WIDTH) {
            int n = i + r < part->end ? min_int(WIDTH, width - c) : 0;
            __builtin_prefetch(in + WIDTH * part->q_row + c, 0, 2);
            vec_store(out + c, n == WIDTH ? vec_load(in + c)
                                          : vec_load_first(in + c, n));
        }
    }
}

/**
 * Products of TILE queries with `n_panels` (1, 2 or 3) panels. Inlined, so that
 * the number is a constant and all sums stay in registers.
 */
__attribute__((always_inline)) static inline void
multiply_tile(float *out, const float *q, ptrdiff_t q_row, const float *panels,
              int width, int n_panels)
{
    ptrdiff_t next = (ptrdiff_t)width * WIDTH;
    vec a[TILE], b[TILE], c[TILE];
    UNROLL
    for (int r = 0; r < TILE; r++)
        a[r] = b[r] = c[r] = vec_set(0);
    for (int d = 0; d < width; d++, q++, panels += WIDTH) {
        vec k0 = vec_load(panels);
        vec k1 = n_panels > 1 ? vec_load(panels + next) : k0;
        vec k2 = n_panels > 2 ? vec_load(panels + 2 * next) : k0;
        UNROLL
        for (int r = 0; r < TILE; r++) {
            vec x = vec_set(q[r * q_row]);
            a[r] = vec_fma(x, k0, a[r]);
            if (n_panels > 1)
                b[r] = vec_fma(x, k1, b[r]);
            if (n_panels > 2)
                c[r] = vec_fma(x, k2, c[r]);
        }
    }
    UNROLL
    for (int r = 0; r < TILE; r++) {
        vec_store(out + r * CHUNK, a[r]);
        if (n_panels > 1)
            vec_store(out + r * CHUNK + WIDTH, b[r]);
        if (n_panels > 2)
            vec_store(out + r * CHUNK + 2 * WIDTH, c[r]);
    }
}

/** Products of TILE queries with at least n keys: out (TILE,CHUNK). */
static void multiply(float *out, const float *q, ptrdiff_t q_row,
                     const float *panels, int width, int n)
{
    int j = 0;
    for (; j + (PANELS - 1) * WIDTH < n; j += PANELS * WIDTH) {
        multiply_tile(out + j, q, q_row, panels, width, PANELS);
        panels += (ptrdiff_t)PANELS * width * WIDTH;
    }
    if (PANELS > 2 && j + WIDTH < n)
        multiply_tile(out + j, q, q_row, panels, width, 2);
    else if (j < n)
        multiply_tile(out + j, q, q_row, panels, width, 1);
}

/** Largest of n products, in WIDTH parts, -inf where there are fewer.
 *  *damage: zeros, but NaN somewhere if a product is not finite. */
static inline vec row_top(const float *products, int n, vec *damage)
{
    vec top = vec_set(-INFINITY), bad = vec_set(0), nought = vec_set(0);
    int j = 0;
    for (; j + WIDTH <= n; j += WIDTH) {
        vec s = vec_load(products + j);
        top = vec_max(s, top);
        bad = vec_fma(s, nought, bad);
    }
    if (j < n) {
        vec s = vec_load(products + j);
        top = vec_max(vec_select_first(n - j, s, top), top);
        bad = vec_fma(vec_select_first(n - j, s, nought), nought, bad);
    }
    *damage = bad;
    return top;
}

/** x of some products; `scale` with the log2(e). */
static inline vec exponent(vec product, vec top, vec scale)
{
    return vec_max(vec_set(LOWEST_EXPONENT), (product - top) * scale);
}

/** Weight of n products and, added to *spread, their spread, in WIDTH parts. */
static inline vec row_weight(const float *products, int n, vec top, vec scale,
                             vec *spread)
{
    vec weight = vec_set(0);
    int j = 0;
    for (; j + WIDTH <= n; j += WIDTH) {
        vec x = exponent(vec_load(products + j), top, scale);
        vec p = vec_exp2(x);
        weight += p;
        *spread = vec_fma(p, x, *spread);
    }
    if (j < n) {
        vec x = exponent(vec_load(products + j), top, scale);
        x = vec_select_first(n - j, x, vec_set(0));
        vec p = vec_select_first(n - j, vec_exp2(x), vec_set(0));
        weight += p;
        *spread = vec_fma(p, x, *spread);
    }
    return weight;
}

/** Brings the sums of a group from their old maximum to the new one, and adds
 *  what its latest keys give. */
static inline void merge(const workspace *work, int row, vec top, vec scale,
                         vec more_weight, vec more_spread)
{
    vec weight = vec_load(work->weight + row);
    vec spread = vec_load(work->spread + row);
    vec x = exponent(vec_load(work->top + row), top, scale);
    vec factor = vec_exp2(x);
    spread = vec_fma(weight, x, spread);
    vec_store(work->weight + row, vec_fma(weight, factor, more_weight));
    vec_store(work->spread + row, vec_fma(spread, factor, more_spread));
    vec_store(work->top + row, top);
}

/** Adds the products of a group to the state of its rows, of which row r sees
 *  n[r]. */
static void absorb(const workspace *work, int row, const int n[WIDTH])
{
    vec weights[WIDTH], spreads[WIDTH], tops[WIDTH];
    float new_top[WIDTH], exponent_scale[WIDTH];
    for (int r = 0; r < WIDTH; r++)
        tops[r] = row_top(work->products + r * CHUNK, n[r], &spreads[r]);
    vec top = vec_max(vec_max_rows(tops), vec_load(work->top + row));
    vec scale = vec_load(work->scale + row) * vec_set(LOG2_E);
    vec_store(new_top, top);
    vec_store(exponent_scale, scale);
    for (int r = 0; r < WIDTH; r++)
        weights[r] =
            row_weight(work->products + r * CHUNK, n[r], vec_set(new_top[r]),
                       vec_set(exponent_scale[r]), &spreads[r]);
    merge(work, row, top, scale, vec_sum_rows(weights), vec_sum_rows(spreads));
}

/** How many of keys [first, end) row i sees. */
static inline int visible_of(const es_qk_part *part, int i, int first, int end)
{
    return clamp_int(es_visible_keys(part->shape, i), first, end) - first;
}

/** One group, rows from i on, against the packed keys [first, end). */
static void group_keys(const workspace *work, const es_qk_part *part, int i,
                       int first, int end)
{
    int width = part->shape->head_width, row = i - part->first;
    int n_rows = min_int(WIDTH, part->end - i), n[WIDTH] = {0};
    end = first + visible_of(part, i + n_rows - 1, first, end);
    if (first < end)
        copy_queries(work, part, i);
    for (int j = first; j < end; j += CHUNK) {
        for (int r = 0; r < n_rows; r++)
            n[r] = visible_of(part, i + r, j, min_int(end, j + CHUNK));
        for (int r = 0; r < n_rows; r += TILE)
            multiply(work->products + r * CHUNK,
                     work->queries + r * work->q_row, work->q_row,
                     work->keys + (ptrdiff_t)(j - first) * width, width,
                     n[min_int(r + TILE, n_rows) - 1]);
        for (int r = 0; r < n_rows && j == 0; r++)
            work->first[row + r] = work->products[r * CHUNK];
        absorb(work, row, n);
    }
}

static void start_rows(const workspace *work, const es_qk_part *part)
{
    float root = sqrtf((float)part->shape->head_width);
    int n = part->end - part->first;
    for (int r = 0; r < n; r += WIDTH) {
        vec_store(work->top + r, vec_set(-INFINITY));
        vec_store(work->weight + r, vec_set(0));
        vec_store(work->spread + r, vec_set(0));
        vec_store(work->scale + r, vec_set(1 / root));
    }
    for (int r = 0; r < n && part->temperature; r++) {
        size_t i = (size_t)(part->first + r);
        float scale = 1 / (es_temperature(part->temperature, i) * root);
        /* Never 0, as an infinite t would make it: the maximum before the
           first key is -inf. A NaN stays. */
        work->scale[r] = scale < FLT_MIN ? FLT_MIN : scale;
    }
}

/** Writes the results of a group, rows from i on. */
static void finish_group(const workspace *work, const es_qk_part *part, int i)
{
    int row = i - part->first;
    vec top = vec_load(work->top + row), scale = vec_load(work->scale + row);
    vec weight = vec_load(work->weight + row);
    vec log_weight = vec_log2(weight) * vec_set(LN2);
    vec spread = vec_load(work->spread + row) / weight * vec_set(LN2);
    vec x = exponent(vec_load(work->first + row), top, scale * vec_set(LOG2_E));
    float entropy[WIDTH], lse[WIDTH], sink[WIDTH], max_logit[WIDTH];
    vec_store(entropy, vec_max(vec_set(0), log_weight - spread));
    vec_store(max_logit, top * scale);
    vec_store(lse, vec_fma(top, scale, log_weight));
    vec_store(sink, vec_exp2(x) / weight);
    for (int r = 0; r < WIDTH && i + r < part->end; r++) {
        es_ref_row out = {(double)entropy[r], (double)lse[r],
                          (double)max_logit[r], (double)sink[r], 0};
        if (!isfinite(entropy[r]) || !isfinite(lse[r]))
            out = (es_ref_row){NAN, NAN, NAN, NAN,
                               es_visible_keys(part->shape, i + r)};
        es_rows_store(&part->rows, (size_t)(i + r), &out, true);
    }
}

static void qk_rows(const es_qk_part *part, float *scratch)
{
    workspace work = carve(scratch, part->shape->head_width);
    int n_keys = es_visible_keys(part->shape, part->end - 1);
    int block = es_qk_block(part->shape);
    start_rows(&work, part);
    for (int first = 0; first < n_keys; first += block) {
        int end = min_int(first + block, n_keys);
        pack_keys(work.keys, part, first, end);
        for (int i = part->first; i < part->end; i += WIDTH)
            group_keys(&work, part, i, first, end);
    }
    for (int i = part->first; i < part->end; i += WIDTH)
        finish_group(&work, part, i);
}

/* --- the functions alone ---------------------------------------------------
 */

static void exp2_all(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        vec_store(out + i, vec_exp2(vec_load(x + i)));
}

static void log2_all(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        vec_store(out + i, vec_log2(vec_load(x + i)));
}

const es_kernels ES_KERNELS = {ES_KERNELS_NAME, ES_KERNELS_NEED, probs_rows,
                               qk_rows,         exp2_all,        log2_all};

#endif
