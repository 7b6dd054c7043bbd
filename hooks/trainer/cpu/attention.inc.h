/**
 * Attention of one head of one sequence; part of kernels.inc.h.
 *
 * Queries lie along the lanes: a tile is ROWS = 2 LANES consecutive queries by
 * all their keys, stored key by key, so that maximum, sum, entropy and mask
 * of a row are plain vector operations, and no product needs a sum over
 * lanes. Three products serve both directions:
 *
 *     tile_products   tile[j][i] = sum_c xt[c][i] y[j][c]     q . k, dy . v
 *     tile_gather     xt[c][i]   = sum_j tile[j][i] y[j][c]   outputs, dq
 *     tile_scatter    y[j][c]   += sum_i tile[j][i] x[i][c]   dk, dv
 *
 * Masked weights are 0. Since 0 * NaN is NaN, a head that holds anything
 * non-finite takes the `careful` form of the last two, which leaves masked
 * positions out altogether.
 */

#include "hooks/trainer/cpu/tiles.inc.h"

/* --- what the kinds of attention differ in ------------------------------ */

/*
 * The weights
 * of a row of scores s are a = u / D, D = rest + sum u, with
 *
 *     softmax        u = exp(s - m)   m = max s     rest = 0
 *     PowerSoftmax   u = (s / m)^p    m = max |s|   rest = eps (c / m)^p
 *
 * where c = m + 1e-6 is the specification's: the same weights as with s / c,
 * but no row is so small that its powers vanish. `length`: eps L, L the keys of
 * the row or T, in the place of eps. Two more take scores as they are:
 *
 *     plain power    u = s^p         rest = eps, eps L
 *     scaled ReLU    u = max(0, s)   D = L, rest = L - sum u
 *
 * A plain power whose D, or its inverse, float does not hold is NaN throughout
 * rather than what is left of it. All else is one formula. With
 * l = ln u, S = sum u, u' = du/ds, g the gradient of a, w that of the entropy
 * e, which is of the weights b = u / S that sum to one, <x> = sum a x:
 *
 *     1 - sum a = rest / D
 *     e  = -sum b ln b = ln S - sum b l      0 where nothing has weight
 *     ds = u' / D [(g - <g>) - w D / S (l - sum b l)]
 *
 * PowerSoftmax's m is constant in the backward pass. D of scaled ReLU is one,
 * so that its <g> counts as 0.
 */

/* Below this the largest score counts as this: its inverse is finite. */
#define TINY_SCORE 1e-30f
/* Beside a rest above this nothing has weight; it and its inverse are
 * finite. */
#define LARGE_REST 1e37f

/* Of one score: u and ln u; slope is du/ds, for PowerSoftmax times m / p. */
typedef struct raw_weight {
    vec u, log, slope;
} raw_weight;

/* x^n, n even. */
static inline vec raise(vec x, int n)
{
    vec y = splat(1), square = x * x;
    for (int rest = n / 2; rest > 0; rest /= 2) {
        if (rest % 2)
            y *= square;
        square *= square;
    }
    return y;
}

/* power 0: softmax, and `anchor` is m; else it is 1 / m. The logarithm of a
 * power that has vanished is finite, and its product with u is 0. */
static inline raw_weight weigh(vec score, vec anchor, int power)
{
    if (power == 0) {
        vec x = score - anchor, u = vec_exp(x);
        return (raw_weight){u, x, u};
    }
    if (power == ES_CPU_RELU) {
        const vec u = larger(splat(0), score); /* a NaN stays one */
        vec slope = choose(score <= splat(0), splat(0), score);
        slope = choose(score > splat(0), splat(1), slope);
        return (raw_weight){u, vec_log(u), slope};
    }
    vec x = score * anchor;
    vec slope = raise(x, power - 2) * x, u = slope * x;
    return (raw_weight){u, vec_log(u), slope};
}

/* What is known of the rows of a tile; one vector a half. */
typedef struct row_state {
    vec largest;   /* score; PowerSoftmax: the largest absolute one */
    vec m, anchor; /* m, and what weigh wants of it */
    vec length;    /* L, or 1 */
    vec rest;
    vec sum, divisor; /* of u; D */
    vec moment;       /* sum of u ln u */
    /* Of the scores themselves: sums of (score - shift) / unit, and of its
     * square. */
    vec shift, unit, apart, apart_squares;
} row_state;

