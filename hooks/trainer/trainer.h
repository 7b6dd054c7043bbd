/** A trainer: a model, its data, and the steps and evaluations that train.c,
 *  probe.c and bench.c make with them. */
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

/** Results of one optimiser step: means over its micro-batches. */
typedef struct es_step {
    int64_t step;
    es_losses losses; /* computed before the update */
    double lr;
    double grad_norm;  /* norm before clipping */
    bool measured;     /* trainer->measure holds this step */
    double loss_scale; /* scale of the loss when the gradients were computed */
    bool skipped; /* a gradient was not finite with this scale, and the step was
                     not taken: the next one has a smaller scale */
} es_step;

typedef struct es_trainer {
    es_settings settings; /* resolved: vocab is that of the token file */
    es_tokens *tokens;
    es_model *model;
    es_measure *measure;
    es_maps *maps;             /* NULL if maps are not recorded */
    bool takes_maps;           /* collect maps of held-out micro-batches */
    int32_t *inputs, *targets; /* (n_inputs) tokens or pixels; targets */
    size_t n_inputs;           /* size of each for a micro-batch */
    int32_t *ahead; /* (accumulate,2,B,T), of ahead_step; NULL: too large */
    int n_ahead;    /* number of micro-batches drawn */
    int64_t ahead_step;
    bool may_run_ahead; /* set for one es_trainer_step: it may launch the
                           following step, if the model can, */
    bool measures_next; /* and measure it */
    bool is_ahead;      /* the following step, `next`, is launched */
    es_step next;
    bool saw_nan;              /* a loss has not been finite */
    es_loss_scale loss_scale;  /* for the next step, if losses are scaled */
    char note[ES_MESSAGE_MAX]; /* remark about the back-end, or "" */
    char uuid[ES_UUID_SIZE];   /* UUID of the run */
    int64_t first_step;        /* 0, or the checkpoint's step */
} es_trainer;

/**
 * Opens the data, checks that model and data fit together, and builds the
 * model. Returns ES_OK; ES_EUSAGE, ES_EIO, ES_EFORMAT, ES_EVERSION or
 * ES_ENOMEM.
 */
es_status es_trainer_new(es_trainer **out,
                         const es_settings *settings) ES_MUST_USE;
/** Like es_trainer_new, with a back-end that the caller has found. */
es_status es_trainer_new_on(es_trainer **out, const es_settings *settings,
                            const es_ops *ops) ES_MUST_USE;
/**
 * Makes all checks of es_trainer_new and, with `from`, of es_trainer_resume,
 * but builds no model and takes no memory for it; also draws the first
 * micro-batches. If the settings name no data, the vocabulary may stay 0, and
 * checks that need data are skipped.
 *
 *   out        a trainer without a model, to be freed: settings, tokens or
 *              NULL, first_step and uuid
 *   from       NULL: a training from its beginning
 *   unchecked  (size) written: the reason why the back-end could not be opened
 *              here, one line; "" if it could. With a reason, the back-end's
 *              abilities may be unknown
 *
 * Returns as es_trainer_new and es_trainer_resume.
 */
es_status es_trainer_try(es_trainer **out, const es_settings *settings,
                         const es_checkpoint *from, char *unchecked,
                         size_t size) ES_MUST_USE;

/**
 * Moves a new trainer to the state of the checkpoint. The run keeps its
 * identity unless its name has changed: then a new run branches off. Returns
 * ES_OK; ES_EUSAGE if the data differ, or if more steps have been trained than
 * the settings ask for (an equal number leaves nothing to do); or a status of
 * es_checkpoint_load.
 */
es_status es_trainer_resume(es_trainer *trainer,
                            const es_checkpoint *checkpoint) ES_MUST_USE;

void es_trainer_free(es_trainer *trainer); /* NULL is accepted */

/**
 * Trains step `step` (0-based) of the schedule, on batches drawn from (seed,
 * step). Waits for the back-end once, at the end. If its loss or gradient is
 * not finite, the step is examined before the update is taken; after the first
 * such loss this is no longer done. With may_run_ahead, which this call resets,
 * the following step may be launched as well (is_ahead): it must then be the
 * next step called, before anything else uses the model.
 *
 *   measure  also measure heads and layers. Does not change any number of the
 *            training. The first loss that is not finite is always measured.
 *
 * Returns ES_OK; ES_EIO, ES_EFORMAT of the token file; ES_EIO of the device.
 */
es_status es_trainer_step(es_trainer *trainer, es_step *out, int64_t step,
                          bool measure) ES_MUST_USE;

/**
 * Evaluates on `eval_batches` micro-batches of held-out data, always the same
 * ones, and writes the means of the losses; trainer->measure holds the measured
 * values. With --inference polynomial, calibrates first.
 */
es_status es_trainer_evaluate(es_trainer *trainer, es_losses *out) ES_MUST_USE;

/**
 * Sets settings.ceiling of an encoder: the mean of ln(visible keys) over the
 * rows of the held-out micro-batches, nats, or over as many training
 * micro-batches if there are no evaluations. Does nothing for other families.
 *
 *   ends  padding must be at the end of a sequence
 *
 * Returns ES_OK; ES_EFORMAT if padding is elsewhere; or a status of es_batch_*.
 */
es_status es_trainer_find_ceiling(es_trainer *trainer, bool ends) ES_MUST_USE;

/**
 * Runs micro-batches first .. first + n - 1 of the held-out data forward and
 * adds them to trainer->measure: those of an evaluation or, with
 * settings.random, at places drawn from the seed. With takes_maps also adds to
 * trainer->maps.
 */
es_status es_trainer_hold_out(es_trainer *trainer, es_losses *out,
                              int64_t first, int64_t n) ES_MUST_USE;

/** Like es_trainer_hold_out, but always exact, and without measuring. */
es_status es_trainer_hold_out_exact(es_trainer *trainer, es_losses *out,
                                    int64_t first, int64_t n) ES_MUST_USE;

/**
 * With --inference polynomial, chooses the polynomials for es_trainer_hold_out
 * from poly_batches micro-batches of held-out data that follow the
 * evaluation's. Otherwise does nothing.
 *
 *   complete  false: see es_model_choose_polynomials
 */
es_status es_trainer_calibrate(es_trainer *trainer, bool *complete) ES_MUST_USE;

/** Returns `number`, but a NaN without a sign: printf would print "-nan". */
static inline double es_unsigned_nan(double number)
{
    return isnan(number) ? (double)NAN : number;
}

/** Adds weight * *more to *sum. */
void es_losses_add(es_losses *sum, const es_losses *more, double weight);

/** Returns the number of tokens of one step, over all ranks. */
int64_t es_trainer_tokens(const es_trainer *trainer);

/**
 * Returns the last layer with a gradient that is not finite, or -1. Gradients
 * run from the last layer to the first and carry a NaN along, so the NaN began
 * in this layer if the forward pass was finite.
 */
int es_trainer_bad_gradient_layer(es_trainer *trainer);

#endif
