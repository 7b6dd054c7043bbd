/**
 * Recomputes rows for which float32 products are not accurate enough; part of
 * entropy_qk.inc.h.
 *
 * A float32 product q.k has an error of about 2^-24 * |q| * |k|, or more if
 * some channels are much larger than the others. If scores are large, and the
 * row is neither flat nor one-hot, the entropy has an error of the same size.
 * The functions in this file compute the products, and their differences from
 * the largest product of the row, in double. Only differences up to about 30
 * matter, because larger ones give negligible weights, and float32 represents
 * differences up to 30 to 1e-6.
 */

/* A vector of double has half as many lanes as a vector of float. */
typedef double wide __attribute__((vector_size(4 * LANES)));
typedef int64_t wide_int __attribute__((vector_size(4 * LANES)));
typedef float narrow __attribute__((vector_size(2 * LANES)));
#define WIDE (LANES / 2)

/* Estimated error of the entropy, in nats, above which a row is recomputed. */
#define MOST_BLUR 2.5e-6F

/**
 * Returns the squared error that fixed-point arithmetic adds to a score, in
 * units of 2^-48 (see reach_of). Each number is rounded to 2^-23 of the largest
 * number in its row. The error from the omitted products of low digits is not
 * included, because it is no larger than the error that find_blurred already
 * assumes for float32 products: 0.2 times the head's width times the largest
 * product.
 */
static inline vec fixed_reach(const workspace *work, int row)
{
    const vec height = load(work->height + row);
    const vec of_keys =
        load(work->length + row) * splat(work->highest_key * work->highest_key);
    const vec of_queries = height * height * splat(work->longest_key);
    return (of_keys + of_queries) * splat(1.0F / 3);
}

/**
 * Returns the number of partial float32 sums that one large summand can make
 * inaccurate. If a vector has more than STRETCH numbers, the products of each
 * STRETCH numbers are summed separately, and then these sums are added.
 */
static inline int sums_of(const workspace *work, int width)
{
    return work->form == AS_FLOATS && width > STRETCH
               ? STRETCH + width / STRETCH
               : width;
}

/** Returns the squared factor that turns products into scores. */
static inline vec square_scale(const workspace *work,
                               const es_entropy_part *part, int row)
{
    const vec inner = load(work->inner + row);
    const float cap = part->softcap > 0 ? (float)part->softcap : 1;
    return inner * inner * splat(cap) * splat(cap);
}

/**
 * Returns the estimated squared error of scores, in units of 2^-48. The error
 * has three sources. If an outlying channel is added early, its rounding error
 * affects all later partial sums. If the vectors are alike, partial sums grow
 * steadily up to the logit. If one half of a head cancels the other half,
 * partial sums grow up to half of |q| * |k|. AMX tiles add with more bits, so
 * their errors are smaller.
 */
static vec reach_of(const workspace *work, const es_entropy_part *part, int row,
                    vec outlying, vec logit)
{
    const bool in_turn = work->form == AS_FLOATS;
    const vec length = load(work->length + row) * splat(work->longest_key);
    const vec cap = splat((float)part->softcap);
    vec reach = length * splat(in_turn ? 0.5F : 1.0F / 3);
    if (work->form == AS_FIXED)
        reach += fixed_reach(work, row);
    reach = multiply_add(reach, square_scale(work, part, row), outlying);
    if (part->softcap > 0)
        reach = splat(2) * (reach + smaller(cap * cap, reach));
    if (in_turn)
        reach +=
            logit * logit * splat(0.08F * (float)sums_of(work, part->width));
    return reach;
}

/**
 * Finds the rows whose entropy may have an error above MOST_BLUR, in the group
 * of rows that begins with `row`. Errors d_j of the scores change the entropy e
 * by -sum a_j * (ln a_j + e) * d_j, where a_j are the row's attention weights.
 * The function adds up squared errors. Its factors were chosen so that the
 * error stays below 1e-5 for every family of inputs in the tests. The largest
 * logit may have an error of 5e-7 relative to the size of its products.
 * Outlying channels can exceed this, and fixed point has the same absolute
 * error for a small logit as for a large one.
 */
