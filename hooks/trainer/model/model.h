/**
 * Builds a model on one back-end, runs forward and backward passes and updates,
 * and measures statistics for the recorder.
 */
#ifndef ES_MODEL_H
#define ES_MODEL_H

#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"

typedef struct es_model es_model;

/** Checks a configuration without building the model. Returns ES_OK, or
 *  ES_EUSAGE if es_model_config_check refuses the configuration or the back-end
 *  does not support it. */
es_status es_model_check(const es_model_config *config,
                         const es_ops *ops) ES_MUST_USE;

/** Checks a micro-batch; targets may be NULL. Returns ES_OK, or ES_EFORMAT if a
 *  token or pixel is outside the vocabulary, or if a target is not an output of
 *  the model. The sizes are those of the arguments of es_model_pass. */
es_status es_model_config_check_tokens(const es_model_config *config,
                                       const int32_t *tokens,
                                       const int32_t *targets) ES_MUST_USE;

/**
 * Builds the model and draws its parameters from the seed.
 *
 *   ops        the back-end, from es_ops_find
 *   n_threads  0: the number of available processors
 *
 * The initial values of a parameter depend only on the seed and its name, so
 * models of different architectures begin with the same values in the
 * parameters that they share. With the same seed and number of threads, all
 * later results are bit-identical.
 *
 * Returns ES_OK, ES_EUSAGE (see es_model_check), ES_ENOMEM, or ES_EIO if there
 * is no device.
 */
es_status es_model_new(es_model **out, const es_model_config *config,
                       const es_ops *ops, int n_threads) ES_MUST_USE;
void es_model_free(es_model *model); /* NULL is allowed */

const es_model_config *es_model_config_of(const es_model *model);

/** Returns the number of trainable scalars. */
size_t es_model_n_parameters(const es_model *model);

/**
 * A parameter array. Arrays are numbered 0 .. es_model_n_arrays - 1, in the
 * order and with the names that README.md in this folder lists.
 */
typedef struct es_parameter {
    const char *name;
    int layer; /* -1 for arrays outside the layers */
    int n_dims;
    int dims[4];
    size_t n;
    bool decays;    /* true if weight decay applies to the array */
    bool trainable; /* false for an array of SNorm's state, which no update
                       changes and which is not part of the gradient norm */
} es_parameter;

size_t es_model_n_arrays(const es_model *model);
es_parameter es_model_parameter(const es_model *model, size_t index);

/** Copy the values or the gradient of an array to or from the host; n is the
 *  array's number of floats. */
es_status es_model_get(es_model *model, size_t index, float *values, size_t n);
es_status es_model_set(es_model *model, size_t index, const float *values,
                       size_t n);
es_status es_model_get_gradient(es_model *model, size_t index, float *values,
                                size_t n);

/** The optimiser's state, for checkpoints: AdamW's first and second moments (0
 *  for arrays that are not trained) and the number of updates. */
typedef enum es_moment { ES_MOMENT_FIRST, ES_MOMENT_SECOND } es_moment;
es_status es_model_get_moment(es_model *model, es_moment moment, size_t index,
                              float *values, size_t n);
es_status es_model_set_moment(es_model *model, es_moment moment, size_t index,
                              const float *values, size_t n);
int64_t es_model_n_updates(const es_model *model);
void es_model_set_n_updates(es_model *model, int64_t n);

/** Returns the number of threads; results are bit-identical only with the same
 *  number. */
int es_model_n_threads(const es_model *model);

/** Returns the name of the back-end's device, borrowed from the model; NULL if
 *  the back-end computes on the host. */
const char *es_model_device_name(const es_model *model);

/**
 * Initialises the parameters of WNorm and SNorm from the current weights: g
 * becomes the column norms, and u and v the result of 20 power iterations.
 * es_model_new does this for new models; call this function after storing
 * weights for which g, u and v are unknown. Returns ES_OK or ES_ENOMEM.
 */
es_status es_model_start_norms(es_model *model) ES_MUST_USE;

/** Losses, averaged over one or more forward passes. */
typedef struct es_losses {
    /* Total loss, cross-entropy, and entropy regularisation before it is
     * multiplied by the setting lambda: loss = ce + lambda * ereg + range. NaN
     * if a pass had no targets. */
    double loss, ce, ereg;
    double range;    /* weighted sum of the range losses (ranges.h) */
    double accuracy; /* fraction of targets whose logit is the largest; counted
                        for the classes of images and, in a probe, for tokens;
                        NaN without targets, 0 if not counted */
} es_losses;

