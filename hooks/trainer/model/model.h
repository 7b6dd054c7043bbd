/**
 * A model on one back-end: forward, backward, update, and what the recorder
 * wants to know of it.
 */
#ifndef ES_MODEL_H
#define ES_MODEL_H

#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"

typedef struct es_model es_model;

/** ES_OK; ES_EUSAGE: a configuration that es_model_config_check refuses, or
 *  this back-end cannot build it yet. */
es_status es_model_check(const es_model_config *config,
                         const es_ops *ops) ES_MUST_USE;

/** Checks a micro-batch; targets may be NULL. ES_OK; ES_EFORMAT: a token or
 *  pixel is not in the vocabulary, or a target is not one of the model's
 *  outputs. Sizes as of es_model_pass. */
es_status es_model_config_check_tokens(const es_model_config *config,
                                       const int32_t *tokens,
                                       const int32_t *targets) ES_MUST_USE;

/**
 * Builds the model and draws its parameters from the seed.
 *
 *   ops        the back-end: es_ops_find
 *   n_threads  0: as many as there are processors to run on
 *
 * A parameter's start depends on the seed and its name alone, so models of
 * different architectures share the start of what they have in common; the
 * same seed and number of threads give the same bits throughout.
 *
 * ES_OK; ES_EUSAGE: es_model_check; ES_ENOMEM; ES_EIO (no device).
 */
es_status es_model_new(es_model **out, const es_model_config *config,
                       const es_ops *ops, int n_threads) ES_MUST_USE;
void es_model_free(es_model *model); /* NULL is fine */

const es_model_config *es_model_config_of(const es_model *model);

/** Number of trainable scalars. */
size_t es_model_n_parameters(const es_model *model);

/**
 * Parameters by number, 0 .. es_model_n_arrays - 1, in the order and with the
 * names of README.md beside this file.
 */
typedef struct es_parameter {
    const char *name;
    int layer; /* -1 outside the layers */
    int n_dims;
    int dims[4];
    size_t n;
    bool decays;    /* weight decay applies */
    bool trainable; /* false: never updated, not in the gradient norm: the
                       state of SNorm */
} es_parameter;

size_t es_model_n_arrays(const es_model *model);
es_parameter es_model_parameter(const es_model *model, size_t index);

/** Copies to or from a parameter or its gradient; n its number of floats. */
es_status es_model_get(es_model *model, size_t index, float *values, size_t n);
es_status es_model_set(es_model *model, size_t index, const float *values,
                       size_t n);
es_status es_model_get_gradient(es_model *model, size_t index, float *values,
                                size_t n);

/** The optimiser's state, for checkpoints: AdamW's first and second moments
 *  (0 where nothing trains) and the number of updates taken. */
typedef enum es_moment { ES_MOMENT_FIRST, ES_MOMENT_SECOND } es_moment;
es_status es_model_get_moment(es_model *model, es_moment moment, size_t index,
                              float *values, size_t n);
es_status es_model_set_moment(es_model *model, es_moment moment, size_t index,
                              const float *values, size_t n);
int64_t es_model_n_updates(const es_model *model);
void es_model_set_n_updates(es_model *model, int64_t n);

/** Threads that work: the same bits come from the same number alone. */
int es_model_n_threads(const es_model *model);

/** What the back-end runs on; borrowed from the model. NULL: the host. */
const char *es_model_device_name(const es_model *model);

/**
 * Starts what WNorm and SNorm add to the weights from the weights as they are:
 * g becomes the column norms, u and v go through 20 power iterations.
 * es_model_new has done so; for weights that were set without theirs.
 * ES_OK; ES_ENOMEM.
 */
es_status es_model_start_norms(es_model *model) ES_MUST_USE;

/** Means over one forward pass or several. */
typedef struct es_losses {
    double loss, ce, ereg; /* loss = ce + lambda * ereg + range; NaN without
                              targets */
    double range;          /* all range losses, weighted: ranges.h */
    double accuracy;       /* share of images whose class has the largest logit,
                              of an evaluation; else 0 */
} es_losses;

