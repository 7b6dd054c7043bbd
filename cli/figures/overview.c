/*
 * Draws the figure overview, a table with one row per run: settings that differ
 * between runs, perplexity or loss, heads, layers, flags and status. The seeds
 * of a configuration share a row if --group requests this or if there would be
 * too many rows.
 */
#include "render/figures/overview.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/figures/source.h"
#include "cli/runs/glance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 100, SETTINGS_MOST = 8, WORD_MAX = 96 };

/* --- the value of a row ---------------------------------------------------*/

/* The runs that share one row. */
typedef struct members {
    const es_run_summary *const *runs; /* (n) */
    size_t n;
} members;

static members members_of(const es_drawing *drawing, size_t i)
{
    members m;
    m.n = es_drawing_members(&m.runs, drawing, i);
    return m;
}

/* Sets the row's value to the mean of the finite values of its runs, and low
 * and high to their range. */
static void set_value(es_overview_row *row, const members *m,
                      const es_yardstick *by)
{
    es_range range = ES_RANGE_NONE;
    double sum = 0;
    size_t n = 0;
    row->value = es_missing();
    for (size_t r = 0; r < m->n; r++) {
        const float value = es_yardstick_of(by, m->runs[r]);
        if (isfinite(value)) {
            es_range_add(&range, (double)value);
            sum += (double)value;
            n++;
        } else if (!es_is_missing(value)) {
            row->value = value;
            row->nonfinite = true;
        }
    }
    if (n)
        row->value = (float)(sum / (double)n);
    row->low = range.low;
    row->high = range.high;
}

/* --- heads and layers -----------------------------------------------------*/

static void set_shares(es_overview_row *row, const members *m)
{
    double n_heads = 0;
    for (size_t r = 0; r < m->n; r++) {
        const es_bands *bands = &m->runs[r]->bands;
        for (int b = 0; b < ES_N_BANDS; b++)
            row->shares[b] += (double)bands->counts[b];
        row->shares[ES_N_BANDS] += (double)bands->nonfinite;
        n_heads += (double)bands->n_heads;
    }
    for (int b = 0; n_heads > 0 && b < ES_OVERVIEW_SHARES; b++)
        row->shares[b] /= n_heads;
}

/* Sets each layer's value to the mean over the runs that have as many layers
 * and heads as the first run. If a layer is finite in no run, its value is the
 * NaN or infinity of the last run that recorded the layer. */
static es_status set_layers(es_overview_row *row, es_drawing *drawing,
                            const members *m)
{
    const es_run_summary *first = m->runs[0];
    float *layers;
    es_status status = es_drawing_array(drawing, &layers, first->n_rows);
    if (status < 0 || first->shape == ES_SHAPE_RUN)
        return status;
    for (size_t l = 0; l < first->n_rows; l++) {
        double sum = 0;
        size_t n = 0;
        layers[l] = es_missing();
        for (size_t r = 0; r < m->n; r++) {
            const es_run_summary *run = m->runs[r];
            if (run->n_rows != first->n_rows)
                continue;
            const float mean =
                es_layer_of(run->values + l * run->n_columns, run->n_columns);
            sum += isfinite(mean) ? (double)mean : 0;
            n += isfinite(mean) ? 1 : 0;
            if (!es_is_missing(mean))
                layers[l] = mean;
        }
        if (n)
            layers[l] = (float)(sum / (double)n);
    }
    row->layers = layers;
    row->n_layers = first->n_rows;
    return ES_OK;
}

/* --- flags and status -----------------------------------------------------*/

static int by_level(const void *a, const void *b)
{
    return (int)((const es_overview_flag *)a)->level -
           (int)((const es_overview_flag *)b)->level;
}

static double known(int64_t step)
{
    return step == ES_UNKNOWN ? NAN : (double)step;
}

static double last_of(const es_run_summary *run)
{
    return known(run->last_step == ES_UNKNOWN ? run->step : run->last_step);
}

/* Collects the ranges of steps in which a flag of any run was active. A flag
 * that is still active at the end of its run ends there. */
static es_status set_flags(es_overview_row *row, es_drawing *drawing,
                           const members *m)
{
    es_overview_flag *flags;
    size_t n = 0;
    row->last = row->planned = NAN;
    for (size_t r = 0; r < m->n; r++)
        n += m->runs[r]->n_flags;
    es_status status = es_drawing_array(drawing, &flags, n);
    if (status < 0)
        return status;
    for (size_t r = 0; r < m->n; r++) {
        const es_run_summary *run = m->runs[r];
        for (size_t i = 0; i < run->n_flags; i++) {
            const es_flag *flag = &run->flags[i];
            const double end = (double)flag->last;
            flags[row->n_flags++] =
                (es_overview_flag){(double)flag->onset,
                                   flag->stands ? fmax(end, last_of(run)) : end,
                                   es_drawing_level(flag->severity)};
        }
        row->last = fmax(row->last, last_of(run)); /* fmax ignores NaN */
        row->planned = fmax(row->planned, known(run->planned_steps));
    }
    if (n)
        qsort(flags, n, sizeof *flags, by_level);
    row->flags = flags;
    return ES_OK;
}

