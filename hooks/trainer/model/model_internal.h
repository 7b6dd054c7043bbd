/** Declares what the source files of the model share: its memory, report and
 *  internal functions. */
#ifndef ES_MODEL_INTERNAL_H
#define ES_MODEL_INTERNAL_H

#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/ops.h"
#include "hooks/trainer/model/params.h"

/** The matrices of a layer. WNorm and SNorm can apply to all matrices except
 *  those of gates and those of families with separate q, k and v. */
typedef enum es_matrix {
    ES_MATRIX_ATTN,
    ES_MATRIX_Q, /* instead of ES_MATRIX_ATTN if q, k and v are separate */
    ES_MATRIX_K,
    ES_MATRIX_V,
    ES_MATRIX_PROJ,
    ES_MATRIX_GATE,
    ES_MATRIX_FFN_GATE, /* family llama: the gate of SwiGLU */
    ES_MATRIX_FC,
    ES_MATRIX_MLP_PROJ,
    ES_MATRIX_FUSED,
    ES_N_MATRICES
} es_matrix;

/** The arrays that a layer keeps for the backward pass. In the shapes, N = B T
 *  is the number of rows; a is d or, in family llama, the total width of all
 *  heads' queries; k is the total width of all heads' keys; f is the width of
 *  the FFN. */
typedef struct es_layer_memory {
    es_mem *x;       /* (N,d) the block's input */
    es_mem *x2;      /* (N,d) input of the FFN's sub-block: middle, or x if the
                        sub-blocks are parallel */
    es_mem *u1, *u2; /* (N,d) inputs of attention and FFN: outputs of the norms,
                        or x and x2 themselves without norms */
    /* (N) mean and 1/deviation of each row in the norm before attention (1) or
     * FFN (2), or after the sub-block in families whose norms follow the sums.
     * The means are NULL for RMSNorm; both are NULL without a norm. */
    es_mem *mean1, *rstd1;
    es_mem *mean2, *rstd2; /* (N) */
    /* (N,a), (N,k), (N,k) separate q, k and v before they are combined into
     * qkv; the backward pass replaces them by their gradients. NULL in families
     * without separate q, k and v */
    es_mem *q, *k, *v;
    es_mem *head_rstd; /* (N,H + key heads) 1/rms of q and k in the heads'
                          norms; NULL without --qk-norm */
    es_mem *qkv;       /* (N,3a) q, k and v as the attention reads them */
    es_mem *saved;     /* (B,H,T,ES_N_SAVED) values that attention saves for the
                          backward pass */
    es_mem *heads;     /* (N,a) outputs of the heads, concatenated */
    es_mem *gate;  /* (N,d) gate before its sigmoid, replaced by its gradient in
                      the backward pass; NULL without SM(gate) */
    es_mem *gated; /* (N,d) input of Wo: the heads' outputs times the gate, or
                      `heads` itself */
    es_mem *middle;   /* (N,d) x + attention */
    es_mem *pre;      /* (N,f) inner values of the FFN before the activation */
    es_mem *ffn_gate; /* (N,f) gate of SwiGLU, replaced by its gradient in the
                         backward pass; NULL without SwiGLU */
    es_mem *f; /* (N,d) output of a scaled FFN; in an encoder the input of the
                  block's last norm */
    es_mem *weights[ES_N_MATRICES]; /* f32, normalised weights; NULL if products
                                       read the parameter itself */
    es_mem *sigma; /* (ES_N_MATRICES, 3) f32, SNorm's sigma; c_attn has three
                      values, for q, k and v */
} es_layer_memory;

/** A matrix that WNorm or SNorm can normalise, and the role of its g. */
typedef struct es_normed {
    es_matrix matrix;
    int part; /* 0 to 2: the part q, k or v of c_attn */
    es_role g;
    /* bit by which WNorm or SNorm (es_arch) selects the matrix; 0 if the
     * architecture does not have the matrix */
    unsigned named_by;
} es_normed;

#define ES_N_NORMED 6

/** Places in a layer at which the largest input is found (ranges.c). */
typedef enum es_peak_place {
    ES_PEAK_ATTN,
    ES_PEAK_ACT,
    ES_PEAK_NORM_1, /* in layer -1, the norm after the last layer */
    ES_PEAK_NORM_2,
    ES_N_PEAKS
} es_peak_place;

