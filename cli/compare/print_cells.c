/* What the tables of a comparison share: which columns are worth printing, and
   the cells that several of them have. */
#include "cli/compare/print_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include "cli/runs/fields.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_SHOWN 12 /* columns; the others are named below */
#define VALUE_WIDTH 40    /* columns of a setting's value */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static es_status find_twins(bool *out, const es_comparison *comparison)
{
    const size_t n = comparison->n_runs;
    const char **names;
    es_status status = es_alloc(&names, n, sizeof *names, "a table");
    if (status < 0)
        return status;
    for (size_t i = 0; i < n; i++)
        names[i] = comparison->runs[i].summary->name;
    qsort(names, n, sizeof *names, by_name);
    *out = false;
    for (size_t i = 1; i < n; i++)
        *out = *out || strcmp(names[i - 1], names[i]) == 0;
    free(names);
    return ES_OK;
}

es_status es_compare_layout_find(es_compare_layout *out,
                                 const es_comparison *comparison,
                                 const es_table_options *options)
{
    const size_t n = comparison->n_runs;
    *out = (es_compare_layout){.comparison = comparison,
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
        const es_configuration *one = &comparison->configurations[i];
        out->cut = out->cut || (one->final.n_finite > 0 &&
                                one->final.nonfinite + one->final.missing > 0);
        out->best_means = out->best_means || one->best.mean < one->final.mean;
    }
    return find_twins(&out->files, comparison);
}

bool es_compare_shows_setting(const es_comparison *comparison,
                              size_t difference, bool configurations)
{
    const es_difference *all = comparison->differences;
    size_t before = 0;
    for (size_t i = 0; i < difference; i++)
        before += !all[i].incidental;
    return !all[difference].incidental && before < SETTINGS_SHOWN &&
           !(configurations && all[difference].seed);
}

/* --- cells ----------------------------------------------------------------*/

void es_compare_put_names(es_sheet *sheet, const es_compare_layout *layout,
                          size_t run)
{
    const es_comparison *comparison = layout->comparison;
    const es_run_summary *summary = comparison->runs[run].summary;
    const bool marked =
        comparison->has_baseline && run == comparison->reference;
    if (layout->files)
        es_sheet_put_name(sheet, "file", summary->path);
    char *name = es_display_escape(*summary->name ? summary->name : "-",
                                   ES_ESCAPE_TERMINAL);
    es_sheet_put_text(sheet, "run", "%s%s", name ? name : "?",
                      marked ? " (baseline)" : "");
    free(name);
}

static void put_setting(es_sheet *sheet, const es_difference *difference,
                        const es_run_setting *setting)
{
    const char *text = setting ? setting->text : "-";
    char number[32], key[VALUE_WIDTH + 1], *safe = NULL;
    snprintf(key, sizeof key, "%s", difference->key);
    if (setting && setting->kind == ES_CONFIG_NUMBER && strpbrk(text, ".e")) {
        snprintf(number, sizeof number, "%.12g", setting->number);
        text = number; /* whole numbers keep every digit */
    } else if ((safe = es_display_escape(text, ES_ESCAPE_TERMINAL))) {
        es_display_shorten(safe, VALUE_WIDTH);
        text = safe;
    } else {
        text = "?";
    }
    if (difference->number)
        es_sheet_put(sheet, key, "%s", text);
    else
        es_sheet_put_text(sheet, key, "%s", text);
    free(safe);
}

void es_compare_put_settings(es_sheet *sheet, const es_comparison *comparison,
                             size_t run, bool configurations)
{
    for (size_t i = 0; i < comparison->n_differences; i++)
        if (es_compare_shows_setting(comparison, i, configurations))
            put_setting(sheet, &comparison->differences[i],
                        es_comparison_value(comparison, run, i));
}

const char *es_compare_band_title(int band)
{
    const es_field *field = NULL;
    while ((field = es_field_next(field, ES_FIELD_IN_TABLE)))
        if (field->kind == ES_FIELD_SHARE && band-- == 0)
            return es_field_title(field);
    return "";
}

void es_compare_put_bands(es_sheet *sheet, const es_bands *bands)
{
    for (int band = 0; band < ES_N_BANDS; band++)
        es_sheet_put_share(sheet, es_compare_band_title(band),
                           bands->counts[band], bands->n_heads);
}

void es_compare_put_distance(es_sheet *sheet, const char *title,
                             double distance)
{
    if (isnan(distance))
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%.3f", distance);
}

void es_compare_put_signed(es_sheet *sheet, const char *title,
                           es_compare_number number, int digits,
                           const char *unit)
{
    const bool zero = fabs(number.value) < 0.5 * pow(10, -digits);
    if (number.missing)
        es_sheet_put(sheet, title, "-");
    else if (isnan(number.value))
        es_sheet_put(sheet, title, "NaN");
    else /* no "-0.0" */
        es_sheet_put(sheet, title, "%+.*f%s", digits, zero ? 0.0 : number.value,
                     unit);
}
