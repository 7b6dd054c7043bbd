/**
 * The scratch of the kernels from queries and keys, and what is copied into it:
 * panels of keys, groups of queries, and how long they are; part of
 * entropy_qk.inc.h.
 */

#define CHUNK ES_QK_CHUNK
#define KEYS_AHEAD 32 /* rows; in packed arrays, into the next head */

/** Carved out of the scratch. */
typedef struct workspace {
    float *products; /* (LANES,CHUNK) */
    float *queries;  /* (LANES,q_row), one group */
    float *keys;     /* one block of panels */
    ptrdiff_t q_row;
    float longest_key; /* largest |k|^2 so far */
    float highest_key; /* largest |k_c| so far */
    /* of each row of the part, up to ES_QK_ROWS: */
    float *scale;                       /* of products, as they are kept */
    float *inner;                       /* with a softcap: of products before */
    float *length;                      /* |q|^2 */
    float *height;                      /* largest |q_c| */
    float *first;                       /* product with key 0 */
    float *top, *weight, *spread, *far; /* over the keys so far */
    /* the same of rows that are done again */
    double *exact_products; /* (LANES,CHUNK) */
    double *exact_first, *exact_top, *exact_weight, *exact_spread, *exact_far;
} workspace;

static workspace carve(float *scratch, int width)
{
    workspace work = {.q_row = es_qk_query_row(width)};
    float **const floats[ES_QK_ROW_FLOATS] = {
        &work.scale, &work.inner,  &work.length, &work.height, &work.first,
        &work.top,   &work.weight, &work.spread, &work.far};
    double **const doubles[ES_QK_ROW_DOUBLES] = {
        &work.exact_first, &work.exact_top, &work.exact_weight,
        &work.exact_spread, &work.exact_far};
    work.products = scratch;
    scratch += LANES * CHUNK;
    for (int i = 0; i < ES_QK_ROW_FLOATS; i++, scratch += ES_QK_ROWS)
        *floats[i] = scratch;
    work.queries = scratch;
    scratch += LANES * work.q_row;
    work.exact_products = (double *)(void *)scratch;
    scratch += (ptrdiff_t)2 * LANES * CHUNK;
    for (int i = 0; i < ES_QK_ROW_DOUBLES; i++, scratch += 2 * ES_QK_ROWS)
        *doubles[i] = (double *)(void *)scratch;
    work.keys = scratch;
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

static inline vec size_of(vec x)
{
    return (vec)((ivec)x & 0x7fffffff);
}

/** The sums of squares of the numbers in the lanes of a block added to those
 *  before. */
static inline vec add_squares(vec squares, const vec block[LANES])
{
    vec other = splat(0);
    UNROLL
    for (int i = 0; i < LANES; i += 2) {
        squares = multiply_add(block[i], block[i], squares);
        other = multiply_add(block[i + 1], block[i + 1], other);
    }
    return squares + other;
}

/** The larger of `highest` and the sizes of the numbers in the lanes of a
 *  block. */
static inline vec highest_of(vec highest, const vec block[LANES])
{
    vec other = highest;
    UNROLL
    for (int i = 0; i < LANES; i += 2) {
        highest = larger(size_of(block[i]), highest);
        other = larger(size_of(block[i + 1]), other);
    }
    return larger(other, highest);
}

/** Packs visible keys [first, end) as panels; missing keys of the last are 0.
 *  Notes how long and how high they are. */
INLINED void pack_keys_of(workspace *work, const es_entropy_part *part,
                          int first, int end, es_numbers k)
{
    const int *index = part->keys->index;
    int width = part->width;
    float *out = work->keys;
    vec longest = splat(work->longest_key), highest = splat(work->highest_key);
    for (int j = first; j < end; j += LANES) {
        int n_rows = min_int(LANES, end - j);
        ptrdiff_t rows[LANES]; /* where they begin */
        for (int r = 0; r < LANES; r++)
            rows[r] =
                (index && r < n_rows ? index[j + r] : j + r) * part->k_row;
        vec squares = splat(0);
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
            squares = add_squares(squares, block);
            highest = highest_of(highest, block);
            store_block(out + (ptrdiff_t)c * LANES, block, width - c);
        }
        longest = larger(squares, longest); /* passes over a NaN */
        out += (ptrdiff_t)width * LANES;
    }
    work->longest_key = largest_lane(longest);
    work->highest_key = largest_lane(highest);
}

static void pack_keys(workspace *work, const es_entropy_part *part, int first,
                      int end)
{
    WITH_TYPE(part->k, pack_keys_of, work, part, first, end);
}

/** Copies a group of queries, rows from i on, so that their distance in memory
 *  suits the cache, and notes how long and high they
 *  are; missing ones are 0. Prefetches the next
 *  group. */
INLINED void copy_queries_of(const workspace *work, const es_entropy_part *part,
                             int i, es_numbers in)
{
    vec squares[LANES], heights[LANES];
    for (int r = 0; r < LANES; r++) {
        ptrdiff_t from = (i + r) * part->in_row;
        float *out = work->queries + r * work->q_row;
        squares[r] = heights[r] = splat(0);
        for (int c = 0; c < part->width; c += LANES) {
            int n = i + r < part->end ? min_int(LANES, part->width - c) : 0;
            ptrdiff_t next = from + LANES * part->in_row + c;
            vec q = load_numbers(in, from + c, n);
            __builtin_prefetch(es_numbers_from(in, next).data, 0, 2);
            squares[r] = multiply_add(q, q, squares[r]);
            heights[r] = larger(size_of(q), heights[r]);
            store(out + c, q);
        }
    }
    store(work->length + i - part->first, sum_rows(squares));
    store(work->height + i - part->first, largest_of_rows(heights));
}

static void copy_queries(const workspace *work, const es_entropy_part *part,
                         int i)
{
    WITH_TYPE(part->in, copy_queries_of, work, part, i);
}
