/* Draws the figure loss: loss or perplexity of all runs over the steps, both on
 * training and on held-out data. Draws the figure values: a panel for each
 * series with one value per run, such as the loss or the learning rate. */
#include "cli/figures/cost.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"
#include "render/figures/curves.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "analyzer/statistics/stats.h"

#include <math.h>
#include <string.h>

/* The training line and the evaluation line of a run. */
typedef struct pair {
    /* Both contain a single line, which has no points (n = 0) if the phase was
     * not recorded. */
    es_group_lines train, eval;
    float *spikes; /* values of `train` at spikes, missing elsewhere; NULL
                      without --spikes */
    char label[ES_GROUP_TEXT_MAX];
} pair;

/* The lines of one series of all runs. */
typedef struct chart {
    const char *series;
    bool perplexity; /* true to show exp(loss) */
    pair *pairs;     /* (n runs) */
    /* (2 * number of runs) lines; the training lines come first, so that
     * evaluations are drawn on top of them. */
    es_curve *curves;
    bool trained, evaluated, ranges; /* which lines and areas exist */
} chart;

/* --- reading --------------------------------------------------------------*/

/* Reads the line of one phase, train or eval. Perplexity is computed from the
 * series ce if it was recorded, because a loss may include a regulariser.
 * `a_step` converts steps to units of the x axis: 1, or the number of tokens
 * per step. */
static es_status read_phase(es_group_lines *out, es_drawing *drawing, size_t i,
                            const chart *of, es_phase phase, double a_step)
{
    es_lines_query query = {
        .series = "ce", .phase = phase, .reduction = ES_REDUCE_MEAN};
    es_status status = ES_ENOTFOUND;
    if (of->perplexity)
        status = es_group_lines_read(out, drawing, i, &query, true);
    query.series = of->series;
    if (status == ES_ENOTFOUND)
        status = es_group_lines_read(out, drawing, i, &query, of->perplexity);
    for (size_t k = 0; status == ES_OK && k < out->mean.n; k++)
        out->mean.steps[k] =
            (int64_t)fmin((double)out->mean.steps[k] * a_step, 9e18);
    return status == ES_ENOTFOUND ? ES_OK : status;
}

/* --- drawing --------------------------------------------------------------*/

/* A line that rises to more than 1.5 times its first value diverges. */
#define RISE 1.5

/* The values of a line that the y axis should show. */
typedef struct tail {
    double high; /* largest value that is not an outlier; NaN if there is
                    none */
    bool rises;  /* true if `high` is far above the line's first value */
} tail;

/*
 * Finds the largest finite value of a line from step `from` on (of the upper
 * bounds if seeds are merged). Outliers are ignored, because they would flatten
 * all other values. An outlier is more than 3 * d above the 95% quantile, where
 * d is the distance between the 5% and the 95% quantile.
 */
static es_status measure_tail(tail *out, es_drawing *drawing,
                              const es_group_lines *lines, double from)
{
    const es_run_lines *line = &lines->mean;
    const float *values =
        lines->high.values ? lines->high.values : line->values;
    es_distribution all;
    float *sorted;
    es_status status = es_drawing_array(drawing, &sorted, line->n + 1);
    *out = (tail){.high = NAN};
    if (status < 0)
        return status;
    size_t first = 0, start = 0;
    while (first < line->n && !isfinite(values[first]))
        first++;
    while (start < line->n && !((double)line->steps[start] >= from))
        start++;
    es_stats_distribution(&all, sorted, values + start, line->n - start);
    double low = es_stats_quantile(&all, 0.05);
    double high = es_stats_quantile(&all, 0.95);
    size_t n = all.n_finite;
    while (n > 0 && !((double)sorted[n - 1] <= high + 3 * (high - low)))
        n--;
    if (n == 0)
        return ES_OK;
    out->high = (double)sorted[n - 1];
    out->rises = out->high > RISE * (double)values[first];
    return ES_OK;
}

/* Returns the step at which the last two thirds of the run begin, where the run
 * ends at its last finite value. */
