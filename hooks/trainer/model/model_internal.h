/** Between the files of the model. */
#ifndef ES_MODEL_INTERNAL_H
#define ES_MODEL_INTERNAL_H

#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/ops.h"
#include "hooks/trainer/model/params.h"

/** The matrices of a layer; WNorm and SNorm can name all but the gate's and
 *  those of family llama. */
typedef enum es_matrix {
    ES_MATRIX_ATTN,
    ES_MATRIX_Q, /* of family llama, in place of the one before */
    ES_MATRIX_K,
    ES_MATRIX_V,
    ES_MATRIX_PROJ,
    ES_MATRIX_GATE,
    ES_MATRIX_FFN_GATE, /* of SwiGLU */
    ES_MATRIX_FC,
    ES_MATRIX_MLP_PROJ,
    ES_MATRIX_FUSED,
    ES_N_MATRICES
} es_matrix;

/** What one layer keeps for the backward pass; N = B T rows; a = d, of family
 *  llama the width of all heads' queries, k that of their keys; f of the FFN.
 */
typedef struct es_layer_memory {
    es_mem *x;             /* (N,d) the block's input */
    es_mem *x2;            /* (N,d) what the FFN starts from: middle, or x if
                              the sub-blocks are parallel */
    es_mem *u1, *u2;       /* (N,d) inputs of attention and FFN: LayerNorm's
                              outputs, or x and x2 themselves */
    es_mem *mean1, *rstd1; /* (N); RMSNorm has no mean; NULL: no norm; of a
                              norm after attention or FFN if they come after */
    es_mem *mean2, *rstd2; /* (N) */
    es_mem *q, *k, *v;     /* (N,a), (N,k), (N,k) of family llama, before its
                              norms; their gradients after the backward pass;
                              or NULL */
    es_mem *head_rstd;     /* (N,H + heads of keys) of those norms, or NULL */
    es_mem *qkv;           /* (N,3a) */
    es_mem *saved;         /* (B,H,T,ES_N_SAVED) of the attention */
    es_mem *heads;         /* (N,a) the heads' outputs, concatenated */
    es_mem *gate;          /* (N,d) before the sigmoid; its gradient after the
                              backward pass; NULL without SM(gate) */
    es_mem *gated;         /* (N,d) what Wo is given: the heads' outputs,
                              gated or themselves */
    es_mem *middle;        /* (N,d) x + attention */
    es_mem *pre;           /* (N,f) before the activation */
    es_mem *ffn_gate;      /* (N,f) what SwiGLU multiplies pre with, before its
                              sigmoid; its gradient after the backward pass;
                              or NULL */
    es_mem *f;             /* (N,d) the FFN's output, if it is scaled; of an
                              encoder what the last norm is given */
    es_mem *weights[ES_N_MATRICES]; /* f32, normalised; NULL: the parameter
                                       itself is the weight */
    es_mem *sigma; /* (ES_N_MATRICES, 3) f32; c_attn: of q, k, v */
} es_layer_memory;

/** A matrix that WNorm or SNorm can name, and its g. */
typedef struct es_normed {
    es_matrix matrix;
    int part; /* of c_attn: q, k, v */
    es_role g;
    unsigned named_by; /* 0: the architecture has no such matrix */
} es_normed;

#define ES_N_NORMED 6

/** Inputs of a layer whose largest are found: ranges.c. */
typedef enum es_peak_place {
    ES_PEAK_ATTN,
    ES_PEAK_ACT,
    ES_PEAK_NORM_1, /* in layer -1: of the last norm */
    ES_PEAK_NORM_2,
    ES_N_PEAKS
} es_peak_place;

/** What the passes between es_model_begin and es_model_end add up: a block of
 *  the back-end's memory, and the host's copy of it. */
typedef struct es_tally {
    es_control control;
    double ce, ereg; /* sums over the passes */
    double squares;  /* of the gradients, loss_scale^2 times too large */
    uint64_t pass;   /* micro-batches of the training before this one */
} es_tally;

