/** Declares the training loop of entropy-train, its callbacks and its
 *  result. */
#ifndef ES_TRAIN_H
#define ES_TRAIN_H

#include "hooks/entropyscan.h"
#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/settings/settings.h"
#include "hooks/trainer/trainer.h"

/** Functions that the training loop calls, in its own thread. Each may be
 *  NULL. */
typedef struct es_train_watch {
    /** Called after each step. `measure` is NULL if the step was not measured;
     *  tokens_per_s is 0 until the speed is known. */
    void (*on_step)(void *user, const es_step *step, es_measure *measure,
                    double tokens_per_s);
    void (*on_eval)(void *user, int64_t step, const es_losses *losses);
    /** Called with a one-line message about a failure that does not stop
     *  training. */
    void (*on_warning)(void *user, const char *message);
    /** Called before each step. If the callback returns true, training ends and
     *  the run's status becomes "stopped". */
    bool (*should_stop)(void *user);
    void *user;
} es_train_watch;

typedef struct es_train_result {
    es_run_status status; /* how the run ended: finished, failed or stopped */
    int64_t n_steps;      /* number of completed steps, including steps before a
                             resume */
    es_losses last;       /* losses of the last step */
    es_losses eval;       /* losses of the last evaluation; NaN without one */
    double tokens_per_s;  /* speed without the time of evaluations */
    int64_t nan_step;     /* first step with a non-finite loss, or -1 */
    /* first layer with a non-finite output at nan_step; -1 if only the logits
     * overflowed */
    int nan_layer;
    int64_t bad_gradient_step; /* first step, up to nan_step, with a non-finite
                                * gradient norm; -1 if there is none */
    int bad_gradient_layer;    /* last layer with a non-finite gradient; -1 if
                                * there is none */
    es_status recorded;        /* ES_OK if the run file is complete */
    char lost[ES_MESSAGE_MAX]; /* message if `recorded` is an error */
    int64_t saved_step;        /* step of the last checkpoint, or -1 */
    es_status saved;           /* ES_OK if all checkpoints were written */
    char unsaved[ES_MESSAGE_MAX]; /* message if `saved` is an error */
} es_train_result;

/**
 * Trains a model according to `settings`, and records the run in the file
 * settings->out, or does not record if settings->out is "".
 *
 * Evaluates before step 0, eval_every, ... and after the last step. Records
 * step 0, record_every, ..., the last step, and the first step whose loss is
 * not finite; training then continues for after_nan steps, and the run's status
 * becomes "failed".
 *
 * Writes checkpoints to the folder settings->checkpoint, unless
 * settings->checkpoint is "", after every checkpoint_every steps and whenever
 * the training ends, but not after a loss or a gradient that was not finite. If
 * a checkpoint cannot be written, a warning is given and the training
 * continues.
 *
 *   from       the checkpoint to resume from, whose settings may differ from
 *              `settings` only as start.h permits; NULL: train from the
 *              beginning
 *   transport  connects the ranks that train together, each of which makes this
 *              call; NULL for a single process. Only the first rank evaluates,
 *              records and writes checkpoints
 *
 * Returns ES_OK if the training took place (see the result). Returns another
 * status if the training could not start, or if the token file or the device
 * failed; the run's status is then "failed", and after a failure of the device
 * no checkpoint is written. A failure on one rank is returned on all ranks.
 */
es_status es_train(es_train_result *result, const es_settings *settings,
                   const es_checkpoint *from, struct es_transport *transport,
                   const es_train_watch *watch) ES_MUST_USE;

/**
 * Describes in one line where and how the loss stopped being finite; "" if it
 * stayed finite. Returns out.
 */
char *es_train_describe_nan(char *out, size_t size,
                            const es_train_result *result);

#endif
