/** Chance for tests: a seed draws the same numbers on every machine. Cases and
 *  pictures depend on them, to the last bit. */
#ifndef ES_TESTS_CHANCE_H
#define ES_TESTS_CHANCE_H

#include <stdint.h>

/** How often a test tries something: what the environment says, for example by
 *  `make soak`, or the usual number. */
long chance_times(const char *name, long usual);

/* --- one sequence of a program: xorshift64* ------------------------------- */

/** Begins anew; to be called before the first draw. */
void chance_seed(uint64_t seed);

/** 64 bits. */
uint64_t chance_bits(void);

/** 0..n-1, from the upper half of the bits. */
uint32_t chance_below(uint32_t n);

/** In [0, 1), a multiple of 2^-32. */
double chance_unit(void);

/* --- as many as there are states: SplitMix64, whose state is a seed ------- */

/** 64 bits. */
uint64_t splitmix_bits(uint64_t *state);

/* --- a handful of numbers: a linear congruence modulo 2^32 ---------------- */

/** 32 bits. The lower ones repeat soon, the last every other time. */
uint32_t congruence_bits(uint32_t *state);

/** 0..n-1, from the upper 24 bits. */
uint32_t congruence_below(uint32_t *state, uint32_t n);

/** In [0, 1), a multiple of 2^-24. */
double congruence_unit(uint32_t *state);

#endif
