/*
 * Draws the figures that have one panel of lines per run: `curves` (a series of
 * all layers, or of the heads of one layer, over the steps), `nans` (counts of
 * NaN and infinite values per layer) and `slopes` (the learnable slopes of the
 * activation).
 */
#include "render/figures/curves.h"

#include "analyzer/heads/heads.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"
#include "cli/trends/trends.h"

#include <math.h>
#include <string.h>

/* The lines of one run, and the texts of its panel. */
typedef struct panel {
    /* A shaded area is drawn between low and high unless they are empty. */
    es_run_lines lines, low, high;
    es_curve *curves; /* (lines.n_lines) */
    /* (lines.n_lines) trends; a line without a trend has a curve with n = 0.
     * NULL if no trends are drawn. */
    es_curve *trends;
    /* (lines.n_lines,lines.n) values at spikes, missing elsewhere; NULL if no
     * spikes are marked. */
    float *spikes;
    char (*labels)[ES_CAPTION_MAX]; /* (lines.n_lines) */
    char subtitle[160];             /* "" if the panel has no subtitle */
    char title[ES_GROUP_TEXT_MAX];
} panel;

/* Reads the lines of one run for a figure, and names the lines. */
typedef es_status load_panel(panel *out, es_drawing *drawing, size_t index);

/* Reads the lines of a run. If the run represents a group of seeds, reads the
 * mean and range over the seeds, and the title contains the number of seeds. */
static es_status read_seeds(panel *out, es_group_lines *seeds,
                            es_drawing *drawing, size_t index,
                            const es_lines_query *query)
{
    es_status status = es_group_lines_read(seeds, drawing, index, query, false);
    if (status < 0)
        return status;
    out->lines = seeds->mean;
    out->low = seeds->low;
    out->high = seeds->high;
    if (drawing->members)
        es_group_label(out->title, drawing, index, seeds);
    return ES_OK;
}

static const char *said_of(const es_group_lines *seeds)
{
    return seeds->n_runs > 1 ? ", shaded: range over seeds" : "";
}

/* Makes one curve per line. The label is `word` and the number of the line,
 * such as "layer 3"; if the run has a single line, the label is `word`
 * alone. */
static es_status name_lines(panel *p, es_drawing *drawing, const char *word)
{
    const es_run_lines *lines = &p->lines;
    size_t n = lines->n;
    es_status status;
    if ((status = es_drawing_array(drawing, &p->curves, lines->n_lines)) < 0 ||
        (status = es_drawing_array(drawing, &p->labels, lines->n_lines)) < 0)
        return status;
    for (size_t i = 0; i < lines->n_lines; i++) {
        es_curve *curve = &p->curves[i];
        if (lines->shape == ES_SHAPE_RUN)
            snprintf(p->labels[i], ES_CAPTION_MAX, "%.60s", word);
        else
            snprintf(p->labels[i], ES_CAPTION_MAX, "%.40s %zu", word, i);
        *curve = (es_curve){.label = p->labels[i],
                            .x = lines->steps,
                            .values = lines->values + i * n,
                            .n = n};
        /* Draw no shaded area if the file grew between the reads of the lines,
         * because their lengths then differ. */
        if (p->low.values && p->low.n == n && p->high.n == n) {
            curve->low = p->low.values + i * n;
            curve->high = p->high.values + i * n;
        }
        if (p->spikes)
            curve->spikes = p->spikes + i * n;
        if (p->trends && p->trends[i].n > 0)
            curve->trend = &p->trends[i];
    }
    return ES_OK;
}

/* Draws a figure with one panel per run; `load` reads the lines of a panel. */
static es_status draw_panels(es_picture **out, es_drawing *drawing,
                             load_panel *load, es_curves *figure)
{
    panel *panels;
    es_curves_panel *list;
    es_status status;
    if (drawing->options->spread == ES_SPREAD_NONE &&
        (status = es_drawing_fold(drawing, ES_PANELS_MOST)) < 0)
        return status;
    if ((status = es_drawing_array(drawing, &panels, drawing->n)) < 0 ||
        (status = es_drawing_array(drawing, &list, drawing->n)) < 0)
        return status;
    for (size_t i = 0; i < drawing->n; i++) {
        panel *p = &panels[i];
        if ((status = load(p, drawing, i)) < 0)
            return status;
        list[i] = (es_curves_panel){
            .title = *p->title ? p->title : es_drawing_title(drawing, i),
            .subtitle = *p->subtitle ? p->subtitle : NULL,
            .curves = p->curves,
            .n_curves = p->lines.n_lines};
    }
    figure->style = drawing->style;
    figure->panels = list;
    figure->n_panels = drawing->n;
    return es_curves_draw(out, figure);
}

/* --- trends ---------------------------------------------------------------*/

enum {
    TREND_POINTS = 65
}; /* number of points of a trend line, enough to show where the interval is
      clipped */

/* Converts a trend to a line with a shaded interval, both clipped to the range
   from 0 to `ceiling`; a NaN ceiling means no clipping. */
