/* Measures the importance of settings. Computes the outcomes of each run, and
 * the association of each setting with each outcome. */
#include "cli/importance/importance.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

#include <math.h>

void es_importance_free(es_importance *importance)
{
    for (size_t i = 0; i < importance->n_runs; i++)
        es_summary_free(importance->runs[i]);
    free(importance->runs);
    for (int k = 0; k < ES_N_OUTCOMES; k++)
        free(importance->outcomes[k]);
    free(importance->settings);
}

const char *es_outcome_title(const es_importance *importance,
                             es_run_outcome outcome)
{
    static const char *const titles[] = {[ES_OUTCOME_QUALITY] = "eval ppl",
                                         [ES_OUTCOME_OVERLOADED] = "overloaded",
                                         [ES_OUTCOME_COLLAPSED] = "collapsed",
                                         [ES_OUTCOME_NAN] = "NaN at"};
    return outcome == ES_OUTCOME_QUALITY && !importance->evaluated
               ? "loss"
               : titles[outcome];
}

double es_important_most(const es_important *setting)
{
    double most = 0;
    for (int k = 0; k < ES_N_OUTCOMES; k++) /* fmax ignores NaN */
        most = fmax(most, fabs(setting->by[k].strength));
    return most;
}

/* --- outcomes -------------------------------------------------------------*/

/* Returns the final perplexity or loss of a run; NaN if the final loss is not
 * finite, because the last evaluation is then meaningless. */
static double quality(const es_run_summary *run, bool evaluated)
{
    const bool ended = es_is_missing(run->loss) || isfinite(run->loss);
    const float value = evaluated ? run->eval_ppl : run->loss;
    return ended && isfinite(value) ? (double)value : NAN;
}

/* Returns the share of finite heads whose entropy, relative to the ceiling, is
 * in [low, high). */
static double share_of_heads(const es_run_summary *run, double low, double high)
{
    size_t n = 0, n_inside = 0;
    if (run->bands.n_heads == 0 || isnan(run->ceiling))
        return NAN;
    for (size_t i = 0; i < run->n_rows * run->n_columns; i++) {
        const double value =
            (run->scaled ? run->scaled : run->values)[i] / run->ceiling;
        n += isfinite(value) ? 1 : 0;
        n_inside += value >= low && value < high;
    }
    return n ? (double)n_inside / (double)n : NAN;
}

static double first_nan(const es_run_summary *run)
{
    for (size_t i = 0; i < run->n_flags; i++) /* flags are sorted by onset */
        if (!run->flags[i].rule && run->flags[i].kind == ES_FLAG_NAN)
            return (double)run->flags[i].onset;
    return run->judged ? INFINITY : NAN;
}

static es_status find_outcomes(es_importance *to)
{
    es_rules_file rules;
    es_rules_file_default(&rules);
    for (int k = 0; k < ES_N_OUTCOMES; k++) {
        es_status status = es_alloc(&to->outcomes[k], to->n_runs,
                                    sizeof *to->outcomes[k], "outcomes");
        if (status < 0)
            return status;
    }
    for (size_t i = 0; i < to->n_runs; i++)
        to->evaluated = to->evaluated || !es_is_missing(to->runs[i]->eval_ppl);
    for (size_t i = 0; i < to->n_runs; i++) {
        const es_run_summary *run = to->runs[i];
        const es_flag_rules *flags =
            run->rules ? &run->rules->flags : &rules.flags;
        to->outcomes[ES_OUTCOME_QUALITY][i] = quality(run, to->evaluated);
        to->outcomes[ES_OUTCOME_OVERLOADED][i] =
            share_of_heads(run, flags->overload_head, INFINITY);
        to->outcomes[ES_OUTCOME_COLLAPSED][i] =
            share_of_heads(run, -INFINITY, flags->collapse_head);
        to->outcomes[ES_OUTCOME_NAN][i] = first_nan(run);
    }
    es_rules_file_free(&rules);
    return ES_OK;
}

/* --- settings -------------------------------------------------------------*/

typedef struct measuring {
    es_importance *to;
    es_difference *differences;    /* (n_differences) */
    const es_run_setting **values; /* values of the settings, shape
                                      (n_runs,n_differences) */
    size_t n_differences;
    double *x, *y, *space;          /* workspaces; `space` has 3 * n_runs
                                       elements */
    size_t *group, *chosen, *order; /* (n_runs) */
} measuring;

static const es_run_setting *value_of(const measuring *m, size_t run,
                                      size_t difference)
{
    return m->values[run * m->n_differences + difference];
}

/* Assigns runs to groups by their value of a setting, in m->group. Runs that
 * lack the setting form a separate group. Returns the number of groups. */
