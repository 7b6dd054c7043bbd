/* Computes rows of attention and the regularisation of their entropies, as
 * specified in analyzer/README.md, sections 2 (rotation), 3 and 4. */
#include "tests/support/reference_internal.h"
#include "tests/support/reference_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- rotation ------------------------------------------------------------- */

/* Rotates a vector of n numbers in the half-rotation layout, in which numbers c
   and c + n/2 form a pair. */
static void rotate_vector(double *x, int n, int position)
{
    for (int c = 0; c < n / 2; c++) {
        const double angle = position * pow(10000, -2.0 * c / n);
        const double a = x[c], b = x[c + n / 2];
        x[c] = a * cos(angle) - b * sin(angle);
        x[c + n / 2] = b * cos(angle) + a * sin(angle);
    }
}

void es_ref_rotate(double *qkv, const es_ref_model *ref)
{
    const es_model_config *config = &ref->config;
    const int d = config->d_model, width = d / config->n_head;
    const int quarter = width / 4 - width / 4 % 2;
    const int n = quarter < 2 ? 2 : quarter;
    for (int row = 0; row < config->batch * config->ctx; row++)
        for (int h = 0; h < config->n_head; h++) {
            double *q = qkv + row * 3 * d + h * width;
            rotate_vector(q, n, row % config->ctx);
            rotate_vector(q + d, n, row % config->ctx);
        }
}

/* --- rows ----------------------------------------------------------------- */

/* Writes the logarithms of head h's temperatures to out (T). Returns out, or
 * NULL if the model has no temperatures. */
static double *logarithms_of_temperatures(double *out, const es_ref_model *ref,
                                          int layer, int h)
{
    const es_arch *arch = &ref->config.arch;
    const int T = ref->config.ctx;
    if (!arch->temperature)
        return NULL;
    const double *from =
        es_ref_of_layer(ref, layer, arch->direct ? "attn.t" : "attn.log_t");
    for (int i = 0; i < T; i++)
        out[i] = arch->direct
                     ? log(fmax(from[h * T + i], (double)ES_LEAST_TEMPERATURE))
                     : from[h * T + i];
    return out;
}

/* Computes the row statistics of head h of sequence b, and the head's columns
 * of y (B,T,d). */
static void attend_head(double *y, es_ref_result *result, const double *qkv,
                        const es_ref_model *ref, int layer, int b, int h)
{
    const es_model_config *config = &ref->config;
    const int T = config->ctx, d = config->d_model, width = d / config->n_head;
    const int n = T * width;
    const int row = ((layer * config->batch + b) * config->n_head + h) * T;
    double *in = es_ref_doubles(4 * n + (ES_N_ROW_STATISTICS + 2) * T);
    double *rows = in + 4 * n, *gap = rows + ES_N_ROW_STATISTICS * T;
    double *log_t = logarithms_of_temperatures(gap + T, ref, layer, h);
    const es_arch *arch = &config->arch;
    const bool is_softmax = arch->attention == ES_SOFTMAX;
    const bool is_relu = arch->attention == ES_SCALED_RELU;
    const es_ref_head head = {.n_ctx = T,
                              .width = width,
                              .power = is_relu ? 1 : arch->power,
                              .epsilon = arch->power_epsilon,
                              .plain = arch->power_plain,
                              .length = arch->length,
                              .c = result->c + row,
                              .c_is_given = result->c_is_given,
                              .in_log = 1e-9,
                              .gap = gap,
                              .q = in,
                              .k = in + n,
                              .v = in + 2 * n,
                              .log_t = log_t,
                              .y = in + 3 * n,
                              .rows = rows};
    for (int i = 0; i < 3 * n; i++)
        in[i] = qkv[(b * T + i % n / width) * 3 * d + i / n * d + h * width +
                    i % width];
    es_ref_attention(&head);
    for (int i = 0; i < n; i++)
        y[(b * T + i / width) * d + h * width + i % width] = head.y[i];
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        memcpy(result->rows[k] + row, rows + k * T, (size_t)T * sizeof *rows);
    /* If the two largest scores of a row with a small temperature are nearly
     * equal, float32 could assign the weight of 1 to the wrong key. */
    for (int i = 0; log_t && is_softmax && i < T; i++)
        if (log_t[i] < log(1e-2))
            es_ref_note(result, gap[i] / 2e5);
    free(in);
}

/* Records how small the scores of a row are relative to |q||k|. Small scores
 * arise from terms that cancel, so float32 keeps few of their digits, and the
 * power loses more. */
static void note_cancellation(es_ref_result *result, const double *qkv,
                              const es_model_config *config, int layer)
{
    const int n = config->batch * config->ctx, d = config->d_model;
    const int n_rows = n * config->n_head, p = config->arch.power;
    double largest[2] = {0, 0}, smallest = INFINITY;
    for (int i = 0; i < n; i++)
        for (int which = 0; which < 2; which++) {
            const double *x = qkv + i * 3 * d + which * d;
            double squares = 0;
            for (int c = 0; c < d; c++)
                squares += x[c] * x[c] / d;
            largest[which] = fmax(largest[which], sqrt(squares));
        }
    for (int i = layer * n_rows; i < (layer + 1) * n_rows; i++)
        smallest = fmin(smallest, result->c[i]);
    es_ref_note(result,
                smallest / (largest[0] * largest[1]) / (8 * p * (p - 1)));
}

void es_ref_attend(double *y, es_ref_result *result, const double *qkv,
                   const es_ref_model *ref, int layer)
{
    for (int b = 0; b < ref->config.batch; b++)
        for (int h = 0; h < ref->config.n_head; h++)
            attend_head(y, result, qkv, ref, layer, b, h);
    const int n_rows = ref->config.batch * ref->config.n_head * ref->config.ctx;
    if (ref->config.arch.attention == ES_POWER_SOFTMAX)
        es_ref_add_range(result, ref, ES_RANGE_ATTN,
                         result->rows[ES_ROW_MAX_LOGIT] + layer * n_rows,
                         n_rows);
    if (ref->config.arch.attention != ES_SOFTMAX)
        note_cancellation(result, qkv, &ref->config, layer);
}

/* --- regularisation ------------------------------------------------------- */

static double penalty_of(double e, double threshold, double tolerance,
                         es_ref_result *result)
{
    const double deviation = fabs(e - threshold);
    if (tolerance > 0) /* with a tolerance of 0 the penalty has no jump at the
                        * tolerance */
        es_ref_note(result, fabs(deviation - tolerance));
    return deviation > tolerance ? deviation * deviation : 0;
}

double es_ref_penalty(const es_ref_model *ref, es_ref_result *result)
{
    const es_model_config *config = &ref->config;
    const int L = config->n_layer, B = config->batch, H = config->n_head;
    const int T = config->ctx;
    const double largest = log(T), tolerance = config->gamma * largest;
    double sum = 0;
    for (int l = 0; l < L; l++)
        for (int h = 0; h < H; h++) {
            const double theta = es_ref_of_layer(ref, l, "attn.theta")[h];
            const double *entropy = result->rows[ES_ROW_ENTROPY];
            double mean = 0;
            for (int n = 0; n < B * T; n++) {
                const int at = ((l * B + n / T) * H + h) * T + n % T;
                mean += entropy[at] / (B * T);
                if (config->ereg_reduce == ES_EREG_TOKEN)
                    sum += penalty_of(entropy[at], theta * largest, tolerance,
                                      result);
            }
            if (config->ereg_reduce == ES_EREG_MEAN)
                sum += penalty_of(mean, theta * largest, tolerance, result);
        }
    return sum / (L * H);
}
