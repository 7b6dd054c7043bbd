/* The heads of every run at one step, in colours; which runs have heads. */
#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"
#include "cli/figures/heads.h"
#include "cli/figures/scale.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"

#include <math.h>

es_status es_fits_heads(const es_run_summary *run,
                        const es_figure_entry *figure)
{
    es_reader *reader = NULL;
    char names[512];
    if (run->shape == ES_SHAPE_HEAD)
        return ES_OK;
    es_status status = es_source_open(&reader, run);
    if (status == ES_OK)
        status = es_source_list(names, sizeof names, reader, run, true);
    es_damage_close(reader);
    if (status < 0)
        return status;
    if (!*names)
        return es_fail(ES_ENOTFOUND,
                       "%s: no series of it has a value for each head, which "
                       "%s needs: try --curves",
                       run->path, figure->label);
    return es_fail(ES_ENOTFOUND,
                   "%s: series %s has one value a %s: %s needs one of each "
                   "head: %s",
                   run->path, run->series, es_shape_name(run->shape),
                   figure->label, names);
}

static es_value_range range_of(const es_drawing *drawing)
{
    es_value_range range = ES_NO_VALUES;
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        for (size_t k = 0; k < run->n_rows * run->n_columns; k++)
            es_value_range_add(&range, run->values[k]);
    }
    return range;
}

/* Up to the largest m. */
static void set_scale(es_heatmap *figure, const es_drawing *drawing,
                      const es_value_range *range)
{
    double top = NAN, ceiling = NAN;
    for (size_t i = 0; i < drawing->n; i++) {
        top = es_peak_of(top, drawing->runs[i]->m);
        ceiling = es_peak_of(ceiling, drawing->runs[i]->ceiling);
    }
    es_series_scale scale =
        es_series_scale_make(drawing->runs[0]->series, range, top, ceiling);
    figure->low = scale.low;
    figure->high = scale.high;
    figure->logarithmic = scale.logarithmic;
}

es_heatmap_panel es_drawing_heads(const es_drawing *drawing, size_t i,
                                  const char *subtitle)
{
    const es_run_summary *run = drawing->runs[i];
    return (es_heatmap_panel){.title = es_drawing_title(drawing, i),
                              .subtitle = subtitle,
                              .values = run->values,
                              .n_layers = (int)run->n_rows,
                              .n_heads = (int)run->n_columns};
}

es_status es_draw_heatmap(es_picture **out, const es_drawing *drawing)
{
    char note[sizeof drawing->note + 64];
    es_heatmap_panel *panels = NULL;
    char(*captions)[ES_CAPTION_MAX] = NULL;
    es_heatmap figure = {.style = drawing->style,
                         .n_panels = drawing->n,
                         .scale_text = drawing->axis,
                         .note = drawing->note};
    es_status status;
    if ((status = es_alloc(&panels, drawing->n, sizeof *panels, "a heatmap")) <
            0 ||
        (status = es_alloc(&captions, drawing->n, sizeof *captions,
                           "a heatmap")) < 0)
        goto done;
    for (size_t i = 0; i < drawing->n; i++)
        panels[i] = es_drawing_heads(
            drawing, i, es_drawing_step(captions[i], drawing->runs[i]));
    es_value_range range = range_of(drawing);
    set_scale(&figure, drawing, &range);
    if (figure.logarithmic) {
        snprintf(note, sizeof note, "%s; colours by the logarithm%s",
                 drawing->note, range.zero ? ", the lowest is 0" : "");
        figure.note = note;
    }
    figure.panels = panels;
    status = es_heatmap_draw(out, &figure);
done:
    free(panels);
    free(captions);
    return status;
}
