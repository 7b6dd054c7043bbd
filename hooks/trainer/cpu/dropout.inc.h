/**
 * Applies dropout to LANES blocks of four activations at a time; part of
 * kernels.inc.h. Uses the random numbers of es_drop_factors in
 * ../model/dropout.h.
 */

typedef uint32_t word_vec __attribute__((vector_size(4 * LANES)));
typedef uint64_t wide_vec __attribute__((vector_size(8 * LANES)));

/* Computes the random numbers of es_philox for LANES counters at a time. */
static inline void philox_lanes(word_vec c[4], uint32_t key0, uint32_t key1)
{
    for (int i = 0; i < 10; i++) {
        const wide_vec first =
            __builtin_convertvector(c[0], wide_vec) * UINT64_C(0xd2511f53);
        const wide_vec second =
            __builtin_convertvector(c[2], wide_vec) * UINT64_C(0xcd9e8d57);
        c[0] = __builtin_convertvector(second >> 32, word_vec) ^ c[1] ^ key0;
        c[1] = __builtin_convertvector(second, word_vec);
        c[2] = __builtin_convertvector(first >> 32, word_vec) ^ c[3] ^ key1;
        c[3] = __builtin_convertvector(first, word_vec);
        key0 += UINT32_C(0x9e3779b9);
        key1 += UINT32_C(0xbb67ae85);
    }
}

/* Computes the dropout factors of LANES consecutive blocks, starting at block
 * `block`, into out (4 * LANES). */
static inline void drop_factors(float out[4 * LANES], const es_drop_mask *mask,
                                uint64_t block)
{
    uint32_t words[4][LANES], low[LANES], high[LANES];
    word_vec c[4];
    for (int i = 0; i < LANES; i++) {
        const uint64_t at = block + (uint64_t)i;
        low[i] = (uint32_t)at;
        high[i] = (uint32_t)(at >> 32) | mask->place << 16;
    }
    memcpy(&c[0], low, sizeof low);
    memcpy(&c[1], high, sizeof high);
    c[2] = (word_vec){0} + mask->pass[0];
    c[3] = (word_vec){0} + mask->pass[1];
    philox_lanes(c, mask->key[0], mask->key[1]);
    memcpy(words, c, sizeof words);
    for (int i = 0; i < 4 * LANES; i++)
        out[i] = words[i % 4][i / 4] < mask->threshold ? 0 : mask->scale;
}

static void drop(float *y, const float *residual, const float *x, size_t first,
                 size_t n, const es_drop_mask *mask)
{
    for (size_t at = 0; at < n; at += 4 * LANES) {
        const size_t part = n - at < 4 * LANES ? n - at : 4 * LANES;
        float factors[4 * LANES];
        drop_factors(factors, mask, (first + at) / 4);
        for (size_t i = 0; i < part; i++)
            y[at + i] =
                (residual ? residual[at + i] : 0) + factors[i] * x[at + i];
    }
}
