/**
 * The entropy kernels, written once for every vector width.
 *
 * A variant (entropy_plain.c, entropy_avx2.c, entropy_avx512.c) includes this
 * file after it has defined
 *
 *   LANES          floats in a vector: 4, 8 or 16 (analyzer/base/vector.h)
 *   TILE, PANELS   rows and vectors of a register tile; TILE divides LANES,
 *                  PANELS is 2 or 3
 *   KERNELS, KERNELS_NAME, KERNELS_NEED
 *                  its table, and what that holds
 */
#include "analyzer/base/vector.h"
#include "analyzer/entropy/entropy_internal.h"

#include <float.h>
#include <math.h>

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINED __attribute__((always_inline)) static inline

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

/* Whether numbers are bfloat16 is a constant wherever a loop is inlined. */
#define WITH_TYPE(numbers, function, ...)                                      \
    if ((numbers).bf16)                                                        \
        function(__VA_ARGS__, (es_numbers){(numbers).data, true});             \
    else                                                                       \
        function(__VA_ARGS__, (es_numbers){(numbers).data, false})

/** n <= LANES numbers from `position` on, the other lanes 0. */
INLINED vec load_numbers(es_numbers numbers, ptrdiff_t position, int n)
{
    if (numbers.bf16)
        return load_bf16((const uint16_t *)numbers.data + position, n);
    const float *from = (const float *)numbers.data + position;
    return n == LANES ? load(from) : load_part(from, n, 0);
}

/** Prefetches LANES numbers of each of LANES rows, which may lie behind an
 *  array: a prefetch does not fault. */
INLINED void prefetch_rows(es_numbers numbers, ptrdiff_t position,
                           ptrdiff_t row)
{
    UNROLL
    for (int r = 0; r < LANES; r++)
        __builtin_prefetch(es_numbers_from(numbers, position + r * row).data, 0,
                           2);
}

/* --- from probabilities ----------------------------------------------------
 */

/** a log2(a + 1e-9) added to sum. The 1e-9 matters where weights are near it,
 *  and makes rows of zeros give 0. */
static inline vec add_surprise(vec sum, vec a)
{
    return multiply_add(a, vec_log2(a + splat(1e-9F)), sum);
}

/** Weights first .. n-1 of a row added to sum. Reads nothing beyond. */
INLINED vec add_weights(vec sum, es_numbers att, int first, int n)
{
    int j = first;
    for (; j + LANES <= n; j += LANES)
        sum = add_surprise(sum, load_numbers(att, j, LANES));
    if (j < n)
        sum = add_surprise(sum, load_numbers(att, j, n - j));
    return sum;
}

/** The same for the weights at n places of a row. */
static vec add_weights_at(vec sum, es_numbers att, const int *places, int n)
{
    for (int j = 0; j < n; j += LANES) {
        float gathered[LANES] = {0};
        for (int r = 0; r < LANES && j + r < n; r++)
            gathered[r] = es_number(att, places[j + r]);
        sum = add_surprise(sum, load(gathered));
    }
    return sum;
}

/** The reference's words on a row whose sum is not a plain number. */
static void store_odd_row(const es_entropy_part *part, int i, es_numbers att)
{
    es_ref_row row =
        es_ref_row_probs(att, es_key_limit(part->keys, i), part->keys->mask);
    es_rows_store(&part->rows, (size_t)i, &row, false);
}

INLINED void store_probs_row(const es_entropy_part *part, int i, float entropy,
                             es_numbers in)
{
    const es_numbers att = es_numbers_from(in, i * part->in_row);
    const es_rows *rows = &part->rows;
    /* Rows that see no key are among those that sum to 0. */
    if (!isfinite(entropy) ||
        (entropy == 0 && es_visible_keys(part->keys, i) == 0)) {
        store_odd_row(part, i, att);
        return;
    }
    if (rows->entropy)
        rows->entropy[i] = entropy;
    if (rows->sink)
        rows->sink[i] = es_number(att, 0);
    if (rows->nonfinite)
        rows->nonfinite[i] = 0;
}

