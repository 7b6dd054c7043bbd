/*
 * Lists the operations of a forward pass and predicts its communication and
 * latency: multiplies the counts of analyzer/cost/flops.h by the coefficients
 * that `make cost-fit` writes into coefficients.inc.h. Used by the verb cost,
 * by the figures, and for the cost fields of runs.
 */
#include "analyzer/cost/cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes or seconds per unit of an item, with the standard deviation. The
   coefficients of one group are fixed multiples of a single fitted number, so
   their errors are correlated. */
typedef struct coefficient {
    double value, deviation;
    int group;
} coefficient;

typedef struct span {
    int64_t least, most;
} span;

#include "analyzer/cost/coefficients.inc.h"

/* Additional relative error for widths and lengths outside the fitted range.
   This is an estimate, because no published figures exist to check it. */
#define OUTSIDE 0.15

const char *es_cost_item_name(es_cost_item item)
{
    static const char *const names[ES_N_COST_ITEMS] = {
        [ES_COST_SOFTMAX] = "softmax", [ES_COST_LAYER_NORM] = "LayerNorm",
        [ES_COST_GELU] = "GELU",       [ES_COST_RELU] = "ReLU",
        [ES_COST_LINEAR] = "linear",   [ES_COST_OUTPUT] = "output",
        [ES_COST_FIXED] = "fixed"};
    return names[item];
}

/* --- counts ---------------------------------------------------------------*/

static bool has_sizes(const es_cost_model *model)
{
    return es_cost_has_sizes(&model->shape) && model->ctx >= 1;
}

bool es_cost_counts_final_norm(const es_cost_model *model)
{
    const double n_normed = es_cost_count_layers(&model->shape).normed;
    const bool exists = model->final_norm == ES_COST_FINAL_AUTO
                            ? n_normed > 0
                            : model->final_norm == ES_COST_FINAL_ON;
    return exists && n_normed < (double)model->shape.n_layer;
}

static double count_norms(const es_cost_model *model)
{
    const es_layer_counts n = es_cost_count_layers(&model->shape);
    const bool is_first_normed = es_arch_parts(&model->shape.arch, 0).norm;
    const double own =
        model->first_norm ? n.normed + !is_first_normed : n.norms;
    return own + es_cost_counts_final_norm(model);
}

/* Count the values per token that enter and leave the weight matrices: those of
 * all FFNs, and those of one layer's attention. */
static double ffn_numbers(const es_cost_shape *shape)
{
    const double d = (double)shape->d_model;
    const es_layer_counts n = es_cost_count_layers(shape);
    return n.fused * 2 * d + (2 * (n.ffns - n.fused) + n.swiglus) *
                                 (es_cost_ffn_width(shape) + d);
}

static double attention_numbers(const es_cost_shape *shape)
{
    const double d = (double)shape->d_model;
    /* Number of weight matrices beyond the usual four; negative if there are
     * fewer than four. */
    const double more = es_cost_n_projections(shape) - 4;
    return 2 * (es_cost_query_width(shape) + es_cost_key_width(shape)) +
           (4 + 2 * more) * d;
}

void es_cost_count(double out[ES_N_COST_ITEMS], const es_cost_model *model)
{
    const es_cost_shape *shape = &model->shape;
    const bool sized = has_sizes(model);
    const double layers = (double)shape->n_layer, t = (double)model->ctx;
    const double td = t * (double)shape->d_model;
    const double tmd = t * (sized ? es_cost_ffn_width(shape) : 0);
    for (int i = 0; i < ES_N_COST_ITEMS; i++)
        out[i] = NAN;
    if (!sized)
        return;
    out[ES_COST_SOFTMAX] = layers * (double)shape->n_head * t * t;
    out[ES_COST_LAYER_NORM] = count_norms(model) * td;
    const es_layer_counts n = es_cost_count_layers(shape);
    out[ES_COST_GELU] = n.gelus * tmd;
    out[ES_COST_RELU] = n.relus * tmd;
    out[ES_COST_LINEAR] =
        t * (layers * attention_numbers(shape) + ffn_numbers(shape));
    if (model->vocab >= 1)
        out[ES_COST_OUTPUT] = t * (double)model->vocab;
    out[ES_COST_FIXED] = 1;
}

