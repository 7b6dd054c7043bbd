/**
 * Attention of one head of one sequence; part of kernels.inc.h.
 *
 * Each vector lane holds one query. A tile contains the scores of ROWS = 2 *
 * LANES consecutive queries for all their keys, stored key by key. The maximum,
 * sum, entropy and mask of a row are therefore plain vector operations, and no
 * product needs a sum over lanes. The forward and backward passes use three
 * products:
 *
 *     tile_products   tile[j][i] = sum_c xt[c][i] * y[j][c]     q . k, dy . v
 *     tile_gather     xt[c][i]   = sum_j tile[j][i] * y[j][c]   outputs, dq
 *     tile_scatter    y[j][c]   += sum_i tile[j][i] * x[i][c]   dk, dv
 *
 * Masked weights are 0. Since 0 * NaN is NaN, a head that contains non-finite
 * numbers uses the `careful` form of tile_gather and tile_scatter, which skips
 * masked positions. A head whose field `place` is set belongs to an encoder, in
 * which every query sees all keys, so no mask is needed.
 */

#include "hooks/trainer/cpu/tiles.inc.h"

/* --- kinds of attention ------------------------------------------------- */

/* The weights of a row of scores s are a = u / D, D = rest + sum u, with
 *
 *     softmax        u = exp(s - m)   m = max s     rest = 0
 *     PowerSoftmax   u = (s / m)^p    m = max |s|   rest = eps * (c / m)^p
 *
 * where c = m + 1e-6 is the specification's divisor: the weights equal those
 * with s / c, but the powers of a row of small scores do not underflow. With
 * `length`, eps * L replaces eps, where L is the number of the row's keys or T.
 * Two more kinds of weights use unscaled scores:
 *
 *     plain power    u = s^p         rest = eps, or eps * L
 *     scaled ReLU    u = max(0, s)   D = L, rest = L - sum u
 *
 * A plain power is NaN throughout if float cannot represent D or its inverse.
 * The following formulas hold for all kinds. With l = ln u, S = sum u, u' =
 * du/ds, g the gradient of a, w that of the entropy e, which refers to the
 * weights b = u / S that sum to one, and <x> = sum a * x:
 *
 *     1 - sum a = rest / D
 *     e  = -sum b * ln b = ln S - sum b * l      0 if all weights are 0
 *     ds = u' / D * [(g - <g>) - w * D / S * (l - sum b * l)]
 *
 * PowerSoftmax's m is constant in the backward pass. D of scaled ReLU is
 * constant, so its <g> is replaced by 0. */

/* Lower bound for the largest score, so that its inverse is finite. */
#define TINY_SCORE 1e-30f
/* Upper bound for row_state.rest, the epsilon term in the divisor of
 * PowerSoftmax. If `rest` reaches the bound, all weights become 0, but `rest`
 * and its inverse are still finite. */
#define LARGE_REST 1e37f

/* Quantities computed from one score s: the unnormalised weight u, ln u, and
 * `slope`, which is du/ds. For PowerSoftmax `slope` is du/ds multiplied by m /
 * p, where m is the row's largest |score| and p the power. */
typedef struct raw_weight {
    vec u, log, slope;
} raw_weight;

/* Returns x^n for even n. */
static inline vec raise_to_power(vec x, int n)
{
    vec y = splat(1), square = x * x;
    for (int rest = n / 2; rest > 0; rest /= 2) {
        if (rest % 2)
            y *= square;
        square *= square;
    }
    return y;
}

/* Returns the unnormalised weight u, ln u and du/ds of each score s. For
 * softmax (power 0), `anchor` is the row's largest score; otherwise it is 1 /
 * (the row's largest absolute score). If a power underflows to u = 0, a finite
 * number is returned as its logarithm, so that u * ln u is 0. */
static inline raw_weight weigh_score(vec score, vec anchor, int power)
{
    if (power == 0) {
        /* A score exceeds the row's maximum only if it is masked or its row
         * contains NaN. */
        vec x = score - anchor, u = vec_exp_below(x);
        return (raw_weight){u, x, u};
    }
    if (power == ES_CPU_RELU) {
        const vec u = larger(splat(0), score); /* a NaN score remains NaN */
        vec slope = choose(score <= splat(0), splat(0), score);
        slope = choose(score > splat(0), splat(1), slope);
        return (raw_weight){u, vec_log(u), slope};
    }
    vec x = score * anchor;
    vec slope = raise_to_power(x, power - 2) * x, u = slope * x;
    return (raw_weight){u, vec_log(u), slope};
}

