/* Computes LayerNorm, activations and PowerSoftmax by polynomials for
 * --inference polynomial. The code computes results in float32 with plain
 * loops. For comparison, it also computes each result in float64, by the
 * polynomial and exactly. Each thread collects its findings (ranges and errors)
 * separately; the merged findings do not depend on the number of threads.
 * Activations must be float32. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/cpu/kernels.h"

#include <math.h>
#include <string.h>

typedef struct job {
    const es_backend *backend;
    float *y; /* NULL if the code only examines the inputs */
    const float *x, *weight, *bias;
    int n_rows, width;
    size_t n;
    float epsilon;
    const es_inverse_root *root;
    const es_gate *gate;
    const es_attention *attention;
    const es_row_mem *rows;
    float *saved; /* two values for each row, shape (B,H,T,2); the first is the
                     row's largest |score| */
    const es_power_form *form;
    const es_division *division;
} job;

/* Returns the findings (ranges and errors) of a thread, which are stored at the
 * start of its scratch memory, before its working memory. */
static es_findings *findings_of(const es_backend *backend, int thread)
{
    return (es_findings *)(void *)(backend->scratch +
                                   (size_t)thread * backend->scratch_size);
}

size_t es_cpu_polynomial_scratch(int n_ctx)
{
    /* space for the findings, n_ctx scores and n_ctx weights in float, and
     * n_ctx weights of two kinds in double */
    return sizeof(es_findings) / sizeof(float) + 6 * (size_t)n_ctx + 2;
}

static void run_parts(es_backend *backend, es_mem *found,
                      void (*part)(void *, es_share), job *j)
{
    es_findings *to = (es_findings *)(void *)found;
    for (int t = 0; t < backend->n_threads; t++)
        *findings_of(backend, t) = es_findings_start();
    es_team_run(backend->team, part, j);
    for (int t = 0; t < backend->n_threads; t++)
        es_findings_merge(to, findings_of(backend, t));
}

/* --- LayerNorm ------------------------------------------------------------ */

static void moments_f32(float *mean, float *variance, const float *x, int n)
{
    float sum = 0, squares = 0;
    for (int c = 0; c < n; c++)
        sum += x[c];
    *mean = sum / (float)n;
    for (int c = 0; c < n; c++)
        squares += (x[c] - *mean) * (x[c] - *mean);
    *variance = squares / (float)n;
}

static void moments_f64(double *mean, double *variance, const float *x, int n)
{
    double sum = 0, squares = 0;
    for (int c = 0; c < n; c++)
        sum += (double)x[c];
    *mean = sum / n;
    for (int c = 0; c < n; c++)
        squares += ((double)x[c] - *mean) * ((double)x[c] - *mean);
    *variance = squares / n;
}

static void norm_row(es_findings *found, const job *j, int row)
{
    const size_t at = (size_t)row * (size_t)j->width;
    const float *x = j->x + at;
    float mean, variance;
    double mean64, variance64;
    moments_f32(&mean, &variance, x, j->width);
    moments_f64(&mean64, &variance64, x, j->width);
    variance += j->epsilon;
    variance64 += (double)j->epsilon;
    es_findings_add_input(found, j->y ? (double)variance : variance64,
                          j->y ? &j->root->in : NULL);
    for (int c = 0; c < j->width; c++)
        es_findings_add_size(found, x[c]);
    if (!j->y)
        return;
    const float root = es_invert_root_f32(j->root, variance);
    const double root64 = es_invert_root_f64(j->root, variance64);
    const double exact = 1 / sqrt(variance64);
    for (int c = 0; c < j->width; c++) {
        const float z = (x[c] - mean) * root;
        const double centred = (double)x[c] - mean64;
        es_findings_add_result(found, z, centred * root64, centred * exact);
        j->y[at + (size_t)c] = z * j->weight[c] + j->bias[c];
    }
}

static void norm_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_slab slab = es_cpu_slab(share, j->n_rows, 1);
    for (int row = slab.first; row < slab.first + slab.n; row++)
        norm_row(findings_of(j->backend, share.thread), j, row);
}

static void norm(es_backend *backend, es_mem *y, es_mem *found, const es_mem *x,
                 const es_mem *weight, const es_mem *bias, int n_rows,
                 int width, float epsilon, const es_inverse_root *how)
{
    job j = {.backend = backend,
             .y = es_cpu_floats(y),
             .x = es_cpu_read(x),
             .weight = es_cpu_read(weight),
             .bias = es_cpu_read(bias),
             .n_rows = n_rows,
             .width = width,
             .epsilon = epsilon,
             .root = how};
    run_parts(backend, found, norm_part, &j);
}

/* --- activations ---------------------------------------------------------- */

static void activate_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_gate *gate = j->gate;
    es_findings *found = findings_of(j->backend, share.thread);
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 16);
    for (size_t i = first; i < end; i++) {
        const float x = j->x[i];
        es_findings_add_size(found, x);
        es_findings_add_input(found, (double)x,
                              gate ? &(es_interval){-gate->range, gate->range}
                                   : NULL);
        if (!j->y)
            continue;
        const double x64 = (double)x;
        j->y[i] = x * es_gate_f32(gate, x);
        es_findings_add_result(found, j->y[i], x64 * es_gate_f64(gate, x64),
                               x64 * es_gate_exact(gate->kind, x64));
    }
}

static void activate(es_backend *backend, es_mem *post, es_mem *found,
                     const es_mem *pre, size_t n, const es_gate *how)
{
    job j = {.backend = backend,
             .y = es_cpu_floats(post),
             .x = es_cpu_read(pre),
             .n = n,
             .gate = how};
    run_parts(backend, found, activate_part, &j);
}

