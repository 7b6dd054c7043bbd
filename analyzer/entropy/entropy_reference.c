/* Computes rows in double precision with plain code. The kernels are checked
   against these results, and use these functions for non-finite rows and for
   heads that are too wide. */
#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy_internal.h"

#include <float.h>
#include <math.h>

#define LOG_EPSILON 1e-9 /* epsilon inside the logarithm (AERO, eq. 10) */

/** Returns -a ln(a + 1e-9), one summand of a row's entropy. */
static double surprise(double a)
{
    return -a * log(a + LOG_EPSILON);
}

static bool is_visible(const unsigned char *mask, int j)
{
    return !mask || mask[j];
}

static int count_visible(const unsigned char *mask, int n)
{
    int count = 0;
    for (int j = 0; mask && j < n; j++)
        count += mask[j] != 0;
    return mask ? count : n;
}

es_ref_row es_ref_row_nonfinite(int count)
{
    return (es_ref_row){NAN, NAN, NAN, NAN, count, count == 0, NAN, NAN, NAN};
}

es_ref_row es_ref_row_probs(es_numbers att, int n, const unsigned char *mask)
{
    es_ref_row row = {.lse = NAN, .max_logit = NAN};
    int count = 0, first = -1;
    for (int j = 0; j < n; j++) {
        if (!is_visible(mask, j))
            continue;
        first = first < 0 ? j : first;
        count += !isfinite(es_number(att, j));
    }
    if (count || first < 0)
        return es_ref_row_nonfinite(count);
    for (int j = first; j < n; j++)
        if (is_visible(mask, j))
            row.entropy += surprise((double)es_number(att, j));
    row.sink = (double)es_number(att, first);
    return row;
}

/** Returns false for NaN, infinity and numbers that overflow a float32. */
static bool fits_float(double x)
{
    return fabs(x) <= (double)FLT_MAX;
}

static double dot(es_numbers a, es_numbers b, int n)
{
    double sum = 0;
    for (int c = 0; c < n; c++)
        sum += (double)es_number(a, c) * (double)es_number(b, c);
    return sum;
}

static double score(const es_ref_query *x, int j)
{
    const double product =
        x->scale * dot(x->q, es_numbers_from(x->k, j * x->k_row), x->width);
    return x->softcap > 0 ? x->softcap * tanh(product / x->softcap) : product;
}

static bool has_odd_product(const es_ref_query *x)
{
    for (int j = x->start; j < x->n; j++)
        if (is_visible(x->mask, j) &&
            !fits_float(
                dot(x->q, es_numbers_from(x->k, j * x->k_row), x->width)))
            return true;
    return false;
}

/**
 * Returns the largest score of the row. Sets *sum to the sum of exp(score -
 * largest score) over the row.
 */
static double top_of(const es_ref_query *x, double *sum)
{
    double top = -INFINITY;
    *sum = 0;
    for (int j = x->start; j < x->n; j++)
        if (is_visible(x->mask, j))
            top = fmax(top, score(x, j));
    for (int j = x->start; j < x->n; j++)
        if (is_visible(x->mask, j))
            *sum += exp(score(x, j) - top);
    return top;
}

es_ref_row es_ref_row_qk(const es_ref_query *x)
{
    const int n_visible =
        count_visible(x->mask, x->n) - count_visible(x->mask, x->start);
    double sum;
    const double top = top_of(x, &sum);
    if (has_odd_product(x) || isnan(x->scale) || !fits_float(top) ||
        (x->sink_logit && !(*x->sink_logit < INFINITY)))
        return es_ref_row_nonfinite(n_visible);
    es_ref_row row = {.lse = top + log(sum), .max_logit = top, .top = 1 / sum};
    int sink = 0;
    while (!is_visible(x->mask, sink))
        sink++;
    for (int j = x->start; j < x->n; j++) {
        if (!is_visible(x->mask, j))
            continue;
        const double weight = exp(score(x, j) - top) / sum;
        row.entropy += surprise(weight);
        row.distance += weight * fabs(x->position - j);
        if (j == sink)
            row.sink = weight;
    }
    if (x->sink_logit)
        row.missing = 1 / (1 + exp(row.lse - (double)*x->sink_logit));
    return row;
}

float es_temperature(const float *temperature, size_t position)
{
    if (!temperature)
        return 1;
    return temperature[position] < ES_TEMPERATURE_FLOOR ? ES_TEMPERATURE_FLOOR
                                                        : temperature[position];
}

static void store(float *array, size_t position, double value, bool unseen)
{
    if (array)
        array[position] = unseen ? es_missing() : (float)value;
}

void es_rows_store(const es_rows *rows, size_t position, const es_ref_row *row,
                   bool from_qk)
{
    store(rows->entropy, position, row->entropy, row->unseen);
    store(rows->sink, position, row->sink, row->unseen);
    if (rows->nonfinite)
        rows->nonfinite[position] = row->nonfinite;
    if (!from_qk)
        return;
    store(rows->lse, position, row->lse, row->unseen);
    store(rows->max_logit, position, row->max_logit, row->unseen);
    store(rows->missing, position, row->missing, row->unseen);
    store(rows->distance, position, row->distance, row->unseen);
    store(rows->top, position, row->top, row->unseen);
}

/* --- whole parts ------------------------------------------------------------
 */

static void reference_probs(const es_entropy_part *part)
{
    for (int i = part->first; i < part->end; i++) {
        const es_ref_row row =
            es_ref_row_probs(es_numbers_from(part->in, i * part->in_row),
                             es_key_limit(part->keys, i), part->keys->mask);
        es_rows_store(&part->rows, (size_t)(i - part->first), &row, false);
    }
}

static void reference_qk(const es_entropy_part *part, float *scratch)
{
    (void)scratch;
    for (int i = part->first; i < part->end && !es_is_late(part); i++) {
        const es_ref_query query = {
            .q = es_numbers_from(part->in, i * part->in_row),
            .k = part->k,
            .k_row = part->k_row,
            .start = es_key_start(part->keys, i),
            .n = es_key_limit(part->keys, i),
            .mask = part->keys->mask,
            .width = part->width,
            .scale = es_scale(part, i),
            .softcap = part->softcap,
            .sink_logit = part->sink_logit,
            .position = (double)part->keys->offset + i};
        if (!es_is_wanted(part, i))
            continue;
        const es_ref_row row = es_ref_row_qk(&query);
        es_rows_store(&part->rows, (size_t)(i - part->first), &row, true);
    }
}

const es_entropy_kernels es_entropy_kernels_reference = {
    .name = "reference", .probs = reference_probs, .qk = reference_qk};