typedef struct es_report {
    es_mem *memory;
    es_tally *tally;       /* where the copy begins; what follows lies in it */
    float *largest;        /* (L,H) logits since es_model_begin, of QK-Clip, */
    float *factors;        /* (L,H) and what it has scaled with; or NULL */
    es_peak *peaks;        /* (L,ES_N_PEAKS), then of the last norm */
    es_layer_sums *layers; /* (L) */
    es_head_sums *heads;   /* (L,H) */
    float *parameters;     /* of parameter_series.c */
    size_t n_always;       /* bytes that every step needs, the first ones */
    es_head_details *head_details;   /* (L,H), of details.c; as the next */
    es_layer_details *layer_details; /* (L), NULL where none are taken */
    size_t n_bytes;                  /* of all of it */
    int n_passes;
    bool measured;   /* more than the tally is of interest */
    bool has_losses; /* no pass went without targets */
    bool takes_all;  /* also the details that are not of every record */
    bool has_weights, has_step, has_update; /* details that were taken */
} es_report;

/** A step that has been launched, and whose report nobody has seen. */
typedef struct es_pending {
    size_t n_bytes; /* of the report */
    int n_passes;
    bool measured;
} es_pending;

/** Sequences of operations that are always the same; those with a second form
 *  have that in the next number. */
enum {
    ES_SEQUENCE_WEIGHTS,      /* 1: with SNorm's iteration */
    ES_SEQUENCE_FORWARD = 2,  /* 1: with the loss; 2, 3: measured */
    ES_SEQUENCE_BACKWARD = 6, /* 1: with the loss; 2, 3: the first one */
    ES_SEQUENCE_UPDATE = 10,  /* 1: that may skip */
    ES_SEQUENCE_PARAMETERS = 12,
    ES_SEQUENCE_STEP, /* 1: that may skip; 2, 3: measured; all of the above */
    ES_SEQUENCE_DROPPING = 17 /* forward with dropout; else as FORWARD */
};

struct es_model {
    es_model_config config;
    const es_ops *ops;
    es_backend *backend;
    es_params params;

    /* Four allocations of the same layout. */
    es_mem *values, *gradients, *moment1, *moment2;
    int64_t n_updates;

    es_pending pending[2]; /* by place of es_ops' fetch */
    int n_pending;         /* steps that have been launched */
    int next_place;        /* of the next one */

    es_mem *activations;      /* one allocation, carved into what follows */
    es_layer_memory *layers;  /* (L + 1): the last has only x, the output */
    es_mem *inputs;           /* (2,I) int32 of a pass: tokens, targets */
    es_mem *tokens, *targets; /* (B,T) of the pass that is under way */
    es_mem *patches;          /* (N,C P P) of images; NULL: there are none */
    es_mem *embedded;         /* (N,d) before the embedding's norm, or NULL */
    es_mem *mean_e, *rstd_e;  /* (N) of that norm */
    es_mem *head_pre;         /* (N,d) between the last x and Nf, before GELU */
    es_mem *head_post;        /* (N,d) and after it; NULL: nothing is there */
    es_mem *normed;           /* (N,d) Nf's output, or the last x itself */
    es_mem *mean, *rstd;      /* (N) of Nf */
    es_mem *logits;           /* (R,V) of a block of es_model_loss_rows, rows
                                 es_model_logit_stride apart; their gradient
                                 in the backward pass */
    es_mem *row_loss, *lse;   /* (N) f32 */
    es_mem *wide;             /* (N,f) scratch: after the activation */
    es_mem *dx;               /* (N,d) gradient of the residual stream */
    es_mem *du;               /* (N,d) of a sub-block's input */
    es_mem *df;               /* (N,d) of the FFN's output, if it is scaled or
                                 dropped */
    es_mem *dheads;           /* (N,a) of the heads' outputs; du unless the
                                 sub-blocks are parallel, or a is not d */
    es_mem *dentropy;         /* (B,H,T) f32 of row entropies, if regularised */
    es_mem *ereg;             /* (1) f32 L_ent */
    es_mem *dwide;            /* (N, max(3a,f)) of pre or qkv */
    es_mem *between;          /* (N,d) middle of the layer under way, where
                                 details need it and no layer keeps it */
    es_mem *kept;             /* (N,d) a sub-block's output before dropout, and
                                 the gradient of the attention's; or NULL */
    es_row_mem rows;          /* (L,B,H,T) each; NULL: no such statistic */

    es_report report;
    struct es_polynomials *polynomials; /* NULL: inference is exact */
    struct es_ranks *ranks;             /* NULL: the host adds nothing up */
    float loss_scale;                   /* of the next es_model_begin */
    float *host_rows;                   /* (L,B,H,T), when first requested */
    float *host_logits;                 /* (N,V), when requested */

