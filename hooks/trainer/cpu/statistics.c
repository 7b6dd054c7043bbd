/* Computes the statistics of single rows of attention in double, directly from
 * the formulas. Attention by polynomials uses this for all rows; otherwise it
 * is used only for rows in which the vector kernels give results that are not
 * finite. statistics.inc.h computes the other rows. */
#include "hooks/trainer/cpu/half.h"
#include "hooks/trainer/cpu/kernels.h"

/* --- from queries and keys ------------------------------------------------ */

/* Computes the score of query i and key j of a bf16 head directly, without
 * float32 copies. */
static double score_halves(const es_cpu_head *head, int i, int j)
{
    const size_t stride = head->halves.stride;
    const es_bfloat *q = head->halves.q + (size_t)i * stride;
    const es_bfloat *k = head->halves.k + (size_t)j * stride;
    float sum = 0;
    for (int c = 0; c < head->width; c++)
        sum += es_bfloat_read(q[c]) * es_bfloat_read(k[c]);
    return (double)(sum * es_cpu_head_scale(head, i));
}

/* Computes the score of query i and key j with a float32 product, as the
 * kernels do. */
static double compute_score(const es_cpu_head *head, int i, int j)
{
    if (!head->q)
        return score_halves(head, i, j);
    const float *q = head->q + (size_t)i * head->stride;
    const float *k = head->k + (size_t)j * head->stride;
    const float scale = es_cpu_head_scale(head, i);
    const float early = head->half ? 1 : scale;
    float sum = 0;
    for (int c = 0; c < head->width; c++)
        sum += early * q[c] * k[c];
    return (double)(head->half ? es_half_round(sum) * scale : sum);
}

/* Sums over the scores of one row, computed in a single pass. */
typedef struct row_sums {
    double largest, sum, moment, first, distance;
    double apart, apart_squares; /* sums of s - largest and of (s - largest)^2
                                    over all scores s */
    bool finite;
} row_sums;

/* Returns the number of keys that query i sees. */
static int count_keys(const es_cpu_head *head, int i)
{
    return head->place ? head->n_ctx : i + 1;
}

static double distance(const es_cpu_head *head, int i, int j)
{
    return head->place ? fabs((double)(head->place[i] - head->place[j]))
                       : i - j;
}

static row_sums sum_row(const es_cpu_head *head, int i)
{
    const int n_keys = count_keys(head, i);
    row_sums row = {.largest = -(double)INFINITY, .finite = true};
    for (int j = 0; j < n_keys; j++) {
        double s = compute_score(head, i, j);
        row.finite = row.finite && isfinite(s);
        if (s > row.largest || isnan(s))
            row.largest = s;
    }
    for (int j = 0; j < n_keys; j++) {
        double x = compute_score(head, i, j) - row.largest, p = exp(x);
        row.apart += x;
        row.apart_squares += x * x;
        row.sum += p;
        row.moment += p > 0 ? p * x : 0;
        row.distance += p * distance(head, i, j);
        if (j == 0)
            row.first = p;
    }
    return row;
}

static void measure_softmax(double values[ES_N_ROW_STATISTICS],
                            const es_cpu_head *head, int i)
{
    const row_sums row = sum_row(head, i);
    const int n_keys = count_keys(head, i);
    const double log_sum = log(row.sum);
    values[ES_ROW_NONFINITE] = 0;
    for (int j = 0; !row.finite && j < n_keys; j++)
        values[ES_ROW_NONFINITE] +=
            !isfinite(exp(compute_score(head, i, j) - row.largest) / row.sum);
    if (!row.finite)
        return;
    values[ES_ROW_ENTROPY] = log_sum - row.moment / row.sum;
    values[ES_ROW_LSE] = row.largest + log_sum;
    values[ES_ROW_MAX_LOGIT] = row.largest;
    values[ES_ROW_SINK] = row.first / row.sum;
    values[ES_ROW_DISTANCE] = row.distance / row.sum;
    values[ES_ROW_TOP] = 1 / row.sum;
    const double apart = row.apart / n_keys;
    values[ES_ROW_LOGIT_MEAN] = row.largest + apart;
    values[ES_ROW_LOGIT_VARIANCE] =
        fmax(0, row.apart_squares / n_keys - apart * apart);
}

/* Counts the weights of a scaled ReLU row that are infinite or NaN. A score of
 * -inf is not counted, because its weight is 0. */
static double count_infinite(const es_cpu_head *head, int i)
{
    int n = 0;
    for (int j = 0; j < count_keys(head, i); j++)
        n += !(compute_score(head, i, j) < (double)INFINITY);
    return n;
}

void es_cpu_measure_row(const es_cpu_head *head, int i)
{
    double values[ES_N_ROW_STATISTICS];
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        values[k] = (double)NAN;
    /* Each weight of PowerSoftmax depends on the largest score and on the sum
     * of the row. If one weight of the row is not finite, no weight of the row
     * is finite. */
    if (head->power == ES_CPU_RELU)
        values[ES_ROW_NONFINITE] = count_infinite(head, i);
    else if (head->power)
        values[ES_ROW_NONFINITE] = count_keys(head, i);
    else
        measure_softmax(values, head, i);
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        if (head->rows[k])
            head->rows[k][i] = (float)values[k];
}

/* --- from weights and scores ---------------------------------------------- */

void es_cpu_measure_weights(double values[ES_N_ROW_STATISTICS],
                            const float *weights, const float *scores, int n)
{
    double sum = 0, sums[2] = {0}, entropy = 0;
    double *const distance = &values[ES_ROW_DISTANCE];
    values[ES_ROW_TOP] = (double)weights[0];
    for (int k = 0; k < n; k++) {
        const double a = (double)weights[k], s = (double)scores[k];
        sum += a;
        sums[0] += s;
        sums[1] += s * s;
        *distance += a * (n - 1 - k);
        values[ES_ROW_TOP] = fmax(values[ES_ROW_TOP], a);
        values[ES_ROW_MAX_LOGIT] = fmax(values[ES_ROW_MAX_LOGIT], fabs(s));
    }
    /* An error in the divisor of the weights does not affect the entropy,
     * because the entropy refers to the weights divided by their sum. */
    for (int k = 0; k < n; k++) {
        const double share = (double)weights[k] / sum;
        entropy -= share > 0 ? share * log(share) : 0;
    }
    values[ES_ROW_ENTROPY] = sum > 0 || sum < 0 ? entropy : 0;
    values[ES_ROW_SINK] = (double)weights[0];
    values[ES_ROW_MISSING] = 1 - sum;
    const double mean = sums[0] / n;
    values[ES_ROW_LOGIT_MEAN] = mean;
    values[ES_ROW_LOGIT_VARIANCE] = fmax(0, sums[1] / n - mean * mean);
}
