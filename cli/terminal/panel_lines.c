/* The lines over the steps of a panel: those of the layers beside or below the
   heatmap, and the run's own, each drawn by spark.c. */
#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/terminal/panel.h"
#include "cli/terminal/spark.h"

/* What drawing the lines of a run needs. */
typedef struct sheet {
    es_screen *screen;
    int x, y; /* of the panel */
    const es_watched *run;
    const es_run_summary *shown; /* of the run */
    const es_panel_frame *frame;
    const es_panel_plan *plan;
    int64_t from, to; /* steps of all lines */

    int64_t *steps;                  /* (capacity) of one trace, unfolded */
    float *values;                   /* (capacity) */
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

static void include(sheet *s, const es_trace *trace)
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

/* First and last step below the lines, and a mark under the step shown. */
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

/* --- lines ----------------------------------------------------------------*/

static void add(sheet *s, const es_trace *trace, size_t line)
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
            add(s, s->run->layers.trace, (size_t)layer);
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

/* "entropy, mean of each layer" above their lines, or less where that does not
   fit. */
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
        snprintf(shared, sizeof shared, ", %d a line", plan->layers_a_line);
    const char *shape = shown->shape == ES_SHAPE_RUN     ? ""
                        : shown->shape == ES_SHAPE_LAYER ? " of each layer"
                                                         : ", mean of layers";
    if (es_screen_say(s->screen, s->x + x, y, columns, ES_FAINT, "%.40s%s%s",
                      series, shape, shared) == 0)
        es_screen_write(s->screen, s->x + x, y, columns, series, ES_FAINT);
}

/* One of the run's own lines, on a scale of its own, which it names. */
static void draw_line(sheet *s, int line, int y)
{
    const float newest = s->run->values[line];
    es_spark_scale scale = {.side = ES_SPARK_PEAKS};
    int x = s->x, columns = s->plan->line_x - 1;
    es_spark_clear(s->columns, s->n);
    add(s, s->run->lines[line].trace, 0);
    es_spark_range(&scale.low, &scale.high, s->columns, s->n);
    es_spark_draw(s->screen, x + s->plan->line_x, y, s->columns, s->n, &scale);
    int used = es_screen_say(s->screen, x, y, columns, ES_FAINT, "%s ",
                             es_watched_line_name(line));
    if (!es_is_missing(newest))
        used += es_screen_say(s->screen, x + used, y, columns - used,
                              isfinite(newest) ? ES_PLAIN : ES_BROKEN_STYLE,
                              isnan(newest) ? "NaN" : "%.4g", (double)newest);
    char range[48];
    int n =
        snprintf(range, sizeof range, "%.3g to %.3g", scale.low, scale.high);
    if (scale.low < scale.high && n + 1 <= columns - used)
        es_screen_write(s->screen, x + columns - n - 1, y, n, range, ES_FAINT);
}

es_status es_panel_draw_lines(es_screen *screen, int x, int y,
                              const es_watched *run,
                              const es_panel_frame *frame,
                              const es_panel_plan *plan)
{
    sheet s = {.screen = screen,
               .x = x,
               .y = y,
               .run = run,
               .shown = es_watched_shown(run),
               .frame = frame,
               .plan = plan};
    es_status status = get_memory(&s);
    if (status == ES_OK) {
        int row = y + plan->below_y;
        s.from = s.to = s.shown->step;
        include(&s, run->layers.trace);
        for (int i = 0; i < ES_WATCHED_LINES; i++)
            include(&s, run->lines[i].trace);
        name_layers(&s);
        draw_layers(&s);
        for (int i = 0; i < ES_WATCHED_LINES; i++)
            if (points_of(run->lines[i].trace) > 0)
                draw_line(&s, i, row++);
        draw_axis(&s, row);
    }
    free(s.steps);
    free(s.values);
    free(s.columns);
    free(s.line);
    return status;
}
