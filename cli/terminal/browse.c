/* Draws a list of many runs on the terminal, one line per run: chooses the
   columns that fit, sorts the lines, and draws their cells as text, coloured
   blocks or ASCII letters. */
#include "cli/terminal/browse.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/display.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/runs/glance.h"
#include "cli/runs/labels.h"
#include "cli/runs/settings.h"
#include "render/figures/theme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SETTINGS_MOST = 8,
    SETTING_WIDTH = 16,
    LABEL_WIDTH = 24,
    LAYERS_MOST = 16,
    HEADER = 1, /* number of rows above the list, which contain the column
                   titles */
    FOOTER = 2  /* number of rows below the list, which contain the legend, the
                   state and the keys */
};

/* Columns of the list to the right of the settings' columns, from left to
 * right. */
typedef enum part {
    VALUE,
    DOT,
    HEADS,
    LAYERS,
    TIME,
    FLAG,
    STATUS,
    N_PARTS
} part;

static const struct {
    const char *title; /* title of the column; if NULL, the name of the value
                          shown */
    int width;
    int rank; /* if the width is not sufficient, columns with higher ranks are
                 omitted first */
} parts[N_PARTS] = {[VALUE] = {NULL, 8, 0},      [DOT] = {"", 14, 5},
                    [HEADS] = {"heads", 12, 3},  [LAYERS] = {"layers", 0, 2},
                    [TIME] = {"flags", 14, 4},   [FLAG] = {"flag", 10, 1},
                    [STATUS] = {"status", 11, 6}};

/* The data and the layout of the whole list. */
typedef struct sheet {
    const es_browse *browse;
    es_screen *screen;
    const es_run_summary **shown; /* runs with samples (n); runs without samples
                                     have a line without values */
    size_t n;
    es_difference *differences; /* (n_differences) */
    size_t n_differences;
    const es_run_setting **values; /* (n,n_differences) */
    es_run_labels labels;          /* labels of the runs `shown` */
    size_t keys[SETTINGS_MOST];    /* indices of the settings that have
                                      columns */
    /* Number of settings that have columns; if 0, one column shows the runs'
     * labels instead. */
    size_t n_keys;
    int widths[SETTINGS_MOST];
    /* Left end and width of each column; the width is 0 if the column is
     * omitted. */
    int x[N_PARTS], wide[N_PARTS];
    const es_yardstick *measure;
    /* Smallest and largest value in the column VALUE, and the latest step of
     * all runs. */
    double low, high, last;
    double top;      /* upper end of the layers' colour scale */
    size_t n_layers; /* largest number of layers of any run */
} sheet;

/* --- order ----------------------------------------------------------------*/

typedef struct place {
    size_t run;
    double key; /* sort key, in ascending order; NaN comes last */
    const char *name;
} place;

static int by_key(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = isnan(x->key) - isnan(y->key);
    if (!order)
        order = (x->key > y->key) - (x->key < y->key);
    if (!order && x->name && y->name)
        order = strcmp(x->name, y->name);
    return order ? order : (x->run > y->run) - (x->run < y->run);
}

static double key_of(const es_run_summary *run, const es_browse *browse,
                     const es_yardstick *measure)
{
    if (!run)
        return NAN;
    switch (browse->order) {
    case ES_BROWSE_BY_LOSS: {
        const float value = es_yardstick_of(measure, run);
        return isfinite(value) ? (double)value : NAN;
    }
    case ES_BROWSE_BY_FLAG:
        return -(double)es_summary_severity(run);
    case ES_BROWSE_BY_STEP:
        return run->last_step == ES_UNKNOWN ? NAN : -(double)run->last_step;
    default:
        return 0;
    }
}

/* Sets *out to an array of the *n runs that have samples, which the caller
 * frees. */
