/**
 * Defines the scratch memory of the kernels that work on queries and keys, and
 * copies tiles of keys, groups of queries, and the norms of both into this
 * memory. Part of entropy_qk.inc.h.
 */

#define CHUNK ES_QK_CHUNK
#define GROUP (2 * LANES) /* queries */

/** Number formats in which keys and queries are multiplied. */
typedef enum packing {
    AS_FLOATS,
    AS_HALVES, /* as bfloat16 (entropy_split.inc.h) */
    AS_FIXED   /* in fixed point (entropy_fixed.inc.h) */
} packing;

/** The rows that this thread will read next; they are prefetched. */
typedef struct ahead {
    const char *queries, *keys;
    ptrdiff_t query_row, key_row; /* bytes */
    int row_size, n_rows, at_once;
} ahead;

/** Pointers to the arrays in a thread's scratch memory. */
typedef struct workspace {
    float *products;   /* (CHUNK,GROUP) */
    float *places;     /* (CHUNK) positions of keys relative to the first query
                          of a group */
    float *queries;    /* (D,GROUP) packed queries; a group is GROUP queries
                          that are processed together */
    float *keys;       /* packed keys of one block, in tiles */
    packing form;      /* format in which keys and queries are packed */
    float longest_key; /* largest squared length |k|^2 of the keys packed so far
                        */
    float highest_key; /* largest absolute value of a number in the keys packed
                          so far */
    /* The following arrays have one element for each row of the part of the
     * problem that this thread computes, at most ES_QK_ROWS. */
    float *scale; /* factor that turns products of packed numbers into scores */
    float *inner; /* only with a softcap: factor that is applied to products
                     before the tanh */
    float *length; /* |q|^2 */
    float *height; /* largest |q_c| */
    float *first;  /* product of each row's query and key 0 */
    /* Running maximum and sums over the keys processed so far. */
    float *top, *sums[ES_N_ROW_SUMS];
    /* Arrays of double for the rows that are recomputed in double precision. */
    double *exact_products; /* (CHUNK,LANES) */
    double *exact_first, *exact_top, *exact_sums[ES_N_ROW_SUMS];
} workspace;

static float *take_floats(float **scratch, ptrdiff_t n)
{
    float *taken = *scratch;
    *scratch += n;
    return taken;
}

static double *take_doubles(float **scratch, ptrdiff_t n)
{
    return (double *)(void *)take_floats(scratch, 2 * n);
}

static workspace carve_workspace(float *scratch, int width)
{
    workspace work = {.longest_key = 0};
    float **const floats[ES_QK_ROW_FLOATS - ES_N_ROW_SUMS] = {
        &work.scale,  &work.inner, &work.length,
        &work.height, &work.first, &work.top};
    work.products = take_floats(&scratch, GROUP * CHUNK);
    work.places = take_floats(&scratch, CHUNK);
    for (int i = 0; i < ES_QK_ROW_FLOATS - ES_N_ROW_SUMS; i++)
        *floats[i] = take_floats(&scratch, ES_QK_ROWS);
    for (int i = 0; i < ES_N_ROW_SUMS; i++)
        work.sums[i] = take_floats(&scratch, ES_QK_ROWS);
    work.queries = take_floats(&scratch, (ptrdiff_t)es_qk_packed(GROUP, width));
    work.exact_products = take_doubles(&scratch, LANES * CHUNK);
    work.exact_first = take_doubles(&scratch, ES_QK_ROWS);
    work.exact_top = take_doubles(&scratch, ES_QK_ROWS);
    for (int i = 0; i < ES_N_ROW_SUMS; i++)
        work.exact_sums[i] = take_doubles(&scratch, ES_QK_ROWS);
    work.keys = scratch;
    return work;
}

static inline vec size_of(vec x)
{
    return (vec)((ivec)x & 0x7fffffff);
}

/** Returns the index in the array of keys at which visible key j begins. */
static inline ptrdiff_t key_row(const es_entropy_part *part, int j)
{
    const int *index = part->keys->index;
    return (index ? index[j] : j) * part->k_row;
}

/**
 * Copies a key into the row of a tile that begins at `out`. A tile interleaves
 * its rows: it contains the first vectors of LANES numbers of all rows, then
 * the second vectors of all rows, and so on. Updates the key's sum of squares
 * and its largest absolute value.
 */
INLINED void copy_key(float *out, int width, es_numbers key, vec *squares,
                      vec *heights)
{
    for (int c = 0; c < width; c += LANES, out += TILE * LANES) {
        const vec x = load_numbers(key, c, min_int(LANES, width - c));
        *squares = multiply_add(x, x, *squares);
        *heights = larger(size_of(x), *heights);
        store(out, x);
    }
}

