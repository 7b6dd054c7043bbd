/**
 * Counter-based random numbers: number i of a stream depends on the key, the
 * stream and i alone, so any part can be drawn in any order, on any machine.
 * Philox-4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011.
 */
#ifndef ES_RANDOM_H
#define ES_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/** Four words from a 128-bit counter and a 64-bit key. */
void es_random_block(uint32_t out[4], const uint32_t counter[4],
                     const uint32_t key[2]);

/** The stream that belongs to a name: FNV-1a, 64 bits. */
uint64_t es_random_stream(const char *name);

/**
 * Normal numbers with mean 0: out[i], i < n, is number i of the stream.
 *
 *   out      (n) f32, written
 *   sigma    standard deviation
 *
 * Box-Muller in double, rounded once to float32. O(n), any thread; splits
 * the work over n_threads, with the same result for any number of them.
 */
void es_random_normal(float *out, size_t n, double sigma, uint64_t seed,
                      uint64_t stream, int n_threads);

#endif
