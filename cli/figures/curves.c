/* Every layer over the steps, or the heads of one layer. */
#include "cli/figures/panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static es_status read_spread(es_panel *panel, const es_run_summary *run,
                             es_heads_spread spread)
{
    bool range = spread == ES_SPREAD_RANGE;
    if (spread == ES_SPREAD_NONE || run->shape != ES_SHAPE_HEAD)
        return ES_OK;
    es_status status = es_lines_read(&panel->low, run, run->series, run->phase,
                                     range ? ES_REDUCE_LEAST : ES_REDUCE_LOWER);
    if (status == ES_OK)
        status = es_lines_read(&panel->high, run, run->series, run->phase,
                               range ? ES_REDUCE_MOST : ES_REDUCE_UPPER);
    return status;
}

static void set_subtitle(es_panel *panel, const es_run_summary *run,
                         const es_figure_options *options)
{
    static const char *const spreads[] = {"", ", shaded: range of its heads",
                                          ", shaded: quartiles of its heads"};
    const char *eval = run->phase == ES_PHASE_EVAL ? "eval" : "";
    const char *comma = *eval ? ", " : "";
    size_t n = sizeof panel->subtitle;
    if (options->by_head)
        snprintf(panel->subtitle, n, "heads of layer %lld%s%s",
                 (long long)options->layer, comma, eval);
    else if (run->shape == ES_SHAPE_HEAD)
        snprintf(panel->subtitle, n, "mean of each layer%s%s%s",
                 spreads[options->spread], comma, eval);
    else
        snprintf(panel->subtitle, n, "%s", eval);
}

static es_status load(es_panel *panel, const es_run_summary *run,
                      const es_figure_options *options)
{
    es_status status;
    if (options->by_head)
        status = es_lines_read_heads(&panel->lines, run, run->series,
                                     run->phase, options->layer);
    else if ((status = es_lines_read(&panel->lines, run, run->series,
                                     run->phase, ES_REDUCE_MEAN)) == ES_OK)
        status = read_spread(panel, run, options->spread);
    if (status < 0)
        return status;
    set_subtitle(panel, run, options);
    return es_panel_name(panel, options->by_head             ? "head"
                                : run->shape == ES_SHAPE_RUN ? run->series
                                                             : "layer");
}

/* The ceiling bounds entropies; no line if the runs have different ones. */
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

es_status es_draw_curves(es_picture **out, const es_drawing *drawing)
{
    const es_figure_options *options = drawing->options;
    bool is_run = drawing->runs[0]->shape == ES_SHAPE_RUN;
    es_curves figure = {.y_text = drawing->axis,
                        .logarithmic = options->logarithmic,
                        .line_text = options->by_head ? "head"
                                     : is_run         ? NULL
                                                      : "layer",
                        .reference = common_ceiling(drawing),
                        .reference_text = "ceiling ln(T!)/T"};
    return es_panels_draw(out, drawing, load, &figure);
}