/* Sets the text of the most severe flag, such as "nan", or "nan (1 of 3)" if
 * only some seeds have this flag. */
static es_status set_flag(es_overview_row *row, es_drawing *drawing,
                          const members *m)
{
    const es_flag *worst = NULL;
    size_t n_such = 0, n_ok = 0, n_judged = 0;
    char *text;
    for (size_t r = 0; r < m->n; r++) {
        const es_flag *flag = es_glance_worst(m->runs[r]);
        if (flag && (!worst || flag->severity > worst->severity))
            worst = flag;
        n_ok += es_summary_is_ok(m->runs[r]);
        n_judged += m->runs[r]->judged;
    }
    if (!worst) {
        row->flag.text = n_ok == m->n ? "ok" : n_judged ? "unknown" : NULL;
        return ES_OK;
    }
    for (size_t r = 0; r < m->n; r++) {
        const es_flag *flag = es_glance_worst(m->runs[r]);
        n_such +=
            flag && strcmp(es_flag_title(flag), es_flag_title(worst)) == 0;
    }
    es_status status = es_drawing_array(drawing, &text, WORD_MAX);
    if (status < 0)
        return status;
    const char *title = es_flag_is_too_short(worst->kind, worst->severity)
                            ? "too short"
                            : es_flag_title(worst);
    if (n_such < m->n)
        snprintf(text, WORD_MAX, "%.24s (%zu of %zu)", title, n_such, m->n);
    else
        snprintf(text, WORD_MAX, "%.40s", title);
    row->flag = (es_overview_word){text, es_drawing_level(worst->severity)};
    return ES_OK;
}

/* Sets the text of the worst status among the row's runs, such as "2 of 3
 * failed"; the count is omitted if all runs have this status. */
static es_status set_status(es_overview_row *row, es_drawing *drawing,
                            const members *m)
{
    static const char *const words[] = {"failed", "interrupted", "stopped",
                                        "running", "finished"};
    const size_t n_words = sizeof words / sizeof *words;
    char *text;
    size_t worst = n_words - 1, n_such = 0;
    for (size_t r = 0; r < m->n; r++)
        for (size_t k = 0; k < worst; k++)
            if (strcmp(m->runs[r]->status, words[k]) == 0)
                worst = k;
    for (size_t r = 0; r < m->n; r++)
        n_such += strcmp(m->runs[r]->status, words[worst]) == 0;
    es_status status = es_drawing_array(drawing, &text, WORD_MAX);
    if (status < 0)
        return status;
    if (n_such < m->n)
        snprintf(text, WORD_MAX, "%zu of %zu %s", n_such, m->n, words[worst]);
    else
        snprintf(text, WORD_MAX, "%s", words[worst]);
    row->status = (es_overview_word){text, worst == 0   ? ES_LEVEL_ERROR
                                           : worst == 1 ? ES_LEVEL_WARNING
                                                        : ES_LEVEL_INFO};
    return ES_OK;
}

/* --- columns of text ------------------------------------------------------*/

/* The columns that contain text, with the cells of all rows. */
typedef struct texts {
    es_overview_column columns[SETTINGS_MOST + 2];
    size_t n;           /* number of columns */
    const char **cells; /* (rows,STRIDE) */
    char unnamed[256];  /* names of the settings that have no column */
} texts;

enum { STRIDE = SETTINGS_MOST + 2 };

static es_status typeset(const char **out, es_drawing *drawing,
                         const es_run_setting *setting)
{
    char *text;
    es_status status;
    *out = NULL;
    if (!setting)
        return ES_OK;
    if ((status = es_drawing_array(drawing, &text, ES_SETTING_TEXT_MAX)) < 0)
        return status;
    *out = es_run_setting_typeset(text, setting);
    if (!**out)
        *out = "\"\"";
    return ES_OK;
}

/* Appends the column of one setting. */
static es_status add_setting(texts *to, es_drawing *drawing, size_t n_rows,
                             const es_difference *difference,
                             const es_run_setting *const *values,
                             size_t n_differences)
{
    const char *symbol = es_symbol_of(difference->key);
    const size_t n = strlen(difference->key) + 1;
    char *title;
    es_status status = es_drawing_array(drawing, &title, n);
    if (status < 0)
        return status;
    for (size_t i = 0; i < n; i++)
        title[i] = difference->key[i] == '_' ? ' ' : difference->key[i];
    for (size_t i = 0; i < n_rows && status == ES_OK; i++)
        status = typeset(&to->cells[i * STRIDE + to->n], drawing,
                         values[i * n_differences]);
    to->columns[to->n++] =
        (es_overview_column){symbol ? symbol : title, difference->number};
    return status;
}

