/* How many values of each layer are not finite, over the steps. */
#include "cli/figures/panels.h"

#include <math.h>
#include <stdio.h>

static const char activations[] = "nan_activations", rows[] = "nonfinite_rows";

static es_status load(es_panel *panel, const es_run_summary *run,
                      const es_figure_options *options)
{
    const char *subtitle = "activations";
    (void)options;
    es_status status = es_lines_read_either(&panel->lines, run, activations,
                                            run->phase, ES_REDUCE_SUM);
    if (status == ES_ENOTFOUND) { /* of an imported run */
        subtitle = "attention rows, summed over the heads";
        status = es_lines_read_either(&panel->lines, run, rows, run->phase,
                                      ES_REDUCE_SUM);
    }
    if (status != ES_OK)
        return status;
    snprintf(panel->subtitle, sizeof panel->subtitle, "%s", subtitle);
    return es_panel_name(panel, "layer");
}

es_status es_draw_nans(es_picture **out, const es_drawing *drawing)
{
    es_curves figure = {.y_text = "NaN or infinite",
                        .y_labels = ES_LABELS_COUNT,
                        .logarithmic = drawing->options->logarithmic,
                        .line_text = "layer",
                        .reference = NAN};
    return es_panels_draw(out, drawing, load, &figure);
}