static es_status list_shown(const es_run_summary ***out, size_t *n,
                            const es_browse *browse)
{
    es_status status = es_alloc(out, browse->n_runs, sizeof **out, "runs");
    *n = 0;
    for (size_t i = 0; i < browse->n_runs && status == ES_OK; i++)
        if (es_watched_shown(&browse->runs[i]))
            (*out)[(*n)++] = es_watched_shown(&browse->runs[i]);
    return status;
}

es_status es_browse_sort(size_t **out, const es_browse *browse)
{
    const es_run_summary **shown = NULL;
    place *places = NULL;
    size_t n = 0;
    es_status status;
    *out = NULL;
    if ((status = list_shown(&shown, &n, browse)) < 0 ||
        (status = es_alloc(&places, browse->n_runs, sizeof *places, "runs")) <
            0 ||
        (status = es_alloc(out, browse->n_runs, sizeof **out, "runs")) < 0)
        goto done;
    const es_yardstick *measure = es_yardstick_choose(shown, n);
    for (size_t i = 0; i < browse->n_runs; i++)
        places[i] = (place){
            i, key_of(es_watched_shown(&browse->runs[i]), browse, measure),
            browse->order == ES_BROWSE_BY_NAME ? browse->runs[i].name : NULL};
    if (browse->n_runs)
        qsort(places, browse->n_runs, sizeof *places, by_key);
    for (size_t i = 0; i < browse->n_runs; i++)
        (*out)[i] = places[i].run;
done:
    free(shown);
    free(places);
    return status;
}

static size_t find_chosen(const size_t *order, const es_browse *browse)
{
    for (size_t i = 0; i < browse->n_runs; i++)
        if (order[i] == browse->chosen)
            return i;
    return 0;
}

es_status es_browse_move(es_browse *browse, int64_t by)
{
    size_t *order = NULL;
    es_status status = es_browse_sort(&order, browse);
    if (status == ES_OK && browse->n_runs) {
        const int64_t last = (int64_t)browse->n_runs - 1;
        int64_t at = (int64_t)find_chosen(order, browse);
        at = by < -at ? 0 : by > last - at ? last : at + by;
        browse->chosen = order[at];
    }
    free(order);
    return status;
}

/* --- columns --------------------------------------------------------------*/

static const char *setting_text(char out[ES_FLOAT_TEXT_MAX],
                                const es_run_setting *setting)
{
    if (!setting)
        return "-";
    return setting->kind == ES_CONFIG_NUMBER && isfinite(setting->number)
               ? es_double_print(out, setting->number)
               : setting->text;
}

/* Chooses the settings that get a column. These are settings in which the runs
 * differ, as many as fit into a third of the width. */
static void choose_settings(sheet *s)
{
    const int most = s->browse->terminal.width / 3;
    int x = 2;
    for (size_t k = 0; k < s->n_differences && s->n_keys < SETTINGS_MOST; k++) {
        char number[ES_FLOAT_TEXT_MAX];
        size_t width = es_display_width(s->differences[k].key);
        if (s->differences[k].incidental)
            continue;
        for (size_t i = 0; i < s->n; i++) {
            const size_t own = es_display_width(
                setting_text(number, s->values[i * s->n_differences + k]));
            width = own > width ? own : width;
        }
        const int columns = width < SETTING_WIDTH ? (int)width : SETTING_WIDTH;
        if (x + columns > most && s->n_keys)
            continue;
        s->widths[s->n_keys] = columns;
        s->keys[s->n_keys++] = k;
        x += columns + 1;
    }
}

static int part_width(const sheet *s, int p)
{
    const size_t n = s->n_layers < LAYERS_MOST ? s->n_layers : LAYERS_MOST;
    return p != LAYERS ? parts[p].width : n < 6 ? 6 : (int)n;
}

/* Selects the columns that fit into the width, in the order of their priority,
 * and arranges them from left to right. */
