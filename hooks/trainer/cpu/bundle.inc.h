/**
 * Computes attention of narrow heads in bundles of LANES heads, one head in
 * each vector lane; part of kernels.inc.h. Uses the formulas of
 * attention.inc.h.
 *
 * Unlike a tile, a bundle needs neither padding nor a mask, because the loop
 * over a query's keys ends at the last key that the query sees. This halves the
 * work, and a non-finite number only affects its own row. In memory, each
 * number is stored as LANES floats, one for each head. bundle_backward.inc.h
 * has the backward pass.
 */

/* Bundles are used for heads of width 4 or WIDEST, since the rows of wider
 * heads do not fit in the registers, and for at most LONGEST tokens, since
 * longer contexts exceed the cache. */
#define WIDEST 8
#define LONGEST 256

static bool attention_bundles(int n_ctx, int width)
{
    return (width == 4 || width == WIDEST) && n_ctx <= LONGEST;
}

typedef struct bundle {
    const es_cpu_head *heads;
    int n, n_ctx, width, power;
    bool half;
    size_t size;                     /* n_ctx * width, rounded up to a
                                      * multiple of LANES */
    float *staged;                   /* rows of each head before or after
                                        transposition, shape (LANES,size) */
    float *q, *k, *v, *dy, *dk, *dv; /* (size,LANES) */
    float *saved;                    /* (T,2,LANES) */
    float *scale;                    /* factors (T,LANES) that turn q . k into
                                        scores */
    /* values (2,T,LANES) for each key, for up to two queries that are processed
     * together */
    float *weight, *log, *slope, *g;
    float *rows; /* statistics of the rows, shape (ES_N_ROW_STATISTICS,T,LANES);
                    T is rounded up to a multiple of LANES */
} bundle;