/* --- the inventory --------------------------------------------------------*/

typedef struct listing {
    es_cost_line *lines;
    size_t n;
} listing;

static void list(listing *to, const char *kind, double n, double rows,
                 double inner, double columns)
{
    if (n > 0)
        to->lines[to->n++] = (es_cost_line){.kind = kind,
                                            .product = inner > 0,
                                            .n = n,
                                            .rows = rows,
                                            .inner = inner,
                                            .columns = columns};
}

size_t es_cost_inventory(es_cost_line out[ES_COST_LINES_MAX],
                         const es_cost_model *model)
{
    static const char *const attentions[] = {"SM", "PSM", "RA"};
    const es_cost_shape *shape = &model->shape;
    const double t = (double)model->ctx, d = (double)shape->d_model;
    const double layers = (double)shape->n_layer;
    const double heads = layers * (double)shape->n_head;
    const es_layer_counts n = es_cost_count_layers(shape);
    listing to = {.lines = out};
    if (!has_sizes(model))
        return 0;
    const double md = es_cost_ffn_width(shape);
    const double queries = es_cost_query_width(shape);
    const double keys = es_cost_key_width(shape);
    const double dk = floor(queries / (double)shape->n_head);
    const bool own_widths = shape->d_head > 0 || shape->n_kv_head > 0;
    list(&to, attentions[shape->arch.attention], heads, t, 0, t);
    list(&to, shape->arch.rms_norm ? "RN" : "LN", count_norms(model), t, 0, d);
    list(&to, "G", n.gelus, t, 0, md);
    list(&to, "R", n.relus, t, 0, md);
    list(&to, "SwiGLU", n.swiglus, t, 0, md);
    list(&to, "gate", shape->arch.gate ? (double)shape->n_layer : 0, t, 0, d);
    list(&to, "projections",
         own_widths ? 0 : layers * es_cost_n_projections(shape), t, d, d);
    list(&to, "queries", own_widths ? layers : 0, t, d, queries);
    list(&to, "keys, values", own_widths ? 2 * layers : 0, t, d, keys);
    list(&to, "heads out", own_widths ? layers : 0, t, queries, d);
    list(&to, "scores", heads, t, dk, t);
    list(&to, "values", heads, t, t, dk);
    list(&to, "FFN fused", n.fused, t, d, d);
    list(&to, "FFN in", n.ffns - n.fused + n.swiglus, t, d, md);
    list(&to, "FFN out", n.ffns - n.fused, t, md, d);
    list(&to, "output", model->vocab >= 1, t, d, (double)model->vocab);
    return to.n;
}

char *es_cost_line_print(char out[ES_COST_LINE_MAX], const es_cost_line *line)
{
    if (line->product)
        snprintf(out, ES_COST_LINE_MAX, "%s: %.0f x R^%.0fx%.0f R^%.0fx%.0f",
                 line->kind, line->n, line->rows, line->inner, line->inner,
                 line->columns);
    else
        snprintf(out, ES_COST_LINE_MAX, "%s: %.0f x R^%.0fx%.0f", line->kind,
                 line->n, line->rows, line->columns);
    return out;
}

/* --- modelled costs ------------------------------------------------------- */

const char *es_cost_unmodelled(const es_cost_model *model)
{
    if (!has_sizes(model))
        return "a size is unknown";
    if (model->shape.arch.attention == ES_POWER_SOFTMAX)
        return "no published figures for PowerSoftmax";
    if (model->shape.arch.attention == ES_SCALED_RELU)
        return "no published figures for scaled ReLU attention";
    if (model->shape.arch.rms_norm)
        return "no published figures for RMSNorm";
    if (es_cost_count_layers(&model->shape).swiglus > 0)
        return "no published figures for SwiGLU";
    if (model->shape.arch.gate)
        return "no published figures for a sigmoid gate";
    return model->vocab < 1 ? "the vocabulary is unknown" : NULL;
}

