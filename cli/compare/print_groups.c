#include "cli/compare/print_internal.h"

#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include <math.h>

/* --- configurations -------------------------------------------------------*/

static size_t n_settings(const es_comparison *comparison)
{
    size_t n = 0;
    for (size_t i = 0; i < comparison->n_differences; i++)
        n += es_layout_has_setting(comparison, i, true);
    return n;
}

static void add_columns(es_sheet *sheet, const es_layout *has)
{
    const es_comparison *comparison = has->comparison;
    if (n_settings(comparison) == 0)
        es_sheet_text_column(sheet, "arch");
    es_sheet_add_settings(sheet, comparison, true);
    es_sheet_number_column(sheet, "runs");
    if (has->evaluated) {
        es_sheet_number_column(sheet, "NaN");
        es_sheet_number_column(sheet, "eval ppl");
        es_sheet_number_column(sheet, "std");
        es_sheet_number_column(sheet, "min");
        es_sheet_number_column(sheet, "max");
        if (has->best_means)
            es_sheet_number_column(sheet, "best");
        if (comparison->has_baseline)
            es_sheet_number_column(sheet, "against");
    }
    es_sheet_add_bands(sheet);
}

/* Marks a number that leaves out runs; others keep aligned with it. */
static const char *mark_of(const es_layout *has, const es_summary *of)
{
    if (!has->cut)
        return "";
    return of->n_finite && of->nonfinite + of->missing ? "*" : " ";
}

static void put_mean(es_sheet *sheet, const es_layout *has,
                     const es_summary *of)
{
    const char *mark = mark_of(has, of);
    if (of->n_finite > 0)
        es_sheet_put(sheet, "%.4g%s", of->mean, mark);
    else
        es_sheet_put(sheet, "%s%s", of->nonfinite ? "NaN" : "-", mark);
}

static void put_spread(es_sheet *sheet, double value, int digits)
{
    if (isnan(value))
        es_sheet_put(sheet, "-");
    else
        es_sheet_put(sheet, "%.*g", digits, value);
}

static void put_perplexity(es_sheet *sheet, const es_layout *has,
                           const es_configuration *one)
{
    const es_comparison *comparison = has->comparison;
    const es_summary *final = &one->final;
    es_sheet_put(sheet, "%zu", final->nonfinite);
    put_mean(sheet, has, final);
    put_spread(sheet, final->std, 2);
    put_spread(sheet, final->min, 4);
    put_spread(sheet, final->max, 4);
    if (has->best_means)
        put_mean(sheet, has, &one->best);
    if (comparison->has_baseline) {
        size_t to = comparison->runs[comparison->reference].configuration;
        es_relative by;
        es_compare_configurations(&by, one, &comparison->configurations[to]);
        if (one == &comparison->configurations[to])
            es_sheet_put(sheet, "baseline");
        else
            es_sheet_put_signed(sheet, by.final, 2,
                                final->nonfinite + final->missing ? "%*" : "%");
    }
}

static void put_configuration(es_sheet *sheet, const es_layout *has,
                              const es_configuration *one)
{
    const es_comparison *comparison = has->comparison;
    if (n_settings(comparison) == 0)
        es_sheet_put_name(sheet, comparison->runs[one->first].summary->arch);
    es_sheet_put_settings(sheet, comparison, one->first, true);
    es_sheet_put(sheet, "%zu", one->n);
    if (has->evaluated)
        put_perplexity(sheet, has, one);
    for (int band = 0; band < ES_N_BANDS; band++)
        es_sheet_put_share(sheet, &one->bands, band);
}

es_status es_print_configurations(FILE *stream, const es_layout *has)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = has->comparison;
    fprintf(stream,
            "\n%zu %s, seeds taken together: mean and spread of the final "
            "perplexity, heads of all runs\n",
            comparison->n_configurations,
            comparison->n_configurations == 1 ? "configuration"
                                              : "configurations");
    add_columns(&sheet, has);
    for (size_t i = 0; i < comparison->n_configurations; i++)
        put_configuration(&sheet, has, &comparison->configurations[i]);
    es_status status = es_sheet_print(&sheet, stream, has->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- distances ------------------------------------------------------------*/

es_status es_print_matrix(FILE *stream, const es_layout *has)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = has->comparison;
    size_t n = comparison->n_runs;
    char title[32];
    fputs("\ndistances between entropies: KS above the diagonal, W1 below\n",
          stream);
    es_sheet_number_column(&sheet, "");
    es_sheet_text_column(&sheet, has->files ? "file" : "run");
    for (size_t i = 0; i < n; i++) {
        snprintf(title, sizeof title, "%zu", i);
        es_sheet_number_column(&sheet, title);
    }
    for (size_t i = 0; i < n; i++) {
        es_sheet_put(&sheet, "%zu", i);
        const es_run_summary *summary = comparison->runs[i].summary;
        es_sheet_put_name(&sheet, has->files ? summary->path : summary->name);
        for (size_t j = 0; j < n; j++) {
            const es_distribution *a = &comparison->runs[i].entropy;
            const es_distribution *b = &comparison->runs[j].entropy;
            if (i == j)
                es_sheet_put(&sheet, ".");
            else
                es_sheet_put_distance(&sheet, i < j
                                                  ? es_stats_ks(a, b)
                                                  : es_stats_wasserstein(a, b));
        }
    }
    es_status status = es_sheet_print(&sheet, stream, has->options);
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
                    !es_layout_has_setting(comparison, i, false);
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

static void note_onsets(FILE *stream, const es_layout *has)
{
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (has->onsets[kind]) {
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

void es_print_notes(FILE *stream, const es_layout *has)
{
    const es_comparison *comparison = has->comparison;
    const es_run_summary *first = comparison->runs[0].summary;
    fputc('\n', stream);
    es_summary_print_max(stream, first->max.policy, first->m, first->unit,
                         first->series);
    note_distances(stream, comparison);
    note_onsets(stream, has);
    if (has->cut)
        fputs("*: over the runs whose perplexity is finite\n", stream);
    note_settings(stream, comparison);
    if (comparison->n_runs == 1)
        fputs("one run: there is nothing to compare it with\n", stream);
}
