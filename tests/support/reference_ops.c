/* Implements the trainer's operations with plain loops in double. */
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"

double es_test_random(uint64_t *state)
{
    *state =
        *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 33) * 0x1p-30 - 1;
}

void es_test_fill(float *out, size_t n, double scale, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(scale * es_test_random(state));
}

void es_test_expect_close(const char *what, const float *got,
                          const double *want, size_t n)
{
    es_test_expect_within(what, got, want, n, 2e-5, 1e-6);
}

void es_test_expect_within(const char *what, const float *got,
                           const double *want, size_t n, double relative,
                           double absolute)
{
    double distance = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)got[i], b = want[i];
        if (isfinite(a) && isfinite(b)) {
            distance += (a - b) * (a - b);
            norm += b * b;
        } else if (!(isnan(a) && isnan(b)) && !(isinf(a) && a == b)) {
            fail_msg("%s: entry %zu is %g, not %g", what, i, a, b);
        }
    }
    double limit = relative * sqrt(norm) + absolute * sqrt((double)n);
    es_test_report_error(what, sqrt(distance), limit);
    if (!(sqrt(distance) <= limit))
        fail_msg("%s: norm of the errors %g, norm of the finite values %g, %zu "
                 "entries",
                 what, sqrt(distance), sqrt(norm), n);
}

void es_test_report_error(const char *what, double error, double tolerance)
{
    const char *path = getenv("ENTROPY_PARITY");
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (file)
        fprintf(file, "%s %.3e %.3e\n", what, error, tolerance);
    if (path && (!file || fclose(file) != 0))
        fail_msg("%s: cannot be written", path);
}

void es_ref_linear(double *y, const float *x, const float *weight,
                   const float *bias, int n, int n_in, int n_out,
                   bool transposed)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n_out; j++) {
            double sum = bias ? (double)bias[j] : 0;
            for (int c = 0; c < n_in; c++)
                sum +=
                    (double)x[i * n_in + c] *
                    (double)weight[transposed ? j * n_in + c : c * n_out + j];
            y[i * n_out + j] = sum;
        }
}

static double phi(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5));
}

double es_ref_act(double x, es_activation kind, double slope)
{
    const double pi = acos(-1.0);
    switch (kind) {
    case ES_ACT_GELU:
        return x * phi(x);
    case ES_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    case ES_ACT_GELU_SIGMOID:
        return x / (1 + exp(-1.702 * x));
    case ES_ACT_RELU:
        return x <= 0 ? 0 : x;
    case ES_ACT_LEAKY:
        return x < 0 ? slope * x : x;
    default:
        return x;
    }
}

double es_ref_act_slope(double x, es_activation kind, double slope)
{
    const double pi = acos(-1.0);
    double u, t;
    switch (kind) {
    case ES_ACT_GELU:
        return phi(x) + x * exp(-x * x / 2) / sqrt(2 * pi);
    case ES_ACT_GELU_TANH:
        u = sqrt(2 / pi) * (x + 0.044715 * x * x * x);
        t = tanh(u);
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / pi) *
                                   (1 + 3 * 0.044715 * x * x);
    case ES_ACT_GELU_SIGMOID:
        t = 1 / (1 + exp(-1.702 * x));
        return t + 1.702 * x * t * (1 - t);
    case ES_ACT_RELU:
        return x <= 0 ? 0 : 1;
    case ES_ACT_LEAKY:
        return x < 0 ? slope : 1;
    default:
        return 1;
    }
}

void es_ref_layer_norm(double *y, const float *x, const float *weight,
                       const float *bias, int width)
{
    double mean = 0, variance = 0;
    for (int j = 0; j < width; j++)
        mean += (double)x[j] / width;
    for (int j = 0; j < width; j++)
        variance += ((double)x[j] - mean) * ((double)x[j] - mean) / width;
    for (int j = 0; j < width; j++)
        y[j] =
            ((double)x[j] - mean) / sqrt(variance + 1e-5) * (double)weight[j] +
            (double)bias[j];
}

double es_ref_cross_entropy(const float *x, int target, int n)
{
    double largest = (double)x[0], sum = 0;
    for (int j = 0; j < n; j++)
        largest = (double)x[j] > largest ? (double)x[j] : largest;
    for (int j = 0; j < n; j++)
        sum += exp((double)x[j] - largest);
    return log(sum) + largest - (double)x[target];
}

/* --- normalised weights --------------------------------------------------- */