static bool is_within(int64_t value, span range)
{
    return value >= range.least && value <= range.most;
}

bool es_cost_is_fitted(const es_cost_model *model)
{
    const es_cost_shape *shape = &model->shape;
    return is_within(shape->n_layer, fitted_layers) &&
           is_within(shape->n_head, fitted_heads) &&
           is_within(shape->d_model, fitted_width) &&
           is_within(shape->mlp_mult, fitted_mult) &&
           is_within(model->ctx, fitted_ctx) &&
           is_within(model->vocab, fitted_vocab);
}

void es_cost_parts(double out[ES_N_COST_ITEMS], es_cost_kind kind,
                   const es_cost_model *model)
{
    const bool known = es_cost_unmodelled(model) == NULL;
    es_cost_count(out, model);
    for (int i = 0; i < ES_N_COST_ITEMS; i++)
        out[i] = known ? out[i] * coefficients[kind][i].value : NAN;
}

/* Returns the variance of the logarithm of a model's cost `sum`; `parts` are
   its costs by item. If `other`, the costs by item of a second model, is not
   NULL, returns the variance of the logarithm of the ratio of the two costs;
   errors of items with equal shares in both costs cancel. */
static double spread(es_cost_kind kind, const double *parts, double sum,
                     const double *other, double other_sum)
{
    double variance = residual[kind] * residual[kind] * (other ? 2 : 1);
    double groups[ES_N_COST_ITEMS] = {0};
    for (int i = 0; i < ES_N_COST_ITEMS; i++) {
        const coefficient *c = &coefficients[kind][i];
        const double share =
            parts[i] / sum - (other ? other[i] / other_sum : 0);
        if (c->value > 0)
            groups[c->group] += share * c->deviation / c->value;
    }
    for (int i = 0; i < ES_N_COST_ITEMS; i++)
        variance += groups[i] * groups[i];
    return variance;
}

static es_modelled interval(double value, double variance, bool fitted)
{
    const double outside = fitted ? 0 : OUTSIDE;
    const double half = value * sqrt(4 * variance + outside * outside);
    return (es_modelled){value, fmax(0, value - half), value + half};
}

static double add_up(const double parts[ES_N_COST_ITEMS])
{
    double sum = 0;
    for (int i = 0; i < ES_N_COST_ITEMS; i++)
        sum += parts[i];
    return sum;
}

es_modelled es_cost_of_numbers(es_cost_kind kind, es_cost_item item, double n)
{
    double parts[ES_N_COST_ITEMS] = {0};
    parts[item] = n * coefficients[kind][item].value;
    if (!(parts[item] > 0))
        return (es_modelled){parts[item], parts[item], parts[item]};
    return interval(parts[item], spread(kind, parts, parts[item], NULL, 0),
                    false);
}

es_modelled es_cost_predict(es_cost_kind kind, const es_cost_model *model)
{
    double parts[ES_N_COST_ITEMS];
    es_cost_parts(parts, kind, model);
    const double sum = add_up(parts);
    if (isnan(sum))
        return (es_modelled){NAN, NAN, NAN};
    return interval(sum, spread(kind, parts, sum, NULL, 0),
                    es_cost_is_fitted(model));
}

es_modelled es_cost_saving(es_cost_kind kind, const es_cost_model *base,
                           const es_cost_model *model)
{
    double ours[ES_N_COST_ITEMS], theirs[ES_N_COST_ITEMS];
    es_cost_parts(theirs, kind, base);
    es_cost_parts(ours, kind, model);
    const double sum = add_up(ours), base_sum = add_up(theirs);
    if (isnan(sum) || isnan(base_sum))
        return (es_modelled){NAN, NAN, NAN};
    if (memcmp(ours, theirs, sizeof ours) == 0)
        return (es_modelled){1, 1, 1};
    return interval(base_sum / sum, spread(kind, ours, sum, theirs, base_sum),
                    es_cost_is_fitted(base) && es_cost_is_fitted(model));
}