#define BLOCK (32 * LANES)
#define AHEAD 128 /* columns; enough for a memory that takes 200 ns */

/** Columns that a group of rows, from i on, goes through. */
static inline int columns_of(const es_entropy_part *part, int i)
{
    int n = es_key_limit(part->keys, i + LANES - 1);
    return n > 0 ? (n + LANES - 1) / LANES * LANES : LANES;
}

/**
 * Where the reading will be AHEAD columns after column j of the group at i:
 * after its last column it goes on with the next group, after those with the
 * next head. To be prefetched only.
 */
static inline ptrdiff_t read_soon(const es_entropy_part *part, int i, int j)
{
    ptrdiff_t head = 0;
    int column = j + AHEAD, n_columns = columns_of(part, i);
    while (column >= n_columns) {
        column -= n_columns;
        i += LANES;
        if (i >= part->n_queries) {
            head += part->in_head;
            i = 0;
        }
        n_columns = columns_of(part, i);
    }
    return head + i * part->in_row + min_int(column, part->keys->n - 1);
}

/** Adds columns [first, end) of LANES rows, a multiple of LANES, to sums. */
INLINED void add_columns(vec sums[LANES], const es_entropy_part *part, int i,
                         int first, int end, es_numbers in)
{
    const ptrdiff_t row = part->in_row;
    const es_numbers att = es_numbers_from(in, i * row);
    vec s[LANES];
    UNROLL
    for (int r = 0; r < LANES; r++)
        s[r] = splat(0);
    for (int j = first; j < end; j += LANES) {
        prefetch_rows(in, read_soon(part, i, j), row);
        UNROLL
        for (int r = 0; r < LANES; r++)
            s[r] = add_surprise(s[r], load_numbers(att, r * row + j, LANES));
    }
    UNROLL
    for (int r = 0; r < LANES; r++)
        sums[r] += s[r];
}

/**
 * The sum of a log2(a + 1e-9) over the visible weights of n <= LANES rows from
 * i on, each in LANES parts; not finite if some weight is not, NaN if one is
 * negative.
 *
 * Column by column, not row by row: a causal row is left in the middle, and
 * what the machine had fetched ahead of it would be wasted. In blocks, so that
 * rounding errors grow with the root of the length only. Groups of fewer rows
 * go row by row, and so do keys with hidden ones among them.
 */
INLINED void group_surprise(vec sums[LANES], const es_entropy_part *part, int i,
                            int n, es_numbers in)
{
    const es_entropy_keys *keys = part->keys;
    const es_numbers att = es_numbers_from(in, i * part->in_row);
    int shared = 0;
    for (int r = 0; r < LANES; r++)
        sums[r] = splat(0);
    if (keys->index) {
        for (int r = 0; r < n; r++)
            sums[r] =
                add_weights_at(sums[r], es_numbers_from(att, r * part->in_row),
                               keys->index, es_visible_keys(keys, i + r));
        return;
    }
    if (n == LANES) {
        shared = es_key_limit(keys, i) / LANES * LANES;
        for (int j = 0; j < shared; j += BLOCK)
            add_columns(sums, part, i, j, min_int(j + BLOCK, shared), in);
        prefetch_rows(in, read_soon(part, i, shared), part->in_row);
    }
    for (int r = 0; r < n; r++)
        sums[r] = add_weights(sums[r], es_numbers_from(att, r * part->in_row),
                              shared, es_key_limit(keys, i + r));
}

INLINED void probs_rows_of(const es_entropy_part *part, es_numbers in)
{
    for (int i = part->first; i < part->end; i += LANES) {
        int n = min_int(LANES, part->end - i);
        vec sums[LANES];
        float entropy[LANES];
        group_surprise(sums, part, i, n, in);
        /* + 0 so that a row of zeros gives 0, not -0 */
        store(entropy, multiply_add(sum_rows(sums), splat(-LN2), splat(0)));
        for (int r = 0; r < n; r++)
            store_probs_row(part, i + r, entropy[r], in);
    }
}

