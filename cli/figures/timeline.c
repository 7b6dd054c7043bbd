/* A run's flags and events beside what they follow from: entropy falls,
 * logits grow, activations are NaN, then the loss. */
#include "render/figures/timeline.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 80

/* The small plots: of each series one number a step. */
static const struct {
    const char *series, *text;
    es_reduction heads; /* of a layer */
    bool lowest;        /* of the layers; else the largest */
    bool logarithmic;
} plots[] = {
    {"entropy", "lowest layer mean of entropy", ES_REDUCE_MEAN, true, false},
    {"max_logit", "largest logit", ES_REDUCE_MOST, false, true},
    {"nan_activations", "NaN activations of a layer", ES_REDUCE_NONE, false,
     false},
    {"loss", "loss", ES_REDUCE_NONE, false, false},
};

enum { N_PLOTS = sizeof plots / sizeof *plots };

/* What one panel shows. */
typedef struct run_lines {
    es_run_lines lines[N_PLOTS]; /* the first of each is the plot's */
    es_timeline_plot plots[N_PLOTS];
    es_timeline_bar *bars;
    es_timeline_mark *marks;
    char (*bar_texts)[TEXT_MAX];
    char (*mark_texts)[TEXT_MAX];
    char order[256];
} run_lines;

/* --- plots ----------------------------------------------------------------*/

/* Into the first line the lowest or largest of all; NaN if one is: the layer
 * that broke is what matters. */
static void reduce(es_run_lines *lines, bool lowest)
{
    for (size_t i = 0; i < lines->n; i++) {
        float best = lines->values[i];
        for (size_t k = 1; k < lines->n_lines; k++) {
            float value = lines->values[k * lines->n + i];
            if (es_is_missing(value) || (isnan(best) && !es_is_missing(best)))
                continue;
            if (isnan(value) || es_is_missing(best) ||
                (lowest ? value < best : value > best))
                best = value;
        }
        lines->values[i] = best;
    }
}

static void widen(es_timeline_panel *panel, double step)
{
    panel->first = fmin(panel->first, step);
    panel->last = fmax(panel->last, step);
}

static es_status load_plots(run_lines *r, es_timeline_panel *panel,
                            const es_run_summary *run)
{
    for (size_t i = 0; i < N_PLOTS; i++) {
        es_run_lines *lines = &r->lines[i];
        es_status status = es_lines_read_either(lines, run, plots[i].series,
                                                run->phase, plots[i].heads);
        if (status == ES_ENOTFOUND) /* what the run lacks is left out */
            continue;
        if (status != ES_OK)
            return status;
        if (!lines->n)
            continue;
        reduce(lines, plots[i].lowest);
        r->plots[panel->n_plots++] =
            (es_timeline_plot){plots[i].text, lines->steps, lines->values,
                               lines->n, plots[i].logarithmic};
        widen(panel, (double)lines->steps[0]);
        widen(panel, (double)lines->steps[lines->n - 1]);
    }
    return ES_OK;
}

/* --- flags and events -----------------------------------------------------*/

static es_timeline_level level_of(es_severity severity)
{
    return severity >= ES_SEVERITY_CRITICAL  ? ES_LEVEL_CRITICAL
           : severity == ES_SEVERITY_ERROR   ? ES_LEVEL_ERROR
           : severity == ES_SEVERITY_WARNING ? ES_LEVEL_WARNING
                                             : ES_LEVEL_INFO;
}

/* "L0-2,9". */
static void print_layers(char *out, const es_flag *flag)
{
    es_text to = es_text_begin(out, TEXT_MAX);
    for (size_t i = 0; i < flag->n_layers; i++) {
        size_t first = i;
        while (i + 1 < flag->n_layers &&
               flag->layers[i + 1] == flag->layers[i] + 1)
            i++;
        es_text_append(&to, "%s%u", first ? "," : "L",
                       (unsigned)flag->layers[first]);
        if (i > first)
            es_text_append(&to, "-%u", (unsigned)flag->layers[i]);
    }
}

/* The bars by lane; the order of the onsets, the first of each kind. */
static es_status load_flags(run_lines *r, es_timeline_panel *panel,
                            const es_run_summary *run)
{
    bool seen[ES_N_FLAG_KINDS] = {false};
    size_t length = 0;
    es_status status;
    if ((status = es_alloc(&r->bars, run->n_flags, sizeof *r->bars,
                           "the flags")) < 0 ||
        (status = es_alloc(&r->bar_texts, run->n_flags, sizeof *r->bar_texts,
                           "the flags")) < 0)
        return status;
    for (size_t lane = 0; lane < ES_N_FLAG_KINDS; lane++)
        for (size_t i = 0; i < run->n_flags; i++) {
            const es_flag *flag = &run->flags[i];
            if ((size_t)flag->kind != lane)
                continue;
            char *text = r->bar_texts[panel->n_bars];
            print_layers(text, flag);
            r->bars[panel->n_bars++] = (es_timeline_bar){
                lane, (double)flag->onset, (double)flag->last,
                level_of(flag->severity), *text ? text : NULL};
            widen(panel, (double)flag->onset);
            widen(panel, (double)flag->last);
        }
    for (size_t i = 0; i < run->n_flags && length < sizeof r->order; i++) {
        const es_flag *flag = &run->flags[i]; /* by onset */
        if (seen[flag->kind])
            continue;
        seen[flag->kind] = true;
        length +=
            (size_t)snprintf(r->order + length, sizeof r->order - length,
                             "%s%s %lld", length ? " \u2192 " : "",
                             es_flag_name(flag->kind), (long long)flag->onset);
    }
    if (!length)
        snprintf(r->order, sizeof r->order, "no flags");
    return ES_OK;
}

