/** The training loop. */
#ifndef ES_TRAIN_H
#define ES_TRAIN_H

#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/settings/settings.h"
#include "hooks/trainer/trainer.h"
#include "store/run.h"

/** Who wants to know. Any function may be NULL. Called in the loop's thread. */
typedef struct es_train_watch {
    /** After each step. `measure` is NULL where the step was not measured;
     *  tokens_per_s is 0 before it is known. */
    void (*on_step)(void *user, const es_step *step, es_measure *measure,
                    double tokens_per_s);
    void (*on_eval)(void *user, int64_t step, const es_losses *losses);
    /** Something went wrong that does not stop the training. One line. */
    void (*on_warning)(void *user, const char *message);
    /** Called before each step; true ends the run as stopped. */
    bool (*should_stop)(void *user);
    void *user;
} es_train_watch;

typedef struct es_train_result {
    es_run_status status; /* finished, failed or stopped */
    int64_t n_steps;      /* steps done, those before a resume included */
    es_losses last;       /* of the last step */
    es_losses eval;       /* of the last evaluation; NaN if there was none */
    double tokens_per_s;  /* of the training steps alone */
    int64_t nan_step;     /* first loss that was not finite; -1: none */
    int nan_layer;        /* first layer whose output was not finite then;
                             -1: none, the logits overflowed */
    int64_t bad_gradient_step; /* the same of the gradient norm, at or before
                                  nan_step; -1 */
    int bad_gradient_layer;    /* last layer with such a gradient; -1 */
    es_status recorded;        /* ES_OK: the file holds all of the run */
    char lost[ES_MESSAGE_MAX]; /* what es_train_record_close said otherwise */
    int64_t saved_step;        /* of the last checkpoint; -1: none */
    es_status saved;           /* ES_OK: no checkpoint is missing */
    char unsaved[ES_MESSAGE_MAX]; /* why the first one is, otherwise */
} es_train_result;

/**
 * Trains as `settings` say, recording to settings->out unless it is "".
 *
 * Evaluates before step 0, eval_every, ... and after the last one. Records
 * step 0, record_every, ..., the last one, and the first step whose loss is
 * not finite; training goes on for after_nan steps then, and the run ends as
 * failed.
 *
 * Writes checkpoints into settings->checkpoint unless it is "": after every
 * checkpoint_every steps and at any end, but none after a loss or a gradient
 * that was not finite. One that cannot be written is a warning; the training
 * goes on.
 *
 *   from       the checkpoint to go on with, whose settings `settings` are but
 *              for what may change (start.h); NULL: from the beginning
 *   transport  the ranks that train along, of which each makes this call; NULL:
 *              there are none. The first one evaluates, records and writes
 *              checkpoints, and has the evaluations' results
 *
 * ES_OK: training took place, see the result. Otherwise it could not start,
 * or the token file or the device failed on the way; the run is closed as
 * failed then, and a device that failed leaves no checkpoint. A failure of one
 * rank is one of all.
 */
es_status es_train(es_train_result *result, const es_settings *settings,
                   const es_checkpoint *from, struct es_transport *transport,
                   const es_train_watch *watch) ES_MUST_USE;

/**
 * Where and how the loss stopped being finite, as one line; "" if it did not.
 * Returns out.
 */
char *es_train_describe_nan(char *out, size_t size,
                            const es_train_result *result);

#endif
