/* The learnt thresholds of the entropy regulariser, head by head, and their
 * mean and variance in each layer. AERO, figure 10. */
#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"
#include "cli/figures/scale.h"
#include "cli/figures/source.h"
#include "render/figures/heatmap.h"

#include <math.h>

enum { MEAN, VARIANCE, N_SIDES };

/* One run's row. */
typedef struct row {
    es_slice theta;
    float *sides[N_SIDES]; /* (L) each */
    char caption[ES_CAPTION_MAX];
} row;

static es_status load(row *r, const es_run_summary *run)
{
    es_status status =
        es_slice_read(&r->theta, run, "theta", run->phase, run->step);
    if (status < 0)
        return status;
    size_t n_rows = r->theta.n_rows, n_columns = r->theta.n_columns;
    for (size_t i = 0; i < N_SIDES; i++)
        if ((status = es_alloc(&r->sides[i], n_rows, sizeof *r->sides[i],
                               "thresholds")) < 0)
            return status;
    for (size_t l = 0; l < n_rows; l++) {
        es_summary layer;
        es_stats_summary(&layer, r->theta.values + l * n_columns, n_columns, 1);
        r->sides[MEAN][l] = (float)layer.mean;
        r->sides[VARIANCE][l] = (float)(layer.std * layer.std);
    }
    snprintf(r->caption, sizeof r->caption, "step %lld",
             (long long)r->theta.step);
    return ES_OK;
}

/* What each row shows, on scales that all of them share. */
static void set(es_heatmap *figure, es_heatmap_panel *panels,
                es_heatmap_side *sides, const row *rows,
                const es_drawing *drawing)
{
    static const char *const names[N_SIDES] = {"mean", "variance"};
    es_value_range ranges[N_SIDES] = {ES_NO_VALUES, ES_NO_VALUES};
    es_value_range heads = ES_NO_VALUES;
    ranges[VARIANCE].low = 0;
    for (size_t i = 0; i < drawing->n; i++) {
        const es_slice *theta = &rows[i].theta;
        panels[i] = (es_heatmap_panel){.title = es_drawing_title(drawing, i),
                                       .subtitle = rows[i].caption,
                                       .values = theta->values,
                                       .n_layers = (int)theta->n_rows,
                                       .n_heads = (int)theta->n_columns};
        for (size_t k = 0; k < theta->n_rows * theta->n_columns; k++)
            es_value_range_add(&heads, theta->values[k]);
        for (size_t side = 0; side < N_SIDES; side++)
            for (size_t l = 0; l < theta->n_rows; l++)
                es_value_range_add(&ranges[side], rows[i].sides[side][l]);
    }
    for (size_t i = 0; i < drawing->n * N_SIDES; i++)
        sides[i] = (es_heatmap_side){
            names[i % N_SIDES], rows[i / N_SIDES].sides[i % N_SIDES],
            ranges[i % N_SIDES].low, ranges[i % N_SIDES].high};
    figure->low = heads.low;
    figure->high = heads.high;
}

es_status es_draw_thresholds(es_picture **out, const es_drawing *drawing)
{
    row *rows = NULL;
    es_heatmap_panel *panels = NULL;
    es_heatmap_side *sides = NULL;
    es_heatmap figure = {.style = drawing->style,
                         .n_panels = drawing->n,
                         .n_sides = N_SIDES,
                         .scale_text = "threshold theta"};
    es_status status;
    if ((status = es_alloc(&rows, drawing->n, sizeof *rows, "thresholds")) <
            0 ||
        (status = es_alloc(&panels, drawing->n, sizeof *panels, "thresholds")) <
            0 ||
        (status = es_alloc(&sides, drawing->n, N_SIDES * sizeof *sides,
                           "thresholds")) < 0)
        goto done;
    for (size_t i = 0; i < drawing->n; i++)
        if ((status = load(&rows[i], drawing->runs[i])) < 0)
            goto done;
    set(&figure, panels, sides, rows, drawing);
    figure.panels = panels;
    figure.sides = sides;
    figure.style.most_columns = 1;
    status = es_heatmap_draw(out, &figure);
done:
    for (size_t i = 0; rows && i < drawing->n; i++) {
        es_slice_clear(&rows[i].theta);
        for (size_t k = 0; k < N_SIDES; k++)
            free(rows[i].sides[k]);
    }
    free(rows);
    free(panels);
    free(sides);
    return status;
}