static void place_parts(sheet *s)
{
    int x = 2, rest;
    for (size_t k = 0; k < s->n_keys; k++)
        x += s->widths[k] + 1;
    x += s->n_keys ? 1 : LABEL_WIDTH + 2;
    rest = s->browse->terminal.width - x;
    for (int rank = 0; rank < N_PARTS; rank++)
        for (int p = 0; p < N_PARTS; p++) {
            if (parts[p].rank != rank || part_width(s, p) > rest)
                continue;
            s->wide[p] = part_width(s, p);
            rest -= s->wide[p] + 2;
        }
    for (int p = 0; p < N_PARTS; p++) {
        s->x[p] = x;
        x += s->wide[p] ? s->wide[p] + 2 : 0;
    }
}

static void measure_runs(sheet *s)
{
    s->low = INFINITY;
    s->high = -INFINITY;
    s->top = NAN;
    for (size_t i = 0; i < s->n; i++) {
        const es_run_summary *run = s->shown[i];
        const double value = (double)es_yardstick_of(s->measure, run);
        if (isfinite(value)) {
            s->low = fmin(s->low, value);
            s->high = fmax(s->high, value);
        }
        if (run->last_step != ES_UNKNOWN)
            s->last = fmax(s->last, (double)run->last_step);
        s->top = es_peak_of(s->top, run->m);
        if (run->shape != ES_SHAPE_RUN && run->n_rows > s->n_layers)
            s->n_layers = run->n_rows;
    }
}

/* --- cells ----------------------------------------------------------------*/

static es_style style_of(es_severity severity)
{
    return (es_style){.ink = severity >= ES_SEVERITY_ERROR     ? ES_INK_RED
                             : severity >= ES_SEVERITY_WARNING ? ES_INK_YELLOW
                                                               : ES_INK_OWN};
}

/* Draws a cell as a coloured block, or as a letter on an ASCII screen. */
static void put_block(const sheet *s, int x, int y, es_color color,
                      const char *letter)
{
    if (s->screen->depth == ES_DEPTH_ASCII)
        es_screen_write(s->screen, x, y, 1, letter, ES_PLAIN);
    else
        es_screen_write(s->screen, x, y, 1, " ",
                        (es_style){.paper = es_ink_of(color)});
}

/* Draws a value as a dot on a scale from the smallest to the largest value of
 * all runs. The scale is logarithmic if the largest value is much larger than
 * the smallest. */
static void put_dot(const sheet *s, int y, float value)
{
    const bool decades = s->low > 0 && s->high > 20 * s->low;
    const int last = s->wide[DOT] - 1;
    if (es_is_missing(value))
        return;
    if (!isfinite(value)) {
        es_mark_broken(s->screen, s->x[DOT] + last, y);
        return;
    }
    double share = ((double)value - s->low) / (s->high - s->low);
    if (decades)
        share = log((double)value / s->low) / log(s->high / s->low);
    const int at = isfinite(share) ? (int)lround(share * (last - 1)) : 0;
    es_screen_write(s->screen, s->x[DOT] + at, y, 1,
                    s->screen->depth == ES_DEPTH_ASCII ? "o" : "●", ES_PLAIN);
}

static void put_value(const sheet *s, int y, const es_run_summary *run)
{
    const float value = es_yardstick_of(s->measure, run);
    char number[ES_FLOAT_TEXT_MAX];
    const char *text = es_is_missing(value) ? "-"
                       : isfinite(value)
                           ? es_number_print(number, (double)value, 4)
                           : "NaN";
    const int width = (int)strlen(text);
    es_screen_write(
        s->screen, s->x[VALUE] + s->wide[VALUE] - width, y, width, text,
        isfinite(value) || es_is_missing(value) ? ES_PLAIN : ES_BROKEN_STYLE);
    if (s->wide[DOT])
        put_dot(s, y, value);
}

/* Draws the heads of a run as a bar, sorted by class: the quarter of the range
 * up to m (the largest entropy) in which the head lies, or NaN. A cell shows
 * the class of the head at its centre; at least one cell shows NaN if a head is
 * NaN. */
