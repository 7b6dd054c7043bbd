/* Compares runs. Reads each run's results on held-out data and the onsets of
 * its flags, and groups the seeds of each configuration. Computes the distances
 * between runs, and their differences from a baseline in per cent. Statistical
 * tests say how certain the differences are: intervals of final perplexities
 * over seeds, tests of configurations against the configuration of the
 * baseline, and permutation tests that exchange layers between runs. */
#include "cli/compare/compare_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include <math.h>
#include <stdlib.h>

es_status es_comparison_new(es_comparison **out,
                            const es_summary_options *options)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a comparison");
    if (status == ES_OK)
        (*out)->step = options->step;
    return status;
}

static void clear_run(es_compared *run)
{
    free(run->sorted);
}

void es_comparison_free(es_comparison *comparison)
{
    if (!comparison)
        return;
    for (size_t i = 0; i < comparison->n_runs; i++)
        clear_run(&comparison->runs[i]);
    free(comparison->runs);
    free(comparison->differences);
    free(comparison->values);
    es_run_labels_free(&comparison->labels);
    es_run_labels_free(&comparison->configuration_labels);
    free(comparison->configurations);
    free(comparison);
}

/* --- one run --------------------------------------------------------------*/

/* Finds the series from which perplexity is computed: the cross-entropy on
 * held-out data or, if the run lacks it, the loss on held-out data. Returns
 * ES_ENOTFOUND if the run was not evaluated. */
static es_status find_evaluations(es_series *out, es_reader *reader, size_t run)
{
    static const char *const names[] = {"ce", "loss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        es_status status =
            es_reader_find(reader, run, names[i], ES_PHASE_EVAL, out);
        if (status == ES_OK && out->n_values == 1 &&
            out->last_step != ES_UNKNOWN)
            return ES_OK;
        if (status < 0 && status != ES_ENOTFOUND)
            return status;
    }
    return es_fail(ES_ENOTFOUND, "%s: no evaluation", es_reader_path(reader));
}

/* Reads the evaluations up to the step `last`, or all evaluations of the run if
 * `last` is ES_STEP_LAST. */
