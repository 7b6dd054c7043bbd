/* Draws the panel of one run on the terminal: title, metrics, flags, the
   heatmap with its scale and bands, and sparklines over the steps (spark.c) to
   the right of the heatmap or below it. The layout depends on the size of the
   terminal and the number of layers and heads. */
#include "cli/terminal/panel.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/display.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/output/grid.h"
#include "cli/output/print.h"
#include "cli/runs/fields.h"
#include "cli/terminal/spark.h"

#include <string.h>

/* --- layout --------------------------------------------------------------*/

enum {
    HEADER = 3, /* number of rows above the heatmap, for title, metrics and
                   flags */
    /* Number of empty columns between the heatmap and the sparklines. */
    GAP = 2,
    LINE_LEAST = 16, /* minimum number of columns of a sparkline */
    LINE_WANTED = 24,
    /* Minimum number of columns for the heatmap to the left of the
     * sparklines. */
    LEFT_LEAST = 20,
    STACK_MOST = 8, /* maximum number of sparklines below a wide heatmap */
    STANDARD = 80,
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Returns the number of columns for the layer numbers and a space. */
static int label_width(const es_run_summary *shown)
{
    size_t n = shown->n_rows;
    return n > 1000 ? 5 : n > 100 ? 4 : 3;
}

int es_panel_wanted(const es_watched *run)
{
    const int least = LEFT_LEAST + GAP + LINE_WANTED;
    const es_run_summary *shown = es_watched_shown(run);
    if (!shown)
        return least;
    int n_heads = (int)shown->n_columns;
    int beside = label_width(shown) + GAP + LINE_WANTED;
    if (beside + 2 * n_heads <= STANDARD)
        return larger(beside + 2 * n_heads, least);
    return smaller(beside + n_heads, STANDARD);
}

/* Computes the layout of the heatmap. `other` is the number of rows that the
 * rest of the panel needs: header, head numbers, sparklines, axis, scale and
 * bands. */
static void place_heat(es_panel_plan *plan, const es_run_summary *shown,
                       const es_panel_frame *frame, int other)
{
    const int n_layers = (int)shown->n_rows;
    const int n_heads = (int)shown->n_columns;
    int width = frame->width - plan->heat_x, rows = frame->highest - other;
    int beside = width - GAP - LINE_LEAST;
    bool roomy = n_layers <= frame->high_enough - other;
    plan->stacked = n_heads > beside;
    if (plan->stacked) {
        plan->n_layer_lines = smaller(smaller(n_layers, STACK_MOST), rows / 3);
        rows -= plan->n_layer_lines + (plan->n_layer_lines > 0);
    }
    width = larger(plan->stacked ? width : beside, 1);
    plan->heat = es_heat_fit(n_layers, n_heads, width, larger(rows, 1), roomy,
                             frame->depth);
    plan->shares = plan->heat.layers_in > 1 || plan->heat.heads_in > 1;
    if (plan->shares) /* keep one row free for the note about cells that each
                         merge several heads */
        plan->heat = es_heat_fit(n_layers, n_heads, width, larger(rows - 1, 1),
                                 roomy, frame->depth);
}

es_panel_plan es_panel_plan_of(const es_watched *run,
                               const es_panel_frame *frame)
{
    const es_run_summary *shown = es_watched_shown(run);
    es_panel_plan plan = {.height = HEADER};
    if (!shown)
        return plan;
    int below = es_watched_n_lines(run) + 1 + (shown->bands.n_heads > 0);
    plan.heat_x = label_width(shown);
    plan.heat_y = HEADER + 1;
    place_heat(&plan, shown, frame, plan.heat_y + below);
    plan.below_y = plan.heat_y + plan.heat.height;
    plan.line_x = LEFT_LEAST + GAP;
    if (plan.stacked) {
        int n = larger(plan.n_layer_lines, 1);
        plan.layers_a_line = (plan.heat.n_layers + n - 1) / n;
        plan.lines_y = plan.below_y + 1;
        plan.below_y += plan.n_layer_lines + (plan.n_layer_lines > 0);
        plan.line_x = smaller(plan.line_x, frame->width / 2);
    } else {
        plan.n_layer_lines = plan.heat.height;
        plan.layers_a_line = 2 / plan.heat.halves * plan.heat.layers_in;
        plan.lines_y = plan.heat_y;
        plan.line_x = larger(plan.heat_x + plan.heat.width, LEFT_LEAST) + GAP;
    }
    plan.line_columns = larger(frame->width - plan.line_x, 1);
    plan.height = plan.below_y + below + plan.shares;
    return plan;
}

/* --- text ------------------------------------------------------------------*/

/* A row of text and the space that remains in it. */
typedef struct row {
    es_screen *screen;
    int x, y, columns;
} row;

static void put_text(row *to, const char *text, es_style style)
{
    int used =
        es_screen_write(to->screen, to->x, to->y, to->columns, text, style);
    to->x += used;
    to->columns -= used;
}

/* Writes the text if it fits completely, otherwise nothing. */
static void put_whole(row *to, const char *text, es_style style)
{
    if ((int)es_display_width(text) <= to->columns)
        put_text(to, text, style);
}

static es_status put_name(row *to, const char *name, es_style style)
{
    char *safe = es_display_escape(name, ES_ESCAPE_TERMINAL);
    if (!safe)
        return ES_ENOMEM;
    if (to->columns >= 5)
        es_display_shorten(safe, (size_t)to->columns);
    put_text(to, safe, style);
    free(safe);
    return ES_OK;
}

/* --- title ----------------------------------------------------------------*/

/* Draws the first row: the title, then the file name if it fits, and at the
   right end the step, such as "step 2999/3000, finished". */
static es_status draw_title(row at, const es_run_summary *run,
                            const char *title)
{
    char step[96];
    es_text text = es_text_begin(step, sizeof step);
    es_text_append(&text, "step %lld", (long long)run->step);
    if (run->planned_steps > 0)
        es_text_append(&text, "/%lld", (long long)run->planned_steps);
    es_text_append(&text, "%s, %s", run->phase == ES_PHASE_EVAL ? ", eval" : "",
                   run->status);
    const int taken = (int)strlen(step) + 2;
    if (taken + 8 <= at.columns) {
        row right = {at.screen, at.x + at.columns - taken + 2, at.y, taken - 2};
        put_text(&right, step, ES_PLAIN);
        at.columns -= taken;
    }
    const char *slash = strrchr(run->path, '/');
    es_status status = put_name(&at, title, ES_BOLD);
    put_text(&at, "  ", ES_PLAIN);
    if (status == ES_OK && at.columns >= 8)
        status = put_name(&at, slash ? slash + 1 : run->path, ES_FAINT);
    return status;
}

/* --- numbers --------------------------------------------------------------*/

static void put_number(row *to, const char *name, float value)
{
    char text[ES_FLOAT_TEXT_MAX + 2];
    es_style style = isfinite(value) ? ES_PLAIN : ES_BROKEN_STYLE;
    strcat(es_number_print(text, (double)value, 4), "  ");
    bool fits = (int)(strlen(name) + 1 + strlen(text)) <= to->columns + 2;
    if (es_is_missing(value) || !fits)
        return;
    put_text(to, name, ES_FAINT);
    put_text(to, " ", ES_PLAIN);
    put_text(to, text, style);
}

/* Draws the row with the metrics of the run. The row contains the counts of NaN
 * and missing heads, which also explain the red crosses and blank cells in the
 * heatmap. */
static void draw_numbers(row at, const es_run_summary *run)
{
    char text[64];
    size_t broken = 0, missing = 0;
    for (size_t i = 0; i < run->n_rows; i++) {
        broken += run->layers[i].nonfinite;
        missing += run->layers[i].missing;
    }
    if (broken > 0) {
        snprintf(text, sizeof text, "%s %zu NaN or inf  ",
                 es_mark_broken_text(at.screen), broken);
        put_whole(&at, text, ES_BROKEN_STYLE);
    }
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_PANEL));)
        put_number(&at, es_field_title(field), es_field_measured(field, run));
    if (missing > 0) {
        snprintf(text, sizeof text, "%zu missing (blank)", missing);
        put_whole(&at, text, ES_FAINT);
    }
}

