/** Defines a trainer: a model, its data, and the steps and evaluations that
 *  train.c, probe.c and bench.c run. */
#ifndef ES_TRAINER_H
#define ES_TRAINER_H

#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/files/tokens.h"
#include "hooks/trainer/model/loss_scale.h"
#include "hooks/trainer/model/maps.h"
#include "hooks/trainer/model/measure.h"
#include "hooks/trainer/model/polynomial.h"
#include "hooks/trainer/settings/settings.h"
#include <math.h>

/** Results of one optimiser step; losses are means over its micro-batches. */
typedef struct es_step {
    int64_t step;
    es_losses losses; /* losses before the update */
    double lr;
    double grad_norm; /* gradient norm before clipping */
    bool measured;    /* true if trainer->measure has the values of this step */
    double loss_scale; /* scale of the loss in the backward pass */
    /* true if a gradient was not finite at this scale, so the update was
     * skipped; the next step uses a smaller scale */
    bool skipped;
} es_step;

typedef struct es_trainer {
    es_settings settings; /* all settings, including the vocabulary size */
    es_tokens *tokens;
    es_model *model;
    es_measure *measure;
    es_maps *maps;   /* attention maps; NULL if maps are not recorded */
    bool takes_maps; /* evaluations also add their passes to `maps` */
    /* (n_inputs) tokens or pixels, and their targets */
    int32_t *inputs, *targets;
    size_t n_inputs; /* number of elements of `inputs` and of
                      * `targets` for a micro-batch */
    int32_t *ahead;  /* (accumulate,2,B,T) micro-batches of ahead_step, drawn in
                      * advance; NULL if `accumulate` is too large */
    int n_ahead;     /* number of micro-batches in `ahead` */
    int64_t ahead_step;
    /* set by the caller: the next es_trainer_step may launch the following step
     * early, if the model supports this */
    bool may_run_ahead;
    bool measures_next; /* set by the caller: measure the following step */
    bool is_ahead;      /* true if the step after this one (`next`) has been
                           launched */
    es_step next;
    bool saw_nan;             /* true after the first non-finite loss */
    es_loss_scale loss_scale; /* scale of the loss in the next step */
    /* note about how the back-end was opened, or "" */
    char note[ES_MESSAGE_MAX];
    char uuid[ES_UUID_SIZE]; /* UUID of the run */
    int64_t first_step; /* step of the checkpoint from which the run resumed, or
                           0 */
} es_trainer;

/**
 * Opens the data, checks that model and data fit together, and builds the
 * model. Returns ES_OK; ES_EUSAGE, ES_EIO, ES_EFORMAT, ES_EVERSION or
 * ES_ENOMEM.
 */
es_status es_trainer_new(es_trainer **out,
                         const es_settings *settings) ES_MUST_USE;
/** Same as es_trainer_new, but with a back-end that the caller has already
 *  found. */
es_status es_trainer_new_on(es_trainer **out, const es_settings *settings,
                            const es_ops *ops) ES_MUST_USE;
/**
 * Makes all checks of es_trainer_new and, with `from`, of es_trainer_resume,
 * but builds no model and allocates no memory for one. Also draws the first
 * micro-batches. If the settings name no data, the vocabulary may stay 0, and
 * checks that need data are skipped.
 *
 *   out        a trainer without a model, which the caller frees. Valid members
 *              are settings, tokens (may be NULL), first_step and uuid
 *   from       checkpoint to resume from; NULL: train from the beginning
 *   unchecked  (size) written: one line with the reason why the back-end could
 *              not be opened on this machine, or "" if it was opened. If it was
 *              not opened, the function may not have checked that the back-end
 *              supports all settings
 *
 * Returns the statuses of es_trainer_new and es_trainer_resume.
 */
es_status es_trainer_try(es_trainer **out, const es_settings *settings,
                         const es_checkpoint *from, char *unchecked,
                         size_t size) ES_MUST_USE;