/** Sums over the passes between es_model_begin and es_model_end, at the start
 *  of the report. The report is a block of the back-end's memory, with a copy
 *  on the host. */
typedef struct es_tally {
    es_control control;
    double ce, ereg; /* sums of the cross-entropy and of the entropy regulariser
                        over the passes */
    double squares; /* sum of squares of the gradients, which contain the factor
                       loss_scale */
    /* number of micro-batches of the training run before the current
     * micro-batch */
    uint64_t pass;
} es_tally;

typedef struct es_report {
    es_mem *memory;
    es_tally *tally; /* start of the host's copy of the report; the members
                        below point into this copy */
    float *largest;  /* (L,H) largest logits since es_model_begin, for QK-Clip;
                        NULL without QK-Clip */
    float *factors;  /* (L,H) factors of QK-Clip; NULL without QK-Clip */
    /* (L,ES_N_PEAKS) largest inputs by layer and place, followed by the largest
     * input of the last norm. */
    es_peak *peaks;
    es_layer_sums *layers; /* (L) */
    es_head_sums *heads;   /* (L,H) */
    float *parameters; /* (n) values from which parameter_series.c computes its
                          series */
    size_t n_always;   /* number of leading bytes of the report that every step
                          needs */
    /* (L,H) details of heads (details.c), or NULL */
    es_head_details *head_details;
    /* (L) details of layers (details.c), or NULL */
    es_layer_details *layer_details;
    size_t n_bytes; /* size of the whole report in bytes */
    int n_passes;
    bool measured;   /* true if the passes measure more than the tally */
    bool has_losses; /* true if all passes since es_model_begin had targets */
    bool takes_all;  /* true if the expensive details, which are not part of
                        every record, are measured, too */
    /* which kinds of details were measured: of weights, of the step, of the
     * update */
    bool has_weights, has_step, has_update;
} es_report;

/** A step that has been launched but not finished. */
typedef struct es_pending {
    size_t n_bytes; /* size of the step's report in bytes */
    int n_passes;
    bool measured;
} es_pending;

/** Numbers of the sequences of operations that can be captured. Each name is
 *  the first of several numbers; the sequences with the following numbers are
 *  variants. */
enum {
    ES_SEQUENCE_WEIGHTS, /* +1: with a power iteration of SNorm */
    /* +1: the pass computes the loss; +2, +3: the pass is measured */
    ES_SEQUENCE_FORWARD = 2,
    /* +1: the pass computes the loss; +2, +3: the pass is the first one of a
     * step */
    ES_SEQUENCE_BACKWARD = 6,
    ES_SEQUENCE_UPDATE = 10, /* +1: the update may be skipped */
    ES_SEQUENCE_PARAMETERS = 12,
    ES_SEQUENCE_STEP, /* a whole step; +1: the update may be skipped; +2, +3:
                         the passes are measured */
    /* Forward pass with dropout; it has the variants of ES_SEQUENCE_FORWARD. */
    ES_SEQUENCE_DROPPING = 17
};

struct es_model {
    es_model_config config;
    const es_ops *ops;
    es_backend *backend;
    es_params params;

    /* four allocations with the same layout, in which each parameter has the
     * same offset */
    es_mem *values, *gradients, *moment1, *moment2;
    int64_t n_updates;

    es_pending pending[2]; /* launched steps, by the `place` argument that
                              es_ops.fetch received */
    int n_pending;         /* number of launched steps */
    int next_place;        /* `place` argument of the next fetch: 0 or 1 */

