/**
 * Helpers of the fuzz targets. Each target is one LLVMFuzzerTestOneInput: it
 * accepts any bytes, and aborts only if the code under test breaks its
 * contract. `make soak` runs them.
 */
#ifndef ES_FUZZ_H
#define ES_FUZZ_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t most,
                               unsigned seed);

/** Aborts with the condition and es_message unless the condition is true. */
#define fuzz_require(condition)                                                \
    ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))

_Noreturn void fuzz_broken(const char *condition, const char *file, int line);

/** Checks that a failure has a known code and a message of one line. Returns
 *  true if `status` is ES_OK. */
int fuzz_succeeded(es_status status);

/** Writes the bytes to the process's only scratch file, which is created on
 *  first use in $TMPDIR and removed at the end. Returns its path, always the
 *  same. */
const char *fuzz_file(const void *bytes, size_t n);

/** The unused bytes of an input. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *input);    /* 0 if no byte is left */
uint64_t fuzz_number(fuzz_input *input); /* made of 1 to 8 bytes, of any
                                            magnitude */

/** Reads up to `most` bytes, to the end or to a 0xff, as a string in a static
 *  buffer, valid until the next call. most < 256. */
const char *fuzz_text(fuzz_input *input, size_t most);

/** Returns a whole input as a NUL-terminated string, which the caller frees.
 *  Bytes of 0 inside end it early, as in any argument. */
char *fuzz_string(const uint8_t *bytes, size_t n);

#endif
