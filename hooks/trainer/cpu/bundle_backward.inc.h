/**
 * Implements the backward pass of attention for bundles of narrow heads, in
 * which each vector lane processes a different head; part of kernels.inc.h. For
 * each query, a first loop over the keys computes the weights and <g>, the
 * weighted mean of their gradients, and a second loop computes the gradients of
 * queries, keys and values.
 */

static inline void weigh_key_again(const bundle *b, lane_query *query,
                                   row_gradient *row, vec *sum, const vec *key,
                                   const vec *value, int j, int width,
                                   int power)
{
    const ptrdiff_t at = (ptrdiff_t)j * LANES;
    /* -INFINITY instead of -1e30 would make the gradient of a weight of 0
     * NaN, because 0 times infinity is NaN. */
    const vec s = lane_score(b, query, key, -1e30f, width);
    const raw_weight w = weigh_score(s, row->anchor, power);
    const vec a = w.u * row->inverse;
    vec g = dot_lanes(query->dy, value, width);
    if (power) {
        *sum += w.u;
        row->center += w.u * w.log;
    } else {
        g -= row->weight * w.log;
    }
    if (power != ES_CPU_RELU)
        row->mean_g += a * g;
    store(query->weight + at, a);
    store(query->g + at, g);
    store(query->log + at, w.log);
    if (power)
        store(query->slope + at, w.slope * row->steepness);
}

/* Recomputes the weights of n queries with keys first .. end - 1, and computes
 * the gradients of these weights. */
static KNOWN void weigh_again(const bundle *b, lane_query *queries,
                              row_gradient *rows, vec *sums, int n, int first,
                              int end, int width, int power)
{
    for (int j = first; j < end; j++) {
        vec key[WIDEST], value[WIDEST];
        load_lanes(key, b->k, j, width);
        load_lanes(value, b->v, j, width);
        weigh_key_again(b, &queries[0], &rows[0], &sums[0], key, value, j,
                        width, power);
        if (n == 2)
            weigh_key_again(b, &queries[1], &rows[1], &sums[1], key, value, j,
                            width, power);
    }
}

static inline void add_gradient(lane_query *query, const row_gradient *row,
                                vec *dot, const vec *key, vec *dkey,
                                vec *dvalue, int j, int width, int power)
{
    const ptrdiff_t at = (ptrdiff_t)j * LANES;
    const vec a = load(query->weight + at);
    const vec log = load(query->log + at);
    vec ds = (power ? row->inverse : a) * (load(query->g + at) - row->mean_g);
    if (power)
        ds = (ds - row->weight * (log - row->center)) * load(query->slope + at);
    else
        *dot += ds * log;
    ds *= query->scale;
    for (int c = 0; c < width; c++) {
        query->out[c] += ds * key[c];
        dkey[c] += ds * query->q[c];
        dvalue[c] += a * query->dy[c];
    }
}

/* Adds the contributions of n queries with keys first .. end - 1 to the
 * gradients of these queries, keys and values. */
static KNOWN void add_gradients(const bundle *b, lane_query *queries,
                                const row_gradient *rows, vec *dots, int n,
                                int first, int end, int width, int power)
{
    for (int j = first; j < end; j++) {
        vec key[WIDEST], dkey[WIDEST], dvalue[WIDEST];
        load_lanes(key, b->k, j, width);
        load_lanes(dkey, b->dk, j, width);
        load_lanes(dvalue, b->dv, j, width);
        add_gradient(&queries[0], &rows[0], &dots[0], key, dkey, dvalue, j,
                     width, power);
        if (n == 2)
            add_gradient(&queries[1], &rows[1], &dots[1], key, dkey, dvalue, j,
                         width, power);
        store_lanes(b->dk, j, dkey, width);
        store_lanes(b->dv, j, dvalue, width);
    }
}

/* Restores the state of a query and its row from the values that the forward
 * pass saved. */
static inline void open_back(lane_query *query, row_gradient *row,
                             const bundle *b, int t, int r, int width,
                             int power)
{
    const float *saved = b->saved + (ptrdiff_t)t * 2 * LANES;
    open_query(query, b, t, r, width);
    load_lanes(query->dy, b->dy, t, width);
    row->anchor = load(saved);
    row->inverse = splat(1) / load(saved + LANES);
    row->mean_g = row->weight = row->steepness = row->center = splat(0);
    if (b->heads->dentropy)
        row->weight = load(lane_row(b, ES_ROW_ENTROPY, t));
    if (power) {
        row->anchor = anchor_again(row->anchor, b->heads);
        row->steepness = splat((float)power) * row->anchor;
    }
}

