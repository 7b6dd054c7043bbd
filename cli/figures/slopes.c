/* Learnable slopes of the activation: of each layer, or one for all. */
#include "cli/figures/panels.h"

#include <stdio.h>
#include <string.h>

/* Bit by bit, so that a NaN is like a NaN. */
static bool all_alike(const es_run_lines *lines)
{
    for (size_t i = 1; i < lines->n_lines; i++)
        if (memcmp(lines->values, lines->values + i * lines->n,
                   lines->n * sizeof *lines->values) != 0)
            return false;
    return lines->n_lines > 1;
}

static es_status load(es_panel *panel, const es_run_summary *run,
                      const es_figure_options *options)
{
    (void)options;
    es_status status = es_lines_read_either(&panel->lines, run, "slope",
                                            run->phase, ES_REDUCE_MEAN);
    if (status != ES_OK)
        return status;
    bool global =
        panel->lines.shape == ES_SHAPE_RUN || all_alike(&panel->lines);
    if (global)
        panel->lines.n_lines = 1;
    snprintf(panel->subtitle, sizeof panel->subtitle, "%s",
             global ? "one slope for all layers" : "slope of each layer");
    status = es_panel_name(panel, "layer");
    if (status == ES_OK && global) {
        panel->curves[0].pen = ES_PEN_INK;
        panel->curves[0].label = NULL;
    }
    return status;
}

es_status es_draw_slopes(es_picture **out, const es_drawing *drawing)
{
    es_curves figure = {
        .y_text = "slope", .line_text = "layer", .reference = 0};
    return es_panels_draw(out, drawing, load, &figure);
}
