/* Computes the statistics of es_qk_statistics by their definitions, in double
 * precision, row by row and key by key, and compares the outputs of a call with
 * these statistics. */
#include "analyzer/base/value.h"
#include "tests/support/entropy_cases.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* --- the definition ------------------------------------------------------- */

/** Identifies one row: head h of sequence b and query `row`, which is an index
 *  into the array of all queries. */
typedef struct place {
    int b, h, row;
    /* indices of the first query and the first key of the sequence, and its
     * number of keys */
    int first_query, first_key, n_keys;
} place;

static double number_of(const case_numbers *x, int b, int h, int i, int d)
{
    const es_strides *s = &x->input.strides;
    return (double)x->values[(ptrdiff_t)x->origin + b * s->batch + h * s->head +
                             i * s->row + d];
}

/**
 * Returns q.k as exactly as double allows, and sets *reach to sum |q_c k_c|.
 */
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

/** The expected statistics of one row. */
typedef struct wanted_row {
    /* unseen: the row sees no key; broken: a score of the row is not finite */
    bool unseen, broken;
    int n_seen;
    double sum; /* sum of exp(score - largest score) */
    double x[N_OPTION_FLOATS];
    double reach; /* largest sum |q_c k_c| over the visible keys, multiplied by
                     the factor of the scores; used for the tolerance */
} wanted_row;

static bool is_wanted(const options_case *c, const place *p)
{
    const es_attention_shape *s = &c->shape;
    const int row = s->query_starts ? p->row : p->b * s->n_queries + p->row;
    return !s->query_mask || s->query_mask[row];
}

/**
 * Returns the factor that converts the products q.k of a row to scores; NaN if
 * the row's temperature is NaN.
 */
static double scale_of(const options_case *c, const place *p)
{
    const es_attention_shape *s = &c->shape;
    const double scale = s->scale > 0 ? s->scale : 1 / sqrt(s->head_width);
    if (!s->temperature)
        return scale;
    const double t = (double)s->temperature[p->h * s->n_queries + p->row];
    return scale / (t < 1e-4 ? 1e-4 : t);
}

static bool is_float(double x)
{
    return fabs(x) <= (double)FLT_MAX;
}

/**
 * Computes the scores of the visible keys (NaN for hidden keys), and the
 * statistics of the row that depend only on scores.
 */
static void find_scores(const options_case *c, const place *p, double *scores,
                        wanted_row *row)
{
    const es_attention_shape *s = &c->shape;
    const double scale = scale_of(c, p);
    row->broken =
        isnan(scale) || (s->sink_logits && !(s->sink_logits[p->h] < INFINITY));
    for (int j = 0; j < p->n_keys; j++) {
        double size;
        scores[j] = NAN;
        if (!sees(c, p, j))
            continue;
        const double x = product(c, p, j, &size);
        scores[j] = scale * x;
        row->broken = row->broken || !is_float(x);
        if (s->softcap > 0)
            scores[j] = s->softcap * tanh(scores[j] / s->softcap);
        row->x[OPTION_MAX_LOGIT] = fmax(row->x[OPTION_MAX_LOGIT], scores[j]);
        row->reach = fmax(row->reach, size * scale);
        row->n_seen++;
    }
    row->unseen = row->n_seen == 0;
    row->broken =
        !row->unseen && (row->broken || !is_float(row->x[OPTION_MAX_LOGIT]));
}

static void add_sink(const options_case *c, const place *p, wanted_row *row,
                     const double *scores)
{
    int first = 0;
    while (!sees_mask(c, p, first))
        first++;
    if (!isnan(scores[first]))
        row->x[OPTION_SINK] =
            exp(scores[first] - row->x[OPTION_MAX_LOGIT]) / row->sum;
    if (c->shape.sink_logits) {
        const double sink = (double)c->shape.sink_logits[p->h];
        const double top = fmax(sink, row->x[OPTION_MAX_LOGIT]);
        const double keys = exp(row->x[OPTION_LSE] - top);
        row->x[OPTION_MISSING] = exp(sink - top) / (exp(sink - top) + keys);
    }
}

static wanted_row wanted_at(const options_case *c, const place *p)
{
    double scores[OPTIONS_MOST_LENGTH];
    wanted_row row = {.x = {[OPTION_MAX_LOGIT] = -INFINITY}};
    if (!is_wanted(c, p))
        return (wanted_row){.unseen = true};
    find_scores(c, p, scores, &row);
    if (row.unseen || row.broken)
        return row;
    for (int j = 0; j < p->n_keys; j++)
        if (!isnan(scores[j]))
            row.sum += exp(scores[j] - row.x[OPTION_MAX_LOGIT]);
    row.x[OPTION_LSE] = row.x[OPTION_MAX_LOGIT] + log(row.sum);
    for (int j = 0; j < p->n_keys; j++) {
        if (isnan(scores[j]))
            continue;
        const double relative = scores[j] - row.x[OPTION_MAX_LOGIT];
        const double a = exp(relative) / row.sum;
        if (a > 0)
            row.x[OPTION_ENTROPY] -= a * (relative - log(row.sum));
        row.x[OPTION_DISTANCE] += a * abs(position_of(c, p) - j);
        row.x[OPTION_TOP] = fmax(row.x[OPTION_TOP], a);
    }
    add_sink(c, p, &row, scores);
    return row;
}

/* --- comparison ----------------------------------------------------------- */

