/** Declares what the source files of the model share: its memory, report and
 *  internal functions. */
#ifndef ES_MODEL_INTERNAL_H
#define ES_MODEL_INTERNAL_H

#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/ops.h"
#include "hooks/trainer/model/params.h"

/** The matrices of a layer. WNorm and SNorm apply to all of them except the
 *  gate's matrix and the matrices of family llama. */
typedef enum es_matrix {
    ES_MATRIX_ATTN,
    ES_MATRIX_Q, /* q, k and v of family llama, instead of ATTN */
    ES_MATRIX_K,
    ES_MATRIX_V,
    ES_MATRIX_PROJ,
    ES_MATRIX_GATE,
    ES_MATRIX_FFN_GATE, /* gate of SwiGLU */
    ES_MATRIX_FC,
    ES_MATRIX_MLP_PROJ,
    ES_MATRIX_FUSED,
    ES_N_MATRICES
} es_matrix;

/** The arrays that a layer keeps for the backward pass. N = B T rows; a is d
 *  or, in family llama, the total width of all heads' queries; k is the total
 *  width of all heads' keys; f is the width of the FFN. */
typedef struct es_layer_memory {
    es_mem *x;       /* (N,d) the block's input */
    es_mem *x2;      /* (N,d) input of the FFN's sub-block: middle, or x if the
                        sub-blocks are parallel */
    es_mem *u1, *u2; /* (N,d) inputs of attention and FFN: outputs of
                        LayerNorm, or x and x2 themselves */
    /* (N) of the norm before attention or FFN, or after it in families whose
     * norms follow the sums; mean is NULL for RMSNorm, both are NULL without a
     * norm */
    es_mem *mean1, *rstd1;
    es_mem *mean2, *rstd2; /* (N) */
    /* (N,a), (N,k), (N,k) before the heads' norms in family llama, and their
     * gradients after the backward pass; else NULL */
    es_mem *q, *k, *v;
    es_mem *head_rstd; /* (N,H + key heads) 1/rms in those norms, or NULL */
    es_mem *qkv;       /* (N,3a) q, k and v as the attention reads them */
    es_mem *saved;     /* (B,H,T,ES_N_SAVED) values that attention saves for the
                          backward pass */
    es_mem *heads;     /* (N,a) outputs of the heads, concatenated */
    es_mem *gate;   /* (N,d) gate before its sigmoid, and its gradient after the
                       backward pass; NULL without SM(gate) */
    es_mem *gated;  /* (N,d) input of Wo: the heads' outputs times the gate, or
                       `heads` itself */
    es_mem *middle; /* (N,d) x + attention */
    es_mem *pre;    /* (N,f) inner values of the FFN before the activation */
    es_mem *ffn_gate; /* (N,f) gate of SwiGLU before its sigmoid, and its
                         gradient after the backward pass; else NULL */
    es_mem *f; /* (N,d) output of a scaled FFN; in an encoder the input of the
                  block's last norm */
    es_mem *weights[ES_N_MATRICES]; /* f32, normalised weights; NULL: the
                                       parameter itself is used */
    es_mem *sigma; /* (ES_N_MATRICES, 3) f32, SNorm's sigma; c_attn has three
                      values, for q, k and v */
} es_layer_memory;

/** A matrix that WNorm or SNorm can normalise, and its g. */
typedef struct es_normed {
    es_matrix matrix;
    int part; /* part of c_attn: 0 to 2 for q, k, v */
    es_role g;
    unsigned named_by; /* 0: the architecture does not have this matrix */
} es_normed;

#define ES_N_NORMED 6

/** Places in a layer whose largest input is found (ranges.c). */
typedef enum es_peak_place {
    ES_PEAK_ATTN,
    ES_PEAK_ACT,
    ES_PEAK_NORM_1, /* in layer -1: the last norm */
    ES_PEAK_NORM_2,
    ES_N_PEAKS
} es_peak_place;

/** Sums over the passes between es_model_begin and es_model_end, at the start
 *  of the report. The report is a block of the back-end's memory, with a copy
 *  on the host. */
typedef struct es_tally {
    es_control control;
    double ce, ereg; /* sums of the two losses over the passes */
    double squares; /* sum of squares of the gradients, which contain the factor
                       loss_scale */
    /* number of micro-batches of the training run before this one */
    uint64_t pass;
} es_tally;

