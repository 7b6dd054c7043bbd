/** A small run file, damaged as an input of the fuzzer says. */
#ifndef ES_FUZZ_MUTATION_H
#define ES_FUZZ_MUTATION_H

#include "tests/fuzz/fuzz.h"
#include <stdbool.h>

/**
 * Makes the file at first use, then copies and damages it: rows of its tables
 * get other values, through SQL; bytes of it are changed; it is cut off.
 *
 *   sealed  written: the samples' checksums were made anew
 *
 * Returns the damaged copy's path, always the same.
 */
const char *fuzz_damaged_run(const uint8_t *bytes, size_t n, bool *sealed);

/** Value i of n, as they were written, of any series and run: at every fifth
 *  step. */
float fuzz_run_value(int64_t step, size_t i, size_t n);

#endif
