/** Two recorded runs, compared bit by bit. */
#ifndef ES_TESTS_SAME_RUN_H
#define ES_TESTS_SAME_RUN_H

#include "store/reader.h"

/** Each fails the test at the first difference between run i of a and run j
 *  of b. What a run is, but for the time of its end: */
void es_assert_same_info(es_reader *a, size_t i, es_reader *b, size_t j);

/** Every series and every bit of its samples; returns how many there are. */
size_t es_assert_same_samples(es_reader *a, size_t i, es_reader *b, size_t j);

/** All of that, the end and the events. */
void es_assert_same_run(es_reader *a, size_t i, es_reader *b, size_t j);

#endif