static void find_blurred(const workspace *work, const es_entropy_part *part,
                         int row, vec entropy, vec top_weight,
                         bool blurred[LANES])
{
    const vec logit = load(work->top + row) * load(work->scale + row);
    const vec height = load(work->height + row) * splat(work->highest_key);
    const vec outlying = height * height * square_scale(work, part, row) *
                         splat(0.2F * (float)sums_of(work, part->width));
    const vec reach = reach_of(work, part, row, outlying, logit);
    const vec peaked = splat(2.25F) * entropy * entropy;
    const vec flat = top_weight * (splat(1) + entropy) * (splat(1) + entropy);
    vec square = reach * smaller(peaked, flat);
    const vec beside = multiply_add(size_of(logit), splat(0.05F), splat(1));
    square = larger(outlying / (beside * beside), square);
    if (work->form == AS_FIXED) {
        const vec size = splat(1) + size_of(logit);
        square = larger(reach / (size * size), square);
    }
    float squares[LANES];
    store(squares, square);
    for (int r = 0; r < LANES; r++)
        blurred[r] = !(squares[r] < MOST_BLUR * MOST_BLUR * 0x1p48F);
}

static inline wide widen_floats(const float *from)
{
    narrow v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, wide);
}

static inline wide splat_wide(double value)
{
    return value - (wide){0};
}

/**
 * Returns a * b + c without rounding the product a * b first (a fused
 * multiply-add).
 */
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

static inline wide choose_wide(wide_int which, wide a, wide b)
{
    return (wide)(((wide_int)a & which) | ((wide_int)b & ~which));
}

static inline wide larger_wide(wide a, wide b)
{
    return choose_wide(a > b, a, b);
}

/* Number of keys of a tile that are processed together; a divisor of TILE.
   Their sums fill the registers. */
#if defined(ES_VECTOR_AVX512)
#define EXACT_KEYS TILE
#else
#define EXACT_KEYS (TILE / 3)
#endif

/** Converts LANES floats to double. `to` may equal `from`. */
static inline void widen_lanes(double *to, const float *from)
{
    const wide low = widen_floats(from), high = widen_floats(from + WIDE);
    store_wide(to, low);
    store_wide(to + WIDE, high);
}

/** Converts LANES packed queries (D,LANES) from float to double in place. */
static const double *widen_queries(const workspace *work, int width)
{
    double *const out = (double *)(void *)work->queries;
    for (int d = 0; d < width; d++)
        widen_lanes(out + (ptrdiff_t)d * LANES, work->queries + d * GROUP);
    return out;
}

/** Computes the dot products of LANES queries with EXACT_KEYS keys of a
 *  tile. */