/* Divides row->weight and row->center by `sum`, the sum of the unnormalised
 * weights. Needed only for PowerSoftmax. */
static inline void finish_center(row_gradient *row, vec sum, int power)
{
    const ivec empty = sum == splat(0);
    if (power == 0)
        return;
    row->weight = choose(empty, splat(0), row->weight / sum);
    row->center = choose(empty, splat(0), row->center / sum);
}

static KNOWN void take_back(const bundle *b, int t, int n, int width, int power)
{
    lane_query query[2];
    row_gradient row[2];
    vec sum[2] = {{0}}, dot[2] = {{0}};
    open_back(&query[0], &row[0], b, t, 0, width, power);
    if (n == 2)
        open_back(&query[1], &row[1], b, t + 1, 1, width, power);
    weigh_again(b, query, row, sum, n, 0, t + 1, width, power);
    finish_center(&row[0], sum[0], power);
    if (n == 2) {
        weigh_again(b, query + 1, row + 1, sum + 1, 1, t + 1, t + 2, width,
                    power);
        finish_center(&row[1], sum[1], power);
    }
    add_gradients(b, query, row, dot, n, 0, t + 1, width, power);
    store_lanes(b->q, t, query[0].out, width);
    store(lane_row(b, ES_ROW_LSE, t), dot[0]);
    if (n == 2) {
        add_gradients(b, query + 1, row + 1, dot + 1, 1, t + 1, t + 2, width,
                      power);
        store_lanes(b->q, t + 1, query[1].out, width);
        store(lane_row(b, ES_ROW_LSE, t + 1), dot[1]);
    }
}

static inline void take_back_all(const bundle *b, int width, int power)
{
    int t = 0;
    for (; t + TOGETHER(width) <= b->n_ctx; t += TOGETHER(width))
        take_back(b, t, TOGETHER(width), width, power);
    if (t < b->n_ctx)
        take_back(b, t, 1, width, power);
}

static inline void take_back_width(const bundle *b, int width)
{
    if (b->power == 0)
        take_back_all(b, width, 0);
    else
        take_back_all(b, width, b->power);
}

/* Copies an array of n numbers per head, such as `saved`, to out (n,LANES), in
 * which each lane belongs to one head. `member` is the offset of the array's
 * pointer in es_cpu_head. */
static void spread_numbers(const bundle *b, float *out, size_t member, size_t n)
{
    const lane_rows from = find_rows(b, member, 0);
    for (int i = 0; i < LANES; i++)
        memcpy(b->staged + (size_t)i * b->size, from.row[i], n * sizeof(float));
    spread_heads(out, b->staged, n, b->size);
}

static void attention_bundle_backward(const es_cpu_head *heads, int n)
{
    const bundle b = open_bundle(heads, n);
    const size_t n_ctx = (size_t)b.n_ctx;
    pack_lanes(&b, b.q, ROWS_OF(&b, q, heads->stride));
    pack_lanes(&b, b.k, ROWS_OF(&b, k, heads->stride));
    pack_lanes(&b, b.v, ROWS_OF(&b, v, heads->stride));
    pack_lanes(&b, b.dy, ROWS_OF(&b, dy, heads->y_stride));
    spread_numbers(&b, b.saved, offsetof(es_cpu_head, saved), 2 * n_ctx);
    if (heads->dentropy)
        spread_numbers(&b, lane_row(&b, ES_ROW_ENTROPY, 0),
                       offsetof(es_cpu_head, dentropy), n_ctx);
    memset(b.dk, 0, b.size * LANES * sizeof(float));
    memset(b.dv, 0, b.size * LANES * sizeof(float));
    find_scales(&b);
    if (b.width == 4)
        take_back_width(&b, 4);
    else
        take_back_width(&b, WIDEST);
    unpack_lanes(&b, ROWS_OF(&b, dq, heads->stride), b.q);
    unpack_lanes(&b, ROWS_OF(&b, dk, heads->stride), b.dk);
    unpack_lanes(&b, ROWS_OF(&b, dv, heads->stride), b.dv);
    if (!heads->dt)
        return;
    collect_heads(b.staged, lane_row(&b, ES_ROW_LSE, 0), n_ctx, b.size);
    for (int i = 0; i < n; i++)
        memcpy(heads[i].dt, b.staged + (size_t)i * b.size,
               n_ctx * sizeof(float));
}