/** Returns the number of floats in a tile of keys. */
static inline ptrdiff_t tile_size(int width)
{
    return (ptrdiff_t)TILE * ((width + LANES - 1) / LANES * LANES);
}

/** Returns the address of packed key j of a block. */
static inline float *packed_key(const workspace *work, int j, int width)
{
    return work->keys + j / TILE * tile_size(width) +
           (ptrdiff_t)(j % TILE) * LANES;
}

/**
 * Packs the visible keys [first, end) into tiles and fills up the last tile
 * with zeros. Updates the largest squared length |k|^2 and the largest absolute
 * value of the keys.
 */
INLINED void pack_keys_of(workspace *work, const es_entropy_part *part,
                          int first, int end, es_numbers k)
{
    const int width = part->width, n = end - first;
    vec longest = splat(work->longest_key), highest = splat(work->highest_key);
    for (int j = 0; j < n; j += LANES) {
        vec squares[LANES];
        for (int r = 0; r < LANES; r++) {
            squares[r] = splat(0);
            if (j + r < n)
                copy_key(packed_key(work, j + r, width), width,
                         es_numbers_from(k, key_row(part, first + j + r)),
                         &squares[r], &highest);
        }
        longest = larger(sum_rows(squares), longest); /* ignores a NaN */
    }
    for (int j = n; j % TILE != 0; j++) {
        float *out = packed_key(work, j, width);
        for (int c = 0; c < width; c += LANES, out += TILE * LANES)
            store(out, splat(0));
    }
    work->longest_key = largest_lane(longest);
    work->highest_key = largest_lane(highest);
}

static void pack_keys(workspace *work, const es_entropy_part *part, int first,
                      int end)
{
    WITH_TYPE(part->k, pack_keys_of, work, part, first, end);
}

/**
 * Starts prefetching the queries and keys of the rows that this thread
 * computes next. A few rows are then prefetched with each tile of products, so
 * that memory is read while products are computed.
 */
static ahead start_ahead(const es_entropy_part *part)
{
    const int n_keys = es_keys_end(part->keys, part->end - 1);
    const int size = part->in.type == ES_ENTROPY_F32 ? 4 : 2;
    return (ahead){.queries = part->next_in.data,
                   .keys = part->next_k.data,
                   .query_row = part->in_row * size,
                   .key_row = part->k_row * size,
                   .row_size = part->width * size,
                   .n_rows = part->next_in.data ? part->end - part->first : 0,
                   .at_once = 1 + 2 * GROUP * TILE / (n_keys + 1)};
}

static inline void prefetch_row(const char *row, int size)
{
    for (int i = 0; i < size; i += 64)
        __builtin_prefetch(row + i, 0, 2);
}

static inline void prefetch_some(ahead *next)
{
    for (int i = 0; i < next->at_once && next->n_rows > 0; i++) {
        prefetch_row(next->queries, next->row_size);
        prefetch_row(next->keys, next->row_size);
        next->queries += next->query_row;
        next->keys += next->key_row;
        next->n_rows--;
    }
}

/**
 * Copies the LANES queries from row i on, one into each lane. Stores the
 * squared length and the largest absolute value of each query. Lanes without a
 * query are 0.
 */
INLINED void copy_queries_of(float *out, const workspace *work,
                             const es_entropy_part *part, int i, es_numbers in)
{
    const int width = part->width, n_rows = min_int(LANES, part->end - i);
    vec squares = splat(0), heights = splat(0);
    for (int c = 0; c < width; c += LANES) {
        const int n = min_int(LANES, width - c);
        const es_numbers from = es_numbers_from(in, i * part->in_row + c);
        vec block[LANES];
        if (n_rows == LANES && n == LANES) {
            UNROLL
            for (int r = 0; r < LANES; r++)
                block[r] = load_numbers(from, r * part->in_row, LANES);
        } else {
            for (int r = 0; r < LANES; r++)
                block[r] = r < n_rows ? load_numbers(from, r * part->in_row, n)
                                      : splat(0);
        }
        transpose(block);
        UNROLL
        for (int r = 0; r < LANES; r++) {
            squares = multiply_add(block[r], block[r], squares);
            heights = larger(size_of(block[r]), heights);
            store(out + (ptrdiff_t)(c + r) * GROUP, block[r]);
        }
    }
    store(work->length + i - part->first, squares);
    store(work->height + i - part->first, heights);
}

/** Copies the n queries from row i on, where n is GROUP or GROUP / 2. */
static void copy_queries(const workspace *work, const es_entropy_part *part,
                         int i, int n)
{
    for (int r = 0; r < n && i + r < part->end; r += LANES)
        WITH_TYPE(part->in, copy_queries_of, work->queries + r, work, part,
                  i + r);
}
