/* What a model costs, counted from its shape alone: for figures of cost. */
#include "analyzer/cost/flops.h"

#include <math.h>

bool es_cost_has_sizes(const es_cost_shape *shape)
{
    return shape->n_layer >= 1 && shape->n_head >= 1 && shape->d_model >= 1 &&
           shape->mlp_mult >= 1;
}

double es_cost_n_ffns(const es_cost_shape *shape)
{
    return fmax(0, (double)(shape->n_layer - shape->arch.n_removed -
                            shape->arch.n_removed_first));
}

double es_cost_n_projections(const es_cost_shape *shape)
{
    return (shape->simplified ? 2 : 4) + (shape->arch.gate ? 1 : 0);
}

static bool is_gelu(es_activation activation)
{
    return activation == ES_ACT_GELU || activation == ES_ACT_GELU_TANH ||
           activation == ES_ACT_GELU_SIGMOID;
}

/* By ranges and not layer by layer: a file may say any number of layers. */
static double count_activations(const es_cost_shape *shape, bool gelu)
{
    const es_arch *arch = &shape->arch;
    double n = 0;
    if (arch->n_spans == 0)
        return arch->activation == ES_ACT_LINEAR ||
                       is_gelu(arch->activation) != gelu
                   ? 0
                   : es_cost_n_ffns(shape);
    for (int i = 0; i < arch->n_spans; i++) {
        const double end =
            fmin((double)arch->spans[i].last + 1, (double)shape->n_layer);
        if (is_gelu(arch->spans[i].activation) == gelu)
            n += fmax(0, end - (double)arch->spans[i].first);
    }
    return n;
}

double es_cost_n_gelus(const es_cost_shape *shape)
{
    return count_activations(shape, true);
}

double es_cost_n_relus(const es_cost_shape *shape)
{
    return count_activations(shape, false);
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
    if (!es_cost_has_sizes(shape) || ctx < 1)
        return (es_flops){NAN, NAN};
    double scores = shape->simplified ? d * (n_tokens + 1) : 2 * n_tokens * d;
    double attention =
        2 * es_cost_n_projections(shape) * d * d + scores + d * (n_tokens + 1);
    return (es_flops){
        .ffn = 2 * ffn_weights(shape) * es_cost_n_ffns(shape) * n_tokens,
        .attention = attention * (double)shape->n_layer * n_tokens};
}

double es_cost_weights(const es_cost_shape *shape)
{
    double d = (double)shape->d_model;
    if (!es_cost_has_sizes(shape))
        return NAN;
    return es_cost_n_projections(shape) * d * d * (double)shape->n_layer +
           ffn_weights(shape) * es_cost_n_ffns(shape);
}
