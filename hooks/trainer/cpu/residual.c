/* Implements the operations of scaled FFNs, the gate, dropout and the entropy
 * regulariser. Threads split the elements of an operation; the regulariser runs
 * on the calling thread. */
#include "hooks/trainer/cpu/activations.h"

#include <math.h>

/* --- y = beta x + f / alpha ----------------------------------------------- */

typedef struct job {
    const es_backend *backend;
    es_mem *y;
    const es_mem *x, *f;
    float a, b; /* y = a x + b f */
    size_t n;
    bool rounds; /* true if y is an activation, which is rounded; false for a
                  * gradient */
} job;

static void combine_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 16);
    for (size_t n; first < end; first += n) {
        n = es_cpu_piece(j->backend, end - first);
        float *y = es_cpu_place(j->backend, share, 0, j->y, first);
        j->backend->kernels->combine(
            y, es_cpu_open(j->backend, share, 1, j->x, first, n),
            es_cpu_open(j->backend, share, 2, j->f, first, n), j->a, j->b, n);
        if (j->rounds)
            es_cpu_close(j->backend, j->y, first, y, n);
        else
            es_cpu_close_gradient(j->backend, j->y, first, y, n);
    }
}

void es_cpu_combine(es_backend *backend, es_mem *y, const es_mem *x,
                    const es_mem *f, const es_mem *alpha, const es_mem *beta,
                    size_t n)
{
    job j = {.backend = backend,
             .y = y,
             .x = x,
             .f = f,
             .a = es_cpu_read(beta)[0],
             .b = 1 / es_cpu_read(alpha)[0],
             .n = n,
             .rounds = true};
    es_team_run(backend->team, combine_part, &j);
}

/* Computes y = a x. */
static void scale(es_backend *backend, es_mem *y, const es_mem *x, float a,
                  size_t n)
{
    job j = {backend, y, .x = x, .f = x, .a = a, .n = n};
    es_team_run(backend->team, combine_part, &j);
}

void es_cpu_combine_backward(es_backend *backend, es_mem *dx, es_mem *df,
                             es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                             const es_mem *x, const es_mem *f,
                             const es_mem *alpha, const es_mem *beta, size_t n)
{
    const double a = (double)es_cpu_read(alpha)[0];
    double along_x = es_cpu_dot(backend, dy, x, n);
    double along_f = es_cpu_dot(backend, dy, f, n);
    es_cpu_floats(dbeta)[0] += (float)along_x;
    es_cpu_floats(dalpha)[0] -= (float)(along_f / (a * a));
    /* dx may be the same array as dy, so dx is computed last */
    scale(backend, df, dy, (float)(1 / a), n);
    scale(backend, dx, dy, es_cpu_read(beta)[0], n);
}

/* --- y = x sigmoid(gate) ---------------------------------------------------
 */

typedef struct gate_job {
    const es_backend *backend;
    es_mem *y, *dgate; /* dgate is NULL in the forward pass; in the backward
                        * pass y is dx */
    const es_mem *x, *gate, *dy;
    size_t n;
} gate_job;

static void gate_part(void *argument, es_share share)
{
    const gate_job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 16);
    for (size_t n; first < end; first += n) {
        n = es_cpu_piece(j->backend, end - first);
        float *y = es_cpu_place(j->backend, share, 0, j->y, first);
        const float *x = es_cpu_open(j->backend, share, 1, j->x, first, n);
        if (!j->dgate) {
            j->backend->kernels->gate(
                y, x, es_cpu_open(j->backend, share, 2, j->gate, first, n), n);
            es_cpu_close(j->backend, j->y, first, y, n);
            continue;
        }
        float *dgate = es_cpu_change(j->backend, share, 2, j->dgate, first, n);
        j->backend->kernels->gate_backward(
            y, dgate, es_cpu_open(j->backend, share, 3, j->dy, first, n), x, n);
        es_cpu_close_gradient(j->backend, j->y, first, y, n);
        es_cpu_close_gradient(j->backend, j->dgate, first, dgate, n);
    }
}

void es_cpu_gate(es_backend *backend, es_mem *y, const es_mem *x,
                 const es_mem *gate, size_t n)
{
    gate_job j = {.backend = backend, .y = y, .x = x, .gate = gate, .n = n};
    es_team_run(backend->team, gate_part, &j);
}

void es_cpu_gate_backward(es_backend *backend, es_mem *dx, es_mem *gate,
                          const es_mem *dy, const es_mem *x, size_t n)
{
    gate_job j = {
        .backend = backend, .y = dx, .dgate = gate, .x = x, .dy = dy, .n = n};
    es_team_run(backend->team, gate_part, &j);
}

/* --- y = r + dropped x ---------------------------------------------------- */

typedef struct drop_job {
    const es_backend *backend;
    es_mem *y;
    const es_mem *residual, *x;
    es_drop_mask mask;
    size_t n;
    bool rounds;
} drop_job;

