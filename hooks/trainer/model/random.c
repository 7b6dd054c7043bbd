/* Counter-based random numbers: the n-th depends on seed, name and n alone. */
#include "hooks/trainer/model/random.h"

#include <math.h>

static void philox_round(uint32_t c[4], const uint32_t key[2])
{
    uint64_t first = UINT64_C(0xd2511f53) * c[0];
    uint64_t second = UINT64_C(0xcd9e8d57) * c[2];
    uint32_t next[4] = {
        (uint32_t)(second >> 32) ^ c[1] ^ key[0], (uint32_t)second,
        (uint32_t)(first >> 32) ^ c[3] ^ key[1], (uint32_t)first};
    for (int i = 0; i < 4; i++)
        c[i] = next[i];
}

void es_random_block(uint32_t out[4], const uint32_t counter[4],
                     const uint32_t key[2])
{
    uint32_t k[2] = {key[0], key[1]};
    for (int i = 0; i < 4; i++)
        out[i] = counter[i];
    for (int i = 0; i < 10; i++) {
        philox_round(out, k);
        k[0] += UINT32_C(0x9e3779b9);
        k[1] += UINT32_C(0xbb67ae85);
    }
}

uint64_t es_random_stream(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* Two independent normal numbers from two uniform words; neither uniform is
 * ever 0. */
static void box_muller(double out[2], uint32_t a, uint32_t b)
{
    const double pi = 3.14159265358979323846;
    double radius = sqrt(-2 * log(((double)a + 0.5) * 0x1p-32));
    double angle = 2 * pi * (((double)b + 0.5) * 0x1p-32);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

void es_random_normal(float *out, size_t n, double sigma, uint64_t seed,
                      uint64_t stream, int n_threads)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (size_t block = 0; block < (n + 3) / 4; block++) {
        uint32_t word[4];
        const uint32_t counter[4] = {
            (uint32_t)block, (uint32_t)((uint64_t)block >> 32),
            (uint32_t)stream, (uint32_t)(stream >> 32)};
        double normal[4];
        es_random_block(word, counter, key);
        box_muller(normal, word[0], word[1]);
        box_muller(normal + 2, word[2], word[3]);
        for (size_t i = 0; i < 4 && 4 * block + i < n; i++)
            out[4 * block + i] = (float)(sigma * normal[i]);
    }
}