/* From the largest score, the largest absolute one and the number of keys. */
static inline row_state anchor_rows(vec largest, vec size, vec n_keys,
                                    int power, const es_cpu_head *head)
{
    row_state row = {.largest = largest, .m = largest, .anchor = largest};
    if (power == 0)
        return row;
    row.largest = power == ES_CPU_RELU ? largest : size;
    row.m = larger(splat(TINY_SCORE), size);
    row.anchor = head->plain ? splat(1) : splat(1) / row.m;
    row.length = head->length == ES_LENGTH_VISIBLE   ? n_keys
                 : head->length == ES_LENGTH_CONTEXT ? splat((float)head->n_ctx)
                                                     : splat(1);
    row.rest = splat(0);
    if (head->epsilon > 0) {
        const vec c = head->plain ? splat(1) : size + splat(1e-6f);
        row.rest =
            splat(head->epsilon) * row.length * raise(c * row.anchor, power);
        row.rest = smaller(splat(LARGE_REST), row.rest);
    }
    return row;
}

/* D, once the sum of u is known. */
static inline void close_sum(row_state *row, int power, const es_cpu_head *head)
{
    if (power == ES_CPU_RELU) {
        row->rest = row->length - row->sum;
        row->divisor = row->length;
        return;
    }
    row->divisor = row->sum + row->rest;
    if (power && head->plain) { /* 0, or NaN if D or 1 / D is not finite */
        const vec spoilt = splat(0) * (row->divisor + splat(1) / row->divisor);
        row->sum += spoilt;
        row->divisor += spoilt;
    }
}

/* --- rows ----------------------------------------------------------------- */

static inline row_state open_tile(const float *tile, int n_full, int n_keys,
                                  int half, int power, const es_cpu_head *head)
{
    vec largest = load(tile + half * LANES), size = larger(largest, -largest);
    for (int j = 1; j < n_keys; j++) {
        vec s = load(tile + j * ROWS + half * LANES);
        if (j >= n_full)
            s = choose(visible(j - n_full, half), s, largest);
        largest = larger(largest, s);
        if (power)
            size = larger(size, larger(s, -s));
    }
    vec n_visible = splat((float)(n_full + half * LANES + 1));
    for (int i = 0; power && i < LANES; i++)
        n_visible[i] += (float)i;
    return anchor_rows(largest, size, n_visible, power, head);
}

/* Scores become u; masked ones 0. */
static inline void tile_weigh(float *tile, row_state *row, int n_full,
                              int n_keys, int half, int power,
                              const es_cpu_head *head, bool measure)
{
    row->sum = row->moment = splat(0);
    for (int j = 0; j < n_keys; j++) {
        float *at = tile + j * ROWS + half * LANES;
        raw_weight w = weigh(load(at), row->anchor, power);
        if (j >= n_full) {
            ivec seen = visible(j - n_full, half);
            w.u = choose(seen, w.u, splat(0));
            w.log = choose(seen, w.log, splat(0));
        }
        row->sum += w.u;
        if (measure)
            row->moment += w.u * w.log;
        store(at, w.u);
    }
    close_sum(row, power, head);
}

/* Scores are measured from one of their own, so that those that lie far from 0
 * do not cancel; PowerSoftmax's, which may be of any size, by the largest. */
static inline vec open_scores(row_state *row, vec first, int power)
{
    row->shift = power ? first : row->m;
    row->unit = power ? row->m : splat(1);
    row->apart = row->apart_squares = splat(0);
    return splat(1) / row->unit;
}

static void sum_scores(const float *tile, row_state *row, int n_full,
                       int n_keys, int half, int power)
{
    const vec factor = open_scores(row, load(tile + half * LANES), power);
    for (int j = 0; j < n_keys; j++) {
        vec x = (load(tile + j * ROWS + half * LANES) - row->shift) * factor;
        if (j >= n_full)
            x = choose(visible(j - n_full, half), x, splat(0));
        row->apart += x;
        row->apart_squares += x * x;
    }
}