static void put_heads(const sheet *s, int y, const es_run_summary *run)
{
    static const char *const letters[] = {"1", "2", "3", "4", "x"};
    const es_bands *bands = &run->bands;
    const int width = s->wide[HEADS];
    for (int i = 0; i < width && bands->n_heads; i++) {
        const double middle = (i + 0.5) / width * (double)bands->n_heads;
        double sum = 0;
        int class = 0;
        for (; class < ES_N_BANDS; class ++) {
            sum += (double)bands->counts[class];
            if (middle < sum)
                break;
        }
        if (i == width - 1 && bands->nonfinite)
            class = ES_N_BANDS;
        put_block(s, s->x[HEADS] + i, y,
                  class == ES_N_BANDS
                      ? ES_BROKEN_COLOR
                      : es_colormap_at(s->browse->colormap, (class + 0.5) / 4),
                  letters[class]);
    }
}

/* Draws the mean of each layer of a run as a coloured cell, from left to right.
 * A cell that represents several layers shows a layer that is NaN or infinite
 * if there is one, otherwise the first of the layers. */
static void put_layers(const sheet *s, int y, const es_run_summary *run)
{
    const size_t width = (size_t)s->wide[LAYERS];
    const size_t per_cell = (s->n_layers + width - 1) / width;
    if (run->shape == ES_SHAPE_RUN)
        return;
    for (size_t l = 0; l < run->n_rows; l += per_cell) {
        const int x = s->x[LAYERS] + (int)(l / per_cell);
        float value = es_missing();
        for (size_t k = l; k < l + per_cell && k < run->n_rows; k++) {
            const float layer = es_glance_layer(run, k);
            if (es_is_missing(value) ||
                (!isfinite(layer) && !es_is_missing(layer)))
                value = layer;
        }
        if (es_is_missing(value))
            continue;
        if (isfinite(value))
            es_mark_shade(s->screen, x, y, s->browse->colormap,
                          s->top > 0 ? (double)value / s->top : 0);
        else
            es_mark_broken(s->screen, x, y);
    }
}

static es_level level_of(es_severity severity)
{
    return severity >= ES_SEVERITY_CRITICAL  ? ES_LEVEL_CRITICAL
           : severity == ES_SEVERITY_ERROR   ? ES_LEVEL_ERROR
           : severity == ES_SEVERITY_WARNING ? ES_LEVEL_WARNING
                                             : ES_LEVEL_INFO;
}

/* Draws the flags of a run over the steps: each cell shows the most severe flag
 * in a range of steps. Cells without a flag contain a line that ends at the
 * run's last step. */
static void put_time(const sheet *s, int y, const es_run_summary *run)
{
    static const char *const letters[] = {"i", "w", "e", "c"};
    const double last = run->last_step == ES_UNKNOWN ? (double)run->step
                                                     : (double)run->last_step;
    const int width = s->wide[TIME];
    for (int i = 0; i < width; i++) {
        const double from = s->last * i / width;
        const double to = s->last * (i + 1) / width;
        es_severity worst = ES_SEVERITY_NONE;
        for (size_t k = 0; k < run->n_flags; k++) {
            const es_flag *flag = &run->flags[k];
            const double end = flag->stands ? last : (double)flag->last;
            if ((double)flag->onset <= to && end >= from &&
                flag->severity > worst && from <= last)
                worst = flag->severity;
        }
        if (worst)
            put_block(s, s->x[TIME] + i, y,
                      es_theme_level(ES_THEME_LIGHT, level_of(worst)),
                      letters[level_of(worst)]);
        else if (from <= last)
            es_screen_write(s->screen, s->x[TIME] + i, y, 1,
                            s->screen->depth == ES_DEPTH_ASCII ? "-" : "─",
                            ES_FAINT);
    }
}