void es_ref_weight_norm(double *w, const double *v, const double *g, int n_in,
                        int n)
{
    for (int j = 0; j < n; j++) {
        double squares = 0;
        for (int i = 0; i < n_in; i++)
            squares += v[i * n + j] * v[i * n + j];
        for (int i = 0; i < n_in; i++)
            w[i * n + j] = g[j] * v[i * n + j] / sqrt(squares);
    }
}

static void make_unit(double *x, int n)
{
    double squares = 0;
    for (int i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (int i = 0; i < n; i++)
        x[i] /= sqrt(squares);
}

void es_ref_power_iteration(double *u, double *v, const double *m, int n_in,
                            int n)
{
    for (int i = 0; i < n_in; i++) {
        v[i] = 0;
        for (int j = 0; j < n; j++)
            v[i] += m[i * n + j] * u[j];
    }
    make_unit(v, n_in);
    for (int j = 0; j < n; j++) {
        u[j] = 0;
        for (int i = 0; i < n_in; i++)
            u[j] += m[i * n + j] * v[i];
    }
    make_unit(u, n);
}

double es_ref_spectral_norm(double *w, const double *m, const double *u,
                            const double *v, int n_in, int n)
{
    double sigma = 0;
    for (int i = 0; i < n_in; i++)
        for (int j = 0; j < n; j++)
            sigma += v[i] * m[i * n + j] * u[j];
    for (int i = 0; i < n_in * n; i++)
        w[i] = m[i] / sigma;
    return sigma;
}

/* --- attention ------------------------------------------------------------ */

static double temperature(const es_ref_head *head, int i)
{
    return head->log_t ? exp(head->log_t[i]) : 1;
}

static double product(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int c = 0; c < n; c++)
        sum += x[c] * y[c];
    return sum;
}

/* Scores z, weights a and derivatives of one row. */
typedef struct ref_row {
    double *z, *a;
    double *slope; /* slope_j in da_j = slope_j dz_j - a_j sum_k slope_k dz_k */
    double largest, size; /* largest score of the row; largest absolute score */
    double lse;
} ref_row;

static void softmax(ref_row *row, int i)
{
    double sum = 0;
    for (int j = 0; j <= i; j++)
        sum += row->a[j] = exp(row->z[j] - row->largest);
    for (int j = 0; j <= i; j++)
        row->slope[j] = row->a[j] /= sum;
    row->lse = row->largest + log(sum);
}

static double length_of(const es_ref_head *head, int i)
{
    return head->length == ES_LENGTH_NONE      ? 1
           : head->length == ES_LENGTH_CONTEXT ? head->n_ctx
                                               : i + 1;
}

static void scaled_relu(ref_row *row, const es_ref_head *head, int i)
{
    for (int j = 0; j <= i; j++) {
        row->a[j] = fmax(0, row->z[j]) / length_of(head, i);
        row->slope[j] = row->z[j] > 0 ? 1 / length_of(head, i) : 0;
    }
    if (head->c)
        head->c[i] = 1;
    row->lse = NAN;
}

static void power_softmax(ref_row *row, const es_ref_head *head, int i)
{
    const double c = head->plain        ? 1
                     : head->c_is_given ? head->c[i]
                                        : row->size + 1e-6;
    const int p = head->power;
    double sum = head->epsilon * length_of(head, i);
    if (head->c)
        head->c[i] = c;
    for (int j = 0; j <= i; j++)
        sum += row->a[j] = pow(row->z[j] / c, p);
    for (int j = 0; j <= i; j++) {
        row->a[j] /= sum;
        row->slope[j] = p * pow(row->z[j] / c, p - 1) / c / sum;
    }
    row->lse = NAN;
}

/* Returns a row with memory for the head's scores, weights and slopes. The
 * caller frees the member z, which is the address of all this memory. */
static ref_row open_row(const es_ref_head *head)
{
    const size_t n = (size_t)head->n_ctx;
    double *memory = malloc(4 * n * sizeof *memory);
    return (ref_row){.z = memory, .a = memory + n, .slope = memory + 2 * n};
}

static void weigh(ref_row *row, const es_ref_head *head, int i)
{
    const int d = head->width;
    row->largest = -INFINITY;
    row->size = 0;
    for (int j = 0; j <= i; j++) {
        row->z[j] = product(head->q + i * d, head->k + j * d, d) /
                    (temperature(head, i) * sqrt(d));
        row->largest = fmax(row->z[j], row->largest);
        row->size = fmax(fabs(row->z[j]), row->size);
    }
    if (head->gap) {
        head->gap[i] = INFINITY;
        for (int j = 0; j <= i; j++)
            if (row->z[j] < row->largest)
                head->gap[i] = fmin(head->gap[i], row->largest - row->z[j]);
    }
    if (head->power == 1)
        scaled_relu(row, head, i);
    else if (head->power)
        power_softmax(row, head, i);
    else
        softmax(row, i);
}