typedef struct es_report {
    es_mem *memory;
    es_tally *tally; /* start of the host's copy; the members below point
                        into it */
    float *largest;  /* (L,H) largest logits since es_model_begin, for QK-Clip;
                        or NULL */
    float *factors;  /* (L,H) factors of QK-Clip; or NULL */
    /* (L,ES_N_PEAKS) largest inputs by layer and place, then the largest input
     * of the last norm */
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
    bool has_losses; /* true if all passes had targets */
    bool takes_all; /* true if the details that are not part of every record are
                       measured, too */
    /* which kinds of details were measured */
    bool has_weights, has_step, has_update;
} es_report;

/** A step that has been launched but not finished. */
typedef struct es_pending {
    size_t n_bytes; /* size of the step's report in bytes */
    int n_passes;
    bool measured;
} es_pending;

/** Numbers of the sequences of operations that can be captured. A name is the
 *  first number of its variants. */
enum {
    ES_SEQUENCE_WEIGHTS,     /* +1: with a power iteration of SNorm */
    ES_SEQUENCE_FORWARD = 2, /* +1: with the loss; +2, +3: measured */
    /* +1: with the loss; +2, +3: first pass of a step */
    ES_SEQUENCE_BACKWARD = 6,
    ES_SEQUENCE_UPDATE = 10, /* +1: the update may be skipped */
    ES_SEQUENCE_PARAMETERS = 12,
    ES_SEQUENCE_STEP, /* a whole step; +1: may be skipped; +2, +3: measured */
    /* forward pass with dropout; variants as for FORWARD */
    ES_SEQUENCE_DROPPING = 17
};

struct es_model {
    es_model_config config;
    const es_ops *ops;
    es_backend *backend;
    es_params params;

    /* four allocations with the same layout */
    es_mem *values, *gradients, *moment1, *moment2;
    int64_t n_updates;

    es_pending pending[2]; /* launched steps, by the `place` argument of fetch
                              in es_ops */
    int n_pending;         /* number of launched steps */
    int next_place;        /* fetch place of the next step */

    es_mem *activations;     /* one allocation, divided into the arrays
                                below */
    es_layer_memory *layers; /* (L + 1); the last entry only has x, the output
                                of the last layer */
    es_mem *inputs; /* (2,I) int32 inputs of a pass: tokens, then targets */
    es_mem *tokens, *targets; /* (B,T) of the current pass */
    es_mem *patches;          /* (N,C P P) of images; NULL without images */
    es_mem *embedded;         /* (N,d) embedding before its norm, or NULL */
    es_mem *mean_e, *rstd_e;  /* (N) mean and 1/deviation of each row in the
                                 embedding's norm */
    es_mem *head_pre;  /* (N,d) between the last x and Nf, before GELU; NULL if
                          the family has no such layer */
    es_mem *head_post; /* (N,d) the same layer after GELU, or NULL */
    es_mem *normed;    /* (N,d) output of Nf, or the last x itself */
    es_mem *mean, *rstd; /* (N) mean and 1/deviation of each row in Nf */
    es_mem *logits; /* (R,V) logits of a block of R = es_model_loss_rows rows,
                       row stride es_model_logit_stride; in the backward pass
                       their gradient */
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
    es_mem *dwide;    /* (N, max(3a,f)) gradient of qkv or of pre */
    es_mem *between;  /* (N,d) middle of the current layer; NULL unless details
                         need it and no layer keeps it */
    es_mem *kept;     /* (N,d) output of a sub-block before dropout, later
                         gradient of the attention's output; NULL if unused */
    es_row_mem rows;  /* (L,B,H,T) each; NULL if not recorded */

    es_report report;
    struct es_polynomials *polynomials; /* NULL: inference is exact */
    struct es_ranks *ranks; /* NULL for a single rank without fixed order */
    float loss_scale;   /* factor of the loss from the next es_model_begin on */
    float *host_rows;   /* (L,B,H,T), allocated on first use */
    float *host_logits; /* (N,V), allocated on first use */

    int32_t *host_inputs; /* (n_host_inputs,2,B,T) micro-batches drawn by
                             es_model_run_step */
    int host_targets[ES_MAX_UNROLLED]; /* n_targets of each drawn micro-batch */
    int n_host_inputs;
    es_mem *step_inputs; /* (n_unrolled,2,B,T) inputs of a step that runs as one
                            sequence */
    int n_unrolled; /* number of micro-batches in step_inputs; 0: no step has
                       run as one sequence yet */

    /* true if captured_scale and captured_config are set */
    bool has_captured_scale, has_captured_config;
    double captured_scale; /* scale of the gradients in captured sequences */
    es_train_config captured_config;