    es_mem *activations;     /* one allocation, divided into the arrays
                                below */
    es_layer_memory *layers; /* (L + 1); the last element only has x, the output
                                of the last layer */
    es_mem *inputs; /* (2,I) int32 inputs of a pass: the tokens, followed by the
                       targets */
    /* (B,T) int32 tokens and targets of the current pass */
    es_mem *tokens, *targets;
    es_mem *patches;  /* (N,C P P) patches of the images; NULL without images */
    es_mem *embedded; /* (N,d) embedding before its norm; NULL if the embedding
                         has no norm */
    es_mem *mean_e, *rstd_e; /* (N) mean and 1/deviation of each row in the
                                embedding's norm */
    es_mem *head_pre;  /* (N,d) output of the matrix between the last x and Nf,
                          before GELU; NULL if the family has no such matrix */
    es_mem *head_post; /* (N,d) output of this GELU after the last x, or NULL */
    es_mem *normed;    /* (N,d) output of Nf, or the last x itself */
    es_mem *mean, *rstd; /* (N) mean and 1/deviation of each row in Nf */
    es_mem *logits; /* (R,V) logits of a block of R = es_model_loss_rows rows,
                       with row stride es_model_logit_stride; the backward pass
                       replaces the logits by their gradient */
    /* (N) f32, loss and log-sum-exp of each row of logits */
    es_mem *row_loss, *lse;
    es_mem *wide; /* (N,f) scratch for the FFN's inner values after the
                     activation */
    es_mem *dx;   /* (N,d) gradient of the residual stream */
    es_mem *du;   /* (N,d) gradient of a sub-block's input */
    es_mem *df;   /* (N,d) gradient of the FFN's output, if the output is scaled
                     or dropped */
    es_mem *dheads;   /* (N,a) gradient of the heads' outputs; it is du unless
                         the sub-blocks are parallel or a is not d */
    es_mem *dentropy; /* (B,H,T) f32 gradient of row entropies; NULL without the
                         regulariser */
    es_mem *ereg;     /* (1) f32 L_ent */
    /* (N, max(3a,f)) scratch for the gradient of qkv or of `pre` */
    es_mem *dwide;
    es_mem *between; /* (N,d) `middle` of the current layer; NULL unless details
                        need it and no layer keeps it */
    /* (N,d) output of a sub-block before dropout; in the backward pass the
     * gradient of the attention's output; NULL if unused */
    es_mem *kept;
    es_row_mem rows; /* row statistics, (L,B,H,T) each; NULL if a statistic is
                        not recorded */

    es_report report;
    struct es_polynomials *polynomials; /* NULL if inference is exact */
    /* NULL for a single rank without a fixed order of sums */
    struct es_ranks *ranks;
    float loss_scale;   /* factor of the loss that applies from the next
                           es_model_begin on */
    float *host_rows;   /* (L,B,H,T) a row statistic on the host, allocated on
                           first use */
    float *host_logits; /* (N,V) logits on the host, allocated on first use */

    int32_t *host_inputs; /* (n_host_inputs,2,B,T) micro-batches drawn by
                             es_model_run_step */
    int host_targets[ES_MAX_UNROLLED]; /* number of targets in each drawn
                                          micro-batch */
    int n_host_inputs;
    es_mem *step_inputs; /* (n_unrolled,2,B,T) inputs of a step that runs as one
                            sequence */
    int n_unrolled; /* number of micro-batches in step_inputs; 0: no step has
                       run as one sequence yet */

    /* captured_scale has been set; captured_config has been set */
    bool has_captured_scale, has_captured_config;
    double captured_scale; /* scale of the gradients with which operations were
                              captured */
    es_train_config captured_config;

    es_mem *dweight; /* f32 gradient of one normalised weight */
    int n_targets;   /* number of rows of the pass that have a target */

    bool weights_are_stale; /* parameters have changed since the normalised
                               weights were last computed */
    bool copies_are_stale;  /* parameters were changed by something other than
                               adamw, so the back-end must refresh its copies */
    bool iteration_is_due;  /* SNorm runs its power iteration in the next
                               training pass */

    bool is_updating; /* an update has been started that n_updates does not
                         include yet */
    bool can_go_back; /* the last forward pass had targets and has had no
                         backward pass yet */
    bool has_loss;    /* the loss of the last forward pass has been added to the
                         tally */
    bool defers_loss; /* in a step, the loss is computed in the backward pass
                         instead of the forward pass */
    bool overwrites;  /* the next backward pass is the first one since the
                         gradients were zeroed (es_model_is_overwritten) */
    bool reduces;     /* the current backward pass is the last one of a step, so
                         that es_model_reduce_layer starts reductions */
    /* the following operations belong to the sequence of a step */
    bool is_in_step;
    bool drops;            /* the last forward pass used dropout */
    uint64_t pass;         /* number of the training run's next pass */
    double gradient_scale; /* scale of the gradients in the current backward
                              pass */
    /* number of the current pass within the sequence of a step */
    uint32_t offset;
};