/* State of the rows of a tile. Each field holds one value for each of LANES
 * rows; a tile has two such states. */
typedef struct row_state {
    vec largest;   /* largest score; for PowerSoftmax the largest |score| */
    vec m, anchor; /* row maximum m, and the parameter `anchor` of
                    * weigh_score() */
    vec length;    /* factor of PowerSoftmax's epsilon: the number of visible
                    * keys, T, or 1 */
    vec rest;
    vec divisor; /* D */
    /* One sum for each es_row_sum. The sums from ES_SUM_FIRST_MEAN on are
     * computed only for causal heads. */
    vec sums[ES_N_ROW_SUMS];
    /* `apart` and `apart_squares` are the sums of x and x^2 over the row, where
     * x = (score - shift) / unit. */
    vec shift, unit, apart, apart_squares;
} row_state;

/* Computes the row maximum m, the parameter `anchor` of weigh_score(), and
 * PowerSoftmax's epsilon term `rest` from each row's largest score, largest
 * absolute score and number of keys. */
static inline void anchor_rows(row_state *row, vec largest, vec size,
                               vec n_keys, int power, const es_cpu_head *head)
{
    row->largest = row->m = row->anchor = largest;
    row->rest = splat(0);
    if (power == 0)
        return;
    row->largest = power == ES_CPU_RELU ? largest : size;
    row->m = larger(splat(TINY_SCORE), size);
    row->anchor = head->plain ? splat(1) : splat(1) / row->m;
    row->length =
        head->length == ES_LENGTH_VISIBLE ? n_keys
        : head->length == ES_LENGTH_CONTEXT
            ? splat((float)(head->place ? head->context : head->n_ctx))
            : splat(1);
    if (head->epsilon > 0) {
        const vec c = head->plain ? splat(1) : size + splat(1e-6f);
        row->rest = splat(head->epsilon) * row->length *
                    raise_to_power(c * row->anchor, power);
        row->rest = smaller(splat(LARGE_REST), row->rest);
    }
}

/* Computes the divisor D of the weights from the sum of the unnormalised
 * weights u. */
static inline void close_sum(row_state *row, int power, const es_cpu_head *head)
{
    if (power == ES_CPU_RELU) {
        row->rest = row->length - row->sums[ES_SUM_WEIGHT];
        row->divisor = row->length;
        return;
    }
    row->divisor = row->sums[ES_SUM_WEIGHT] + row->rest;
    if (power && head->plain) { /* adds 0 if the row's divisor D and 1 / D are
                                 * finite, otherwise NaN */
        const vec spoilt = splat(0) * (row->divisor + splat(1) / row->divisor);
        row->sums[ES_SUM_WEIGHT] += spoilt;
        row->divisor += spoilt;
    }
}

/* --- rows ----------------------------------------------------------------- */

/* Numbers of keys that the queries of a block see. Query i of a causal head
 * sees keys 0 .. i. */
typedef struct reach {
    int n_full; /* number of keys seen by all queries */
    int n_seen; /* number of keys that at least one query sees; for a causal
                 * head, n_keys. The tile is 0 for keys n_seen .. n_keys - 1 */
    int n_keys; /* number of seen keys, rounded up to a multiple of KEYS */
} reach;

static reach reach_of(const es_cpu_head *head, int first, int n)
{
    const int n_keys = round_up(head->place ? head->n_ctx : first + n, KEYS);
    return head->place ? (reach){head->n_ctx, head->n_ctx, n_keys}
                       : (reach){first, n_keys, n_keys};
}

/* Clears the weights of the padding after the last key. */
static void clear_unseen(float *tile, const reach *keys)
{
    memset(tile + keys->n_seen * ROWS, 0,
           (size_t)((keys->n_keys - keys->n_seen) * ROWS) * sizeof *tile);
}

/* Returns how many keys each of LANES queries sees, starting at query
 * `first`. */