static int by_setting(const void *a, const void *b)
{
    return es_run_settings_order(*(const es_run_setting *const *)a,
                                 *(const es_run_setting *const *)b);
}

/* Counts the distinct values of a setting over n rows. */
static size_t count_values(const es_run_setting **scratch,
                           const es_run_setting *const *values, size_t stride,
                           size_t n)
{
    size_t n_values = n > 0;
    for (size_t i = 0; i < n; i++)
        scratch[i] = values[i * stride];
    qsort(scratch, n, sizeof *scratch, by_setting);
    for (size_t i = 1; i < n; i++)
        n_values += by_setting(&scratch[i - 1], &scratch[i]) != 0;
    return n_values;
}

static bool is_wanted(const es_drawing *drawing, const es_difference *of)
{
    return !of->incidental && !(of->seed && drawing->members);
}

/* Sets `chosen` (n) to true for the settings that get a column, which are the
 * settings with the largest numbers of distinct values. */
static es_status choose_settings(bool *chosen, const es_drawing *drawing,
                                 const es_difference *differences, size_t n,
                                 const es_run_setting **values)
{
    size_t *counts = NULL;
    const es_run_setting **scratch = NULL;
    es_status status = es_alloc(&counts, n, sizeof *counts, "an overview");
    if (status == ES_OK)
        status = es_alloc(&scratch, drawing->n, sizeof(es_run_setting *),
                          "an overview");
    for (size_t k = 0; k < n && status == ES_OK; k++)
        counts[k] = is_wanted(drawing, &differences[k])
                        ? count_values(scratch, values + k, n, drawing->n)
                        : 0;
    for (int i = 0; i < SETTINGS_MOST && status == ES_OK; i++) {
        size_t best = 0;
        for (size_t k = 1; k < n; k++)
            if (counts[k] > counts[best])
                best = k;
        if (n && counts[best])
            chosen[best] = true;
        if (n)
            counts[best] = 0;
    }
    free(scratch);
    free(counts);
    return status;
}

static es_status add_settings(texts *to, es_drawing *drawing, size_t n_rows)
{
    es_difference *differences = NULL;
    const es_run_setting **values = NULL;
    size_t n = 0;
    es_text unnamed = es_text_begin(to->unnamed, sizeof to->unnamed);
    bool *chosen = NULL;
    es_status status = es_run_differences(&differences, &n, &values,
                                          drawing->runs, drawing->n);
    if (status == ES_OK && n > 0 &&
        (status = es_alloc(&chosen, n, sizeof *chosen, "an overview")) == ES_OK)
        status = choose_settings(chosen, drawing, differences, n, values);
    for (size_t k = 0; k < n && status == ES_OK; k++) {
        if (!is_wanted(drawing, &differences[k]))
            continue;
        if (chosen[k])
            status = add_setting(to, drawing, n_rows, &differences[k],
                                 (const es_run_setting *const *)values + k, n);
        else
            es_text_append(&unnamed, "%s%.40s", unnamed.length ? ", " : "",
                           differences[k].key);
    }
    free(chosen);
    free(differences);
    free(values);
    return status;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Returns true if any two rows differ in at least one text column. */
static bool tells_apart(const texts *t, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        bool any = false;
        for (size_t k = 0; k < t->n; k++)
            any = any || t->cells[i * STRIDE + k];
        for (size_t j = 0; j < i && any; j++) {
            bool same = true;
            for (size_t k = 0; k < t->n && same; k++)
                same = same_text(t->cells[i * STRIDE + k],
                                 t->cells[j * STRIDE + k]);
            any = !same;
        }
        if (!any)
            return false;
    }
    return true;
}

static bool has_own_names(const es_drawing *drawing, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j <= i; j++) {
            const char *name = drawing->runs[i]->name;
            if (!name || !*name ||
                (j < i && same_text(name, drawing->runs[j]->name)))
                return false;
        }
    return true;
}

/* Inserts a column of run names as the first column. Needed if the columns of
 * settings do not distinguish the rows. */
static void add_names(texts *to, const es_drawing *drawing, size_t n_rows)
{
    const bool named = to->n > 0 && has_own_names(drawing, n_rows);
    memmove(to->columns + 1, to->columns, to->n * sizeof *to->columns);
    to->columns[0] = (es_overview_column){.title = "run"};
    for (size_t i = 0; i < n_rows; i++) {
        const char **cells = to->cells + i * STRIDE;
        memmove(cells + 1, cells, to->n * sizeof *cells);
        cells[0] =
            named ? drawing->runs[i]->name : es_drawing_title(drawing, i);
    }
    to->n++;
}

