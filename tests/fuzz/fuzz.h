/**
 * What the fuzz targets share. Each is one LLVMFuzzerTestOneInput: it takes
 * any bytes, and aborts only where the code under test breaks its contract.
 * `make soak` runs them.
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

/** Aborts, with the condition and es_message, unless it holds. */
#define fuzz_require(condition)                                                \
    ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))

_Noreturn void fuzz_broken(const char *condition, const char *file, int line);

/** A failure has a code of ours and a message of one line. Returns true if
 *  `status` is ES_OK. */
int fuzz_succeeded(es_status status);

/** Writes the bytes to the process's one scratch file, made at first use in
 *  $TMPDIR and removed at the end. Returns its path, always the same. */
const char *fuzz_file(const void *bytes, size_t n);

/** Bytes of an input that are still to be used. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *input);    /* 0 when there is none left */
uint64_t fuzz_number(fuzz_input *input); /* of 1 to 8 bytes, any size */

/** Up to `most` bytes, to the end or to a 0xff, as a string in a buffer of
 *  this function, valid until it is called again. most < 256. */
const char *fuzz_text(fuzz_input *input, size_t most);

/** All of an input as a string, NUL at its end; free it. Bytes of 0 inside end
 *  it early, as they would for whoever passes an argument. */
char *fuzz_string(const uint8_t *bytes, size_t n);

#endif