static es_status line_of_trend(es_curve *out, es_drawing *drawing,
                               const es_trend_line *trend, double ceiling)
{
    const double limit = trend->slope < 0 ? 0 : ceiling;
    const double reached = trend->x + (limit - trend->y) / trend->slope;
    const double last = isnan(ceiling)
                            ? trend->last
                            : fmax(trend->first, fmin(trend->last, reached));
    int64_t *x;
    float *values, *low, *high;
    es_status status;
    if ((status = es_drawing_array(drawing, &x, TREND_POINTS)) < 0 ||
        (status = es_drawing_array(drawing, &values, TREND_POINTS)) < 0 ||
        (status = es_drawing_array(drawing, &low, TREND_POINTS)) < 0 ||
        (status = es_drawing_array(drawing, &high, TREND_POINTS)) < 0)
        return status;
    for (size_t i = 0; i < TREND_POINTS; i++) {
        const double step = trend->first + (last - trend->first) * (double)i /
                                               (TREND_POINTS - 1);
        const double ends[] = {trend->y + trend->low * (step - trend->x),
                               trend->y + trend->high * (step - trend->x)};
        x[i] = (int64_t)fmin(rint(step), 9e18);
        values[i] = (float)(trend->y + trend->slope * (step - trend->x));
        low[i] = (float)fmin(ends[0], ends[1]);
        high[i] = (float)fmax(ends[0], ends[1]);
        if (isnan(ceiling))
            continue;
        low[i] = fminf(fmaxf(low[i], 0), (float)ceiling);
        high[i] = fminf(fmaxf(high[i], 0), (float)ceiling);
    }
    *out = (es_curve){
        .x = x, .values = values, .low = low, .high = high, .n = TREND_POINTS};
    return ES_OK;
}

/* Fits a trend to the values of each layer in the series that the figure shows
 * (run->series). */
static es_status read_trends(panel *out, es_drawing *drawing,
                             const es_run_summary *run)
{
    const bool is_entropy = strncmp(run->series, "entropy", 7) == 0;
    es_trends *trends = NULL;
    es_reader *reader = NULL;
    es_trend_line trend;
    es_status status;
    if ((status = es_drawing_array(drawing, &out->trends, out->lines.n_lines)) <
            0 ||
        (status = es_source_open(&reader, run)) < 0 ||
        (status = es_trends_new(&trends)) < 0)
        goto done;
    status = es_trends_add(trends, reader, run->number - 1, run);
    for (size_t i = 0; i < out->lines.n_lines && status == ES_OK; i++)
        if (es_trends_line(&trend, trends, 0, i))
            status = line_of_trend(&out->trends[i], drawing, &trend,
                                   is_entropy ? run->ceiling : (double)NAN);
done:
    es_trends_free(trends);
    es_damage_close(reader);
    return status;
}

/* --- curves ---------------------------------------------------------------*/

static es_status load_curves(panel *out, es_drawing *drawing, size_t index)
{
    const es_run_summary *run = drawing->runs[index];
    static const char *const spreads[] = {"", ", shaded: range over heads",
                                          ", shaded: quartiles over heads"};
    const es_figure_options *options = drawing->options;
    const char *eval = run->phase == ES_PHASE_EVAL ? "eval" : "";
    const char *comma = *eval ? ", " : "";
    size_t n = sizeof out->subtitle;
    bool range = options->spread == ES_SPREAD_RANGE;
    es_lines_query query = {.series = run->series,
                            .phase = run->phase,
                            .reduction = ES_REDUCE_MEAN,
                            .by_head = options->by_head,
                            .layer = options->layer};
    es_lines_query low = query, high = query;
    es_group_lines seeds;
    es_status status = read_seeds(out, &seeds, drawing, index, &query);
    low.reduction = range ? ES_REDUCE_LEAST : ES_REDUCE_LOWER;
    high.reduction = range ? ES_REDUCE_MOST : ES_REDUCE_UPPER;
    if (status == ES_OK && !options->by_head &&
        options->spread != ES_SPREAD_NONE && run->shape == ES_SHAPE_HEAD &&
        (status = es_lines_read(&out->low, drawing, run, &low)) == ES_OK)
        status = es_lines_read(&out->high, drawing, run, &high);
    if (status < 0 ||
        (status = es_lines_spikes(&out->spikes, &out->lines, drawing)) < 0 ||
        (options->trends && !options->by_head && seeds.n_runs == 1 &&
         (status = read_trends(out, drawing, run)) < 0) ||
        (status = es_lines_smooth(&out->lines, drawing)) < 0)
        return status;
    char smoothed[64] = "";
    if (options->smooth > 0)
        snprintf(smoothed, sizeof smoothed,
                 ", smoothed, window of %lld samples",
                 (long long)options->smooth);
    const char *shaded =
        seeds.n_runs > 1 ? said_of(&seeds) : spreads[options->spread];
    if (options->by_head)
        snprintf(out->subtitle, n, "heads of layer %lld%s%s%s",
                 (long long)options->layer, smoothed, comma, eval);
    else if (run->shape == ES_SHAPE_HEAD)
        snprintf(out->subtitle, n, "mean of each layer%s%s%s%s", smoothed,
                 shaded, comma, eval);
    else
        snprintf(out->subtitle, n, "%s%s%s", eval,
                 *eval && *smoothed ? ", " : "", *smoothed ? smoothed + 2 : "");
    return name_lines(out, drawing,
                      options->by_head             ? "head"
                      : run->shape == ES_SHAPE_RUN ? run->series
                                                   : "layer");
}