static es_status add_events(run_lines *r, es_timeline_panel *panel,
                            es_reader *reader, const es_run_summary *run)
{
    const es_event *events;
    size_t n;
    es_status status = es_reader_events(reader, run->number - 1, &events, &n);
    if (status < 0)
        return status;
    const size_t n_marks = n + run->n_damaged;
    if ((status = es_alloc(&r->marks, n_marks, sizeof *r->marks,
                           "the events")) < 0 ||
        (status = es_alloc(&r->mark_texts, n_marks, sizeof *r->mark_texts,
                           "the events")) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        double step = (double)events[i].step;
        if (events[i].step == ES_UNKNOWN) /* at the end, as far as is known */
            step = run->last_step == ES_UNKNOWN ? 0 : (double)run->last_step;
        snprintf(r->mark_texts[i], TEXT_MAX, "%.40s", events[i].kind);
        r->marks[i] = (es_timeline_mark){step, level_of(events[i].severity),
                                         r->mark_texts[i]};
        widen(panel, step);
    }
    for (size_t i = 0; i < run->n_damaged; i++) {
        double step = (double)run->damaged[i].step;
        snprintf(r->mark_texts[n + i], TEXT_MAX, "damaged");
        r->marks[n + i] =
            (es_timeline_mark){step, ES_LEVEL_ERROR, r->mark_texts[n + i]};
        widen(panel, step);
    }
    panel->n_marks = n_marks;
    return ES_OK;
}

static int by_step(const void *a, const void *b)
{
    double x = ((const es_timeline_mark *)a)->step;
    double y = ((const es_timeline_mark *)b)->step;
    return (x > y) - (x < y);
}

static es_status load_events(run_lines *r, es_timeline_panel *panel,
                             const es_run_summary *run)
{
    es_reader *reader = NULL;
    es_status status = es_source_open(&reader, run);
    if (status == ES_OK)
        status = add_events(r, panel, reader, run);
    es_damage_close(reader);
    if (status == ES_OK)
        qsort(r->marks, panel->n_marks, sizeof *r->marks, by_step);
    return status;
}

/* --- the figure -----------------------------------------------------------*/

static es_status load(run_lines *r, es_timeline_panel *panel,
                      const es_drawing *drawing, size_t i)
{
    const es_run_summary *run = drawing->runs[i];
    es_status status;
    *panel = (es_timeline_panel){.title = es_drawing_title(drawing, i),
                                 .plots = r->plots,
                                 .order = r->order,
                                 .first = INFINITY,
                                 .last = -INFINITY};
    if ((status = load_plots(r, panel, run)) < 0 ||
        (status = load_flags(r, panel, run)) < 0 ||
        (status = load_events(r, panel, run)) < 0)
        return status;
    if (!(panel->first < panel->last)) { /* one step, or none */
        double step = panel->first <= panel->last ? panel->first : 0;
        panel->first = step - 0.5;
        panel->last = step + 0.5;
    }
    panel->bars = r->bars;
    panel->marks = r->marks;
    return ES_OK;
}

static void clear(run_lines *r)
{
    for (size_t i = 0; i < N_PLOTS; i++)
        es_lines_clear(&r->lines[i]);
    free(r->bars);
    free(r->marks);
    free(r->bar_texts);
    free(r->mark_texts);
}

es_status es_draw_timeline(es_picture **out, const es_drawing *drawing)
{
    const char *lanes[ES_N_FLAG_KINDS];
    run_lines *runs = NULL;
    es_timeline_panel *panels = NULL;
    es_status status;
    if ((status = es_alloc(&runs, drawing->n, sizeof *runs, "a timeline")) <
            0 ||
        (status = es_alloc(&panels, drawing->n, sizeof *panels, "a timeline")) <
            0)
        goto done;
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        lanes[i] = es_flag_name((es_flag_kind)i);
    for (size_t i = 0; i < drawing->n; i++)
        if ((status = load(&runs[i], &panels[i], drawing, i)) < 0)
            goto done;
    status = es_timeline_draw(out, &(es_timeline){.style = drawing->style,
                                                  .panels = panels,
                                                  .n_panels = drawing->n,
                                                  .lanes = lanes,
                                                  .n_lanes = ES_N_FLAG_KINDS});
done:
    for (size_t i = 0; runs && i < drawing->n; i++)
        clear(&runs[i]);
    free(runs);
    free(panels);
    return status;
}