static void draw_flags(row at, const es_run_summary *judged)
{
    char text[512];
    const bool stands = es_summary_severity(judged) != ES_SEVERITY_NONE;
    es_ink ink = !judged->judged             ? ES_INK_OWN
                 : es_summary_alarms(judged) ? ES_INK_RED
                 : es_summary_is_ok(judged)  ? ES_INK_GREEN
                                             : ES_INK_YELLOW;
    es_summary_print_flags(text, sizeof text, judged);
    put_text(&at, "flags ", ES_FAINT);
    if (at.columns >= 5)
        es_display_shorten(text, (size_t)at.columns);
    put_text(&at, text, (es_style){.ink = ink, .bold = stands});
}

/* --- below the heatmap ----------------------------------------------------*/

/* Draws the colour scale between its two ends, such as "0 (colours) 2.528
 * nats". */
static void draw_scale(row at, const es_panel_frame *frame, const char *unit)
{
    char low[ES_FLOAT_TEXT_MAX + 1], high[64], number[ES_FLOAT_TEXT_MAX];
    strcat(es_number_print(low, frame->scale.low, 4), " ");
    snprintf(high, sizeof high, " %s %.20s",
             es_number_print(number, frame->scale.high, 4), unit);
    if ((int)(strlen(low) + strlen(high)) > at.columns)
        return;
    put_text(&at, low, ES_PLAIN);
    int n = at.columns - (int)strlen(high);
    for (int i = 0; i < n; i++) {
        double share = n > 1 ? (double)i / (n - 1) : 1;
        es_mark_shade(at.screen, at.x++, at.y, frame->scale.map, share);
    }
    at.columns -= n > 0 ? n : 0;
    put_text(&at, high, ES_PLAIN);
}

