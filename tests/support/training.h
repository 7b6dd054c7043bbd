/** Runs very short training runs, for tests of the training loop. */
#ifndef ES_TESTS_TRAINING_H
#define ES_TESTS_TRAINING_H

#include "hooks/trainer/train.h"
#include "store/reader.h"
#include "tests/support/cmocka_all.h"

enum {
    TRAINING_N_TRAIN = 5003,
    TRAINING_N_HELD_OUT = 1201,
    TRAINING_VOCAB = 17,
    TRAINING_MAX_STEPS = 400
};

/** Path of the folder with the training data and the run file of
 *  training_record. */
extern char training_folder[];

/** Set-up and tear-down of a test group: create the folder and set the
 *  recorder's path; remove the folder. */
int training_set_up(void **state);
int training_tear_down(void **state);

/**
 * Writes a token file that a model can learn: sequences with period 5 and
 * occasional random tokens. In the held-out part each token is increased by
 * `shift`.
 */
void training_write_data(unsigned shift);

/** Returns settings of a small run: L=2 H=3 d=12 T=9 B=5, 23 steps, a record
 *  every 4 steps, an evaluation every 10 steps. */
es_settings training_small(void);

/** The values that training has passed to the callbacks of es_train_watch. */
typedef struct training_seen {
    int n_steps, n_evals, stop_after; /* stop_after: number of steps after which
                                       * the run is stopped; 0: do not stop */
    double loss[TRAINING_MAX_STEPS], ce[TRAINING_MAX_STEPS];
    double norm[TRAINING_MAX_STEPS], lr[TRAINING_MAX_STEPS];
    bool measured[TRAINING_MAX_STEPS];
    double eval[TRAINING_MAX_STEPS];
    int64_t eval_step[TRAINING_MAX_STEPS];
    int n_warnings;
} training_seen;

/**
 * Train a small model. training_record records into a new run file,
 * training_run as the settings specify.
 */
es_train_result training_run(training_seen *out, const es_settings *settings);
es_train_result training_record(training_seen *out, es_settings settings);

/** Resumes a training run from a checkpoint; *out already has the values from
 *  before the checkpoint. */
es_train_result training_resume(training_seen *out, const es_settings *settings,
                                const es_checkpoint *from);

/**
 * Give access to the run of training_record: its reader (which stays open until
 * the next call of training_record), the run's description, and one of its
 * series.
 */
es_reader *training_reader(void);
es_run_info training_info(void);
es_series training_find(const char *name, es_phase phase);

/** Reads the steps and the first values of all samples of a series; returns
 *  their number. */
int training_steps(const char *name, es_phase phase, int64_t *steps,
                   float *first_values);
void training_assert_steps(const char *name, es_phase phase,
                           const int64_t *want, int n_want);

/** Reads the values of one sample into out (n). */
void training_sample(float *out, const char *name, es_phase phase, int64_t step,
                     size_t n);

#endif
