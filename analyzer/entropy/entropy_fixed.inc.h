/**
 * Multiplies float32 queries and keys with AMX in fixed point. Part of
 * entropy_qk.inc.h.
 *
 * AMX multiplies signed bytes and adds in int32, exactly, 64 numbers at a time.
 * A query or key is h / UNIT times integers v, |v| <= UNIT, where h is its
 * largest number; each integer consists of DIGITS (three) bytes, called its
 * digits: v = v2 * 2^16 + v1 * 2^8 + v0 with v2, v1 and v0 from -128 to 127.
 * Products of digits that are below 2^-22 of UNIT^2 are omitted. The result is
 * as accurate as float32 if the numbers do not differ much; find_blurred
 * detects rows whose numbers differ too much. UNIT is 127 * 2^16, so rows of +1
 * and -1 or of multiples of 1/127 have low digits of 0 and are exact.
 */

#include "analyzer/entropy/entropy_split.inc.h"

#define DIGITS 3
#define UNIT 8323072.0F
/* Lower limit for a row's height h, the largest |x| of its numbers x. */
#define LEAST_HEIGHT 0x1p-100F
#define BYTES 64 /* numbers in a row of a tile, one byte each */
#define TILE_BYTES 1024

/**
 * Returns the number of bytes that SIDE packed keys or queries take. For each
 * BYTES numbers of the rows there are DIGITS tiles, highest digits first. SIDE
 * floats follow; multiplying by them turns sums of digit products into products
 * of queries and keys.
 */
static inline ptrdiff_t fixed_side(int width)
{
    return (ptrdiff_t)(width + BYTES - 1) / BYTES * DIGITS * TILE_BYTES +
           SIDE * (ptrdiff_t)sizeof(float);
}

/** SIDE keys or SIDE queries of one head, and their scales. */
typedef struct fixed_rows {
    es_numbers rows[SIDE];
    int n[SIDE]; /* length of each row: the width, or 0 for unused rows */
    int width;
    vec length, height; /* length: |x|^2 of each row; height: largest |x_c| of
                           each row; both are 0 for non-finite rows */
    vec scale, inverse; /* scale is 2^12 * h / UNIT, or NaN for non-finite rows;
                           inverse is UNIT / h; h is the element of `height` */
} fixed_rows;

/**
 * Loads up to LANES numbers of a row of n numbers, from number c on; lanes
 * beyond n are 0.
 */
INLINED vec fixed_numbers(es_numbers row, int c, int n)
{
    return load_numbers(row, c, clamp_int(n - c, 0, LANES));
}

INLINED void measure_numbers(vec x, vec *square, vec *height)
{
    *square = multiply_add(x, x, *square);
    *height = larger(size_of(x), *height); /* ignores a NaN */
}

/**
 * Computes the scales of the rows. Returns false if a number in a row is too
 * large for AMX (entropy_split.inc.h).
 */
INLINED bool measure_fixed(fixed_rows *in, es_entropy_type type)
{
    vec squares[LANES], heights[LANES];
    for (int r = 0; r < SIDE; r++) {
        const es_numbers row = {in->rows[r].data, type};
        vec square = splat(0), height = splat(0);
        int c = 0;
        for (; c + LANES <= in->n[r]; c += LANES)
            measure_numbers(load_numbers(row, c, LANES), &square, &height);
        if (c < in->n[r])
            measure_numbers(fixed_numbers(row, c, in->n[r]), &square, &height);
        squares[r] = square;
        heights[r] = height;
    }
    const vec length = sum_rows(squares), height = largest_of_rows(heights);
    const ivec whole = length < splat(INFINITY);
    const ivec large =
        (ivec)(height > splat(MOST_SPLIT)) & (ivec)(height < splat(INFINITY));
    in->length = choose(whole, length, splat(0));
    in->height = choose(whole, height, splat(0));
    const vec high = larger(in->height, splat(LEAST_HEIGHT));
    in->inverse = splat(UNIT) / high;
    in->scale = choose(whole, high * splat(4096 / UNIT), splat(NAN));
    return _mm512_test_epi32_mask((__m512i)large, (__m512i)large) == 0;
}