/* --- passes that nobody waits for ------------------------------------------
 *
 * es_model_begin, passes forward and, to train, backward, an update, then
 * es_model_end, which waits for the back-end and knows what they were. */

/**
 *   measure  the passes also measure rows, heads and layers, and the
 *            parameters of parameter_series.h are taken as they are now
 *   train    what es_model_take_step will be given; NULL: there is none
 */
void es_model_begin(es_model *model, bool measure, const es_train_config *train,
                    double lr);

/**
 * A forward pass over one micro-batch.
 *
 *   tokens, targets  (B,T) int32 in [0,V); targets may be NULL: no loss. Of
 *                    images tokens are their pixels, es_model_config_n_inputs
 *                    each, and targets that of the class token's row
 *   training         false: evaluation. SNorm's u and v move in the first
 *                    training pass after es_model_new or an update
 *
 * ES_OK; ES_EFORMAT (a token outside the vocabulary). NaN is a result, not
 * an error.
 */
es_status es_model_pass(es_model *model, const int32_t *tokens,
                        const int32_t *targets, bool training) ES_MUST_USE;

/**
 * Adds scale * dLoss/dparameters of the last forward pass to the gradients.
 * ES_OK; ES_EARGUMENT if there was none with targets since the last call, or
 * the model is forward_only, which es_model_take_step refuses, too.
 */
es_status es_model_backward(es_model *model, double scale) ES_MUST_USE;

/**
 * Clips by the global norm and takes the AdamW step that es_model_begin was
 * reported.
 *
 *   may_skip  leaves the parameters alone if the norm or a loss is not finite.
 *             Otherwise such a step is taken, not clipped, and the parameters
 *             go where NaN takes them
 */
es_status es_model_take_step(es_model *model, const es_train_config *train,
                             bool may_skip) ES_MUST_USE;

typedef struct es_outcome {
    es_losses losses;
    double grad_norm; /* before clipping; 0 without es_model_take_step */
    bool skipped;     /* the step was not taken */
} es_outcome;

/** One line on how the back-end was opened, or "". */
const char *es_model_note(const es_model *model);

/** ES_OK; ES_EIO: the device has failed, and the model is lost. */
es_status es_model_status(es_model *model) ES_MUST_USE;

/** Waits. Returns as es_model_status. */
es_status es_model_end(es_model *model, es_outcome *out) ES_MUST_USE;

/** What the back-end multiplies the loss with: loss_scale.h; 1 unless it
 *  scales it at all. Takes effect with the next es_model_begin. Gradients are
 *  reported without it. */
bool es_model_scales_loss(const es_model *model);
void es_model_set_loss_scale(es_model *model, double scale);

/* --- several ranks ------------------------------------------------------- */

struct es_transport;

/**
 * From now on steps are those of all ranks, each with micro-batches of its
 * own: gradients, losses and what is measured are added up in the order of the
 * ranks, and all take the same update.
 *
 *   transport    borrowed; NULL: there is no other rank
 *   fixed_order  sums are taken micro-batch by micro-batch in the order of all
 *                ranks' micro-batches, so that their bits do not depend on how
 *                many ranks have them; also without another rank
 *
 *   note         (size) written: one line if sums could be taken by the
 *                back-end and are not, else ""
 *
 * Once, before the first step. ES_OK; ES_ENOMEM; ES_EIO (the back-end's way
 * to other ranks); as es_transport_gather.
 */
es_status es_model_set_ranks(es_model *model, struct es_transport *transport,
                             bool fixed_order, char *note,
                             size_t size) ES_MUST_USE;

/** After es_model_begin: its passes are those of all ranks, and es_model_end
 *  joins what they were. Otherwise they are this rank's; those of
 *  es_model_run_step always are of all. */
void es_model_share(es_model *model);

/* --- a step of training ------------------------------------------------- */

