/* The tables of --compare: runs, and the runs against the baseline; the others
   are in print_groups.c. Columns that say nothing are left out. */
#include "cli/compare/print_internal.h"

#include "analyzer/base/value.h"
#include <inttypes.h>
#include <math.h>

#define NAME_WIDTH 16 /* columns: a shorter name hardly identifies a run */

static const char *onset_title(char out[32], int kind)
{
    snprintf(out, 32, "%s at", es_flag_name((es_flag_kind)kind));
    return out;
}

/* --- runs -----------------------------------------------------------------*/

static void put_results(es_sheet *sheet, const es_compare_layout *layout,
                        size_t index)
{
    const es_compared *run = &layout->comparison->runs[index];
    const es_bands *bands = &run->summary->bands;
    es_compare_put_settings(sheet, layout->comparison, index, false);
    if (layout->evaluated)
        es_sheet_put_measured(sheet, "eval ppl", run->final.ppl);
    else
        es_sheet_put_measured(sheet, "ppl", run->summary->ppl);
    if (layout->best) {
        es_sheet_put_measured(sheet, "best", run->best.ppl);
        es_sheet_put_step(sheet, "at", run->best.step);
    }
    es_compare_put_bands(sheet, bands);
    if (layout->nonfinite)
        es_sheet_put(sheet, "NaN heads", "%zu", bands->nonfinite);
}

/* "240"; "80w 240": a warning since 80, an error since 240; "80w"; "(240)":
   over by the end. */
static void put_onset(es_sheet *sheet, const char *title, const es_onset *onset)
{
    const char *open = onset->stands ? "" : "(";
    const char *end = onset->stands ? "" : ")";
    if (onset->n_episodes == 0)
        es_sheet_put(sheet, title, "-");
    else if (onset->error == ES_UNKNOWN)
        es_sheet_put(sheet, title, "%s%" PRId64 "w%s", open, onset->any, end);
    else if (onset->error == onset->any)
        es_sheet_put(sheet, title, "%s%" PRId64 "%s", open, onset->error, end);
    else
        es_sheet_put(sheet, title, "%s%" PRId64 "w %" PRId64 "%s", open,
                     onset->any, onset->error, end);
}

static void put_onsets(es_sheet *sheet, const es_compare_layout *layout,
                       size_t index)
{
    const es_comparison *comparison = layout->comparison;
    const es_compared *run = &comparison->runs[index];
    char title[32];
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (layout->onsets[kind])
            put_onset(sheet, onset_title(title, kind), &run->onsets[kind]);
    if (!layout->matrix && !comparison->has_baseline &&
        comparison->n_runs > 1) {
        es_compare_put_distance(sheet, "KS", run->ks);
        es_compare_put_distance(sheet, "W1", run->wasserstein);
    }
}

static void fill_runs(es_sheet *sheet, const es_compare_layout *layout,
                      bool results, bool onsets)
{
    for (size_t i = 0; i < layout->comparison->n_runs; i++) {
        es_sheet_begin_row(sheet);
        es_compare_put_names(sheet, layout, i);
        if (results)
            put_results(sheet, layout, i);
        if (onsets)
            put_onsets(sheet, layout, i);
    }
}

/* Two tables where a terminal is too narrow for one. */
static es_status print_runs(FILE *stream, const es_compare_layout *layout)
{
    es_sheet whole = {0}, results = {0}, onsets = {0};
    const size_t width = (size_t)layout->options->width;
    es_status status;
    fill_runs(&whole, layout, true, true);
    if (width == 0 || es_sheet_width(&whole, NAME_WIDTH) <= width) {
        status = es_sheet_print(&whole, stream, layout->options);
        goto done;
    }
    fill_runs(&results, layout, true, false);
    fill_runs(&onsets, layout, false, true);
    status = es_sheet_print(&results, stream, layout->options);
    if (status == ES_OK && onsets.n_columns > (layout->files ? 2 : 1)) {
        fputc('\n', stream);
        status = es_sheet_print(&onsets, stream, layout->options);
    }
done:
    es_sheet_free(&whole);
    es_sheet_free(&results);
    es_sheet_free(&onsets);
    return status;
}

/* --- against the baseline -------------------------------------------------*/

/* Between errors where both have one, else between what is first of any. */
static void put_later(es_sheet *sheet, const char *title, const es_onset *onset,
                      const es_onset *baseline, const es_delay *later)
{
    if (onset->n_episodes == 0 && baseline->n_episodes == 0)
        es_sheet_put(sheet, title, "-");
    else if (baseline->n_episodes == 0)
        es_sheet_put(sheet, title, "new%s",
                     onset->error == ES_UNKNOWN ? " w" : "");
    else if (onset->n_episodes == 0)
        es_sheet_put(sheet, title, "gone%s",
                     baseline->error == ES_UNKNOWN ? " w" : "");
    else if (later->error == ES_UNKNOWN)
        es_sheet_put(sheet, title, "%+" PRId64 "w", later->any);
    else
        es_sheet_put(sheet, title, "%+" PRId64, later->error);
}

static void put_relative(es_sheet *sheet, const es_compare_layout *layout,
                         size_t index)
{
    const es_comparison *comparison = layout->comparison;
    const es_compared *run = &comparison->runs[index];
    const es_compared *baseline = &comparison->runs[comparison->reference];
    char title[32];
    es_relative by;
    es_compare_runs(&by, run, baseline);
    es_sheet_begin_row(sheet);
    es_compare_put_names(sheet, layout, index);
    if (layout->evaluated)
        es_compare_put_signed(sheet, "eval ppl", by.final, 2, "%");
    if (layout->evaluated && layout->best)
        es_compare_put_signed(sheet, "best", by.best, 2, "%");
    for (int band = 0; band < ES_N_BANDS; band++)
        es_compare_put_signed(sheet, es_compare_band_title(band),
                              by.bands[band], 1, "");
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (layout->onsets[kind])
            put_later(sheet, onset_title(title, kind), &run->onsets[kind],
                      &baseline->onsets[kind], &by.later[kind]);
    es_compare_put_distance(sheet, "KS", run->ks);
    if (isnan(run->p))
        es_sheet_put(sheet, "p", "-");
    else
        es_sheet_put(sheet, "p", "%.2g", run->p);
    es_compare_put_distance(sheet, "W1", run->wasserstein);
}

static es_status print_relative(FILE *stream, const es_compare_layout *layout)
{
    const es_comparison *comparison = layout->comparison;
    es_sheet sheet = {0};
    fputs("\nagainst the baseline: perplexity in per cent, bands in points, "
          "onsets in steps\n",
          stream);
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (i != comparison->reference)
            put_relative(&sheet, layout, i);
    es_status status = es_sheet_print(&sheet, stream, layout->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- all of it ------------------------------------------------------------*/

es_status es_comparison_print(const es_comparison *comparison, FILE *stream,
                              const es_table_options *options)
{
    es_compare_layout layout;
    es_status status;
    if (comparison->n_runs == 0)
        return ES_OK;
    if ((status = es_compare_layout_find(&layout, comparison, options)) < 0 ||
        (status = print_runs(stream, &layout)) < 0 ||
        (comparison->has_baseline && comparison->n_runs > 1 &&
         (status = print_relative(stream, &layout)) < 0) ||
        (layout.matrix &&
         (status = es_compare_print_matrix(stream, &layout)) < 0) ||
        (es_comparison_has_seeds(comparison) &&
         (status = es_compare_print_configurations(stream, &layout)) < 0))
        return status;
    es_compare_print_notes(stream, &layout);
    return ES_OK;
}