static void exact_tile(double *out, const double *queries, const float *tile,
                       int width)
{
    wide a[EXACT_KEYS], b[EXACT_KEYS];
    UNROLL
    for (int r = 0; r < EXACT_KEYS; r++)
        a[r] = b[r] = splat_wide(0);
    for (int d = 0; d < width; d += LANES, tile += TILE * LANES) {
        double keys[EXACT_KEYS * LANES];
        const int n = min_int(LANES, width - d);
        for (int r = 0; r < EXACT_KEYS; r++)
            widen_lanes(keys + r * LANES, tile + r * LANES);
        for (int c = 0; c < n; c++, queries += LANES) {
            const wide q0 = load_wide(queries), q1 = load_wide(queries + WIDE);
            UNROLL
            for (int r = 0; r < EXACT_KEYS; r++) {
                const wide x = splat_wide(keys[r * LANES + c]);
                a[r] = add_product(x, q0, a[r]);
                b[r] = add_product(x, q1, b[r]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < EXACT_KEYS; r++) {
        store_wide(out + r * LANES, a[r]);
        store_wide(out + r * LANES + WIDE, b[r]);
    }
}

/**
 * Returns exp(x) for -700 <= x <= 0: 2^n times the power series of the
 * remainder.
 */
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

/**
 * Returns tanh(scale * x) with a relative error below 1e-12. The relative error
 * matters, because the small values of tanh are multiplied by a softcap that
 * may be much larger than the scores.
 */
static wide exact_tanh(wide x, wide scale)
{
    x *= scale;
    const wide_int negative = x < splat_wide(0);
    wide size = (wide)((wide_int)x & INT64_MAX);
    const wide_int is_small = size < splat_wide(1e-3);
    size = choose_wide(size > splat_wide(40), splat_wide(40), size);
    const wide e = wide_exp(splat_wide(-2) * size), square = size * size;
    const wide large = (splat_wide(1) - e) / (splat_wide(1) + e);
    const wide series = splat_wide(2.0 / 15) * square - splat_wide(1.0 / 3);
    const wide y = choose_wide(is_small, series * square * size + size, large);
    return (wide)((wide_int)y | (negative & INT64_MIN));
}

/**
 * Returns the factors that turn products into scores, for the WIDE rows that
 * begin with row i. With a softcap these are the factors before the tanh (if
 * `inner` is true) or after the tanh; without a softcap they are the scale.
 */
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

/**
 * Processes the half group of queries that begins with the part's row `row`.
 * Finds the largest product that each row sees, and converts the products to
 * differences from this largest product, in units of ln 2, so that 2^difference
 * is the weight.
 */
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
        if (c < keys->whole || c >= keys->split)
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

/**
 * Merges the sums of a chunk of keys into the running sums of row `row`, which
 * is in lane `r`.
 */
static void exact_merge(const workspace *work, const es_entropy_part *part,
                        int row, double old_top, const row_sums *sums, int r)
{
    const double scale =
        1.44269504088896341 *
        (part->softcap > 0 ? part->softcap : es_scale(part, part->first + row));
    const double weight = work->exact_sums[ES_SUM_WEIGHT][row];
    const double x = weight > 0 ? (old_top - work->exact_top[row]) * scale : 0;
    const double factor = exp2(x);
    work->exact_sums[ES_SUM_MOMENT][row] += x * weight;
    for (int s = 0; s < ES_N_ROW_SUMS; s++)
        work->exact_sums[s][row] =
            work->exact_sums[s][row] * factor + (double)sums->of[s][r];
}

/**
 * Adds a chunk of keys, from key j on, to the sums of those rows of a group
 * that find_blurred has marked as too inaccurate.
 */
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

/**
 * Adds the packed keys [first, end) to the sums of those rows of a group that
 * find_blurred has marked as too inaccurate.
 */
static void exact_group(const workspace *work, const es_entropy_part *part,
                        int i, int first, int end, const bool blurred[LANES])
{
    const double *queries;
    int j;
    group_range(part, i, LANES, first, &j, &end);
    if (j >= end)
        return;
    copy_queries(work, part, i, LANES);
    queries = widen_queries(work, part->width);
    for (; j < end; j += CHUNK) {
        const seen keys = seen_keys(part, i, j, min_int(end, j + CHUNK));
        for (int c = 0; c < keys.end; c += EXACT_KEYS)
            exact_tile(work->exact_products + c * LANES, queries,
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
    const double top = work->exact_top[row];
    const double weight = work->exact_sums[ES_SUM_WEIGHT][row];
    const double spread = work->exact_sums[ES_SUM_MOMENT][row] / weight;
    const double entropy = log(weight) - spread * 0.693147180559945309;
    es_ref_row out = {.values = {[ES_ROW_ENTROPY] = entropy > 0 ? entropy : 0,
                                 [ES_ROW_LSE] = top * scale + log(weight),
                                 [ES_ROW_MAX_LOGIT] = top * scale,
                                 [ES_ROW_TOP] = 1 / weight}};
    for (int s = ES_SUM_FIRST_MEAN; s < ES_N_ROW_SUMS; s++)
        out.values[es_row_sum_statistic(s)] = work->exact_sums[s][row] / weight;
    if (es_keys_begin(part->keys, part->first + row) == 0)
        out.values[ES_ROW_SINK] =
            exp((work->exact_first[row] - top) * scale) / weight;
    if (part->rows.floats[ES_ROW_MISSING])
        out.values[ES_ROW_MISSING] =
            es_sink_share(part, out.values[ES_ROW_LSE]);
    es_rows_store(&part->rows, (size_t)row, &out);
}

/** Recomputes the rows that find_blurred has marked, with all their keys. */
APART void exact_rows(workspace *work, const es_entropy_part *part, int begin,
                      int n_keys, int block, const bool *blurred)
{
    const int n_rows = part->end - part->first;
    for (int r = 0; r < (n_rows + LANES - 1) / LANES * LANES; r++) {
        work->exact_top[r] = -INFINITY;
        for (int s = 0; s < ES_N_ROW_SUMS; s++)
            work->exact_sums[s][r] = 0;
    }
    for (int first = begin; first < n_keys; first += block) {
        const int end = min_int(first + block, n_keys);
        if (n_keys - begin > block ||
            work->form != AS_FLOATS) /* in the form AS_FLOATS the keys are still
                                        packed as floats */
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