static void probs_rows(const es_entropy_part *part)
{
    WITH_TYPE(part->in, probs_rows_of, part);
}

/* --- from queries and keys -------------------------------------------------
 *
 * LANES keys make a packed panel (D,LANES), LANES queries a group. The products
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

/** Carved out of the scratch. */
typedef struct workspace {
    float *products; /* (LANES,CHUNK) */
    float *queries;  /* (LANES,q_row), one group */
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
    work.scale = work.products + LANES * CHUNK;
    work.first = work.scale + ES_QK_ROWS;
    work.top = work.first + ES_QK_ROWS;
    work.weight = work.top + ES_QK_ROWS;
    work.spread = work.weight + ES_QK_ROWS;
    work.queries = work.spread + ES_QK_ROWS;
    work.keys = work.queries + LANES * work.q_row;
    return work;
}

/** The first n rows of a block, one after the other. */
static inline void store_block(float *out, const vec block[LANES], int n)
{
    if (n < LANES) {
        for (int i = 0; i < n; i++)
            store(out + i * LANES, block[i]);
        return;
    }
    UNROLL
    for (int i = 0; i < LANES; i++)
        store(out + i * LANES, block[i]);
}

/** Packs visible keys [first, end) as panels; missing keys of the last are
 *  0. */
INLINED void pack_keys_of(float *out, const es_entropy_part *part, int first,
                          int end, es_numbers k)
{
    const int *index = part->keys->index;
    int width = part->width;
    for (int j = first; j < end; j += LANES) {
        int n_rows = min_int(LANES, end - j);
        ptrdiff_t rows[LANES]; /* where they begin */
        for (int r = 0; r < LANES; r++)
            rows[r] =
                (index && r < n_rows ? index[j + r] : j + r) * part->k_row;
        for (int c = 0; c < width; c += LANES) {
            int n = min_int(LANES, width - c);
            vec block[LANES];
            prefetch_rows(k, rows[0] + c + KEYS_AHEAD * part->k_row,
                          part->k_row);
            if (n_rows == LANES && n == LANES) {
                UNROLL
                for (int r = 0; r < LANES; r++)
                    block[r] = load_numbers(k, rows[r] + c, LANES);
            } else {
                for (int r = 0; r < LANES; r++)
                    block[r] =
                        r < n_rows ? load_numbers(k, rows[r] + c, n) : splat(0);
            }
            transpose(block);
            store_block(out + (ptrdiff_t)c * LANES, block, width - c);
        }
        out += (ptrdiff_t)width * LANES;
    }
}

static void pack_keys(float *out, const es_entropy_part *part, int first,
                      int end)
{
    WITH_TYPE(part->k, pack_keys_of, out, part, first, end);
}

/** Copies a group of queries, rows from i on, so that their distance in memory
 *  suits the cache; missing ones are 0. Prefetches the next group. */
static void copy_queries(const workspace *work, const es_entropy_part *part,
                         int i)
{
    for (int r = 0; r < LANES; r++) {
        ptrdiff_t in = (i + r) * part->in_row;
        float *out = work->queries + r * work->q_row;
        for (int c = 0; c < part->width; c += LANES) {
            int n = i + r < part->end ? min_int(LANES, part->width - c) : 0;
            ptrdiff_t next = in + LANES * part->in_row + c;
            __builtin_prefetch(es_numbers_from(part->in, next).data, 0, 2);
            store(out + c, load_numbers(part->in, in + c, n));
        }
    }
}

/**
 * Products of TILE queries with `n_panels` (1, 2 or 3) panels. Inlined, so that
 * the number is a constant and all sums stay in registers.
 */