/**
 * Moves a new trainer to the state of the checkpoint. The run keeps its
 * identity unless its name has changed; a changed name starts a new run.
 * Returns ES_OK; ES_EUSAGE if the data differ, or if the checkpoint has more
 * steps than the settings request (with an equal number, no steps remain); or a
 * status of es_checkpoint_load.
 */
es_status es_trainer_resume(es_trainer *trainer,
                            const es_checkpoint *checkpoint) ES_MUST_USE;

void es_trainer_free(es_trainer *trainer); /* `trainer` may be NULL */

/**
 * Trains step `step` (0-based) of the schedule, on micro-batches that depend
 * only on the seed and the step. Waits for the back-end once, at the end. The
 * first step whose loss is not finite, and every earlier step with a non-finite
 * gradient, is examined before its update is applied. If may_run_ahead is set
 * (this call resets it), the call may also launch the following step and set
 * is_ahead. The caller must then train the following step before any other use
 * of the model.
 *
 *   measure  also measure heads and layers, which does not affect training.
 *            The step with the first non-finite loss is always measured.
 *
 * Returns ES_OK; ES_EIO or ES_EFORMAT for an error in the token file; ES_EIO
 * for a failure of the device.
 */
es_status es_trainer_step(es_trainer *trainer, es_step *out, int64_t step,
                          bool measure) ES_MUST_USE;

/**
 * Evaluates the model on `eval_batches` micro-batches of held-out data, the
 * same in every evaluation, and writes the means of the losses.
 * trainer->measure holds the measured values. With --inference polynomial,
 * first chooses the polynomials (es_trainer_calibrate).
 */
es_status es_trainer_evaluate(es_trainer *trainer, es_losses *out) ES_MUST_USE;

/**
 * Sets settings.ceiling of an encoder to the mean of ln(number of visible
 * keys), in nats, over the rows of the held-out micro-batches, or over the same
 * number of training micro-batches if there are no evaluations. Does nothing
 * for other families.
 *
 *   ends  true if padding must be at the end of a sequence
 *
 * Returns ES_OK; ES_EFORMAT if padding is not at the end; or a status of
 * es_batch_*.
 */
es_status es_trainer_find_ceiling(es_trainer *trainer, bool ends) ES_MUST_USE;

/**
 * Runs the forward pass of the micro-batches `first` to first + n - 1 of the
 * held-out data, and adds their measured values to trainer->measure. The
 * micro-batches are those of an evaluation or, with settings.random,
 * micro-batches at random positions that depend on the seed. If takes_maps is
 * set, also adds the passes to trainer->maps.
 */
es_status es_trainer_hold_out(es_trainer *trainer, es_losses *out,
                              int64_t first, int64_t n) ES_MUST_USE;

/** Same as es_trainer_hold_out, but always with exact inference, and without
 *  measuring heads and layers. */
es_status es_trainer_hold_out_exact(es_trainer *trainer, es_losses *out,
                                    int64_t first, int64_t n) ES_MUST_USE;

/**
 * With --inference polynomial, chooses the polynomials for es_trainer_hold_out
 * from poly_batches micro-batches of held-out data that follow the
 * micro-batches of the evaluation. Otherwise does nothing.
 *
 *   complete  written: false if a polynomial could not be chosen; see
 *             es_model_choose_polynomials
 */
es_status es_trainer_calibrate(es_trainer *trainer, bool *complete) ES_MUST_USE;

/** Returns `number`, without the sign if it is NaN, because printf would print
 *  "-nan". */
static inline double es_unsigned_nan(double number)
{
    return isnan(number) ? (double)NAN : number;
}

/** Adds weight * *more to *sum. */
void es_losses_add(es_losses *sum, const es_losses *more, double weight);

/** Returns the number of tokens in one step of all ranks. */
int64_t es_trainer_tokens(const es_trainer *trainer);

/**
 * Returns the last layer with a non-finite gradient, or -1. The backward pass
 * runs from the last layer to the first, and a NaN spreads to all earlier
 * layers. If the forward pass was finite, the NaN therefore began in the
 * returned layer.
 */
int es_trainer_bad_gradient_layer(es_trainer *trainer);

#endif