static double last_thirds(const pair *p)
{
    double first = INFINITY, last = -INFINITY;
    for (int k = 0; k < 2; k++) {
        const es_run_lines *line = k ? &p->eval.mean : &p->train.mean;
        for (size_t i = 0; i < line->n; i++) {
            if (!isfinite(line->values[i]))
                continue;
            first = fmin(first, (double)line->steps[i]);
            last = fmax(last, (double)line->steps[i]);
        }
    }
    return first + (last - first) / 3;
}

/* Chooses the upper limit of the y axis: the largest value in the last two
 * thirds of each run. Runs that diverge are ignored unless all runs diverge.
 * *out is NaN if there is no such value. */
static es_status choose_limit(double *out, es_drawing *drawing,
                              const pair *pairs)
{
    double limits[] = {NAN, NAN}; /* limit for runs that do not diverge, and
                                     limit for runs that diverge */
    for (size_t i = 0; i < drawing->n; i++) {
        double from = last_thirds(&pairs[i]);
        tail train, eval;
        es_status status = measure_tail(&train, drawing, &pairs[i].train, from);
        if (status < 0 ||
            (status = measure_tail(&eval, drawing, &pairs[i].eval, from)) < 0)
            return status;
        bool diverges = train.rises || eval.rises;
        limits[diverges] = fmax(limits[diverges], fmax(train.high, eval.high));
    }
    *out = isnan(limits[0]) ? limits[1] : limits[0];
    return ES_OK;
}

static es_curve curve_of(const es_group_lines *lines, size_t color, es_pen pen)
{
    return (es_curve){.x = lines->mean.steps,
                      .values = lines->mean.values,
                      .n = lines->mean.n,
                      .pen = pen,
                      .color = color};
}

/* Adds the lines of run i to a chart. */
static es_status add_run(chart *to, es_drawing *drawing, size_t i)
{
    const size_t n = drawing->n;
    pair *p = &to->pairs[i];
    double a_step = 1;
    es_status status;
    if ((drawing->options->tokens &&
         (status = es_tokens_a_step(&a_step, drawing->runs[i])) < 0) ||
        (status = read_phase(&p->train, drawing, i, to, ES_PHASE_TRAIN,
                             a_step)) < 0 ||
        (status = es_lines_spikes(&p->spikes, &p->train.mean, drawing)) < 0 ||
        (status = es_lines_smooth(&p->train.mean, drawing)) < 0 ||
        (status = read_phase(&p->eval, drawing, i, to, ES_PHASE_EVAL, a_step)) <
            0)
        return status;
    const bool evaluated = p->eval.mean.n;
    const es_group_lines *named = evaluated ? &p->eval : &p->train;
    es_curve *train = &to->curves[i], *eval = &to->curves[n + i];
    *train = curve_of(&p->train, i, evaluated ? ES_PEN_THIN : ES_PEN_NORMAL);
    train->spikes = p->spikes;
    *eval = curve_of(&p->eval, i, ES_PEN_DASHED);
    /* The label also counts runs whose training loss ended in NaN although
     * their evaluations are finite. */
    es_group_lines said = *named;
    if (p->train.n_nonfinite > said.n_nonfinite)
        said.n_nonfinite = p->train.n_nonfinite;
    es_curve *shown = evaluated ? eval : train;
    shown->label = es_group_label(p->label, drawing, i, &said);
    shown->low = named->low.values;
    shown->high = named->high.values;
    to->ranges = to->ranges || named->low.values;
    to->trained = to->trained || p->train.mean.n;
    to->evaluated = to->evaluated || evaluated;
    return ES_OK;
}

static es_status load_chart(chart *out, es_drawing *drawing, const char *series,
                            bool perplexity)
{
    *out = (chart){.series = series, .perplexity = perplexity};
    es_status status;
    if ((status = es_drawing_array(drawing, &out->pairs, drawing->n)) < 0 ||
        (status = es_drawing_array(drawing, &out->curves, drawing->n * 2)) < 0)
        return status;
    for (size_t i = 0; i < drawing->n && status == ES_OK; i++)
        status = add_run(out, drawing, i);
    return status;
}