static es_status read_evaluations(es_compared *to, es_reader *reader,
                                  size_t run, int64_t last)
{
    es_series series;
    es_cursor *cursor = NULL;
    int64_t step;
    const float *ce;
    to->final = to->best =
        (es_evaluation){.step = ES_UNKNOWN, .ppl = es_missing()};
    to->final.ppl = to->summary->eval_ppl;
    es_status status = find_evaluations(&series, reader, run);
    if (status < 0)
        return status == ES_ENOTFOUND ? ES_OK : status;
    if ((status =
             es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST, last)) < 0)
        return status;
    while ((status = es_cursor_next(cursor, &step, &ce)) == ES_OK) {
        const float ppl = (float)exp(*ce);
        if (es_is_missing(*ce))
            continue;
        to->n_evals++;
        to->final.step = step;
        if (!isfinite(ppl))
            to->nonfinite_evals++;
        else if (to->best.step == ES_UNKNOWN || ppl < to->best.ppl)
            to->best = (es_evaluation){.step = step, .ppl = ppl};
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static void find_onsets(es_compared *to)
{
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        to->onsets[kind] = (es_onset){.any = ES_UNKNOWN, .error = ES_UNKNOWN};
    for (size_t i = 0; i < to->summary->n_flags; i++) {
        const es_flag *flag = &to->summary->flags[i]; /* flags are sorted by
                                                         onset */
        if (flag->rule)
            continue; /* a flag of a user's rule, for which tables have no
                         column */
        es_onset *onset = &to->onsets[flag->kind];
        onset->n_episodes++;
        onset->stands = onset->stands || flag->stands;
        if (onset->any == ES_UNKNOWN)
            onset->any = flag->onset;
        if (onset->error == ES_UNKNOWN && flag->severity >= ES_SEVERITY_ERROR)
            onset->error = flag->onset;
    }
}

es_status es_comparison_add(es_comparison *comparison, es_reader *reader,
                            size_t run, const es_run_summary *summary,
                            bool baseline)
{
    es_compared to = {.summary = summary};
    const size_t n_values = summary->n_rows * summary->n_columns;
    if (baseline && summary->n_in_file > 1)
        return es_fail(ES_EUSAGE,
                       "%s: a baseline is a single run, but this file has %zu "
                       "runs",
                       summary->path, summary->n_in_file);
    es_status status;
    if ((status = es_grow(&comparison->runs, comparison->n_runs + 1,
                          sizeof *comparison->runs, "runs")) < 0 ||
        (status = read_evaluations(
             &to, reader, run,
             comparison->step == ES_STEP_LAST ? ES_STEP_LAST : summary->step)) <
            0 ||
        (status = es_alloc(&to.sorted, n_values, sizeof *to.sorted,
                           "a sample")) < 0) {
        clear_run(&to);
        return status;
    }
    es_stats_distribution(&to.entropy, to.sorted, summary->values, n_values);
    find_onsets(&to);
    if (baseline) {
        comparison->has_baseline = true;
        comparison->reference = comparison->n_runs;
    }
    comparison->runs[comparison->n_runs++] = to;
    return ES_OK;
}

/* --- all runs ------------------------------------------------------------- */

/* Reorders the runs to match the order of the summaries. */
static es_status put_in_order(es_comparison *comparison,
                              const es_run_summary *const *order)
{
    es_compared *runs = comparison->runs;
    for (size_t i = 0; i < comparison->n_runs; i++) {
        size_t k = i;
        while (k < comparison->n_runs && runs[k].summary != order[i])
            k++;
        if (k == comparison->n_runs)
            return es_fail(ES_EARGUMENT,
                           "a summary does not belong to a compared run");
        es_compared other = runs[i];
        runs[i] = runs[k];
        runs[k] = other;
        if (comparison->reference == k)
            comparison->reference = i;
        else if (comparison->reference == i)
            comparison->reference = k;
    }
    if (!comparison->has_baseline)
        comparison->reference = 0;
    return ES_OK;
}

/* --- configurations -------------------------------------------------------*/

/* Groups the runs by configuration, and makes the labels of the configurations
 * from their first runs. */
static es_status group_runs(es_comparison *comparison)
{
    const size_t n = comparison->n_runs;
    const es_run_summary **firsts = NULL;
    size_t *groups;
    es_status status = es_alloc(&groups, n, sizeof *groups, "configurations");
    if (status < 0 ||
        (status = es_alloc(&firsts, n, sizeof *firsts, "configurations")) < 0 ||
        (status = es_run_configurations(
             groups, &comparison->n_configurations, comparison->values,
             comparison->differences, comparison->n_differences, n)) < 0)
        goto done;
    for (size_t i = n; i-- > 0;) {
        es_configuration *to = &comparison->configurations[groups[i]];
        comparison->runs[i].configuration = groups[i];
        firsts[groups[i]] = comparison->runs[i].summary;
        to->first = i;
        to->n++;
    }
    status = es_run_labels_make(&comparison->configuration_labels, firsts,
                                comparison->n_configurations);
done:
    free(groups);
    free(firsts);
    return status;
}

/* Summarises the runs of a configuration. The arrays final, best and losses are
 * workspace for n_runs values each. */
static void summarise_configuration(es_comparison *comparison, size_t index,
                                    float *final, float *best, float *losses)
{
    es_configuration *to = &comparison->configurations[index];
    size_t n = 0;
    for (size_t i = to->first; i < comparison->n_runs; i++) {
        es_compared *run = &comparison->runs[i];
        const es_bands *bands = &run->summary->bands;
        const float loss = run->summary->loss, ppl = run->final.ppl;
        if (run->configuration != index)
            continue;
        /* If the final loss of a run is not finite, its final perplexity is
         * NaN, even if the last evaluation was finite, and its best perplexity
         * is missing. */
        final[n] = isfinite(loss) || es_is_missing(loss) || es_is_missing(ppl)
                       ? ppl
                       : loss;
        run->outcome = final[n];
        best[n] = isfinite(final[n]) ? run->best.ppl : final[n];
        losses[n] = loss;
        n++;
        for (int band = 0; band < ES_N_BANDS; band++)
            to->bands.counts[band] += bands->counts[band];
        to->bands.nonfinite += bands->nonfinite;
        to->bands.missing += bands->missing;
        to->bands.n_heads += bands->n_heads;
    }
    es_stats_summary(&to->final, final, n, 1);
    es_stats_summary(&to->best, best, n, 1);
    es_stats_summary(&to->loss, losses, n, 1);
}

/* --- tests of entropies ---------------------------------------------------*/

/* Reusable workspace of a permutation test, with the values of the runs'
 * heads. */
typedef struct exchange {
    float *values;   /* (n) */
    uint32_t *block; /* (n) */
    uint32_t *stratum;
    bool *first; /* true if block i, which is one layer of a run, belongs to the
                    first group of runs */
    es_exchange_space tests;
} exchange;

static void free_exchange(exchange *space)
{
    free(space->values);
    free(space->block);
    free(space->tests.order);
    free(space->tests.ranks);
    free(space->stratum);
    free(space->first);
    free(space->tests.labels);
    free(space->tests.weights);
}

static es_status grow_exchange(exchange *space, size_t n, size_t n_blocks)
{
    const char *what = "the values of a permutation test";
    es_status status;
    es_exchange_space *tests = &space->tests;
    if ((status = es_grow(&space->values, n, sizeof(float), what)) < 0 ||
        (status = es_grow(&space->block, n, sizeof(uint32_t), what)) < 0 ||
        (status = es_grow(&space->stratum, n_blocks, sizeof(uint32_t), what)) <
            0 ||
        (status = es_grow(&space->first, n_blocks, sizeof(bool), what)) < 0 ||
        (status = es_grow(&tests->order, n, 2 * sizeof(size_t), what)) < 0 ||
        (status = es_grow(&tests->ranks, n, sizeof(float), what)) < 0 ||
        (status = es_grow(&tests->labels, n_blocks, sizeof(bool), what)) < 0)
        return status;
    return es_grow(&tests->weights, n_blocks, sizeof(double), what);
}

/* Adds the finite values of the layer `row` of a run to a permutation test, as
 * the test's next block. Adds nothing if the layer has no finite value. */
static void add_layer(es_blocks *to, exchange *space, const es_run_summary *run,
                      size_t row, uint32_t stratum, bool first)
{
    const size_t n = to->n;
    for (size_t i = 0; i < run->n_columns; i++) {
        float value = run->values[row * run->n_columns + i];
        if (!isfinite(value))
            continue;
        space->values[to->n] = value;
        space->block[to->n++] = (uint32_t)to->n_blocks;
    }
    if (to->n == n)
        return;
    space->stratum[to->n_blocks] = stratum;
    space->first[to->n_blocks++] = first;
}

/* Computes the distance between the heads of the first n_first of `runs` and
 * the heads of the other runs, and the p-value of this distance. The test
 * exchanges layers of the same index or, if the runs have different numbers of
 * layers, any layers. */
static es_status test_entropies(double *distance, double *p, exchange *space,
                                const es_run_summary *const *runs,
                                size_t n_first, size_t n_runs)
{
    size_t n = 0, n_blocks = 0, n_rows = 0;
    bool alike = true;
    for (size_t i = 0; i < n_runs; i++) {
        n += runs[i]->n_rows * runs[i]->n_columns;
        n_blocks += runs[i]->n_rows;
        n_rows = runs[i]->n_rows > n_rows ? runs[i]->n_rows : n_rows;
        alike = alike && runs[i]->n_rows == runs[0]->n_rows;
    }
    es_status status = grow_exchange(space, n, n_blocks);
    if (status < 0)
        return status;
    es_blocks blocks = {.values = space->values,
                        .block = space->block,
                        .stratum = space->stratum,
                        .first = space->first};
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < n_runs; i++)
            if (row < runs[i]->n_rows)
                add_layer(&blocks, space, runs[i], row,
                          alike ? (uint32_t)row : 0, i < n_first);
    *p = es_stats_exchange_p(distance, &blocks, &space->tests);
    return ES_OK;
}

