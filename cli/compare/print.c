/* Prints the tables of --compare and the notes below them. The tables show the
 * runs, the runs compared with the baseline, the distances between runs, the
 * configurations, and statistical tests of configurations. Columns without
 * information are omitted. */
#include "cli/compare/compare_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/display.h"
#include "analyzer/base/value.h"
#include "cli/output/print.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MATRIX_MOST 12 /* maximum number of runs in a distance matrix */
/* Minimum width of a name in screen columns; a shorter name hardly identifies a
 * run. */
#define NAME_WIDTH 16
/* Maximum width of a setting's value in screen columns. */
#define VALUE_WIDTH 40

/* The properties of a comparison that determine which columns are shown. */
typedef struct layout {
    const es_comparison *comparison;
    const es_table_options *options;
    bool files;                   /* file names are shown, because the runs'
                                     names are not unique */
    bool labelled;                /* the runs' labels are shown, because they
                                     contain more than the runs' names */
    bool evaluated;               /* at least one run was evaluated */
    bool best;                    /* the best evaluation of at least one run
                                     is not its last */
    bool best_means;              /* the best mean of at least one
                                     configuration differs from its final
                                     mean */
    bool onsets[ES_N_FLAG_KINDS]; /* at least one run has a flag of this kind */
    bool nonfinite;               /* at least one head has a value that is not
                                     finite */
    bool matrix;                  /* distances are shown as a matrix instead of
                                     as columns */
    bool cut;                     /* at least one mean excludes runs whose
                                     perplexity is not finite */
    bool costs;                   /* modelled costs differ between runs */
} layout;

/* Returns true if a modelled cost differs between runs. Costs that are equal in
 * all runs are not shown. */
static bool costs_differ(const es_comparison *comparison)
{
    const es_field *field = NULL;
    while ((field = es_field_next(field, ES_FIELD_IN_COMPARED)))
        for (size_t i = 1; i < comparison->n_runs; i++) {
            double a = es_field_number(field, comparison->runs[0].summary);
            double b = es_field_number(field, comparison->runs[i].summary);
            if (a != b && !(isnan(a) && isnan(b)))
                return true;
        }
    return false;
}

static es_status find_layout(layout *out, const es_comparison *comparison,
                             const es_table_options *options)
{
    const size_t n = comparison->n_runs;
    const char **names;
    es_status status = es_alloc(&names, n, sizeof *names, "a table");
    if (status < 0)
        return status;
    *out = (layout){.comparison = comparison,
                    .options = options,
                    .matrix = n > 2 && n <= MATRIX_MOST};
    for (size_t i = 0; i < n; i++) {
        const es_compared *run = &comparison->runs[i];
        names[i] = run->summary->name;
        out->labelled = out->labelled || strcmp(comparison->labels.plain[i],
                                                run->summary->name) != 0;
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
    out->files = es_names_repeat(names, n);
    out->costs = costs_differ(comparison);
    free(names);
    return ES_OK;
}

/* Returns true if a setting has a column in the table of configurations
 * (`configurations` is true) or in the table of runs. */
static bool shows_setting(const es_difference *difference, bool configurations)
{
    return difference->column && !(configurations && difference->seed);
}

/* --- cells ----------------------------------------------------------------*/

/* Appends a cell with the run's name and, if names do not identify the runs, a
 * cell with its file name. */
static void put_names(es_sheet *sheet, const layout *shown, size_t run)
{
    const es_comparison *comparison = shown->comparison;
    const es_run_summary *summary = comparison->runs[run].summary;
    const bool marked =
        comparison->has_baseline && run == comparison->reference;
    if (shown->files)
        es_sheet_put_name(sheet, "file", summary->path);
    char *name = es_display_escape(*summary->name ? summary->name : "-",
                                   ES_ESCAPE_TERMINAL);
    if (name)
        es_sheet_put_text(sheet, "run", "%s%s", name,
                          marked ? " (baseline)" : "");
    else
        sheet->status = ES_ENOMEM;
    free(name);
}

/* Appends the run's label in tables without columns for settings. */
static void put_label(es_sheet *sheet, const layout *shown, size_t run)
{
    if (shown->labelled)
        es_sheet_put_name(sheet, "label", shown->comparison->labels.plain[run]);
}

static void put_settings(es_sheet *sheet, const es_comparison *comparison,
                         size_t run, bool configurations)
{
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        const es_run_setting *setting = es_comparison_value(comparison, run, i);
        const char *text = setting ? setting->text : "-";
        char number[ES_FLOAT_TEXT_MAX], key[VALUE_WIDTH + 1], *safe = NULL;
        if (!shows_setting(difference, configurations))
            continue;
        snprintf(key, sizeof key, "%s", difference->key);
        if (setting && setting->kind == ES_CONFIG_NUMBER &&
            strpbrk(text, ".e")) {
            /* whole numbers are printed with all digits */
            text = es_number_print(number, setting->number, 12);
        } else if ((safe = es_display_escape(text, ES_ESCAPE_TERMINAL))) {
            es_display_shorten(safe, VALUE_WIDTH);
            text = safe;
        } else {
            sheet->status = ES_ENOMEM;
        }
        if (difference->number)
            es_sheet_put(sheet, key, "%s", text);
        else
            es_sheet_put_text(sheet, key, "%s", text);
        free(safe);
    }
}