static const char *const band_shades[] = {":", "=", "#", "@", "x"};

static es_style band_style(const es_panel_frame *frame, int band)
{
    if (band == ES_N_BANDS)
        return (es_style){.ink = es_ink_of(ES_BROKEN_COLOR)};
    return (es_style){.ink = es_ink_of(es_colormap_at(
                          frame->scale.map, (band + 0.5) / ES_N_BANDS))};
}

/* Draws the share of heads in each band, next to a block in the colour that
 * represents the band in the bar. */
static void draw_band_numbers(row at, const es_bands *bands,
                              const es_panel_frame *frame)
{
    bool plain = at.screen->depth == ES_DEPTH_ASCII;
    if (at.columns >= 26)
        put_text(&at, "bands ", ES_FAINT);
    for (int band = 0; band < ES_N_BANDS; band++) {
        char share[8];
        es_share_print(share, bands->counts[band], bands->n_heads);
        if ((int)strlen(share) < at.columns) {
            put_text(&at, plain ? band_shades[band] : "█",
                     band_style(frame, band));
            put_text(&at, share, ES_PLAIN);
            put_text(&at, " ", ES_PLAIN);
        }
    }
}

/* Draws the shares of the bands as a bar. If there are enough columns, every
 * band that contains a head gets at least one column. */
static void draw_band_bar(row at, const es_bands *bands,
                          const es_panel_frame *frame)
{
    const bool plain = at.screen->depth == ES_DEPTH_ASCII;
    const int n = at.columns;
    int x = 0, least = 0, after = 0;
    size_t heads = 0, counts[ES_N_BANDS + 1];
    memcpy(counts, bands->counts, sizeof bands->counts);
    counts[ES_N_BANDS] = bands->nonfinite;
    for (int band = 0; band <= ES_N_BANDS; band++)
        after += counts[band] > 0;
    for (int band = 0; band <= ES_N_BANDS; band++) {
        heads += counts[band];
        least += counts[band] > 0;
        after -= counts[band] > 0;
        int end = (int)((double)heads / (double)bands->n_heads * n + 0.5);
        end = end > n - after ? n - after : end;
        for (end = end < least ? least : end; x < end; x++)
            put_text(&at, plain ? band_shades[band] : "█",
                     band_style(frame, band));
    }
}

static void draw_below(row at, const es_run_summary *shown,
                       const es_panel_frame *frame, const es_panel_plan *plan)
{
    char text[128];
    const int x = at.x;
    at.columns = plan->line_x - 2;
    draw_scale(at, frame, shown->unit);
    at.y++;
    if (shown->bands.n_heads > 0) {
        draw_band_numbers(at, &shown->bands, frame);
        at.x += plan->line_x;
        at.columns = plan->line_columns;
        draw_band_bar(at, &shown->bands, frame);
        at.y++;
    }
    snprintf(text, sizeof text, "each cell merges %d x %d (layers x heads): %s",
             plan->heat.layers_in, plan->heat.heads_in,
             frame->scale.ends_matter ? "value nearest to an end of the scale"
                                      : "largest value");
    at.x = x;
    at.columns = frame->width;
    if (plan->shares)
        put_text(&at, text, ES_FAINT);
}

/* --- lines over the steps -------------------------------------------------*/

