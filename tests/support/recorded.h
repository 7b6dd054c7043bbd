/** Writes runs value by value, and loads them as summaries, for tests. */
#ifndef ES_TESTS_RECORDED_H
#define ES_TESTS_RECORDED_H

#include "cli/runs/summary.h"
#include "tests/support/run_files.h"

typedef struct es_recorded {
    es_writer *writer;
    int64_t run;
    size_t n_layers, n_heads;
} es_recorded;

/** Opens the file and adds a run. */
es_recorded es_record(const char *path, const es_run_info *info);

/** Adds another run to the same file. */
void es_record_run(es_recorded *to, const es_run_info *info);

/**
 * Writes one sample; the series is created at its first use. The number of
 * values n determines the shape of the series: head for L*H values, layer for
 * L, run for 1. If several shapes fit because L or H is 1, head is preferred to
 * layer, and layer to run.
 */
void es_record_sample(es_recorded *to, const char *name, es_phase phase,
                      int64_t step, const float *values, size_t n);

/** Writes a sample of a head series whose values are all `value`. */
void es_record_all(es_recorded *to, const char *name, int64_t step,
                   float value);

/** Writes a value of a run series in the train phase. */
void es_record_value(es_recorded *to, const char *name, int64_t step,
                     float value);

/** Ends the run with a status. */
void es_record_end(es_recorded *to, es_run_status status);

void es_record_close(es_recorded *to);

AUTO_OF(es_run_summary, es_summary_free)

es_run_summary *es_loaded(const char *path, size_t run,
                          const es_summary_options *options);

/** Loads a run with the options that entropy-scan uses by default. */
es_run_summary *es_loaded_run(const char *path, size_t run);

/** Loads the first run of the file, including the series `series`. */
es_run_summary *es_loaded_series(const char *path, const char *series);

#endif
