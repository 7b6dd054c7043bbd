/**
 * Generates random numbers for tests. A seed gives the same numbers on every
 * machine, because test cases and pictures depend on them to the last bit.
 */
#ifndef ES_TESTS_CHANCE_H
#define ES_TESTS_CHANCE_H

#include <stdint.h>

/**
 * Returns the number of repetitions of a test: the value of the environment
 * variable `name`, or `usual` if the variable is not set. For example, `make
 * soak` sets such variables.
 */
long chance_times(const char *name, long usual);

/* --- one sequence for the program: xorshift64* ---------------------------- */

/** Seeds the generator. Must be called before the first random number. */
void chance_seed(uint64_t seed);

/** Returns 64 random bits. */
uint64_t chance_bits(void);

/** Returns a number in 0..n-1, computed from the upper half of the bits. */
uint32_t chance_below(uint32_t n);

/** Returns a number in [0, 1), a multiple of 2^-32. */
double chance_unit(void);

/* --- one sequence for each state: SplitMix64, whose state is a seed ------- */

/** Returns 64 random bits of the sequence with this state, and advances the
 *  state. */
uint64_t splitmix_bits(uint64_t *state);

/* --- a few numbers: a linear congruence modulo 2^32 ----------------------- */

/**
 * Returns 32 random bits. The lower bits have short periods: the lowest bit
 * alternates.
 */
uint32_t congruence_bits(uint32_t *state);

/** Returns a number in 0..n-1, computed from the upper 24 bits. */
uint32_t congruence_below(uint32_t *state, uint32_t n);

/** Returns a number in [0, 1), a multiple of 2^-24. */
double congruence_unit(uint32_t *state);

#endif