/* Returns the column title of a band of entropies. The table that
 * `entropy-scan` prints without --compare has the same titles. */
static const char *band_title(int band)
{
    const es_field *field = NULL;
    while ((field = es_field_next(field, ES_FIELD_IN_TABLE)))
        if (field->kind == ES_FIELD_SHARE && band-- == 0)
            return es_field_title(field);
    return "";
}

static void put_bands(es_sheet *sheet, const es_bands *bands)
{
    for (int band = 0; band < ES_N_BANDS; band++)
        es_sheet_put_share(sheet, band_title(band), bands->counts[band],
                           bands->n_heads);
}

/* Appends a cell with a value, printed with `digits` digits; "-" for NaN. */
static void put_known(es_sheet *sheet, const char *title, double value,
                      int digits)
{
    if (isnan(value))
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%.*g", digits, value);
}

/* Appends a cell with a 95 % interval such as "0.31-0.47"; "-" if the interval
 * is unknown. */
static void put_interval(es_sheet *sheet, double low, double high)
{
    if (isnan(low))
        es_sheet_put(sheet, "95%", "-");
    else
        es_sheet_put(sheet, "95%", "%.3g%s%.3g", low, low < 0 ? " to " : "-",
                     high);
}

static void put_distance(es_sheet *sheet, const char *title, double distance)
{
    if (isnan(distance))
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%.3f", distance);
}

/* Appends a cell with a difference such as "+1.5%"; "-" if the difference is
 * missing. */
static void put_signed(es_sheet *sheet, const char *title,
                       es_compare_number number, int digits, const char *unit)
{
    const bool zero = fabs(number.value) < 0.5 * pow(10, -digits);
    if (number.missing)
        es_sheet_put(sheet, title, "-");
    else if (isnan(number.value))
        es_sheet_put(sheet, title, "NaN");
    else /* avoids "-0.0" */
        es_sheet_put(sheet, title, "%+.*f%s", digits, zero ? 0.0 : number.value,
                     unit);
}

static const char *onset_title(char out[32], int kind)
{
    snprintf(out, 32, "%s at", es_flag_name((es_flag_kind)kind));
    return out;
}

/* --- runs -----------------------------------------------------------------*/

static void put_results(es_sheet *sheet, const layout *shown, size_t index)
{
    const es_compared *run = &shown->comparison->runs[index];
    const es_bands *bands = &run->summary->bands;
    put_settings(sheet, shown->comparison, index, false);
    if (shown->evaluated)
        es_sheet_put_measured(sheet, "eval ppl", run->final.ppl);
    else
        es_sheet_put_measured(sheet, "ppl", run->summary->ppl);
    if (shown->best) {
        es_sheet_put_measured(sheet, "best", run->best.ppl);
        es_sheet_put_integer(sheet, "at", run->best.step);
    }
    put_bands(sheet, bands);
    if (shown->nonfinite)
        es_sheet_put(sheet, "NaN heads", "%zu", bands->nonfinite);
    const es_field *field = NULL;
    while (shown->costs &&
           (field = es_field_next(field, ES_FIELD_IN_COMPARED))) {
        put_known(sheet, es_field_title(field),
                  es_field_number(field, run->summary), 3);
        if (field->modelled) {
            es_modelled modelled = field->modelled(run->summary);
            put_interval(sheet, modelled.low, modelled.high);
        }
    }
}