/* Returns the largest possible entropy if it is the same in all runs; NaN if it
 * differs between runs, or if the series shown is not an entropy. */
static double common_ceiling(const es_drawing *drawing)
{
    double ceiling = drawing->runs[0]->ceiling;
    if (strncmp(drawing->runs[0]->series, "entropy", 7) != 0)
        return NAN;
    for (size_t i = 1; i < drawing->n; i++)
        if (!(drawing->runs[i]->ceiling == ceiling))
            return NAN;
    return ceiling;
}

static bool is_causal(const es_run_summary *run)
{
    return run->ctx != ES_UNKNOWN && run->ceiling == es_ceiling((int)run->ctx);
}

es_status es_draw_curves(es_picture **out, es_drawing *drawing)
{
    const es_figure_options *options = drawing->options;
    bool is_run = drawing->runs[0]->shape == ES_SHAPE_RUN;
    char note[128];
    es_curves figure = {.y_text = drawing->axis,
                        .logarithmic = options->logarithmic,
                        .line_text = options->by_head ? "head"
                                     : is_run         ? NULL
                                                      : "layer",
                        .reference = common_ceiling(drawing),
                        .reference_text = is_causal(drawing->runs[0])
                                              ? "ceiling ln(T!)/T"
                                              : "ceiling"};
    const char *trends = options->trends && !options->by_head
                             ? "dashed: trends with 95% intervals"
                             : "";
    if (options->spikes > 0)
        snprintf(note, sizeof note, "%s%srings: spikes, window of %lld samples",
                 trends, *trends ? "; " : "", (long long)options->spikes);
    else
        snprintf(note, sizeof note, "%s", trends);
    figure.note = *note ? note : NULL;
    return draw_panels(out, drawing, load_curves, &figure);
}

/* --- nans -----------------------------------------------------------------*/

static es_status load_nans(panel *out, es_drawing *drawing, size_t index)
{
    const es_run_summary *run = drawing->runs[index];
    const char *subtitle = "activations";
    es_lines_query query = {.series = "nan_activations",
                            .phase = run->phase,
                            .either = true,
                            .reduction = ES_REDUCE_SUM};
    es_group_lines seeds;
    es_status status = read_seeds(out, &seeds, drawing, index, &query);
    if (status == ES_ENOTFOUND) { /* imported runs lack the series of attention
                                     rows */
        subtitle = "attention rows, summed over heads";
        query.series = es_head_statistics[ES_HEAD_NONFINITE_ROWS].name;
        status = read_seeds(out, &seeds, drawing, index, &query);
    }
    if (status < 0)
        return status;
    snprintf(out->subtitle, sizeof out->subtitle, "%s%s", subtitle,
             said_of(&seeds));
    return name_lines(out, drawing, "layer");
}

es_status es_draw_nans(es_picture **out, es_drawing *drawing)
{
    es_curves figure = {.y_text = "NaN or infinite",
                        .y_labels = ES_LABELS_COUNT,
                        .logarithmic = drawing->options->logarithmic,
                        .line_text = "layer",
                        .reference = NAN};
    return draw_panels(out, drawing, load_nans, &figure);
}

/* --- slopes ---------------------------------------------------------------*/

/* Reads the activation's learnable slope in each layer. If all layers have the
 * same slope, keeps only one line. Slopes are compared as bit patterns, so that
 * NaN equals NaN. */
static es_status load_slopes(panel *out, es_drawing *drawing, size_t index)
{
    const es_run_summary *run = drawing->runs[index];
    es_run_lines *lines = &out->lines;
    es_group_lines seeds;
    es_status status =
        read_seeds(out, &seeds, drawing, index,
                   &(es_lines_query){.series = "slope",
                                     .phase = run->phase,
                                     .either = true,
                                     .reduction = ES_REDUCE_MEAN});
    if (status < 0)
        return status;
    bool global = lines->n_lines > 1;
    for (size_t i = 1; global && i < lines->n_lines; i++)
        global = memcmp(lines->values, lines->values + i * lines->n,
                        lines->n * sizeof *lines->values) == 0;
    global = global || lines->shape == ES_SHAPE_RUN;
    if (global)
        lines->n_lines = 1;
    snprintf(out->subtitle, sizeof out->subtitle, "%s%s",
             global ? "one slope for all layers" : "slope of each layer",
             said_of(&seeds));
    status = name_lines(out, drawing, "layer");
    if (status == ES_OK && global) {
        out->curves[0].pen = ES_PEN_INK;
        out->curves[0].label = NULL;
    }
    return status;
}

es_status es_draw_slopes(es_picture **out, es_drawing *drawing)
{
    es_curves figure = {
        .y_text = "slope", .line_text = "layer", .reference = 0};
    return draw_panels(out, drawing, load_slopes, &figure);
}