static inline vec count_visible(const es_cpu_head *head, int first)
{
    vec lane;
    for (int i = 0; i < LANES; i++)
        lane[i] = (float)i;
    return head->place ? splat((float)head->n_ctx)
                       : splat((float)(first + 1)) + lane;
}

/* Selects the sums that the loops compute along with the weights, at almost no
 * extra cost. Each value includes the sums of the previous values. */
enum { NO_SUMS, SUM_ENTROPY, SUM_MEANS, SUM_SCORES };

/* Sums over scores. open_tile computes these sums and keeps them in
 * registers. */
typedef struct score_sums {
    vec largest, size, shift, apart, squares;
} score_sums;

/* Adds keys first .. end - 1 to the sums of open_tile. */
static KNOWN void open_keys(score_sums halves[2], const float *tile, int first,
                            int end, int n_full, bool masked, int power,
                            bool sums)
{
    for (int j = first; j < end; j++)
        for (int half = 0; half < 2; half++) {
            score_sums *s = &halves[half];
            vec score = load(tile + j * ROWS + half * LANES);
            if (masked)
                score = choose(visible(j - n_full, half), score, s->shift);
            s->largest = larger(s->largest, score);
            if (power)
                s->size = larger(s->size, larger(score, -score));
            if (sums) {
                const vec apart = score - s->shift;
                s->apart += apart;
                s->squares += apart * apart;
            }
        }
}

/* Computes the sums over the scores of both halves of the tile in one loop.
 * Each addition waits for the previous addition to the same sum, so two
 * independent sums take no longer than one. */
static inline void open_tile(row_state rows[2], const float *tile, int n_full,
                             int n_keys, int power, const es_cpu_head *head,
                             bool sums)
{
    score_sums halves[2];
    for (int half = 0; half < 2; half++) {
        const vec first = load(tile + half * LANES);
        halves[half] = (score_sums){
            .largest = first, .size = larger(first, -first), .shift = first};
    }
    open_keys(halves, tile, 1, n_full, n_full, false, power, sums);
    open_keys(halves, tile, n_full > 1 ? n_full : 1, n_keys, n_full, true,
              power, sums);
    for (int half = 0; half < 2; half++) {
        const score_sums *s = &halves[half];
        row_state *row = &rows[half];
        anchor_rows(row, s->largest, s->size,
                    count_visible(head, n_full + half * LANES), power, head);
        row->shift = s->shift;
        row->unit = splat(1);
        row->apart = s->apart;
        row->apart_squares = s->squares;
    }
}

#include "hooks/trainer/cpu/statistics.inc.h"

/* Sums that tile_weigh computes for one half of the tile at a time, because the
 * sums of both halves would not fit in the registers; see es_row_sum. */
typedef struct weight_sums {
    vec of[ES_N_ROW_SUMS];
} weight_sums;

/* Replaces the scores of keys first .. end - 1 by unnormalised weights u, and
 * adds the keys to the sums of tile_weigh. */
static KNOWN void weigh_tile_keys(weight_sums *s, float *tile, vec anchor,
                                  int first, int end, int n_full, int half,
                                  bool masked, int power, int sums)
{
    for (int j = first; j < end; j++) {
        float *at = tile + j * ROWS + half * LANES;
        raw_weight w = weigh_score(load(at), anchor, power);
        vec before = s->of[ES_SUM_WEIGHT];
        if (masked) {
            ivec seen = visible(j - n_full, half);
            w.u = choose(seen, w.u, splat(0));
            w.log = choose(seen, w.log, splat(0));
            before = choose(seen, before, splat(0));
        }
        s->of[ES_SUM_WEIGHT] += w.u;
        if (sums >= SUM_ENTROPY)
            s->of[ES_SUM_MOMENT] += w.u * w.log;
        if (sums >= SUM_MEANS)
            add_means(s->of, before);
        store(at, w.u);
    }
}

/* Replaces the scores of visible keys by unnormalised weights u, and the scores
 * of masked keys by 0. Computes the row's sums over u. */
