/** The memory, the report and the state of a model, for the sources of this
 *  folder. */
#ifndef ES_MODEL_INTERNAL_H
#define ES_MODEL_INTERNAL_H

#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/ops.h"
#include "hooks/trainer/model/params.h"

/** The matrices of a layer. WNorm and SNorm can normalise all of them except
 *  the gates' matrices; in model families with separate q, k and v, they
 *  normalise none. */
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

/** The arrays that a layer keeps for the backward pass. In the shapes, N = B*T
 *  is the number of rows; a is d or, in family llama, the total width of all
 *  heads' queries; k is the total width of all heads' keys; f is the width of
 *  the FFN. */
typedef struct es_layer_memory {
    es_mem *x;       /* (N,d) the block's input */
    es_mem *x2;      /* (N,d) input of the FFN's sub-block: x + attention, or x
                        if the sub-blocks are parallel */
    es_mem *u1, *u2; /* (N,d) inputs of attention and FFN: outputs of the norms,
                        or x and x2 themselves without norms */
    /* (N) mean and 1/standard deviation of each row, computed by the norm of
     * the attention sub-block (mean1, rstd1) and of the FFN sub-block (mean2,
     * rstd2). In some families the norms follow the sub-blocks. The means are
     * NULL for RMSNorm; both are NULL without a norm. */
    es_mem *mean1, *rstd1;
    es_mem *mean2, *rstd2; /* (N) */
    /* (N,a), (N,k), (N,k) separate q, k and v before they are combined into
     * qkv; the backward pass replaces them by their gradients. NULL in families
     * without separate q, k and v */
    es_mem *q, *k, *v;
    es_mem *head_rstd; /* (N,H + key heads) 1/rms of each head's q and k;
                          NULL without --qk-norm */
    es_mem *qkv;       /* (N,3*a) q, k and v side by side, as the attention
                          reads them */
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
                  layer's last norm */
    es_mem *log_t; /* (H,T) f32 logarithms of temperatures that are learnt
                      directly; NULL without SM(t,direct) */
    es_mem *weights[ES_N_MATRICES]; /* f32, normalised weights; NULL if products
                                       read the parameter itself */
    es_mem *sigma; /* (ES_N_MATRICES, 3) f32, SNorm's sigma; c_attn has three
                      values, for q, k and v */
} es_layer_memory;

/** Sums over the passes between es_model_begin and es_model_end, at the start
 *  of the report. The report is a block of the back-end's memory, with a copy
 *  on the host. */