/** Returns the number of rows of a micro-batch. */
static inline int es_model_n_rows(const es_model *model)
{
    return model->config.batch * model->config.ctx;
}

/** Returns I, the number of int32 values that are reserved for the tokens or
 *  pixels of a micro-batch; the same number is reserved for its targets. */
static inline int es_model_n_inputs(const es_model *model)
{
    const int n = es_model_config_n_inputs(&model->config);
    return model->config.batch *
           (n > model->config.ctx ? n : model->config.ctx);
}

/** Returns the distance between consecutive rows of logits, in elements. */
static inline int es_model_logit_stride(const es_model *model)
{
    const int vocab = es_model_config_n_outputs(&model->config);
    return model->ops->row_stride ? model->ops->row_stride(vocab) : vocab;
}

/** Return an array of the model, or the gradient of an array; NULL if the
 *  architecture does not have the array. */
es_mem *es_model_value(const es_model *model, int layer, es_role role);
es_mem *es_model_gradient(const es_model *model, int layer, es_role role);

/** Returns the tokens of the pass, which operations compare with the padding
 *  token; NULL if there is no padding. */
static inline const es_mem *es_model_padded(const es_model *model)
{
    return model->config.padding >= 0 ? model->tokens : NULL;
}

/** Return operands of operations: the projection of patches to rows, a layer's
 *  activation and attention, and AdamW's settings for a group of parameters. */
es_linear es_model_patch(const es_model *model);
es_act es_model_act(const es_model *model, int layer);
es_attention es_model_attention(const es_model *model, int layer);
es_adamw es_model_adamw(const es_train_config *train, es_param_group group);

/** Returns the row statistics of one layer, (B,H,T) each. */
es_row_mem es_model_layer_rows(const es_model *model, int layer);

/** Returns false if the architecture part ScFuFFNi x or e x has removed the
 *  layer's FFN. */
static inline bool es_model_has_ffn(const es_model *model, int layer)
{
    return es_arch_has_ffn(&model->config.arch, layer, model->config.n_layer);
}

/** Returns true if alpha and beta scale the FFN and the residual stream. */
static inline bool es_model_is_scaled(const es_model *model)
{
    return model->config.arch.ffn != ES_FFN_TWO ||
           model->config.family == ES_FAMILY_SAS;
}

/** Returns the properties of the model's family. */
static inline const es_family_traits *es_model_traits(const es_model *model)
{
    return &es_families[model->config.family];
}

/** Returns the role of the output matrix: embed_out, or wte if the two are
 *  tied. */
static inline es_role es_model_head_role(const es_model *model)
{
    return es_model_traits(model)->is_tied || model->config.tied
               ? ES_ROLE_WTE
               : ES_ROLE_EMBED_OUT;
}

/** Returns the number of rows of logits that are computed at once. */
int es_model_loss_rows(const es_model *model);

/** Returns the address in the back-end's memory of a part of the report, given
 *  the part's address in the host's copy. */
es_mem *es_model_reported(const es_model *model, const void *part);

/** Returns the number of bytes of the report that must be fetched for the
 *  passes since es_model_begin. */
size_t es_model_report_bytes(const es_model *model);

/** es_model_replays runs the sequence if it has been captured, and returns
 *  true; otherwise the caller must issue the sequence's operations and call
 *  es_model_launch. While a whole step is captured, the operations become part
 *  of the step's sequence. */
bool es_model_replays(const es_model *model, int sequence);
void es_model_launch(const es_model *model);

/* Functions that pass.c defines. */

/** Returns how many of the targets (B,T) are not ES_NO_TARGET. */
int es_model_count_targets(const es_model *model, const int32_t *targets);

/** Runs the forward pass of es_model_pass over model->tokens and targets. */
void es_model_run_pass(es_model *model, bool has_targets, bool training);