    es_mem *dweight; /* f32 gradient of one normalised weight */
    int n_targets;   /* number of rows of the pass that have a target */

    bool weights_are_stale; /* parameters have changed since the normalised
                               weights were computed */
    bool copies_are_stale;  /* parameters were changed by something other than
                               adamw: the back-end must refresh its copies */
    bool iteration_is_due;  /* SNorm runs its power iteration in the next
                               training pass */

    bool is_updating; /* an update is in progress and not yet counted */
    bool can_go_back; /* the last forward pass had targets and has had no
                         backward pass yet */
    bool has_loss;    /* the loss of the last forward pass has been
                         counted */
    bool defers_loss; /* in a step, forward passes leave the loss to the
                         backward pass */
    bool overwrites;  /* the next backward pass is the first one after zeroing
                         the gradients (es_model_is_overwritten) */
    bool reduces;     /* the current backward pass is the last one of a step
                         (es_model_reduce_layer) */
    bool is_in_step;  /* operations belong to the sequence of a step */
    bool drops;       /* the last pass had dropout */
    uint64_t pass;    /* number of the training run's next pass */
    double gradient_scale; /* scale of the gradients in the current backward
                              pass */
    /* number of the current pass within the sequence of a step */
    uint32_t offset;
};

/** Number of rows of a micro-batch. */
static inline int es_model_n_rows(const es_model *model)
{
    return model->config.batch * model->config.ctx;
}

/** I: the number of int32 values reserved for the tokens or pixels of a
 *  micro-batch, and for its targets. */
static inline int es_model_n_inputs(const es_model *model)
{
    const int n = es_model_config_n_inputs(&model->config);
    return model->config.batch *
           (n > model->config.ctx ? n : model->config.ctx);
}

/** Distance between consecutive rows of logits, in elements. */
static inline int es_model_logit_stride(const es_model *model)
{
    const int vocab = es_model_config_n_outputs(&model->config);
    return model->ops->row_stride ? model->ops->row_stride(vocab) : vocab;
}

/** Return an array of the model or its gradient; NULL if the architecture has
 *  no such array. */
es_mem *es_model_value(const es_model *model, int layer, es_role role);
es_mem *es_model_gradient(const es_model *model, int layer, es_role role);

/** Returns the part of wpe that begins with the position of the first token;
 *  NULL if wpe is NULL. */
static inline es_mem *es_model_positions(const es_model *model, es_mem *wpe)
{
    const es_model_config *config = &model->config;
    return wpe ? es_mem_at(wpe, (size_t)es_model_config_n_skipped(config) *
                                    (size_t)config->d_model * sizeof(float))
               : NULL;
}

/** Returns the tokens of the pass, which are compared with the padding token;
 *  NULL if there is no padding. */
static inline const es_mem *es_model_padded(const es_model *model)
{
    return model->config.padding >= 0 ? model->tokens : NULL;
}

/** Operands for the back-end's operations. */
/* the matrix before the last norm */
es_linear es_model_transform(const es_model *model);
/* the projection of a patch to its row */
es_linear es_model_patch(const es_model *model);
es_image es_model_image(const es_model *model);
es_linear es_model_head(const es_model *model);
es_act es_model_act(const es_model *model, int layer);

/** Returns the memory for the FFN's inner values after the activation: the
 *  scratch array, or `pre` itself if there is no activation. */
es_mem *es_model_post(const es_model *model, int layer);
es_attention es_model_attention(const es_model *model, int layer);
es_sharing es_model_sharing(const es_model *model, int layer);
es_penalty es_model_penalty(const es_model *model, int layer);

/** Returns the row statistics of one layer, (B,H,T) each. */
es_row_mem es_model_layer_rows(const es_model *model, int layer);

/** Returns true unless the architecture part ScFuFFNi x or e x has removed the
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

/* Functions of model_forward.c. */

/** Returns how many of the targets (B,T) are not ES_NO_TARGET. */
int es_model_count_targets(const es_model *model, const int32_t *targets);

/** Runs the forward pass of es_model_pass over model->tokens and targets. */
void es_model_run_pass(es_model *model, bool has_targets, bool training);

/** Computes y = residual + dropout(x). `back`: x is a gradient. */
void es_model_drop(const es_model *model, es_mem *y, const es_mem *residual,
                   const es_mem *x, int place, bool back);

/* Functions of model_backward.c. */

/** Runs the backward pass of es_model_backward. */
void es_model_run_backward(es_model *model, double scale);