static inline vec logit_mean(const row_state *row, vec n_keys)
{
    return row->shift + row->unit * (row->apart / n_keys);
}

static inline vec logit_variance(const row_state *row, vec n_keys)
{
    const vec mean = row->apart / n_keys;
    const vec square = row->apart_squares / n_keys;
    return row->unit * (row->unit * larger(splat(0), square - mean * mean));
}

static void store_row(const es_cpu_head *head, es_row_statistic statistic,
                      int first, vec values, int n)
{
    if (head->rows[statistic])
        store_part(head->rows[statistic] + first, values, n);
}

/* What takes a pass of its own over the weights: only where it is wanted. */
static void measure_keys(const es_cpu_head *head, const float *tile,
                         const row_state *row, int first, int n_keys, int n)
{
    vec away = splat((float)first), top = splat(0), distance = splat(0);
    if (!head->rows[ES_ROW_DISTANCE] && !head->rows[ES_ROW_TOP])
        return;
    for (int i = 0; i < LANES; i++)
        away[i] += (float)i;
    for (int j = 0; j < n_keys; j++) {
        const vec u = load(tile + j * ROWS);
        top = larger(top, u);
        distance += u * away;
        away -= splat(1);
    }
    store_row(head, ES_ROW_DISTANCE, first, distance / row->divisor, n);
    store_row(head, ES_ROW_TOP, first, top / row->divisor, n);
}

static inline vec row_entropy(const row_state *row, int power)
{
    if (power == 0)
        return (row->sum * vec_log(row->divisor) - row->moment) / row->divisor;
    return choose(row->sum == splat(0), row->sum / row->divisor,
                  vec_log(row->sum) - row->moment / row->sum);
}

/* Returns the variances: of softmax one that float does not hold is done again
 * in double. */
static vec measure_scores(const es_cpu_head *head, const row_state *row,
                          int first, int n)
{
    vec n_keys = splat((float)(first + 1));
    for (int i = 0; i < LANES; i++)
        n_keys[i] += (float)i;
    const vec variance = logit_variance(row, n_keys);
    store_row(head, ES_ROW_LOGIT_MEAN, first, logit_mean(row, n_keys), n);
    store_row(head, ES_ROW_LOGIT_VARIANCE, first, variance, n);
    return variance;
}

static bool is_huge(const es_cpu_head *head, int i)
{
    const float *variance = head->rows[ES_ROW_LOGIT_VARIANCE];
    return variance && !head->power && !isfinite(variance[i]);
}

/* Statistics of queries first .. of the tile; rows that are not finite are
 * done again, one by one, by the definition. */
static void measure_rows(const es_cpu_head *head, const float *tile,
                         const row_state *row, int first, int n_keys, int n)
{
    const int part = n - first < LANES ? n - first : LANES;
    const vec logarithm = vec_log(row->divisor);
    const vec entropy = row_entropy(row, head->power);
    if (part <= 0)
        return;
    store_row(head, ES_ROW_ENTROPY, first, entropy, part);
    store_row(head, ES_ROW_LSE, first, row->largest + logarithm, part);
    store_row(head, ES_ROW_MAX_LOGIT, first, row->largest, part);
    store_row(head, ES_ROW_SINK, first, load(tile) / row->divisor, part);
    store_row(head, ES_ROW_NONFINITE, first, splat(0), part);
    store_row(head, ES_ROW_MISSING, first, row->rest / row->divisor, part);
    measure_keys(head, tile, row, first, n_keys, part);
    vec odd = spot_nonfinite(spot_nonfinite(splat(0), entropy), row->largest);
    if (head->rows[ES_ROW_LOGIT_MEAN])
        odd = spot_nonfinite(odd, measure_scores(head, row, first, part));
    for (int i = first; !is_zero(odd) && i < first + part; i++)
        if (!isfinite(entropy[i - first]) ||
            !isfinite(row->largest[i - first]) || is_huge(head, i))
            es_cpu_measure_row(head, i);
}

/* --- forward -------------------------------------------------------------- */

