/* Compares attention of any back-end with plain loops in double, and checks
 * how far NaN and infinity in the inputs spread. */
#include "tests/support/attention_problem.h"

#include "tests/support/cmocka_all.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* --- comparison with the reference ---------------------------------------- */

/* Returns the index of element (i,0) of head h of sequence b in an array of
 * shape (B,T,columns). */
static size_t place(const attention_problem *p, int columns, int b, int h,
                    int i)
{
    return (size_t)((b * p->n_ctx + i) * columns + h * p->width);
}

static void gather(double *out, const attention_problem *p, const float *from,
                   int columns, int shift, int b, int h)
{
    for (int i = 0; i < p->n_ctx; i++)
        for (int c = 0; c < p->width; c++)
            out[i * p->width + c] =
                (double)from[place(p, columns, b, h, i) + (size_t)(shift + c)];
}

static void expect_head(const char *what, const attention_problem *p,
                        const float *from, int columns, int shift, int b, int h,
                        const double *want)
{
    size_t n = (size_t)p->n_ctx * (size_t)p->width;
    float *got = attention_floats(n);
    for (int i = 0; i < p->n_ctx; i++)
        for (int c = 0; c < p->width; c++)
            got[i * p->width + c] =
                from[place(p, columns, b, h, i) + (size_t)(shift + c)];
    if (p->rounding > 0)
        es_test_expect_within(what, got, want, n, p->rounding, 1e-6);
    else
        es_test_expect_close(what, got, want, n);
    free(got);
}

/* Returns q, k, v, y, dy of one head in double, with memory for their
   gradients. */
static es_ref_head open_reference(const attention_problem *p, int b, int h,
                                  bool entropy)
{
    const int d = p->n_head * p->width;
    const size_t n = (size_t)p->n_ctx * (size_t)p->width, t = (size_t)p->n_ctx;
    double *in = calloc(8 * n + (ES_N_ROW_STATISTICS + 3) * t, sizeof *in);
    double *rows = in + 8 * n, *dentropy = rows + ES_N_ROW_STATISTICS * t;
    double *log_t = dentropy + t;
    assert_non_null(in);
    for (int part = 0; part < 3; part++)
        gather(in + (size_t)part * n, p, p->qkv, 3 * d, part * d, b, h);
    gather(in + 3 * n, p, p->dy, d, 0, b, h);
    for (size_t i = 0; i < t; i++)
        dentropy[i] = (double)p->dentropy[(size_t)(b * p->n_head + h) * t + i];
    for (size_t i = 0; p->log_t && i < t; i++)
        log_t[i] = (double)p->log_t[(size_t)h * t + i];
    return (es_ref_head){.n_ctx = p->n_ctx,
                         .width = p->width,
                         .log_t = p->log_t ? log_t : NULL,
                         .dlog_t = p->log_t ? log_t + t : NULL,
                         .power = p->power,
                         .epsilon = (double)p->epsilon,
                         .plain = p->plain,
                         .length = p->length,
                         .q = in,
                         .k = in + n,
                         .v = in + 2 * n,
                         .y = in + 4 * n,
                         .rows = rows,
                         .dy = in + 3 * n,
                         .dentropy = entropy ? dentropy : NULL,
                         .dq = in + 5 * n,
                         .dk = in + 6 * n,
                         .dv = in + 7 * n};
}

/* Checks one head of one sequence. Adds the gradients with respect to the
 * logarithms of the head's temperatures to dlog_t (T). */