static void put_words(const sheet *s, int y, const es_run_summary *run)
{
    const es_flag *flag = es_glance_worst(run);
    const char *text = flag                    ? es_flag_title(flag)
                       : es_summary_is_ok(run) ? "ok"
                       : run->judged           ? "unknown"
                                               : "-";
    if (s->wide[FLAG])
        es_screen_write(s->screen, s->x[FLAG], y, s->wide[FLAG], text,
                        style_of(flag ? flag->severity : ES_SEVERITY_NONE));
    if (s->wide[STATUS])
        es_screen_write(s->screen, s->x[STATUS], y, s->wide[STATUS],
                        run->status, ES_FAINT);
}

/* Draws the line of a run. `run` is the index of the run among all runs,
 * `shown` its index among the runs with samples. */
static void put_line(const sheet *s, int y, size_t run, size_t shown)
{
    const es_watched *watched = &s->browse->runs[run];
    const es_run_summary *summary = es_watched_shown(watched);
    const bool chosen = s->browse->mode && s->browse->chosen == run;
    const es_style style = chosen ? ES_BOLD : ES_PLAIN;
    char number[ES_FLOAT_TEXT_MAX];
    int x = 2;
    if (chosen)
        es_screen_write(s->screen, 0, y, 1, ">", ES_BOLD);
    if (!summary) {
        x += es_screen_write(s->screen, x, y, s->screen->width - x,
                             watched->name ? watched->name : watched->path,
                             style);
        es_screen_write(s->screen, x + 1, y, s->screen->width - x - 1,
                        "no sample yet", ES_FAINT);
        return;
    }
    if (!s->n_keys)
        es_screen_write(s->screen, x, y, LABEL_WIDTH, s->labels.plain[shown],
                        style);
    for (size_t k = 0; k < s->n_keys; k++) {
        es_screen_write(
            s->screen, x, y, s->widths[k],
            setting_text(number,
                         s->values[shown * s->n_differences + s->keys[k]]),
            style);
        x += s->widths[k] + 1;
    }
    if (s->wide[VALUE])
        put_value(s, y, summary);
    if (s->wide[HEADS])
        put_heads(s, y, summary);
    if (s->wide[LAYERS])
        put_layers(s, y, summary);
    if (s->wide[TIME])
        put_time(s, y, summary);
    put_words(s, y, summary);
}

/* --- the whole ------------------------------------------------------------*/

static void put_titles(const sheet *s)
{
    int x = 2;
    if (!s->n_keys)
        es_screen_write(s->screen, x, 0, LABEL_WIDTH, "run", ES_BOLD);
    for (size_t k = 0; k < s->n_keys; k++) {
        es_screen_write(s->screen, x, 0, s->widths[k],
                        s->differences[s->keys[k]].key, ES_BOLD);
        x += s->widths[k] + 1;
    }
    for (int p = 0; p < N_PARTS; p++) {
        const char *title = p == VALUE ? s->measure->name : parts[p].title;
        const int indent = p == VALUE ? s->wide[p] - (int)strlen(title) : 0;
        es_screen_write(s->screen, s->x[p] + indent, 0, s->wide[p], title,
                        ES_BOLD);
    }
}

/* Draws the legend of the heads' colours and of m, the largest entropy; in a
 * live view, also draws the state and the keys. */
