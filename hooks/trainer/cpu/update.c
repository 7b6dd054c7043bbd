/* Computes the statistics of a training step, and applies AdamW. Sums run over
 * pieces of fixed length, so that they do not depend on the number of
 * threads. */
#include "hooks/trainer/cpu/activations.h"

#include <math.h>

/* Sums run over pieces of PIECE elements. Each piece is summed separately, and
 * the sums of the pieces are added in order, so that the result does not depend
 * on the number of threads. */
#define PIECE ((size_t)1 << 13)
/* Number of pieces of PIECE elements whose sums are in memory at a time. */
#define N_PIECES 256

typedef struct job {
    const es_backend *backend;
    size_t n;
    const es_mem *x, *y;
    size_t first;    /* index of the first element of x and y to process */
    bool are_floats; /* true if x and y are floats, false if they are
                      * activations */
    double *sums;
    const float *grad;
    float *param, *moment1, *moment2;
    const es_adamw *how;
    const es_control *control;
    es_bfloat *copy; /* bf16 copy of param, or NULL */
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
    for (; first < end; first += PIECE) {
        const size_t at = j->first + first, n = smaller(end - first, PIECE);
        const float *x = es_cpu_read(j->x) + at, *y = es_cpu_read(j->y) + at;
        if (!j->are_floats) {
            x = es_cpu_open(j->backend, share, 0, j->x, at, n);
            y = j->x == j->y ? x
                             : es_cpu_open(j->backend, share, 1, j->y, at, n);
        }
        j->sums[first / PIECE] = j->backend->kernels->dot(x, y, n);
    }
}

static double dot(es_backend *backend, const es_mem *x, const es_mem *y,
                  size_t n, bool are_floats)
{
    double total = 0, sums[N_PIECES];
    for (size_t first = 0; first < n; first += N_PIECES * PIECE) {
        job j = {.backend = backend,
                 .n = smaller(n - first, N_PIECES * PIECE),
                 .x = x,
                 .y = y,
                 .first = first,
                 .are_floats = are_floats,
                 .sums = sums};
        es_team_run(backend->team, dot_part, &j);
        for (size_t i = 0; i * PIECE < j.n; i++)
            total += sums[i];
    }
    return total;
}

double es_cpu_dot(es_backend *backend, const es_mem *x, const es_mem *y,
                  size_t n)
{
    return dot(backend, x, y, n, false);
}

/* --- statistics ----------------------------------------------------------- */

void es_cpu_sum_squares(es_backend *backend, es_mem *out, const es_mem *x,
                        size_t n)
{
    *(double *)(void *)out = dot(backend, x, x, n, true);
}

void es_cpu_activation_stats(es_backend *backend, es_mem *sums, const es_mem *x,
                             size_t n)
{
    es_cpu_add_activations(backend, sums, x, n, es_cpu_dot(backend, x, x, n));
}

void es_cpu_add_activations(es_backend *backend, es_mem *sums, const es_mem *x,
                            size_t n, double squares)
{
    es_layer_sums *to = (es_layer_sums *)(void *)sums;
    to->squares += squares;
    if (squares - squares == 0)
        return;
    /* If the sum of squares is NaN or infinite, x contains non-finite numbers,
     * which are counted here. This happens rarely, so one thread suffices. */
    for (size_t first = 0, part; first < n; first += part) {
        part = es_cpu_piece(backend, n - first);
        to->nonfinite += backend->kernels->count_nonfinite(
            es_cpu_open(backend, (es_share){0, 1}, 0, x, first, part), part);
    }
}

void es_cpu_add_mean(es_backend *backend, es_mem *sum, const es_mem *x,
                     size_t n)
{
    es_cpu_add_share(backend, sum, x, n, (int)n);
}

void es_cpu_add_share(es_backend *backend, es_mem *sum, const es_mem *x,
                      size_t n, int n_counted)
{
    const float *values = es_cpu_read(x);
    double total = 0;
    (void)backend;
    for (size_t i = 0; i < n; i++)
        total += (double)values[i];
    *(double *)(void *)sum += total / n_counted;
}

typedef struct measuring {
    es_head_sums *sums;
    const es_row_mem *rows;
    int n_layer, n_batch, n_head, n_ctx;
} measuring;

/* Measures the heads that this thread has to process. A thread processes the
 * sequences of a layer in order, so the order of summation does not depend on
 * the number of threads. */
static void measure_part(void *argument, es_share share)
{
    const measuring *m = argument;
    const es_slab heads = es_cpu_slab(share, m->n_head, 1);
    for (int b = 0; heads.n > 0 && b < m->n_layer * m->n_batch; b++) {
        const size_t at = (size_t)b * (size_t)m->n_head + (size_t)heads.first;
        const int first = b / m->n_batch * m->n_head + heads.first;
        const float *arrays[ES_N_ROW_STATISTICS];
        for (int i = 0; i < ES_N_ROW_STATISTICS; i++) {
            const float *x = es_cpu_read(m->rows->array[i]);
            arrays[i] = x ? x + at * (size_t)m->n_ctx : NULL;
        }
        es_head_sums_add_rows(m->sums + first, arrays, 1, heads.n, m->n_ctx);
    }
}

void es_cpu_measure_rows(es_backend *backend, es_mem *sums,
                         const es_row_mem *rows, int n_layer, int n_batch,
                         int n_head, int n_ctx)
{
    measuring m = {.sums = (es_head_sums *)(void *)sums,
                   .rows = rows,
                   .n_layer = n_layer,
                   .n_batch = n_batch,
                   .n_head = n_head,
                   .n_ctx = n_ctx};
    es_team_run(backend->team, measure_part, &m);
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
    if (may_skip && !finite)
        c->skips = 1;
}

static void adamw_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, PIECE);
    if (first < end)
        j->backend->kernels->adamw(j->param + first, j->moment1 + first,
                                   j->moment2 + first, j->grad + first,
                                   end - first, j->how, j->control);
    if (first < end && j->copy)
        j->backend->kernels->narrow(j->copy + first, j->param + first,
                                    end - first);
}

void es_cpu_adamw(es_backend *backend, es_mem *param, es_mem *moment1,
                  es_mem *moment2, const es_mem *grad, size_t n,
                  const es_adamw *how, const es_mem *control)
{
    job j = {.backend = backend,
             .n = n,
             .grad = es_cpu_read(grad),
             .param = es_cpu_floats(param),
             .moment1 = es_cpu_floats(moment1),
             .moment2 = es_cpu_floats(moment2),
             .how = how,
             .control = (const es_control *)(const void *)control,
             /* the back-end owns the copies, so it may write to them */
             .copy = (es_bfloat *)es_cpu_copy_of(backend, param)};
    if (j.control->skips == 0)
        es_team_run(backend->team, adamw_part, &j);
}