static void check_head(const attention_problem *p, int b, int h, bool entropy,
                       double *dlog_t)
{
    const int d = p->n_head * p->width;
    const size_t t = (size_t)p->n_ctx;
    const size_t row = (size_t)(b * p->n_head + h) * t;
    const es_ref_head head = open_reference(p, b, h, entropy);
    es_ref_attention(&head);
    es_ref_attention_backward(&head);
    expect_head("y", p, p->y, d, 0, b, h, head.y);
    expect_head("dq", p, p->dqkv, 3 * d, 0, b, h, head.dq);
    expect_head("dk", p, p->dqkv, 3 * d, d, b, h, head.dk);
    expect_head("dv", p, p->dqkv, 3 * d, 2 * d, b, h, head.dv);
    /* A value above FLT_MAX is infinite in float32. */
    for (size_t i = 0; i < t; i++) {
        double *x = &head.rows[(size_t)ES_ROW_LOGIT_VARIANCE * t + i];
        *x = *x > (double)FLT_MAX ? (double)INFINITY : *x;
    }
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++) {
        const es_row_statistic statistic = (es_row_statistic)i;
        if (attention_has_rows(p, statistic))
            es_test_expect_close(es_row_statistic_names[i],
                                 attention_rows(p, statistic) + row,
                                 head.rows + (size_t)i * t, t);
    }
    for (size_t i = 0; head.dlog_t && i < t; i++)
        dlog_t[i] += head.dlog_t[i];
    free((double *)head.q);
}

void attention_check(const attention_problem *p, bool entropy)
{
    const size_t t = (size_t)p->n_ctx;
    double *dlog_t = malloc(t * sizeof *dlog_t);
    assert_non_null(dlog_t);
    for (int h = 0; h < p->n_head; h++) {
        memset(dlog_t, 0, t * sizeof *dlog_t);
        for (int b = 0; b < p->n_batch; b++)
            check_head(p, b, h, entropy, dlog_t);
        if (p->dlog_t)
            es_test_expect_close("dlog_t", p->dlog_t + (size_t)h * t, dlog_t,
                                 t);
    }
    free(dlog_t);
}

/* --- numbers that are not finite, and rows without weight ----------------- */

/* Checks the statistics and weights of row i. If `bad` is true, all statistics
 * must be NaN and no weight may be finite; otherwise no statistic may be NaN
 * and all weights must be finite. */
static void expect_nan_row(const attention_problem *p, int i, bool bad)
{
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++) {
        const es_row_statistic statistic = (es_row_statistic)k;
        const float value = attention_rows(p, statistic)[i];
        if (statistic == ES_ROW_NONFINITE)
            assert_int_equal(value, bad ? i % p->n_ctx + 1 : 0);
        else if (attention_has_rows(p, statistic))
            assert_int_equal(isnan(value) != 0, bad);
    }
}

void attention_expect_nan_from(const attention_problem *p, int position)
{
    for (int i = 0; i < p->n_ctx; i++) {
        expect_nan_row(p, i, i >= position);
        for (int c = 0; c < p->width; c++)
            assert_int_equal(isnan(p->y[i * p->width + c]) != 0, i >= position);
    }
}

void attention_expect_nan_at(const attention_problem *p, int position)
{
    for (int i = 0; i < p->n_ctx; i++)
        expect_nan_row(p, i, i == position);
}

void attention_expect_nan_value(const attention_problem *p, int position,
                                int column)
{
    for (int i = 0; i < p->n_ctx; i++) {
        expect_nan_row(p, i, false);
        for (int c = 0; c < p->width; c++)
            assert_int_equal(isnan(p->y[i * p->width + c]) != 0,
                             i >= position && c == column);
    }
}

void attention_expect_nan_temperature(const attention_problem *p, int h, int i)
{
    const int t = p->n_ctx, d = p->n_head * p->width;
    for (int at = 0; at < p->n_batch * p->n_head * t; at++) {
        const bool bad = at / t % p->n_head == h && at % t == i;
        expect_nan_row(p, at, bad);
    }
    for (int at = 0; at < p->n_head * t; at++)
        assert_int_equal(isnan(p->dlog_t[at]) != 0, at == h * t + i);
    for (int at = 0; at < p->n_batch * t * 3 * d; at++) {
        const int row = at / (3 * d) % t, part = at % (3 * d) / d;
        const bool reached = part == 0 ? row == i : row <= i;
        assert_int_equal(isnan(p->dqkv[at]) != 0,
                         at % d / p->width == h && reached);
    }
}

void attention_expect_no_weight(const attention_problem *p)
{
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        for (size_t i = 0; i < p->n_rows; i++)
            if (attention_has_rows(p, (es_row_statistic)k))
                assert_true(attention_rows(p, (es_row_statistic)k)[i] ==
                            (k == ES_ROW_MISSING));
    for (size_t i = 0; i < p->n_values; i++)
        assert_true(p->y[i] == 0);
    for (size_t i = 0; i < 3 * p->n_values; i++)
        assert_true(p->dqkv[i] == 0);
}

