/* es_qk_statistics with every option, at random and all together, on every
   variant: rows and heads against the definition in entropy.h, written down
   here once more in double precision, row by row and key by key. */
#include "analyzer/base/value.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 400 };

enum { ENTROPY, LSE, MAX_LOGIT, SINK, MISSING, DISTANCE, TOP, N_FLOATS };

static int random_int(uint64_t *seed, int low, int high)
{
    return low + (int)(random_uniform(seed) * (high - low + 1));
}

static bool chance(uint64_t *seed, double p)
{
    return random_uniform(seed) < p;
}

/* --- numbers of every type --------------------------------------------------
 */

/** The nearest float16 of a number that is not too large, and its value. */
static uint16_t to_half(float *x)
{
    const float size = fminf(fabsf(*x), 60000);
    const int exponent = size < 0x1p-14F ? -14 : ilogbf(size);
    const int mantissa = (int)lrintf(ldexpf(size, 10 - exponent));
    const uint16_t sign = signbit(*x) ? 0x8000 : 0;
    *x = copysignf(ldexpf((float)mantissa, exponent - 10), *x);
    return (uint16_t)(sign | ((exponent + 14) * 1024 + mantissa));
}

static uint16_t to_bfloat(float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    bits &= 0xffff0000U;
    memcpy(x, &bits, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/** What a call reads, and its values as float32. */
typedef struct numbers {
    float *values;
    uint16_t *halves; /* NULL for float32 */
    es_entropy_input input;
} numbers;

/** (B,N,H,W) or (B,H,N,W), with some numbers between the rows. */
static numbers random_numbers(int n_batch, int n_heads, int n, int width,
                              double scale, bool heads_inside, uint64_t *seed)
{
    const int gap = random_int(seed, 0, 1) * random_int(seed, 1, 20);
    const size_t count =
        (size_t)n_batch * (size_t)n_heads * (size_t)n * (size_t)(width + gap);
    numbers out = {.values = new_normals(count, scale, *seed)};
    out.input.type = (es_entropy_type)random_int(seed, 0, 2);
    out.input.strides = heads_inside ? es_strides_bthd(n_heads, n, width + gap)
                                     : es_strides_bhtd(n_heads, n, width + gap);
    out.input.data = out.values;
    if (out.input.type == ES_ENTROPY_F32)
        return out;
    out.halves = malloc((count ? count : 1) * sizeof *out.halves);
    assert_non_null(out.halves);
    for (size_t i = 0; i < count; i++)
        out.halves[i] = out.input.type == ES_ENTROPY_F16
                            ? to_half(&out.values[i])
                            : to_bfloat(&out.values[i]);
    out.input.data = out.halves;
    return out;
}

/* --- a case -----------------------------------------------------------------
 */

enum { MOST_BATCH = 4, MOST_HEADS = 6, MOST_LENGTH = 400 };

typedef struct options_case {
    es_attention_shape shape;
    numbers q, k;
    unsigned char key_mask[MOST_BATCH * MOST_LENGTH];
    unsigned char query_mask[MOST_BATCH * MOST_LENGTH];
    int32_t key_lengths[MOST_BATCH], query_offsets[MOST_BATCH];
    int32_t query_starts[MOST_BATCH + 1], key_starts[MOST_BATCH + 1];
    float *temperature;
    float sink_logits[MOST_HEADS];
} options_case;

static void random_mask(unsigned char *mask, int n, uint64_t *seed)
{
    const int first = random_int(seed, 0, n - 1) * random_int(seed, 0, 1);
    const bool holes = chance(seed, 0.5);
    for (int j = 0; j < n; j++)
        mask[j] = j >= first && (!holes || chance(seed, 0.7));
}

static void random_starts(int32_t *starts, int n_batch, int total,
                          uint64_t *seed)
{
    starts[0] = 0;
    for (int b = 0; b < n_batch; b++)
        starts[b + 1] = random_int(seed, starts[b], total);
}

static void pack(options_case *c, uint64_t *seed)
{
    es_attention_shape *shape = &c->shape;
    shape->query_starts = c->query_starts;
    random_starts(c->query_starts, shape->n_batch, shape->n_queries, seed);
    if (shape->n_keys < shape->n_queries || chance(seed, 0.5)) {
        shape->key_starts = c->key_starts;
        random_starts(c->key_starts, shape->n_batch, shape->n_keys, seed);
    }
}

static void choose_rows(options_case *c, uint64_t *seed)
{
    es_attention_shape *shape = &c->shape;
    if (chance(seed, 0.4))
        pack(c, seed);
    if (chance(seed, 0.3)) {
        shape->key_mask = c->key_mask;
        random_mask(c->key_mask, MOST_BATCH * MOST_LENGTH, seed);
    }
    if (chance(seed, 0.3)) {
        shape->query_mask = c->query_mask;
        random_mask(c->query_mask, MOST_BATCH * MOST_LENGTH, seed);
    }
    if (chance(seed, 0.3))
        shape->key_lengths = c->key_lengths;
    if (chance(seed, 0.3))
        shape->query_offsets = c->query_offsets;
    for (int b = 0; b < shape->n_batch; b++) {
        c->key_lengths[b] = random_int(seed, 0, shape->n_keys + 2);
        c->query_offsets[b] = random_int(seed, -5, shape->n_keys);
    }
    if (chance(seed, 0.3))
        shape->query_offset = random_int(seed, -3, shape->n_keys);
    if (chance(seed, 0.3))
        shape->window = random_int(seed, 1, shape->n_keys + 3);
}

static void choose_scores(options_case *c, uint64_t *seed)
{
    es_attention_shape *shape = &c->shape;
    const size_t n = (size_t)shape->n_heads * (size_t)shape->n_queries;
    if (chance(seed, 0.3))
        shape->scale = pow(10, 2 * random_uniform(seed) - 1.5);
    if (chance(seed, 0.3))
        shape->softcap = pow(10, 2 * random_uniform(seed));
    if (chance(seed, 0.3))
        shape->sink_logits = c->sink_logits;
    for (int h = 0; h < shape->n_heads; h++)
        c->sink_logits[h] = (float)(3 * random_normal(seed));
    if (chance(seed, 0.2))
        c->sink_logits[0] = -INFINITY;
    c->temperature = new_normals(n, 1, *seed);
    for (size_t i = 0; i < n; i++)
        c->temperature[i] = 0.3F + fabsf(c->temperature[i]);
    if (chance(seed, 0.2))
        shape->temperature = c->temperature;
}

static options_case *new_case(uint64_t seed)
{
    options_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    const int kv_heads = random_int(&seed, 1, 2);
    const bool is_long = chance(&seed, 0.3), is_wide = chance(&seed, 0.1);
    c->shape = (es_attention_shape){
        .size = sizeof c->shape,
        .n_batch = random_int(&seed, 1, MOST_BATCH),
        .n_heads = kv_heads * random_int(&seed, 1, 3),
        .n_queries = random_int(&seed, 1, 60),
        .n_keys =
            random_int(&seed, is_long ? 200 : 1, is_long ? MOST_LENGTH : 60),
        .head_width = random_int(&seed, is_wide ? 500 : 1, is_wide ? 600 : 70),
        .causal = chance(&seed, is_long ? 0.3 : 0.7)};
    es_attention_shape *shape = &c->shape;
    const bool grouped = chance(&seed, 0.5);
    const double scale = pow(10, 4 * random_uniform(&seed) - 1.5);
    shape->n_kv_heads = grouped ? kv_heads : 0;
    choose_rows(c, &seed);
    choose_scores(c, &seed);
    const bool inside = shape->query_starts || chance(&seed, 0.5);
    const int n_batch = shape->query_starts ? 1 : shape->n_batch;
    c->q = random_numbers(n_batch, shape->n_heads, shape->n_queries,
                          shape->head_width, scale, inside, &seed);
    c->k = random_numbers(n_batch, grouped ? kv_heads : shape->n_heads,
                          shape->n_keys, shape->head_width, 1, inside, &seed);
    return c;
}

static void free_case(options_case *c)
{
    free(c->q.values);
    free(c->q.halves);
    free(c->k.values);
    free(c->k.halves);
    free(c->temperature);
    free(c);
}

/* --- the definition ---------------------------------------------------------
 */

/** Query `row` of sequence b, of those that the arrays have. */
typedef struct place {
    int b, h, row;
    int first_query, first_key, n_keys; /* of its sequence */
} place;

static double number_of(const numbers *x, int b, int h, int i, int d)
{
    const es_strides *s = &x->input.strides;
    return (double)x->values[b * s->batch + h * s->head + i * s->row + d];
}

/** q.k as exactly as double has it; *reach: sum |q_c k_c|. */
static double product(const options_case *c, const place *p, int j,
                      double *reach)
{
    const es_attention_shape *s = &c->shape;
    const int b = s->query_starts ? 0 : p->b;
    const int kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    double sum = 0;
    *reach = 0;
    for (int d = 0; d < s->head_width; d++) {
        const double x =
            number_of(&c->q, b, p->h, p->row, d) *
            number_of(&c->k, b, p->h / (s->n_heads / kv), p->first_key + j, d);
        sum += x;
        *reach += fabs(x);
    }
    return sum;
}

static int position_of(const options_case *c, const place *p)
{
    const es_attention_shape *s = &c->shape;
    return p->row - p->first_query +
           (s->query_offsets ? s->query_offsets[p->b] : s->query_offset);
}

static bool sees_mask(const options_case *c, const place *p, int j)
{
    const es_attention_shape *s = &c->shape;
    if (s->key_lengths && j >= s->key_lengths[p->b])
        return false;
    const int key = s->query_starts ? p->first_key + j : p->b * s->n_keys + j;
    return !s->key_mask || s->key_mask[key];
}

static bool sees(const options_case *c, const place *p, int j)
{
    const es_attention_shape *s = &c->shape;
    const int away = position_of(c, p) - j;
    return sees_mask(c, p, j) && (!s->causal || away >= 0) &&
           (s->window == 0 || abs(away) < s->window);
}

/** One row by the definition. */
typedef struct wanted_row {
    bool unseen;
    double x[N_FLOATS];
    double reach; /* largest sum |q_c k_c| as a score */
} wanted_row;

static bool is_wanted(const options_case *c, const place *p)
{
    const es_attention_shape *s = &c->shape;
    const int row = s->query_starts ? p->row : p->b * s->n_queries + p->row;
    return !s->query_mask || s->query_mask[row];
}

/** Scores of the keys that are seen, NaN for the others; how many. */
static int scores_of(const options_case *c, const place *p, double *scores,
                     double *reach)
{
    const es_attention_shape *s = &c->shape;
    const double root = 1 / sqrt(s->head_width);
    double scale = s->scale > 0 ? s->scale : root;
    int n = 0;
    *reach = 0;
    if (s->temperature)
        scale /= (double)s->temperature[p->h * s->n_queries + p->row];
    for (int j = 0; j < p->n_keys; j++) {
        double size;
        scores[j] = NAN;
        if (!sees(c, p, j))
            continue;
        scores[j] = scale * product(c, p, j, &size);
        if (s->softcap > 0)
            scores[j] = s->softcap * tanh(scores[j] / s->softcap);
        *reach = fmax(*reach, size * scale);
        n++;
    }
    return n;
}

static void add_sink(const options_case *c, const place *p, wanted_row *row,
                     const double *scores)
{
    int first = 0;
    while (!sees_mask(c, p, first))
        first++;
    if (!isnan(scores[first]))
        row->x[SINK] = exp(scores[first] - row->x[LSE]);
    if (c->shape.sink_logits) {
        const double sink = (double)c->shape.sink_logits[p->h];
        const double top = fmax(sink, row->x[MAX_LOGIT]);
        const double keys = exp(row->x[LSE] - top);
        row->x[MISSING] = exp(sink - top) / (exp(sink - top) + keys);
    }
}

static wanted_row wanted_at(const options_case *c, const place *p)
{
    double scores[MOST_LENGTH], sum = 0;
    wanted_row row = {.x = {[MAX_LOGIT] = -INFINITY}};
    if (!is_wanted(c, p) || scores_of(c, p, scores, &row.reach) == 0)
        return (wanted_row){.unseen = true};
    for (int j = 0; j < p->n_keys; j++)
        row.x[MAX_LOGIT] = fmax(row.x[MAX_LOGIT], scores[j]);
    for (int j = 0; j < p->n_keys; j++)
        if (!isnan(scores[j]))
            sum += exp(scores[j] - row.x[MAX_LOGIT]);
    row.x[LSE] = row.x[MAX_LOGIT] + log(sum);
    for (int j = 0; j < p->n_keys; j++) {
        if (isnan(scores[j]))
            continue;
        const double relative = scores[j] - row.x[MAX_LOGIT];
        const double a = exp(relative) / sum;
        row.x[ENTROPY] -= a * (relative - log(sum));
        row.x[DISTANCE] += a * abs(position_of(c, p) - j);
        row.x[TOP] = fmax(row.x[TOP], a);
    }
    add_sink(c, p, &row, scores);
    return row;
}

/* --- comparison -------------------------------------------------------------
 */

/** Outputs of a call. */
typedef struct outputs {
    es_rows rows;
    float *floats[N_FLOATS];
    es_heads heads;
    float means[8][MOST_HEADS];
    int64_t counts[3][MOST_HEADS];
} outputs;

static outputs *new_outputs(const es_attention_shape *shape)
{
    const size_t n =
        n_rows(shape) / (size_t)(shape->query_starts ? shape->n_batch : 1);
    outputs *out = calloc(1, sizeof *out);
    assert_non_null(out);
    for (int i = 0; i < N_FLOATS; i++)
        out->floats[i] = new_normals(n, 1e9, 7);
    out->rows = (es_rows){.size = sizeof out->rows,
                          .entropy = out->floats[ENTROPY],
                          .lse = out->floats[LSE],
                          .max_logit = out->floats[MAX_LOGIT],
                          .sink = out->floats[SINK],
                          .missing = out->floats[MISSING],
                          .distance = out->floats[DISTANCE],
                          .top = out->floats[TOP]};
    out->heads = (es_heads){.size = sizeof out->heads,
                            .entropy = out->means[ENTROPY],
                            .entropy_min = out->means[LSE],
                            .entropy_max = out->means[7],
                            .max_logit = out->means[MAX_LOGIT],
                            .sink = out->means[SINK],
                            .missing = out->means[MISSING],
                            .distance = out->means[DISTANCE],
                            .top = out->means[TOP],
                            .finite_rows = out->counts[0],
                            .nonfinite_rows = out->counts[1],
                            .nonfinite_weights = out->counts[2]};
    return out;
}

static void free_outputs(outputs *out)
{
    for (int i = 0; i < N_FLOATS; i++)
        free(out->floats[i]);
    free(out);
}

static void assert_row(const outputs *got, size_t position,
                       const wanted_row *row, double farthest)
{
    const double score = 1e-5 + 5e-7 * row->reach;
    const double tolerances[N_FLOATS] = {[ENTROPY] = 1e-5,
                                         [LSE] = score,
                                         [MAX_LOGIT] = score,
                                         [SINK] = 1e-5,
                                         [MISSING] = score,
                                         [TOP] = 1e-5,
                                         [DISTANCE] = 1e-5 * farthest};
    for (int i = 0; i < N_FLOATS; i++) {
        const float x = got->floats[i][position];
        assert_int_equal(es_is_missing(x), row->unseen);
        if (!row->unseen)
            assert_close((double)x, row->x[i], tolerances[i]);
    }
}

/** A head by the definition. */
typedef struct wanted_head {
    int n, n_sequence;
    double sums[N_FLOATS], sequence;
    double low, high, max_logit, reach;
} wanted_head;

static void add_row(wanted_head *head, const wanted_row *row)
{
    if (row->unseen)
        return;
    for (int i = 0; i < N_FLOATS; i++)
        head->sums[i] += row->x[i];
    head->sequence += row->x[ENTROPY];
    head->n++;
    head->n_sequence++;
    head->max_logit = fmax(head->max_logit, row->x[MAX_LOGIT]);
    head->reach = fmax(head->reach, row->reach);
}

static void end_sequence(wanted_head *head)
{
    if (head->n_sequence > 0) {
        head->low = fmin(head->low, head->sequence / head->n_sequence);
        head->high = fmax(head->high, head->sequence / head->n_sequence);
    }
    head->sequence = head->n_sequence = 0;
}

static void assert_head(const outputs *got, int h, const wanted_head *head)
{
    const double score = 1e-5 + 5e-7 * head->reach;
    assert_int_equal(got->counts[0][h], head->n);
    assert_int_equal(got->counts[1][h], 0);
    assert_int_equal(got->counts[2][h], 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(es_is_missing(got->means[i][h]), head->n == 0);
    if (head->n == 0)
        return;
    const int means[] = {ENTROPY, SINK, TOP};
    for (int i = 0; i < 3; i++)
        assert_close((double)got->means[means[i]][h],
                     head->sums[means[i]] / head->n, 1e-5);
    assert_close((double)got->means[MISSING][h], head->sums[MISSING] / head->n,
                 score);
    assert_close((double)got->means[DISTANCE][h],
                 head->sums[DISTANCE] / head->n, 1e-5 * 2 * MOST_LENGTH);
    assert_close((double)got->means[LSE][h], head->low, 1e-5);
    assert_close((double)got->means[7][h], head->high, 1e-5);
    assert_close((double)got->means[MAX_LOGIT][h], head->max_logit, score);
}

static void check_sequence(const options_case *c, const outputs *got,
                           wanted_head *head, int b, int h)
{
    const es_attention_shape *s = &c->shape;
    const int32_t *key_starts = s->key_starts ? s->key_starts : s->query_starts;
    place p = {.b = b, .h = h, .n_keys = s->n_keys};
    int end = s->n_queries;
    size_t lead = ((size_t)b * (size_t)s->n_heads + (size_t)h);
    if (s->query_starts) {
        p.first_query = s->query_starts[b];
        p.first_key = key_starts[b];
        p.n_keys = key_starts[b + 1] - p.first_key;
        end = s->query_starts[b + 1];
        lead = (size_t)h;
    }
    for (p.row = p.first_query; p.row < end; p.row++) {
        const wanted_row row = wanted_at(c, &p);
        const int position = abs(position_of(c, &p));
        assert_row(got, lead * (size_t)s->n_queries + (size_t)p.row, &row,
                   1 + position + p.n_keys);
        add_row(head, &row);
    }
    end_sequence(head);
}

static void check_case(const options_case *c, const outputs *got)
{
    const es_attention_shape *s = &c->shape;
    for (int h = 0; h < s->n_heads; h++) {
        wanted_head head = {
            .low = INFINITY, .high = -INFINITY, .max_logit = -INFINITY};
        for (int b = 0; b < s->n_batch; b++)
            check_sequence(c, got, &head, b, h);
        assert_head(got, h, &head);
        const int end =
            s->query_starts ? s->query_starts[s->n_batch] : s->n_queries;
        for (int i = end; i < s->n_queries; i++)
            assert_true(es_is_missing(got->rows.entropy[h * s->n_queries + i]));
    }
}

static void test_entropy_options__all_options_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (int round = 1; round <= ROUNDS; round++) {
        options_case *c = new_case((uint64_t)round);
        outputs *got = new_outputs(&c->shape);
        print_message("# round %d\n", round);
        assert_int_equal(es_entropy_with(set, &got->rows, &got->heads,
                                         &c->q.input, &c->k.input, &c->shape,
                                         1 + round % 3),
                         ES_OK);
        check_case(c, got);
        free_outputs(got);
        free_case(c);
    }
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(test_entropy_options__all_options_agree),
    };
    return run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
