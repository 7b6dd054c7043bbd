/* Draws the figure named "scales", which shows the learnable scales alpha and
 * beta of ScFFN blocks by layer. */
#include "render/figures/curves.h"

#include "cli/figures/source.h"

#include <math.h>

enum { N_SCALES = 2 };

static const char *const names[N_SCALES] = {"alpha", "beta"};

/* Reads one of the scales (alpha or beta) of run i as a curve over the layers.
 * If the run lacks the scale, the curve has no points. */
static es_status read_scale(es_curve *out, es_drawing *drawing, size_t i,
                            const char *name)
{
    const es_run_summary *run = drawing->runs[i];
    es_slice slice;
    int64_t *layers;
    es_status status =
        es_slice_read(&slice, drawing, run, name, run->phase, run->step);
    if (status == ES_ENOTFOUND) {
        es_status has = es_source_has(run, name, "a figure of scales");
        status = has == ES_ENOTFOUND ? ES_OK : has == ES_OK ? status : has;
    }
    if (status < 0 ||
        (status = es_drawing_array(drawing, &layers, slice.n_rows)) < 0)
        return status;
    for (size_t l = 0; l < slice.n_rows; l++)
        layers[l] = (int64_t)l;
    bool fits = slice.values && slice.n_columns == 1;
    *out = (es_curve){.label = es_drawing_title(drawing, i),
                      .x = layers,
                      .values = slice.values,
                      .n = fits ? slice.n_rows : 0,
                      .color = i};
    return ES_OK;
}

es_status es_draw_scales(es_picture **out, es_drawing *drawing)
{
    char step[ES_CAPTION_MAX];
    es_curves_panel panels[N_SCALES];
    es_status status;
    es_drawing_step(step, drawing->runs[0]);
    for (size_t k = 0; k < N_SCALES; k++) {
        es_curve *curves;
        if ((status = es_drawing_array(drawing, &curves, drawing->n)) < 0)
            return status;
        for (size_t i = 0; i < drawing->n; i++)
            if ((status = read_scale(&curves[i], drawing, i, names[k])) < 0)
                return status;
        panels[k] =
            (es_curves_panel){es_symbol_of(names[k]), step, curves, drawing->n};
    }
    return es_curves_draw(out, &(es_curves){.style = drawing->style,
                                            .panels = panels,
                                            .n_panels = N_SCALES,
                                            .own_scales = true,
                                            .x_text = "layer",
                                            .colors = ES_CURVES_BY_CATEGORY,
                                            .reference = NAN});
}
