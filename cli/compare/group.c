/* Configurations: runs that differ in the seed alone, taken together. */
#include "cli/compare/compare_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include <math.h>
#include <stdlib.h>

static bool same_configuration(const es_comparison *comparison, size_t a,
                               size_t b)
{
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        if (!difference->seed && !difference->incidental &&
            !es_run_settings_same(es_comparison_value(comparison, a, i),
                                  es_comparison_value(comparison, b, i)))
            return false;
    }
    return true;
}

/* The configuration of a run among those found; a new one if it is none. */
static size_t place(es_comparison *comparison, size_t run)
{
    size_t i = 0;
    while (i < comparison->n_configurations &&
           !same_configuration(comparison, run,
                               comparison->configurations[i].first))
        i++;
    if (i == comparison->n_configurations)
        comparison->configurations[comparison->n_configurations++] =
            (es_configuration){.first = run};
    comparison->configurations[i].n++;
    return i;
}

static void add_bands(es_bands *to, const es_bands *more)
{
    for (int band = 0; band < ES_N_BANDS; band++)
        to->counts[band] += more->counts[band];
    to->nonfinite += more->nonfinite;
    to->missing += more->missing;
    to->n_heads += more->n_heads;
}

/* The perplexity that a run ended with. One whose loss is not finite any more
   ended so, whatever the last evaluation before that found. */
static float final_of(const es_compared *run)
{
    const float loss = run->summary->loss;
    const bool ended = isfinite(loss) || es_is_missing(loss);
    return ended || es_is_missing(run->final.ppl) ? run->final.ppl : loss;
}

/* final, best: (n_runs) workspace */
static void summarise(es_comparison *comparison, size_t index, float *final,
                      float *best)
{
    es_configuration *to = &comparison->configurations[index];
    size_t n = 0;
    for (size_t i = to->first; i < comparison->n_runs; i++) {
        const es_compared *run = &comparison->runs[i];
        if (run->configuration != index)
            continue;
        final[n] = final_of(run);
        /* A run that did not end finite has no best model either. */
        best[n] = isfinite(final[n]) ? run->best.ppl : final[n];
        n++;
        add_bands(&to->bands, &run->summary->bands);
    }
    es_stats_summary(&to->final, final, n, 1);
    es_stats_summary(&to->best, best, n, 1);
}

es_status es_comparison_group(es_comparison *comparison)
{
    size_t n = comparison->n_runs;
    float *space;
    es_status status;
    if ((status = es_alloc(&comparison->configurations, n,
                           sizeof *comparison->configurations,
                           "configurations")) < 0 ||
        (status = es_alloc(&space, n, 2 * sizeof *space, "configurations")) < 0)
        return status;
    for (size_t i = 0; i < n; i++)
        comparison->runs[i].configuration = place(comparison, i);
    for (size_t i = 0; i < comparison->n_configurations; i++)
        summarise(comparison, i, space, space + n);
    free(space);
    return ES_OK;
}

bool es_comparison_has_seeds(const es_comparison *comparison)
{
    return comparison->n_configurations < comparison->n_runs;
}