/* Appends a cell with the onset of a flag: "240" for an error since step 240;
 * "80w 240" for a warning since step 80 that became an error at step 240; "80w"
 * for a flag that was only a warning. Parentheses mean that the flag is no
 * longer active at the last step. */
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

static void fill_runs(es_sheet *sheet, const layout *shown, bool results,
                      bool onsets)
{
    const es_comparison *comparison = shown->comparison;
    const bool distances =
        !shown->matrix && !comparison->has_baseline && comparison->n_runs > 1;
    for (size_t i = 0; i < comparison->n_runs; i++) {
        const es_compared *run = &comparison->runs[i];
        char title[32];
        es_sheet_begin_row(sheet, NULL);
        put_names(sheet, shown, i);
        if (results)
            put_results(sheet, shown, i);
        for (int kind = 0; onsets && kind < ES_N_FLAG_KINDS; kind++)
            if (shown->onsets[kind])
                put_onset(sheet, onset_title(title, kind), &run->onsets[kind]);
        if (onsets && distances) {
            put_distance(sheet, "KS", run->ks);
            put_distance(sheet, "W1", run->wasserstein);
        }
    }
}

/* Prints the runs as one table, or as two tables if the terminal is too
 * narrow. */
static es_status print_runs(FILE *stream, const layout *shown)
{
    es_sheet whole = {0}, results = {0}, onsets = {0};
    const size_t width = (size_t)shown->options->width;
    es_status status;
    fill_runs(&whole, shown, true, true);
    if (width == 0 || es_sheet_width(&whole, NAME_WIDTH) <= width) {
        status = es_sheet_print(&whole, stream, shown->options);
        goto done;
    }
    fill_runs(&results, shown, true, false);
    fill_runs(&onsets, shown, false, true);
    status = es_sheet_print(&results, stream, shown->options);
    if (status == ES_OK && onsets.n_columns > (shown->files ? 2 : 1)) {
        fputc('\n', stream);
        status = es_sheet_print(&onsets, stream, shown->options);
    }
done:
    es_sheet_free(&whole);
    es_sheet_free(&results);
    es_sheet_free(&onsets);
    return status;
}

/* --- comparison with the baseline ----------------------------------------- */

/* Appends a cell with the number of steps by which a flag's onset is later than
 * in the baseline. The onsets of errors are compared if both runs have an
 * error, else the first onsets of any severity. */
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

static void put_relative(es_sheet *sheet, const layout *shown, size_t index)
{
    const es_comparison *comparison = shown->comparison;
    const es_compared *run = &comparison->runs[index];
    const es_compared *baseline = &comparison->runs[comparison->reference];
    char title[32];
    es_relative by;
    es_compare_runs(&by, run, baseline);
    es_sheet_begin_row(sheet, NULL);
    put_names(sheet, shown, index);
    put_label(sheet, shown, index);
    if (shown->evaluated)
        put_signed(sheet, "eval ppl", by.final, 2, "%");
    if (shown->evaluated && shown->best)
        put_signed(sheet, "best", by.best, 2, "%");
    for (int band = 0; band < ES_N_BANDS; band++)
        put_signed(sheet, band_title(band), by.bands[band], 1, "");
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (shown->onsets[kind])
            put_later(sheet, onset_title(title, kind), &run->onsets[kind],
                      &baseline->onsets[kind], &by.later[kind]);
    put_distance(sheet, "KS", run->ks);
    put_known(sheet, "p", run->p, 2);
    put_known(sheet, "Holm", run->p_holm, 2);
    put_distance(sheet, "W1", run->wasserstein);
}

