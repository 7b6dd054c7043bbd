/**
 * Implements the kernels that compute statistics from queries and keys. Part of
 * entropy_kernels.inc.h.
 *
 * Each lane holds a query, two vectors of queries are a group, and TILE keys
 * are a packed tile. Products q.k of a group and up to CHUNK keys are computed
 * in register tiles of one group and TILE keys, and kept in the first-level
 * cache. Then the kernel passes over the products of LANES rows at once, first
 * for the maximum and then for the sums. With m the largest product so far, t
 * the position of the query, x_j = (q.k_j - m) * log2(e) * scale <= 0 and p_j =
 * 2^x_j:
 *
 *   weight = sum p_j,  spread = sum p_j * x_j,  distance = sum p_j * |t - j|
 *   e = ln 2 * (log2 weight - spread / weight)
 *   lse = m * scale + ln weight
 *
 * With a softcap c, products become tanh(q.k * scale / c), and their scale is
 * c. entropy_exact.inc.h recomputes rows for which float32 products are not
 * accurate enough ("blurred" rows).
 */

#include "analyzer/entropy/entropy_products.inc.h"

/* Smallest base-2 exponent of a weight; 2^-126 is about 1e-38. */
#define LOWEST_EXPONENT (-126.0F)

/**
 * Returns tanh(x) with an absolute error below 1.2e-7 and, for small x, a
 * relative error below 2e-7. Returns NaN for NaN.
 */
static inline vec vec_tanh(vec x)
{
    const vec size = (vec)((ivec)x & 0x7fffffff), square = x * x;
    vec e = vec_exp2(smaller(splat(60), size * splat(2 * LOG2_E)));
    vec large = splat(1) - splat(2) / (e + splat(1));
    vec p = splat(-0.0062742134F);
    p = multiply_add(p, square, splat(0.0210716591F));
    p = multiply_add(p, square, splat(-0.0538523046F));
    p = multiply_add(p, square, splat(0.133325861F));
    p = multiply_add(p, square, splat(-0.333333176F));
    p = multiply_add(p * square, size, size);
    vec value = choose(size < splat(0.55F), p, large);
    return (vec)((uvec)value | ((uvec)x & 0x80000000U));
}

/**
 * Applies tanh to n products of every row. Non-finite products are not changed.
 */
static void cap_products(float *products, int n, vec scale)
{
    for (float *end = products + n * GROUP; products < end; products += GROUP) {
        const vec s = load(products);
        store(products, multiply_add(s, splat(0), vec_tanh(s * scale)));
    }
}

/* --- sums -------------------------------------------------------------------
 */

/**
 * The keys of a chunk (at most CHUNK keys that are processed together) that the
 * rows of a group see: row r sees the keys first[r] to n[r] - 1, and all rows
 * see the keys `whole` to `split` - 1. No row sees keys outside `begin` to
 * `end` - 1.
 */
typedef struct seen {
    /* Indices of keys, relative to the start of the chunk; begin <= whole <=
       split <= end. */
    int begin, whole, split, end;
    int32_t first[LANES], n[LANES];
} seen;

/**
 * Returns which of the keys [j, end) are seen by each row of the group that
 * begins with row i; key indices in the result are relative to j. Lanes beyond
 * the end of the part repeat its last row.
 */
static seen seen_keys(const es_entropy_part *part, int i, int j, int end)
{
    seen out;
    for (int r = 0; r < LANES; r++) {
        const int row = min_int(i + r, part->end - 1);
        out.first[r] = clamp_int(es_keys_begin(part->keys, row), j, end) - j;
        out.n[r] = clamp_int(es_keys_end(part->keys, row), j, end) - j;
    }
    out.begin = out.first[0];
    out.end = out.n[LANES - 1];
    out.whole = min_int(out.first[LANES - 1], out.end);
    out.split = out.n[0] > out.whole ? out.n[0] : out.whole;
    return out;
}

/** Returns a mask with all bits set in the lanes of rows that see key c. */
static inline ivec who_sees(const seen *keys, int c)
{
    ivec first, n;
    memcpy(&first, keys->first, sizeof first);
    memcpy(&n, keys->n, sizeof n);
    return (ivec)(first <= c) & (ivec)(n > c);
}

