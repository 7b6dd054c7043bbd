/**
 * Declares the helpers of the fuzz targets. Each target is one
 * LLVMFuzzerTestOneInput: it accepts any bytes, and aborts only if the code
 * under test breaks its contract. `make soak` runs them.
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

/**
 * Aborts unless the condition is true, and prints the condition and
 * es_message().
 */
#define fuzz_require(condition)                                                \
    ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))

_Noreturn void fuzz_broken(const char *condition, const char *file, int line);

/**
 * Returns true if `status` is ES_OK. Aborts if a failure has an unknown code or
 * a message of more than one line.
 */
int fuzz_succeeded(es_status status);

/**
 * Writes the bytes to the only scratch file of the process, which is created in
 * $TMPDIR on first use and removed at the end. Returns the path, which is
 * always the same.
 */
const char *fuzz_file(const void *bytes, size_t n);

/** The bytes of an input that have not been used yet. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *input);    /* returns 0 if no byte remains */
uint64_t fuzz_number(fuzz_input *input); /* uses 1 to 8 bytes; the result may
                                            have any magnitude */

/**
 * Reads up to `most` bytes, until the end of the input or a byte 0xff. Returns
 * them as a string in a static buffer, valid until the next call. `most` must
 * be less than 256.
 */
const char *fuzz_text(fuzz_input *input, size_t most);

/**
 * Returns the whole input as a NUL-terminated string, which the caller frees. A
 * NUL byte in the input ends the string early, as in any argument.
 */
char *fuzz_string(const uint8_t *bytes, size_t n);

#endif