/* --- asynchronous passes -------------------------------------------------
 *
 * es_model_begin, then passes forward and, to train, backward and an update,
 * then es_model_end, which waits for the back-end and returns the results. */

/**
 * Begins a sequence of passes.
 *
 *   measure  true: the passes also measure rows, heads and layers, and the
 *            current values of the parameters that parameter_series.h lists are
 *            stored
 *   train    settings for es_model_take_step; NULL: no step will be taken
 */
void es_model_begin(es_model *model, bool measure, const es_train_config *train,
                    double lr);

/**
 * Runs a forward pass over one micro-batch.
 *
 *   tokens, targets  (B,T) int32 in [0,V); targets may be NULL, in which case
 *                    there is no loss. With images, tokens are pixels,
 *                    es_model_config_n_inputs per image, and each image has one
 *                    target
 *   training         false in an evaluation. SNorm's u and v change in the
 *                    first training pass after es_model_new or an update
 *
 * Returns ES_OK, or ES_EFORMAT if a token is outside the vocabulary. A NaN is a
 * result, not an error.
 */
es_status es_model_pass(es_model *model, const int32_t *tokens,
                        const int32_t *targets, bool training) ES_MUST_USE;

/**
 * Adds scale * dLoss/dparameters of the last forward pass to the gradients.
 * Returns ES_OK, or ES_EARGUMENT if no pass with targets has run since the last
 * backward pass, or the model is forward_only. es_model_take_step refuses a
 * forward_only model, too.
 */
es_status es_model_backward(es_model *model, double scale) ES_MUST_USE;

/**
 * Clips the gradient by its global norm and takes the AdamW step whose settings
 * es_model_begin received.
 *
 *   may_skip  true: leave the parameters unchanged if the norm or a loss is not
 *             finite. false: take the step even then, without clipping; NaN may
 *             then spread to the parameters
 */
es_status es_model_take_step(es_model *model, const es_train_config *train,
                             bool may_skip) ES_MUST_USE;

typedef struct es_outcome {
    es_losses losses;
    double grad_norm; /* norm of the gradient before clipping; 0 without
                         es_model_take_step */
    /* no step was taken because the norm or a loss was not finite */
    bool skipped;
} es_outcome;

/** Returns a line about how the back-end was opened, or "". */
const char *es_model_note(const es_model *model);

/** Returns ES_OK, or ES_EIO if the device has failed and the model can no
 *  longer be used. */
es_status es_model_status(es_model *model) ES_MUST_USE;

/** Waits for the passes and writes their results to *out. Returns the statuses
 *  of es_model_status. */
es_status es_model_end(es_model *model, es_outcome *out) ES_MUST_USE;

/** scales_loss returns true if the back-end multiplies the loss by a factor
 *  (loss_scale.h). set_loss_scale sets the factor from the next es_model_begin
 *  on; it has no effect on other back-ends. Reported gradients do not include
 *  the factor. */
bool es_model_scales_loss(const es_model *model);
void es_model_set_loss_scale(es_model *model, double scale);

/* --- several ranks ------------------------------------------------------- */

struct es_transport;

/**
 * Makes this rank take the following steps together with all other ranks. Each
 * rank has separate micro-batches; gradients, losses and measurements are added
 * up in the order of the ranks, and all ranks make the same update.
 *
 *   transport    borrowed; NULL if there is no other rank
 *   fixed_order  add the gradients of one micro-batch after another, in the
 *                order of all ranks' micro-batches, so that the bits do not
 *                depend on the number of ranks; also has this effect with a
 *                single rank
 *   note         (size) output: one line with the reason why the sums are
 *                computed on the host although the back-end has operations for
 *                ranks, else ""
 *
 * Call once, before the first step. Returns ES_OK, ES_ENOMEM, ES_EIO if the
 * back-end cannot reach other ranks, or the errors of es_transport_gather.
 */
es_status es_model_set_ranks(es_model *model, struct es_transport *transport,
                             bool fixed_order, char *note,
                             size_t size) ES_MUST_USE;

/** Makes the following passes common to all ranks, so that es_model_end joins
 *  the results of all ranks; call it after es_model_begin. Without this call
 *  the passes belong to this rank only. The steps of es_model_run_step are
 *  always common. */
void es_model_share(es_model *model);