/** Runs the backward pass of es_model_backward. */
void es_model_run_backward(es_model *model, double scale);

/** Returns true if `scale` is the scale of the gradients with which operations
 *  are captured, which is the scale of the first call. */
bool es_model_captures_scale(es_model *model, double scale);

/* Functions that model_weights.c defines. */

/** Returns the number of floats in the normalised weight that replaces a matrix
 *  of a layer, or 0 if products read the parameter itself. */
size_t es_model_normed_size(const es_model *model, int layer, es_matrix matrix);

/** Returns the operands of a product with a matrix, or with the normalised
 *  weight that replaces it. */
es_linear es_model_linear(const es_model *model, int layer, es_matrix matrix);

/** Computes the normalised weights for this forward pass if they are stale. The
 *  first training pass after an update also runs SNorm's power iteration. */
void es_model_make_weights(es_model *model, bool training);

/** Adds the gradients of the weight and bias of a product y = x W + b, where dy
 *  is the gradient of y. If W is normalised, the gradient is propagated through
 *  the normalisation. */
void es_model_weight_gradient(const es_model *model, int layer,
                              es_matrix matrix, const es_mem *x,
                              const es_mem *dy);

/** Returns true for a parameter whose gradient is overwritten, rather than
 *  increased, by the first product of a backward pass. */
bool es_model_is_overwritten(const es_model *model, const es_param *param);

/** Asks the back-end to keep copies of the weights that products read. Returns
 *  ES_OK or ES_ENOMEM. */
es_status es_model_keep_weights(const es_model *model) ES_MUST_USE;

/** Refreshes the back-end's copies of the parameters if anything except adamw
 *  has changed the parameters. Must not be called while a sequence is
 *  captured. */
void es_model_refresh_copies(es_model *model);

/* Functions that report.c defines. */

/** Allocates the report. Returns ES_OK or ES_ENOMEM. */
es_status es_model_plan_report(es_model *model) ES_MUST_USE;

/** es_model_fetches returns true if the host can fetch a step's report without
 *  waiting for later operations. fetch_report starts the transfer after a step
 *  has been launched; end_fetched waits for the transfer. */
bool es_model_fetches(const es_model *model);
void es_model_fetch_report(es_model *model);
es_status es_model_end_fetched(es_model *model, es_outcome *out) ES_MUST_USE;

/** Same as es_model_begin, but does not store the values of the parameters.
 *  While another step is in progress, `skips` keeps its value in the back-end's
 *  memory. */
void es_model_begin_report(es_model *model, bool measure,
                           const es_train_config *train, double lr);

/** Do the work of es_model_begin and es_model_end for a step that follows
 *  completed passes; the sums of these passes in the report remain
 *  unchanged. */
void es_model_begin_step(es_model *model, const es_train_config *train,
                         double lr);
es_status es_model_end_step(es_model *model, es_outcome *out) ES_MUST_USE;

/* Functions that ranges.c defines. */

/** Returns the number of elements in the report's array `peaks`. */
size_t es_model_n_peaks(const es_model *model);

/** Returns the memory in which an operation must store the largest input of the
 *  given place, or NULL if the largest input is not needed. */
es_mem *es_model_sought_peak(const es_model *model, int layer,
                             es_peak_place place);

/** Find the largest |x| of x (n) act, or the largest score of the last
 *  attention, and store it for the given place. They do nothing if the largest
 *  input of this place is not needed. */
void es_model_find_peak(const es_model *model, int layer, es_peak_place place,
                        const es_mem *x, size_t n);
void es_model_find_score_peak(const es_model *model, int layer);

/** Add the gradient of the range loss, if the loss includes one, to the
 *  gradient of x, or of qkv after its rotation. */
void es_model_pull_peak(const es_model *model, int layer, es_peak_place place,
                        es_mem *dx);
void es_model_pull_score_peak(const es_model *model, int layer, es_mem *dqkv);

/** Returns the weighted sum of all range losses, averaged over passes. */
double es_model_range_loss(const es_model *model);

/* Functions that ranks.c defines. */

typedef struct es_ranks es_ranks;
void es_model_free_ranks(es_model *model);

