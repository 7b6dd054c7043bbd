/* One run on the terminal: where its parts stand, by the size of the terminal
   and the number of layers and heads; title, numbers, flags, heatmap, scale and
   bands. Lines over the steps: panel_lines.c. */
#include "cli/terminal/panel.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/output/grid.h"
#include "cli/output/print.h"
#include "cli/runs/fields.h"

#include <stdlib.h>
#include <string.h>

/* --- where its parts stand -------------------------------------------------*/

enum {
    HEADER = 3,      /* rows: title, numbers, flags */
    GAP = 2,         /* columns between heatmap and lines */
    LINE_LEAST = 16, /* columns of a line over the steps */
    LINE_WANTED = 24,
    LEFT_LEAST = 20, /* columns of what stands left of the lines */
    STACK_MOST = 8,  /* lines of layers below a wide heatmap */
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

/* Columns of the layers' numbers, and a blank. */
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

/* The heatmap above `other` rows: run's lines, scale and axis, bands, and the
   numbers of heads and the header above it. */
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
    if (plan->shares) /* which is said in a row of its own */
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

/* Where the next piece of a row goes. */
typedef struct row {
    es_screen *screen;
    int x, y, columns;
} row;

static void put(row *to, const char *text, es_style style)
{
    int used =
        es_screen_write(to->screen, to->x, to->y, to->columns, text, style);
    to->x += used;
    to->columns -= used;
}

/* All of it or nothing. */
static void put_whole(row *to, const char *text, es_style style)
{
    if ((int)es_display_width(text) <= to->columns)
        put(to, text, style);
}

static es_status put_name(row *to, const char *name, es_style style)
{
    char *safe = es_display_escape(name, ES_ESCAPE_TERMINAL);
    if (!safe)
        return ES_ENOMEM;
    if (to->columns >= 5)
        es_display_shorten(safe, (size_t)to->columns);
    put(to, safe, style);
    free(safe);
    return ES_OK;
}

/* --- title ----------------------------------------------------------------*/

/* Title on the left, then the file if it fits; on the right the step, as in
   "step 2999/3000, finished". */
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
        put(&right, step, ES_PLAIN);
        at.columns -= taken;
    }
    const char *slash = strrchr(run->path, '/');
    es_status status = put_name(&at, title, ES_BOLD);
    put(&at, "  ", ES_PLAIN);
    if (status == ES_OK && at.columns >= 8)
        status = put_name(&at, slash ? slash + 1 : run->path, ES_FAINT);
    return status;
}

/* --- numbers --------------------------------------------------------------*/

static void put_number(row *to, const char *name, float value)
{
    char text[32];
    es_style style = isfinite(value) ? ES_PLAIN : ES_BROKEN_STYLE;
    snprintf(text, sizeof text, isnan(value) ? "NaN  " : "%.4g  ",
             (double)value);
    bool fits = (int)(strlen(name) + 1 + strlen(text)) <= to->columns + 2;
    if (es_is_missing(value) || !fits)
        return;
    put(to, name, ES_FAINT);
    put(to, " ", ES_PLAIN);
    put(to, text, style);
}

/* The counts are the key, too, to the marks that stand for them. */
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
        snprintf(text, sizeof text, "blank: %zu missing", missing);
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
    put(&at, "flags ", ES_FAINT);
    if (at.columns >= 5)
        es_display_shorten(text, (size_t)at.columns);
    put(&at, text, (es_style){.ink = ink, .bold = stands});
}

/* --- below the heatmap ----------------------------------------------------*/

/* The scale as wide as `columns`: "0 (colours) 2.528 nats". */
static void draw_scale(row at, const es_panel_frame *frame, const char *unit)
{
    char low[32], high[64];
    snprintf(low, sizeof low, "%.4g ", frame->scale.low);
    snprintf(high, sizeof high, " %.4g %.20s", frame->scale.high, unit);
    if ((int)(strlen(low) + strlen(high)) > at.columns)
        return;
    put(&at, low, ES_PLAIN);
    int n = at.columns - (int)strlen(high);
    for (int i = 0; i < n; i++) {
        double share = n > 1 ? (double)i / (n - 1) : 1;
        es_mark_shade(at.screen, at.x++, at.y, frame->scale.map, share);
    }
    at.columns -= n > 0 ? n : 0;
    put(&at, high, ES_PLAIN);
}

static const char *const band_shades[] = {":", "=", "#", "@", "x"};

static es_style band_style(const es_panel_frame *frame, int band)
{
    if (band == ES_N_BANDS)
        return (es_style){.ink = es_ink_of(ES_BROKEN_COLOR)};
    return (es_style){.ink = es_ink_of(es_colormap_at(
                          frame->scale.map, (band + 0.5) / ES_N_BANDS))};
}

/* Shares of heads in the bands, in the colours of the bar beside them. */
static es_status draw_band_numbers(row at, const es_bands *bands,
                                   const es_panel_frame *frame)
{
    bool plain = at.screen->depth == ES_DEPTH_ASCII;
    if (at.columns >= 26)
        put(&at, "bands ", ES_FAINT);
    for (int band = 0; band < ES_N_BANDS; band++) {
        char *share = NULL;
        es_status status =
            es_cell_share(&share, bands->counts[band], bands->n_heads);
        if (status != ES_OK)
            return status;
        if ((int)strlen(share) < at.columns) {
            put(&at, plain ? band_shades[band] : "█", band_style(frame, band));
            put(&at, share, ES_PLAIN);
            put(&at, " ", ES_PLAIN);
        }
        free(share);
    }
    return ES_OK;
}

/* Every band that has a head has a column as long as there are enough. */
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
            put(&at, plain ? band_shades[band] : "█", band_style(frame, band));
    }
}

static es_status draw_below(row at, const es_run_summary *shown,
                            const es_panel_frame *frame,
                            const es_panel_plan *plan)
{
    char text[128];
    const int x = at.x;
    es_status status = ES_OK;
    at.columns = plan->line_x - 2;
    draw_scale(at, frame, shown->unit);
    at.y++;
    if (shown->bands.n_heads > 0) {
        status = draw_band_numbers(at, &shown->bands, frame);
        at.x += plan->line_x;
        at.columns = plan->line_columns;
        draw_band_bar(at, &shown->bands, frame);
        at.y++;
    }
    snprintf(text, sizeof text,
             "a place has %d x %d (layers x heads) and shows the value %s",
             plan->heat.layers_in, plan->heat.heads_in,
             frame->scale.ends_matter ? "nearest to an end of the scale"
                                      : "that is largest");
    at.x = x;
    at.columns = frame->width;
    if (plan->shares)
        put(&at, text, ES_FAINT);
    return status;
}

/* --- the whole ------------------------------------------------------------*/

es_status es_panel_draw(es_screen *screen, int x, int y, const es_watched *run,
                        const es_panel_frame *frame, const char *title)
{
    const es_run_summary *shown = es_watched_shown(run);
    row at = {screen, x, y, frame->width};
    es_status status;
    if (!shown) {
        row below = {screen, x, y + 1, frame->width};
        status = put_name(&at, title, ES_BOLD);
        return status == ES_OK && run->problem
                   ? put_name(&below, run->problem,
                              (es_style){.ink = ES_INK_YELLOW})
                   : status;
    }
    es_panel_plan plan = es_panel_plan_of(run, frame);
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
    status = draw_below(at, shown, frame, &plan);
    return status == ES_OK
               ? es_panel_draw_lines(screen, x, y, run, frame, &plan)
               : status;
}
