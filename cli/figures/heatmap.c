#include "render/figures/heatmap.h"
#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"

#include <math.h>
#include <string.h>

/* "entropy, max_logit": the head series of a run. */
static es_status list_head_series(char *out, size_t size,
                                  const es_run_summary *run)
{
    es_reader *reader = NULL;
    size_t n = 0;
    es_status status = es_reader_open(&reader, run->path);
    if (status != ES_OK)
        return status;
    out[0] = 0;
    for (size_t i = 0; i < es_reader_n_series(reader, run->number - 1); i++) {
        es_series series;
        status = es_reader_series(reader, run->number - 1, i, &series);
        if (status != ES_OK)
            break;
        if (series.shape == ES_SHAPE_HEAD && series.last_step != ES_UNKNOWN &&
            n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "",
                                  series.name);
    }
    es_reader_close(reader);
    return status;
}

es_status es_fits_heatmap(const es_run_summary *run)
{
    char names[512];
    if (run->shape == ES_SHAPE_HEAD)
        return ES_OK;
    es_status status = list_head_series(names, sizeof names, run);
    if (status != ES_OK)
        return status;
    if (!*names)
        return es_fail(ES_ENOTFOUND,
                       "%s: no series of it has a value for each head, which a "
                       "heatmap needs: try --curves",
                       run->path);
    return es_fail(ES_ENOTFOUND,
                   "%s: series %s has one value a %s: a heatmap needs one of "
                   "each head: %s",
                   run->path, run->series, es_shape_name(run->shape), names);
}

/* From 0, or the smallest value if that is below, to the largest m. */
static void set_scale(es_heatmap *figure, const es_drawing *drawing)
{
    double low = 0, high = NAN, ceiling = NAN;
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        high = es_peak_of(high, run->m);
        ceiling = es_peak_of(ceiling, run->ceiling);
        for (size_t k = 0; k < run->n_rows; k++)
            if (run->layers[k].min < low)
                low = run->layers[k].min;
    }
    /* All heads at 0: a scale all the same. */
    if (high <= low)
        high = ceiling > low ? ceiling : low + 1;
    figure->low = low;
    figure->high = high;
}

static es_status draw(es_picture **out, const es_drawing *drawing,
                      es_heatmap_panel *panels,
                      char (*captions)[ES_CAPTION_MAX])
{
    es_heatmap figure = {.style = drawing->style,
                         .panels = panels,
                         .n_panels = drawing->n,
                         .scale_text = drawing->axis,
                         .note = drawing->note};
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        panels[i] = (es_heatmap_panel){
            .title = es_summary_title(run, drawing->runs, drawing->n),
            .subtitle = es_drawing_step(captions[i], run),
            .values = run->values,
            .n_layers = (int)run->n_rows,
            .n_heads = (int)run->n_columns};
    }
    set_scale(&figure, drawing);
    return es_heatmap_draw(out, &figure);
}

es_status es_draw_heatmap(es_picture **out, const es_drawing *drawing)
{
    es_heatmap_panel *panels = es_resize(NULL, drawing->n, sizeof *panels);
    char(*captions)[ES_CAPTION_MAX] =
        es_resize(NULL, drawing->n, sizeof *captions);
    es_status status =
        panels && captions
            ? draw(out, drawing, panels, captions)
            : es_fail(ES_ENOMEM, "out of memory for %zu panels", drawing->n);
    free(panels);
    free(captions);
    return status;
}
