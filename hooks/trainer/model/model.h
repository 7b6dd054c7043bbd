/**
 * A model on one back-end: forward and backward passes, updates, and statistics
 * for the recorder.
 */
#ifndef ES_MODEL_H
#define ES_MODEL_H

#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"

typedef struct es_model es_model;

/** ES_OK; ES_EUSAGE: es_model_config_check refuses the configuration, or the
 *  back-end does not support it. */
es_status es_model_check(const es_model_config *config,
                         const es_ops *ops) ES_MUST_USE;

/** Checks a micro-batch; targets may be NULL. ES_OK; ES_EFORMAT: a token or
 *  pixel is outside the vocabulary, or a target is not an output of the model.
 *  Sizes as in es_model_pass. */
es_status es_model_config_check_tokens(const es_model_config *config,
                                       const int32_t *tokens,
                                       const int32_t *targets) ES_MUST_USE;

/**
 * Builds the model and draws its parameters from the seed.
 *
 *   ops        the back-end: es_ops_find
 *   n_threads  0: the number of available processors
 *
 * The initial values of a parameter depend only on the seed and its name, so
 * models of different architectures begin with the same values in the
 * parameters that they share. The same seed and number of threads give the same
 * bits throughout.
 *
 * ES_OK; ES_EUSAGE: as es_model_check; ES_ENOMEM; ES_EIO (no device).
 */
es_status es_model_new(es_model **out, const es_model_config *config,
                       const es_ops *ops, int n_threads) ES_MUST_USE;
void es_model_free(es_model *model); /* NULL is fine */

const es_model_config *es_model_config_of(const es_model *model);

/** Number of trainable scalars. */
size_t es_model_n_parameters(const es_model *model);

/**
 * Parameters by number, 0 .. es_model_n_arrays - 1, in the order and with the
 * names of README.md in this folder.
 */
typedef struct es_parameter {
    const char *name;
    int layer; /* -1 outside the layers */
    int n_dims;
    int dims[4];
    size_t n;
    bool decays;    /* weight decay applies */
    bool trainable; /* false: the state of SNorm, which is never updated and not
                       part of the gradient norm */
} es_parameter;

size_t es_model_n_arrays(const es_model *model);
es_parameter es_model_parameter(const es_model *model, size_t index);

/** Copy a parameter or its gradient to or from the host; n is its number of
 *  floats. */
es_status es_model_get(es_model *model, size_t index, float *values, size_t n);
es_status es_model_set(es_model *model, size_t index, const float *values,
                       size_t n);
es_status es_model_get_gradient(es_model *model, size_t index, float *values,
                                size_t n);

/** The optimiser's state, for checkpoints: AdamW's first and second moments (0
 *  for arrays that do not train) and the number of updates. */
typedef enum es_moment { ES_MOMENT_FIRST, ES_MOMENT_SECOND } es_moment;
es_status es_model_get_moment(es_model *model, es_moment moment, size_t index,
                              float *values, size_t n);
es_status es_model_set_moment(es_model *model, es_moment moment, size_t index,
                              const float *values, size_t n);
int64_t es_model_n_updates(const es_model *model);
void es_model_set_n_updates(es_model *model, int64_t n);

/** Number of threads; the same bits require the same number. */
int es_model_n_threads(const es_model *model);

/** Name of the device of the back-end, borrowed from the model; NULL: the
 *  host. */
const char *es_model_device_name(const es_model *model);

/**
 * Initialises the parameters of WNorm and SNorm from the current weights: g
 * becomes the column norms, u and v take 20 power iterations. es_model_new does
 * so itself; call this after setting weights without them. ES_OK; ES_ENOMEM.
 */
es_status es_model_start_norms(es_model *model) ES_MUST_USE;

/** Means over one or more forward passes. */
typedef struct es_losses {
    double loss, ce, ereg; /* loss = ce + lambda * ereg + range; NaN without
                              targets */
    double range;          /* weighted sum of the range losses: ranges.h */
    double accuracy;       /* fraction of images whose class has the largest
                              logit, in an evaluation; else 0 */
} es_losses;