static void put_footer(const sheet *s, int y, size_t first, size_t end)
{
    static const char *const classes[] = {"<m/4", "<m/2", "<3m/4", "<=m"};
    static const char *const orders[] = {"as given", "by loss", "by flag",
                                         "by step", "by name"};
    const es_browse *b = s->browse;
    const int width = s->screen->width;
    char number[ES_FLOAT_TEXT_MAX];
    int x = 2;
    for (int i = 0; i < ES_N_BANDS; i++) {
        char letter[2] = {(char)('1' + i), '\0'};
        put_block(s, x, y, es_colormap_at(b->colormap, (i + 0.5) / 4), letter);
        x += 2 + es_screen_say(s->screen, x + 2, y, width - x - 2, ES_FAINT,
                               "%s  ", classes[i]);
    }
    put_block(s, x, y, ES_BROKEN_COLOR, "x");
    x += 2 +
         es_screen_say(s->screen, x + 2, y, width - x - 2, ES_FAINT, "NaN  ");
    if (!isnan(s->top) && s->n)
        es_screen_say(s->screen, x, y, width - x, ES_FAINT, "m = %s (%s)",
                      es_number_print(number, s->top, 4),
                      es_max_name(s->shown[0]->max.policy));
    if (!b->mode)
        return;
    x = es_screen_say(s->screen, 0, ++y, width, ES_BOLD, "%s  ", b->mode);
    x += es_screen_say(s->screen, x, y, width - x, ES_PLAIN,
                       "runs %zu-%zu of %zu %s  ", first + 1, end, b->n_runs,
                       orders[b->order]);
    es_screen_write(s->screen, x, y, width - x, b->keys, ES_FAINT);
}

static es_status prepare_sheet(sheet *s, const es_browse *browse)
{
    es_status status;
    *s = (sheet){.browse = browse};
    if ((status = list_shown(&s->shown, &s->n, browse)) < 0)
        return status;
    s->measure = es_yardstick_choose(s->shown, s->n);
    if (s->n &&
        ((status = es_run_differences(&s->differences, &s->n_differences,
                                      &s->values, s->shown, s->n)) < 0 ||
         (status = es_run_labels_make(&s->labels, s->shown, s->n)) < 0))
        return status;
    measure_runs(s);
    choose_settings(s);
    place_parts(s);
    return ES_OK;
}

/* Scrolls the list so that the selected run is among the `rows` visible
 * lines. */
static void scroll_list(es_browse *browse, const size_t *order, size_t rows)
{
    const size_t at = find_chosen(order, browse), n = browse->n_runs;
    if (at < browse->top)
        browse->top = at;
    if (at >= browse->top + rows)
        browse->top = at - rows + 1;
    if (browse->top + rows > n)
        browse->top = n > rows ? n - rows : 0;
}

static void put_lines(const sheet *s, const size_t *order, size_t first,
                      size_t end)
{
    for (size_t i = first; i < end; i++) {
        size_t shown = 0;
        for (size_t k = 0; k < order[i]; k++)
            shown += es_watched_shown(&s->browse->runs[k]) != NULL;
        put_line(s, HEADER + (int)(i - first), order[i], shown);
    }
}

es_status es_browse_draw(es_screen **out, es_browse *browse)
{
    const int footer = browse->mode ? FOOTER : 1;
    const int space = browse->terminal.height - HEADER - footer;
    size_t rows = browse->n_runs, *order = NULL;
    sheet s;
    es_status status;
    if (browse->mode && rows > (size_t)(space > 1 ? space : 1))
        rows = (size_t)(space > 1 ? space : 1);
    if ((status = prepare_sheet(&s, browse)) < 0 ||
        (status = es_browse_sort(&order, browse)) < 0)
        goto done;
    if (browse->mode)
        scroll_list(browse, order, rows);
    const size_t first = browse->mode ? browse->top : 0;
    int height = HEADER + (int)rows + footer;
    if (browse->mode && height > browse->terminal.height)
        height = browse->terminal.height;
    if ((status = es_screen_new(&s.screen, browse->terminal.depth,
                                browse->terminal.width, height)) < 0)
        goto done;
    put_titles(&s);
    put_lines(&s, order, first, first + rows);
    put_footer(&s, HEADER + (int)rows, first, first + rows);
    *out = s.screen;
done:
    es_run_labels_free(&s.labels);
    free(s.differences);
    free(s.values);
    free(s.shown);
    free(order);
    return status;
}
