/* Draws the figure timeline, which shows the flags and events of each run below
 * the series that explain them (entropy, logits, NaN activations and loss). */
#include "render/figures/timeline.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "analyzer/heads/heads.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"

#include <math.h>
#include <stdlib.h>

#define TEXT_MAX 80

enum { N_PLOTS = 4 };

/* The data for the panel of one run. */
typedef struct story {
    es_timeline_plot plots[N_PLOTS];
    es_timeline_bar *bars;
    es_timeline_mark *marks;
    char (*bar_texts)[TEXT_MAX];
    char (*mark_texts)[TEXT_MAX];
    char order[256];
} story;

/* --- plots ----------------------------------------------------------------*/

static void widen(es_timeline_panel *panel, double step)
{
    panel->first = fmin(panel->first, step);
    panel->last = fmax(panel->last, step);
}

/* Loads the small plots of a panel. Each plot has one value per step. */
static es_status load_plots(story *r, es_timeline_panel *panel,
                            es_drawing *drawing, const es_run_summary *run)
{
    const struct {
        const char *series, *text;
        es_reduction heads; /* within a layer */
        es_fold fold;       /* how the layers are reduced to one value */
        bool logarithmic;
    } plots[N_PLOTS] = {
        {es_head_statistics[ES_HEAD_ENTROPY].name,
         "lowest layer mean of entropy", ES_REDUCE_MEAN, ES_FOLD_LEAST, false},
        {es_head_statistics[ES_HEAD_MAX_LOGIT].name, "largest logit",
         ES_REDUCE_MOST, ES_FOLD_MOST, true},
        {"nan_activations", "NaN activations of a layer", ES_REDUCE_NONE,
         ES_FOLD_MOST, false},
        {"loss", "loss", ES_REDUCE_NONE, ES_FOLD_MOST, false},
    };
    for (size_t i = 0; i < N_PLOTS; i++) {
        es_run_lines lines;
        es_status status =
            es_lines_read(&lines, drawing, run,
                          &(es_lines_query){.series = plots[i].series,
                                            .phase = run->phase,
                                            .either = true,
                                            .reduction = plots[i].heads,
                                            .fold = plots[i].fold});
        /* Leave out the plot if the run lacks the series. */
        if (status == ES_ENOTFOUND)
            continue;
        if (status < 0)
            return status;
        if (!lines.n)
            continue;
        r->plots[panel->n_plots++] =
            (es_timeline_plot){plots[i].text, lines.steps, lines.values,
                               lines.n, plots[i].logarithmic};
        widen(panel, (double)lines.steps[0]);
        widen(panel, (double)lines.steps[lines.n - 1]);
    }
    return ES_OK;
}

/* --- flags and events -----------------------------------------------------*/

/* Returns true if any of the steps first to last is shown. */
static bool is_shown(const es_drawing *drawing, int64_t first, int64_t last)
{
    const es_step_range *steps = &drawing->options->steps;
    return !steps->given || (first <= steps->last && last >= steps->first);
}

/* Returns the shown step that is nearest to a step. */
static double shown_step(const es_drawing *drawing, int64_t step)
{
    const es_step_range *steps = &drawing->options->steps;
    return !steps->given         ? (double)step
           : step < steps->first ? (double)steps->first
           : step > steps->last  ? (double)steps->last
                                 : (double)step;
}

/* Prints the layers of a flag as ranges, such as "L0-2,9". */
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

enum { LANES_MOST = ES_N_FLAG_KINDS + ES_RULES_MOST };

/* The lanes, which are the rows in which flags are drawn. Each kind of flag
 * about attention has a lane; below them, each kind of flag about the loss and
 * each of the user's rules has a lane if it was raised. */
typedef struct lanes {
    const char *names[LANES_MOST];
    es_flag_kind kinds[LANES_MOST];
    /* Rule to which the lane belongs; NULL if the lane belongs to a kind of
     * flag. */
    const es_rule *rules[LANES_MOST];
    size_t n;
} lanes;

/* Returns the index of the lane to which a flag belongs; all->n if this lane
 * does not exist yet. */
static size_t lane_of(const lanes *all, const es_flag *flag)
{
    size_t lane = 0;
    while (lane < all->n &&
           (all->kinds[lane] != flag->kind || all->rules[lane] != flag->rule))
        lane++;
    return lane;
}

static void add_lane(lanes *to, es_flag_kind kind, const es_rule *rule)
{
    to->names[to->n] = rule ? rule->name : es_flag_name(kind);
    to->kinds[to->n] = kind;
    to->rules[to->n++] = rule;
}

static void find_lanes(lanes *out, const es_drawing *drawing)
{
    out->n = 0;
    for (int kind = 0; kind < ES_FLAG_LOSS_SPIKE; kind++)
        add_lane(out, (es_flag_kind)kind, NULL);
    for (size_t i = 0; i < drawing->n; i++)
        for (size_t k = 0; k < drawing->runs[i]->n_flags; k++) {
            const es_flag *flag = &drawing->runs[i]->flags[k];
            if (lane_of(out, flag) == out->n && out->n < LANES_MOST)
                add_lane(out, flag->kind, flag->rule);
        }
}

/* Makes a bar for each flag, sorted by lane, and a text that lists the lanes in
 * the order in which flags were first raised in them. */
