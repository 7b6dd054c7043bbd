/** A small run file that is damaged as an input of the fuzzer determines. */
#ifndef ES_FUZZ_MUTATION_H
#define ES_FUZZ_MUTATION_H

#include "tests/fuzz/fuzz.h"
#include <stdbool.h>

/**
 * Makes the file on first use, then copies and damages it: rows of its tables
 * get other values through SQL, bytes are changed, and it is cut off.
 *
 *   sealed  written: the checksums of samples were recomputed
 *
 * Returns the path of the damaged copy, always the same.
 */
const char *fuzz_damaged_run(const uint8_t *bytes, size_t n, bool *sealed);

/** Value i of n as written in any series and run, at every fifth step. */
float fuzz_run_value(int64_t step, size_t i, size_t n);

#endif
