/* Defines the names, defaults and workspace of rules. rules_judge.c applies the
   rules to samples. */
#include "analyzer/base/checked.h"
#include "analyzer/flags/rules_internal.h"
#include "analyzer/heads/bands.h"

#include <math.h>
#include <string.h>

const char *es_rule_aggregate_name(es_rule_aggregate aggregate)
{
    static const char *const names[] = {
        [ES_RULE_HEAD] = "head",           [ES_RULE_LAYER_MEAN] = "layer_mean",
        [ES_RULE_LAYER_MIN] = "layer_min", [ES_RULE_LAYER_MAX] = "layer_max",
        [ES_RULE_SHARE] = "share",         [ES_RULE_RUN] = "run",
    };
    return names[aggregate];
}

const char *es_rule_comparison_name(es_rule_comparison comparison)
{
    static const char *const names[] = {
        [ES_RULE_ABOVE] = "above",
        [ES_RULE_BELOW] = "below",
        [ES_RULE_AT_LEAST] = "at_least",
        [ES_RULE_AT_MOST] = "at_most",
    };
    return names[comparison];
}

const char *es_rule_reference_name(es_rule_reference reference)
{
    static const char *const names[] = {
        [ES_RULE_NUMBER] = "",
        [ES_RULE_CEILING] = "ceiling",
        [ES_RULE_HISTORY] = "history",
        [ES_RULE_BASELINE] = "baseline",
    };
    return names[reference];
}

const char *es_rule_action_name(es_rule_action action)
{
    return action == ES_RULE_STOP ? "stop" : "none";
}

void es_rule_default(es_rule *out)
{
    *out = (es_rule){
        .aggregate = ES_RULE_HEAD,
        .share = 0.5,
        .end = NAN,
        .samples = 1,
        .severity = ES_SEVERITY_WARNING,
    };
}

double es_rule_worse(const es_rule *rule, double a, double b)
{
    bool low = rule->comparison == ES_RULE_BELOW ||
               rule->comparison == ES_RULE_AT_MOST;
    return low && rule->aggregate != ES_RULE_SHARE ? fmin(a, b) : fmax(a, b);
}

bool es_rule_fits(const es_rule *rule, const es_judge_run *run, size_t n)
{
    size_t n_layers = (size_t)run->n_layers, n_values;
    if (!es_size_mul(&n_values, n_layers, (size_t)run->n_heads))
        return false;
    switch (rule->aggregate) {
    case ES_RULE_RUN:
        return n == 1;
    case ES_RULE_HEAD:
    case ES_RULE_SHARE:
        return n == n_values;
    default:
        return n == n_values || n == n_layers;
    }
}

static size_t count_units(const es_rule *rule, size_t n_layers, size_t n_heads)
{
    switch (rule->aggregate) {
    case ES_RULE_HEAD:
        return n_layers * n_heads;
    case ES_RULE_SHARE:
    case ES_RULE_RUN:
        return 1;
    default:
        return n_layers;
    }
}

/* Returns the first step to which the rule is applied. */
static int64_t end_of_warm_up(const es_rule *rule, const es_judge_run *run)
{
    double of_planned = run->planned_steps > 0
                            ? ceil(rule->warm_up * (double)run->planned_steps)
                            : 0;
    if (of_planned >= 0x1p62)
        return INT64_MAX;
    return of_planned > (double)rule->warm_up_end ? (int64_t)of_planned
                                                  : rule->warm_up_end;
}

/* Assigns parts of one block of memory. Without a base address, only adds up
   the sizes of the parts. */
typedef struct workspace_carver {
    unsigned char *base;
    size_t used;
    bool overflow;
} workspace_carver;

static void *carve_array(workspace_carver *carver, size_t n, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    size_t bytes, end;
    if (carver->overflow || !es_size_mul(&bytes, n, size) ||
        !es_size_add(&bytes, bytes, align - 1) ||
        !es_size_add(&end, carver->used, bytes / align * align)) {
        carver->overflow = true;
        return NULL;
    }
    void *part = carver->base ? carver->base + carver->used : NULL;
    carver->used = end;
    return part;
}

static es_rule_state lay_out(workspace_carver *carver, const es_rule *rule,
                             const es_judge_run *run)
{
    size_t n_layers = (size_t)run->n_layers, n_heads = (size_t)run->n_heads;
    size_t n_values = n_layers * n_heads;
    es_rule_state state = {
        .rule = *rule,
        .n_layers = n_layers,
        .n_heads = n_heads,
        .n_units = count_units(rule, n_layers, n_heads),
        .ceiling = es_judge_run_ceiling(run),
        .warm_up_end = end_of_warm_up(rule, run),
    };
    state.n_references =
        rule->aggregate == ES_RULE_SHARE ? n_values : state.n_units;
    state.units = carve_array(carver, state.n_units, sizeof *state.units);
    if (rule->reference == ES_RULE_HISTORY)
        state.histories =
            carve_array(carver, state.n_references, sizeof *state.histories);
    if (rule->reference == ES_RULE_BASELINE)
        state.baseline =
            carve_array(carver, state.n_references, sizeof(double));
    state.layers = carve_array(carver, n_layers, 1);
    state.heads = carve_array(carver, n_values, 1);
    if (rule->aggregate == ES_RULE_SHARE)
        state.now = carve_array(carver, n_values, 1);
    return state;
}

static es_rules *lay_out_all(workspace_carver *carver, const es_rule *rules,
                             size_t n, const es_judge_run *run)
{
    es_rules *all = carve_array(carver, 1, sizeof *all);
    float *scaled = NULL;
    if (run->ceilings)
        scaled =
            carve_array(carver, (size_t)run->n_layers * (size_t)run->n_heads,
                        sizeof *scaled);
    es_rule_state *states = carve_array(carver, n, sizeof *states);
    for (size_t i = 0; i < n; i++) {
        const es_rule_state state = lay_out(carver, &rules[i], run);
        if (states)
            states[i] = state;
    }
    if (all)
        *all =
            (es_rules){.n = n, .states = states, .run = *run, .scaled = scaled};
    return all;
}

size_t es_rules_size(const es_rule *rules, size_t n, const es_judge_run *run)
{
    workspace_carver counted = {.base = NULL};
    size_t n_values;
    if (run->n_layers < 1 || run->n_heads < 1 ||
        !es_size_mul(&n_values, (size_t)run->n_layers, (size_t)run->n_heads))
        return 0;
    (void)lay_out_all(&counted, rules, n, run);
    return counted.overflow ? 0 : counted.used;
}

es_rules *es_rules_init(void *workspace, const es_rule *rules, size_t n,
                        const es_judge_run *run, es_rule_handler *handler,
                        void *user)
{
    workspace_carver carver = {.base = workspace};
    memset(workspace, 0, es_rules_size(rules, n, run));
    es_rules *all = lay_out_all(&carver, rules, n, run);
    all->handler = handler;
    all->user = user;
    return all;
}

void es_rules_announce(es_rules *rules, es_rule_handler *handler, void *user)
{
    rules->announce = handler;
    rules->announce_user = user;
}

uint64_t es_rules_nonfinite(const es_rules *rules, size_t rule)
{
    return rules->states[rule].n_nonfinite;
}