/* --- PowerSoftmax --------------------------------------------------------- */

/* The weights with which query n - 1 of head `head` attends to its n keys.
 * Heads are numbered from 0 to B * H - 1. */
typedef struct row {
    int head, n;
    float *scores, *weights;   /* (n) */
    double *checked, *trained; /* n weights in float64: `checked` is computed by
                                  a polynomial, `trained` exactly */
} row;

/* Returns a pointer to the token's q in qkv. The token's k follows at offset d,
 * and its v at offset 2 * d. */
static const float *query_of(const job *j, const row *r, int token)
{
    const es_attention *a = j->attention;
    const size_t d = (size_t)a->d_model;
    const size_t first = (size_t)(r->head / a->n_head) * (size_t)a->n_ctx;
    return j->x + (first + (size_t)token) * 3 * d +
           (size_t)(r->head % a->n_head) * (d / (size_t)a->n_head);
}

static void score_row(const job *j, const row *r)
{
    const int d = j->attention->d_model, width = d / j->attention->n_head;
    const float scale = 1 / sqrtf((float)width);
    const float *q = query_of(j, r, r->n - 1);
    for (int key = 0; key < r->n; key++) {
        const float *k = query_of(j, r, key) + d;
        float sum = 0;
        for (int c = 0; c < width; c++)
            sum += q[c] * k[c];
        r->scores[key] = sum * scale;
    }
}

static void put_row(const job *j, const row *r)
{
    const size_t at =
        (size_t)r->head * (size_t)j->attention->n_ctx + (size_t)r->n - 1;
    double values[ES_N_ROW_STATISTICS] = {0};
    int n_bad = 0;
    for (int k = 0; k < r->n; k++)
        n_bad += !isfinite(r->weights[k]) || !isfinite(r->scores[k]);
    if (n_bad == 0)
        es_cpu_measure_weights(values, r->weights, r->scores, r->n);
    for (int s = 0; s < ES_N_ROW_STATISTICS; s++) {
        es_mem *to = j->rows->array[s];
        if (to)
            es_cpu_floats(to)[at] = s == ES_ROW_NONFINITE ? (float)n_bad
                                    : n_bad > 0           ? NAN
                                                          : (float)values[s];
    }
}

static void save_row(const job *j, const row *r)
{
    es_findings size = es_findings_start();
    for (int k = 0; k < r->n; k++)
        es_findings_add_size(&size, r->scores[k]);
    j->saved[2 * ((size_t)r->head * (size_t)j->attention->n_ctx + (size_t)r->n -
                  1)] = (float)size.largest;
}

static void multiply_values(const job *j, const row *r)
{
    const es_attention *a = j->attention;
    const size_t d = (size_t)a->d_model, width = d / (size_t)a->n_head;
    const size_t token =
        (size_t)(r->head / a->n_head) * (size_t)a->n_ctx + (size_t)r->n - 1;
    float *y = j->y + token * d + (size_t)(r->head % a->n_head) * width;
    memset(y, 0, width * sizeof *y);
    for (int key = 0; key < r->n; key++) {
        const float *v = query_of(j, r, key) + 2 * d;
        for (size_t c = 0; c < width; c++)
            y[c] += r->weights[key] * v[c];
    }
}

static void take_row(es_findings *found, const job *j, const row *r)
{
    score_row(j, r);
    for (int k = 0; k < r->n; k++)
        es_findings_add_size(found, r->scores[k]);
    if (!j->y) {
        es_findings_add_input(
            found, es_power_denominator(j->form, r->scores, r->n), NULL);
        return;
    }
    const float denominator =
        es_power_weigh_f32(r->weights, j->form, j->division, r->scores, r->n);
    es_power_weigh_f64(r->checked, j->form, j->division, r->scores, r->n);
    es_power_weigh_exact(r->trained, j->form, r->scores, r->n);
    es_findings_add_input(found, (double)denominator, &j->division->in);
    for (int k = 0; k < r->n; k++)
        es_findings_add_result(found, r->weights[k], r->checked[k],
                               r->trained[k]);
    multiply_values(j, r);
    save_row(j, r);
    if (j->rows)
        put_row(j, r);
}

static void attention_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    const es_slab heads = es_cpu_slab(share, a->n_batch * a->n_head, 1);
    es_findings *found = findings_of(j->backend, share.thread);
    double *numbers = (double *)(void *)(found + 1);
    row r = {.checked = numbers,
             .trained = numbers + a->n_ctx,
             .scores = (float *)(void *)(numbers + 2 * a->n_ctx)};
    r.weights = r.scores + a->n_ctx;
    for (r.head = heads.first; r.head < heads.first + heads.n; r.head++)
        for (r.n = 1; r.n <= a->n_ctx; r.n++)
            take_row(found, j, &r);
}

static void attention_of(es_backend *backend, es_mem *y, es_mem *saved,
                         const es_row_mem *rows, es_mem *found,
                         const es_mem *qkv, const es_attention *attention,
                         const es_power_form *form, const es_division *how)
{
    job j = {.backend = backend,
             .y = es_cpu_floats(y),
             .x = es_cpu_read(qkv),
             .attention = attention,
             .rows = rows,
             .saved = es_cpu_floats(saved),
             .form = form,
             .division = how};
    run_parts(backend, found, attention_part, &j);
}

const es_polynomial_ops es_cpu_polynomial = {
    .norm = norm, .activate = activate, .attention = attention_of};
