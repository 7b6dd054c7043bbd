/* Counts operations and weights of a model from its shape alone, for cost
   figures. */
#include "analyzer/cost/flops.h"

#include <math.h>

bool es_cost_has_sizes(const es_cost_shape *shape)
{
    return shape->n_layer >= 1 && shape->n_head >= 1 && shape->d_model >= 1 &&
           shape->mlp_mult >= 1 && shape->d_ff >= 0 && shape->n_kv_head >= 0 &&
           shape->d_head >= 0;
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

typedef enum kind { NONE, GELU, RELU, SWIGLU } kind;

static kind kind_of(es_activation activation)
{
    if (activation == ES_ACT_LINEAR || activation == ES_ACT_SWIGLU)
        return activation == ES_ACT_LINEAR ? NONE : SWIGLU;
    return activation == ES_ACT_GELU || activation == ES_ACT_GELU_TANH ||
                   activation == ES_ACT_GELU_SIGMOID
               ? GELU
               : RELU;
}

/* Counts the layers with an activation of the kind `wanted`. Loops over ranges
   instead of layers, because a file may declare any number of layers. */
static double count_activations(const es_cost_shape *shape, kind wanted)
{
    const es_arch *arch = &shape->arch;
    double n = 0;
    if (arch->n_spans == 0)
        return kind_of(arch->activation) == wanted ? es_cost_n_ffns(shape) : 0;
    for (int i = 0; i < arch->n_spans; i++) {
        const double end =
            fmin((double)arch->spans[i].last + 1, (double)shape->n_layer);
        if (kind_of(arch->spans[i].activation) == wanted)
            n += fmax(0, end - (double)arch->spans[i].first);
    }
    return n;
}

double es_cost_n_gelus(const es_cost_shape *shape)
{
    return count_activations(shape, GELU);
}

double es_cost_n_relus(const es_cost_shape *shape)
{
    return count_activations(shape, RELU);
}

double es_cost_n_swiglus(const es_cost_shape *shape)
{
    return count_activations(shape, SWIGLU);
}

double es_cost_ffn_width(const es_cost_shape *shape)
{
    return shape->d_ff ? (double)shape->d_ff
                       : (double)shape->mlp_mult * (double)shape->d_model;
}

double es_cost_query_width(const es_cost_shape *shape)
{
    return shape->d_head ? (double)shape->d_head * (double)shape->n_head
                         : (double)shape->d_model;
}

double es_cost_key_width(const es_cost_shape *shape)
{
    const double n =
        (double)(shape->n_kv_head ? shape->n_kv_head : shape->n_head);
    return es_cost_query_width(shape) * n / (double)shape->n_head;
}

/* Counts the weights of one layer's attention. */
static double attention_weights(const es_cost_shape *shape)
{
    const double d = (double)shape->d_model;
    const double keys = es_cost_key_width(shape);
    const double queries = es_cost_query_width(shape);
    /* Number of weight matrices beyond the usual four; negative if there are
     * fewer than four. */
    const double more = es_cost_n_projections(shape) - 4;
    return 2 * d * (queries + keys) + more * d * d;
}

/* Counts the weights of one FFN. */
static double ffn_weights(const es_cost_shape *shape)
{
    double d = (double)shape->d_model;
    return shape->arch.ffn == ES_FFN_FUSED
               ? d * d
               : (shape->arch.activation == ES_ACT_SWIGLU ? 3 : 2) * d *
                     es_cost_ffn_width(shape);
}

es_flops es_flops_forward(const es_cost_shape *shape, int64_t ctx)
{
    const double n_tokens = (double)ctx;
    if (!es_cost_has_sizes(shape) || ctx < 1)
        return (es_flops){NAN, NAN};
    const double a = es_cost_query_width(shape), causal = a * (n_tokens + 1);
    const double scores = shape->simplified ? causal : 2 * n_tokens * a;
    const double attention = 2 * attention_weights(shape) + scores + causal;
    return (es_flops){
        .ffn = 2 * ffn_weights(shape) * es_cost_n_ffns(shape) * n_tokens,
        .attention = attention * (double)shape->n_layer * n_tokens};
}

double es_cost_weights(const es_cost_shape *shape)
{
    if (!es_cost_has_sizes(shape))
        return NAN;
    return attention_weights(shape) * (double)shape->n_layer +
           ffn_weights(shape) * es_cost_n_ffns(shape);
}
