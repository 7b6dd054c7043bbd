/* Applies rules to samples. Each unit (a head, a layer, a share of heads, or
   the run) counts its consecutive samples; all units of a rule share one
   episode. rules_measure.c computes the value of a unit and the value that it
   is compared with. */
#include "analyzer/base/value.h"
#include "analyzer/flags/rules_internal.h"

#include <math.h>
#include <string.h>

/* The result of comparing the value of a head, layer or run with the
 * threshold. */
typedef enum verdict {
    UNKNOWN, /* the value is missing or NaN, or has no reference value */
    CLEAR,
    HOLDS
} verdict;

typedef struct rule_sample {
    int64_t step;
    const float *values; /* (n) */
    size_t n;
} rule_sample;

/* --- one unit -------------------------------------------------------------*/

/* Returns the threshold for a head, layer or run: rule->end if `active` is true
   (it is part of the open episode) and rule->end is set, otherwise
   `threshold`. */
static double pick(const es_rule *rule, bool active, double threshold)
{
    return active && !isnan(rule->end) ? rule->end : threshold;
}

static verdict judge_row(double *x, es_rule_state *state, size_t unit,
                         const float *row, size_t n, int64_t step)
{
    const es_rule *rule = &state->rule;
    double limit = es_rule_limit(
        state, pick(rule, state->units[unit].active, rule->threshold));
    es_rule_measure measured = es_rule_measure_of(rule->aggregate, row, n);
    state->n_nonfinite += measured.n_nonfinite;
    if (measured.n_finite == 0)
        return UNKNOWN;
    *x = es_rule_relate(state, unit, measured.value, step);
    bool holds = es_rule_compare(rule->comparison, *x, limit);
    if (state->histories && !holds)
        es_rule_history_add(&state->histories[unit], measured.value);
    if (holds)
        return HOLDS;
    return measured.n_nonfinite || isnan(*x) || isnan(limit) ? UNKNOWN : CLEAR;
}

/* Marks in state->now the heads that meet the condition, and counts them. */
static size_t count_heads(size_t *n_judged, size_t *n_nonfinite,
                          es_rule_state *state, const rule_sample *sample,
                          double limit)
{
    size_t n_hold = 0;
    memset(state->now, 0, sample->n);
    for (size_t i = 0; i < sample->n; i++) {
        float value = sample->values[i];
        if (es_is_missing(value))
            continue;
        if (!isfinite(value)) {
            ++*n_nonfinite;
            continue;
        }
        double x = es_rule_relate(state, i, value, sample->step);
        bool holds = es_rule_compare(state->rule.comparison, x, limit);
        if (state->histories && !holds)
            es_rule_history_add(&state->histories[i], value);
        *n_judged += isnan(x) ? 0 : 1;
        n_hold += holds;
        state->now[i] = holds;
    }
    return n_hold;
}

static bool is_enough(size_t n_heads, double n, double share)
{
    return n_heads > 0 && (double)n_heads / n >= share;
}

static verdict judge_share(double *x, es_rule_state *state,
                           const rule_sample *sample)
{
    const es_rule *rule = &state->rule;
    size_t n_judged = 0, n_nonfinite = 0;
    double limit = es_rule_limit(state, rule->threshold);
    double share = pick(rule, state->units[0].active, rule->share);
    size_t n_hold = count_heads(&n_judged, &n_nonfinite, state, sample, limit);
    double n = (double)(n_judged + n_nonfinite);
    state->n_nonfinite += n_nonfinite;
    if (n_judged == 0 || isnan(limit))
        return UNKNOWN;
    *x = (double)n_hold / n;
    if (is_enough(n_hold, n, share))
        return HOLDS;
    return is_enough(n_hold + n_nonfinite, n, share) ? UNKNOWN : CLEAR;
}

static void follow_unit(es_rule_state *state, size_t index, verdict outcome,
                        double x, int64_t step)
{
    es_rule_unit *unit = &state->units[index];
    if (outcome == CLEAR)
        *unit = (es_rule_unit){.streak = 0};
    if (outcome != HOLDS)
        return;
    if (unit->streak == 0) {
        unit->onset = step;
        unit->worst = x;
    }
    unit->streak += unit->streak < UINT32_MAX;
    unit->last = step;
    unit->worst = es_rule_worse(&state->rule, unit->worst, x);
}

/* --- marks ----------------------------------------------------------------*/

static void clear_marks(es_rule_state *state)
{
    memset(state->layers, 0, state->n_layers);
    memset(state->heads, 0, state->n_layers * state->n_heads);
}

/* Marks heads and layers for the episode of a rule that compares a share of
   heads. Marks are set from the first sample for which the comparison holds,
   even before there are enough consecutive samples for an episode. */
static void mark_share(es_rule_state *state, const rule_sample *sample)
{
    size_t n = state->n_heads;
    for (size_t l = 0; l < state->n_layers; l++) {
        const float *row = sample->values + l * n;
        size_t n_measured = 0, n_hold = 0;
        for (size_t h = 0; h < n; h++) {
            n_measured += !es_is_missing(row[h]);
            n_hold += state->now[l * n + h];
            state->heads[l * n + h] |= state->now[l * n + h];
        }
        if (is_enough(n_hold, (double)n_measured, state->rule.share))
            state->layers[l] = 1;
    }
}

/* --- episodes -------------------------------------------------------------*/