/**
 * Returns the products of LANES rows with key c. In the lanes of rows that do
 * not see the key, returns `other`.
 */
INLINED vec seen_product(const float *products, const seen *keys, int c,
                         float other)
{
    return choose(who_sees(keys, c), load(products + c * GROUP), splat(other));
}

/** Returns the largest product of each row; -inf for a row that sees no key. */
INLINED vec largest_product(const float *products, const seen *keys)
{
    vec top[4];
    int c = keys->begin;
    for (int i = 0; i < 4; i++)
        top[i] = splat(-INFINITY);
    for (; c < keys->whole; c++)
        top[0] = larger(seen_product(products, keys, c, -INFINITY), top[0]);
    for (; c + 4 <= keys->split; c += 4)
        for (int i = 0; i < 4; i++)
            top[i] = larger(load(products + (c + i) * GROUP), top[i]);
    for (; c < keys->split; c++)
        top[0] = larger(load(products + c * GROUP), top[0]);
    for (; c < keys->end; c++)
        top[0] = larger(seen_product(products, keys, c, -INFINITY), top[0]);
    return larger(larger(top[0], top[1]), larger(top[2], top[3]));
}

/**
 * Returns 0, or NaN in the lanes of rows that see a non-finite product. The
 * check is needed only for products of -inf, because NaN and +inf make a row's
 * sums non-finite anyway.
 */
APART vec find_damage(const float *products, const seen *keys)
{
    vec damage = splat(0);
    for (int c = keys->begin; c < keys->end; c++)
        damage =
            multiply_add(seen_product(products, keys, c, 0), splat(0), damage);
    return damage;
}

/**
 * Returns true if a product of a query and a key may overflow, for one of the
 * queries in the group that begins at `row`.
 */
static bool may_overflow(const workspace *work, int row)
{
    const vec reach = load(work->length + row) * splat(work->longest_key);
    return !(largest_lane(reach) < 1e37F);
}

/**
 * Returns the base-2 exponents of the weights, (product - top) * scale, where
 * `scale` includes log2(e).
 */
static inline vec exponent(vec product, vec top, vec scale)
{
    return larger(splat(LOWEST_EXPONENT), (product - top) * scale);
}

/** Sums over the keys of one chunk, for a group of rows; see es_row_sum. */
typedef struct row_sums {
    vec of[ES_N_ROW_SUMS];
} row_sums;

/**
 * Parameters of the sums for a group of rows: the largest products and the
 * scales, which turn products into exponents, and the positions of keys
 * relative to the group's first row. `places` is NULL if distances are not
 * requested.
 */
typedef struct weighing {
    vec top, scale;
    const float *places;
} weighing;

static inline vec lane_numbers(void)
{
    vec out;
    for (int r = 0; r < LANES; r++)
        out[r] = (float)r;
    return out;
}

/** Adds the weights of key c to the sums of a group of rows. */
INLINED void add_key(row_sums *sums, const float *products, int c,
                     const weighing *by, const seen *keys, bool far)
{
    vec x = exponent(load(products + c * GROUP), by->top, by->scale);
    vec p = vec_exp2(x);
    if (keys) {
        const ivec visible = who_sees(keys, c);
        x = choose(visible, x, splat(0));
        p = choose(visible, p, splat(0));
    }
    sums->of[ES_SUM_WEIGHT] += p;
    sums->of[ES_SUM_MOMENT] = multiply_add(p, x, sums->of[ES_SUM_MOMENT]);
    if (far)
        sums->of[ES_SUM_DISTANCE] =
            multiply_add(p, size_of(lane_numbers() - splat(by->places[c])),
                         sums->of[ES_SUM_DISTANCE]);
}

/**
 * Adds the weights of a chunk's keys to the sums of a group of rows. `far`
 * (true: also sum the distances) is a compile-time constant, so that distances
 * cost nothing unless they are requested.
 */