/* --- all tests ------------------------------------------------------------ */

typedef struct testing {
    es_comparison *comparison;
    exchange space;
    const es_run_summary **chosen; /* (n_runs) */
    double *a, *b, *both;          /* (n_runs) */
    size_t *order;                 /* (n_runs) */
} testing;

static es_status test_runs(testing *t)
{
    es_comparison *comparison = t->comparison;
    const size_t n = comparison->n_runs, to = comparison->reference;
    const bool wanted = comparison->has_baseline || n <= ES_COMPARE_MATRIX_MOST;
    for (size_t i = 0; i < n; i++) {
        es_compared *run = &comparison->runs[i];
        const es_run_summary *pair[] = {run->summary,
                                        comparison->runs[to].summary};
        t->a[i] = NAN;
        es_status status =
            i == to || !wanted
                ? ES_OK
                : test_entropies(NULL, &t->a[i], &t->space, pair, 1, 2);
        if (status < 0)
            return status;
    }
    es_stats_holm(t->b, t->a, n, t->order);
    for (size_t i = 0; i < n; i++) {
        comparison->runs[i].p = t->a[i];
        comparison->runs[i].p_holm = t->b[i];
    }
    return ES_OK;
}

/* Compares the entropies of a configuration with those of the baseline's
 * configuration. */