/**
 * Returns a permutation of the bytes of 32 numbers: byte `low` of each number
 * goes to the first half of a vector, byte `high` to the second half.
 */
static inline __m512i byte_places(int low, int high)
{
    uint8_t places[BYTES];
    for (int i = 0; i < BYTES; i++)
        places[i] = (uint8_t)(i % 32 * 4 + (i < 32 ? low : high));
    return _mm512_loadu_si512(places);
}

/**
 * Converts numbers c to c + BYTES - 1 of a row to fixed point, and splits each
 * into DIGITS digits of 8 bits, the highest digit first.
 */
INLINED void take_digits(vec out[DIGITS], es_numbers row, int c, int n,
                         vec inverse)
{
    const __m512i bias = _mm512_set1_epi32(0x808080);
    const __m512i low = byte_places(0, 1), high = byte_places(2, 2);
    __m512i v[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        const vec x = n - c >= BYTES ? load_numbers(row, c + i * LANES, LANES)
                                     : fixed_numbers(row, c + i * LANES, n);
        v[i] = _mm512_cvtps_epi32((__m512)(x * inverse));
        v[i] = _mm512_xor_si512(_mm512_add_epi32(v[i], bias), bias);
    }
    const __m512i a = _mm512_permutex2var_epi8(v[0], low, v[1]);
    const __m512i b = _mm512_permutex2var_epi8(v[2], low, v[3]);
    out[0] = (vec)_mm512_mask_blend_epi64(
        0xf0, _mm512_permutex2var_epi8(v[0], high, v[1]),
        _mm512_permutex2var_epi8(v[2], high, v[3]));
    out[1] = (vec)_mm512_shuffle_i64x2(a, b, 0xee);
    out[2] = (vec)_mm512_shuffle_i64x2(a, b, 0x44);
}

/** Packs SIDE keys. Each key is one row of the tiles. */
INLINED void pack_fixed_keys(char *out, const fixed_rows *in,
                             es_entropy_type type)
{
    float inverse[LANES];
    store(inverse, in->inverse);
    for (int r = 0; r < SIDE; r++) {
        const es_numbers row = {in->rows[r].data, type};
        char *to = out + r * BYTES;
        for (int c = 0; c < in->width; c += BYTES, to += DIGITS * TILE_BYTES) {
            vec digits[DIGITS];
            take_digits(digits, row, c, in->n[r], splat(inverse[r]));
            for (int i = 0; i < DIGITS; i++)
                memcpy(to + i * TILE_BYTES, &digits[i], sizeof digits[i]);
        }
    }
    store((float *)(void *)(out + fixed_side(in->width)) - SIDE, in->scale);
}

/**
 * Packs SIDE queries. Each row of a tile contains four numbers of every query,
 * as the AMX instruction requires.
 */
INLINED void pack_fixed_queries(char *out, const fixed_rows *in,
                                es_entropy_type type)
{
    float inverse[LANES];
    store(inverse, in->inverse);
    store((float *)(void *)(out + fixed_side(in->width)) - SIDE, in->scale);
    for (int c = 0; c < in->width; c += BYTES) {
        vec tiles[DIGITS][LANES];
        for (int r = 0; r < SIDE; r++) {
            vec digits[DIGITS];
            take_digits(digits, (es_numbers){in->rows[r].data, type}, c,
                        in->n[r], splat(inverse[r]));
            for (int i = 0; i < DIGITS; i++)
                tiles[i][r] = digits[i];
        }
        for (int i = 0; i < DIGITS; i++, out += TILE_BYTES) {
            transpose(tiles[i]);
            memcpy(out, tiles[i], sizeof tiles[i]);
        }
    }
}

/**
 * Packs the visible keys [first, end). Fills up the last group of SIDE keys
 * with zeros.
 */