/* --- asynchronous passes -------------------------------------------------
 *
 * es_model_begin, then passes forward and, to train, backward and an update,
 * then es_model_end, which waits for the back-end and returns the results. */

/**
 * Begins a sequence of passes.
 *
 *   measure  the passes also measure rows, heads and layers, and the current
 *            values of the parameters of parameter_series.h are stored
 *   train    settings for es_model_take_step; NULL: there is no update
 */
void es_model_begin(es_model *model, bool measure, const es_train_config *train,
                    double lr);

/**
 * Runs a forward pass over one micro-batch.
 *
 *   tokens, targets  (B,T) int32 in [0,V); targets may be NULL: no loss. With
 *                    images, tokens are pixels, es_model_config_n_inputs per
 *                    image, and the target is that of the class token's row
 *   training         false: evaluation. SNorm's u and v change in the first
 *                    training pass after es_model_new or an update
 *
 * ES_OK; ES_EFORMAT (a token outside the vocabulary). NaN is a result, not an
 * error.
 */
es_status es_model_pass(es_model *model, const int32_t *tokens,
                        const int32_t *targets, bool training) ES_MUST_USE;

/**
 * Adds scale * dLoss/dparameters of the last forward pass to the gradients.
 * ES_OK; ES_EARGUMENT if there was no pass with targets since the last call, or
 * the model is forward_only, which es_model_take_step refuses, too.
 */
es_status es_model_backward(es_model *model, double scale) ES_MUST_USE;

/**
 * Clips by the global norm and takes the AdamW step announced to
 * es_model_begin.
 *
 *   may_skip  leaves the parameters unchanged if the norm or a loss is not
 *             finite. Otherwise such a step is taken without clipping, and
 *             NaN may spread to the parameters
 */
es_status es_model_take_step(es_model *model, const es_train_config *train,
                             bool may_skip) ES_MUST_USE;

typedef struct es_outcome {
    es_losses losses;
    double grad_norm; /* before clipping; 0 without es_model_take_step */
    bool skipped;     /* the step was not taken */
} es_outcome;

/** Returns one line on how the back-end was opened, or "". */
const char *es_model_note(const es_model *model);

/** ES_OK; ES_EIO: the device has failed, and the model can no longer be
 *  used. */
es_status es_model_status(es_model *model) ES_MUST_USE;

/** Waits for the passes. Returns as es_model_status. */
es_status es_model_end(es_model *model, es_outcome *out) ES_MUST_USE;

/** The factor by which the back-end multiplies the loss (loss_scale.h), 1
 *  unless it scales the loss at all. A new factor applies from the next
 *  es_model_begin. Reported gradients do not include it. */
bool es_model_scales_loss(const es_model *model);
void es_model_set_loss_scale(es_model *model, double scale);

/* --- several ranks ------------------------------------------------------- */

struct es_transport;

/**
 * Makes the following steps common to all ranks, each with separate
 * micro-batches: gradients, losses and measurements are added up in the order
 * of the ranks, and all take the same update.
 *
 *   transport    borrowed; NULL: there is no other rank
 *   fixed_order  add micro-batch by micro-batch, in the order of all ranks'
 *                micro-batches, so that the bits do not depend on the number
 *                of ranks; also applies to a single rank
 *   note         (size) written: one line if the back-end could compute the
 *                sums but does not, else ""
 *
 * Call once, before the first step. ES_OK; ES_ENOMEM; ES_EIO (the back-end
 * cannot reach other ranks); as es_transport_gather.
 */
es_status es_model_set_ranks(es_model *model, struct es_transport *transport,
                             bool fixed_order, char *note,
                             size_t size) ES_MUST_USE;

/** Call after es_model_begin: its passes are common to all ranks, and
 *  es_model_end joins their results. Without this call they belong to this rank
 *  only. The steps of es_model_run_step are always common. */
void es_model_share(es_model *model);

/* --- a step of training ------------------------------------------------- */

