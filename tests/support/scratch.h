/** One file in a folder of a test program's own, and nothing beside it. */
#ifndef ES_TESTS_SCRATCH_H
#define ES_TESTS_SCRATCH_H

#include "analyzer/base/status.h"
#include <stddef.h>

/** Where the file may be made; "" before es_scratch_open. */
extern char es_scratch_file[];

/** cmocka's setup of a group: makes the folder. */
int es_scratch_open(void **state);

/** Its teardown: removes the file and the folder, and fails if the folder
 *  holds anything else: what was tested left it behind. */
int es_scratch_close(void **state);

/** The file is these bytes. */
void es_scratch_write(const void *bytes, size_t n);

/** `refused` has to refuse a file that is not there, a FIFO and a folder, each
 *  with ES_EIO and the word. */
void es_scratch_no_file(void (*refused)(es_status code, const char *word));

#endif
