/* The plain forms in double precision: the kernels are checked against them,
   take rows from them that are not finite, and heads that are too wide. */
#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy_internal.h"

#include <float.h>
#include <math.h>

#define LOG_EPSILON 1e-9 /* inside the logarithm: AERO, eq. 10 */

/** -a ln(a + 1e-9), one summand of a row's entropy. */
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
    return (es_ref_row){NAN, NAN, NAN, NAN, count, count == 0};
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

/** False for NaN, infinity and what float32 would make infinite. */
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

es_ref_row es_ref_row_qk(es_numbers q, es_numbers k, ptrdiff_t k_row, int n,
                         const unsigned char *mask, int head_width,
                         float temperature)
{
    double top = -INFINITY, sum = 0;
    double divisor = (double)temperature * sqrt((double)head_width);
    bool finite = true, at_first = true;
    for (int j = 0; j < n; j++) {
        if (!is_visible(mask, j))
            continue;
        double product = dot(q, es_numbers_from(k, j * k_row), head_width);
        finite = finite && fits_float(product);
        top = fmax(top, product / divisor);
    }
    if (!finite || isnan(divisor) || !fits_float(top))
        return es_ref_row_nonfinite(count_visible(mask, n));
    for (int j = 0; j < n; j++)
        if (is_visible(mask, j))
            sum += exp(dot(q, es_numbers_from(k, j * k_row), head_width) /
                           divisor -
                       top);
    es_ref_row row = {.lse = top + log(sum), .max_logit = top};
    for (int j = 0; j < n; j++) {
        if (!is_visible(mask, j))
            continue;
        double score =
            dot(q, es_numbers_from(k, j * k_row), head_width) / divisor;
        double weight = exp(score - top) / sum;
        row.entropy += surprise(weight);
        if (at_first)
            row.sink = weight;
        at_first = false;
    }
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
}

es_numbers es_entropy_head(const es_entropy_input *input, int batch, int head)
{
    es_numbers all = {input->data, input->type == ES_ENTROPY_BF16};
    return es_numbers_from(all, batch * input->strides.batch +
                                    head * input->strides.head);
}

int es_entropy_key_head(const es_attention_shape *shape, int head)
{
    return shape->n_kv_heads ? head / (shape->n_heads / shape->n_kv_heads)
                             : head;
}

void es_ref_entropy(const es_rows *rows, const es_entropy_input *in,
                    const es_entropy_input *k, const float *temperature,
                    const es_attention_shape *shape)
{
    const int n_queries = shape->n_queries, n_keys = shape->n_keys;
    size_t position = 0;
    for (int b = 0; b < shape->n_batch; b++)
        for (int h = 0; h < shape->n_heads; h++) {
            const es_numbers head = es_entropy_head(in, b, h);
            const unsigned char *mask =
                shape->key_mask ? shape->key_mask + (ptrdiff_t)b * n_keys
                                : NULL;
            for (int i = 0; i < n_queries; i++, position++) {
                const es_numbers x = es_numbers_from(head, i * in->strides.row);
                const es_entropy_keys all = es_entropy_keys_all(shape);
                const int n = es_key_limit(&all, i);
                const size_t in_head = (size_t)h * (size_t)n_queries;
                es_ref_row row =
                    k ? es_ref_row_qk(
                            x,
                            es_entropy_head(k, b,
                                            es_entropy_key_head(shape, h)),
                            k->strides.row, n, mask, shape->head_width,
                            es_temperature(temperature, in_head + (size_t)i))
                      : es_ref_row_probs(x, n, mask);
                es_rows_store(rows, position, &row, k);
            }
        }
}