/* Chooses the upper limit of a chart's y axis; NaN if the chart shows all
 * values. */
static es_status limit_chart(double *out, es_drawing *drawing, const chart *of)
{
    const es_figure_options *options = drawing->options;
    const bool is_loss =
        strcmp(of->series, "loss") == 0 || strcmp(of->series, "ce") == 0;
    *out = NAN;
    return is_loss && !options->logarithmic && !options->full &&
                   !options->steps.given
               ? choose_limit(out, drawing, of->pairs)
               : ES_OK;
}

/* Returns ES_ENOTFOUND, with a message that the range of --steps contains no
 * sample of `what`. */
static es_status lacks(const char *what, const es_figure_options *options)
{
    char range[ES_STEP_RANGE_MAX];
    return es_fail(ES_ENOTFOUND, "no %s was recorded %s", what,
                   es_step_range_print(range, &options->steps));
}

/* Writes the note that explains the lines of a chart. */
static void describe(es_text *note, const es_figure_options *options,
                     const chart *of)
{
    es_text_append(note, "%s",
                   of->trained && of->evaluated
                       ? "solid: training; dashed: held-out data"
                   : of->trained ? "training"
                                 : "held-out data");
    if (options->smooth > 0 && of->trained)
        es_text_append(note, "; training smoothed, window of %lld samples",
                       (long long)options->smooth);
    if (options->spikes > 0 && of->trained)
        es_text_append(note, "; rings: training spikes, window of %lld samples",
                       (long long)options->spikes);
    if (of->ranges)
        es_text_append(note, "%s",
                       of->trained && of->evaluated
                           ? "; mean over seeds, shaded: range on held-out data"
                           : "; mean and range over seeds");
}

/* Returns a figure of lines in the colours of the runs. */
static es_curves figure_of(const es_drawing *drawing)
{
    const es_figure_options *options = drawing->options;
    return (es_curves){.style = drawing->style,
                       .logarithmic = options->logarithmic,
                       .x_text = options->tokens ? "tokens" : "step",
                       .colors = ES_CURVES_BY_CATEGORY,
                       .reference = NAN};
}

es_status es_draw_loss(es_picture **out, es_drawing *drawing)
{
    const es_figure_options *options = drawing->options;
    chart loss;
    char note[256];
    double limit;
    es_status status = load_chart(&loss, drawing, "loss", options->perplexity);
    if (status < 0)
        return status;
    if (!loss.trained && !loss.evaluated)
        return lacks("loss", options);
    if ((status = limit_chart(&limit, drawing, &loss)) < 0)
        return status;
    es_text text = es_text_begin(note, sizeof note);
    describe(&text, options, &loss);
    const es_curves_panel panel = {.curves = loss.curves,
                                   .n_curves = 2 * drawing->n};
    es_curves figure = figure_of(drawing);
    figure.panels = &panel;
    figure.n_panels = 1;
    figure.y_text = options->perplexity ? "perplexity" : "loss (nats)";
    figure.limits = &limit;
    figure.note = note;
    return es_curves_draw(out, &figure);
}

/* --- values ---------------------------------------------------------------*/

/* The series with one value per run that a figure shows. */
typedef struct shown_series {
    es_curves_panel panels[ES_PANELS_MOST]; /* (n) title: name of the series,
                                               subtitle: its unit */
    size_t n;
    bool more; /* true if the runs have further series */
} shown_series;

static es_status copy_text(const char **out, es_drawing *drawing,
                           const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy;
    es_status status = es_drawing_array(drawing, &copy, size);
    if (status == ES_OK)
        *out = memcpy(copy, text, size);
    return status;
}

/* Adds a series to the figure unless the figure already contains it. The loss
 * comes first; the other series are in the order in which they are found. */