/** What es_model_run_step shall do. */
typedef struct es_step_plan {
    int n_batches; /* micro-batches: the loss is the mean of theirs */
    /* Micro-batch i = 0 .. n_batches - 1, in this order: tokens, targets (B,T)
       int32 written. ES_OK, or an error of its own. */
    es_status (*draw)(void *user, int32_t *tokens, int32_t *targets, int i);
    /* NULL, or what to do while the back-end works, before it is waited for */
    void (*meanwhile)(void *user);
    void *user;
    double lr;
    uint64_t pass; /* micro-batches of the training before, of all ranks: what
                      dropout drops depends on it */
    bool measure, may_skip; /* as es_model_begin and es_model_take_step */
} es_step_plan;

/** Micro-batches of a step that still is one sequence of operations. One of
 *  more is one of passes: a captured operation takes memory of the device, and
 *  what lies between so many passes is little beside them. */
enum { ES_MAX_UNROLLED = 8 };

/**
 * Gradients from zero, all of es_model_begin to es_model_end with passes
 * forward and backward over all micro-batches, and the step: the same bits as
 * by those calls. Up to ES_MAX_UNROLLED micro-batches, always as many, all of
 * them are drawn first, and the rest is one sequence of operations.
 *
 * ES_OK; ES_EARGUMENT (the model is forward_only); ES_EFORMAT (a token outside
 * the vocabulary); ES_ENOMEM, in the first step alone; what `draw` returns; as
 * es_model_status; of several ranks also as es_transport_add.
 */
es_status es_model_run_step(es_model *model, es_outcome *out,
                            const es_step_plan *plan,
                            const es_train_config *train) ES_MUST_USE;

/**
 * The same in two calls, without plan->meanwhile: what waits for nothing, and
 * what waits for the step that was launched first and makes its numbers those
 * of the model. Where es_model_runs_ahead, a second step may be launched
 * before the first one is waited for. It is taken to follow a step that is not
 * skipped: after one that is it changes no parameter and is skipped, too.
 *
 * Return as es_model_run_step; ES_EARGUMENT: too many steps are under way.
 */
es_status es_model_launch_step(es_model *model, const es_step_plan *plan,
                               const es_train_config *train) ES_MUST_USE;
es_status es_model_finish_step(es_model *model, es_outcome *out) ES_MUST_USE;
bool es_model_runs_ahead(es_model *model, const es_step_plan *plan,
                         const es_train_config *train);

/* --- passes that are waited for ----------------------------------------- */

/** es_model_begin, es_model_pass, es_model_end; returns as they do. */
es_status es_model_forward(es_model *model, es_losses *out,
                           const int32_t *tokens, const int32_t *targets,
                           bool training, bool measure) ES_MUST_USE;

void es_model_zero_gradients(es_model *model);

/** One step with learning rate lr, never skipped. *grad_norm: before clipping.
 *  Returns as es_model_take_step and es_model_end. */
es_status es_model_update(es_model *model, const es_train_config *train,
                          double lr, double *grad_norm) ES_MUST_USE;

/** Logits of the last forward pass, (B,T,V), by the weights as they are now:
 *  made by this call; borrowed host memory, valid until the next one. NULL when
 *  out of memory. */
const float *es_model_logits(es_model *model);

/** A statistic of the rows of the last measured forward pass, (L,B,H,T),
 *  borrowed until the next call; layer l starts at l*B*H*T. NULL when out of
 *  memory, or where the model's attention has no such statistic. */
const float *es_model_rows(es_model *model, es_row_statistic statistic);

/** A series of the measured passes between the last es_model_begin and
 *  es_model_end: out (L,H). One that the model's attention does not have means
 *  nothing. */
void es_model_heads(double *out, const es_model *model, es_head_series series);

/** Likewise per layer, of the block's output: out (L) counts of NaN or Inf,
 *  and root mean square. */
void es_model_activation_stats(const es_model *model, float *nan_activations,
                               float *act_rms);

#endif
