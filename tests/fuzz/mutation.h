/** Damages a small run file as determined by a fuzz input. */
#ifndef ES_FUZZ_MUTATION_H
#define ES_FUZZ_MUTATION_H

#include "tests/fuzz/fuzz.h"
#include <stdbool.h>

/**
 * Creates a small run file on first use, then copies it and damages the copy:
 * changes values in its tables with SQL, changes bytes, and truncates it.
 *
 *   sealed  set to true if the checksums of samples were recomputed
 *
 * Returns the path of the damaged copy, which is always the same.
 */
const char *fuzz_damaged_run(const uint8_t *bytes, size_t n, bool *sealed);

/**
 * Returns value i of n of the undamaged samples at step `step`, which are the
 * same in every series and run. Every fifth step has a sample.
 */
float fuzz_run_value(int64_t step, size_t i, size_t n);

#endif