static size_t find_groups(const measuring *m, size_t difference)
{
    size_t n = 0;
    for (size_t i = 0; i < m->to->n_runs; i++) {
        const es_run_setting *value = value_of(m, i, difference);
        size_t k = 0;
        while (k < i &&
               !es_run_settings_same(value, value_of(m, k, difference)))
            k++;
        m->group[i] = k < i ? m->group[k] : n++;
    }
    return n;
}

/* Measures the association of a setting with an outcome. Uses only runs that
 * have the outcome and, if the setting is a number, also have the setting. */
static void measure_association(es_association *out, const measuring *m,
                                size_t difference, bool number, size_t n_groups,
                                const double *outcome)
{
    size_t n = 0;
    for (size_t i = 0; i < m->to->n_runs; i++) {
        const es_run_setting *value = value_of(m, i, difference);
        if (isnan(outcome[i]) || (number && !value))
            continue;
        m->x[n] = number ? value->number : 0;
        m->chosen[n] = m->group[i];
        m->y[n++] = outcome[i];
    }
    if (number)
        es_stats_rank_correlation(out, m->x, m->y, n, m->space, m->order);
    else
        es_stats_rank_groups(out, m->chosen, n_groups, m->y, n, m->space,
                             m->order);
}

static void measure_settings(const measuring *m)
{
    es_importance *to = m->to;
    for (size_t i = 0; i < m->n_differences; i++) {
        const es_difference *difference = &m->differences[i];
        if (difference->seed || difference->incidental)
            continue;
        es_important *setting = &to->settings[to->n++];
        *setting = (es_important){.key = difference->key,
                                  .number = difference->number,
                                  .n_values = find_groups(m, i)};
        for (int k = 0; k < ES_N_OUTCOMES; k++)
            measure_association(&setting->by[k], m, i, difference->number,
                                setting->n_values, to->outcomes[k]);
    }
}

static es_status adjust_p_values(es_importance *to)
{
    const size_t n = to->n * ES_N_OUTCOMES;
    double *p = NULL, *adjusted = NULL;
    size_t *order = NULL;
    es_status status;
    if ((status = es_alloc(&p, n, sizeof *p, "tests")) < 0 ||
        (status = es_alloc(&adjusted, n, sizeof *adjusted, "tests")) < 0 ||
        (status = es_alloc(&order, n, sizeof *order, "tests")) < 0)
        goto done;
    for (size_t i = 0; i < n; i++)
        p[i] = to->settings[i / ES_N_OUTCOMES].by[i % ES_N_OUTCOMES].p;
    es_stats_holm(adjusted, p, n, order);
    for (size_t i = 0; i < n; i++)
        to->settings[i / ES_N_OUTCOMES].p_holm[i % ES_N_OUTCOMES] = adjusted[i];
done:
    free(p);
    free(adjusted);
    free(order);
    return status;
}

static int by_strength(const void *a, const void *b)
{
    const double x = es_important_most(a), y = es_important_most(b);
    return (y > x) - (y < x);
}

static es_status make_space(measuring *m)
{
    const size_t n = m->to->n_runs;
    es_status status;
    if ((status = es_run_differences(
             &m->differences, &m->n_differences, &m->values,
             (const es_run_summary *const *)m->to->runs, n)) < 0 ||
        (status = es_alloc(&m->to->settings, m->n_differences,
                           sizeof *m->to->settings, "settings")) < 0 ||
        (status = es_alloc(&m->x, n, sizeof *m->x, "settings")) < 0 ||
        (status = es_alloc(&m->y, n, sizeof *m->y, "settings")) < 0 ||
        (status = es_alloc(&m->space, n, 3 * sizeof *m->space, "settings")) <
            0 ||
        (status = es_alloc(&m->group, n, sizeof *m->group, "settings")) < 0 ||
        (status = es_alloc(&m->chosen, n, sizeof *m->chosen, "settings")) < 0)
        return status;
    return es_alloc(&m->order, n, sizeof *m->order, "settings");
}

es_status es_importance_measure(es_importance *importance)
{
    measuring m = {.to = importance};
    es_status status;
    if (importance->n_runs < 3)
        return es_fail(ES_ENOTFOUND,
                       "importance: needs at least three runs that differ in a "
                       "setting, and there %s %zu",
                       importance->n_runs == 1 ? "is" : "are",
                       importance->n_runs);
    if ((status = find_outcomes(importance)) < 0 ||
        (status = make_space(&m)) < 0)
        goto done;
    measure_settings(&m);
    if (importance->n == 0)
        status = es_fail(ES_ENOTFOUND,
                         "importance: the %zu runs have equal settings except "
                         "the seed and where they ran",
                         importance->n_runs);
    else
        status = adjust_p_values(importance);
    qsort(importance->settings, importance->n, sizeof *importance->settings,
          by_strength);
done:
    free(m.differences);
    free(m.values);
    free(m.x);
    free(m.y);
    free(m.space);
    free(m.group);
    free(m.chosen);
    free(m.order);
    return status;
}
