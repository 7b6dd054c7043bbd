/* Of --compare the table of configurations, the matrix of distances, and the
   notes below the tables. */
#include "cli/compare/print_internal.h"

#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include <math.h>

/* --- configurations -------------------------------------------------------*/

static bool has_settings(const es_comparison *comparison)
{
    for (size_t i = 0; i < comparison->n_differences; i++)
        if (es_compare_shows_setting(comparison, i, true))
            return true;
    return false;
}

/* Marks a number that leaves out runs; others keep aligned with it. */
static const char *mark_of(const es_compare_layout *layout,
                           const es_summary *runs)
{
    if (!layout->cut)
        return "";
    return runs->n_finite && runs->nonfinite + runs->missing ? "*" : " ";
}

static void put_mean(es_sheet *sheet, const char *title,
                     const es_compare_layout *layout, const es_summary *runs)
{
    const char *mark = mark_of(layout, runs);
    if (runs->n_finite > 0)
        es_sheet_put(sheet, title, "%.4g%s", runs->mean, mark);
    else
        es_sheet_put(sheet, title, "%s%s", runs->nonfinite ? "NaN" : "-", mark);
}

static void put_spread(es_sheet *sheet, const char *title, double value,
                       int digits)
{
    if (isnan(value))
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%.*g", digits, value);
}

static void put_perplexity(es_sheet *sheet, const es_compare_layout *layout,
                           const es_configuration *one)
{
    const es_comparison *comparison = layout->comparison;
    const es_summary *final = &one->final;
    es_sheet_put(sheet, "NaN", "%zu", final->nonfinite);
    put_mean(sheet, "eval ppl", layout, final);
    put_spread(sheet, "std", final->std, 2);
    put_spread(sheet, "min", final->min, 4);
    put_spread(sheet, "max", final->max, 4);
    if (layout->best_means)
        put_mean(sheet, "best", layout, &one->best);
    if (comparison->has_baseline) {
        size_t to = comparison->runs[comparison->reference].configuration;
        es_relative by;
        es_compare_configurations(&by, one, &comparison->configurations[to]);
        if (one == &comparison->configurations[to])
            es_sheet_put(sheet, "against", "baseline");
        else
            es_compare_put_signed(sheet, "against", by.final, 2,
                                  final->nonfinite + final->missing ? "%*"
                                                                    : "%");
    }
}

es_status es_compare_print_configurations(FILE *stream,
                                          const es_compare_layout *layout)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = layout->comparison;
    const size_t n = comparison->n_configurations;
    fprintf(stream,
            "\n%zu configuration%s, seeds taken together: mean and spread of "
            "the final perplexity, heads of all runs\n",
            n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) {
        const es_configuration *one = &comparison->configurations[i];
        es_sheet_begin_row(&sheet);
        if (!has_settings(comparison))
            es_sheet_put_name(&sheet, "arch",
                              comparison->runs[one->first].summary->arch);
        es_compare_put_settings(&sheet, comparison, one->first, true);
        es_sheet_put(&sheet, "runs", "%zu", one->n);
        if (layout->evaluated)
            put_perplexity(&sheet, layout, one);
        es_compare_put_bands(&sheet, &one->bands);
    }
    es_status status = es_sheet_print(&sheet, stream, layout->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- distances ------------------------------------------------------------*/

es_status es_compare_print_matrix(FILE *stream, const es_compare_layout *layout)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = layout->comparison;
    fputs("\ndistances between entropies: KS above the diagonal, W1 below\n",
          stream);
    for (size_t i = 0; i < comparison->n_runs; i++) {
        const es_compared *run = &comparison->runs[i];
        es_sheet_begin_row(&sheet);
        es_sheet_put(&sheet, "", "%zu", i);
        if (layout->files)
            es_sheet_put_name(&sheet, "file", run->summary->path);
        else
            es_sheet_put_name(&sheet, "run", run->summary->name);
        for (size_t j = 0; j < comparison->n_runs; j++) {
            const es_distribution *a = &run->entropy;
            const es_distribution *b = &comparison->runs[j].entropy;
            char title[32];
            snprintf(title, sizeof title, "%zu", j);
            if (i == j)
                es_sheet_put(&sheet, title, ".");
            else
                es_compare_put_distance(&sheet, title,
                                        i < j ? es_stats_ks(a, b)
                                              : es_stats_wasserstein(a, b));
        }
    }
    es_status status = es_sheet_print(&sheet, stream, layout->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- notes ----------------------------------------------------------------*/

static void note_settings(FILE *stream, const es_comparison *comparison)
{
    size_t n_hidden = 0;
    const char *before = "also different, and no other configuration: ";
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        n_hidden += !difference->incidental &&
                    !es_compare_shows_setting(comparison, i, false);
        if (!difference->incidental)
            continue;
        fputs(before, stream);
        es_print_escaped(stream, difference->key, ES_ESCAPE_TERMINAL);
        before = ", ";
    }
    if (before[0] == ',')
        fputc('\n', stream);
    if (n_hidden > 0)
        fprintf(stream, "%zu more settings differ: --json has them\n",
                n_hidden);
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (comparison->runs[i].settings_cut) {
            es_print_escaped(stream, comparison->runs[i].summary->path,
                             ES_ESCAPE_TERMINAL);
            fprintf(stream, ": more than %d settings: the rest is left out\n",
                    ES_SETTINGS_MOST);
        }
}

static void note_onsets(FILE *stream, const es_compare_layout *layout)
{
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (layout->onsets[kind]) {
            fputs(
                "at: onset of a flag's first error; w: of a warning; ( ): over "
                "by the last step\n",
                stream);
            return;
        }
}

static void note_distances(FILE *stream, const es_comparison *comparison)
{
    const es_run_summary *to = comparison->runs[comparison->reference].summary;
    if (comparison->n_runs < 2)
        return;
    fprintf(stream, "KS, W1: Kolmogorov-Smirnov and Wasserstein distance (");
    es_print_escaped(stream, to->unit, ES_ESCAPE_TERMINAL);
    fputs(") of ", stream);
    es_print_escaped(stream, to->series, ES_ESCAPE_TERMINAL);
    fputs(" over heads", stream);
    if (comparison->n_runs > MATRIX_MOST || comparison->has_baseline ||
        comparison->n_runs == 2) {
        fputs(" to ", stream);
        es_print_escaped(stream, to->name, ES_ESCAPE_TERMINAL);
    }
    fputc('\n', stream);
}

void es_compare_print_notes(FILE *stream, const es_compare_layout *layout)
{
    const es_comparison *comparison = layout->comparison;
    const es_run_summary *first = comparison->runs[0].summary;
    fputc('\n', stream);
    es_summary_print_max(stream, first->max.policy, first->m, first->unit,
                         first->series);
    note_distances(stream, comparison);
    note_onsets(stream, layout);
    if (layout->cut)
        fputs("*: over the runs whose perplexity is finite\n", stream);
    note_settings(stream, comparison);
    if (comparison->n_runs == 1)
        fputs("one run: there is nothing to compare it with\n", stream);
}
