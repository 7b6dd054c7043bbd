/* Every layer and every head over the steps, in colours. */
#include "render/figures/raster.h"

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

/* Up to the largest value of all steps, or to what the policy fixes. */
es_status es_draw_raster(es_picture **out, es_drawing *drawing)
{
    es_max_policy policy = drawing->runs[0]->max.policy;
    es_value_range range = ES_NO_VALUES;
    es_raster_panel *panels;
    double top = es_drawing_top(drawing);
    es_status status = es_drawing_array(drawing, &panels, drawing->n);
    if (status < 0)
        return status;
    for (size_t i = 0; i < drawing->n; i++) {
        es_steps steps;
        if ((status = es_steps_read(&steps, drawing, drawing->runs[i])) < 0)
            return status;
        es_value_range_add(&range, steps.values,
                           steps.n_rows * steps.n_columns);
        panels[i] = panel_of(drawing, i, &steps);
    }
    if (policy == ES_MAX_OBSERVED || policy == ES_MAX_RUN)
        top = range.high >= range.low ? range.high : NAN;
    es_series_scale scale = es_drawing_scale(drawing, &range, top);
    return es_raster_draw(
        out,
        &(es_raster){.style = drawing->style,
                     .panels = panels,
                     .n_panels = drawing->n,
                     .low = scale.low,
                     .high = scale.high,
                     .logarithmic = scale.logarithmic,
                     .scale_text = drawing->axis,
                     .note = "joined samples show the most extreme, or NaN"});
}
