/* Compares runs: reads each run's results on held-out data and the onsets of
 * its flags, then computes distances, groups the seeds of each configuration,
 * and computes differences to a baseline in per cent. */
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

/* Finds the series from which perplexity is computed: the held-out
 * cross-entropy or, if the run lacks it, the held-out loss. Returns
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
            continue; /* rules of the user have no column in a comparison */
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
static void summarise(es_comparison *comparison, size_t index, float *final,
                      float *best, float *losses)
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
        summarise(comparison, i, space, space + n, space + 2 * n);
    free(space);

    const es_distribution *to =
        &comparison->runs[comparison->reference].entropy;
    for (size_t i = 0; i < comparison->n_runs; i++) {
        es_compared *run = &comparison->runs[i];
        run->ks = es_stats_ks(&run->entropy, to);
        run->wasserstein = es_stats_wasserstein(&run->entropy, to);
    }
    return es_comparison_test(comparison);
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
static int64_t later(int64_t a, int64_t b)
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
        out->later[kind] = (es_delay){.any = later(a->any, b->any),
                                      .error = later(a->error, b->error)};
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
