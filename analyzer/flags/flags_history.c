/* Computes the median of a layer's mean entropies at all samples in constant
   memory, with a histogram. Used by flags_collapse.c and, with scaled values,
   by the rules. */
#include "analyzer/flags/flags_internal.h"

#include <math.h>
#include <string.h>

/* The bin of a float is the integer in its bits above the lowest 18: the
   exponent and five bits of the mantissa. */
#define DROPPED_BITS 18
/* Bin of 2^-20, the first bin of the histogram. The float32 exponent bits of
   2^-20 are 107. */
#define FIRST_BIN (UINT32_C(107) << 5)

static uint32_t bin_of(double mean)
{
    float value = (float)mean;
    uint32_t bits;
    if (!(value > 0))
        return 0;
    memcpy(&bits, &value, sizeof bits);
    bits >>= DROPPED_BITS;
    if (bits < FIRST_BIN)
        return 0;
    bits -= FIRST_BIN;
    return bits < ES_HISTORY_BINS ? bits : ES_HISTORY_BINS - 1;
}

static double middle_of(uint32_t bin)
{
    uint32_t bits = (bin + FIRST_BIN) << DROPPED_BITS;
    float value;
    bits |= UINT32_C(1) << (DROPPED_BITS - 1);
    memcpy(&value, &bits, sizeof value);
    return bin == 0 ? 0 : value;
}

void es_history_add(es_history *history, double mean)
{
    uint32_t bin = bin_of(mean);
    if (history->n == UINT32_MAX)
        return;
    history->counts[bin]++;
    history->n++;
    if (bin < history->bin)
        history->below++;
    uint32_t middle = (history->n - 1) / 2;
    while (history->below > middle)
        history->below -= history->counts[--history->bin];
    while (history->below + history->counts[history->bin] <= middle)
        history->below += history->counts[history->bin++];
}

double es_history_median(const es_history *history)
{
    return history->n == 0 ? NAN : middle_of(history->bin);
}