/* Returns the number by which the weights are divided before the entropy is
 * computed. For softmax it is 1; otherwise it is the sum of the weights, which
 * may differ from 1. */
static double mass(const es_ref_head *head, const ref_row *row, int i)
{
    double sum = head->power ? 0 : 1;
    for (int j = 0; head->power && j <= i; j++)
        sum += row->a[j];
    return sum;
}

static void write_row(const es_ref_head *head, const ref_row *row, int i)
{
    double values[ES_N_ROW_STATISTICS] = {
        [ES_ROW_LSE] = row->lse,
        [ES_ROW_MAX_LOGIT] = head->power > 1 ? row->size : row->largest,
        [ES_ROW_SINK] = row->a[0],
        [ES_ROW_MISSING] = 1};
    const double whole = mass(head, row, i);
    for (int j = 0; j <= i; j++) {
        const double a = row->a[j], b = a / whole;
        values[ES_ROW_MISSING] -= a;
        values[ES_ROW_ENTROPY] -= a > 0 ? b * log(b + head->in_log) : 0;
        values[ES_ROW_NONFINITE] += !isfinite(a);
        values[ES_ROW_DISTANCE] += a * (i - j);
        values[ES_ROW_TOP] = fmax(values[ES_ROW_TOP], a);
        values[ES_ROW_LOGIT_MEAN] += row->z[j] / (i + 1);
    }
    for (int j = 0; j <= i; j++) {
        const double away = row->z[j] - values[ES_ROW_LOGIT_MEAN];
        values[ES_ROW_LOGIT_VARIANCE] += away * away / (i + 1);
    }
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        head->rows[k * head->n_ctx + i] = values[k];
}

void es_ref_attention(const es_ref_head *head)
{
    const int d = head->width;
    ref_row row = open_row(head);
    for (int i = 0; i < head->n_ctx; i++) {
        weigh(&row, head, i);
        write_row(head, &row, i);
        for (int c = 0; c < d; c++) {
            head->y[i * d + c] = 0;
            for (int j = 0; j <= i; j++)
                head->y[i * d + c] += row.a[j] * head->v[j * d + c];
        }
    }
    free(row.z);
}

static void row_backward(const es_ref_head *head, const ref_row *row, int i)
{
    const int d = head->width;
    const double t = temperature(head, i);
    const double whole = mass(head, row, i);
    double *g = row->slope + head->n_ctx, mean = 0, entropy = 0;
    for (int j = 0; j <= i; j++)
        if (row->a[j] > 0)
            entropy -= row->a[j] / whole * log(row->a[j] / whole);
    for (int j = 0; j <= i; j++) {
        g[j] = product(head->dy + i * d, head->v + j * d, d);
        if (head->dentropy && row->a[j] > 0)
            g[j] -=
                head->dentropy[i] * (log(row->a[j] / whole) + entropy) / whole;
        mean += head->power == 1 ? 0 : row->a[j] * g[j];
    }
    for (int j = 0; j <= i; j++) {
        double dz = row->slope[j] * (g[j] - mean);
        if (head->dlog_t)
            head->dlog_t[i] -= dz * row->z[j];
        for (int c = 0; c < d; c++) {
            head->dv[j * d + c] += row->a[j] * head->dy[i * d + c];
            head->dq[i * d + c] += dz / (t * sqrt(d)) * head->k[j * d + c];
            head->dk[j * d + c] += dz / (t * sqrt(d)) * head->q[i * d + c];
        }
    }
}

void es_ref_attention_backward(const es_ref_head *head)
{
    const size_t n = (size_t)head->n_ctx * (size_t)head->width;
    ref_row row = open_row(head);
    memset(head->dq, 0, n * sizeof *head->dq);
    memset(head->dk, 0, n * sizeof *head->dk);
    memset(head->dv, 0, n * sizeof *head->dv);
    if (head->dlog_t)
        memset(head->dlog_t, 0, (size_t)head->n_ctx * sizeof *head->dlog_t);
    for (int i = 0; i < head->n_ctx; i++) {
        weigh(&row, head, i);
        row_backward(head, &row, i);
    }
    free(row.z);
}
