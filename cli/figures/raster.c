/* Every layer and every head over the steps, in colours. */
#include "render/figures/raster.h"

#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"
#include "cli/figures/scale.h"
#include "cli/figures/steps.h"

es_status es_fits_raster(const es_run_summary *run,
                         const es_figure_entry *figure)
{
    if (run->shape != ES_SHAPE_RUN)
        return ES_OK;
    return es_fail(ES_ENOTFOUND,
                   "%s: series %s has one value a run: %s needs one of "
                   "each layer or head",
                   run->path, run->series, figure->label);
}

/* Up to the largest value of all steps, or to what the policy fixes. */
static void set_scale(es_raster *figure, const es_drawing *drawing,
                      const es_steps *steps)
{
    es_value_range range = ES_NO_VALUES;
    es_max_policy policy = drawing->runs[0]->max.policy;
    double top = NAN, ceiling = NAN;
    for (size_t i = 0; i < drawing->n; i++) {
        for (size_t k = 0; k < steps[i].n_rows * steps[i].n_columns; k++)
            es_value_range_add(&range, steps[i].values[k]);
        top = es_peak_of(top, drawing->runs[i]->m);
        ceiling = es_peak_of(ceiling, drawing->runs[i]->ceiling);
    }
    if (policy == ES_MAX_OBSERVED || policy == ES_MAX_RUN)
        top = range.high >= range.low ? range.high : NAN;
    es_series_scale scale =
        es_series_scale_make(drawing->runs[0]->series, &range, top, ceiling);
    figure->low = scale.low;
    figure->high = scale.high;
    figure->logarithmic = scale.logarithmic;
}

static es_raster_panel panel_of(const es_drawing *drawing, size_t i,
                                const es_steps *s)
{
    es_raster_panel panel = {
        .title = es_drawing_title(drawing, i),
        .subtitle = drawing->runs[i]->phase == ES_PHASE_EVAL ? "eval" : NULL,
        .layers = {s->values, s->levels, s->n_layers},
        .n_columns = s->n_columns,
        .left = s->left,
        .right = s->right,
        .first = s->first,
        .last = s->last};
    if (s->n_heads)
        panel.heads =
            (es_raster_grid){s->values + s->n_layers * s->n_columns,
                             s->levels + s->n_layers, s->n_layers * s->n_heads};
    return panel;
}

es_status es_draw_raster(es_picture **out, const es_drawing *drawing)
{
    es_steps *steps = NULL;
    es_raster_panel *panels = NULL;
    es_raster figure = {.style = drawing->style,
                        .n_panels = drawing->n,
                        .scale_text = drawing->axis,
                        .note = "joined samples show the most extreme, or NaN"};
    es_status status;
    if ((status = es_alloc(&steps, drawing->n, sizeof *steps, "a raster")) <
            0 ||
        (status = es_alloc(&panels, drawing->n, sizeof *panels, "a raster")) <
            0)
        goto done;
    for (size_t i = 0; i < drawing->n; i++) {
        if ((status = es_steps_read(&steps[i], drawing->runs[i])) < 0)
            goto done;
        panels[i] = panel_of(drawing, i, &steps[i]);
    }
    set_scale(&figure, drawing, steps);
    figure.panels = panels;
    status = es_raster_draw(out, &figure);
done:
    for (size_t i = 0; steps && i < drawing->n; i++)
        es_steps_clear(&steps[i]);
    free(steps);
    free(panels);
    return status;
}
