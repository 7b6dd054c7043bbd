/** A model, its data and one step of training. */
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

/** What one step of the optimiser was. Means over its micro-batches. */
typedef struct es_step {
    int64_t step;
    es_losses losses; /* before the update */
    double lr;
    double grad_norm;  /* before clipping */
    bool measured;     /* trainer->measure holds this step */
    double loss_scale; /* that the gradients were taken with */
    bool skipped;      /* they were not finite under it, and the step was not
                          taken: the next one has a smaller scale */
} es_step;

typedef struct es_trainer {
    es_settings settings; /* resolved: vocab is the token file's */
    es_tokens *tokens;
    es_model *model;
    es_measure *measure;
    es_maps *maps;             /* NULL: they are not recorded */
    bool takes_maps;           /* of held-out micro-batches, from now on */
    int32_t *inputs, *targets; /* (n_inputs): tokens or pixels, targets */
    size_t n_inputs;           /* of a micro-batch, for each of the two */
    int32_t *ahead;            /* (accumulate,2,B,T) of step ahead_step; NULL:
                                  there are too many */
    int n_ahead;               /* that have been drawn */
    int64_t ahead_step;
    bool may_run_ahead; /* of the next es_trainer_step: it may launch the
                           step that follows, if the model can, ... */
    bool measures_next; /* ... and measure it */
    bool is_ahead;      /* it has, and this is that step */
    es_step next;
    bool saw_nan;              /* a loss was not finite */
    es_loss_scale loss_scale;  /* of the next step, if the back-end scales */
    char note[ES_MESSAGE_MAX]; /* what there is to say of the back-end, or "" */
    char uuid[ES_UUID_SIZE];   /* of the run */
    int64_t first_step;        /* 0, or that of the checkpoint */
} es_trainer;

/**
 * Opens the data, checks that model and data go together, builds the model.
 * ES_OK; ES_EUSAGE, ES_EIO, ES_EFORMAT, ES_EVERSION, ES_ENOMEM.
 */
es_status es_trainer_new(es_trainer **out,
                         const es_settings *settings) ES_MUST_USE;
/** The same on a back-end that has been found already. */
es_status es_trainer_new_on(es_trainer **out, const es_settings *settings,
                            const es_ops *ops) ES_MUST_USE;
/**
 * All that es_trainer_new and, with `from`, es_trainer_resume check, without
 * the model and its memory; and the first micro-batches. The settings may name
 * no data: then the vocabulary may stay 0, and what depends on data is left
 * out.
 *
 *   out        a trainer without a model, to be freed: settings, tokens or
 *              NULL, first_step and uuid
 *   from       NULL: a training from its beginning
 *   unchecked  (size) written: why the back-end could not be opened here,
 *              one line; "" if it could. Then what it lacks may be unknown
 *
 * Returns as es_trainer_new and es_trainer_resume.
 */
es_status es_trainer_try(es_trainer **out, const es_settings *settings,
                         const es_checkpoint *from, char *unchecked,
                         size_t size) ES_MUST_USE;

/**
 * Puts a new trainer where the checkpoint's had come to. The run stays the
 * same one, unless its name has changed: then it branches off. ES_OK;
 * ES_EUSAGE: the data are others, or more steps are done than there are to be
 * (as many leave nothing to do); what es_checkpoint_load returns.
 */
es_status es_trainer_resume(es_trainer *trainer,
                            const es_checkpoint *checkpoint) ES_MUST_USE;

void es_trainer_free(es_trainer *trainer); /* NULL is fine */

/**
 * Step `step` (0-based) of the schedule, on batches drawn from (seed, step).
 * The back-end is waited for once, at the end; a step whose loss or gradient
 * is not finite is looked at before it is taken, until such a loss has been.
 * With may_run_ahead, which is false again afterwards, the next step may have
 * been launched then (is_ahead): it has to be the next one that is called for,
 * before anything else that looks at the model.
 *
 *   measure  also measure heads and layers. Does not change any number of the
 *            training. The first loss that is not finite is always measured.
 *
 * ES_OK; ES_EIO, ES_EFORMAT of the token file; ES_EIO of the device.
 */
es_status es_trainer_step(es_trainer *trainer, es_step *out, int64_t step,
                          bool measure) ES_MUST_USE;

/**
 * Means over `eval_batches` micro-batches of held-out data, always the same
 * ones; trainer->measure holds them. With --inference polynomial calibrated
 * anew.
 */
es_status es_trainer_evaluate(es_trainer *trainer, es_losses *out) ES_MUST_USE;

/**
 * Of an encoder, settings.ceiling: the mean of ln(visible keys) over the rows
 * of the held-out micro-batches, nats; without evaluations of as many of the
 * training. Of others nothing.
 *
 *   ends  padding has to be the end of a sequence
 *
 * ES_OK; ES_EFORMAT: it is not; or as a batch.
 */
es_status es_trainer_find_ceiling(es_trainer *trainer, bool ends) ES_MUST_USE;

/**
 * Micro-batches first .. first + n - 1 of the held-out data forward, added to
 * trainer->measure: those of an evaluation, or with settings.random at places
 * drawn from the seed. With takes_maps also added to trainer->maps.
 */
es_status es_trainer_hold_out(es_trainer *trainer, es_losses *out,
                              int64_t first, int64_t n) ES_MUST_USE;

/** The same, never by polynomials, and with nothing measured. */
es_status es_trainer_hold_out_exact(es_trainer *trainer, es_losses *out,
                                    int64_t first, int64_t n) ES_MUST_USE;

/**
 * With --inference polynomial: chooses the polynomials by which
 * es_trainer_hold_out goes, from poly_batches micro-batches of held-out data,
 * those after the evaluation's. Otherwise it does nothing.
 *
 *   complete  false: es_model_choose_polynomials
 */
es_status es_trainer_calibrate(es_trainer *trainer, bool *complete) ES_MUST_USE;

/** The same number, but a NaN without a sign: printf knows "-nan" too. */
static inline double es_unsigned_nan(double number)
{
    return isnan(number) ? (double)NAN : number;
}

/** *sum += weight * *more. */
void es_losses_add(es_losses *sum, const es_losses *more, double weight);

/** Tokens of one step, of all ranks. */
int64_t es_trainer_tokens(const es_trainer *trainer);

/**
 * The last layer with a gradient that is not finite, -1 if there is none.
 * Gradients run from the last layer to the first and carry a NaN along, so
 * this is where it began, if the forward pass was finite.
 */
int es_trainer_bad_gradient_layer(es_trainer *trainer);

#endif
