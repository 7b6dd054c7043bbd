/** Compares two recorded runs bit for bit, for tests. */
#ifndef ES_TESTS_SAME_RUN_H
#define ES_TESTS_SAME_RUN_H

#include "store/reader.h"

/**
 * Each function fails the test at the first difference between run i of a and
 * run j of b. es_assert_same_info compares the descriptions of the runs except
 * the time of their end.
 */
void es_assert_same_info(es_reader *a, size_t i, es_reader *b, size_t j);

/** Compares every series and every bit of their samples; returns the number of
 *  samples. */
size_t es_assert_same_samples(es_reader *a, size_t i, es_reader *b, size_t j);

/** Compares the descriptions, the time of the end, the series, the samples and
 *  the events. */
void es_assert_same_run(es_reader *a, size_t i, es_reader *b, size_t j);

#endif