static inline void weigh_half(float *tile, row_state *row, int n_full,
                              int n_keys, int half, int power,
                              const es_cpu_head *head, bool measure,
                              bool of_scores)
{
    *row = open_tile(tile, n_full, n_keys, half, power, head);
    if (measure && of_scores)
        sum_scores(tile, row, n_full, n_keys, half, power);
    tile_weigh(tile, row, n_full, n_keys, half, power, head, measure);
}

/* Weights of one block of queries, before the division by their sum. What is
 * constant in a call is known where it is inlined. */
static void weigh_block(const es_cpu_head *head, workspace *w, row_state row[2],
                        int first, int n_keys)
{
    const int power = head->power;
    const bool measure = head->rows[ES_ROW_ENTROPY];
    const bool of_scores = head->rows[ES_ROW_LOGIT_MEAN];
    for (int half = 0; half < 2; half++) {
        row_state *to = &row[half];
        if (power == 0 && measure)
            weigh_half(w->tile, to, first, n_keys, half, 0, head, true,
                       of_scores);
        else if (power == 0)
            weigh_half(w->tile, to, first, n_keys, half, 0, head, false, false);
        else if (measure)
            weigh_half(w->tile, to, first, n_keys, half, power, head, true,
                       of_scores);
        else
            weigh_half(w->tile, to, first, n_keys, half, power, head, false,
                       false);
    }
}

static void write_outputs(const es_cpu_head *head, const workspace *w,
                          const row_state row[2], int first, int n)
{
    float scale[ROWS];
    store(scale, splat(1) / row[0].divisor);
    store(scale + LANES, splat(1) / row[1].divisor);
    write_block(head->y + (size_t)first * head->y_stride, w, scale, n,
                head->width, head->y_stride);
    for (int i = 0; i < n; i++) {
        float *saved = head->saved + 2 * (first + i);
        saved[0] = row[i / LANES].m[i % LANES];
        saved[1] = row[i / LANES].divisor[i % LANES];
    }
}

static void attention(const es_cpu_head *head)
{
    workspace w = open_workspace(head);
    row_state row[2];
    pack_keys(&w, head);
    for (int first = 0; first < head->n_ctx; first += ROWS) {
        int n = head->n_ctx - first < ROWS ? head->n_ctx - first : ROWS;
        int n_keys = round_up(first + n, KEYS);
        pack_queries(&w, head, first, n, NULL);
        tile_scores(head, &w, -INFINITY, n_keys);
        weigh_block(head, &w, row, first, n_keys);
        for (int half = 0; half < 2 && head->rows[ES_ROW_ENTROPY]; half++)
            measure_rows(head, w.tile + half * LANES, &row[half],
                         first + half * LANES, n_keys, first + n);
        tile_gather(w.xt, w.tile, w.v, first, n_keys, w.narrow, w.careful);
        write_outputs(head, &w, row, first, n);
    }
}

/* --- backward ------------------------------------------------------------- */

/* <g> of each row: dy . y. */
static void mean_gradient(float out[ROWS], const es_cpu_head *head,
                          const workspace *w, int first, int n)
{
    const float *y = head->y + (size_t)first * head->y_stride;
    memset(out, 0, ROWS * sizeof *out);
    for (int i = 0; i < n; i++, y += head->y_stride) {
        vec sum = splat(0);
        for (int c = 0; c < head->width; c += LANES) {
            int part = head->width - c < LANES ? head->width - c : LANES;
            sum += load(w->dy + i * w->wide + c) * load_part(y + c, part, 0);
        }
        out[i] = sum_lanes(sum);
    }
}

/* What a row needs to turn a score and g into the gradient of the score. */
typedef struct row_gradient {
    vec anchor;    /* of weigh */
    vec inverse;   /* 1 / D */
    vec steepness; /* what slope is multiplied with; PowerSoftmax */
    vec mean_g;    /* what g is compared with */
    vec weight;    /* w, dL/de; PowerSoftmax: w / S, */
    vec center;    /* and sum b l */
    vec scale;     /* of q . k */
} row_gradient;

/* Adds the part of the entropies: g becomes g - w l; scores in the tile. Its
 * mean is taken anew from the weights. Under a small temperature a row is
 * often one weight of 1; its g - <g> then is exactly 0, which dy . y, summed
 * in another order, is not, and 1/t would make something of what is left.
 * Scores become weights, and l, if anything wants it, goes to
 * `logs`. */