INLINED void multiply_tile(float *out, const float *q, ptrdiff_t q_row,
                           const float *panels, int width, int n_panels)
{
    ptrdiff_t next = (ptrdiff_t)width * LANES;
    vec a[TILE], b[TILE], c[TILE];
    UNROLL
    for (int r = 0; r < TILE; r++)
        a[r] = b[r] = c[r] = splat(0);
    for (int d = 0; d < width; d++, q++, panels += LANES) {
        vec k0 = load(panels);
        vec k1 = n_panels > 1 ? load(panels + next) : k0;
        vec k2 = n_panels > 2 ? load(panels + 2 * next) : k0;
        UNROLL
        for (int r = 0; r < TILE; r++) {
            vec x = splat(q[r * q_row]);
            a[r] = multiply_add(x, k0, a[r]);
            if (n_panels > 1)
                b[r] = multiply_add(x, k1, b[r]);
            if (n_panels > 2)
                c[r] = multiply_add(x, k2, c[r]);
        }
    }
    UNROLL
    for (int r = 0; r < TILE; r++) {
        store(out + r * CHUNK, a[r]);
        if (n_panels > 1)
            store(out + r * CHUNK + LANES, b[r]);
        if (n_panels > 2)
            store(out + r * CHUNK + 2 * LANES, c[r]);
    }
}

/** Products of TILE queries with at least n keys: out (TILE,CHUNK). */
static void multiply(float *out, const float *q, ptrdiff_t q_row,
                     const float *panels, int width, int n)
{
    int j = 0;
    for (; j + (PANELS - 1) * LANES < n; j += PANELS * LANES) {
        multiply_tile(out + j, q, q_row, panels, width, PANELS);
        panels += (ptrdiff_t)PANELS * width * LANES;
    }
    if (PANELS > 2 && j + LANES < n)
        multiply_tile(out + j, q, q_row, panels, width, 2);
    else if (j < n)
        multiply_tile(out + j, q, q_row, panels, width, 1);
}

/** Largest of n products, in LANES parts, -inf where there are fewer.
 *  *damage: zeros, but NaN somewhere if a product is not finite. */
static inline vec row_top(const float *products, int n, vec *damage)
{
    vec top = splat(-INFINITY), bad = splat(0), nought = splat(0);
    int j = 0;
    for (; j + LANES <= n; j += LANES) {
        vec s = load(products + j);
        top = larger(s, top);
        bad = multiply_add(s, nought, bad);
    }
    if (j < n) {
        vec s = load(products + j);
        top = larger(choose_first(n - j, s, top), top);
        bad = multiply_add(choose_first(n - j, s, nought), nought, bad);
    }
    *damage = bad;
    return top;
}

/** x of some products; `scale` with the log2(e). */
static inline vec exponent(vec product, vec top, vec scale)
{
    return larger(splat(LOWEST_EXPONENT), (product - top) * scale);
}

/** Weight of n products and, added to *spread, their spread, in LANES parts. */
static inline vec row_weight(const float *products, int n, vec top, vec scale,
                             vec *spread)
{
    vec weight = splat(0);
    int j = 0;
    for (; j + LANES <= n; j += LANES) {
        vec x = exponent(load(products + j), top, scale);
        vec p = vec_exp2(x);
        weight += p;
        *spread = multiply_add(p, x, *spread);
    }
    if (j < n) {
        vec x = exponent(load(products + j), top, scale);
        x = choose_first(n - j, x, splat(0));
        vec p = choose_first(n - j, vec_exp2(x), splat(0));
        weight += p;
        *spread = multiply_add(p, x, *spread);
    }
    return weight;
}

/** Brings the sums of a group from their old maximum to the new one, and adds
 *  what its latest keys give. */
static inline void merge(const workspace *work, int row, vec top, vec scale,
                         vec more_weight, vec more_spread)
{
    vec weight = load(work->weight + row);
    vec spread = load(work->spread + row);
    vec x = exponent(load(work->top + row), top, scale);
    vec factor = vec_exp2(x);
    spread = multiply_add(weight, x, spread);
    store(work->weight + row, multiply_add(weight, factor, more_weight));
    store(work->spread + row, multiply_add(spread, factor, more_spread));
    store(work->top + row, top);
}

/** Adds the products of a group to the state of its rows, of which row r sees
 *  n[r]. */
