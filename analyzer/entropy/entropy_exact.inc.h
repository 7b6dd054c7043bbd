/**
 * Rows that float32 products blur, once more; part of entropy_qk.inc.h.
 *
 * A float32 product q.k is off by about 2^-24 of |q| |k|, more where single
 * channels are large. Where scores are
 * large, and the row is neither flat nor one-hot, entropies are off by as much.
 * Products are computed in double here, and so is their distance from the
 * row's largest; what that leaves, numbers up to about 30, float32 has to 1e-6.
 */

/* In double: half as many lanes. */
typedef double wide __attribute__((vector_size(4 * LANES)));
typedef int64_t wide_int __attribute__((vector_size(4 * LANES)));
typedef float narrow __attribute__((vector_size(2 * LANES)));
#define WIDE (LANES / 2)

/* Of an entropy, in nats: rows that may be off by more are done again. */
#define MOST_BLUR 2.5e-6F

/** Which rows of a group, from `row` on, may be off by more than MOST_BLUR? A
 *  change d_j of scores changes e by -sum a_j (ln a_j + e) d_j. Where one
 *  channel outweighs the others, every later sum is rounded as coarsely: each
 *  of D times. In squares; the factors are those with which no family of
 *  inputs that the tests know is off by 1e-5. */
static void find_blurred(const workspace *work, const es_entropy_part *part,
                         int row, vec entropy, vec top_weight,
                         bool blurred[LANES])
{
    const vec cap = splat((float)part->softcap);
    const vec inner = load(work->inner + row);
    const vec scale = part->softcap > 0 ? inner * cap : inner;
    const vec length = load(work->length + row) * splat(work->longest_key);
    const vec height = load(work->height + row) * splat(work->highest_key);
    vec reach = multiply_add(height * height, splat(0.2F * (float)part->width),
                             length * splat(1.0F / 3)) *
                scale * scale;
    if (part->softcap > 0)
        reach = splat(2) * (reach + smaller(cap * cap, reach));
    const vec peaked = splat(2.25F) * entropy * entropy;
    const vec flat = top_weight * (splat(1) + entropy) * (splat(1) + entropy);
    float squares[LANES];
    store(squares, reach * smaller(peaked, flat));
    for (int r = 0; r < LANES; r++)
        blurred[r] = !(squares[r] < MOST_BLUR * MOST_BLUR * 0x1p48F);
}

static inline wide widen(const float *from)
{
    narrow v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, wide);
}

static inline wide splat_wide(double value)
{
    return value - (wide){0};
}