/* --- a step of training ------------------------------------------------- */

/** Parameters of es_model_run_step. */
typedef struct es_step_plan {
    int n_batches; /* number of micro-batches; the loss is the mean over them */
    /* Writes micro-batch i as tokens and targets (B,T) int32; called for i = 0
     * .. n_batches - 1 in this order. Returns ES_OK or any error. */
    es_status (*draw)(void *user, int32_t *tokens, int32_t *targets, int i);
    /* Function that the host runs before it waits for the back-end; may be
     * NULL. */
    void (*meanwhile)(void *user);
    void *user;
    double lr;
    uint64_t pass; /* number of micro-batches of all ranks before this step; it
                      determines which activations dropout drops */
    /* arguments of es_model_begin and es_model_take_step */
    bool measure, may_skip;
} es_step_plan;

/** Maximum number of micro-batches in a step that runs as one sequence of
 *  operations. A step with more micro-batches runs separate passes, because
 *  captured operations use memory of the device, and the gaps between so many
 *  passes are negligible. */
enum { ES_MAX_UNROLLED = 8 };

/**
 * Runs a whole training step: zeroes the gradients, runs forward and backward
 * passes over all micro-batches, and updates the parameters. The results are
 * bit-identical to those of separate calls between es_model_begin and
 * es_model_end. If all steps have the same number of micro-batches, at most
 * ES_MAX_UNROLLED, then all micro-batches of a step are drawn first and the
 * rest of the step is one sequence of operations.
 *
 * Returns ES_OK, ES_EARGUMENT if the model is forward_only, ES_EFORMAT if a
 * token is outside the vocabulary, ES_ENOMEM (only in the first step), the
 * errors of `draw` and es_model_status, or, with several ranks, the errors of
 * es_transport_add.
 */
es_status es_model_run_step(es_model *model, es_outcome *out,
                            const es_step_plan *plan,
                            const es_train_config *train) ES_MUST_USE;

/**
 * Do the work of es_model_run_step in two parts, without calling
 * plan->meanwhile. launch_step does not wait; finish_step waits for the oldest
 * launched step, whose results the model then reports. If es_model_runs_ahead
 * returns true, a second step may be launched before the first is finished. The
 * second step is launched as if the first step were not skipped; if the first
 * step is skipped, the second step changes no parameter and is skipped, too.
 *
 * Return the statuses of es_model_run_step, and ES_EARGUMENT if too many steps
 * are in progress.
 */
es_status es_model_launch_step(es_model *model, const es_step_plan *plan,
                               const es_train_config *train) ES_MUST_USE;
es_status es_model_finish_step(es_model *model, es_outcome *out) ES_MUST_USE;
bool es_model_runs_ahead(es_model *model, const es_step_plan *plan,
                         const es_train_config *train);

/* --- synchronous passes -------------------------------------------------- */

/** Runs es_model_begin, es_model_pass and es_model_end, and returns their
 *  errors. */
es_status es_model_forward(es_model *model, es_losses *out,
                           const int32_t *tokens, const int32_t *targets,
                           bool training, bool measure) ES_MUST_USE;

void es_model_zero_gradients(es_model *model);

/** Takes one step, which is never skipped, with learning rate lr. *grad_norm
 *  becomes the norm before clipping. Returns the errors of es_model_take_step
 *  and es_model_end. */
es_status es_model_update(es_model *model, const es_train_config *train,
                          double lr, double *grad_norm) ES_MUST_USE;

/** Computes the logits (B,T,V) of the last forward pass with the current
 *  weights. Returns borrowed host memory, valid until the next call, or NULL
 *  when out of memory. */
const float *es_model_logits(es_model *model);

/** Returns a statistic of the rows of the last measured forward pass,
 *  (L,B,H,T), borrowed until the next call. Layer l starts at index l*B*H*T.
 *  Returns NULL when out of memory, or if the model's attention does not have
 *  the statistic. */
const float *es_model_rows(es_model *model, es_row_statistic statistic);

/** Writes a series of the measured passes between the last es_model_begin and
 *  es_model_end to out (L,H). The values are undefined if the model's attention
 *  does not have the series. */
void es_model_heads(double *out, const es_model *model, es_head_series series);

/** Writes two statistics of each layer's output in the measured passes: the
 *  number of NaN and infinite activations (L), and the root mean square (L). */
void es_model_activation_stats(const es_model *model, float *nan_activations,
                               float *act_rms);

#endif