INLINED void add_keys(row_sums *sums, const float *products, const weighing *by,
                      const seen *keys, bool far)
{
    int c = keys->begin;
    for (; c < keys->whole; c++)
        add_key(sums, products, c, by, keys, far);
    for (; c < keys->split; c++)
        add_key(sums, products, c, by, NULL, far);
    for (; c < keys->end; c++)
        add_key(sums, products, c, by, keys, far);
}

APART void add_weights_alone(row_sums *sums, const float *products,
                             const weighing *by, const seen *keys)
{
    add_keys(sums, products, by, keys, false);
}

APART void add_weights_and_distances(row_sums *sums, const float *products,
                                     const weighing *by, const seen *keys)
{
    add_keys(sums, products, by, keys, true);
}

/** Returns the sums over a chunk for a group of rows. */
static row_sums sum_keys(const float *products, const weighing *by,
                         const seen *keys)
{
    row_sums sums;
    for (int s = 0; s < ES_N_ROW_SUMS; s++)
        sums.of[s] = splat(0);
    if (by->places)
        add_weights_and_distances(&sums, products, by, keys);
    else
        add_weights_alone(&sums, products, by, keys);
    return sums;
}

/**
 * Returns the positions of the n keys from key j on, relative to the position
 * of row i; NULL if distances are not requested.
 */
static const float *places_of(const workspace *work,
                              const es_entropy_part *part, int i, int j, int n)
{
    const int *index = part->keys->index;
    const int64_t position = (int64_t)part->keys->offset + i;
    if (!part->rows.floats[ES_ROW_DISTANCE])
        return NULL;
    for (int c = 0; c < n; c++)
        work->places[c] =
            (float)((index ? index[j + c] : (int64_t)j + c) - position);
    return work->places;
}

/**
 * Takes the products of the group of rows that begins with row i and the keys
 * from key j on, and adds them to the running sums of these rows.
 */
static void absorb(const workspace *work, const es_entropy_part *part, int i,
                   int j, const float *products, const seen *keys)
{
    const int row = i - part->first;
    const vec old = load(work->top + row);
    const vec weight = load(work->sums[ES_SUM_WEIGHT] + row);
    const weighing by = {larger(largest_product(products, keys), old),
                         load(work->scale + row) * splat(LOG2_E),
                         places_of(work, part, i, j, keys->end)};
    row_sums sums = sum_keys(products, &by, keys);
    if (may_overflow(work, row))
        sums.of[ES_SUM_MOMENT] += find_damage(products, keys);
    /* Rescale the sums from the old maximum to the new one. Before the first
       key the sums are 0 and there is no old maximum. */
    const vec x =
        choose(weight == splat(0), splat(0), exponent(old, by.top, by.scale));
    const vec factor = vec_exp2(x);
    for (int s = 0; s < ES_N_ROW_SUMS; s++) {
        vec sum = load(work->sums[s] + row);
        if (s == ES_SUM_MOMENT)
            sum = multiply_add(weight, x, sum);
        store(work->sums[s] + row, multiply_add(sum, factor, sums.of[s]));
    }
    store(work->top + row, by.top);
}

/* --- groups -----------------------------------------------------------------
 */

/**
 * Narrows the range of keys [*j, *end) to the keys that at least one of the
 * rows i .. i + n - 1 sees. *j remains at the start of a tile.
 */
static inline void group_range(const es_entropy_part *part, int i, int n,
                               int first, int *j, int *end)
{
    const int last = min_int(i + n, part->end) - 1;
    const int begin = es_keys_begin(part->keys, i);
    *end = min_int(*end, es_keys_end(part->keys, last));
    *j =
        first + (begin > first ? (begin - first) / ES_QK_TILE * ES_QK_TILE : 0);
}

/**
 * Returns true if statistics are wanted for at least one row of the group that
 * begins with row i.
 */
static bool is_group_wanted(const es_entropy_part *part, int i)
{
    for (int r = i; r < i + GROUP && r < part->end; r++)
        if (es_is_wanted(part, r))
            return true;
    return false;
}

/**
 * Adds a chunk of keys, from key j on, to the sums of the LANES rows that begin
 * with row i.
 */