/** a b + c, where a b is exact. */
static inline wide add_product(wide a, wide b, wide c)
{
#if defined(ES_VECTOR_AVX512)
    return (wide)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(ES_VECTOR_AVX2)
    return (wide)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

static inline void store_wide(double *to, wide x)
{
    memcpy(to, &x, sizeof x);
}

static inline wide load_wide(const double *from)
{
    wide x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline wide larger_wide(wide a, wide b)
{
    const wide_int where = a > b;
    return (wide)(((wide_int)a & where) | ((wide_int)b & ~where));
}

#define EXACT_KEYS (TILE / 3) /* of a tile at a time; divides TILE */

/** Products of a group with EXACT_KEYS keys of a tile. */
static void exact_tile(double *out, const float *queries, const float *tile,
                       int width)
{
    wide a[EXACT_KEYS], b[EXACT_KEYS];
    UNROLL
    for (int r = 0; r < EXACT_KEYS; r++)
        a[r] = b[r] = splat_wide(0);
    for (int d = 0; d < width; d++, queries += GROUP) {
        const float *key = tile + (ptrdiff_t)(d / LANES) * TILE * LANES;
        const wide q0 = widen(queries), q1 = widen(queries + WIDE);
        UNROLL
        for (int r = 0; r < EXACT_KEYS; r++) {
            const wide x = splat_wide((double)key[r * LANES + d % LANES]);
            a[r] = add_product(x, q0, a[r]);
            b[r] = add_product(x, q1, b[r]);
        }
    }
    UNROLL
    for (int r = 0; r < EXACT_KEYS; r++) {
        store_wide(out + r * LANES, a[r]);
        store_wide(out + r * LANES + WIDE, b[r]);
    }
}

/** exp(x), x <= 0 and not below -700: 2^n times the series of what is left. */
static inline wide wide_exp(wide x)
{
    static const double inverse[] = {1.0 / 479001600,
                                     1.0 / 39916800,
                                     1.0 / 3628800,
                                     1.0 / 362880,
                                     1.0 / 40320,
                                     1.0 / 5040,
                                     1.0 / 720,
                                     1.0 / 120,
                                     1.0 / 24,
                                     1.0 / 6,
                                     0.5,
                                     1,
                                     1};
    const wide shift = splat_wide(0x1.8p52);
    const wide shifted = x * splat_wide(1.44269504088896341) + shift;
    const wide n = shifted - shift;
    const wide rest = x - n * splat_wide(0.693147180559945309);
    wide p = splat_wide(inverse[0]);
    for (int i = 1; i < 13; i++)
        p = p * rest + splat_wide(inverse[i]);
    const wide_int power = ((wide_int)shifted - (wide_int)shift + 1023) << 52;
    return p * (wide)power;
}

/** tanh of `scale` times some products. */
static wide exact_tanh(wide x, wide scale)
{
    x *= scale;
    const wide_int negative = x < splat_wide(0);
    wide size = (wide)((wide_int)x & INT64_MAX);
    const wide_int is_large = size > splat_wide(40);
    size = (wide)(((wide_int)size & ~is_large) |
                  ((wide_int)splat_wide(40) & is_large));
    const wide e = wide_exp(splat_wide(-2) * size);
    const wide y = (splat_wide(1) - e) / (splat_wide(1) + e);
    return (wide)((wide_int)y | (negative & INT64_MIN));
}

/** By what WIDE rows from i on multiply: with a softcap before the tanh, or
 *  all. */
static wide exact_scales(const es_entropy_part *part, int i, bool inner)
{
    double scales[WIDE];
    for (int r = 0; r < WIDE; r++) {
        const double scale = es_scale(part, min_int(i + r, part->end - 1));
        scales[r] = part->softcap == 0 ? scale
                    : inner            ? scale / part->softcap
                                       : part->softcap;
    }
    return load_wide(scales);
}

/** Half a group, the rows from `row` of the part on: finds the maximum of the
 *  products that they see, and their distances from it in powers of two. */
static void exact_differences(const workspace *work,
                              const es_entropy_part *part, int row, int half,
                              const seen *keys)
{
    const wide inner = exact_scales(part, part->first + row + half, true);
    const wide scale = splat_wide(1.44269504088896341) *
                       exact_scales(part, part->first + row + half, false);
    double *products = work->exact_products + half;
    wide top = load_wide(work->exact_top + row + half);
    for (int c = keys->begin; c < keys->end; c++) {
        wide x = load_wide(products + c * LANES);
        if (part->softcap > 0)
            x = exact_tanh(x, inner);
        for (int r = 0; r < WIDE; r++)
            if (c < keys->first[half + r] || c >= keys->n[half + r])
                x[r] = -INFINITY;
        top = larger_wide(x, top);
        store_wide(products + c * LANES, x);
    }
    store_wide(work->exact_top + row + half, top);
    for (int c = keys->begin; c < keys->end; c++) {
        const wide x = (load_wide(products + c * LANES) - top) * scale;
        const narrow difference = __builtin_convertvector(x, narrow);
        memcpy(work->products + c * GROUP + half, &difference,
               sizeof difference);
    }
}

/** Row `row`, lane `r`: its state, once a chunk has been summed. */
static void exact_merge(const workspace *work, const es_entropy_part *part,
                        int row, double old_top, const row_sums *sums, int r)
{
    const double scale =
        1.44269504088896341 *
        (part->softcap > 0 ? part->softcap : es_scale(part, part->first + row));
    const double weight = work->exact_weight[row];
    const double x = weight > 0 ? (old_top - work->exact_top[row]) * scale : 0;
    const double factor = exp2(x);
    work->exact_spread[row] = (work->exact_spread[row] + x * weight) * factor +
                              (double)sums->spread[r];
    work->exact_weight[row] = weight * factor + (double)sums->weight[r];
    work->exact_far[row] = work->exact_far[row] * factor + (double)sums->far[r];
}

/** Adds a chunk, keys from j on, to the rows of a group that are blurred. */
static void exact_absorb(const workspace *work, const es_entropy_part *part,
                         int i, int j, const seen *keys,
                         const bool blurred[LANES])
{
    const int row = i - part->first;
    const weighing by = {splat(0), splat(1),
                         places_of(work, part, i, j, keys->end)};
    double old_top[LANES];
    memcpy(old_top, work->exact_top + row, sizeof old_top);
    exact_differences(work, part, row, 0, keys);
    exact_differences(work, part, row, WIDE, keys);
    if (j == 0)
        memcpy(work->exact_first + row, work->exact_products, sizeof old_top);
    const row_sums sums = sum_keys(work->products, &by, keys);
    for (int r = 0; r < LANES && i + r < part->end; r++)
        if (blurred[r] && keys->first[r] < keys->n[r])
            exact_merge(work, part, row + r, old_top[r], &sums, r);
}

/** One group against the packed keys [first, end). */
static void exact_group(const workspace *work, const es_entropy_part *part,
                        int i, int first, int end, const bool blurred[LANES])
{
    int j;
    group_range(part, i, LANES, first, &j, &end);
    if (j < end)
        copy_queries(work, part, i, LANES);
    for (; j < end; j += CHUNK) {
        const seen keys = seen_keys(part, i, j, min_int(end, j + CHUNK));
        for (int c = 0; c < keys.end; c += EXACT_KEYS)
            exact_tile(work->exact_products + c * LANES, work->queries,
                       packed_key(work, j - first + c, part->width),
                       part->width);
        exact_absorb(work, part, i, j, &keys, blurred);
    }
}

static void exact_finish(const workspace *work, const es_entropy_part *part,
                         int row)
{
    const double inner = es_scale(part, part->first + row);
    const double scale = part->softcap > 0 ? part->softcap : inner;
    const double top = work->exact_top[row], weight = work->exact_weight[row];
    const double spread = work->exact_spread[row] / weight;
    const double entropy = log(weight) - spread * 0.693147180559945309;
    es_ref_row out = {.entropy = entropy > 0 ? entropy : 0,
                      .lse = top * scale + log(weight),
                      .max_logit = top * scale,
                      .distance = work->exact_far[row] / weight,
                      .top = 1 / weight};
    if (es_keys_begin(part->keys, part->first + row) == 0)
        out.sink = exp((work->exact_first[row] - top) * scale) / weight;
    if (part->rows.missing)
        out.missing = es_sink_share(part, out.lse);
    es_rows_store(&part->rows, (size_t)row, &out, true);
}

/** The rows that are blurred, with all their keys. */
APART void exact_rows(workspace *work, const es_entropy_part *part, int begin,
                      int n_keys, int block, const bool *blurred)
{
    const int n_rows = part->end - part->first;
    for (int r = 0; r < (n_rows + LANES - 1) / LANES * LANES; r++) {
        work->exact_top[r] = -INFINITY;
        work->exact_weight[r] = work->exact_spread[r] = work->exact_far[r] = 0;
    }
    for (int first = begin; first < n_keys; first += block) {
        const int end = min_int(first + block, n_keys);
        if (n_keys - begin > block || work->is_split) /* else still there */
            pack_keys(work, part, first, end);
        for (int r = 0; r < n_rows && !es_is_late(part); r += LANES)
            for (int i = r; i < r + LANES && i < n_rows; i++)
                if (blurred[i]) {
                    exact_group(work, part, part->first + r, first, end,
                                blurred + r);
                    break;
                }
    }
    for (int r = 0; r < n_rows; r++)
        if (blurred[r])
            exact_finish(work, part, r);
}