static inline void tile_add_entropy(float *tile, float *dtile, float *logs,
                                    row_gradient *row, int n_full, int n_keys,
                                    int half)
{
    vec mean = splat(0);
    for (int j = 0; j < n_keys; j++) {
        float *s_at = tile + j * ROWS + half * LANES;
        float *g_at = dtile + j * ROWS + half * LANES;
        raw_weight w = weigh(load(s_at), row->anchor, 0);
        vec g = load(g_at) - row->weight * w.log;
        vec a = w.u * row->inverse, more = a * g;
        if (j >= n_full) {
            ivec seen = visible(j - n_full, half);
            more = choose(seen, more, splat(0));
        }
        mean += more;
        store(g_at, g);
        store(s_at, a);
        if (logs)
            store(logs + j * ROWS + half * LANES, w.log);
    }
    row->mean_g = mean;
}

/* The same of PowerSoftmax, whose entropy is of weights u / S: S and the mean
 * of l take a pass, and g stays as it is, beside which D / S may be large. */
static inline void open_power_entropy(const float *tile, row_gradient *row,
                                      int n_full, int n_keys, int half,
                                      int power)
{
    vec sum = splat(0), moment = splat(0);
    for (int j = 0; j < n_keys; j++) {
        raw_weight w =
            weigh(load(tile + j * ROWS + half * LANES), row->anchor, power);
        vec u = w.u, more = u * w.log;
        if (j >= n_full) {
            ivec seen = visible(j - n_full, half);
            u = choose(seen, u, splat(0));
            more = choose(seen, more, splat(0));
        }
        sum += u;
        moment += more;
    }
    row->weight = choose(sum == splat(0), splat(0), row->weight / sum);
    row->center = choose(sum == splat(0), splat(0), moment / sum);
}

/* tile: scores become weights; dtile: g becomes ds times scale, the gradient
 * of q . k. Returns sum ds s of softmax, where s may be shifted by the row's
 * maximum since the ds of a row sum to 0. `entropy`: after tile_add_entropy or
 * open_power_entropy. */
static inline vec tile_gradient(float *tile, float *dtile, const float *logs,
                                const row_gradient *row, int n_full, int n_keys,
                                int half, int power, bool entropy)
{
    const bool weighed = entropy && power == 0;
    vec dot = splat(0);
    for (int j = 0; j < n_keys; j++) {
        float *s_at = tile + j * ROWS + half * LANES;
        float *g_at = dtile + j * ROWS + half * LANES;
        raw_weight w = {.log = splat(0)};
        vec a = load(s_at);
        if (weighed && logs)
            w.log = load(logs + j * ROWS + half * LANES);
        if (!weighed) {
            w = weigh(a, row->anchor, power);
            a = w.u * row->inverse;
        }
        vec ds = (power ? row->inverse : a) * (load(g_at) - row->mean_g);
        if (power && entropy)
            ds -= row->weight * (w.log - row->center);
        if (power)
            ds *= w.slope * row->steepness;
        if (j >= n_full) {
            ivec seen = visible(j - n_full, half);
            a = choose(seen, a, splat(0));
            ds = choose(seen, ds, splat(0));
            w.log = choose(seen, w.log, splat(0));
        }
        if (power == 0)
            dot += ds * w.log;
        store(s_at, a);
        store(g_at, ds * row->scale);
    }
    return dot;
}

/* What weigh wants of m, not of softmax. */
static inline vec anchor_again(vec m, const es_cpu_head *head)
{
    return head->plain ? splat(1) : splat(1) / larger(splat(TINY_SCORE), m);
}

/* The rows of half a block, from what the forward pass saved. Lanes beyond
 * the last query get weight 0. */
