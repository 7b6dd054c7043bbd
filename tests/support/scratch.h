/**
 * Manages one file in a folder that belongs to the test program. The folder
 * must contain nothing else at the end.
 */
#ifndef ES_TESTS_SCRATCH_H
#define ES_TESTS_SCRATCH_H

#include "analyzer/base/status.h"
#include <stddef.h>

/** Path of the file, which tests may create; "" before es_scratch_open. */
extern char es_scratch_file[];

/** Creates the folder; a cmocka setup function of a group. */
int es_scratch_open(void **state);

/**
 * Removes the file and the folder; a cmocka teardown function of a group. Fails
 * if the tested code left anything else in the folder.
 */
int es_scratch_close(void **state);

/** Writes n bytes to the file es_scratch_file. */
void es_scratch_write(const void *bytes, size_t n);

/**
 * Calls `refused` for a missing file, a FIFO and a folder. `refused` must
 * assert that the tested code fails with the status `code` (ES_EIO) and a
 * message that contains `word`.
 */
void es_scratch_no_file(void (*refused)(es_status code, const char *word));

#endif
