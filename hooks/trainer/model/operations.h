/** Finds the arrays of a model, describes the operands of operations, and runs
 *  captured sequences of operations. */
#ifndef ES_MODEL_OPERATIONS_H
#define ES_MODEL_OPERATIONS_H

#include "hooks/trainer/model/model_internal.h"

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

/** Returns false if NoFFN, ScFuFFNi x or ScFuFFNe x removes the layer's FFN. */
static inline bool es_model_has_ffn(const es_model *model, int layer)
{
    return es_arch_has_ffn(&model->config.arch, layer, model->config.n_layer);
}

/** Returns true if alpha and beta scale the layer's FFN and residual stream. */
static inline bool es_model_is_scaled(const es_model *model, int layer)
{
    return es_params_find(&model->params, layer, ES_ROLE_ALPHA);
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

/* --- captured sequences --------------------------------------------------- */

/** Numbers of the sequences of operations that can be captured. Each name is
 *  the first of several numbers; the sequences with the following numbers are
 *  variants. */
enum {
    ES_SEQUENCE_WEIGHTS, /* computes normalised weights; add 1 if the sequence
                            includes a power iteration of SNorm */
    /* forward pass; add 1 if it computes the loss, and 2 if it is measured */
    ES_SEQUENCE_FORWARD = 2,
    /* backward pass; add 1 if it computes the loss, and 2 if it is the first
     * backward pass of a step */
    ES_SEQUENCE_BACKWARD = 6,
    ES_SEQUENCE_UPDATE = 10, /* update of the parameters; add 1 if it may be
                              * skipped */
    ES_SEQUENCE_PARAMETERS = 12,
    ES_SEQUENCE_STEP, /* a whole step; add 1 if the update may be skipped, and 2
                         if the passes are measured */
    /* forward pass with dropout; add the same numbers as to
       ES_SEQUENCE_FORWARD */
    ES_SEQUENCE_DROPPING = 17
};

/** es_model_replays runs the sequence if it has been captured, and returns
 *  true; otherwise the caller must issue the sequence's operations and call
 *  es_model_launch. While a whole step is captured, the operations become part
 *  of the step's sequence. */
bool es_model_replays(const es_model *model, int sequence);
void es_model_launch(const es_model *model);

#endif