static es_status print_relative(FILE *stream, const layout *shown)
{
    const es_comparison *comparison = shown->comparison;
    es_sheet sheet = {0};
    fputs("\n"
          "compared with the baseline: perplexity in per cent, bands in "
          "percentage points, onsets in steps\n",
          stream);
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (i != comparison->reference)
            put_relative(&sheet, shown, i);
    es_status status = es_sheet_print(&sheet, stream, shown->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- configurations -------------------------------------------------------*/

/* Appends a cell with a mean. A "*" marks a mean that excludes runs; the other
 * means are padded so that they stay aligned. */
static void put_mean(es_sheet *sheet, const char *title, const layout *shown,
                     const es_summary *runs)
{
    const char *mark = !shown->cut ? ""
                       : runs->n_finite && runs->nonfinite + runs->missing
                           ? "*"
                           : " ";
    if (runs->n_finite > 0)
        es_sheet_put(sheet, title, "%.4g%s", runs->mean, mark);
    else
        es_sheet_put(sheet, title, "%s%s", runs->nonfinite ? "NaN" : "-", mark);
}

static void put_perplexity(es_sheet *sheet, const layout *shown,
                           const es_configuration *one)
{
    const es_comparison *comparison = shown->comparison;
    const es_summary *final = &one->final;
    es_sheet_put(sheet, "NaN", "%zu", final->nonfinite);
    put_mean(sheet, "eval ppl", shown, final);
    put_interval(sheet, one->mean.low, one->mean.high);
    put_known(sheet, "std", final->std, 2);
    put_known(sheet, "min", final->min, 4);
    put_known(sheet, "max", final->max, 4);
    if (shown->best_means)
        put_mean(sheet, "best", shown, &one->best);
    if (comparison->has_baseline) {
        size_t to = comparison->runs[comparison->reference].configuration;
        es_relative by;
        es_compare_configurations(&by, one, &comparison->configurations[to]);
        if (one == &comparison->configurations[to])
            es_sheet_put(sheet, "against", "baseline");
        else
            put_signed(sheet, "against", by.final, 2,
                       final->nonfinite + final->missing ? "%*" : "%");
    }
}

/* Prints the table of configurations in the order of the indices `order`
 * (n_configurations), or in the order of the comparison if `order` is NULL. */
static es_status print_configurations(FILE *stream, const layout *shown,
                                      const size_t *order)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = shown->comparison;
    const size_t n = comparison->n_configurations;
    bool has_settings = false;
    for (size_t i = 0; i < comparison->n_differences; i++)
        has_settings =
            has_settings || shows_setting(&comparison->differences[i], true);
    fprintf(stream,
            "%s%zu configuration%s%s, seeds combined: mean and spread of "
            "the final %s, heads of all runs\n",
            order ? "" : "\n", n, n == 1 ? "" : "s",
            order ? ", best first" : "",
            order && !shown->evaluated ? "loss" : "perplexity");
    for (size_t i = 0; i < n; i++) {
        const es_configuration *one =
            &comparison->configurations[order ? order[i] : i];
        es_sheet_begin_row(&sheet, NULL);
        if (!has_settings)
            es_sheet_put_name(&sheet, "arch",
                              comparison->runs[one->first].summary->arch);
        put_settings(&sheet, comparison, one->first, true);
        es_sheet_put(&sheet, "runs", "%zu", one->n);
        if (shown->evaluated)
            put_perplexity(&sheet, shown, one);
        else if (order)
            put_mean(&sheet, "loss", shown, &one->loss);
        put_bands(&sheet, &one->bands);
    }
    es_status status = es_sheet_print(&sheet, stream, shown->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- distances ------------------------------------------------------------*/

static es_status print_matrix(FILE *stream, const layout *shown)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = shown->comparison;
    fputs("\ndistances between entropies: KS above the diagonal, W1 below\n",
          stream);
    for (size_t i = 0; i < comparison->n_runs; i++) {
        const es_compared *run = &comparison->runs[i];
        es_sheet_begin_row(&sheet, NULL);
        es_sheet_put(&sheet, "", "%zu", i);
        if (shown->files)
            es_sheet_put_name(&sheet, "file", run->summary->path);
        else
            es_sheet_put_name(&sheet, "run", run->summary->name);
        put_label(&sheet, shown, i);
        for (size_t j = 0; j < comparison->n_runs; j++) {
            const es_distribution *a = &run->entropy;
            const es_distribution *b = &comparison->runs[j].entropy;
            char title[32];
            snprintf(title, sizeof title, "%zu", j);
            if (i == j)
                es_sheet_put(&sheet, title, ".");
            else
                put_distance(&sheet, title,
                             i < j ? es_stats_ks(a, b)
                                   : es_stats_wasserstein(a, b));
        }
    }
    es_status status = es_sheet_print(&sheet, stream, shown->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- evidence ------------------------------------------------------------- */

/* Returns true if configurations are compared with a baseline and at least one
 * of them has several runs. */
static bool has_evidence(const es_comparison *comparison)
{
    return comparison->has_baseline && comparison->n_configurations > 1 &&
           comparison->n_configurations < comparison->n_runs;
}

/* Appends a cell with a value, printed with `digits` digits and with or without
 * the sign "+"; "-" for NaN. */
static void put_value(es_sheet *sheet, const char *title, double value,
                      bool sign, int digits)
{
    if (isnan(value))
        es_sheet_put(sheet, title, "-");
    else if (sign)
        es_sheet_put(sheet, title, "%+.*g", digits, value);
    else
        es_sheet_put(sheet, title, "%.*g", digits, value);
}

/* Prints the table of configurations compared with the configuration of the
 * baseline. Prints nothing without a baseline or without several seeds. */
static es_status print_evidence(FILE *stream, const layout *shown)
{
    es_sheet sheet = {0};
    const es_comparison *comparison = shown->comparison;
    if (!has_evidence(comparison))
        return ES_OK;
    const size_t to = comparison->runs[comparison->reference].configuration;
    fputs("\n"
          "configurations compared with the baseline's: final perplexity over "
          "seeds, entropy over layers and seeds\n",
          stream);
    for (size_t i = 0; i < comparison->n_configurations; i++) {
        const es_configuration *one = &comparison->configurations[i];
        const es_evidence *by = &one->evidence;
        if (i == to)
            continue;
        es_sheet_begin_row(&sheet, NULL);
        es_sheet_put_name(&sheet, "configuration",
                          comparison->configuration_labels.plain[i]);
        es_sheet_put(&sheet, "runs", "%zu", one->n);
        put_value(&sheet, "ppl by", by->ppl.difference, true, 4);
        if (isnan(by->ppl.low))
            es_sheet_put(&sheet, "95%", "-");
        else
            es_sheet_put(&sheet, "95%", "%+.3g to %+.3g", by->ppl.low,
                         by->ppl.high);
        put_value(&sheet, "g", by->ppl.g, true, 3);
        put_value(&sheet, "Welch p", by->ppl.p, false, 2);
        put_value(&sheet, "Holm", by->welch_holm, false, 2);
        put_value(&sheet, "seeds p", by->ppl.permuted, false, 2);
        put_value(&sheet, "Holm", by->permuted_holm, false, 2);
        put_value(&sheet, "KS", by->ks, false, 3);
        put_value(&sheet, "layers p", by->p, false, 2);
        put_value(&sheet, "Holm", by->p_holm, false, 2);
    }
    es_status status = es_sheet_print(&sheet, stream, shown->options);
    es_sheet_free(&sheet);
    return status;
}

/* --- notes ----------------------------------------------------------------*/

static void note_settings(FILE *stream, const es_comparison *comparison)
{
    size_t n_hidden = 0;
    const char *before = "also different, but incidental: ";
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        n_hidden += !difference->incidental && !difference->column;
        if (!difference->incidental)
            continue;
        fputs(before, stream);
        es_print_escaped(stream, difference->key, ES_ESCAPE_TERMINAL);
        before = ", ";
    }
    if (before[0] == ',')
        fputc('\n', stream);
    if (n_hidden > 0)
        fprintf(stream, "%zu more settings differ: --json lists them\n",
                n_hidden);
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (comparison->runs[i].summary->settings.cut) {
            es_print_escaped(stream, comparison->runs[i].summary->path,
                             ES_ESCAPE_TERMINAL);
            fprintf(stream,
                    ": more than %d settings: the others are left out\n",
                    ES_SETTINGS_MOST);
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

/* Returns the reasons why intervals or tests are missing, as one bit per
 * reason. */
static unsigned find_reasons(const es_comparison *comparison)
{
    unsigned found = 0;
    const size_t to = comparison->runs[comparison->reference].configuration;
    for (size_t i = 0; i < comparison->n_configurations; i++) {
        const es_configuration *one = &comparison->configurations[i];
        if (one->final.n_finite > 0)
            found |= 1u << one->mean.reason;
        if (has_evidence(comparison) && i != to)
            found |= 1u << one->evidence.ppl.reason;
    }
    return found;
}

/* Prints notes that explain p-values and confidence intervals, and the reasons
 * why some of them are missing. */
static void note_evidence(FILE *stream, const es_comparison *comparison)
{
    const bool seeds = comparison->n_configurations < comparison->n_runs;
    if (!es_stats_gsl()) {
        if (seeds || comparison->has_baseline)
            fputs("no intervals, p and g: this program is built without GSL\n",
                  stream);
        return;
    }
    if (comparison->has_baseline && comparison->n_runs > 1)
        fputs("p: probability of a distance at least as large if layers are "
              "exchanged between the runs; Holm: adjusted for the number of "
              "runs\n",
              stream);
    if (!seeds)
        return;
    fputs("95%: interval of the mean by Student's t", stream);
    if (has_evidence(comparison))
        fputs("; g: Hedges' effect size; seeds p: by exchanging perplexities "
              "between configurations",
              stream);
    fputc('\n', stream);
    const unsigned reasons = find_reasons(comparison);
    if (reasons & 1u << ES_REASON_FEW)
        fputs("no interval, g or p for fewer than two runs with a finite "
              "perplexity\n",
              stream);
    if (reasons & 1u << ES_REASON_CONSTANT)
        fputs("no interval, g or p for perplexities that are all equal\n",
              stream);
}

static void print_notes(FILE *stream, const layout *shown)
{
    const es_comparison *comparison = shown->comparison;
    const es_run_summary *first = comparison->runs[0].summary;
    bool onsets = false;
    fputc('\n', stream);
    es_summary_print_max(stream, first->max.policy, first->m, first->unit,
                         first->series);
    note_distances(stream, comparison);
    note_evidence(stream, comparison);
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        onsets = onsets || shown->onsets[kind];
    if (onsets)
        fputs("at: step of a flag's first error; w: step of its first warning; "
              "( ): no longer active at the last step\n",
              stream);
    if (shown->cut)
        fputs("*: mean of only the runs with a finite perplexity\n", stream);
    if (shown->costs)
        fputs("GB, minutes: modelled cost of a private forward pass, with 95% "
              "intervals\n",
              stream);
    note_settings(stream, comparison);
    if (comparison->n_runs == 1)
        fputs("one run: there is nothing to compare it with\n", stream);
}

/* --- whole comparison ----------------------------------------------------- */

es_status es_comparison_print(const es_comparison *comparison, FILE *stream,
                              const es_table_options *options)
{
    layout shown;
    es_status status;
    if (comparison->n_runs == 0)
        return ES_OK;
    if ((status = find_layout(&shown, comparison, options)) < 0 ||
        (status = print_runs(stream, &shown)) < 0 ||
        (comparison->has_baseline && comparison->n_runs > 1 &&
         (status = print_relative(stream, &shown)) < 0) ||
        (shown.matrix && (status = print_matrix(stream, &shown)) < 0) ||
        (comparison->n_configurations <
             comparison->n_runs && /* several seeds */
         (status = print_configurations(stream, &shown, NULL)) < 0) ||
        (status = print_evidence(stream, &shown)) < 0)
        return status;
    print_notes(stream, &shown);
    return ES_OK;
}

es_status es_comparison_print_best(const es_comparison *comparison,
                                   FILE *stream,
                                   const es_table_options *options)
{
    layout shown;
    size_t *order = NULL;
    es_status status;
    if (comparison->n_runs == 0)
        return ES_OK;
    if ((status = find_layout(&shown, comparison, options)) < 0 ||
        (status = es_alloc(&order, comparison->n_configurations, sizeof *order,
                           "a table")) < 0 ||
        (status = es_comparison_rank(order, comparison, shown.evaluated)) < 0)
        goto done;
    status = print_configurations(stream, &shown, order);
done:
    free(order);
    return status;
}
