/* Implements QK-Clip: finds the largest logit of each head among the row maxima
 * that attention saves for the backward pass, and scales the columns of q and k
 * if the logit is too large. Each number is computed by a single thread, so the
 * bits do not depend on the number of threads. */
#include "hooks/trainer/cpu/cpu.h"

#include <math.h>

/* Returns the maximum of `largest` and the row maxima of one head in one
 * sequence. saved (T,2) contains each row's maximum m and divisor D (see
 * attention.inc.h). If D is not finite, m counts as NaN, because a score of the
 * row is not finite. */
static float update_largest(float largest, const float *saved, int n_ctx)
{
    for (int i = 0; i < n_ctx; i++) {
        const float m = isfinite(saved[2 * i + 1]) ? saved[2 * i] : NAN;
        if (!(m <= largest)) /* also true if m is NaN; if `largest` is NaN,
                              * it stays NaN */
            largest = isnan(largest) ? largest : m;
    }
    return largest;
}

void es_cpu_largest_logits(es_backend *backend, es_mem *out,
                           const es_mem *saved, const es_attention *attention)
{
    const size_t each = 2 * (size_t)attention->n_ctx;
    const float *from = es_cpu_read(saved);
    (void)backend;
    for (int b = 0; b < attention->n_batch; b++)
        for (int h = 0; h < attention->n_head; h++, from += each) {
            float *to = es_cpu_floats(out) + h;
            *to = update_largest(*to, from, attention->n_ctx);
        }
}

void es_cpu_qk_factors(es_backend *backend, es_mem *factors,
                       const es_mem *largest, float tau, int n,
                       const es_mem *control)
{
    const bool skips = ((const es_control *)(const void *)control)->skips != 0;
    (void)backend;
    for (int i = 0; i < n; i++) {
        const float s = es_cpu_read(largest)[i];
        es_cpu_floats(factors)[i] =
            !skips && isfinite(s) && s > tau ? sqrtf(tau / s) : 1;
    }
}

typedef struct job {
    float *x;
    const float *factors;
    int n_in, n_head, d_model;
} job;

static void scale_part(void *argument, es_share share)
{
    const job *j = argument;
    const int width = j->d_model / j->n_head;
    const es_slab slab = es_cpu_slab(share, j->n_in, 1);
    for (int i = slab.first; i < slab.first + slab.n; i++) {
        float *row = j->x + (size_t)i * 3 * (size_t)j->d_model;
        /* a row stores q of all heads, then k of all heads */
        for (int h = 0; h < 2 * j->n_head; h++, row += width)
            for (int c = 0; j->factors[h % j->n_head] != 1 && c < width; c++)
                row[c] *= j->factors[h % j->n_head];
    }
}

void es_cpu_scale_heads(es_backend *backend, es_mem *x, const es_mem *factors,
                        int n_in, int n_head, int d_model)
{
    job j = {es_cpu_floats(x), es_cpu_read(factors), n_in, n_head, d_model};
    es_team_run(backend->team, scale_part, &j);
}
