/* Implements the random number generators of chance.h. */
#include "tests/support/chance.h"

#include <stdlib.h>

long chance_times(const char *name, long usual)
{
    const char *given = getenv(name);
    return given ? strtol(given, NULL, 10) : usual;
}

static uint64_t chance; /* state of the generator; must not be 0, because a
                           state of 0 never changes */

void chance_seed(uint64_t seed)
{
    chance = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

uint64_t chance_bits(void)
{
    chance ^= chance >> 12;
    chance ^= chance << 25;
    chance ^= chance >> 27;
    return chance * UINT64_C(2685821657736338717);
}

static uint32_t upper_half(void)
{
    return (uint32_t)(chance_bits() >> 32);
}

uint32_t chance_below(uint32_t n)
{
    return upper_half() % n;
}

double chance_unit(void)
{
    return upper_half() * 0x1p-32;
}

uint64_t splitmix_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint32_t congruence_bits(uint32_t *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

uint32_t congruence_below(uint32_t *state, uint32_t n)
{
    return (congruence_bits(state) >> 8) % n;
}

double congruence_unit(uint32_t *state)
{
    return (congruence_bits(state) >> 8) * 0x1p-24;
}