/** Parameters of es_model_run_step. */
typedef struct es_step_plan {
    int n_batches; /* number of micro-batches; the loss is the mean over them */
    /* Writes micro-batch i = 0 .. n_batches - 1, in this order: tokens, targets
     * (B,T) int32. ES_OK, or any error. */
    es_status (*draw)(void *user, int32_t *tokens, int32_t *targets, int i);
    /* NULL, or work for the host before it waits for the back-end */
    void (*meanwhile)(void *user);
    void *user;
    double lr;
    uint64_t pass; /* number of micro-batches of all ranks before this step;
                      determines what dropout drops */
    bool measure, may_skip; /* see es_model_begin and es_model_take_step */
} es_step_plan;

/** Largest number of micro-batches of a step that runs as one sequence of
 *  operations. A step with more runs separate passes: captured operations take
 *  memory of the device, and the gaps between that many passes are
 *  negligible. */
enum { ES_MAX_UNROLLED = 8 };

/**
 * Runs a whole training step: zeroes the gradients, runs forward and backward
 * passes over all micro-batches between es_model_begin and es_model_end, and
 * updates the parameters; the bits are the same as with those calls. With up to
 * ES_MAX_UNROLLED micro-batches, always the same number, all of them are drawn
 * first and the rest is one sequence of operations.
 *
 * ES_OK; ES_EARGUMENT (the model is forward_only); ES_EFORMAT (a token outside
 * the vocabulary); ES_ENOMEM, only in the first step; the result of `draw`; as
 * es_model_status; with several ranks also as es_transport_add.
 */
es_status es_model_run_step(es_model *model, es_outcome *out,
                            const es_step_plan *plan,
                            const es_train_config *train) ES_MUST_USE;

/**
 * es_model_run_step in two calls, without plan->meanwhile: launch_step does not
 * wait; finish_step waits for the step that was launched first and makes its
 * results those of the model. If es_model_runs_ahead returns true, a second
 * step may be launched before the first is finished. It is launched as if the
 * first step were not skipped; if the first one is skipped, the second changes
 * no parameter and is skipped, too.
 *
 * Return as es_model_run_step; ES_EARGUMENT: too many steps are in progress.
 */
es_status es_model_launch_step(es_model *model, const es_step_plan *plan,
                               const es_train_config *train) ES_MUST_USE;
es_status es_model_finish_step(es_model *model, es_outcome *out) ES_MUST_USE;
bool es_model_runs_ahead(es_model *model, const es_step_plan *plan,
                         const es_train_config *train);

/* --- synchronous passes -------------------------------------------------- */

/** Runs es_model_begin, es_model_pass and es_model_end; returns as they do. */
es_status es_model_forward(es_model *model, es_losses *out,
                           const int32_t *tokens, const int32_t *targets,
                           bool training, bool measure) ES_MUST_USE;

void es_model_zero_gradients(es_model *model);

/** Takes one step with learning rate lr, which is never skipped. *grad_norm:
 *  before clipping. Returns as es_model_take_step and es_model_end. */
es_status es_model_update(es_model *model, const es_train_config *train,
                          double lr, double *grad_norm) ES_MUST_USE;

/** Computes the logits (B,T,V) of the last forward pass with the current
 *  weights. Borrowed host memory, valid until the next call. NULL when out of
 *  memory. */
const float *es_model_logits(es_model *model);

/** Returns a statistic of the rows of the last measured forward pass,
 *  (L,B,H,T), borrowed until the next call; layer l starts at l*B*H*T. NULL
 *  when out of memory, or if the model's attention has no such statistic. */
const float *es_model_rows(es_model *model, es_row_statistic statistic);

/** Writes a series of the measured passes between the last es_model_begin and
 *  es_model_end: out (L,H). Undefined for a series that the model's attention
 *  does not have. */
void es_model_heads(double *out, const es_model *model, es_head_series series);

/** Likewise per layer for the block's output: out (L) counts of NaN or Inf, and
 *  root mean square. */
void es_model_activation_stats(const es_model *model, float *nan_activations,
                               float *act_rms);

#endif
