/**
 * The entropy kernels, written once for every vector width.
 *
 * A variant (entropy_plain.c, entropy_avx2.c, entropy_avx512.c, entropy_amx.c)
 * includes this file after it has defined
 *
 *   LANES  floats in a vector: 4, 8 or 16 (analyzer/base/vector.h)
 *   TILE   keys of a register tile: divides ES_QK_TILE and is divisible by 3
 *   KERNELS, KERNELS_NAME, KERNELS_NEED
 *          the variant's table, its name and the instructions it needs
 */
#include "analyzer/base/vector.h"
#include "analyzer/entropy/entropy_internal.h"

#include <float.h>
#include <math.h>

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#elif defined(__SANITIZE_ADDRESS__)
/* Loops are not unrolled in sanitizer builds, which add a bounds check to each
   access: unrolled, they would take three quarters of the compile time. */
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define INLINED __attribute__((always_inline)) static inline
/* Marks functions that must not be inlined, because inlining would take
   registers from the loops of their callers. */
#define APART __attribute__((noinline)) static

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

/* Calls a function and passes the type of the numbers as a constant, so that
   the function's inlined loops need no branch on the type. */
#define WITH_TYPE(numbers, function, ...)                                      \
    if ((numbers).type == ES_ENTROPY_F32)                                      \
        function(__VA_ARGS__, (es_numbers){(numbers).data, ES_ENTROPY_F32});   \
    else if ((numbers).type == ES_ENTROPY_BF16)                                \
        function(__VA_ARGS__, (es_numbers){(numbers).data, ES_ENTROPY_BF16});  \
    else                                                                       \
        function(__VA_ARGS__, (es_numbers){(numbers).data, ES_ENTROPY_F16})

/** Loads n <= LANES numbers from `position` on; the other lanes are 0. */
INLINED vec load_numbers(es_numbers numbers, ptrdiff_t position, int n)
{
    if (numbers.type == ES_ENTROPY_BF16)
        return load_bf16((const uint16_t *)numbers.data + position, n);
    if (numbers.type == ES_ENTROPY_F16)
        return load_f16((const uint16_t *)numbers.data + position, n);
    const float *from = (const float *)numbers.data + position;
    return load_part(from, n, 0);
}

/**
 * Prefetches LANES numbers of each of LANES rows. The rows may lie beyond the
 * end of the array, because a prefetch does not fault.
 */
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

/**
 * Adds a * log2(a + 1e-9) to sum. The 1e-9 matters for weights near 1e-9, and
 * makes weights of zero contribute 0.
 */
static inline vec add_surprise(vec sum, vec a)
{
    return multiply_add(a, vec_log2(a + splat(1e-9F)), sum);
}

/**
 * Adds a * log2(a + 1e-9) to `sum` for each weight a from first to n - 1 of a
 * row. Reads nothing beyond these weights.
 */
INLINED vec add_weights(vec sum, es_numbers att, int first, int n)
{
    int j = first;
    for (; j + LANES <= n; j += LANES)
        sum = add_surprise(sum, load_numbers(att, j, LANES));
    if (j < n)
        sum = add_surprise(sum, load_numbers(att, j, n - j));
    return sum;
}

/**
 * Adds a * log2(a + 1e-9) to `sum` for the weights a at the n positions
 * `places` of a row.
 */
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

/**
 * Stores the result that the reference implementation defines for a row that
 * sees no key, or for a row whose entropy, as summed by the kernel, is not
 * finite.
 */
static void store_odd_row(const es_entropy_part *part, int i, es_numbers att)
{
    es_ref_row row =
        es_ref_row_probs(att, es_key_limit(part->keys, i), part->keys->mask);
    es_rows_store(&part->rows, (size_t)(i - part->first), &row);
}

INLINED void store_probs_row(const es_entropy_part *part, int i, float entropy,
                             es_numbers in)
{
    const es_numbers att = es_numbers_from(in, i * part->in_row);
    const es_row_arrays *rows = &part->rows;
    /* The kernel computes the entropy 0 also for a row that sees no key. */
    if (!isfinite(entropy) ||
        (entropy == 0 && es_visible_keys(part->keys, i) == 0)) {
        store_odd_row(part, i, att);
        return;
    }
    const int row = i - part->first;
    if (rows->floats[ES_ROW_ENTROPY])
        rows->floats[ES_ROW_ENTROPY][row] = entropy;
    if (rows->floats[ES_ROW_SINK])
        rows->floats[ES_ROW_SINK][row] = es_number(att, 0);
    if (rows->nonfinite)
        rows->nonfinite[row] = 0;
}

#define BLOCK (32 * LANES)
/* Number of columns to prefetch ahead; hides a memory latency of 200 ns. */
#define AHEAD 128

/**
 * Returns the number of columns that are read for the group of rows that begins
 * with row i.
 */
static inline int columns_of(const es_entropy_part *part, int i)
{
    int n = es_key_limit(part->keys, i + LANES - 1);
    return n > 0 ? (n + LANES - 1) / LANES * LANES : LANES;
}

/**
 * Returns the position to prefetch. It is the position that will be read AHEAD
 * columns after column j of the group of rows that begins with row i. The last
 * column of a group is followed by the next group, and the last group by the
 * next head.
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

/**
 * Adds the columns [first, end) of LANES rows to sums. The number of columns is
 * a multiple of LANES.
 */
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
 * Computes the sum of a * log2(a + 1e-9) over the visible weights a of each of
 * the rows i .. i + n - 1, n <= LANES, as LANES partial sums; the sum is not
 * finite if a weight is not finite, and NaN if a weight is negative.
 *
 * Processes the rows together, column by column. If rows were processed one
 * after the other, the processor would prefetch unneeded data at the end of
 * each causal row, because such a row ends in the middle of its memory. Adds in
 * blocks, so that rounding errors grow only with the square root of the length.
 * Groups of fewer than LANES rows, and rows with hidden keys between visible
 * ones, are processed row by row.
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
        /* adding 0 turns the -0 of a row of zeros into 0 */
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
 */

#include "analyzer/entropy/entropy_qk.inc.h"

/* --- single functions ----------------------------------------------------- */

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