/** Returns true if captured sequences can be used with this scale of the
 *  gradients, which is the first scale that was used. */
bool es_model_captures_scale(es_model *model, double scale);

/* Functions of model_loss.c. */

/** Number of rows of logits that are computed at once. */
int es_model_loss_rows(const es_model *model);

/** Computes the loss of a pass and adds it to the tally. */
void es_model_loss(const es_model *model);

/** Computes the gradient of Nf's output, in du, or without Nf the gradient of
 *  the last x, in dx, and adds the gradients of the output matrix. `counts`:
 *  also computes the loss. */
void es_model_loss_backward(const es_model *model, double scale, bool counts);

/* Functions of model_weights.c. */

/** Returns the number of floats of the normalised weight that replaces a
 *  parameter matrix of a layer; 0 if the parameter itself is used. */
size_t es_model_normed_size(const es_model *model, int layer, es_matrix matrix);

/** Returns the operands of a product with a matrix, or with the normalised
 *  weight that replaces it. */
es_linear es_model_linear(const es_model *model, int layer, es_matrix matrix);

/** Computes the normalised weights of this forward pass if they are stale; the
 *  first training pass after a step runs SNorm's power iteration. */
void es_model_make_weights(es_model *model, bool training);

/** Adds the gradients of the parameters of a product y = x W + b, through the
 *  normalisation of W if there is one; dy is the gradient of y. */
void es_model_weight_gradient(const es_model *model, int layer,
                              es_matrix matrix, const es_mem *x,
                              const es_mem *dy);

/** Returns true for parameters whose gradient a product overwrites in each
 *  backward pass before anything is added. */
bool es_model_is_overwritten(const es_model *model, const es_param *param);

/** Asks the back-end to keep copies of the weights that products read. ES_OK,
 *  ES_ENOMEM. */
es_status es_model_keep_weights(const es_model *model) ES_MUST_USE;

/** Refreshes the back-end's copies of the parameters if anything except adamw
 *  has changed the parameters; not allowed within a sequence. */
void es_model_refresh_copies(es_model *model);

/* Functions of report.c. */

/** Allocates the report. ES_OK, ES_ENOMEM. */
es_status es_model_plan_report(es_model *model) ES_MUST_USE;

/** Returns the address in the back-end's memory for a part of the report's host
 *  copy. */
es_mem *es_model_reported(const es_model *model, const void *part);

/** es_model_fetches returns true if reports are fetched without waiting for
 *  later operations; fetch_report starts the transfer after a launched step;
 *  end_fetched waits for it. */
bool es_model_fetches(const es_model *model);
void es_model_fetch_report(es_model *model);
es_status es_model_end_fetched(es_model *model, es_outcome *out) ES_MUST_USE;

/** Same as es_model_begin, but without storing the parameters. While another
 *  step is in progress, `skips` keeps the value 1. */
void es_model_begin_report(es_model *model, bool measure,
                           const es_train_config *train, double lr);

/** Do the work of es_model_begin and es_model_end for a step whose passes have
 *  already ended; the rest of the report is unchanged. */
void es_model_begin_step(es_model *model, const es_train_config *train,
                         double lr);
es_status es_model_end_step(es_model *model, es_outcome *out) ES_MUST_USE;

/** Returns the number of bytes of the report that must be fetched for the
 *  passes since es_model_begin. */
size_t es_model_report_bytes(const es_model *model);

/** es_model_replays returns true if it has run a known sequence; otherwise the
 *  caller must issue its operations and call es_model_launch. Within a step
 *  that is one sequence, the operations become part of that sequence. */
bool es_model_replays(const es_model *model, int sequence);
void es_model_launch(const es_model *model);

/* Functions of ranges.c. */

/** Number of elements of the report's array `peaks`. */
size_t es_model_n_peaks(const es_model *model);

/** Returns the memory in which an operation is to store the largest input of
 *  this place, or NULL if the largest input is not needed. */
es_mem *es_model_sought_peak(const es_model *model, int layer,
                             es_peak_place place);

/** Find the largest |x| of x (n) act, or the largest score of the last
 *  attention, and store it for this place if it is needed. */
void es_model_find_peak(const es_model *model, int layer, es_peak_place place,
                        const es_mem *x, size_t n);
void es_model_find_score_peak(const es_model *model, int layer);

/** Add the gradient of the range loss, if there is one, to the gradient of x,
 *  or of qkv after its rotation. */