void attention_expect_pulled(const attention_problem *p)
{
    for (int i = 0; i < p->n_head * p->n_ctx; i++)
        assert_int_equal(fabsf(p->dlog_t[i]) < 1e-4f, i % p->n_ctx == 0);
}

/* --- the reference itself ------------------------------------------------- */

static double objective(const es_ref_head *head)
{
    double sum = 0;
    es_ref_attention(head);
    for (int i = 0; i < head->n_ctx; i++) {
        sum += head->dentropy[i] * head->rows[ES_ROW_ENTROPY * head->n_ctx + i];
        for (int c = 0; c < head->width; c++)
            sum += head->dy[i * head->width + c] * head->y[i * head->width + c];
    }
    return sum;
}

static double objective_at(const es_ref_head *head, double *at, double value)
{
    const double kept = *at;
    *at = value;
    const double found = objective(head);
    *at = kept;
    return found;
}

/* Compares a gradient with finite differences of fourth order, because the
   powers of small scores have large higher derivatives. */
static void expect_differences(const es_ref_head *head, double *values,
                               const double *gradient, int n)
{
    const double h = 1e-5;
    for (int i = 0; i < n; i++) {
        const double x = values[i];
        double near = objective_at(head, &values[i], x + h) -
                      objective_at(head, &values[i], x - h);
        double far = objective_at(head, &values[i], x + 2 * h) -
                     objective_at(head, &values[i], x - 2 * h);
        double difference = (8 * near - far) / (12 * h);
        if (!(fabs(difference - gradient[i]) <= 1e-8 * (1 + fabs(gradient[i]))))
            fail_msg("power %d, entry %d: %.10g, not %.10g", head->power, i,
                     gradient[i], difference);
    }
}

/* Computes c = max |score| + 1e-6 of each row from the current q and k. */
static void find_c(double *c, const es_ref_head *head)
{
    const int d = head->width;
    for (int i = 0; i < head->n_ctx; i++) {
        c[i] = 0;
        for (int j = 0; j <= i; j++) {
            double z = 0;
            for (int k = 0; k < d; k++)
                z += head->q[i * d + k] * head->k[j * d + k] / sqrt(d);
            c[i] = fmax(c[i], fabs(z));
        }
        c[i] += 1e-6;
    }
}

static void check_reference(int power, double epsilon, bool plain,
                            es_row_length length, bool temperatures)
{
    enum { T = 6, D = 3, N = T * D };
    double in[4 * N + 2 * T], out[4 * N], c[T], dlog_t[T];
    double rows[ES_N_ROW_STATISTICS * T];
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        in[i] = es_test_random(&seed);
    double *log_t = in + 4 * N + T;
    const es_ref_head head = {.n_ctx = T,
                              .width = D,
                              .power = power,
                              .epsilon = epsilon,
                              .plain = plain,
                              .length = length,
                              .c = c,
                              .c_is_given = true,
                              .q = in,
                              .k = in + N,
                              .v = in + 2 * N,
                              .log_t = temperatures ? log_t : NULL,
                              .y = out,
                              .rows = rows,
                              .dy = in + 3 * N,
                              .dentropy = in + 4 * N,
                              .dq = out + N,
                              .dk = out + 2 * N,
                              .dv = out + 3 * N,
                              .dlog_t = temperatures ? dlog_t : NULL};
    find_c(c, &head);
    es_ref_attention_backward(&head);
    expect_differences(&head, in, head.dq, N);
    expect_differences(&head, in + N, head.dk, N);
    expect_differences(&head, in + 2 * N, head.dv, N);
    if (temperatures)
        expect_differences(&head, log_t, head.dlog_t, T);
}

void attention_check_reference(int power, double epsilon, bool temperatures)
{
    check_reference(power, epsilon, false, ES_LENGTH_NONE, temperatures);
}

void attention_check_reference_form(int power, double epsilon, bool plain,
                                    es_row_length length)
{
    check_reference(power, epsilon, plain, length, false);
}
