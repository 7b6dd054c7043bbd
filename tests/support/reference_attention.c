/* Rows of attention and what is made of their entropies: analyzer/README.md,
 * sections 2 (rotation), 3 and 4. */
#include "tests/support/reference_internal.h"

#include <math.h>
#include <stdlib.h>

/* --- rotation ------------------------------------------------------------- */

/* Half-rotation layout: entry c goes with entry c + n/2. */
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

/* One row: query i of one head. */
typedef struct row {
    const es_model_config *config;
    es_ref_result *result;
    const double *q, *k, *v; /* of the head; v and k of key 0 */
    double t;
    int i;
    int at; /* its place in (L,B,H,T) */
} row;

static void find_scores(double *s, const row *r)
{
    const int d = r->config->d_model, width = d / r->config->n_head;
    r->result->rows[ES_ROW_MAX_LOGIT][r->at] = -INFINITY;
    for (int j = 0; j <= r->i; j++) {
        s[j] = 0;
        for (int c = 0; c < width; c++)
            s[j] += r->q[c] * r->k[j * 3 * d + c];
        s[j] /= r->t * sqrt(width);
        r->result->rows[ES_ROW_MAX_LOGIT][r->at] =
            fmax(r->result->rows[ES_ROW_MAX_LOGIT][r->at], s[j]);
    }
}

static void softmax(double *a, const double *s, const row *r)
{
    const double largest = r->result->rows[ES_ROW_MAX_LOGIT][r->at];
    double sum = 0, second = -INFINITY;
    for (int j = 0; j <= r->i; j++)
        sum += a[j] = exp(s[j] - largest);
    for (int j = 0; j <= r->i; j++) {
        a[j] /= sum;
        if (s[j] < largest)
            second = fmax(second, s[j]);
    }
    /* In float32 a sharp row may not be torn between two keys. */
    if (r->t < 1e-2)
        es_ref_note(r->result, (largest - second) / 2e5);
}

static void power_softmax(double *a, const double *s, const row *r)
{
    const es_arch *arch = &r->config->arch;
    double *c = &r->result->c[r->at], sum = 0;
    if (!r->result->c_is_given) {
        *c = 0;
        for (int j = 0; j <= r->i; j++)
            *c = fmax(*c, fabs(s[j]));
        *c += 1e-6;
    }
    for (int j = 0; j <= r->i; j++)
        sum += a[j] = pow(s[j] / *c, arch->power);
    for (int j = 0; j <= r->i; j++)
        a[j] /= arch->power_epsilon + sum;
}

/* y (d_k) = the row's weighted values; notes what is recorded of it. */
static void attend_row(double *y, double *s, double *a, const row *r)
{
    const int d = r->config->d_model, width = d / r->config->n_head;
    es_ref_result *result = r->result;
    find_scores(s, r);
    if (r->config->arch.attention == ES_SOFTMAX)
        softmax(a, s, r);
    else
        power_softmax(a, s, r);
    result->rows[ES_ROW_SINK][r->at] = a[0];
    result->rows[ES_ROW_MISSING][r->at] = 1;
    result->rows[ES_ROW_ENTROPY][r->at] = 0;
    result->rows[ES_ROW_DISTANCE][r->at] = 0;
    result->rows[ES_ROW_TOP][r->at] = 0;
    for (int j = 0; j <= r->i; j++) {
        result->rows[ES_ROW_MISSING][r->at] -= a[j];
        result->rows[ES_ROW_ENTROPY][r->at] -= a[j] * log(a[j] + 1e-9);
        result->rows[ES_ROW_DISTANCE][r->at] += a[j] * (r->i - j);
        result->rows[ES_ROW_TOP][r->at] =
            fmax(result->rows[ES_ROW_TOP][r->at], a[j]);
    }
    for (int c = 0; c < width; c++) {
        y[c] = 0;
        for (int j = 0; j <= r->i; j++)
            y[c] += a[j] * r->v[j * 3 * d + c];
    }
}

/* Where a row's scores are small beside |q||k| their terms cancel: float32
 * leaves little of them, and the power makes it less. */
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
    const es_model_config *config = &ref->config;
    const int B = config->batch, H = config->n_head, T = config->ctx;
    const int d = config->d_model, width = d / H;
    const double *t = es_ref_of_layer(ref, layer, "attn.t");
    double *s = es_ref_doubles(2 * T);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < T; i++) {
                const double *first = qkv + b * T * 3 * d + h * width;
                const row r = {.config = config,
                               .result = result,
                               .q = first + i * 3 * d,
                               .k = first + d,
                               .v = first + 2 * d,
                               .t = t ? fmax(t[h * T + i], 1e-4) : 1,
                               .i = i,
                               .at = ((layer * B + b) * H + h) * T + i};
                attend_row(y + (b * T + i) * d + h * width, s, s + T, &r);
            }
    if (config->arch.attention == ES_POWER_SOFTMAX)
        note_cancellation(result, qkv, config, layer);
    free(s);
}

/* --- regularisation ------------------------------------------------------- */

static double penalty_of(double e, double threshold, double tolerance,
                         es_ref_result *result)
{
    const double deviation = fabs(e - threshold);
    if (tolerance > 0) /* else there is no jump */
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