    int32_t *host_inputs; /* (n_host_inputs,2,B,T), of es_model_run_step */
    int host_targets[ES_MAX_UNROLLED]; /* n_targets of each of them */
    int n_host_inputs;
    es_mem *step_inputs; /* (n_unrolled,2,B,T) of a step in one sequence */
    int n_unrolled;      /* 0: there has been none */

    /* What the captured sequences were captured with. */
    bool has_captured_scale, has_captured_config;
    double captured_scale; /* of the gradients */
    es_train_config captured_config;

    es_mem *dweight; /* f32, of one normalised weight */
    int n_targets;   /* rows of the pass that have one */

    bool weights_are_stale; /* parameters have changed since they were made */
    bool copies_are_stale;  /* and not by adamw: the back-end's copies */
    bool iteration_is_due;  /* SNorm's, in the next training pass */

    bool is_updating;      /* a step is on its way that nobody has counted */
    bool can_go_back;      /* a forward pass with targets is there */
    bool has_loss;         /* and its loss is counted */
    bool defers_loss;      /* passes leave it to the backward pass, in a step */
    bool overwrites;       /* the next backward pass is the first one to zeroed
                              gradients: es_model_is_overwritten */
    bool reduces;          /* it is a step's last: es_model_reduce_layer */
    bool is_in_step;       /* operations belong to the sequence of a step */
    bool drops;            /* the last pass had dropout */
    uint64_t pass;         /* of the training: number of the next one */
    double gradient_scale; /* of the backward pass under way */
    uint32_t offset;       /* of this pass among those of a step's sequence */
};

/** Number of rows of a micro-batch. */
static inline int es_model_n_rows(const es_model *model)
{
    return model->config.batch * model->config.ctx;
}

/** I: capacity for the tokens of a micro-batch, or its pixels, and for its
 *  targets. */
static inline int es_model_n_inputs(const es_model *model)
{
    const int n = es_model_config_n_inputs(&model->config);
    return model->config.batch *
           (n > model->config.ctx ? n : model->config.ctx);
}

/** Elements from one row of logits to the next. */
static inline int es_model_logit_stride(const es_model *model)
{
    const int vocab = es_model_config_n_outputs(&model->config);
    return model->ops->row_stride ? model->ops->row_stride(vocab) : vocab;
}

/** An array of the model; NULL where the architecture has none. */
es_mem *es_model_value(const es_model *model, int layer, es_role role);
es_mem *es_model_gradient(const es_model *model, int layer, es_role role);

/** Where the positions of the first token begin; NULL: of NULL. */
static inline es_mem *es_model_positions(const es_model *model, es_mem *wpe)
{
    const es_model_config *config = &model->config;
    return wpe ? es_mem_at(wpe, (size_t)es_model_config_n_skipped(config) *
                                    (size_t)config->d_model * sizeof(float))
               : NULL;
}

/** Tokens that may be padding; NULL: none is. */
static inline const es_mem *es_model_padded(const es_model *model)
{
    return model->config.padding >= 0 ? model->tokens : NULL;
}

/** What operations are given. */
es_linear es_model_transform(const es_model *model); /* before the last norm */
es_linear es_model_patch(const es_model *model);     /* of a patch to its row */
es_image es_model_image(const es_model *model);
es_linear es_model_head(const es_model *model);
es_act es_model_act(const es_model *model, int layer);

/** Where the FFN's inner values are after the activation: scratch, or where
 *  they are kept, if there is none. */
es_mem *es_model_post(const es_model *model, int layer);
es_attention es_model_attention(const es_model *model, int layer);
es_sharing es_model_sharing(const es_model *model, int layer);
es_penalty es_model_penalty(const es_model *model, int layer);

/** Row statistics of one layer, (B,H,T) each. */
es_row_mem es_model_layer_rows(const es_model *model, int layer);

/** True unless ScFuFFNi x or e x has removed the layer's FFN. */
static inline bool es_model_has_ffn(const es_model *model, int layer)
{
    return es_arch_has_ffn(&model->config.arch, layer, model->config.n_layer);
}

/** True where alpha and beta scale the FFN and the residual. */
static inline bool es_model_is_scaled(const es_model *model)
{
    return model->config.arch.ffn != ES_FFN_TWO ||
           model->config.family == ES_FAMILY_SAS;
}

/** What the model's family is like. */
static inline const es_family_traits *es_model_traits(const es_model *model)
{
    return &es_families[model->config.family];
}