static es_status test_configuration(testing *t, size_t index, size_t to)
{
    es_comparison *comparison = t->comparison;
    es_evidence *out = &comparison->configurations[index].evidence;
    size_t n = 0, n_first = 0;
    for (int second = 0; second < 2; second++) {
        n_first = n;
        for (size_t i = 0; i < comparison->n_runs; i++)
            if (comparison->runs[i].configuration == (second ? to : index))
                t->chosen[n++] = comparison->runs[i].summary;
    }
    return test_entropies(&out->ks, &out->p, &t->space, t->chosen, n_first, n);
}

/* Adjusts one of the p-values of all configurations by Holm's method. p_offset
 * and out_offset are the offsets of the p-value and of the adjusted p-value in
 * es_evidence. */
static void adjust_p(testing *t, size_t p_offset, size_t out_offset)
{
    es_configuration *all = t->comparison->configurations;
    const size_t n = t->comparison->n_configurations;
    for (size_t i = 0; i < n; i++)
        t->a[i] = *(double *)(void *)((char *)&all[i].evidence + p_offset);
    es_stats_holm(t->b, t->a, n, t->order);
    for (size_t i = 0; i < n; i++)
        *(double *)(void *)((char *)&all[i].evidence + out_offset) = t->b[i];
}

/* Copies the finite final perplexities of a configuration to `out`; returns how
 * many there are. */
static size_t gather_perplexities(double *out, const es_comparison *comparison,
                                  size_t index)
{
    size_t n = 0;
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (comparison->runs[i].configuration == index &&
            isfinite(comparison->runs[i].outcome))
            out[n++] = comparison->runs[i].outcome;
    return n;
}

static es_status test_configurations(testing *t)
{
    es_comparison *comparison = t->comparison;
    const size_t n = comparison->n_configurations;
    const size_t to = comparison->runs[comparison->reference].configuration;
    const es_evidence none = {
        .ppl = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, ES_REASON_FEW},
        .ks = NAN,
        .p = NAN};
    for (size_t i = 0; i < n; i++) {
        es_configuration *one = &comparison->configurations[i];
        size_t n_a = gather_perplexities(t->a, comparison, i);
        es_stats_mean(&one->mean, t->a, n_a);
        one->evidence = none;
        if (!comparison->has_baseline || i == to)
            continue;
        size_t n_b = gather_perplexities(t->b, comparison, to);
        es_stats_compare_means(&one->evidence.ppl, t->a, n_a, t->b, n_b,
                               t->both, t->order);
        es_status status = test_configuration(t, i, to);
        if (status < 0)
            return status;
    }
    adjust_p(t, offsetof(es_evidence, ppl.p),
             offsetof(es_evidence, welch_holm));
    adjust_p(t, offsetof(es_evidence, ppl.permuted),
             offsetof(es_evidence, permuted_holm));
    adjust_p(t, offsetof(es_evidence, p), offsetof(es_evidence, p_holm));
    return ES_OK;
}

/* Computes the statistical tests of all runs and configurations. */
static es_status compute_tests(es_comparison *comparison)
{
    testing t = {.comparison = comparison};
    const size_t n = comparison->n_runs;
    const char *what = "the workspace of the statistical tests";
    es_status status;
    if ((status = es_alloc(&t.chosen, n, sizeof *t.chosen, what)) < 0 ||
        (status = es_alloc(&t.a, n, sizeof *t.a, what)) < 0 ||
        (status = es_alloc(&t.b, n, sizeof *t.b, what)) < 0 ||
        (status = es_alloc(&t.both, n, sizeof *t.both, what)) < 0 ||
        (status = es_alloc(&t.order, n, sizeof *t.order, what)) < 0 ||
        (status = test_runs(&t)) < 0)
        goto done;
    status = test_configurations(&t);
done:
    free_exchange(&t.space);
    free(t.chosen);
    free(t.a);
    free(t.b);
    free(t.both);
    free(t.order);
    return status;
}