static void group_chunk(const workspace *work, const es_entropy_part *part,
                        int i, int j, float *products, const seen *keys)
{
    const int row = i - part->first;
    if (part->softcap > 0)
        cap_products(products, keys->end, load(work->inner + row));
    if (j == 0)
        store(work->first + row, load(products));
    absorb(work, part, i, j, products, keys);
}

/**
 * Processes the group of rows that begins with row i, with the packed keys
 * [first, end). Returns false if the group has numbers that AMX tiles cannot
 * represent.
 */
static bool group_keys(const workspace *work, const es_entropy_part *part,
                       int i, int first, int end, ahead *next)
{
    int j;
    group_range(part, i, GROUP, first, &j, &end);
    if (j >= end || !is_group_wanted(part, i))
        return true;
    if (!take_queries(work, part, i))
        return false;
    for (; j < end; j += CHUNK) {
        const int last = min_int(end, j + CHUNK);
        const seen keys[] = {seen_keys(part, i, j, last),
                             seen_keys(part, i + LANES, j, last)};
        take_products(work, part, j - first, (int[]){keys[0].end, keys[1].end},
                      next);
        group_chunk(work, part, i, j, work->products, &keys[0]);
        if (i + LANES < part->end)
            group_chunk(work, part, i + LANES, j, work->products + LANES,
                        &keys[1]);
    }
    return true;
}

static void start_rows(const workspace *work, const es_entropy_part *part)
{
    float *const zeros[] = {work->length, work->height, work->first};
    const int n = part->end - part->first;
    double scale = es_scale(part, part->first);
    for (int r = 0; r < n; r += LANES) {
        store(work->top + r, splat(-INFINITY));
        for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++)
            store(zeros[i] + r, splat(0));
        for (int s = 0; s < ES_N_ROW_SUMS; s++)
            store(work->sums[s] + r, splat(0));
    }
    for (int r = 0; r < n; r++) {
        if (part->temperature)
            scale = es_scale(part, part->first + r);
        /* An infinite temperature would make this factor 0. The factor must not
         * be 0, because the maximum before the first key is -inf, and 0 times
         * -inf is NaN. A NaN stays NaN. */
        work->inner[r] = (float)scale < FLT_MIN ? FLT_MIN : (float)scale;
        work->scale[r] = work->inner[r];
        if (part->softcap > 0 && !isnan(scale)) {
            work->inner[r] = (float)(scale / part->softcap);
            work->scale[r] = (float)part->softcap;
        }
    }
}

#include "analyzer/entropy/entropy_exact.inc.h"

/** Statistics of the rows of a group, indexed as in es_row_arrays. */
typedef struct group_rows {
    float floats[ES_N_ROW_STATISTICS][LANES];
    int32_t nonfinite[LANES];
} group_rows;

/** Replaces the statistics of row r of a group by the statistics in `row`. */
static void replace_row(group_rows *group, int r, const es_ref_row *row)
{
    es_row_arrays rows = {.nonfinite = group->nonfinite};
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        rows.floats[i] = group->floats[i];
    es_rows_store(&rows, (size_t)r, row);
}

static void write_group(const es_row_arrays *rows, const group_rows *group,
                        int row, int n)
{
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (rows->floats[i])
            memcpy(rows->floats[i] + row, group->floats[i],
                   (size_t)n * sizeof *group->floats[i]);
    if (rows->nonfinite)
        memcpy(rows->nonfinite + row, group->nonfinite,
               (size_t)n * sizeof *rows->nonfinite);
}

/**
 * Corrects the statistics of non-finite rows, and statistics that a window or a
 * learnt sink changes.
 */
static void mend_group(const es_entropy_part *part, int i, int n,
                       group_rows *group, bool blurred[LANES])
{
    const bool broken = es_sink_is_broken(part);
    for (int r = 0; r < n; r++) {
        const float lse = group->floats[ES_ROW_LSE][r];
        if (!isfinite(group->floats[ES_ROW_ENTROPY][r]) || !isfinite(lse) ||
            broken) {
            const es_ref_row row =
                es_ref_row_nonfinite(es_visible_keys(part->keys, i + r));
            replace_row(group, r, &row);
            blurred[r] = false;
            continue;
        }
        blurred[r] = blurred[r] && es_is_wanted(part, i + r);
        if (es_keys_begin(part->keys, i + r) > 0)
            group->floats[ES_ROW_SINK][r] = 0;
        if (part->sink_logit && part->rows.floats[ES_ROW_MISSING])
            group->floats[ES_ROW_MISSING][r] =
                (float)es_sink_share(part, (double)lse);
    }
}