/* Appends a column with the number of seeds of each row. */
static es_status add_seeds(texts *to, es_drawing *drawing, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        const size_t n = drawing->n_members[i], n_all = drawing->n_of_all[i];
        char *text;
        es_status status = es_drawing_array(drawing, &text, WORD_MAX);
        if (status < 0)
            return status;
        if (n < n_all)
            snprintf(text, WORD_MAX, "%zu of %zu", n, n_all);
        else
            snprintf(text, WORD_MAX, "%zu", n);
        to->cells[i * STRIDE + to->n] = text;
    }
    to->columns[to->n++] = (es_overview_column){"seeds", true};
    return ES_OK;
}

static es_status make_texts(texts *to, es_drawing *drawing, size_t n_rows)
{
    es_status status;
    if ((status = es_drawing_array(drawing, &to->cells, n_rows * STRIDE)) < 0 ||
        (status = add_settings(to, drawing, n_rows)) < 0)
        return status;
    if (!tells_apart(to, n_rows))
        add_names(to, drawing, n_rows);
    return drawing->members ? add_seeds(to, drawing, n_rows) : ES_OK;
}

/* --- the figure -----------------------------------------------------------*/

static void print_note(char *out, size_t size, const es_drawing *drawing,
                       const texts *t, bool folded)
{
    es_text to = es_text_begin(out, size);
    if (isnan(es_drawing_top(drawing)))
        es_text_append(&to, "m (%s) is unknown",
                       es_max_name(drawing->runs[0]->max.policy));
    else
        es_text_append(&to, "m: %s", drawing->note);
    if (drawing->members)
        es_text_append(&to,
                       "; %smean and range over seeds, \xc3\x97: a seed is NaN",
                       folded ? "seeds merged (more than 100 runs): " : "");
    if (*t->unnamed)
        es_text_append(&to, "; settings not shown: %s", t->unnamed);
    if (drawing->n_unread)
        es_text_append(&to, "; %zu unreadable, not shown", drawing->n_unread);
}

static es_status load(es_overview_row *row, es_drawing *drawing, size_t i,
                      const es_yardstick *by)
{
    const members m = members_of(drawing, i);
    es_status status;
    set_value(row, &m, by);
    set_shares(row, &m);
    if ((status = set_layers(row, drawing, &m)) < 0 ||
        (status = set_flags(row, drawing, &m)) < 0 ||
        (status = set_flag(row, drawing, &m)) < 0)
        return status;
    return set_status(row, drawing, &m);
}

static es_status draw(es_picture **out, es_drawing *drawing, bool heads_only)
{
    char note[1024], layers_text[sizeof drawing->axis + 16];
    es_range range = ES_RANGE_NONE;
    texts t = {.n = 0};
    es_overview_row *rows;
    const bool grouped = drawing->members;
    es_status status = es_drawing_fold(drawing, ROWS_MOST);
    if (status < 0)
        return status;
    const size_t n = drawing->n < ROWS_MOST ? drawing->n : ROWS_MOST;
    const es_yardstick *by = es_yardstick_choose(drawing->runs, drawing->n);
    if ((status = es_drawing_array(drawing, &rows, n)) < 0 ||
        (status = make_texts(&t, drawing, n)) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        if ((status = load(&rows[i], drawing, i, by)) < 0)
            return status;
        rows[i].texts = t.cells + i * STRIDE;
        es_range_add_all(&range, rows[i].layers, rows[i].n_layers);
    }
    const es_series_scale scale =
        es_drawing_scale(drawing, &range, es_drawing_top(drawing));
    print_note(note, sizeof note, drawing, &t, drawing->members && !grouped);
    snprintf(layers_text, sizeof layers_text, "layers: mean %s",
             drawing->runs[0]->series);
    return es_overview_draw(
        out,
        &(es_overview){.style = drawing->style,
                       .columns = t.columns,
                       .n_columns = t.n,
                       .rows = rows,
                       .n_rows = n,
                       .n_more = drawing->n - n,
                       .row_word = drawing->members ? "configuration" : "run",
                       .value_text = by->text,
                       .heads_text = "heads by quarter",
                       .layers_text = layers_text,
                       .low = scale.low,
                       .high = scale.high,
                       .logarithmic = scale.logarithmic,
                       .scale_text = drawing->axis,
                       .note = note,
                       .heads_only = heads_only});
}

es_status es_draw_overview(es_picture **out, es_drawing *drawing)
{
    return draw(out, drawing, false);
}

es_status es_overview_of_heads(es_picture **out, es_drawing *drawing)
{
    return draw(out, drawing, true);
}