void es_model_pull_peak(const es_model *model, int layer, es_peak_place place,
                        es_mem *dx);
void es_model_pull_score_peak(const es_model *model, int layer, es_mem *dqkv);

/** Returns the weighted sum of all range losses, averaged over passes. */
double es_model_range_loss(const es_model *model);

/* Functions of model_ranks.c. */

typedef struct es_ranks es_ranks;
void es_model_free_ranks(es_model *model);

/** n_shared returns the total number of micro-batches of all ranks in a step
 *  with n_batches per rank; pass_number returns the number of micro-batch i
 *  within the training run. */
int es_model_n_shared(const es_model *model, int n_batches);
uint64_t es_model_pass_number(const es_model *model, const es_step_plan *plan,
                              int i);

/** Hooks in es_model_begin, at the start of a step, after each backward pass,
 *  and before the update. They return the errors of es_transport_add; ES_OK for
 *  a model without ranks. */
void es_model_begin_shared(es_model *model);
void es_model_begin_sums(es_model *model);
es_status es_model_add_batch(es_model *model) ES_MUST_USE;
es_status es_model_reduce(es_model *model) ES_MUST_USE;

/** reduces_by_device returns true if the back-end computes the sums.
 *  reduce_layer is called in the backward pass, while model->reduces, when a
 *  layer's gradients are complete, and starts their reduction. wait_ranks waits
 *  for the reductions before anything is loaded, and returns like
 *  es_transport_check. */
bool es_model_reduces_by_device(const es_model *model);
void es_model_reduce_layer(const es_model *model, int layer);
es_status es_model_wait_ranks(es_model *model) ES_MUST_USE;

/** Joins the reports of all ranks if the passes are shared: adds their first
 *  n_bytes to the host's copy, which has just been loaded. Returns the errors
 *  of es_transport_gather. */
es_status es_model_join_reports(es_model *model, size_t n_bytes) ES_MUST_USE;

/* Functions of polynomial.c. */

typedef struct es_polynomials es_polynomials;

/** Allocates the polynomials, if the configuration uses them. ES_OK,
 *  ES_ENOMEM. */
es_status es_model_plan_polynomials(es_model *model) ES_MUST_USE;
void es_model_free_polynomials(es_model *model);

/** Begin and end the collection of findings in es_model_begin and
 *  es_model_end. */
void es_model_begin_polynomials(const es_model *model);
void es_model_end_polynomials(const es_model *model);

/** Called by a pass at its norms, attention and activations. Return true if a
 *  polynomial has computed y, the heads or post. Otherwise record the inputs if
 *  observation is on, and return false. */
bool es_model_norm_polynomial(const es_model *model, es_mem *y, const es_mem *x,
                              int layer, es_role weight);
bool es_model_attention_polynomial(const es_model *model, int layer,
                                   const es_row_mem *rows);
bool es_model_act_polynomial(const es_model *model, es_mem *post,
                             const es_mem *pre, int layer);

/** Returns true if a polynomial computes the layer's activation. */
bool es_model_acts_by_polynomial(const es_model *model, int layer);

/* Functions of parameter_series.c. */

/** Number of floats in the report from which the series of parameters are
 *  computed. */
size_t es_model_n_reported(const es_model *model);

/** Copies the current values of the recorded parameters to the report. */
void es_model_report_parameters(const es_model *model);

/* Functions of details.c. */

/** Returns matrix i of ES_N_NORMED, in the order of sigma_q .. g_proj. The
 *  fused FFN takes the place of the first matrix of the FFN. */
es_normed es_model_normed(const es_arch *arch, int i);

/** Returns true if measured passes record any details. */
bool es_model_has_details(const es_model *model);

/** Measures the details of a layer's attention and the sums of its heads.
 *  Called right after the attention, while its data are in the cache. */
void es_model_detail_attention(const es_model *model, int layer);

/** Measures the details of the block's output, which has just been written. */
void es_model_detail_block(const es_model *model, int layer);

/** Measures the details of the weights of the last pass, if they are due. */
void es_model_detail_weights(es_model *model);

/** Measures the details of the step that has just been taken. */
void es_model_detail_step(es_model *model, const es_train_config *train);

/* Functions of model_step.c. */

/** Returns AdamW's settings for a group of parameters. */
es_adamw es_model_adamw(const es_train_config *train, es_param_group group);

/** Allocates all memory except that of the parameters, and divides it into
 *  arrays. ES_OK, ES_ENOMEM. */
es_status es_model_plan(es_model *model) ES_MUST_USE;

#endif