/** n_shared returns the total number of micro-batches of all ranks in a step
 *  that has n_batches micro-batches per rank. pass_number returns the number
 *  within the training run of this rank's micro-batch i. */
int es_model_n_shared(const es_model *model, int n_batches);
uint64_t es_model_pass_number(const es_model *model, const es_step_plan *plan,
                              int i);

/** begin_shared is called in es_model_begin, begin_sums at the start of a step,
 *  add_batch after each backward pass, and reduce before the update. Return the
 *  errors of es_transport_add; ES_OK for a model without ranks. */
void es_model_begin_shared(es_model *model);
void es_model_begin_sums(es_model *model);
es_status es_model_add_batch(es_model *model) ES_MUST_USE;
es_status es_model_reduce(es_model *model) ES_MUST_USE;

/** reduces_by_device returns true if the back-end computes the sums over ranks.
 *  The backward pass calls reduce_layer when a layer's gradients are complete;
 *  if model->reduces, the function starts their reduction. wait_ranks waits for
 *  the reductions before the host loads results, and returns like
 *  es_transport_check. */
bool es_model_reduces_by_device(const es_model *model);
void es_model_reduce_layer(const es_model *model, int layer);
es_status es_model_wait_ranks(es_model *model) ES_MUST_USE;

/** Joins the reports of all ranks if the passes are common to all ranks: adds
 *  the first n_bytes of the other ranks' reports to the host's copy, which has
 *  just been loaded. Returns the errors of es_transport_gather. */
es_status es_model_join_reports(es_model *model, size_t n_bytes) ES_MUST_USE;

/* Functions that polynomial.c defines. */

typedef struct es_polynomials es_polynomials;

/** Allocates the polynomials, if the configuration uses them. Returns ES_OK or
 *  ES_ENOMEM. */
es_status es_model_plan_polynomials(es_model *model) ES_MUST_USE;
void es_model_free_polynomials(es_model *model);

/** Begin and end the collection of findings; called by es_model_begin and
 *  es_model_end. */
void es_model_begin_polynomials(const es_model *model);
void es_model_end_polynomials(const es_model *model);

/** Called in forward passes at norms, attention and activations. Return true if
 *  a polynomial has computed the result (y, the heads or `post`). Otherwise
 *  return false, after recording the inputs if the mode is
 *  ES_POLYNOMIAL_OBSERVE. */
bool es_model_norm_polynomial(const es_model *model, es_mem *y, const es_mem *x,
                              int layer, es_role weight);
bool es_model_attention_polynomial(const es_model *model, int layer,
                                   const es_row_mem *rows);
bool es_model_act_polynomial(const es_model *model, es_mem *post,
                             const es_mem *pre, int layer);

/** Returns true if a polynomial computes the layer's activation. */
bool es_model_acts_by_polynomial(const es_model *model, int layer);

/* Functions that parameter_series.c defines. */

/** Returns the number of floats in the report from which the series of
 *  parameters are computed. */
size_t es_model_n_reported(const es_model *model);

/** Copies the current values of the recorded parameters to the report. */
void es_model_report_parameters(const es_model *model);

/* Functions that details.c defines. */

/** Returns matrix i of ES_N_NORMED in the order of sigma_q .. g_proj. In a
 *  model with a fused FFN, its matrix takes the place of the FFN's first
 *  matrix. */
es_normed es_model_normed(const es_arch *arch, int i);

/** Returns true if measured passes record any details. */
bool es_model_has_details(const es_model *model);

/** Measures the details of a layer's attention and adds the rows to the sums of
 *  its heads. Must be called right after the attention, while the data are in
 *  the cache. */
void es_model_detail_attention(const es_model *model, int layer);

/** Measures the details of the block's output, which has just been written. */
void es_model_detail_block(const es_model *model, int layer);

/** Measures the details of the weights of the last pass, if they are due. */
void es_model_detail_weights(es_model *model);

/** Measures the details of the step that has just been taken. */
void es_model_detail_step(es_model *model, const es_train_config *train);

/** Allocates all memory except that of the parameters, and divides it into
 *  arrays. Returns ES_OK or ES_ENOMEM. */
es_status es_model_plan(es_model *model) ES_MUST_USE;

#endif