INLINED void fix_keys_of(workspace *work, const es_entropy_part *part,
                         int first, int end, es_numbers k)
{
    char *out = (char *)work->keys;
    vec longest = splat(work->longest_key), highest = splat(work->highest_key);
    bool fits = true;
    for (int j = first; j < end && fits; j += SIDE) {
        fixed_rows keys;
        keys.width = part->width;
        for (int r = 0; r < SIDE; r++) {
            keys.n[r] = j + r < end ? part->width : 0;
            keys.rows[r] =
                es_numbers_from(k, keys.n[r] ? key_row(part, j + r) : 0);
        }
        fits = measure_fixed(&keys, k.type);
        pack_fixed_keys(out, &keys, k.type);
        longest = larger(keys.length, longest);
        highest = larger(keys.height, highest);
        out += fixed_side(part->width);
    }
    work->longest_key = largest_lane(longest);
    work->highest_key = fits ? largest_lane(highest) : INFINITY;
}

static bool fix_keys(workspace *work, const es_entropy_part *part, int first,
                     int end)
{
    WITH_TYPE(part->k, fix_keys_of, work, part, first, end);
    return work->highest_key <= MOST_SPLIT;
}

/**
 * Converts SIDE queries, the rows from i on, to fixed point and packs them.
 * Sets *fits to false if a query has numbers that are too large for AMX.
 */
INLINED void fix_queries_of(char *out, bool *fits, const workspace *work,
                            const es_entropy_part *part, int i, es_numbers in)
{
    fixed_rows queries;
    queries.width = part->width;
    for (int r = 0; r < SIDE; r++) {
        queries.n[r] = i + r < part->end ? part->width : 0;
        queries.rows[r] =
            es_numbers_from(in, queries.n[r] ? (i + r) * part->in_row : 0);
    }
    *fits = measure_fixed(&queries, in.type) && *fits;
    pack_fixed_queries(out, &queries, in.type);
    store(work->length + i - part->first, queries.length);
    store(work->height + i - part->first, queries.height);
}

/**
 * Converts a group of queries to fixed point and packs them. Returns false if a
 * query has numbers that are too large for AMX.
 */
static bool fix_queries(const workspace *work, const es_entropy_part *part,
                        int i)
{
    char *out = (char *)work->queries;
    bool fits = true;
    for (int r = 0; r < GROUP; r += SIDE) {
        WITH_TYPE(part->in, fix_queries_of, out, &fits, work, part, i + r);
        out += fixed_side(part->width);
    }
    return fits;
}

#define SUMS (SIDE * SIDE) /* number of sums in a tile */

/**
 * Integer sums of digit products of SIDE queries and SIDE keys, which still
 * have to be converted to floating-point products.
 */
typedef struct conversion {
    float *out; /* destination of the products; NULL: nothing to convert */
    const uint32_t *sums;
    const float *key_scale;
    vec query_scale;
} conversion;

/**
 * Converts the sums of digit products for n keys from `first` on to products.
 * The sums of the highest digits are below 2^14 times the width, so they can be
 * multiplied by 2^8 and added to the other sums without overflowing int32.
 */
INLINED void convert_fixed(const conversion *by, int first, int n)
{
    if (!by->out)
        return;
    UNROLL
    for (int r = first; r < first + n; r++) {
        const uint32_t *sums = by->sums + r * SIDE;
        uvec high, middle;
        ivec low;
        memcpy(&high, sums, sizeof high);
        memcpy(&middle, sums + SUMS, sizeof middle);
        memcpy(&low, sums + 2 * SUMS, sizeof low);
        const ivec upper = (ivec)((high << 8) + middle);
        const vec x =
            multiply_add(__builtin_convertvector(low, vec), splat(0x1p-8F),
                         __builtin_convertvector(upper, vec));
        store(by->out + (ptrdiff_t)r * GROUP,
              x * (by->query_scale * splat(by->key_scale[r])));
    }
}

/** Prevents the compiler from moving memory accesses across this point. */
static inline void keep_order(void)
{
    __asm__ volatile("" ::: "memory");
}