static inline void tile_weigh(float *tile, row_state *row, int n_full,
                              int n_keys, int half, int power,
                              const es_cpu_head *head, int sums)
{
    weight_sums s = {.of = {{0}}};
    weigh_tile_keys(&s, tile, row->anchor, 0, n_full, n_full, half, false,
                    power, sums);
    weigh_tile_keys(&s, tile, row->anchor, n_full, n_keys, n_full, half, true,
                    power, sums);
    memcpy(row->sums, s.of, sizeof s.of);
    close_sum(row, power, head);
}

/* --- forward -------------------------------------------------------------- */

static inline void weigh_rows(float *tile, row_state row[2], int n_full,
                              int n_keys, int power, const es_cpu_head *head,
                              int sums)
{
    open_tile(row, tile, n_full, n_keys, power, head,
              sums >= SUM_SCORES && power == 0);
    for (int half = 0; half < 2; half++) {
        if (sums >= SUM_SCORES && power)
            sum_scores(tile, &row[half], n_full, n_keys, half, power);
        tile_weigh(tile, &row[half], n_full, n_keys, half, power, head, sums);
    }
}

static int sums_of(const es_cpu_head *head)
{
    return !head->rows[ES_ROW_ENTROPY]     ? NO_SUMS
           : head->rows[ES_ROW_LOGIT_MEAN] ? SUM_SCORES
           : wants_means(head)             ? SUM_MEANS
                                           : SUM_ENTROPY;
}

/* Computes the weights of one block of queries before division by their sum.
 * Each call passes constants so that the compiler specialises the inlined
 * loops. */
static void weigh_block(const es_cpu_head *head, workspace *w, row_state row[2],
                        int n_full, int n_keys)
{
    const int power = head->power, sums = sums_of(head);
    if (power && sums == NO_SUMS)
        weigh_rows(w->tile, row, n_full, n_keys, power, head, NO_SUMS);
    else if (power)
        weigh_rows(w->tile, row, n_full, n_keys, power, head, sums);
    else if (sums == NO_SUMS)
        weigh_rows(w->tile, row, n_full, n_keys, 0, head, NO_SUMS);
    else if (sums == SUM_ENTROPY)
        weigh_rows(w->tile, row, n_full, n_keys, 0, head, SUM_ENTROPY);
    else if (sums == SUM_MEANS)
        weigh_rows(w->tile, row, n_full, n_keys, 0, head, SUM_MEANS);
    else
        weigh_rows(w->tile, row, n_full, n_keys, 0, head, SUM_SCORES);
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
        const reach keys = reach_of(head, first, n);
        pack_queries(&w, head, first, n, NULL);
        tile_scores(head, &w, -INFINITY, keys.n_keys);
        weigh_block(head, &w, row, keys.n_full, keys.n_seen);
        clear_unseen(w.tile, &keys);
        for (int half = 0; half < 2 && head->rows[ES_ROW_ENTROPY]; half++)
            measure_rows(head, w.tile + half * LANES, &row[half],
                         first + half * LANES, keys.n_seen, first + n);
        tile_gather(w.xt, w.tile, w.v, keys.n_full, keys.n_keys, w.narrow,
                    w.careful);
        write_outputs(head, &w, row, first, n);
    }
}

/* --- backward ------------------------------------------------------------- */

/* Computes <g>, the weighted mean of each row's gradient dL/da, as the scalar
 * product dy . y of the output and its gradient. */
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

/* Values of a row that tile_gradient needs to compute the gradients of the
 * row's scores. */
typedef struct row_gradient {
    vec anchor;    /* value of the parameter `anchor` of weigh_score() */
    vec inverse;   /* 1 / D */
    vec steepness; /* p / m: for PowerSoftmax, the factor by which `slope` must
                      be multiplied to give du/ds */
    vec mean_g;    /* subtracted from g */
    vec weight;    /* w = dL/de; w / S for PowerSoftmax */
    vec center;    /* sum b l */
    vec scale;     /* factor of q . k */
} row_gradient;

/* Adds the contribution of the entropy's gradient: replaces g in `dtile` by g -
 * w * l and the scores in `tile` by weights, and recomputes the mean of g from
 * the weights. With a small temperature t, a row often consists of a single
 * weight of 1, whose g - <g> must be exactly 0. The mean computed as the
 * product dy . y is summed in another order and would leave a residue, which
 * 1/t amplifies. Writes l to `logs` unless `logs` is NULL. The symbols are
 * explained at the top of this file. */
