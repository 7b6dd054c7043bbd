/* What a model costs, counted from its shape alone: for figures of cost. */
#include "analyzer/arch/flops.h"

#include <math.h>

static bool has_sizes(const es_cost_shape *shape)
{
    return shape->n_layer >= 1 && shape->n_head >= 1 && shape->d_model >= 1 &&
           shape->mlp_mult >= 1;
}

/* Layers that have an FFN. */
static double count_ffns(const es_cost_shape *shape)
{
    return fmax(0, (double)(shape->n_layer - shape->arch.n_removed));
}

/* Weights of one FFN. */
static double ffn_weights(const es_cost_shape *shape)
{
    double d = (double)shape->d_model;
    return shape->arch.ffn == ES_FFN_FUSED
               ? d * d
               : 2 * (double)shape->mlp_mult * d * d;
}

es_flops es_flops_forward(const es_cost_shape *shape, int64_t ctx)
{
    double d = (double)shape->d_model, n_tokens = (double)ctx;
    if (!has_sizes(shape) || ctx < 1)
        return (es_flops){NAN, NAN};
    double attention = 8 * d * d + 2 * n_tokens * d + d * (n_tokens + 1);
    return (es_flops){
        .ffn = 2 * ffn_weights(shape) * count_ffns(shape) * n_tokens,
        .attention = attention * (double)shape->n_layer * n_tokens};
}

double es_cost_weights(const es_cost_shape *shape)
{
    double d = (double)shape->d_model;
    if (!has_sizes(shape))
        return NAN;
    return 4 * d * d * (double)shape->n_layer +
           ffn_weights(shape) * count_ffns(shape);
}

double es_cost_nonlinear(const es_cost_shape *shape, int64_t ctx)
{
    double d = (double)shape->d_model, n_tokens = (double)ctx;
    double n_layers = (double)shape->n_layer, n_ffns = count_ffns(shape);
    if (!has_sizes(shape) || ctx < 1)
        return NAN;
    double n = n_layers * (double)shape->n_head * n_tokens * n_tokens;
    if (shape->arch.layer_norm)
        n += (n_layers + n_ffns) * n_tokens * d;
    if (shape->arch.activation != ES_ACT_LINEAR)
        n += n_ffns * n_tokens * (double)shape->mlp_mult * d;
    return n;
}
