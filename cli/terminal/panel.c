/* One run on the terminal: title, numbers, flags, heatmap, scale and bands.
   Where they stand: panel_plan.c; lines over the steps: panel_lines.c. */
#include "cli/terminal/panel.h"

#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include "cli/output/grid.h"
#include "cli/runs/fields.h"
#include "cli/terminal/marks.h"

#include <stdlib.h>
#include <string.h>

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

/* "step 2999/3000, finished" */
static void print_step(char *out, size_t size, const es_run_summary *run)
{
    int n = snprintf(out, size, "step %lld", (long long)run->step);
    if (run->planned_steps > 0 && n > 0 && (size_t)n < size)
        n += snprintf(out + n, size - (size_t)n, "/%lld",
                      (long long)run->planned_steps);
    if (n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, "%s, %s",
                 run->phase == ES_PHASE_EVAL ? ", eval" : "", run->status);
}

/* Title on the left, then the file if it fits; the step on the right. */
static es_status draw_title(row at, const es_tui_run *run, const char *title)
{
    char step[96];
    print_step(step, sizeof step, run->shown);
    int taken = (int)strlen(step) + 2;
    row right = at;
    if (taken + 8 <= at.columns) {
        right.x += at.columns - taken + 2;
        right.columns = taken - 2;
        put(&right, step, ES_PLAIN);
        at.columns -= taken;
    }
    const char *slash = strrchr(run->shown->path, '/');
    const char *file = slash ? slash + 1 : run->shown->path;
    es_status status = put_name(&at, title, ES_BOLD);
    put(&at, "  ", ES_PLAIN);
    if (status == ES_OK && at.columns >= 8)
        status = put_name(&at, file, ES_FAINT);
    return status;
}

/* --- numbers --------------------------------------------------------------*/

static void put_number(row *to, const char *name, float value)
{
    char text[32];
    es_style style = isfinite(value)
                         ? ES_PLAIN
                         : (es_style){.ink = ES_INK_RED, .bold = true};
    snprintf(text, sizeof text, isnan(value) ? "NaN  " : "%.4g  ",
             (double)value);
    bool fits = (int)(strlen(name) + 1 + strlen(text)) <= to->columns + 2;
    if (es_is_missing(value) || !fits)
        return;
    put(to, name, ES_FAINT);
    put(to, " ", ES_PLAIN);
    put(to, text, style);
}

static void count_odd(size_t *broken, size_t *missing,
                      const es_run_summary *run)
{
    *broken = *missing = 0;
    for (size_t i = 0; i < run->n_rows; i++) {
        *broken += run->layers[i].nonfinite;
        *missing += run->layers[i].missing;
    }
}

/* The counts are the key, too, to the marks that stand for them. */
static void draw_numbers(row at, const es_tui_run *run)
{
    char text[64];
    size_t broken, missing;
    count_odd(&broken, &missing, run->shown);
    if (broken > 0) {
        snprintf(text, sizeof text, "%s %zu NaN or inf  ",
                 es_mark_broken_text(at.screen), broken);
        put_whole(&at, text, (es_style){.ink = ES_INK_RED, .bold = true});
    }
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_PANEL));)
        put_number(&at, es_field_title(field),
                   es_field_measured(field, run->shown));
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

static size_t heads_of_band(const es_bands *bands, int band)
{
    return band < ES_N_BANDS ? bands->counts[band] : bands->nonfinite;
}

/* Shares of heads in the bands, in the colours of the bar beside them. */
static es_status draw_band_numbers(row at, const es_bands *bands,
                                   const es_panel_frame *frame)
{
    bool plain = es_screen_depth(at.screen) == ES_DEPTH_ASCII;
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

/* Where band `band` ends in a bar of n columns; every band that has a head
   has a column as long as there are enough. */
static int end_of_band(const es_bands *bands, int band, int n)
{
    size_t heads = 0;
    int least = 0, after = 0;
    for (int i = 0; i <= ES_N_BANDS; i++) {
        size_t of_this = heads_of_band(bands, i);
        heads += i <= band ? of_this : 0;
        least += i <= band && of_this > 0;
        after += i > band && of_this > 0;
    }
    int end = (int)((double)heads / (double)bands->n_heads * n + 0.5);
    if (end > n - after)
        end = n - after;
    return end < least ? least : end;
}

static void draw_band_bar(row at, const es_bands *bands,
                          const es_panel_frame *frame)
{
    bool plain = es_screen_depth(at.screen) == ES_DEPTH_ASCII;
    int n = at.columns, x = 0;
    for (int band = 0; band <= ES_N_BANDS; band++)
        for (; x < end_of_band(bands, band, n); x++)
            put(&at, plain ? band_shades[band] : "█", band_style(frame, band));
}

static void say_shared(row at, const es_panel_plan *plan,
                       const es_panel_frame *frame)
{
    char text[128];
    snprintf(text, sizeof text,
             "a place has %d x %d (layers x heads) and shows the value %s",
             plan->heat.layers_in, plan->heat.heads_in,
             frame->scale.ends_matter ? "nearest to an end of the scale"
                                      : "that is largest");
    put(&at, text, ES_FAINT);
}

static es_status draw_below(es_screen *screen, int x, int y,
                            const es_tui_run *run, const es_panel_frame *frame,
                            const es_panel_plan *plan)
{
    const es_run_summary *shown = run->shown;
    int below = y + plan->below_y + es_panel_n_lines(run);
    int left = plan->line_x - 2;
    es_status status = ES_OK;
    const row scale = {screen, x, below++, left};
    draw_scale(scale, frame, shown->unit);
    if (shown->bands.n_heads > 0) {
        const row numbers = {screen, x, below, left};
        const row bar = {screen, x + plan->line_x, below++, plan->line_columns};
        status = draw_band_numbers(numbers, &shown->bands, frame);
        draw_band_bar(bar, &shown->bands, frame);
    }
    const row note = {screen, x, below, frame->width};
    if (plan->shares)
        say_shared(note, plan, frame);
    return status;
}

/* --- the whole ------------------------------------------------------------*/

static es_status draw_problem(es_screen *screen, int x, int y,
                              const es_tui_run *run, int width,
                              const char *title)
{
    row at = {screen, x, y, width};
    es_status status = put_name(&at, title, ES_BOLD);
    row below = {screen, x, y + 1, width};
    if (status == ES_OK && run->problem)
        status =
            put_name(&below, run->problem, (es_style){.ink = ES_INK_YELLOW});
    return status;
}

es_status es_panel_draw(es_screen *screen, int x, int y, const es_tui_run *run,
                        const es_panel_frame *frame, const char *title)
{
    if (!run->shown)
        return draw_problem(screen, x, y, run, frame->width, title);
    es_panel_plan plan = es_panel_plan_of(run, frame);
    const row first = {screen, x, y, frame->width};
    row at = first;
    es_status status = draw_title(at, run, title);
    if (status != ES_OK)
        return status;
    at.y++;
    draw_numbers(at, run);
    at.y++;
    draw_flags(at, run->judged);
    es_heat_draw_axes(screen, x + plan.heat_x, y + plan.heat_y, &plan.heat);
    es_heat_draw(screen, x + plan.heat_x, y + plan.heat_y, run->shown->values,
                 &plan.heat, &frame->scale);
    status = draw_below(screen, x, y, run, frame, &plan);
    return status == ES_OK
               ? es_panel_draw_lines(screen, x, y, run, frame, &plan)
               : status;
}