/**
 * Multiplies the digits of the queries in tiles 3 to 5 by those of SIDE keys,
 * highest digits first, and adds the products to tiles 0 to 2. Between these
 * instructions, when the processor would wait for the tiles, converts the sums
 * `meanwhile` to products.
 */
INLINED void add_fixed(const char *keys, const conversion *meanwhile)
{
    _tile_loadd(6, keys, BYTES);
    _tile_dpbssd(0, 6, 3);
    _tile_dpbssd(1, 6, 4);
    _tile_dpbssd(2, 6, 5);
    convert_fixed(meanwhile, 0, 6);
    keep_order();
    _tile_loadd(7, keys + TILE_BYTES, BYTES);
    _tile_dpbssd(1, 7, 3);
    _tile_dpbssd(2, 7, 4);
    convert_fixed(meanwhile, 6, 6);
    keep_order();
    _tile_loadd(6, keys + 2 * TILE_BYTES, BYTES);
    _tile_dpbssd(2, 6, 3);
    convert_fixed(meanwhile, 12, 4);
    keep_order();
}

INLINED void load_fixed_queries(const char *queries)
{
    _tile_loadd(3, queries, BYTES);
    _tile_loadd(4, queries + TILE_BYTES, BYTES);
    _tile_loadd(5, queries + 2 * TILE_BYTES, BYTES);
}

/**
 * Sums the products of SIDE queries and SIDE keys. If a head is at most BYTES
 * wide, the caller has already loaded the queries into tiles.
 */
INLINED void sum_fixed(uint32_t *sums, const char *queries, const char *keys,
                       int width, const conversion *meanwhile)
{
    const conversion none = {.out = NULL};
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    for (int c = 0; c < width; c += BYTES) {
        if (width > BYTES)
            load_fixed_queries(queries);
        if (c == 0)
            add_fixed(keys, meanwhile);
        else
            add_fixed(keys, &none);
        queries += DIGITS * TILE_BYTES;
        keys += DIGITS * TILE_BYTES;
    }
    _tile_stored(0, sums, BYTES);
    _tile_stored(1, sums + SUMS, BYTES);
    _tile_stored(2, sums + 2 * SUMS, BYTES);
}

static inline const float *fixed_scales(const char *rows, int width)
{
    return (const float *)(const void *)(rows + fixed_side(width)) - SIDE;
}

/**
 * Computes the products of SIDE queries with at least n keys. Converts each sum
 * while the next sum is computed.
 */
APART void multiply_fixed_side(float *out, const char *queries,
                               const char *keys, int width, int n, ahead *next)
{
    uint32_t sums[2][DIGITS * SUMS] __attribute__((aligned(64)));
    conversion last = {.query_scale = load(fixed_scales(queries, width))};
    keep_order(); /* the tiles are loaded from memory, so all stores must
                     precede the load */
    load_fixed_queries(queries);
    for (int j = 0; j < n; j += SIDE, keys += fixed_side(width)) {
        uint32_t *const to = sums[j / SIDE % 2];
        prefetch_some(next);
        sum_fixed(to, queries, keys, width, &last);
        last.out = out + (ptrdiff_t)j * GROUP;
        last.sums = to;
        last.key_scale = fixed_scales(keys, width);
    }
    convert_fixed(&last, 0, SIDE);
}

/**
 * Computes the products of a group of queries with the keys from packed key j
 * on. The first half of the group is multiplied by at least n[0] keys, the
 * second half by at least n[1].
 */
static void multiply_fixed(const workspace *work, const es_entropy_part *part,
                           int j, const int n[2], ahead *next)
{
    const ptrdiff_t side = fixed_side(part->width);
    const char *queries = (const char *)work->queries;
    const char *keys = (const char *)work->keys + j / SIDE * side;
    for (int half = 0; half < 2; half++)
        if (n[half] > 0)
            multiply_fixed_side(work->products + half * SIDE,
                                queries + half * side, keys, part->width,
                                n[half], next);
}
