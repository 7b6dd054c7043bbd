/** Runs of files as the program sums them up; a test fails that cannot load
 *  one. Each to be freed with es_summary_free. */
#ifndef ES_TESTS_LOADED_H
#define ES_TESTS_LOADED_H

#include "cli/runs/summary.h"
#include "tests/support/auto.h"

AUTO_OF(es_run_summary, es_summary_free)

es_run_summary *es_loaded(const char *path, size_t run,
                          const es_summary_options *options);

/** As the program does without options. */
es_run_summary *es_loaded_run(const char *path, size_t run);

/** The first run, by this series. */
es_run_summary *es_loaded_series(const char *path, const char *series);

#endif
