#include "cli/compare/print_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- what there is --------------------------------------------------------*/

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static es_status find_twins(bool *out, const es_comparison *comparison)
{
    size_t n = comparison->n_runs;
    const char **names = es_resize(NULL, n, sizeof *names);
    if (!names)
        return es_fail(ES_ENOMEM, "out of memory for a table");
    for (size_t i = 0; i < n; i++)
        names[i] = comparison->runs[i].summary->name;
    qsort(names, n, sizeof *names, by_name);
    *out = false;
    for (size_t i = 1; i < n; i++)
        *out = *out || strcmp(names[i - 1], names[i]) == 0;
    free(names);
    return ES_OK;
}

es_status es_layout_find(es_layout *out, const es_comparison *comparison,
                         const es_table_options *options)
{
    size_t n = comparison->n_runs;
    *out = (es_layout){.comparison = comparison,
                       .options = options,
                       .matrix = n > 2 && n <= MATRIX_MOST};
    for (size_t i = 0; i < n; i++) {
        const es_compared *run = &comparison->runs[i];
        out->evaluated = out->evaluated || !es_is_missing(run->final.ppl);
        out->best = out->best || run->best.step != run->final.step;
        out->nonfinite = out->nonfinite || run->summary->bands.nonfinite > 0;
        for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
            out->onsets[kind] =
                out->onsets[kind] || run->onsets[kind].n_episodes > 0;
    }
    for (size_t i = 0; i < comparison->n_configurations; i++) {
        const es_summary *final = &comparison->configurations[i].final;
        out->cut = out->cut || (final->n_finite > 0 &&
                                final->nonfinite + final->missing > 0);
        out->best_means = out->best_means ||
                          comparison->configurations[i].best.mean < final->mean;
    }
    return find_twins(&out->files, comparison);
}

bool es_layout_has_setting(const es_comparison *comparison, size_t index,
                           bool configurations)
{
    size_t before = 0;
    const es_difference *difference = &comparison->differences[index];
    for (size_t i = 0; i < index; i++)
        before += !comparison->differences[i].incidental;
    return !difference->incidental && before < SETTINGS_SHOWN &&
           !(configurations && difference->seed);
}

/* --- cells ----------------------------------------------------------------*/

void es_sheet_add_settings(es_sheet *sheet, const es_comparison *comparison,
                           bool configurations)
{
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        char key[VALUE_WIDTH + 1];
        if (!es_layout_has_setting(comparison, i, configurations))
            continue;
        snprintf(key, sizeof key, "%s", difference->key);
        if (difference->number)
            es_sheet_number_column(sheet, key);
        else
            es_sheet_text_column(sheet, key);
    }
}

static void put_setting(es_sheet *sheet, const es_run_setting *setting)
{
    const char *text = setting ? setting->text : "-";
    if (setting && setting->kind == ES_CONFIG_NUMBER &&
        strpbrk(text, ".e")) { /* no whole number: those keep every digit */
        es_sheet_put(sheet, "%.12g", setting->number);
        return;
    }
    char *safe = es_display_escape(text, ES_ESCAPE_TERMINAL);
    if (safe)
        es_display_shorten(safe, VALUE_WIDTH);
    es_sheet_put(sheet, "%s", safe ? safe : "?");
    free(safe);
}

void es_sheet_put_settings(es_sheet *sheet, const es_comparison *comparison,
                           size_t run, bool configurations)
{
    for (size_t i = 0; i < comparison->n_differences; i++)
        if (es_layout_has_setting(comparison, i, configurations))
            put_setting(sheet, es_comparison_value(comparison, run, i));
}

void es_sheet_add_bands(es_sheet *sheet)
{
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_TABLE));)
        if (field->kind == ES_FIELD_SHARE)
            es_sheet_number_column(sheet, es_field_title(field));
}

void es_sheet_add_names(es_sheet *sheet, const es_layout *has)
{
    if (has->files)
        es_sheet_text_column(sheet, "file");
    es_sheet_text_column(sheet, "run");
}

void es_sheet_put_names(es_sheet *sheet, const es_layout *has, size_t index)
{
    const es_comparison *comparison = has->comparison;
    const es_run_summary *summary = comparison->runs[index].summary;
    if (has->files)
        es_sheet_put_name(sheet, summary->path);
    char *name = es_display_escape(*summary->name ? summary->name : "-",
                                   ES_ESCAPE_TERMINAL);
    bool marked = comparison->has_baseline && index == comparison->reference;
    es_sheet_put(sheet, "%s%s", name ? name : "?", marked ? " (baseline)" : "");
    free(name);
}

void es_sheet_put_onset(es_sheet *sheet, const es_onset *onset)
{
    const char *open = onset->stands ? "" : "(",
               *end = onset->stands ? "" : ")";
    if (onset->n_episodes == 0)
        es_sheet_put(sheet, "-");
    else if (onset->error == ES_UNKNOWN)
        es_sheet_put(sheet, "%s%" PRId64 "w%s", open, onset->any, end);
    else if (onset->error == onset->any)
        es_sheet_put(sheet, "%s%" PRId64 "%s", open, onset->error, end);
    else
        es_sheet_put(sheet, "%s%" PRId64 "w %" PRId64 "%s", open, onset->any,
                     onset->error, end);
}

void es_sheet_add_onsets(es_sheet *sheet, const es_layout *has)
{
    char title[32];
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
        snprintf(title, sizeof title, "%s at",
                 es_flag_name((es_flag_kind)kind));
        if (has->onsets[kind])
            es_sheet_number_column(sheet, title);
    }
}

void es_sheet_put_distance(es_sheet *sheet, double distance)
{
    if (isnan(distance))
        es_sheet_put(sheet, "-");
    else
        es_sheet_put(sheet, "%.3f", distance);
}

void es_sheet_put_signed(es_sheet *sheet, es_measure measure, int digits,
                         const char *unit)
{
    if (measure.missing)
        es_sheet_put(sheet, "-");
    else if (isnan(measure.value))
        es_sheet_put(sheet, "NaN");
    else if (fabs(measure.value) < 0.5 * pow(10, -digits)) /* no "-0.0" */
        es_sheet_put(sheet, "%+.*f%s", digits, 0.0, unit);
    else
        es_sheet_put(sheet, "%+.*f%s", digits, measure.value, unit);
}
