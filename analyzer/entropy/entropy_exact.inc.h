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

/** Products of TILE queries with one panel. */
static void exact_tile(double *out, const float *q, ptrdiff_t q_row,
                       const float *panel, int width)
{
    wide a[TILE], b[TILE];
    UNROLL
    for (int r = 0; r < TILE; r++)
        a[r] = b[r] = splat_wide(0);
    for (int d = 0; d < width; d++, q++, panel += LANES) {
        const wide k0 = widen(panel), k1 = widen(panel + WIDE);
        UNROLL
        for (int r = 0; r < TILE; r++) {
            const wide x = splat_wide((double)q[r * q_row]);
            a[r] = add_product(x, k0, a[r]);
            b[r] = add_product(x, k1, b[r]);
        }
    }
    UNROLL
    for (int r = 0; r < TILE; r++) {
        memcpy(out + r * CHUNK, &a[r], sizeof a[r]);
        memcpy(out + r * CHUNK + WIDE, &b[r], sizeof b[r]);
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

/** tanh of `scale` times each of n products. */
static void exact_cap(double *products, int n, double scale)
{
    for (int j = 0; j < n; j += WIDE) {
        wide x;
        memcpy(&x, products + j, sizeof x);
        x *= splat_wide(scale);
        const wide_int negative = x < splat_wide(0);
        wide size = (wide)((wide_int)x & INT64_MAX);
        const wide_int is_large = size > splat_wide(40);
        size = (wide)(((wide_int)size & ~is_large) |
                      ((wide_int)splat_wide(40) & is_large));
        const wide e = wide_exp(splat_wide(-2) * size);
        const wide y = (splat_wide(1) - e) / (splat_wide(1) + e);
        x = (wide)((wide_int)y | (negative & INT64_MIN));
        memcpy(products + j, &x, sizeof x);
    }
}

/** Row `row` of the part: its products [first, n) with keys from j on, and its
 *  state. */
static void exact_absorb(const workspace *work, const es_entropy_part *part,
                         int row, int j, int first, int n, double *products)
{
    const double softcap = part->softcap;
    const double inner = es_scale(part, part->first + row);
    const double scale = 1.44269504088896341 * (softcap > 0 ? softcap : inner);
    const int i = part->first + row;
    float *differences = work->products;
    double top = work->exact_top[row];
    if (softcap > 0)
        exact_cap(products, n, inner / softcap);
    for (int c = first; c < n; c++)
        top = products[c] > top ? products[c] : top;
    for (int c = 0; c < n; c++)
        differences[c] = (float)((products[c] - top) * scale);
    row_sums sums = {splat(0), splat(0), splat(0)};
    if (part->rows.distance) {
        const places at = places_of(part, i, j, true);
        add_row(&sums, differences, first, n, splat(0), splat(1), &at);
    } else {
        const places at = places_of(part, i, j, false);
        add_row(&sums, differences, first, n, splat(0), splat(1), &at);
    }
    const double x =
        work->exact_weight[row] > 0 ? (work->exact_top[row] - top) * scale : 0;
    const double factor = exp2(x);
    work->exact_spread[row] =
        (work->exact_spread[row] + x * work->exact_weight[row]) * factor +
        (double)sum_lanes(sums.spread);
    work->exact_weight[row] =
        work->exact_weight[row] * factor + (double)sum_lanes(sums.weight);
    work->exact_far[row] =
        work->exact_far[row] * factor + (double)sum_lanes(sums.far);
    work->exact_top[row] = top;
}

/** One group against the packed keys [first, end). */
static void exact_group(const workspace *work, const es_entropy_part *part,
                        int i, int first, int end, const bool blurred[LANES])
{
    const int width = part->width, row = i - part->first;
    int from[LANES], n[LANES], j;
    group_range(part, i, first, &j, &end);
    if (j < end)
        copy_queries(work, part, i);
    for (; j < end; j += CHUNK) {
        const int last = min_int(end, j + CHUNK);
        const float *panels = work->keys + (ptrdiff_t)(j - first) * width;
        seen_keys(from, n, part, i, j, last);
        for (int r = 0; r < LANES && i + r < part->end; r += TILE)
            for (int c = 0; c < last - j; c += LANES)
                exact_tile(work->exact_products + r * CHUNK + c,
                           work->queries + r * work->q_row, work->q_row,
                           panels + (ptrdiff_t)c * width, width);
        for (int r = 0; r < LANES && i + r < part->end; r++) {
            if (!blurred[r] || from[r] >= n[r])
                continue;
            exact_absorb(work, part, row + r, j, from[r], n[r],
                         work->exact_products + r * CHUNK);
            if (j == 0)
                work->exact_first[row + r] = work->exact_products[r * CHUNK];
        }
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
    for (int r = 0; r < n_rows; r++) {
        work->exact_top[r] = -INFINITY;
        work->exact_weight[r] = work->exact_spread[r] = work->exact_far[r] = 0;
    }
    for (int first = begin; first < n_keys; first += block) {
        const int end = min_int(first + block, n_keys);
        if (n_keys - begin > block) /* else they are still there */
            pack_keys(work, part, first, end);
        for (int r = 0; r < n_rows; r += LANES)
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
