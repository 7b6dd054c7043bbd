/**
 * One file in a folder that belongs to the test program, which must contain
 * nothing else.
 */
#ifndef ES_TESTS_SCRATCH_H
#define ES_TESTS_SCRATCH_H

#include "analyzer/base/status.h"
#include <stddef.h>

/** The path at which the file may be made; "" before es_scratch_open. */
extern char es_scratch_file[];

/** Makes the folder: cmocka's setup of a group. */
int es_scratch_open(void **state);

/**
 * Removes the file and the folder: cmocka's teardown of a group. Fails if the
 * folder contains anything else, because the tested code left it there.
 */
int es_scratch_close(void **state);

/** Writes these bytes to the file. */
void es_scratch_write(const void *bytes, size_t n);

/**
 * Calls `refused`, which must expect ES_EIO and a message with the word, for a
 * missing file, a FIFO and a folder.
 */
void es_scratch_no_file(void (*refused)(es_status code, const char *word));

#endif
