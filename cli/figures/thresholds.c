/* Draws the figure thresholds: the learnt thresholds of the entropy regulariser
 * for each head, with their mean and variance per layer (like figure 10 of
 * AERO). */
#include "render/figures/heatmap.h"

#include "cli/figures/source.h"

enum { MEAN, VARIANCE, N_SIDES };

/* Loads the heatmap of run i and the N_SIDES plots next to it (mean and
 * variance per layer). The caller sets the scales of the plots. */
static es_status load(es_heatmap_panel *panel, es_heatmap_side *sides,
                      es_drawing *drawing, size_t i)
{
    static const char *const names[N_SIDES] = {"mean", "variance"};
    const es_run_summary *run = drawing->runs[i];
    es_slice theta;
    char *caption;
    float *values[N_SIDES];
    es_status status;
    if ((status = es_slice_read(&theta, drawing, run, "theta", run->phase,
                                run->step)) < 0 ||
        (status = es_drawing_array(drawing, &caption, ES_CAPTION_MAX)) < 0)
        return status;
    for (size_t side = 0; side < N_SIDES; side++) {
        if ((status = es_drawing_alloc(drawing, &values[side], theta.n_rows,
                                       sizeof(float))) < 0)
            return status;
        sides[side] =
            (es_heatmap_side){.text = names[side], .values = values[side]};
    }
    for (size_t l = 0; l < theta.n_rows; l++) {
        es_summary layer;
        es_stats_summary(&layer, theta.values + l * theta.n_columns,
                         theta.n_columns, 1);
        values[MEAN][l] = (float)layer.mean;
        values[VARIANCE][l] = (float)(layer.std * layer.std);
    }
    snprintf(caption, ES_CAPTION_MAX, "step %lld", (long long)theta.step);
    *panel = (es_heatmap_panel){.title = es_drawing_title(drawing, i),
                                .subtitle = caption,
                                .values = theta.values,
                                .n_layers = (int)theta.n_rows,
                                .n_heads = (int)theta.n_columns};
    return ES_OK;
}

es_status es_draw_thresholds(es_picture **out, es_drawing *drawing)
{
    size_t n = drawing->n;
    es_heatmap_panel *panels;
    es_heatmap_side *sides;
    es_range ranges[N_SIDES] = {ES_RANGE_NONE, ES_RANGE_NONE};
    es_range heads = ES_RANGE_NONE;
    es_status status;
    if ((status = es_drawing_array(drawing, &panels, n)) < 0 ||
        (status = es_drawing_array(drawing, &sides, n * N_SIDES)) < 0)
        return status;
    ranges[VARIANCE].low = 0;
    for (size_t i = 0; i < n; i++) {
        const es_heatmap_panel *panel = &panels[i];
        es_heatmap_side *own = sides + i * N_SIDES;
        if ((status = load(&panels[i], own, drawing, i)) < 0)
            return status;
        size_t n_layers = (size_t)panel->n_layers;
        es_range_add_all(&heads, panel->values,
                         n_layers * (size_t)panel->n_heads);
        for (size_t side = 0; side < N_SIDES; side++)
            es_range_add_all(&ranges[side], own[side].values, n_layers);
    }
    /* Use the same scales for all runs. */
    for (size_t i = 0; i < n * N_SIDES; i++) {
        sides[i].low = ranges[i % N_SIDES].low;
        sides[i].high = ranges[i % N_SIDES].high;
    }
    es_heatmap figure = {.style = drawing->style,
                         .panels = panels,
                         .n_panels = n,
                         .sides = sides,
                         .n_sides = N_SIDES,
                         .low = heads.low,
                         .high = heads.high,
                         .scale_text = "threshold \xce\xb8"};
    figure.style.most_columns = 1;
    return es_heatmap_draw(out, &figure);
}