static es_status load_flags(story *r, es_timeline_panel *panel,
                            es_drawing *drawing, const es_run_summary *run,
                            const lanes *all)
{
    bool seen[LANES_MOST] = {false};
    es_text order = es_text_begin(r->order, sizeof r->order);
    es_status status;
    if ((status = es_drawing_array(drawing, &r->bars, run->n_flags)) < 0 ||
        (status = es_drawing_array(drawing, &r->bar_texts, run->n_flags)) < 0)
        return status;
    for (size_t lane = 0; lane < all->n; lane++)
        for (size_t i = 0; i < run->n_flags; i++) {
            const es_flag *flag = &run->flags[i];
            if (lane_of(all, flag) != lane ||
                !is_shown(drawing, flag->onset, flag->last))
                continue;
            const double onset = shown_step(drawing, flag->onset);
            const double last = shown_step(drawing, flag->last);
            char *text = r->bar_texts[panel->n_bars];
            print_layers(text, flag);
            r->bars[panel->n_bars++] = (es_timeline_bar){
                lane, onset, last, es_drawing_level(flag->severity),
                *text ? text : NULL};
            widen(panel, onset);
            widen(panel, last);
        }
    for (size_t i = 0; i < run->n_flags; i++) {
        /* the summary's flags are sorted by the step at which they were
         * raised */
        const es_flag *flag = &run->flags[i];
        const size_t lane = lane_of(all, flag);
        if (lane >= all->n || seen[lane] ||
            !is_shown(drawing, flag->onset, flag->last))
            continue;
        seen[lane] = true;
        es_text_append(&order, "%s%s %lld", order.length ? " \u2192 " : "",
                       all->names[lane], (long long)flag->onset);
    }
    if (!order.length)
        es_text_append(&order, drawing->options->steps.given
                                   ? "no flags in these steps"
                                   : "no flags");
    return ES_OK;
}

static void add_mark(story *r, es_timeline_panel *panel,
                     const es_drawing *drawing, int64_t step, es_level level,
                     const char *text)
{
    if (!is_shown(drawing, step, step))
        return;
    char *copy = r->mark_texts[panel->n_marks];
    snprintf(copy, TEXT_MAX, "%.40s", text);
    r->marks[panel->n_marks++] = (es_timeline_mark){(double)step, level, copy};
    widen(panel, (double)step);
}

static int by_step(const void *a, const void *b)
{
    double x = ((const es_timeline_mark *)a)->step;
    double y = ((const es_timeline_mark *)b)->step;
    return (x > y) - (x < y);
}

static es_status load_events(story *r, es_timeline_panel *panel,
                             es_drawing *drawing, const es_run_summary *run)
{
    es_reader *reader = NULL;
    const es_event *events;
    size_t n;
    es_status status;
    if ((status = es_source_open(&reader, run)) < 0 ||
        (status = es_reader_events(reader, run->number - 1, &events, &n)) < 0 ||
        (status = es_drawing_array(drawing, &r->marks, n + run->n_damaged)) <
            0 ||
        (status =
             es_drawing_array(drawing, &r->mark_texts, n + run->n_damaged)) < 0)
        goto done;
    for (size_t i = 0; i < n; i++) {
        int64_t step = events[i].step;
        /* Put an event without a step at the last known step. */
        if (step == ES_UNKNOWN)
            step = run->last_step == ES_UNKNOWN ? 0 : run->last_step;
        add_mark(r, panel, drawing, step, es_drawing_level(events[i].severity),
                 events[i].kind);
    }
    for (size_t i = 0; i < run->n_damaged; i++)
        /* damaged frames and damaged table rows are already among the events */
        if (!run->damaged[i].n_frames && !run->damaged[i].table)
            add_mark(r, panel, drawing, run->damaged[i].step, ES_LEVEL_ERROR,
                     "damaged");
    qsort(r->marks, panel->n_marks, sizeof *r->marks, by_step);
done:
    es_damage_close(reader);
    return status;
}

/* --- the figure -----------------------------------------------------------*/

static es_status load(story *r, es_timeline_panel *panel, es_drawing *drawing,
                      size_t i, const lanes *all)
{
    const es_run_summary *run = drawing->runs[i];
    es_status status;
    *panel = (es_timeline_panel){.title = es_drawing_title(drawing, i),
                                 .plots = r->plots,
                                 .order = r->order,
                                 .first = INFINITY,
                                 .last = -INFINITY};
    if ((status = load_plots(r, panel, drawing, run)) < 0 ||
        (status = load_flags(r, panel, drawing, run, all)) < 0 ||
        (status = load_events(r, panel, drawing, run)) < 0)
        return status;
    if (!(panel->first < panel->last)) { /* true if the run has at most one
                                            step */
        double step = panel->first <= panel->last ? panel->first : 0;
        panel->first = step - 0.5;
        panel->last = step + 0.5;
    }
    panel->bars = r->bars;
    panel->marks = r->marks;
    return ES_OK;
}

es_status es_draw_timeline(es_picture **out, es_drawing *drawing)
{
    lanes all;
    story *stories;
    es_timeline_panel *panels;
    es_status status;
    if ((status = es_drawing_array(drawing, &stories, drawing->n)) < 0 ||
        (status = es_drawing_array(drawing, &panels, drawing->n)) < 0)
        return status;
    find_lanes(&all, drawing);
    for (size_t i = 0; i < drawing->n; i++)
        if ((status = load(&stories[i], &panels[i], drawing, i, &all)) < 0)
            return status;
    return es_timeline_draw(out, &(es_timeline){.style = drawing->style,
                                                .panels = panels,
                                                .n_panels = drawing->n,
                                                .lanes = all.names,
                                                .n_lanes = all.n});
}