/* The state for drawing the sparklines of a run. */
typedef struct sheet {
    es_screen *screen;
    int x, y; /* upper left corner of the panel */
    const es_watched *run;
    const es_run_summary *shown; /* summary of the run */
    const es_panel_frame *frame;
    const es_panel_plan *plan;
    int64_t from, to; /* range of steps of all sparklines */

    int64_t *steps;                  /* step of each point of one sparkline */
    float *values;                   /* value of each point of one sparkline */
    es_spark_column *columns, *line; /* (n) */
    size_t n;
} sheet;

static size_t points_of(const es_trace *trace)
{
    return trace ? es_trace_n_points(trace) : 0;
}

static es_status get_memory(sheet *s)
{
    size_t points = points_of(s->run->layers.trace);
    s->n = (size_t)s->plan->line_columns;
    for (int i = 0; i < ES_WATCHED_LINES; i++) {
        size_t n = points_of(s->run->lines[i].trace);
        points = n > points ? n : points;
    }
    es_status status;
    if ((status = es_alloc(&s->steps, points, sizeof *s->steps, "lines")) < 0 ||
        (status = es_alloc(&s->values, points, sizeof *s->values, "lines")) <
            0 ||
        (status = es_alloc(&s->columns, s->n, sizeof *s->columns, "lines")) < 0)
        return status;
    return es_alloc(&s->line, s->n, sizeof *s->line, "lines");
}

static void include_steps(sheet *s, const es_trace *trace)
{
    size_t n = points_of(trace);
    if (n == 0)
        return;
    es_trace_steps(trace, s->steps);
    if (s->steps[0] < s->from)
        s->from = s->steps[0];
    if (s->steps[n - 1] > s->to)
        s->to = s->steps[n - 1];
}

/* Draws the axis below the sparklines, with the first and the last step and a
 * mark at the step shown. */
static void draw_axis(sheet *s, int y)
{
    char text[24];
    int x = s->x + s->plan->line_x, columns = s->plan->line_columns;
    int used = snprintf(text, sizeof text, "%lld", (long long)s->from);
    es_screen_say(s->screen, x, y, columns, ES_FAINT, "%s", text);
    int n = snprintf(text, sizeof text, "%lld", (long long)s->to);
    if (s->to > s->from && used + 1 + n <= columns)
        es_screen_write(s->screen, x + columns - n, y, n, text, ES_FAINT);
    if (s->shown->step >= s->to)
        return;
    size_t at = es_spark_column_of(s->shown->step, s->from, s->to, s->n);
    bool plain = s->screen->depth == ES_DEPTH_ASCII;
    es_screen_write(s->screen, x + (int)at, y, 1, plain ? "^" : "▲", ES_BOLD);
}

static void add_trace(sheet *s, const es_trace *trace, size_t line)
{
    if (points_of(trace) == 0)
        return;
    es_trace_steps(trace, s->steps);
    es_trace_line(trace, line, s->values);
    es_spark_add(s->columns, s->line, s->n, s->from, s->to, s->steps, s->values,
                 es_trace_n_points(trace));
}

static void draw_layers(sheet *s)
{
    const es_panel_plan *plan = s->plan;
    int n_layers = plan->heat.n_layers;
    const es_heat_scale *heat = &s->frame->scale;
    const es_spark_scale scale = {
        .low = heat->low,
        .high = heat->high,
        .side = heat->ends_matter ? ES_SPARK_FALLS : ES_SPARK_PEAKS,
        .coloured = true,
        .map = heat->map,
    };
    for (int i = 0; i < plan->n_layer_lines; i++) {
        int first = i * plan->layers_a_line, y = s->y + plan->lines_y + i;
        int end = first + plan->layers_a_line;
        if (first >= n_layers)
            break;
        end = end < n_layers ? end : n_layers;
        es_spark_clear(s->columns, s->n);
        for (int layer = first; layer < end; layer++)
            add_trace(s, s->run->layers.trace, (size_t)layer);
        es_spark_draw(s->screen, s->x + plan->line_x, y, s->columns, s->n,
                      &scale);
        if (!plan->stacked)
            continue;
        if (first == end - 1)
            es_screen_say(s->screen, s->x, y, plan->line_x - 1, ES_FAINT,
                          "layer %d", first);
        else
            es_screen_say(s->screen, s->x, y, plan->line_x - 1, ES_FAINT,
                          "layers %d-%d", first, end - 1);
    }
}

/* Writes the title above the layers' sparklines: "entropy, mean of layers", or
 * only the name of the series if the title does not fit. */