/* --- completion ----------------------------------------------------------- */

es_status es_comparison_finish(es_comparison *comparison,
                               const es_run_summary *const *order,
                               const char *baseline)
{
    if (baseline && !comparison->has_baseline)
        return es_fail(ES_ENOTFOUND,
                       "%s: no baseline was read: there is nothing to compare "
                       "the runs with",
                       baseline);
    if (comparison->n_runs == 0)
        return ES_OK;
    es_status status;
    if ((status = put_in_order(comparison, order)) < 0 ||
        (status = es_run_differences(
             &comparison->differences, &comparison->n_differences,
             &comparison->values, order, comparison->n_runs)) < 0 ||
        (status = es_run_labels_make(&comparison->labels, order,
                                     comparison->n_runs)) < 0)
        return status;
    size_t n = comparison->n_runs;
    float *space;
    if ((status = es_alloc(&comparison->configurations, n,
                           sizeof *comparison->configurations,
                           "configurations")) < 0 ||
        (status = es_alloc(&space, n, 3 * sizeof *space, "configurations")) < 0)
        return status;
    if ((status = group_runs(comparison)) < 0) {
        free(space);
        return status;
    }
    for (size_t i = 0; i < comparison->n_configurations; i++)
        summarise_configuration(comparison, i, space, space + n, space + 2 * n);
    free(space);

    const es_distribution *to =
        &comparison->runs[comparison->reference].entropy;
    for (size_t i = 0; i < comparison->n_runs; i++) {
        es_compared *run = &comparison->runs[i];
        run->ks = es_stats_ks(&run->entropy, to);
        run->wasserstein = es_stats_wasserstein(&run->entropy, to);
    }
    return compute_tests(comparison);
}

/* --- comparison with a baseline ------------------------------------------- */

/* Returns the difference a - b in per cent of b. */
static es_compare_number percent(es_compare_number a, es_compare_number b)
{
    return (es_compare_number){.value = 100 * (a.value / b.value - 1),
                               .missing = a.missing || b.missing};
}

static es_compare_number of_float(float value)
{
    return (es_compare_number){.value = value, .missing = es_is_missing(value)};
}

/* Returns the mean of a summary. If the summary has no finite values, the mean
 * is NaN if it has non-finite values, else missing. */
static es_compare_number of_mean(const es_summary *summary)
{
    return (es_compare_number){.value = summary->mean,
                               .missing = summary->n_finite == 0 &&
                                          summary->nonfinite == 0};
}

static es_compare_number points(double a, double b)
{
    double value = 100 * (a - b);
    return (es_compare_number){.value = value, .missing = isnan(value)};
}

static void compare_bands(es_relative *out, const es_bands *a,
                          const es_bands *b)
{
    for (int band = 0; band < ES_N_BANDS; band++)
        out->bands[band] =
            points(es_bands_fraction(a, band), es_bands_fraction(b, band));
    out->balanced = points(es_bands_balanced(a), es_bands_balanced(b));
}

/* Returns the difference of two onsets. Steps are >= 0, so the difference
 * cannot overflow. */
static int64_t delay_between(int64_t a, int64_t b)
{
    return a == ES_UNKNOWN || b == ES_UNKNOWN ? ES_UNKNOWN : a - b;
}

void es_compare_runs(es_relative *out, const es_compared *run,
                     const es_compared *baseline)
{
    out->final =
        percent(of_float(run->final.ppl), of_float(baseline->final.ppl));
    out->best = percent(of_float(run->best.ppl), of_float(baseline->best.ppl));
    compare_bands(out, &run->summary->bands, &baseline->summary->bands);
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
        const es_onset *a = &run->onsets[kind], *b = &baseline->onsets[kind];
        out->later[kind] =
            (es_delay){.any = delay_between(a->any, b->any),
                       .error = delay_between(a->error, b->error)};
    }
}

void es_compare_configurations(es_relative *out, const es_configuration *one,
                               const es_configuration *baseline)
{
    *out = (es_relative){
        .final = percent(of_mean(&one->final), of_mean(&baseline->final)),
        .best = percent(of_mean(&one->best), of_mean(&baseline->best))};
    compare_bands(out, &one->bands, &baseline->bands);
}