static es_status add_series(shown_series *to, es_drawing *drawing,
                            const es_series *series)
{
    const bool is_loss = strcmp(series->name, "loss") == 0;
    es_curves_panel panel = {.title = NULL};
    es_status status;
    for (size_t i = 0; i < to->n; i++)
        if (strcmp(to->panels[i].title, series->name) == 0)
            return ES_OK;
    to->more = to->more || to->n == ES_PANELS_MOST;
    if (to->n == ES_PANELS_MOST && !is_loss)
        return ES_OK;
    if ((status = copy_text(&panel.title, drawing, series->name)) < 0 ||
        (*series->unit &&
         (status = copy_text(&panel.subtitle, drawing, series->unit)) < 0))
        return status;
    to->n -= to->n == ES_PANELS_MOST;
    if (is_loss)
        memmove(to->panels + 1, to->panels, to->n * sizeof panel);
    to->panels[is_loss ? 0 : to->n] = panel;
    to->n++;
    return ES_OK;
}

/* Finds the next series with one value per run, from index *at on, and moves
 * *at behind it. Returns ES_DONE if there is none. */
static es_status next_series(es_series *out, size_t *at, es_reader *reader,
                             const es_run_summary *run)
{
    const size_t n = es_reader_n_series(reader, run->number - 1);
    while (*at < n) {
        es_status status =
            es_reader_series(reader, run->number - 1, (*at)++, out);
        if (status < 0 ||
            (out->shape == ES_SHAPE_RUN && out->last_step != ES_UNKNOWN &&
             !es_series_is_member(out->name)))
            return status;
    }
    return ES_DONE;
}

static es_status find_series(shown_series *out, es_drawing *drawing,
                             const es_run_summary *run)
{
    es_reader *reader = NULL;
    es_series series;
    size_t at = 0;
    es_status status = es_source_open(&reader, run);
    while (status == ES_OK &&
           (status = next_series(&series, &at, reader, run)) == ES_OK)
        status = add_series(out, drawing, &series);
    es_damage_close(reader);
    return status == ES_DONE ? ES_OK : status;
}

es_status es_fits_values(const es_run_summary *run,
                         const es_figure_entry *figure)
{
    es_reader *reader = NULL;
    es_series series;
    size_t at = 0;
    es_status status = es_source_open(&reader, run);
    if (status == ES_OK)
        status = next_series(&series, &at, reader, run);
    es_damage_close(reader);
    return status != ES_DONE
               ? status
               : es_fail(ES_ENOTFOUND,
                         "%s: %s needs a series with one value per run",
                         run->path, figure->label);
}

es_status es_draw_values(es_picture **out, es_drawing *drawing)
{
    shown_series shown = {.n = 0};
    double limits[ES_PANELS_MOST];
    char note[256];
    chart all = {.trained = false}, one;
    es_status status = ES_OK;
    for (size_t i = 0; i < drawing->n && status == ES_OK; i++)
        status = find_series(&shown, drawing, drawing->runs[i]);
    for (size_t k = 0; k < shown.n && status == ES_OK; k++) {
        es_curves_panel *panel = &shown.panels[k];
        if ((status = load_chart(&one, drawing, panel->title, false)) < 0 ||
            (status = limit_chart(&limits[k], drawing, &one)) < 0)
            break;
        panel->curves = one.curves;
        panel->n_curves = 2 * drawing->n;
        all.trained = all.trained || one.trained;
        all.evaluated = all.evaluated || one.evaluated;
        all.ranges = all.ranges || one.ranges;
    }
    if (status < 0)
        return status;
    if (!all.trained && !all.evaluated)
        return lacks("value", drawing->options);
    es_text text = es_text_begin(note, sizeof note);
    describe(&text, drawing->options, &all);
    if (shown.more)
        es_text_append(&text, "; further series: draw curves --series NAME");
    es_curves figure = figure_of(drawing);
    figure.panels = shown.panels;
    figure.n_panels = shown.n;
    figure.own_scales = true;
    figure.limits = limits;
    figure.note = note;
    return es_curves_draw(out, &figure);
}