static inline void tile_add_entropy(float *tile, float *dtile, float *logs,
                                    row_gradient *row, int n_full, int n_keys,
                                    int half)
{
    vec mean = splat(0);
    for (int j = 0; j < n_keys; j++) {
        float *s_at = tile + j * ROWS + half * LANES;
        float *g_at = dtile + j * ROWS + half * LANES;
        raw_weight w = weigh_score(load(s_at), row->anchor, 0);
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

/* Prepares the contribution of the entropy's gradient for PowerSoftmax, whose
 * entropy refers to the weights u / S: computes S and the mean of l. Leaves g
 * unchanged, unlike tile_add_entropy, since D / S may be large compared with g.
 * The symbols are explained at the top of this file. */
static inline void open_power_entropy(const float *tile, row_gradient *row,
                                      int n_full, int n_keys, int half,
                                      int power)
{
    vec sum = splat(0), moment = splat(0);
    for (int j = 0; j < n_keys; j++) {
        raw_weight w = weigh_score(load(tile + j * ROWS + half * LANES),
                                   row->anchor, power);
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

/* Replaces the scores in `tile` by weights, and g in `dtile` by ds * scale, the
 * gradient of the product q . k. For softmax, returns the sum of ds * s, in
 * which s may be shifted by the row's maximum, because the ds of a row sum to
 * 0. With `entropy`, requires a previous call of tile_add_entropy or
 * open_power_entropy. The symbols are explained at the top of this file. */
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
            w = weigh_score(a, row->anchor, power);
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

/* Converts the row maximum m to the parameter `anchor` of weigh_score() for all
 * kinds of weights except softmax. */
static inline vec anchor_again(vec m, const es_cpu_head *head)
{
    return head->plain ? splat(1) : splat(1) / larger(splat(TINY_SCORE), m);
}

/* Restores the state of the rows in one half of a block from the values that
 * the forward pass saved. Lanes beyond the last query get weight 0. */
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
                          const float *mean_g, int first, int n,
                          const reach *keys, int half)
{
    const int n_full = keys->n_full, n_keys = keys->n_seen;
    vec dot = splat(0);
    row_gradient row = open_rows(head, mean_g + half * LANES,
                                 first + half * LANES, n - half * LANES);
    row.scale = load(w->scale + half * LANES);
    if (head->power)
        row_gradients(w, &row, NULL, n_full, n_keys, half, head->power,
                      head->dentropy);
    else if (head->dt)
        dot = row_gradients(w, &row, w->logs, n_full, n_keys, half, 0, true);
    else if (head->dentropy)
        row_gradients(w, &row, NULL, n_full, n_keys, half, 0, true);
    else
        row_gradients(w, &row, NULL, n_full, n_keys, half, 0, false);
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
    const reach keys = reach_of(head, first, n);
    const int n_full = keys.n_full, n_keys = keys.n_keys;
    float mean_g[ROWS];
    pack_queries(w, head, first, n, w->q);
    pack_block(w, w->dyt, w->dy, head->dy + (size_t)first * head->y_stride, n,
               head->width, head->y_stride);
    mean_gradient(mean_g, head, w, first, n);
    /* -INFINITY instead of -1e30 would make the gradient of a weight of 0
     * NaN, because 0 times infinity is NaN. */
    tile_scores(head, w, -1e30f, n_keys);
    tile_products(w->dtile, w->dyt, w->v, NULL, n_keys, head->width, w->narrow);
    gradient_half(head, w, mean_g, first, n, &keys, 0);
    gradient_half(head, w, mean_g, first, n, &keys, 1);
    clear_unseen(w->tile, &keys);
    clear_unseen(w->dtile, &keys);
    tile_gather(w->xt, w->dtile, w->k, n_full, n_keys, w->narrow, w->careful);
    write_block(head->dq + (size_t)first * head->stride, w, NULL, n,
                head->width, head->stride);
    tile_scatter(w->dk, w->dtile, w->q, n_full, n_keys, w->wide, w->careful);
    tile_scatter(w->dv, w->tile, w->dy, n_full, n_keys, w->wide, w->careful);
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
