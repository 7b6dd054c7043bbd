/* What the scaled FFNs and the entropy regulariser do beside the products. */
#include "hooks/trainer/cpu/cpu.h"

#include <math.h>

/* --- y = beta x + f / alpha ----------------------------------------------- */

typedef struct job {
    const es_backend *backend;
    float *y;
    const float *x, *f;
    float a, b; /* y = a x + b f */
    size_t n;
    bool rounds; /* y is an activation, not a gradient */
} job;

static void combine_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 16);
    if (first >= end)
        return;
    j->backend->kernels->combine(j->y + first, j->x + first, j->f + first, j->a,
                                 j->b, end - first);
    if (j->rounds)
        es_cpu_round(j->backend, j->y + first, end - first);
}

void es_cpu_combine(es_backend *backend, es_mem *y, const es_mem *x,
                    const es_mem *f, const es_mem *alpha, const es_mem *beta,
                    size_t n)
{
    job j = {.backend = backend,
             .y = es_cpu_floats(y),
             .x = es_cpu_read(x),
             .f = es_cpu_read(f),
             .a = es_cpu_read(beta)[0],
             .b = 1 / es_cpu_read(alpha)[0],
             .n = n,
             .rounds = true};
    es_team_run(backend->team, combine_part, &j);
}

/* y = a x. */
static void scale(es_backend *backend, es_mem *y, const float *x, float a,
                  size_t n)
{
    job j = {backend, es_cpu_floats(y), .x = x, .f = x, .a = a, .n = n};
    es_team_run(backend->team, combine_part, &j);
}

void es_cpu_combine_backward(es_backend *backend, es_mem *dx, es_mem *df,
                             es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                             const es_mem *x, const es_mem *f,
                             const es_mem *alpha, const es_mem *beta, size_t n)
{
    const float *from = es_cpu_read(dy);
    const double a = (double)es_cpu_read(alpha)[0];
    double along_x = es_cpu_dot(backend, from, es_cpu_read(x), n);
    double along_f = es_cpu_dot(backend, from, es_cpu_read(f), n);
    es_cpu_floats(dbeta)[0] += (float)along_x;
    es_cpu_floats(dalpha)[0] -= (float)(along_f / (a * a));
    /* Last, as dx may be dy. */
    scale(backend, df, from, (float)(1 / a), n);
    scale(backend, dx, from, es_cpu_read(beta)[0], n);
}

/* --- the regulariser ------------------------------------------------------ */

/* What it makes of one entropy e: the penalty, and its derivative. */
static double penalise(double *slope, double e, double theta,
                       const es_penalty *penalty)
{
    const double largest = log(penalty->n_ctx);
    double deviation = e - theta * largest;
    /* The indicator; false for a NaN. */
    bool counts = fabs(deviation) > (double)penalty->gamma * largest;
    *slope = counts ? 2 * deviation : 0;
    return counts ? deviation * deviation : 0;
}

/* Rows of one head: b, i at entropy[b * n_head * n_ctx + i]. */
typedef struct head_rows {
    const float *entropy;
    float *dentropy; /* or NULL */
    size_t stride;   /* from one sequence to the next */
    double factor;   /* of the gradients */
} head_rows;

/* dL/dtheta of a head is minus ln T times the sum of its dL/de. */
static double penalise_rows(double *sum_slopes, const head_rows *rows,
                            double theta, const es_penalty *penalty)
{
    double sum = 0;
    for (int b = 0; b < penalty->n_batch; b++)
        for (int i = 0; i < penalty->n_ctx; i++) {
            size_t at = (size_t)b * rows->stride + (size_t)i;
            double slope;
            sum += penalise(&slope, (double)rows->entropy[at], theta, penalty);
            *sum_slopes += slope;
            if (rows->dentropy)
                rows->dentropy[at] = (float)(rows->factor * slope);
        }
    return sum;
}

/* The mean goes over the finite rows, and so does its gradient. */
static double penalise_mean(double *sum_slopes, const head_rows *rows,
                            double theta, const es_penalty *penalty)
{
    double mean = 0, n = 0;
    for (int b = 0; b < penalty->n_batch; b++)
        for (int i = 0; i < penalty->n_ctx; i++) {
            double e =
                (double)rows->entropy[(size_t)b * rows->stride + (size_t)i];
            mean += isfinite(e) ? e : 0;
            n += isfinite(e) ? 1 : 0;
        }
    double result = penalise(sum_slopes, mean / n, theta, penalty);
    for (int b = 0; rows->dentropy && b < penalty->n_batch; b++)
        for (int i = 0; i < penalty->n_ctx; i++) {
            size_t at = (size_t)b * rows->stride + (size_t)i;
            bool finite = isfinite(rows->entropy[at]);
            rows->dentropy[at] =
                finite ? (float)(rows->factor * *sum_slopes / n) : 0;
        }
    return result;
}

void es_cpu_entropy_penalty(es_backend *backend, es_mem *loss, es_mem *dentropy,
                            es_mem *dtheta, const es_mem *entropy,
                            const es_penalty *penalty, float scale,
                            const es_mem *control)
{
    const size_t n_ctx = (size_t)penalty->n_ctx;
    const double share = 1.0 / penalty->n_layer / penalty->n_head;
    const double factor = share * (double)penalty->lambda * (double)scale *
                          (double)es_cpu_loss_scale(control);
    double sum = 0;
    (void)backend;
    for (int h = 0; h < penalty->n_head; h++) {
        const size_t at = (size_t)h * n_ctx;
        const double theta = (double)es_cpu_read(penalty->theta)[h];
        const head_rows rows = {es_cpu_read(entropy) + at,
                                dentropy ? es_cpu_floats(dentropy) + at : NULL,
                                (size_t)penalty->n_head * n_ctx, factor};
        double slopes = 0;
        sum += penalty->mean ? penalise_mean(&slopes, &rows, theta, penalty)
                             : penalise_rows(&slopes, &rows, theta, penalty);
        if (dtheta)
            es_cpu_floats(dtheta)[h] -=
                (float)(factor * slopes * log(penalty->n_ctx));
    }
    if (loss)
        es_cpu_floats(loss)[0] += (float)(share * sum);
}