static void drop_part(void *argument, es_share share)
{
    const drop_job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 64);
    for (size_t n; first < end; first += n) {
        n = es_cpu_piece(j->backend, end - first);
        float *y = es_cpu_place(j->backend, share, 0, j->y, first);
        const float *residual = j->residual ? es_cpu_open(j->backend, share, 1,
                                                          j->residual, first, n)
                                            : NULL;
        j->backend->kernels->drop(
            y, residual, es_cpu_open(j->backend, share, 2, j->x, first, n),
            first, n, &j->mask);
        if (j->rounds)
            es_cpu_close(j->backend, j->y, first, y, n);
        else
            es_cpu_close_gradient(j->backend, j->y, first, y, n);
    }
}

void es_cpu_dropout(es_backend *backend, es_mem *y, const es_mem *residual,
                    const es_mem *x, const es_dropout *how, const es_mem *pass,
                    size_t n)
{
    drop_job j = {
        .backend = backend,
        .y = y,
        .residual = residual,
        .x = x,
        .mask = es_drop_mask_of(how, *(const uint64_t *)(const void *)pass),
        .n = n,
        .rounds = !how->back};
    es_team_run(backend->team, drop_part, &j);
}

/* --- the regulariser ------------------------------------------------------ */

/* The target entropy and its tolerance, with which a head's entropies are
 * compared. */
typedef struct entropy_aim {
    double entropy, tolerance; /* in nats: theta * ln(T) is the target, gamma *
                                  ln(T) the tolerance */
} entropy_aim;

/* Returns the penalty of an entropy e, and writes the derivative of the penalty
 * to *slope. */
static inline double penalise_entropy(double *slope, double e,
                                      const entropy_aim *aim)
{
    double deviation = e - aim->entropy;
    /* deviations within the tolerance are not penalised, and neither is NaN */
    bool counts = fabs(deviation) > aim->tolerance;
    *slope = counts ? 2 * deviation : 0;
    return counts ? deviation * deviation : 0;
}

/* The entropies of one head: entropy[b * stride + i] belongs to query i of
 * sequence b. */
typedef struct head_rows {
    const float *entropy;
    float *dentropy; /* receives the gradients of the entropies, at the same
                      * indices as `entropy`; or NULL */
    size_t stride;   /* distance between sequences in floats */
    double factor;   /* factor by which the gradients are multiplied */
} head_rows;

/* Adds up the penalties of all rows of a head. Also adds their derivatives with
 * respect to the entropies to *sum_slopes; the gradient of the head's threshold
 * theta is -ln(T) times this sum. */
static double penalise_rows(double *sum_slopes, const head_rows *rows,
                            const entropy_aim *aim, const es_penalty *penalty)
{
    double sum = 0;
    for (int b = 0; b < penalty->n_batch; b++)
        for (int i = 0; i < penalty->n_ctx; i++) {
            size_t at = (size_t)b * rows->stride + (size_t)i;
            double slope;
            sum += penalise_entropy(&slope, (double)rows->entropy[at], aim);
            *sum_slopes += slope;
            if (rows->dentropy)
                rows->dentropy[at] = (float)(rows->factor * slope);
        }
    return sum;
}

/* Penalises the mean entropy of a head. Rows whose entropy is not finite are
 * excluded from the mean and get a gradient of 0. */
static double penalise_mean(double *sum_slopes, const head_rows *rows,
                            const entropy_aim *aim, const es_penalty *penalty)
{
    double mean = 0, n = 0;
    for (int b = 0; b < penalty->n_batch; b++)
        for (int i = 0; i < penalty->n_ctx; i++) {
            double e =
                (double)rows->entropy[(size_t)b * rows->stride + (size_t)i];
            mean += isfinite(e) ? e : 0;
            n += isfinite(e) ? 1 : 0;
        }
    double result = penalise_entropy(sum_slopes, mean / n, aim);
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
    const double largest = log(penalty->n_ctx);
    double sum = 0;
    (void)backend;
    for (int h = 0; h < penalty->n_head; h++) {
        const size_t at = (size_t)h * n_ctx;
        const entropy_aim aim = {
            (double)es_cpu_read(penalty->theta)[h] * largest,
            (double)penalty->gamma * largest,
        };
        const head_rows rows = {es_cpu_read(entropy) + at,
                                dentropy ? es_cpu_floats(dentropy) + at : NULL,
                                (size_t)penalty->n_head * n_ctx, factor};
        double slopes = 0;
        sum += penalty->mean ? penalise_mean(&slopes, &rows, &aim, penalty)
                             : penalise_rows(&slopes, &rows, &aim, penalty);
        if (dtheta)
            es_cpu_floats(dtheta)[h] -= (float)(factor * slopes * largest);
    }
    if (loss)
        es_cpu_floats(loss)[0] += (float)(share * sum);
}
