/* Pythia's rotary position embedding. Of each head's q and k the first r
 * dimensions turn, in pairs (c, c + r/2): pair c of position i by the angle
 * i base^(-2c/r). */
#include "hooks/trainer/cpu/cpu.h"

#include <math.h>

#define BASE 10000.0

int es_cpu_n_rotated(int head_width)
{
    int quarter = head_width / 4 / 2 * 2;
    return quarter > 2 ? quarter : 2;
}

/* Cosines of a position's angles, then their sines. */
static void fill_turns(float *turns, int n_ctx, int n_rotated)
{
    const int n_pairs = n_rotated / 2;
    for (int i = 0; i < n_ctx; i++, turns += n_rotated)
        for (int c = 0; c < n_pairs; c++) {
            double angle = i * pow(BASE, -2.0 * c / n_rotated);
            turns[c] = (float)cos(angle);
            turns[n_pairs + c] = (float)sin(angle);
        }
}

/* One head's q or k at one position. */
static void turn(float *x, const float *turns, int n_rotated, bool back)
{
    const int n_pairs = n_rotated / 2;
    const float *cosine = turns, *sine = turns + n_pairs;
    for (int c = 0; c < n_pairs; c++) {
        float a = x[c], b = x[n_pairs + c];
        float s = back ? -sine[c] : sine[c];
        x[c] = a * cosine[c] - b * s;
        x[n_pairs + c] = b * cosine[c] + a * s;
    }
}

typedef struct job {
    const es_backend *backend;
    const es_attention *attention;
    float *qkv;
    bool back;
} job;

static void rotate_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_attention *a = j->attention;
    const int width = a->d_model / a->n_head;
    const int n_rotated = j->backend->n_rotated;
    es_slab slab = es_cpu_slab(share, a->n_batch * a->n_ctx, 1);
    for (int row = slab.first; row < slab.first + slab.n; row++) {
        const int position = row % a->n_ctx;
        const float *turns =
            j->backend->turns + (ptrdiff_t)position * n_rotated;
        float *qk = j->qkv + (size_t)row * 3 * (size_t)a->d_model;
        /* The heads of k follow those of q. */
        for (int h = 0; h < 2 * a->n_head; h++)
            turn(qk + (ptrdiff_t)h * width, turns, n_rotated, j->back);
        if (!j->back)
            es_cpu_round(j->backend, qk, 2 * (size_t)a->d_model);
    }
}

void es_cpu_rotate(es_backend *backend, es_mem *qkv,
                   const es_attention *attention, bool back)
{
    const int n_rotated =
        es_cpu_n_rotated(attention->d_model / attention->n_head);
    /* A model has one width, so this is done once. */
    if (backend->n_rotated != n_rotated)
        fill_turns(backend->turns, backend->n_turns, n_rotated);
    backend->n_rotated = n_rotated;
    job j = {backend, attention, es_cpu_floats(qkv), back};
    es_team_run(backend->team, rotate_part, &j);
}
