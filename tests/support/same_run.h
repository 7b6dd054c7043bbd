/** Compares two recorded runs bit by bit. */
#ifndef ES_TESTS_SAME_RUN_H
#define ES_TESTS_SAME_RUN_H

#include "store/reader.h"

/**
 * Each function fails the test at the first difference between run i of a and
 * run j of b. es_assert_same_info compares the facts of a run except the time
 * of its end.
 */
void es_assert_same_info(es_reader *a, size_t i, es_reader *b, size_t j);

/** Compares every series and every bit of its samples; returns the number of
 *  samples. */
size_t es_assert_same_samples(es_reader *a, size_t i, es_reader *b, size_t j);

/** Compares all of that, the end and the events. */
void es_assert_same_run(es_reader *a, size_t i, es_reader *b, size_t j);

#endif
