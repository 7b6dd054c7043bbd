/* The plain forms in double precision that everything else is judged by. */
#include "analyzer/entropy/entropy_internal.h"

#include <float.h>
#include <math.h>

#define LOG_EPSILON 1e-9 /* inside the logarithm: AERO, eq. 10 */

static es_ref_row nonfinite_row(int count)
{
    return (es_ref_row){NAN, NAN, NAN, NAN, count};
}

/** -a ln(a + 1e-9), one summand of a row's entropy. */
static double surprise(double a)
{
    return -a * log(a + LOG_EPSILON);
}

es_ref_row es_ref_row_probs(const float *att, int n)
{
    es_ref_row row = {.lse = NAN, .max_logit = NAN, .sink = (double)att[0]};
    int count = 0;
    for (int j = 0; j < n; j++)
        count += !isfinite(att[j]);
    if (count)
        return nonfinite_row(count);
    for (int j = 0; j < n; j++)
        row.entropy += surprise((double)att[j]);
    return row;
}

/** False for NaN, infinity and what float32 would make infinite. */
static bool fits_float(double x)
{
    return fabs(x) <= (double)FLT_MAX;
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int c = 0; c < n; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

es_ref_row es_ref_row_qk(const float *q, const float *k, ptrdiff_t k_row, int n,
                         int head_width, float temperature)
{
    double top = -INFINITY, sum = 0;
    double divisor = (double)temperature * sqrt((double)head_width);
    bool finite = true;
    for (int j = 0; j < n; j++) {
        double product = dot(q, k + j * k_row, head_width);
        finite = finite && fits_float(product);
        top = fmax(top, product / divisor);
    }
    if (!finite || isnan(divisor) || !fits_float(top))
        return nonfinite_row(n);
    for (int j = 0; j < n; j++)
        sum += exp(dot(q, k + j * k_row, head_width) / divisor - top);
    es_ref_row row = {.lse = top + log(sum), .max_logit = top};
    for (int j = 0; j < n; j++) {
        double score = dot(q, k + j * k_row, head_width) / divisor;
        double weight = exp(score - top) / sum;
        row.entropy += surprise(weight);
        if (j == 0)
            row.sink = weight;
    }
    return row;
}

float es_temperature(const float *temperature, size_t at)
{
    if (!temperature)
        return 1;
    return temperature[at] < ES_TEMPERATURE_FLOOR ? ES_TEMPERATURE_FLOOR
                                                  : temperature[at];
}

void es_rows_store(const es_rows *rows, size_t at, const es_ref_row *row,
                   bool from_qk)
{
    if (rows->entropy)
        rows->entropy[at] = (float)row->entropy;
    if (rows->sink)
        rows->sink[at] = (float)row->sink;
    if (rows->nonfinite)
        rows->nonfinite[at] = row->nonfinite;
    if (rows->lse && from_qk)
        rows->lse[at] = (float)row->lse;
    if (rows->max_logit && from_qk)
        rows->max_logit[at] = (float)row->max_logit;
}

void es_ref_entropy_probs(const es_rows *rows, const float *att,
                          const es_attention_shape *shape)
{
    if (!es_shape_has_rows(shape))
        return;
    size_t n_keys = (size_t)shape->n_keys, at = 0;
    for (int b = 0; b < shape->n_batch; b++)
        for (int h = 0; h < shape->n_heads; h++)
            for (int i = 0; i < shape->n_queries; i++, at++) {
                int n = es_visible_keys(shape, i);
                es_ref_row row = es_ref_row_probs(att + at * n_keys, n);
                es_rows_store(rows, at, &row, false);
            }
}

void es_ref_entropy_qk(const es_rows *rows, const float *q, const float *k,
                       const float *temperature,
                       const es_attention_shape *shape)
{
    if (!es_shape_has_rows(shape) || shape->head_width < 1)
        return;
    int width = shape->head_width;
    size_t n_queries = (size_t)shape->n_queries, at = 0;
    for (int b = 0; b < shape->n_batch; b++)
        for (int h = 0; h < shape->n_heads; h++) {
            for (int i = 0; i < shape->n_queries; i++, at++) {
                size_t in_head = (size_t)h * n_queries + (size_t)i;
                float t = es_temperature(temperature, in_head);
                es_ref_row row =
                    es_ref_row_qk(q + at * (size_t)width, k, width,
                                  es_visible_keys(shape, i), width, t);
                es_rows_store(rows, at, &row, true);
            }
            k += (size_t)shape->n_keys * (size_t)width;
        }
}

/** Sums over finite rows, of one sequence or of the whole batch. */
typedef struct row_sums {
    double entropy, sink, missing;
    int64_t n;
} row_sums;

static double mean(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : NAN;
}

/** Adds the rows of one head of one sequence to the head's statistics. */
static void add_sequence(es_head_stats *out, row_sums *head,
                         const es_rows *rows, size_t start, int n_queries)
{
    row_sums sequence = {0};
    for (size_t i = start; i < start + (size_t)n_queries; i++) {
        if (rows->nonfinite)
            out->nonfinite_weights += rows->nonfinite[i];
        if (!isfinite(rows->entropy[i])) {
            out->nonfinite_rows++;
            continue;
        }
        sequence.n++;
        sequence.entropy += (double)rows->entropy[i];
        if (rows->sink)
            sequence.sink += (double)rows->sink[i];
        if (rows->missing)
            sequence.missing += (double)rows->missing[i];
        if (rows->max_logit)
            out->max_logit = fmax(out->max_logit, (double)rows->max_logit[i]);
    }
    double entropy = mean(sequence.entropy, sequence.n);
    out->entropy_min = fmin(out->entropy_min, entropy);
    out->entropy_max = fmax(out->entropy_max, entropy);
    head->n += sequence.n;
    head->entropy += sequence.entropy;
    head->sink += sequence.sink;
    head->missing += sequence.missing;
}

void es_rows_reduce(es_head_stats *out, const es_rows *rows, int n_batch,
                    int n_heads, int n_queries)
{
    for (int h = 0; h < n_heads; h++) {
        row_sums head = {0};
        out[h] = (es_head_stats){
            .entropy_min = NAN, .entropy_max = NAN, .max_logit = NAN};
        for (int b = 0; b < n_batch; b++) {
            size_t at = (size_t)b * (size_t)n_heads + (size_t)h;
            add_sequence(&out[h], &head, rows, at * (size_t)n_queries,
                         n_queries);
        }
        out[h].entropy = mean(head.entropy, head.n);
        out[h].sink = rows->sink ? mean(head.sink, head.n) : NAN;
        out[h].missing = rows->missing ? mean(head.missing, head.n) : NAN;
    }
}