/**
 * Computes and stores the statistics of the group of rows that begins with row
 * i, and marks the rows that are too inaccurate and must be recomputed in
 * double.
 */
APART void finish_group(const workspace *work, const es_entropy_part *part,
                        int i, bool blurred[LANES])
{
    const int row = i - part->first, n = min_int(LANES, part->end - i);
    vec top = load(work->top + row), scale = load(work->scale + row);
    vec weight = load(work->sums[ES_SUM_WEIGHT] + row);
    vec log_weight = vec_log2(weight) * splat(LN2);
    vec spread = load(work->sums[ES_SUM_MOMENT] + row) / weight * splat(LN2);
    vec x = exponent(load(work->first + row), top, scale * splat(LOG2_E));
    vec entropy = larger(splat(0), log_weight - spread);
    vec largest = splat(1) / weight;
    group_rows group = {.nonfinite = {0}};
    store(group.floats[ES_ROW_ENTROPY], entropy);
    store(group.floats[ES_ROW_MAX_LOGIT], top * scale);
    store(group.floats[ES_ROW_LSE], multiply_add(top, scale, log_weight));
    store(group.floats[ES_ROW_SINK], vec_exp2(x) / weight);
    store(group.floats[ES_ROW_TOP], largest);
    for (int s = ES_SUM_FIRST_MEAN; s < ES_N_ROW_SUMS; s++)
        store(group.floats[es_row_sum_statistic(s)],
              load(work->sums[s] + row) / weight);
    find_blurred(work, part, row, entropy, largest, blurred);
    mend_group(part, i, n, &group, blurred);
    write_group(&part->rows, &group, row, n);
}

/**
 * Processes all rows of a part. Returns false if the part has numbers that AMX
 * tiles cannot represent, or if the time limit has passed.
 */
static bool do_rows(workspace *work, const es_entropy_part *part)
{
    ahead next = start_ahead(part);
    bool blurred[ES_QK_ROWS + LANES], any = false;
    const int begin = es_keys_begin(part->keys, part->first) / LANES * LANES;
    const int n_keys = es_keys_end(part->keys, part->end - 1);
    const int block = es_qk_block(part->keys->n, part->width);
    start_rows(work, part);
    for (int first = begin; first < n_keys; first += block) {
        const int end = min_int(first + block, n_keys);
        if (!take_keys(work, part, first, end))
            return false;
        for (int i = part->first; i < part->end; i += GROUP)
            if (es_is_late(part) ||
                !group_keys(work, part, i, first, end, &next))
                return false;
    }
    for (int i = part->first; i < part->end; i += LANES)
        finish_group(work, part, i, blurred + (i - part->first));
    for (int r = 0; r < part->end - part->first; r++)
        any = any || blurred[r];
    if (any)
        exact_rows(work, part, begin, n_keys, block, blurred);
    return true;
}

#ifdef MATRIX_TILES
/**
 * Same as do_rows, but with AMX tiles. Also returns false if the part's width
 * or scales do not suit AMX tiles.
 */
static bool do_split_rows(workspace *work, const es_entropy_part *part)
{
    if (!can_split(part))
        return false;
    work->form = is_fixed(part) ? AS_FIXED : AS_HALVES;
    es_tiles_configure();
    const bool done = do_rows(work, part);
    _tile_release();
    return done;
}
#endif

static void qk_rows(const es_entropy_part *part, float *scratch)
{
    workspace work = carve_workspace(scratch, part->width);
#ifdef MATRIX_TILES
    if (do_split_rows(&work, part))
        return;
    work = carve_workspace(scratch, part->width);
#endif
    do_rows(&work, part);
}