static size_t pad_to_lanes(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static size_t bundle_scratch(int n_ctx, int width)
{
    const size_t n = pad_to_lanes((size_t)n_ctx);
    return LANES * (7 * pad_to_lanes((size_t)n_ctx * (size_t)width) +
                    (2 * 5 + 1 + ES_N_ROW_STATISTICS) * n);
}

static size_t attention_scratch(int n_ctx, int width)
{
    size_t n = tile_scratch(n_ctx, width);
    if (attention_bundles(n_ctx, width) && bundle_scratch(n_ctx, width) > n)
        n = bundle_scratch(n_ctx, width);
    return n;
}

static float *carve_lanes(float **from, size_t n)
{
    float *start = *from;
    *from += n * LANES;
    return start;
}

static bundle open_bundle(const es_cpu_head *heads, int n)
{
    float *from = heads->scratch;
    const size_t n_ctx = pad_to_lanes((size_t)heads->n_ctx);
    bundle b = {.heads = heads,
                .n = n,
                .n_ctx = heads->n_ctx,
                .width = heads->width,
                .power = heads->power,
                .half = heads->half,
                .size =
                    pad_to_lanes((size_t)heads->n_ctx * (size_t)heads->width)};
    float **const wide[] = {&b.staged, &b.q, &b.k, &b.v, &b.dy, &b.dk, &b.dv};
    float **const pairs[] = {&b.saved, &b.weight, &b.log, &b.slope, &b.g};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        *wide[i] = carve_lanes(&from, b.size);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        *pairs[i] = carve_lanes(&from, 2 * n_ctx);
    b.scale = carve_lanes(&from, n_ctx);
    b.rows = carve_lanes(&from, ES_N_ROW_STATISTICS * n_ctx);
    return b;
}

/* --- packing -------------------------------------------------------------- */

/* Pointers to one array of every head, such as q. The rows of the array have
 * `width` floats and are `stride` floats apart. Lanes beyond the last head
 * repeat the last head. */
typedef struct lane_rows {
    float *row[LANES]; /* first row */
    size_t stride;
} lane_rows;

static lane_rows find_rows(const bundle *b, size_t member, size_t stride)
{
    lane_rows rows = {.stride = stride};
    for (int i = 0; i < LANES; i++) {
        const es_cpu_head *head = b->heads + (i < b->n ? i : b->n - 1);
        memcpy(&rows.row[i], (const char *)head + member, sizeof rows.row[i]);
    }
    return rows;
}

#define ROWS_OF(b, member, stride)                                             \
    find_rows(b, offsetof(es_cpu_head, member), stride)

/* Transposes n numbers of each head from staged (LANES,size) to out
 * (n,LANES). */
static void spread_heads(float *out, const float *staged, size_t n, size_t size)
{
    for (size_t m = 0; m < n; m += LANES, out += LANES * LANES) {
        vec rows[LANES];
        for (size_t i = 0; i < LANES; i++)
            rows[i] = load(staged + i * size + m);
        transpose(rows);
        for (size_t i = 0; i < LANES; i++)
            store(out + i * LANES, rows[i]);
    }
}

/* Transposes four adjacent heads of width 4. A loaded vector holds the four
 * numbers of one position for each of the four heads; a stored vector holds one
 * number for each of 16 heads. A number's vector and lane are given by index
 * bits, and each round of exchanges swaps one bit of the vector index with one
 * bit of the lane index. */
#define EXCHANGE_OF_4(g, h)                                                    \
    for (int i = 0; i < 4; i++)                                                \
        if (!(i & (g))) {                                                      \
            const vec near = rows[i], far = rows[i + (g)];                     \
            rows[i] = MIX(near, far, UPPER, h);                                \
            rows[i + (g)] = MIX(near, far, LOWER, h);                          \
        }

static bool lies_in_vectors(const lane_rows *rows, int width)
{
    bool in_vectors = LANES == 16 && width == 4;
    for (int i = 0; in_vectors && i < LANES; i++)
        in_vectors = i % 4 == 0 || rows->row[i] == rows->row[i - 1] + 4;
    return in_vectors;
}

static void pack_vectors(const bundle *b, float *out, const lane_rows *from)
{
    for (int t = 0; t < b->n_ctx; t++, out += 4 * LANES) {
        vec rows[4];
        for (int i = 0; i < 4; i++)
            rows[i] = load(from->row[4 * i % LANES] + (size_t)t * from->stride);
        EXCHANGE_OF_4(2, LANES / 2)
        EXCHANGE_OF_4(1, LANES / 4)
        EXCHANGE_OF_4(2, 2)
        EXCHANGE_OF_4(1, 1)
        for (int i = 0; i < 4; i++)
            store(out + i * LANES, rows[i]);
    }
}

static void unpack_vectors(const bundle *b, const lane_rows *to,
                           const float *from)
{
    for (int t = 0; t < b->n_ctx; t++, from += 4 * LANES) {
        vec rows[4];
        for (int i = 0; i < 4; i++)
            rows[i] = load(from + i * LANES);
        EXCHANGE_OF_4(1, 1)
        EXCHANGE_OF_4(2, 2)
        EXCHANGE_OF_4(1, LANES / 4)
        EXCHANGE_OF_4(2, LANES / 2)
        for (int i = 0; i < 4; i++)
            store(to->row[4 * i % LANES] + (size_t)t * to->stride, rows[i]);
    }
}

static inline void pack_width(const bundle *b, float *out,
                              const lane_rows *from, size_t width)
{
    for (int i = 0; i < LANES; i++) {
        const float *row = from->row[i];
        float *to = b->staged + (size_t)i * b->size;
        for (int t = 0; t < b->n_ctx; t++, to += width, row += from->stride)
            memcpy(to, row, width * sizeof *to);
    }
    spread_heads(out, b->staged, (size_t)b->n_ctx * width, b->size);
}

static void pack_lanes(const bundle *b, float *out, lane_rows from)
{
    if (lies_in_vectors(&from, b->width))
        pack_vectors(b, out, &from);
    else if (b->width == 4)
        pack_width(b, out, &from, 4);
    else
        pack_width(b, out, &from, WIDEST);
}

/* Transposes back. */
static void collect_heads(float *staged, const float *from, size_t n,
                          size_t size)
{
    for (size_t m = 0; m < n; m += LANES, from += LANES * LANES) {
        vec rows[LANES];
        for (size_t i = 0; i < LANES; i++)
            rows[i] = load(from + i * LANES);
        transpose(rows);
        for (size_t i = 0; i < LANES; i++)
            store(staged + i * size + m, rows[i]);
    }
}

static inline void unpack_width(const bundle *b, const lane_rows *to,
                                const float *from, size_t width)
{
    collect_heads(b->staged, from, (size_t)b->n_ctx * width, b->size);
    for (int i = 0; i < b->n; i++) {
        const float *row = b->staged + (size_t)i * b->size;
        float *out = to->row[i];
        for (int t = 0; t < b->n_ctx; t++, row += width, out += to->stride)
            memcpy(out, row, width * sizeof *out);
    }
}

static void unpack_lanes(const bundle *b, lane_rows to, const float *from)
{
    if (lies_in_vectors(&to, b->width))
        unpack_vectors(b, &to, from);
    else if (b->width == 4)
        unpack_width(b, &to, from, 4);
    else
        unpack_width(b, &to, from, WIDEST);
}

/* --- queries -------------------------------------------------------------- */

/* State of one query of every head during the pass over the query's keys. Each
 * lane of a vector belongs to one head. */
typedef struct lane_query {
    vec q[WIDEST], dy[WIDEST];
    vec out[WIDEST]; /* one row of y; in the backward pass one row of dq */
    vec scale;
    float *weight, *log, *slope, *g; /* values for each key, shape (T,LANES) */
} lane_query;

/* Returns the row of query or key t in the array `rows` (T,width,LANES). */
static inline float *lanes_at(float *rows, int t, int width)
{
    return rows + (ptrdiff_t)t * width * LANES;
}

static inline void load_lanes(vec *out, float *rows, int t, int width)
{
    const float *from = lanes_at(rows, t, width);
    for (int c = 0; c < width; c++)
        out[c] = load(from + c * LANES);
}

static inline void store_lanes(float *rows, int t, const vec *x, int width)
{
    float *to = lanes_at(rows, t, width);
    for (int c = 0; c < width; c++)
        store(to + c * LANES, x[c]);
}

static inline vec dot_lanes(const vec *x, const vec *y, int width)
{
    vec sum = splat(0);
    for (int c = 0; c < width; c++)
        sum += x[c] * y[c];
    return sum;
}

static void find_scales(const bundle *b)
{
    for (int t = 0; t < b->n_ctx; t++) {
        vec scale = splat(b->heads->scale);
        for (int i = 0; b->heads->log_t && i < LANES; i++)
            scale[i] =
                es_cpu_head_scale(b->heads + (i < b->n ? i : b->n - 1), t);
        store(b->scale + (ptrdiff_t)t * LANES, scale);
    }
}

/* Prepares query t of every head. Queries that are processed together are
 * numbered r = 0, 1. */
static inline void open_query(lane_query *query, const bundle *b, int t, int r,
                              int width)
{
    const ptrdiff_t at = (ptrdiff_t)r * b->n_ctx * LANES;
    load_lanes(query->q, b->q, t, width);
    for (int c = 0; c < width; c++)
        query->out[c] = splat(0);
    query->scale = load(b->scale + (ptrdiff_t)t * LANES);
    query->weight = b->weight + at;
    query->log = b->log + at;
    query->slope = b->slope + at;
    query->g = b->g + at;
}

static inline vec lane_score(const bundle *b, const lane_query *query,
                             const vec *key, float lowest, int width)
{
    const vec product = dot_lanes(query->q, key, width);
    return b->half ? larger(splat(lowest), vec_half(product) * query->scale)
                   : product * query->scale;
}

/* --- forward -------------------------------------------------------------- */

/* The functions below process one or two queries by explicit calls instead of a
 * loop, because compilers keep the values of explicit calls in registers. */

static inline void score_key(const bundle *b, lane_query *query, row_state *row,
                             const vec *key, int j, int width)
{
    const vec s = lane_score(b, query, key, -INFINITY, width);
    row->largest = larger(row->largest, s);
    row->m = larger(row->m, larger(s, -s));
    store(query->weight + (ptrdiff_t)j * LANES, s);
}

/* Computes the scores of n queries with keys first .. end - 1, and the largest
 * score of each query. */
static KNOWN void score_keys(const bundle *b, lane_query *queries,
                             row_state *rows, int n, int first, int end,
                             int width)
{
    for (int j = first; j < end; j++) {
        vec key[WIDEST];
        load_lanes(key, b->k, j, width);
        score_key(b, &queries[0], &rows[0], key, j, width);
        if (n == 2)
            score_key(b, &queries[1], &rows[1], key, j, width);
    }
}

static inline void weigh_key(lane_query *query, row_state *row,
                             const vec *value, int j, int width, int power,
                             bool measure)
{
    float *at = query->weight + (ptrdiff_t)j * LANES;
    const raw_weight w = weigh_score(load(at), row->anchor, power);
    row->sums[ES_SUM_WEIGHT] += w.u;
    if (measure) {
        row->sums[ES_SUM_MOMENT] += w.u * w.log;
        store(at, w.u);
    }
    for (int c = 0; c < width; c++)
        query->out[c] += w.u * value[c];
}

/* Replaces scores by unnormalised weights u, and sums the value vectors v
 * weighted by u. */
static KNOWN void weigh_keys(const bundle *b, lane_query *queries,
                             row_state *rows, int n, int first, int end,
                             int width, int power, bool measure)
{
    for (int j = first; j < end; j++) {
        vec value[WIDEST];
        load_lanes(value, b->v, j, width);
        weigh_key(&queries[0], &rows[0], value, j, width, power, measure);
        if (n == 2)
            weigh_key(&queries[1], &rows[1], value, j, width, power, measure);
    }
}

/* Same as sum_scores in statistics.inc.h, for query t of a bundle. */
static void sum_lane_scores(const bundle *b, const lane_query *query,
                            row_state *row, int t, int power)
{
    const vec factor = open_scores(row, load(query->weight), power);
    for (int j = 0; b->heads->rows[ES_ROW_LOGIT_MEAN] && j <= t; j++) {
        const float *at = query->weight + (ptrdiff_t)j * LANES;
        const vec x = (load(at) - row->shift) * factor;
        row->apart += x;
        row->apart_squares += x * x;
    }
}

static inline float *lane_row(const bundle *b, es_row_statistic statistic,
                              int t)
{
    const size_t n = pad_to_lanes((size_t)b->n_ctx) * LANES;
    return b->rows + (size_t)statistic * n + (size_t)t * LANES;
}

/* Computes the requested statistics that need another pass over the weights;
 * `inverse` is 1 / D, where D is the divisor of the weights. */
static void measure_lane_keys(const bundle *b, const float *weight, vec inverse,
                              int t)
{
    vec sums[ES_N_ROW_SUMS];
    if (!wants_means(b->heads) && !b->heads->rows[ES_ROW_TOP])
        return;
    const vec top = sum_lane_means(sums, weight, t);
    for (int s = ES_SUM_FIRST_MEAN; s < ES_N_ROW_SUMS; s++)
        store(lane_row(b, es_row_sum_statistic(s), t), sums[s] * inverse);
    store(lane_row(b, ES_ROW_TOP, t), top * inverse);
}

static void measure_lanes(const bundle *b, const float *weight,
                          const row_state *row, int t)
{
    const vec logarithm = vec_log(row->divisor);
    const vec inverse = splat(1) / row->divisor;
    store(lane_row(b, ES_ROW_ENTROPY, t),
          row_entropy(row, logarithm, inverse, b->power));
    store(lane_row(b, ES_ROW_LSE, t), row->largest + logarithm);
    store(lane_row(b, ES_ROW_MAX_LOGIT, t), row->largest);
    store(lane_row(b, ES_ROW_SINK, t), load(weight) * inverse);
    store(lane_row(b, ES_ROW_NONFINITE, t), splat(0));
    store(lane_row(b, ES_ROW_MISSING, t), row->rest * inverse);
    const vec each = splat(1 / (float)(t + 1));
    store(lane_row(b, ES_ROW_LOGIT_MEAN, t), logit_mean(row, each));
    store(lane_row(b, ES_ROW_LOGIT_VARIANCE, t), logit_variance(row, each));
    measure_lane_keys(b, weight, inverse, t);
}

/* Stores the results of query t in place of the query's q, which is no longer
 * needed. */
static KNOWN void close_query(const bundle *b, lane_query *query,
                              row_state *row, int t, int width, int power,
                              bool measure)
{
    float *saved = b->saved + (ptrdiff_t)t * 2 * LANES;
    close_sum(row, power, b->heads);
    const vec inverse = splat(1) / row->divisor;
    for (int c = 0; c < width; c++)
        store(lanes_at(b->q, t, width) + c * LANES, query->out[c] * inverse);
    store(saved, row->m);
    store(saved + LANES, row->divisor);
    if (measure) {
        const row_state copy = *row;
        measure_lanes(b, query->weight, &copy, t);
    }
}

/* Processes queries t .. t + n - 1, n <= 2: first keys 0 .. t, which all these
 * queries see, then key t + 1, which only the second query sees. Callers pass
 * constants so that the compiler specialises the inlined code. */
static KNOWN void attend_queries(const bundle *b, int t, int n, int width,
                                 int power, bool measure)
{
    lane_query query[2];
    row_state row[2];
    row[0] = row[1] = (row_state){.largest = splat(-INFINITY)};
    open_query(&query[0], b, t, 0, width);
    if (n == 2)
        open_query(&query[1], b, t + 1, 1, width);
    score_keys(b, query, row, n, 0, t + 1, width);
    anchor_rows(&row[0], row[0].largest, row[0].m, splat((float)(t + 1)), power,
                b->heads);
    if (n == 2) {
        score_keys(b, query + 1, row + 1, 1, t + 1, t + 2, width);
        anchor_rows(&row[1], row[1].largest, row[1].m, splat((float)(t + 2)),
                    power, b->heads);
    }
    for (int i = 0; measure && i < n; i++)
        sum_lane_scores(b, &query[i], &row[i], t + i, power);
    weigh_keys(b, query, row, n, 0, t + 1, width, power, measure);
    close_query(b, &query[0], &row[0], t, width, power, measure);
    if (n == 2) {
        weigh_keys(b, query + 1, row + 1, 1, t + 1, t + 2, width, power,
                   measure);
        close_query(b, &query[1], &row[1], t + 1, width, power, measure);
    }
}

/* Processes all queries, two at a time if the vectors of two queries fit in the
 * registers. */
#define TOGETHER(width) (LANES == 16 && (width) <= 4 ? 2 : 1)

static inline void attend_all(const bundle *b, int width, int power,
                              bool measure)
{
    int t = 0;
    for (; t + TOGETHER(width) <= b->n_ctx; t += TOGETHER(width))
        attend_queries(b, t, TOGETHER(width), width, power, measure);
    if (t < b->n_ctx)
        attend_queries(b, t, 1, width, power, measure);
}

static inline void attend_width(const bundle *b, int width)
{
    const bool measure = b->heads->rows[ES_ROW_ENTROPY];
    if (b->power == 0 && measure)
        attend_all(b, width, 0, true);
    else if (b->power == 0)
        attend_all(b, width, 0, false);
    else if (measure)
        attend_all(b, width, b->power, true);
    else
        attend_all(b, width, b->power, false);
}

/* Recomputes, directly from the formulas, each row that is not finite. */
static void repair_rows(const bundle *b)
{
    for (int t = 0; t < b->n_ctx; t++) {
        const vec entropy = load(lane_row(b, ES_ROW_ENTROPY, t));
        const vec largest = load(lane_row(b, ES_ROW_MAX_LOGIT, t));
        vec odd = spot_nonfinite(spot_nonfinite(splat(0), entropy), largest);
        if (b->heads->rows[ES_ROW_LOGIT_VARIANCE])
            odd = spot_nonfinite(odd,
                                 load(lane_row(b, ES_ROW_LOGIT_VARIANCE, t)));
        if (is_zero(odd))
            continue;
        for (int i = 0; i < b->n; i++)
            if (!isfinite(entropy[i]) || !isfinite(largest[i]) ||
                is_huge(b->heads + i, t))
                es_cpu_measure_row(b->heads + i, t);
    }
}

static void collect_rows(const bundle *b)
{
    const size_t n = (size_t)b->n_ctx;
    for (int s = 0; s < ES_N_ROW_STATISTICS; s++) {
        if (!b->heads->rows[s])
            continue;
        collect_heads(b->staged, lane_row(b, (es_row_statistic)s, 0), n,
                      b->size);
        for (int i = 0; i < b->n; i++)
            memcpy(b->heads[i].rows[s], b->staged + (size_t)i * b->size,
                   n * sizeof(float));
    }
    repair_rows(b);
}

static void attention_bundle(const es_cpu_head *heads, int n)
{
    const bundle b = open_bundle(heads, n);
    const size_t n_ctx = (size_t)b.n_ctx;
    pack_lanes(&b, b.q, ROWS_OF(&b, q, heads->stride));
    pack_lanes(&b, b.k, ROWS_OF(&b, k, heads->stride));
    pack_lanes(&b, b.v, ROWS_OF(&b, v, heads->stride));
    find_scales(&b);
    if (b.width == 4)
        attend_width(&b, 4);
    else
        attend_width(&b, WIDEST);
    unpack_lanes(&b, ROWS_OF(&b, y, heads->y_stride), b.q);
    collect_heads(b.staged, b.saved, 2 * n_ctx, b.size);
    for (int i = 0; i < n; i++)
        memcpy(heads[i].saved, b.staged + (size_t)i * b.size,
               2 * n_ctx * sizeof(float));
    if (heads->rows[ES_ROW_ENTROPY])
        collect_rows(&b);
}