/** The matrix of the logits: embed_out, or wte where the two are tied. */
static inline es_role es_model_head_role(const es_model *model)
{
    return es_model_traits(model)->is_tied || model->config.tied
               ? ES_ROLE_WTE
               : ES_ROLE_EMBED_OUT;
}

/* model_forward.c */

/** Targets (B,T) that are there. */
int es_model_count_targets(const es_model *model, const int32_t *targets);

/** es_model_pass over what is in model->tokens and targets. */
void es_model_run_pass(es_model *model, bool has_targets, bool training);

/** y = residual + x where the pass keeps it; `back`: of gradients. */
void es_model_drop(const es_model *model, es_mem *y, const es_mem *residual,
                   const es_mem *x, int place, bool back);

/* model_backward.c */

/** es_model_backward after a pass with targets. */
void es_model_run_backward(es_model *model, double scale);

/** True if sequences are captured with this scale of the gradients: the first
 *  one that there was. */
bool es_model_captures_scale(es_model *model, double scale);

/* model_loss.c */

/** Rows of logits that are made at once, all of them at most. */
int es_model_loss_rows(const es_model *model);

/** The loss of a pass, counted. */
void es_model_loss(const es_model *model);

/** Leaves the gradient of Nf's output in du, where there is no Nf that of the
 *  last x in dx, and adds those of the head; `counts`: the loss is made, too.
 */
void es_model_loss_backward(const es_model *model, double scale, bool counts);

/* model_weights.c: normalised weights. */

/** Floats of the weight that stands for a parameter matrix of a layer; 0 where
 *  the parameter itself does. */
size_t es_model_normed_size(const es_model *model, int layer, es_matrix matrix);

/** The product with a matrix, or with the normalised weight that stands for
 *  it. */
es_linear es_model_linear(const es_model *model, int layer, es_matrix matrix);

/** Makes the normalised weights of this forward pass, if any has changed; the
 *  first training pass after a step takes SNorm's power iteration. */
void es_model_make_weights(es_model *model, bool training);

/** Adds to the gradients of a product's parameters, those of the
 *  normalisation included; y = x W + b, dy its gradient. */
void es_model_weight_gradient(const es_model *model, int layer,
                              es_matrix matrix, const es_mem *x,
                              const es_mem *dy);

/** True of parameters whose gradient a product makes, before anything else in
 *  a backward pass adds to it. */
bool es_model_is_overwritten(const es_model *model, const es_param *param);

/** Has the back-end keep the weights that products read. ES_OK, ES_ENOMEM. */
es_status es_model_keep_weights(const es_model *model) ES_MUST_USE;

/** Makes the copies of the parameters anew, where something else than adamw has
 *  changed them; not within a sequence. */
void es_model_refresh_copies(es_model *model);

/* report.c */

/** Memory for the report. ES_OK, ES_ENOMEM. */
es_status es_model_plan_report(es_model *model) ES_MUST_USE;

/** A part of the report's copy in the back-end's memory. */
es_mem *es_model_reported(const es_model *model, const void *part);

/** The report of a step that has been launched goes to the host behind it, and
 *  is waited for. */
bool es_model_fetches(const es_model *model);
void es_model_fetch_report(es_model *model);
es_status es_model_end_fetched(es_model *model, es_outcome *out) ES_MUST_USE;

/** es_model_begin but for the parameters. After a step that is still under way
 *  a 1 of `skips` stays. */
void es_model_begin_report(es_model *model, bool measure,
                           const es_train_config *train, double lr);

/** es_model_begin and es_model_end of a step after passes that have ended: the
 *  rest of the report stays. */
void es_model_begin_step(es_model *model, const es_train_config *train,
                         double lr);
es_status es_model_end_step(es_model *model, es_outcome *out) ES_MUST_USE;

/** Bytes of the report that are of interest between es_model_begin and
 *  es_model_end. */
size_t es_model_report_bytes(const es_model *model);

/** True if a known sequence has been run; otherwise its operations follow, and
 *  es_model_launch. Within a step that is one sequence they are its own. */
bool es_model_replays(const es_model *model, int sequence);
void es_model_launch(const es_model *model);

/* ranges.c */

/** Numbers in the report's `peaks`. */
size_t es_model_n_peaks(const es_model *model);

/** Where an operation is to leave it; NULL if nothing wants it. */
es_mem *es_model_sought_peak(const es_model *model, int layer,
                             es_peak_place place);

