/**
 * The kernels from queries and keys; part of entropy_kernels.inc.h.
 *
 * LANES keys make a packed panel (D,LANES), LANES queries a group. The products
 * q.k of a group and up to CHUNK keys are computed in register tiles of TILE
 * queries and PANELS panels, and kept in the first-level cache; then each row
 * goes over its products once for the maximum and once for the sums. With m
 * the largest product so far, x_j = (q.k_j - m) log2(e) scale <= 0 and p_j =
 * 2^x_j:
 *
 *   weight = sum p_j,  spread = sum p_j x_j,  far = sum p_j |p - j|
 *   e = ln 2 (log2 weight - spread / weight)
 *   lse = m scale + ln weight
 *
 * With a softcap c, products become tanh(q.k scale / c), and their scale is c.
 * Rows that float32 products blur are done again by entropy_exact.inc.h.
 */

#include "analyzer/entropy/entropy_pack.inc.h"

#define LOWEST_EXPONENT (-126.0F) /* smaller weights count as 1e-38 */

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
APART void multiply(float *out, const float *q, ptrdiff_t q_row,
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

/** tanh(x), absolute error below 1.2e-7, relative below 2e-7 for small x; NaN
 *  for NaN. */
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

/** Puts n products of a row through tanh. What is not finite stays so. */
static void cap_products(float *products, int n, float scale)
{
    for (int j = 0; j < n; j += LANES) {
        vec s = load(products + j);
        store(products + j,
              multiply_add(s, splat(0), vec_tanh(s * splat(scale))));
    }
}

/** Lanes [first, end) of a, the others of b. Both may lie outside. */
static inline vec choose_between(int first, int end, vec a, vec b)
{
    vec low = choose_first(clamp_int(end, 0, LANES), a, b);
    return choose_first(clamp_int(first, 0, LANES), b, low);
}

/** Largest of products [first, n), in LANES parts, -inf where there are fewer.
 *  *damage: zeros, but NaN somewhere if a product is not finite. */
static inline vec row_top(const float *products, int first, int n, vec *damage)
{
    vec top = splat(-INFINITY), bad = splat(0), nought = splat(0);
    int j = first / LANES * LANES;
    if (j < first) {
        vec s = load(products + j);
        top = choose_between(first - j, n - j, s, top);
        s = choose_between(first - j, n - j, s, nought);
        bad = multiply_add(s, nought, bad);
        j += LANES;
    }
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

/** Where the keys of a row's products stand, seen from its query. */
typedef struct places {
    bool wanted;      /* else the rest is unused */
    const int *index; /* of the keys, or NULL: one after the other */
    int64_t position; /* of the query; without an index from the first key */
} places;

/** |p - j| of LANES keys from number j on, of which n are there. */
static inline vec distances(const places *at, int j, int n)
{
    float away[LANES];
    for (int r = 0; r < LANES; r++) {
        const int64_t key =
            at->index ? at->index[j + min_int(r, n - 1)] : j + r;
        away[r] = (float)(at->position - key);
    }
    return (vec)((ivec)load(away) & 0x7fffffff);
}

/** The sums of a row's latest keys, in LANES parts. */
typedef struct row_sums {
    vec weight, spread, far;
} row_sums;

INLINED void add_products(row_sums *sums, vec p, vec x, const places *at, int j,
                          int n)
{
    sums->weight += p;
    sums->spread = multiply_add(p, x, sums->spread);
    if (at->wanted)
        sums->far = multiply_add(p, distances(at, j, n), sums->far);
}

/** Adds products [first, n) to the sums. at->wanted is a constant, so that
 *  distances cost only those who want them. */
INLINED void add_row(row_sums *sums, const float *products, int first, int n,
                     vec top, vec scale, const places *at)
{
    const vec nought = splat(0);
    int j = first / LANES * LANES;
    if (j < first) {
        vec x = exponent(load(products + j), top, scale);
        x = choose_between(first - j, n - j, x, nought);
        vec p = choose_between(first - j, n - j, vec_exp2(x), nought);
        add_products(sums, p, x, at, j, n - j);
        j += LANES;
    }
    for (; j + LANES <= n; j += LANES) {
        vec x = exponent(load(products + j), top, scale);
        add_products(sums, vec_exp2(x), x, at, j, LANES);
    }
    if (j < n) {
        vec x = exponent(load(products + j), top, scale);
        x = choose_first(n - j, x, nought);
        vec p = choose_first(n - j, vec_exp2(x), nought);
        add_products(sums, p, x, at, j, n - j);
    }
}

/** The keys of a block from j on, seen from row i. */
INLINED places places_of(const es_entropy_part *part, int i, int j, bool wanted)
{
    const int *index = part->keys->index;
    const int64_t position = (int64_t)part->keys->offset + i;
    if (!wanted)
        return (places){.wanted = false};
    return (places){.wanted = true,
                    .index = index ? index + j : NULL,
                    .position = index ? position : position - j};
}

/** Brings the sums of a group from their old maximum to the new one, and adds
 *  what its latest keys give. */
static inline void merge(const workspace *work, int row, vec top, vec scale,
                         const row_sums *more)
{
    vec weight = load(work->weight + row);
    vec spread = load(work->spread + row);
    vec x = exponent(load(work->top + row), top, scale);
    vec factor = vec_exp2(x);
    vec far = multiply_add(load(work->far + row), factor, more->far);
    spread = multiply_add(weight, x, spread);
    store(work->weight + row, multiply_add(weight, factor, more->weight));
    store(work->spread + row, multiply_add(spread, factor, more->spread));
    store(work->far + row, far);
    store(work->top + row, top);
}

/** Adds the products of a group, rows from i on, with keys from j on to the
 *  state of its rows, of which row r sees [first[r], n[r]). */
INLINED void absorb_of(const workspace *work, const es_entropy_part *part,
                       int i, int j, const int first[LANES], const int n[LANES],
                       bool wanted)
{
    const int row = i - part->first;
    vec weights[LANES], spreads[LANES], fars[LANES], tops[LANES];
    float new_top[LANES], exponent_scale[LANES];
    for (int r = 0; r < LANES; r++)
        tops[r] =
            row_top(work->products + r * CHUNK, first[r], n[r], &spreads[r]);
    vec top = larger(largest_of_rows(tops), load(work->top + row));
    vec scale = load(work->scale + row) * splat(LOG2_E);
    store(new_top, top);
    store(exponent_scale, scale);
    for (int r = 0; r < LANES; r++) {
        const places at = places_of(part, i + r, j, wanted);
        row_sums sums = {splat(0), spreads[r], splat(0)};
        add_row(&sums, work->products + r * CHUNK, first[r], n[r],
                splat(new_top[r]), splat(exponent_scale[r]), &at);
        weights[r] = sums.weight;
        spreads[r] = sums.spread;
        fars[r] = sums.far;
    }
    row_sums more = {sum_rows(weights), sum_rows(spreads), splat(0)};
    if (wanted)
        more.far = sum_rows(fars);
    merge(work, row, top, scale, &more);
}

APART void absorb(const workspace *work, const es_entropy_part *part, int i,
                  int j, const int first[LANES], const int n[LANES])
{
    absorb_of(work, part, i, j, first, n, false);
}

APART void absorb_far(const workspace *work, const es_entropy_part *part, int i,
                      int j, const int first[LANES], const int n[LANES])
{
    absorb_of(work, part, i, j, first, n, true);
}

/** Keys [j, end) as the rows of a group from i on see them, counted from j;
 *  none of the rows beyond the part. */
static void seen_keys(int first[LANES], int n[LANES],
                      const es_entropy_part *part, int i, int j, int end)
{
    for (int r = 0; r < LANES; r++) {
        first[r] = n[r] = 0;
        if (i + r >= part->end)
            continue;
        first[r] = clamp_int(es_keys_begin(part->keys, i + r), j, end) - j;
        n[r] = clamp_int(es_keys_end(part->keys, i + r), j, end) - j;
    }
}

/** Keys [*j, *end) of a block are all that a group sees; *j is where a panel
 *  begins. */
static inline void group_range(const es_entropy_part *part, int i, int first,
                               int *j, int *end)
{
    const int last = min_int(i + LANES, part->end) - 1;
    const int begin = es_keys_begin(part->keys, i);
    *end = min_int(*end, es_keys_end(part->keys, last));
    *j = first + (begin > first ? (begin - first) / LANES * LANES : 0);
}

/** Is a row of the group from i on wanted? */
static bool is_group_wanted(const es_entropy_part *part, int i)
{
    for (int r = i; r < i + LANES && r < part->end; r++)
        if (es_is_wanted(part, r))
            return true;
    return false;
}

/** One group, rows from i on, against the packed keys [first, end). */
static void group_keys(const workspace *work, const es_entropy_part *part,
                       int i, int first, int end)
{
    int width = part->width, row = i - part->first, j;
    int n_rows = min_int(LANES, part->end - i), from[LANES], n[LANES];
    group_range(part, i, first, &j, &end);
    if (j >= end || !is_group_wanted(part, i))
        return;
    copy_queries(work, part, i);
    for (; j < end; j += CHUNK) {
        seen_keys(from, n, part, i, j, min_int(end, j + CHUNK));
        for (int r = 0; r < n_rows; r += TILE)
            multiply(work->products + r * CHUNK,
                     work->queries + r * work->q_row, work->q_row,
                     work->keys + (ptrdiff_t)(j - first) * width, width,
                     n[min_int(r + TILE, n_rows) - 1]);
        for (int r = 0; r < n_rows && part->softcap > 0; r++)
            cap_products(work->products + r * CHUNK, n[r],
                         work->inner[row + r]);
        for (int r = 0; r < n_rows && j == 0; r++)
            work->first[row + r] = work->products[r * CHUNK];
        if (part->rows.distance)
            absorb_far(work, part, i, j, from, n);
        else
            absorb(work, part, i, j, from, n);
    }
}

static void start_rows(const workspace *work, const es_entropy_part *part)
{
    float *const zeros[] = {work->weight, work->spread, work->far,
                            work->length, work->height, work->first};
    const int n = part->end - part->first;
    double scale = es_scale(part, part->first);
    for (int r = 0; r < n; r += LANES) {
        store(work->top + r, splat(-INFINITY));
        for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++)
            store(zeros[i] + r, splat(0));
    }
    for (int r = 0; r < n; r++) {
        if (part->temperature)
            scale = es_scale(part, part->first + r);
        /* Never 0, as an infinite t would make it: the maximum before the
           first key is -inf. A NaN stays. */
        work->inner[r] = (float)scale < FLT_MIN ? FLT_MIN : (float)scale;
        work->scale[r] = work->inner[r];
        if (part->softcap > 0 && !isnan(scale)) {
            work->inner[r] = (float)(scale / part->softcap);
            work->scale[r] = (float)part->softcap;
        }
    }
}

#include "analyzer/entropy/entropy_exact.inc.h"

/** What is written of a group. */
typedef struct group_rows {
    float entropy[LANES], lse[LANES], max_logit[LANES], sink[LANES];
    float missing[LANES], distance[LANES], top[LANES];
    int32_t nonfinite[LANES];
} group_rows;

/** Row r of a group in place of what was computed. */
static void replace_row(group_rows *group, int r, const es_ref_row *row)
{
    const es_rows rows = {.entropy = group->entropy,
                          .lse = group->lse,
                          .max_logit = group->max_logit,
                          .sink = group->sink,
                          .nonfinite = group->nonfinite,
                          .missing = group->missing,
                          .distance = group->distance,
                          .top = group->top};
    es_rows_store(&rows, (size_t)r, row, true);
}

static void copy_floats(float *to, const float *from, int row, int n)
{
    if (to)
        memcpy(to + row, from, (size_t)n * sizeof *to);
}

static void write_group(const es_rows *rows, const group_rows *group, int row,
                        int n)
{
    copy_floats(rows->entropy, group->entropy, row, n);
    copy_floats(rows->lse, group->lse, row, n);
    copy_floats(rows->max_logit, group->max_logit, row, n);
    copy_floats(rows->sink, group->sink, row, n);
    copy_floats(rows->missing, group->missing, row, n);
    copy_floats(rows->distance, group->distance, row, n);
    copy_floats(rows->top, group->top, row, n);
    if (rows->nonfinite)
        memcpy(rows->nonfinite + row, group->nonfinite,
               (size_t)n * sizeof *rows->nonfinite);
}

/** Rows that have no numbers, or others than were computed. */
static void mend_group(const es_entropy_part *part, int i, int n,
                       group_rows *group, bool blurred[LANES])
{
    const bool broken = es_sink_is_broken(part);
    for (int r = 0; r < n; r++) {
        if (!isfinite(group->entropy[r]) || !isfinite(group->lse[r]) ||
            broken) {
            const es_ref_row row =
                es_ref_row_nonfinite(es_visible_keys(part->keys, i + r));
            replace_row(group, r, &row);
            blurred[r] = false;
            continue;
        }
        blurred[r] = blurred[r] && es_is_wanted(part, i + r);
        if (es_keys_begin(part->keys, i + r) > 0)
            group->sink[r] = 0;
        if (part->sink_logit && part->rows.missing)
            group->missing[r] =
                (float)es_sink_share(part, (double)group->lse[r]);
    }
}

/** Writes the results of a group, rows from i on, and notes rows that are
 *  blurred. */
APART void finish_group(const workspace *work, const es_entropy_part *part,
                        int i, bool blurred[LANES])
{
    const int row = i - part->first, n = min_int(LANES, part->end - i);
    vec top = load(work->top + row), scale = load(work->scale + row);
    vec weight = load(work->weight + row);
    vec log_weight = vec_log2(weight) * splat(LN2);
    vec spread = load(work->spread + row) / weight * splat(LN2);
    vec x = exponent(load(work->first + row), top, scale * splat(LOG2_E));
    vec entropy = larger(splat(0), log_weight - spread);
    vec largest = splat(1) / weight;
    group_rows group = {.missing = {0}};
    store(group.entropy, entropy);
    store(group.max_logit, top * scale);
    store(group.lse, multiply_add(top, scale, log_weight));
    store(group.sink, vec_exp2(x) / weight);
    store(group.distance, load(work->far + row) / weight);
    store(group.top, largest);
    find_blurred(work, part, row, entropy, largest, blurred);
    mend_group(part, i, n, &group, blurred);
    write_group(&part->rows, &group, row, n);
}

static void qk_rows(const es_entropy_part *part, float *scratch)
{
    workspace work = carve(scratch, part->width);
    bool blurred[ES_QK_ROWS + LANES], any = false;
    const int begin = es_keys_begin(part->keys, part->first) / LANES * LANES;
    const int n_keys = es_keys_end(part->keys, part->end - 1);
    const int block = es_qk_block(part->keys->n, part->width);
    start_rows(&work, part);
    for (int first = begin; first < n_keys; first += block) {
        int end = min_int(first + block, n_keys);
        pack_keys(&work, part, first, end);
        for (int i = part->first; i < part->end; i += LANES)
            group_keys(&work, part, i, first, end);
    }
    for (int i = part->first; i < part->end; i += LANES)
        finish_group(&work, part, i, blurred + (i - part->first));
    for (int r = 0; r < part->end - part->first; r++)
        any = any || blurred[r];
    if (any)
        exact_rows(&work, part, begin, n_keys, block, blurred);
}
