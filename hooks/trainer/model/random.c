/* Draws counter-based random numbers (params.h) in several threads. */
#include "hooks/trainer/model/dropout.h"
#include "hooks/trainer/model/params.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

/* CHUNK is the number of random numbers that a thread draws at a time (a
 * multiple of 4); MOST_HELPERS is the maximum number of additional threads. */
#define CHUNK 16384
#define MOST_HELPERS 255

void es_random_block(uint32_t out[4], const uint32_t counter[4],
                     const uint32_t key[2])
{
    for (int i = 0; i < 4; i++)
        out[i] = counter[i];
    es_philox(out, key[0], key[1]);
}

/* Converts two uniform words to two independent normal numbers. Neither word is
 * converted to exactly 0, because ln 0 is infinite. */
static void box_muller(double out[2], uint32_t a, uint32_t b)
{
    const double pi = 3.14159265358979323846;
    double radius = sqrt(-2 * log(((double)a + 0.5) * 0x1p-32));
    double angle = 2 * pi * (((double)b + 0.5) * 0x1p-32);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

/* An array that several threads fill with random numbers. Each thread draws the
 * next chunk that no thread has taken. */
typedef struct draw {
    float *out;
    size_t n;
    double sigma;
    uint32_t key[2];
    uint64_t stream;
    atomic_size_t next; /* index of the first number of the next chunk that no
                           thread has taken */
} draw;

static void draw_four(const draw *d, size_t first)
{
    const uint64_t block = first / 4;
    uint32_t word[4];
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32),
                                 (uint32_t)d->stream,
                                 (uint32_t)(d->stream >> 32)};
    double normal[4];
    es_random_block(word, counter, d->key);
    box_muller(normal, word[0], word[1]);
    box_muller(normal + 2, word[2], word[3]);
    for (size_t i = 0; i < 4 && first + i < d->n; i++)
        d->out[first + i] = (float)(d->sigma * normal[i]);
}

static void *draw_chunks(void *argument)
{
    draw *d = argument;
    size_t first;
    while ((first = atomic_fetch_add(&d->next, CHUNK)) < d->n)
        for (size_t i = first; i < first + CHUNK && i < d->n; i += 4)
            draw_four(d, i);
    return NULL;
}

void es_random_normal(float *out, size_t n, double sigma, uint64_t seed,
                      uint64_t stream, int n_threads)
{
    draw d = {.out = out,
              .n = n,
              .sigma = sigma,
              .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
              .stream = stream};
    pthread_t threads[MOST_HELPERS];
    int n_started = 0;
    /* If a thread cannot be created, the other threads draw its chunks. */
    while (n_started < MOST_HELPERS && n_started < n_threads - 1 &&
           (size_t)(n_started + 1) * CHUNK < n &&
           pthread_create(&threads[n_started], NULL, draw_chunks, &d) == 0)
        n_started++;
    draw_chunks(&d);
    while (n_started > 0)
        pthread_join(threads[--n_started], NULL);
}
