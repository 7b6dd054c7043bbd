/**
 * Rows that float32 products blur, once more; part of entropy_qk.inc.h.
 *
 * A float32 product q.k is off by about 2^-24 of |q| |k|. Where scores are
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
#define MOST_BLUR 4e-6F

/** May row `row` of the part be off by more than MOST_BLUR? A change d_j of
 *  its scores changes e by -sum a_j (ln a_j + e) d_j. */
static bool is_blurred(const workspace *work, const es_entropy_part *part,
                       int row, float entropy, float top_weight)
{
    const float scale = part->softcap > 0
                            ? work->inner[row] * (float)part->softcap
                            : work->scale[row];
    const float reach = sqrtf(work->length[row]) * sqrtf(work->longest_key);
    const float blur = 0x1p-24F * (reach * scale + (float)part->softcap);
    const float peaked = 1.5F * entropy;
    const float flat = sqrtf(top_weight) * (1 + entropy);
    return !(blur * (peaked < flat ? peaked : flat) < MOST_BLUR);
}

static inline wide load_wide(const double *from)
{
    wide v;
    memcpy(&v, from, sizeof v);
    return v;
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

/** Row `row` of the part: its products [first, n), and its state. */
static void exact_absorb(const workspace *work, const es_entropy_part *part,
                         int row, double *products, int first, int n,
                         const places *at)
{
    const double softcap = part->softcap;
    const double inner = es_scale(part, part->first + row);
    const double scale = 1.44269504088896341 * (softcap > 0 ? softcap : inner);
    float *differences = work->products;
    double top = work->exact_top[row];
    for (int j = 0; j < n && softcap > 0; j++)
        products[j] = tanh(products[j] * inner / softcap);
    for (int j = first; j < n; j++)
        top = products[j] > top ? products[j] : top;
    for (int j = 0; j < n; j++)
        differences[j] = (float)((products[j] - top) * scale);
    row_sums sums = {splat(0), splat(0), splat(0)};
    if (at->wanted)
        add_far_row(&sums, differences, first, n, splat(0), splat(1), at);
    else
        add_row(&sums, differences, first, n, splat(0), splat(1));
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
            const places at = places_of(part, i + r, j);
            if (!blurred[r] || from[r] >= n[r])
                continue;
            exact_absorb(work, part, row + r, work->exact_products + r * CHUNK,
                         from[r], n[r], &at);
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
static void exact_rows(workspace *work, const es_entropy_part *part, int begin,
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
