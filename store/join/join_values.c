/* Combines several values of one head, layer or run. Head statistics are
 * combined by the reductions in analyzer/heads, other series by the rules in
 * this file. */
#include "analyzer/base/value.h"
#include "analyzer/heads/heads.h"
#include "store/join/join_internal.h"

#include <math.h>
#include <string.h>

static es_join_rule rule_of_head(es_head_series series)
{
    switch (es_head_reduction_of(series)) {
    case ES_HEADS_MEAN:
    case ES_HEADS_SINKS:
        return ES_JOIN_MEAN_OF_ROWS;
    case ES_HEADS_LOWEST_MEAN:
        return ES_JOIN_LOWEST;
    case ES_HEADS_HIGHEST_MEAN:
    case ES_HEADS_LARGEST:
        return ES_JOIN_HIGHEST;
    case ES_HEADS_SUM:
    case ES_HEADS_NOT_FINITE:
        return ES_JOIN_SUM;
    }
    return ES_JOIN_SAME;
}

es_join_rule es_join_rule_of(const char *series, es_shape shape)
{
    static const struct {
        const char *name;
        es_shape shape;
        es_join_rule rule;
    } others[] = {
        {"finite_rows", ES_SHAPE_HEAD, ES_JOIN_SUM},
        {"nan_activations", ES_SHAPE_LAYER, ES_JOIN_SUM},
        {"act_max", ES_SHAPE_LAYER, ES_JOIN_HIGHEST},
        {"router_entropy", ES_SHAPE_LAYER, ES_JOIN_MEAN},
        {"load_balancing_loss", ES_SHAPE_LAYER, ES_JOIN_MEAN},
        {"dropped_tokens", ES_SHAPE_LAYER, ES_JOIN_MEAN},
        {"loss", ES_SHAPE_RUN, ES_JOIN_MEAN},
        {"ce", ES_SHAPE_RUN, ES_JOIN_MEAN},
        {"ereg", ES_SHAPE_RUN, ES_JOIN_MEAN},
        {"range", ES_SHAPE_RUN, ES_JOIN_MEAN},
        {"range_attn", ES_SHAPE_LAYER, ES_JOIN_HIGHEST},
        {"range_act", ES_SHAPE_LAYER, ES_JOIN_HIGHEST},
        {"range_norm", ES_SHAPE_LAYER, ES_JOIN_HIGHEST},
        {"tokens_per_s", ES_SHAPE_RUN, ES_JOIN_SUM},
        {"ce_exact", ES_SHAPE_RUN, ES_JOIN_MEAN},
        {"clipped_attn", ES_SHAPE_LAYER, ES_JOIN_SUM},
        {"clipped_act", ES_SHAPE_LAYER, ES_JOIN_SUM},
        {"clipped_norm", ES_SHAPE_LAYER, ES_JOIN_SUM},
        {"approx_error_attn", ES_SHAPE_LAYER, ES_JOIN_HIGHEST},
        {"approx_error_act", ES_SHAPE_LAYER, ES_JOIN_HIGHEST},
        {"approx_error_norm", ES_SHAPE_LAYER, ES_JOIN_HIGHEST},
    };
    const es_head_statistic *head = es_head_statistic_find(series);
    if (head && shape == ES_SHAPE_HEAD)
        return rule_of_head((es_head_series)(head - es_head_statistics));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (shape == others[i].shape && strcmp(series, others[i].name) == 0)
            return others[i].rule;
    return ES_JOIN_SAME;
}

static bool is_same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

void es_join_add(es_join_cell *cell, es_join_rule rule, float value,
                 double rows)
{
    const double x = (double)value;
    if (es_is_missing(value))
        return;
    if (cell->n++ == 0)
        cell->first = value;
    switch (rule) {
    case ES_JOIN_MEAN_OF_ROWS:
        if (!(rows >= 0))
            cell->has_no_value = true;
        else if (rows > 0)
            cell->sum += x * rows;
        cell->weight += rows > 0 ? rows : 0;
        break;
    case ES_JOIN_LOWEST: /* fmin and fmax return x if the value so far is NaN */
        cell->sum = cell->n == 1 ? x : fmin(cell->sum, x);
        break;
    case ES_JOIN_HIGHEST:
        cell->sum = cell->n == 1 ? x : fmax(cell->sum, x);
        break;
    case ES_JOIN_SUM:
    case ES_JOIN_MEAN:
        cell->sum += x;
        break;
    case ES_JOIN_SAME:
        cell->has_no_value |= !is_same(value, cell->first);
        break;
    }
}

float es_join_value(const es_join_cell *cell, es_join_rule rule,
                    bool *has_no_rule)
{
    if (cell->n == 0)
        return es_missing();
    if (cell->n == 1 || (rule == ES_JOIN_SAME && !cell->has_no_value))
        return cell->first;
    if (cell->has_no_value) {
        *has_no_rule = true;
        return es_missing();
    }
    switch (rule) {
    case ES_JOIN_MEAN_OF_ROWS:
        return cell->weight > 0 ? (float)(cell->sum / cell->weight) : NAN;
    case ES_JOIN_MEAN:
        return (float)(cell->sum / cell->n);
    default:
        return (float)cell->sum;
    }
}