static void name_layers(sheet *s)
{
    const es_run_summary *shown = s->shown;
    const es_panel_plan *plan = s->plan;
    int x = plan->stacked ? 0 : plan->line_x;
    int columns = s->frame->width - x, y = s->y + plan->lines_y - 1;
    char series[64], shared[40] = "";
    if (plan->n_layer_lines == 0)
        return;
    es_text_escape(series, sizeof series, shown->series, ES_ESCAPE_TERMINAL);
    if (shown->shape != ES_SHAPE_RUN && plan->layers_a_line > 1)
        snprintf(shared, sizeof shared, ", %d per line", plan->layers_a_line);
    const char *shape = shown->shape == ES_SHAPE_RUN     ? ""
                        : shown->shape == ES_SHAPE_LAYER ? " of each layer"
                                                         : ", mean of layers";
    if (es_screen_say(s->screen, s->x + x, y, columns, ES_FAINT, "%.40s%s%s",
                      series, shape, shared) == 0)
        es_screen_write(s->screen, s->x + x, y, columns, series, ES_FAINT);
}

/* Draws the sparkline of a series with one value per step, such as the loss,
 * with its name, newest value and scale. */
static void draw_line(sheet *s, int line, int y)
{
    const float newest = s->run->values[line];
    char low[ES_FLOAT_TEXT_MAX], high[ES_FLOAT_TEXT_MAX];
    es_spark_scale scale = {.side = ES_SPARK_PEAKS};
    int x = s->x, columns = s->plan->line_x - 1;
    es_spark_clear(s->columns, s->n);
    add_trace(s, s->run->lines[line].trace, 0);
    es_spark_range(&scale.low, &scale.high, s->columns, s->n);
    es_spark_draw(s->screen, x + s->plan->line_x, y, s->columns, s->n, &scale);
    int used = es_screen_say(s->screen, x, y, columns, ES_FAINT, "%s ",
                             es_watched_line_name(line));
    if (!es_is_missing(newest))
        used += es_screen_say(s->screen, x + used, y, columns - used,
                              isfinite(newest) ? ES_PLAIN : ES_BROKEN_STYLE,
                              "%s", es_number_print(low, (double)newest, 4));
    char range[2 * ES_FLOAT_TEXT_MAX + 4];
    int n = snprintf(range, sizeof range, "%s to %s",
                     es_number_print(low, scale.low, 3),
                     es_number_print(high, scale.high, 3));
    if (scale.low < scale.high && n + 1 <= columns - used)
        es_screen_write(s->screen, x + columns - n - 1, y, n, range, ES_FAINT);
}

static es_status draw_lines(sheet *s)
{
    const es_watched *run = s->run;
    es_status status = get_memory(s);
    if (status == ES_OK) {
        int y = s->y + s->plan->below_y;
        s->from = s->to = s->shown->step;
        include_steps(s, run->layers.trace);
        for (int i = 0; i < ES_WATCHED_LINES; i++)
            include_steps(s, run->lines[i].trace);
        name_layers(s);
        draw_layers(s);
        for (int i = 0; i < ES_WATCHED_LINES; i++)
            if (points_of(run->lines[i].trace) > 0)
                draw_line(s, i, y++);
        draw_axis(s, y);
    }
    free(s->steps);
    free(s->values);
    free(s->columns);
    free(s->line);
    return status;
}

/* --- the whole ------------------------------------------------------------*/

es_status es_panel_draw(es_screen *screen, int x, int y, const es_watched *run,
                        const es_panel_frame *frame, const char *title)
{
    const es_run_summary *shown = es_watched_shown(run);
    const es_panel_plan plan = es_panel_plan_of(run, frame);
    sheet lines = {screen, x, y, run, shown, frame, &plan, .n = 0};
    row at = {screen, x, y, frame->width};
    es_status status;
    if (!shown) {
        status = put_name(&at, title, ES_BOLD);
        at = (row){screen, x, y + 1, frame->width};
        return status == ES_OK && run->problem
                   ? put_name(&at, run->problem,
                              (es_style){.ink = ES_INK_YELLOW})
                   : status;
    }
    if ((status = draw_title(at, shown, title)) < 0)
        return status;
    at.y++;
    draw_numbers(at, shown);
    at.y++;
    draw_flags(at, run->judged);
    es_heat_draw_axes(screen, x + plan.heat_x, y + plan.heat_y, &plan.heat);
    es_heat_draw(screen, x + plan.heat_x, y + plan.heat_y, shown->values,
                 &plan.heat, &frame->scale);
    at.y = y + plan.below_y + es_watched_n_lines(run);
    draw_below(at, shown, frame, &plan);
    return draw_lines(&lines);
}