/** Looks for the largest, if anything wants it: of x (n) act; of the scores of
 *  the attention that has just been. */
void es_model_find_peak(const es_model *model, int layer, es_peak_place place,
                        const es_mem *x, size_t n);
void es_model_find_score_peak(const es_model *model, int layer);

/** Adds the gradient of its range loss, if there is one, to that of x, or of
 *  qkv, rotated. */
void es_model_pull_peak(const es_model *model, int layer, es_peak_place place,
                        es_mem *dx);
void es_model_pull_score_peak(const es_model *model, int layer, es_mem *dqkv);

/** All range losses, weighted; the mean over passes. */
double es_model_range_loss(const es_model *model);

/* model_ranks.c */

typedef struct es_ranks es_ranks;
void es_model_free_ranks(es_model *model);

/** Of a step of n_batches in each rank: how many there are in all; the number
 *  of micro-batch i in the training. */
int es_model_n_shared(const es_model *model, int n_batches);
uint64_t es_model_pass_number(const es_model *model, const es_step_plan *plan,
                              int i);

/** Of es_model_begin; of the step that it begins; after each of its passes
 *  backward; and before its update. As es_transport_add; ES_OK of a model that
 *  has no ranks. */
void es_model_begin_shared(es_model *model);
void es_model_begin_sums(es_model *model);
es_status es_model_add_batch(es_model *model) ES_MUST_USE;
es_status es_model_reduce(es_model *model) ES_MUST_USE;

/** True if sums are operations of the back-end. In the backward pass while
 *  model->reduces, when a layer's gradients are whole: they may go. Before
 *  anything is loaded: waits; as es_transport_check. */
bool es_model_reduces_by_device(const es_model *model);
void es_model_reduce_layer(const es_model *model, int layer);
es_status es_model_wait_ranks(es_model *model) ES_MUST_USE;

/** Of a copy of the report's first n_bytes that has just been loaded: adds up
 *  those of all ranks, if they are shared. As es_transport_gather. */
es_status es_model_join_reports(es_model *model, size_t n_bytes) ES_MUST_USE;

/* polynomial.c */

typedef struct es_polynomials es_polynomials;

/** Memory for them, where the configuration has them. ES_OK, ES_ENOMEM. */
es_status es_model_plan_polynomials(es_model *model) ES_MUST_USE;
void es_model_free_polynomials(es_model *model);

/** Of passes between es_model_begin and es_model_end: what is found. */
void es_model_begin_polynomials(const es_model *model);
void es_model_end_polynomials(const es_model *model);

/** What a pass does at its norms, its attention and, of pre, its activations:
 *  true, and y, the heads or post are made by a polynomial; or false, and what
 *  goes in has been looked at, if that is on. */
bool es_model_norm_polynomial(const es_model *model, es_mem *y, const es_mem *x,
                              int layer, es_role weight);
bool es_model_attention_polynomial(const es_model *model, int layer,
                                   const es_row_mem *rows);
bool es_model_act_polynomial(const es_model *model, es_mem *post,
                             const es_mem *pre, int layer);

/** True if es_model_act_polynomial would make post. */
bool es_model_acts_by_polynomial(const es_model *model, int layer);

/* parameter_series.c */

/** Floats that the series of parameters are made of. */
size_t es_model_n_reported(const es_model *model);

/** Copies them as they are now into the report. */
void es_model_report_parameters(const es_model *model);

/* details.c */

/** Matrix i of ES_N_NORMED, in the order of sigma_q .. g_proj. The fused FFN
 *  stands in the place of the first one. */
es_normed es_model_normed(const es_arch *arch, int i);

/** True if measured passes take any. */
bool es_model_has_details(const es_model *model);

/** Those of a layer's attention, and the sums of its heads, while a cache has
 *  what attention has just left. */
void es_model_detail_attention(const es_model *model, int layer);

/** Those of the block's output, which has just been written. */
void es_model_detail_block(const es_model *model, int layer);

/** Those of the weights that the last pass had, if they are due. */
void es_model_detail_weights(es_model *model);

/** Those of a step that has just been taken. */
void es_model_detail_step(es_model *model, const es_train_config *train);

/* model_step.c */

/** What AdamW is given for a group of parameters. */
es_adamw es_model_adamw(const es_train_config *train, es_param_group group);

/** Allocates and carves everything but the parameters. ES_OK, ES_ENOMEM. */
es_status es_model_plan(es_model *model) ES_MUST_USE;

#endif
