/* Statistics of a step, and AdamW. Sums are taken over pieces of one length, so
 * that they do not depend on the number of threads. */
#include "hooks/trainer/cpu/cpu.h"

#include <math.h>

/* Sums over pieces of this length are added in order, so that they do not
 * depend on the number of threads. */
#define PIECE ((size_t)1 << 13)
/* Pieces whose sums are kept at a time. */
#define N_PIECES 256

typedef struct job {
    const es_backend *backend;
    size_t n;
    const float *x, *y;
    double *sums;
    float *param, *moment1, *moment2;
    const es_adamw *how;
    const es_control *control;
} job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void dot_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, PIECE);
    for (; first < end; first += PIECE)
        j->sums[first / PIECE] = j->backend->kernels->dot(
            j->x + first, j->y + first, smaller(end - first, PIECE));
}

double es_cpu_dot(es_backend *backend, const float *x, const float *y, size_t n)
{
    double total = 0, sums[N_PIECES];
    for (size_t first = 0; first < n; first += N_PIECES * PIECE) {
        job j = {.backend = backend,
                 .n = smaller(n - first, N_PIECES * PIECE),
                 .x = x + first,
                 .y = y + first,
                 .sums = sums};
        es_team_run(backend->team, dot_part, &j);
        for (size_t i = 0; i * PIECE < j.n; i++)
            total += sums[i];
    }
    return total;
}

/* --- statistics ----------------------------------------------------------- */

static double square(es_backend *backend, const es_mem *x, size_t n)
{
    return es_cpu_dot(backend, es_cpu_read(x), es_cpu_read(x), n);
}

void es_cpu_sum_squares(es_backend *backend, es_mem *out, const es_mem *x,
                        size_t n)
{
    *(double *)(void *)out = square(backend, x, n);
}

void es_cpu_activation_stats(es_backend *backend, es_mem *sums, const es_mem *x,
                             size_t n)
{
    es_layer_sums *to = (es_layer_sums *)(void *)sums;
    double squares = square(backend, x, n);
    to->squares += squares;
    if (!(squares - squares == 0)) /* NaN or infinite */
        to->nonfinite += backend->kernels->count_nonfinite(es_cpu_read(x), n);
}

void es_cpu_add_mean(es_backend *backend, es_mem *sum, const es_mem *x,
                     size_t n)
{
    const float *values = es_cpu_read(x);
    double total = 0;
    (void)backend;
    for (size_t i = 0; i < n; i++)
        total += (double)values[i];
    *(double *)(void *)sum += total / (double)n;
}

void es_cpu_measure_rows(es_backend *backend, es_mem *sums,
                         const es_row_mem *rows, int n_batch, int n_head,
                         int n_ctx)
{
    const float *arrays[ES_N_ROW_STATISTICS];
    (void)backend;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        arrays[i] = es_cpu_read(rows->array[i]);
    es_head_sums_add_rows((es_head_sums *)(void *)sums, arrays, n_batch, n_head,
                          n_ctx);
}

/* --- update --------------------------------------------------------------- */

void es_cpu_clip(es_backend *backend, es_mem *control, const es_mem *squares,
                 const es_mem *loss, float max_norm, bool may_skip)
{
    es_control *c = (es_control *)(void *)control;
    const double *of_loss = (const double *)(const void *)loss;
    double scale = (double)c->loss_scale;
    double norm = sqrt(*(const double *)(const void *)squares) / scale;
    bool finite = isfinite(norm) && (!of_loss || isfinite(*of_loss));
    bool clips = isfinite(norm) && max_norm > 0 && norm > (double)max_norm;
    (void)backend;
    c->grad_scale = (float)((clips ? (double)max_norm / norm : 1) / scale);
    c->skips = may_skip && !finite ? 1 : 0;
}

static void adamw_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, PIECE);
    if (first < end)
        j->backend->kernels->adamw(j->param + first, j->moment1 + first,
                                   j->moment2 + first, j->x + first,
                                   end - first, j->how, j->control);
}

void es_cpu_adamw(es_backend *backend, es_mem *param, es_mem *moment1,
                  es_mem *moment2, const es_mem *grad, size_t n,
                  const es_adamw *how, const es_mem *control)
{
    job j = {.backend = backend,
             .n = n,
             .x = es_cpu_read(grad),
             .param = es_cpu_floats(param),
             .moment1 = es_cpu_floats(moment1),
             .moment2 = es_cpu_floats(moment2),
             .how = how,
             .control = (const es_control *)(const void *)control};
    if (j.control->skips == 0)
        es_team_run(backend->team, adamw_part, &j);
}