static row_gradient open_rows(const es_cpu_head *head, const float *mean_g,
                              int first, int n)
{
    float m[LANES] = {0}, inverse[LANES] = {0}, dentropy[LANES] = {0};
    for (int i = 0; i < LANES && i < n; i++) {
        m[i] = head->saved[2 * (first + i)];
        inverse[i] = 1 / head->saved[2 * (first + i) + 1];
        if (head->dentropy)
            dentropy[i] = head->dentropy[first + i];
    }
    row_gradient row = {.anchor = load(m),
                        .inverse = load(inverse),
                        .weight = load(dentropy),
                        .mean_g = load(mean_g)};
    if (head->power) {
        row.anchor = anchor_again(row.anchor, head);
        row.steepness = splat((float)head->power) * row.anchor;
    }
    if (head->power == ES_CPU_RELU)
        row.mean_g = splat(0);
    return row;
}

static inline vec row_gradients(workspace *w, row_gradient *row, float *logs,
                                int n_full, int n_keys, int half, int power,
                                bool two_passes)
{
    if (two_passes && power)
        open_power_entropy(w->tile, row, n_full, n_keys, half, power);
    else if (two_passes)
        tile_add_entropy(w->tile, w->dtile, logs, row, n_full, n_keys, half);
    return tile_gradient(w->tile, w->dtile, logs, row, n_full, n_keys, half,
                         power, two_passes);
}

static void gradient_half(const es_cpu_head *head, workspace *w,
                          const float *mean_g, int first, int n, int n_keys,
                          int half)
{
    vec dot = splat(0);
    row_gradient row = open_rows(head, mean_g + half * LANES,
                                 first + half * LANES, n - half * LANES);
    row.scale = load(w->scale + half * LANES);
    if (head->power)
        row_gradients(w, &row, NULL, first, n_keys, half, head->power,
                      head->dentropy);
    else if (head->dt)
        dot = row_gradients(w, &row, w->logs, first, n_keys, half, 0, true);
    else if (head->dentropy)
        row_gradients(w, &row, NULL, first, n_keys, half, 0, true);
    else
        row_gradients(w, &row, NULL, first, n_keys, half, 0, false);
    for (int i = 0; head->dt && i < LANES && half * LANES + i < n; i++)
        head->dt[first + half * LANES + i] = dot[i];
}

static void write_keys(float *out, const float *from, const es_cpu_head *head,
                       int wide)
{
    for (int j = 0; j < head->n_ctx; j++)
        memcpy(out + (size_t)j * head->stride, from + (ptrdiff_t)j * wide,
               (size_t)head->width * sizeof *out);
}

static void gradient_block(const es_cpu_head *head, workspace *w, int first,
                           int n)
{
    const int n_keys = round_up(first + n, KEYS);
    float mean_g[ROWS];
    pack_queries(w, head, first, n, w->q);
    pack_block(w, w->dyt, w->dy, head->dy + (size_t)first * head->y_stride, n,
               head->width, head->y_stride);
    mean_gradient(mean_g, head, w, first, n);
    /* A weight of 0 has no gradient, and 0 * -INFINITY would give it one. */
    tile_scores(head, w, -1e30f, n_keys);
    tile_products(w->dtile, w->dyt, w->v, NULL, n_keys, head->width, w->narrow);
    gradient_half(head, w, mean_g, first, n, n_keys, 0);
    gradient_half(head, w, mean_g, first, n, n_keys, 1);
    tile_gather(w->xt, w->dtile, w->k, first, n_keys, w->narrow, w->careful);
    write_block(head->dq + (size_t)first * head->stride, w, NULL, n,
                head->width, head->stride);
    tile_scatter(w->dk, w->dtile, w->q, first, n_keys, w->wide, w->careful);
    tile_scatter(w->dv, w->tile, w->dy, first, n_keys, w->wide, w->careful);
}

static void attention_backward(const es_cpu_head *head)
{
    workspace w = open_workspace(head);
    const size_t n = (size_t)w.n_keys * (size_t)w.wide;
    pack_keys(&w, head);
    memset(w.dk, 0, n * sizeof *w.dk);
    memset(w.dv, 0, n * sizeof *w.dv);
    for (int first = 0; first < head->n_ctx; first += ROWS)
        gradient_block(head, &w, first,
                       head->n_ctx - first < ROWS ? head->n_ctx - first : ROWS);
    write_keys(head->dk, w.dk, head, w.wide);
    write_keys(head->dv, w.dv, head, w.wide);
}