static void absorb(const workspace *work, int row, const int n[LANES])
{
    vec weights[LANES], spreads[LANES], tops[LANES];
    float new_top[LANES], exponent_scale[LANES];
    for (int r = 0; r < LANES; r++)
        tops[r] = row_top(work->products + r * CHUNK, n[r], &spreads[r]);
    vec top = larger(largest_of_rows(tops), load(work->top + row));
    vec scale = load(work->scale + row) * splat(LOG2_E);
    store(new_top, top);
    store(exponent_scale, scale);
    for (int r = 0; r < LANES; r++)
        weights[r] =
            row_weight(work->products + r * CHUNK, n[r], splat(new_top[r]),
                       splat(exponent_scale[r]), &spreads[r]);
    merge(work, row, top, scale, sum_rows(weights), sum_rows(spreads));
}

/** How many of keys [first, end) row i sees. */
static inline int visible_of(const es_entropy_part *part, int i, int first,
                             int end)
{
    return clamp_int(es_visible_keys(part->keys, i), first, end) - first;
}

/** One group, rows from i on, against the packed keys [first, end). */
static void group_keys(const workspace *work, const es_entropy_part *part,
                       int i, int first, int end)
{
    int width = part->width, row = i - part->first;
    int n_rows = min_int(LANES, part->end - i), n[LANES] = {0};
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

static void start_rows(const workspace *work, const es_entropy_part *part)
{
    float root = sqrtf((float)part->width);
    int n = part->end - part->first;
    for (int r = 0; r < n; r += LANES) {
        store(work->top + r, splat(-INFINITY));
        store(work->weight + r, splat(0));
        store(work->spread + r, splat(0));
        store(work->scale + r, splat(1 / root));
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
static void finish_group(const workspace *work, const es_entropy_part *part,
                         int i)
{
    int row = i - part->first;
    vec top = load(work->top + row), scale = load(work->scale + row);
    vec weight = load(work->weight + row);
    vec log_weight = vec_log2(weight) * splat(LN2);
    vec spread = load(work->spread + row) / weight * splat(LN2);
    vec x = exponent(load(work->first + row), top, scale * splat(LOG2_E));
    float entropy[LANES], lse[LANES], sink[LANES], max_logit[LANES];
    store(entropy, larger(splat(0), log_weight - spread));
    store(max_logit, top * scale);
    store(lse, multiply_add(top, scale, log_weight));
    store(sink, vec_exp2(x) / weight);
    for (int r = 0; r < LANES && i + r < part->end; r++) {
        es_ref_row out = {(double)entropy[r],
                          (double)lse[r],
                          (double)max_logit[r],
                          (double)sink[r],
                          0,
                          false};
        int n_visible = es_visible_keys(part->keys, i + r);
        if (!isfinite(entropy[r]) || !isfinite(lse[r]))
            out = es_ref_row_nonfinite(n_visible);
        es_rows_store(&part->rows, (size_t)(i + r), &out, true);
    }
}

static void qk_rows(const es_entropy_part *part, float *scratch)
{
    workspace work = carve(scratch, part->width);
    int n_keys = es_visible_keys(part->keys, part->end - 1);
    int block = es_qk_block(part->keys->n, part->width);
    start_rows(&work, part);
    for (int first = 0; first < n_keys; first += block) {
        int end = min_int(first + block, n_keys);
        pack_keys(work.keys, part, first, end);
        for (int i = part->first; i < part->end; i += LANES)
            group_keys(&work, part, i, first, end);
    }
    for (int i = part->first; i < part->end; i += LANES)
        finish_group(&work, part, i);
}

/* --- the functions alone ---------------------------------------------------
 */

static void exp2_all(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store(out + i, vec_exp2(load(x + i)));
}

static void log2_all(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store(out + i, vec_log2(load(x + i)));
}

const es_entropy_kernels KERNELS = {KERNELS_NAME, KERNELS_NEED, probs_rows,
                                    qk_rows,      exp2_all,     log2_all};