options_outputs *new_options_outputs(const es_attention_shape *shape)
{
    const size_t n =
        n_rows(shape) / (size_t)(shape->query_starts ? shape->n_batch : 1);
    options_outputs *out = calloc(1, sizeof *out);
    assert_non_null(out);
    for (int i = 0; i < N_OPTION_FLOATS; i++)
        out->floats[i] = new_normals(n, 1e9, 7);
    out->nonfinite = calloc(n, sizeof *out->nonfinite);
    assert_non_null(out->nonfinite);
    out->rows = (es_rows){.size = sizeof out->rows,
                          .entropy = out->floats[OPTION_ENTROPY],
                          .lse = out->floats[OPTION_LSE],
                          .max_logit = out->floats[OPTION_MAX_LOGIT],
                          .sink = out->floats[OPTION_SINK],
                          .nonfinite = out->nonfinite,
                          .missing = out->floats[OPTION_MISSING],
                          .distance = out->floats[OPTION_DISTANCE],
                          .top = out->floats[OPTION_TOP]};
    out->heads = (es_heads){.size = sizeof out->heads,
                            .entropy = out->means[OPTION_ENTROPY],
                            .entropy_min = out->means[OPTION_LSE],
                            .entropy_max = out->means[7],
                            .max_logit = out->means[OPTION_MAX_LOGIT],
                            .sink = out->means[OPTION_SINK],
                            .missing = out->means[OPTION_MISSING],
                            .distance = out->means[OPTION_DISTANCE],
                            .top = out->means[OPTION_TOP],
                            .finite_rows = out->counts[0],
                            .nonfinite_rows = out->counts[1],
                            .nonfinite_weights = out->counts[2]};
    return out;
}

void free_options_outputs(options_outputs *out)
{
    for (int i = 0; i < N_OPTION_FLOATS; i++)
        free(out->floats[i]);
    free(out->nonfinite);
    free(out);
}

static void assert_row(const options_outputs *got, size_t position,
                       const wanted_row *row, double farthest)
{
    const double score = 1e-5 + 5e-7 * row->reach;
    const double tolerances[N_OPTION_FLOATS] = {[OPTION_ENTROPY] = 1e-5,
                                                [OPTION_LSE] = score,
                                                [OPTION_MAX_LOGIT] = score,
                                                [OPTION_SINK] = 1e-5,
                                                [OPTION_MISSING] = score,
                                                [OPTION_TOP] = 1e-5,
                                                [OPTION_DISTANCE] =
                                                    1e-5 * farthest};
    assert_int_equal(got->nonfinite[position], row->broken ? row->n_seen : 0);
    for (int i = 0; i < N_OPTION_FLOATS; i++) {
        const float x = got->floats[i][position];
        assert_int_equal(es_is_missing(x), row->unseen);
        if (row->broken)
            assert_true(isnan(x));
        else if (!row->unseen)
            assert_close((double)x, row->x[i], tolerances[i]);
    }
}

/** The expected statistics of one head. */
typedef struct wanted_head {
    /* number of finite rows, of finite rows in the current sequence, and of
     * rows that are not finite */
    int n, n_sequence, n_broken;
    int64_t n_weights;
    double sums[N_OPTION_FLOATS], sequence;
    double low, high, max_logit, reach;
} wanted_head;

static void add_row(wanted_head *head, const wanted_row *row)
{
    head->n_broken += row->broken;
    head->n_weights += row->broken ? row->n_seen : 0;
    if (row->unseen || row->broken)
        return;
    for (int i = 0; i < N_OPTION_FLOATS; i++)
        head->sums[i] += row->x[i];
    head->sequence += row->x[OPTION_ENTROPY];
    head->n++;
    head->n_sequence++;
    head->max_logit = fmax(head->max_logit, row->x[OPTION_MAX_LOGIT]);
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

static void assert_head(const options_outputs *got, int h,
                        const wanted_head *head)
{
    const double score = 1e-5 + 5e-7 * head->reach;
    assert_int_equal(got->counts[0][h], head->n);
    assert_int_equal(got->counts[1][h], head->n_broken);
    assert_int_equal(got->counts[2][h], head->n_weights);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(isnan(got->means[i][h]), head->n == 0);
        assert_int_equal(es_is_missing(got->means[i][h]),
                         head->n == 0 && head->n_broken == 0);
    }
    if (head->n == 0)
        return;
    const int means[] = {OPTION_ENTROPY, OPTION_SINK, OPTION_TOP};
    for (int i = 0; i < 3; i++)
        assert_close((double)got->means[means[i]][h],
                     head->sums[means[i]] / head->n, 1e-5);
    assert_close((double)got->means[OPTION_MISSING][h],
                 head->sums[OPTION_MISSING] / head->n, score);
    assert_close((double)got->means[OPTION_DISTANCE][h],
                 head->sums[OPTION_DISTANCE] / head->n,
                 1e-5 * 2 * OPTIONS_MOST_LENGTH);
    assert_close((double)got->means[OPTION_LSE][h], head->low, 1e-5);
    assert_close((double)got->means[7][h], head->high, 1e-5);
    assert_close((double)got->means[OPTION_MAX_LOGIT][h], head->max_logit,
                 score);
}

static void check_sequence(const options_case *c, const options_outputs *got,
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

void check_options_case(const options_case *c, const options_outputs *got)
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

void check_options_call(const es_entropy_kernels *set, const options_case *c,
                        int n_threads)
{
    options_outputs *got = new_options_outputs(&c->shape);
    assert_int_equal(es_entropy_with(set, &got->rows, &got->heads, &c->q.input,
                                     &c->k.input, &c->shape, n_threads),
                     ES_OK);
    check_options_case(c, got);
    free_options_outputs(got);
}