typedef struct es_tally {
    es_control control;
    double ce, ereg; /* sums of the cross-entropy and of the entropy regulariser
                        over the passes */
    double squares;  /* sum of squares of the gradients, which are still
                        multiplied by loss_scale */
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
    /* (L,ES_N_PEAKS) largest inputs by layer and es_peak_place, followed by the
     * largest input of the last norm. */
    es_peak *peaks;
    es_layer_sums *layers; /* (L) */
    es_head_sums *heads;   /* (L,H) */
    float *parameters; /* (n) values from which parameter_series.c computes the
                          series of parameters */
    size_t n_always;   /* number of leading bytes of the report that every step
                          needs */
    /* (L,H) details of heads (details.c), or NULL */
    es_head_details *head_details;
    /* (L) details of layers (details.c), or NULL */
    es_layer_details *layer_details;
    size_t n_bytes; /* size of the whole report in bytes */
    int n_passes;
    bool measured;   /* true if the passes measure statistics in addition to the
                        sums in `tally` */
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

struct es_model {
    es_model_config config;
    const es_ops *ops;
    es_backend *backend;
    es_params params;

    /* four allocations with the same layout, in which each parameter has the
     * same offset */
    es_mem *values, *gradients, *moment1, *moment2;
    int64_t n_updates;

    es_pending pending[2]; /* launched steps, indexed by the `place` argument of
                              es_ops.fetch */
    int n_pending;         /* number of launched steps */
    int next_place;        /* `place` argument of the next fetch: 0 or 1 */

    es_mem *activations;     /* one allocation, divided into the arrays
                                below */
    es_layer_memory *layers; /* (L + 1); the last element only has x, the output
                                of the last layer */
    es_mem *inputs; /* (2,I) int32 inputs of a pass: I = es_model_n_inputs
                       tokens or pixels, followed by the targets */
    /* (B,T) int32 tokens and targets of the current pass */
    es_mem *tokens, *targets;
    es_mem *patches;  /* (N, C*P*P) patches of the images, each with C channels
                         of P x P pixels; NULL without images */
    es_mem *embedded; /* (N,d) embedding before its norm; NULL if the embedding
                         has no norm */
    es_mem *mean_e, *rstd_e; /* (N) mean and 1/standard deviation of each row,
                                from the norm after the embedding */
    es_mem *head_pre;  /* (N,d) output of the matrix between the last layer and
                          the last norm, before GELU; NULL if the family has no
                          such matrix */
    es_mem *head_post; /* (N,d) head_pre after GELU, or NULL */
    es_mem *normed;    /* (N,d) output of the last norm, or the last layer's
                          output itself */
    es_mem *mean, *rstd; /* (N) mean and 1/standard deviation of each row, from
                            the last norm */
    es_mem *logits; /* (R,V) logits of a block of R = es_model_loss_rows rows,
                       with row stride es_model_logit_stride; the backward pass
                       replaces the logits by their gradient */
    /* (N) f32, loss and log-sum-exp of each row of logits */
    es_mem *row_loss, *lse;
    es_mem *wide;   /* (N,f) scratch for the FFN's inner values after the
                       activation */
    es_mem *dx;     /* (N,d) gradient of the residual stream */
    es_mem *du;     /* (N,d) gradient of a sub-block's input */
    es_mem *df;     /* (N,d) gradient of the FFN's output, used if the output is
                       scaled or dropout is applied to it */
    es_mem *dheads; /* (N,a) gradient of the heads' outputs; the same
                       memory as `du` unless the sub-blocks are parallel or
                       the width a of all heads differs from d */
    es_mem *dlog_t; /* (H,T) f32 gradient of a layer's log_t; NULL without
                       SM(t,direct) */
    es_mem *dentropy; /* (B,H,T) f32 gradient of row entropies; NULL without
                         entropy regulariser */
    es_mem *ereg;     /* (1) f32 L_ent */
    /* (N, max(3*a, f)) scratch for the gradient of qkv or of `pre` */
    es_mem *dwide;
    es_mem *between; /* (N,d) residual stream between attention and FFN of the
                        current layer; allocated only if details of heads or
                        layers need it and no layer stores it itself, otherwise
                        NULL */
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
    int host_targets[ES_MAX_UNROLLED]; /* number of targets in each micro-batch
                                          of host_inputs */
    int n_host_inputs;
    es_mem *step_inputs; /* (n_unrolled,2,B,T) inputs of a step that runs as one
                            sequence */
    int n_unrolled; /* number of micro-batches in step_inputs; 0: no step has
                       run as one sequence yet */

    /* true once captured_scale, or captured_config, has been set */
    bool has_captured_scale, has_captured_config;
    double captured_scale; /* gradient scale that the captured operations use */
    es_train_config captured_config;

    es_mem *dweight; /* f32 gradient of one normalised weight matrix */
    int n_targets;   /* number of rows of the current pass that have a target */

    bool weights_are_stale; /* parameters have changed since the normalised
                               weights were last computed */
    bool copies_are_stale;  /* parameters were changed by something other
                               than adamw, so the back-end must update its
                               copies of the parameters */
    bool iteration_is_due;  /* SNorm runs its power iteration in the next
                               training pass */

    bool is_updating; /* an update has been started that n_updates does not
                         include yet */
    bool can_go_back; /* the last forward pass had targets and has had no
                         backward pass yet */
    bool has_loss;    /* the loss of the last forward pass has been added to the
                         report's sums */
    bool defers_loss; /* in a step, the loss is computed in the backward pass
                         instead of the forward pass */
    bool overwrites;  /* the next backward pass is the first one since the
                         gradients were zeroed (es_model_is_overwritten) */
    bool reduces;     /* the current backward pass is the last one of a step, so
                         es_model_reduce_layer starts reductions */
    /* true while the operations of a training step are issued; the back-end may
     * capture them as one sequence */
    bool is_in_step;
    bool drops;            /* the last forward pass used dropout */
    uint64_t pass;         /* number of the training run's next pass */
    double gradient_scale; /* scale of the gradients in the current backward
                              pass */
    /* number of the current pass within its step, if the step runs as one
     * sequence */
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

/** Returns the properties of the model's family. */
static inline const es_family_traits *es_model_traits(const es_model *model)
{
    return &es_families[model->config.family];
}

#endif