static es_episode describe_episode(const es_rule_state *state, bool stands)
{
    const es_rule *rule = &state->rule;
    return (es_episode){
        .kind = ES_N_FLAG_KINDS,
        .severity = rule->severity,
        .stands = stands,
        .onset = state->onset,
        .last = state->last,
        .reported = state->opened,
        .collapse_reported = -1,
        .layers = state->layers,
        .heads = state->heads,
        .value = state->worst,
        .threshold = rule->aggregate == ES_RULE_SHARE
                         ? rule->share
                         : es_rule_limit(state, rule->threshold),
    };
}

static void report_episode(es_rules *rules, size_t index, bool stands)
{
    es_rule_state *state = &rules->states[index];
    if (!state->open)
        return;
    const es_episode over = describe_episode(state, stands);
    rules->handler(rules->user, index, &over);
    clear_marks(state);
    memset(state->units, 0, state->n_units * sizeof *state->units);
    state->open = false;
    state->cooling = state->rule.cool_down;
}

static void join_episode(es_rule_state *state, size_t index)
{
    es_rule_unit *unit = &state->units[index];
    if (!state->open) {
        state->open = true;
        state->opened = unit->last;
        state->onset = unit->onset;
        state->last = unit->last;
        state->worst = unit->worst;
    }
    if (unit->onset < state->onset)
        state->onset = unit->onset;
    if (unit->last > state->last)
        state->last = unit->last;
    state->worst = es_rule_worse(&state->rule, state->worst, unit->worst);
    unit->active = true;
    switch (state->rule.aggregate) {
    case ES_RULE_HEAD:
        state->heads[index] = 1;
        state->layers[index / state->n_heads] = 1;
        break;
    case ES_RULE_LAYER_MEAN:
    case ES_RULE_LAYER_MIN:
    case ES_RULE_LAYER_MAX:
        state->layers[index] = 1;
        break;
    default: /* nothing to mark here: mark_share marks the heads of a share, and
                a value of the whole run belongs to no head */
        break;
    }
}

/* Opens, continues or ends the rule's episode after all heads or layers of a
   sample have been compared with the threshold. */
static void conclude(es_rules *rules, size_t index)
{
    es_rule_state *state = &rules->states[index];
    bool was_open = state->open, active = false;
    uint32_t needed = state->rule.samples > 1 ? state->rule.samples : 1;
    if (!was_open && state->cooling > 0) {
        state->cooling--;
        return;
    }
    for (size_t i = 0; i < state->n_units; i++) {
        if (state->units[i].streak >= needed)
            join_episode(state, i);
        active = active || state->units[i].active;
    }
    if (!active)
        report_episode(rules, index, false);
    else if (!was_open && rules->announce) {
        const es_episode opened = describe_episode(state, true);
        rules->announce(rules->announce_user, index, &opened);
    }
}

/* --- samples --------------------------------------------------------------*/

static void judge_rule(es_rules *rules, size_t index, const rule_sample *sample)
{
    es_rule_state *state = &rules->states[index];
    size_t n_row = sample->n / state->n_units;
    double x = NAN;
    if (state->rule.aggregate == ES_RULE_SHARE) {
        verdict outcome = judge_share(&x, state, sample);
        follow_unit(state, 0, outcome, x, sample->step);
        if (outcome == HOLDS)
            mark_share(state, sample);
        else if (outcome == CLEAR && !state->open)
            clear_marks(state);
    } else {
        for (size_t i = 0; i < state->n_units; i++) {
            verdict outcome = judge_row(
                &x, state, i, sample->values + i * n_row, n_row, sample->step);
            follow_unit(state, i, outcome, x, sample->step);
        }
    }
    conclude(rules, index);
}

static bool concerns(const es_rules *rules, const es_rule *rule,
                     const char *series, bool eval, size_t n)
{
    return rule->eval == eval && strcmp(rule->series, series) == 0 &&
           es_rule_fits(rule, &rules->run, n);
}

void es_rules_push(es_rules *rules, const char *series, bool eval, int64_t step,
                   const float *values, size_t n)
{
    const rule_sample sample = {.step = step, .values = values, .n = n};
    const rule_sample scaled = {.step = step, .values = rules->scaled, .n = n};
    for (size_t i = 0; i < rules->n; i++) {
        const es_rule_state *state = &rules->states[i];
        const bool scales =
            rules->scaled && state->rule.reference == ES_RULE_CEILING;
        if (!concerns(rules, &state->rule, series, eval, n) ||
            step < state->warm_up_end || !es_is_measured(values, n))
            continue;
        if (scales)
            es_judge_run_scale(rules->scaled, &rules->run, values, n);
        judge_rule(rules, i, scales ? &scaled : &sample);
    }
}

void es_rules_push_baseline(es_rules *rules, const char *series, bool eval,
                            int64_t step, const float *values, size_t n)
{
    const rule_sample sample = {.step = step, .values = values, .n = n};
    for (size_t i = 0; i < rules->n; i++) {
        es_rule_state *state = &rules->states[i];
        if (state->baseline && concerns(rules, &state->rule, series, eval, n)) {
            size_t n_row = sample.n / state->n_references;
            for (size_t k = 0; k < state->n_references; k++)
                state->baseline[k] =
                    es_rule_measure_of(state->rule.aggregate,
                                       sample.values + k * n_row, n_row)
                        .value;
            state->baseline_step = sample.step;
            state->has_baseline = true;
        }
    }
}

void es_rules_finish(es_rules *rules)
{
    for (size_t i = 0; i < rules->n; i++)
        report_episode(rules, i, true);
}
