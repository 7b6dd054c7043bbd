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

double es_cost_n_projections(const es_cost_shape *shape)
{
    return (shape->simplified ? 2 : 4) + (shape->arch.gate ? 1 : 0);
}

static void count_layers(es_layer_counts *to, const es_layer_parts *parts,
                         bool has_ffn, double n)
{
    const double n_ffns = has_ffn ? n : 0;
    to->normed += parts->norm ? n : 0;
    to->norms += parts->norm ? n + n_ffns : 0;
    to->ffns += n_ffns;
    to->fused += parts->ffn == ES_FFN_FUSED ? n_ffns : 0;
    switch (parts->activation) {
    case ES_ACT_LINEAR:
        break;
    case ES_ACT_GELU:
    case ES_ACT_GELU_TANH:
    case ES_ACT_GELU_SIGMOID:
        to->gelus += n_ffns;
        break;
    case ES_ACT_RELU:
    case ES_ACT_LEAKY:
        to->relus += n_ffns;
        break;
    case ES_ACT_SWIGLU:
        to->swiglus += n_ffns;
        break;
    }
}

es_layer_counts es_cost_count_layers(const es_cost_shape *shape)
{
    const es_arch *arch = &shape->arch;
    const int64_t n_layer = shape->n_layer;
    es_layer_counts out = {.norms = 0};
    for (int64_t layer = 0, next; layer < n_layer; layer = next) {
        const es_layer_parts parts = es_arch_parts(arch, layer);
        next = es_arch_next_change(arch, layer, n_layer);
        count_layers(&out, &parts, es_arch_has_ffn(arch, layer, n_layer),
                     (double)(next - layer));
    }
    return out;
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

/* Counts the weights of all FFNs. */
static double ffn_weights(const es_cost_shape *shape)
{
    const double d = (double)shape->d_model;
    const es_layer_counts n = es_cost_count_layers(shape);
    return n.fused * d * d +
           (2 * (n.ffns - n.fused) + n.swiglus) * d * es_cost_ffn_width(shape);
}

es_flops es_flops_forward(const es_cost_shape *shape, int64_t ctx)
{
    const double n_tokens = (double)ctx;
    if (!es_cost_has_sizes(shape) || ctx < 1)
        return (es_flops){NAN, NAN};
    const double a = es_cost_query_width(shape), causal = a * (n_tokens + 1);
    const double scores = shape->simplified ? causal : 2 * n_tokens * a;
    const double attention = 2 * attention_weights(shape) + scores + causal;
    return (es_flops){.ffn = 2 * ffn_weights(shape) * n_tokens,
                      .attention =
                          attention * (double)shape->n_layer * n_tokens};
}

double es_cost_weights(const es_cost_shape *shape)
{
    if (!es_cost_has_sizes(shape))
        return NAN;
    return attention_weights(shape) * (double)shape->n_layer +
           ffn_weights(shape);
}
