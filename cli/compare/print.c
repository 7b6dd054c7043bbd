#include "cli/compare/print_internal.h"

#include "analyzer/base/value.h"
#include <inttypes.h>
#include <math.h>

/* --- runs -----------------------------------------------------------------*/

static bool distances_are_columns(const es_layout *has)
{
    return !has->matrix && !has->comparison->has_baseline &&
           has->comparison->n_runs > 1;
}

static void add_results(es_sheet *sheet, const es_layout *has)
{
    es_sheet_add_settings(sheet, has->comparison, false);
    es_sheet_number_column(sheet, has->evaluated ? "eval ppl" : "ppl");
    if (has->best) {
        es_sheet_number_column(sheet, "best");
        es_sheet_number_column(sheet, "at");
    }
    es_sheet_add_bands(sheet);
    if (has->nonfinite)
        es_sheet_number_column(sheet, "NaN heads");
}

static void put_results(es_sheet *sheet, const es_layout *has, size_t index)
{
    const es_compared *run = &has->comparison->runs[index];
    const es_bands *bands = &run->summary->bands;
    es_sheet_put_settings(sheet, has->comparison, index, false);
    es_sheet_put_measured(sheet,
                          has->evaluated ? run->final.ppl : run->summary->ppl);
    if (has->best) {
        es_sheet_put_measured(sheet, run->best.ppl);
        es_sheet_put_step(sheet, run->best.step);
    }
    for (int band = 0; band < ES_N_BANDS; band++)
        es_sheet_put_share(sheet, bands, band);
    if (has->nonfinite)
        es_sheet_put(sheet, "%zu", bands->nonfinite);
}

static void add_onsets(es_sheet *sheet, const es_layout *has)
{
    es_sheet_add_onsets(sheet, has);
    if (distances_are_columns(has)) {
        es_sheet_number_column(sheet, "KS");
        es_sheet_number_column(sheet, "W1");
    }
}

static void put_onsets(es_sheet *sheet, const es_layout *has, size_t index)
{
    const es_compared *run = &has->comparison->runs[index];
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (has->onsets[kind])
            es_sheet_put_onset(sheet, &run->onsets[kind]);
    if (distances_are_columns(has)) {
        es_sheet_put_distance(sheet, run->ks);
        es_sheet_put_distance(sheet, run->wasserstein);
    }
}

static void fill_runs(es_sheet *sheet, const es_layout *has, bool results,
                      bool onsets)
{
    es_sheet_add_names(sheet, has);
    if (results)
        add_results(sheet, has);
    if (onsets)
        add_onsets(sheet, has);
    for (size_t i = 0; i < has->comparison->n_runs; i++) {
        es_sheet_put_names(sheet, has, i);
        if (results)
            put_results(sheet, has, i);
        if (onsets)
            put_onsets(sheet, has, i);
    }
}

static es_status print_sheet(es_sheet *sheet, FILE *stream,
                             const es_layout *has)
{
    es_status status = es_sheet_print(sheet, stream, has->options);
    es_sheet_free(sheet);
    return status;
}

/* Two tables where a terminal is too narrow for one. */
static es_status print_runs(FILE *stream, const es_layout *has)
{
    es_sheet whole = {0}, results = {0}, onsets = {0};
    const int width = has->options->width;
    fill_runs(&whole, has, true, true);
    if (width == 0 || es_sheet_width(&whole, NAME_WIDTH) <= (size_t)width)
        return print_sheet(&whole, stream, has);
    es_sheet_free(&whole);
    fill_runs(&results, has, true, false);
    es_status status = print_sheet(&results, stream, has);
    fill_runs(&onsets, has, false, true);
    if (!status && onsets.n_columns > (has->files ? 2 : 1)) {
        fputc('\n', stream);
        status = es_sheet_print(&onsets, stream, has->options);
    }
    es_sheet_free(&onsets);
    return status;
}

/* --- against the baseline -------------------------------------------------*/

/* Between errors where both have one, else between what is first of any. */
static void put_later(es_sheet *sheet, const es_onset *onset,
                      const es_onset *baseline, const es_delay *later)
{
    if (onset->n_episodes == 0 && baseline->n_episodes == 0)
        es_sheet_put(sheet, "-");
    else if (baseline->n_episodes == 0)
        es_sheet_put(sheet, onset->error == ES_UNKNOWN ? "new w" : "new");
    else if (onset->n_episodes == 0)
        es_sheet_put(sheet, baseline->error == ES_UNKNOWN ? "gone w" : "gone");
    else if (later->error == ES_UNKNOWN)
        es_sheet_put(sheet, "%+" PRId64 "w", later->any);
    else
        es_sheet_put(sheet, "%+" PRId64, later->error);
}

static void put_p(es_sheet *sheet, double p)
{
    if (isnan(p))
        es_sheet_put(sheet, "-");
    else
        es_sheet_put(sheet, "%.2g", p);
}

static void add_relative_columns(es_sheet *sheet, const es_layout *has)
{
    es_sheet_add_names(sheet, has);
    if (has->evaluated)
        es_sheet_number_column(sheet, "eval ppl");
    if (has->evaluated && has->best)
        es_sheet_number_column(sheet, "best");
    es_sheet_add_bands(sheet);
    es_sheet_add_onsets(sheet, has);
    es_sheet_number_column(sheet, "KS");
    es_sheet_number_column(sheet, "p");
    es_sheet_number_column(sheet, "W1");
}

static void put_relative(es_sheet *sheet, const es_layout *has, size_t index)
{
    const es_comparison *comparison = has->comparison;
    const es_compared *run = &comparison->runs[index];
    const es_compared *baseline = &comparison->runs[comparison->reference];
    es_relative by;
    es_compare_runs(&by, run, baseline);
    es_sheet_put_names(sheet, has, index);
    if (has->evaluated)
        es_sheet_put_signed(sheet, by.final, 2, "%");
    if (has->evaluated && has->best)
        es_sheet_put_signed(sheet, by.best, 2, "%");
    for (int band = 0; band < ES_N_BANDS; band++)
        es_sheet_put_signed(sheet, by.bands[band], 1, "");
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (has->onsets[kind])
            put_later(sheet, &run->onsets[kind], &baseline->onsets[kind],
                      &by.later[kind]);
    es_sheet_put_distance(sheet, run->ks);
    put_p(sheet, run->p);
    es_sheet_put_distance(sheet, run->wasserstein);
}

static es_status print_relative(FILE *stream, const es_layout *has)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = has->comparison;
    fputs("\nagainst the baseline: perplexity in per cent, bands in points, "
          "onsets in steps\n",
          stream);
    add_relative_columns(&sheet, has);
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (i != comparison->reference)
            put_relative(&sheet, has, i);
    return print_sheet(&sheet, stream, has);
}

/* --- all of it ------------------------------------------------------------*/

es_status es_comparison_print(const es_comparison *comparison, FILE *stream,
                              const es_table_options *options)
{
    es_layout has;
    if (comparison->n_runs == 0)
        return ES_OK;
    es_status status = es_layout_find(&has, comparison, options);
    if (!status)
        status = print_runs(stream, &has);
    if (!status && comparison->has_baseline && comparison->n_runs > 1)
        status = print_relative(stream, &has);
    if (!status && has.matrix)
        status = es_print_matrix(stream, &has);
    if (!status && es_comparison_has_seeds(comparison))
        status = es_print_configurations(stream, &has);
    if (!status)
        es_print_notes(stream, &has);
    return status;
}
