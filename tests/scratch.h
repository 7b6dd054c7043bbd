/** One file in a folder of a test program's own, and nothing beside it. */
#ifndef ES_TESTS_SCRATCH_H
#define ES_TESTS_SCRATCH_H

/** Where the file may be made; "" before es_scratch_open. */
extern char es_scratch_file[];

/** cmocka's setup of a group: makes the folder. */
int es_scratch_open(void **state);

/** Its teardown: removes the file and the folder, and fails if the folder
 *  holds anything else: what was tested left it behind. */
int es_scratch_close(void **state);

#endif
