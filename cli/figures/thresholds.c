/* The learnt thresholds of the entropy regulariser, head by head, and their
 * mean and variance in each layer. AERO, figure 10. */
#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"
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

typedef struct range {
    double low, high;
} range;

static void include(range *r, float value)
{
    if (!isfinite(value))
        return;
    r->low = fmin(r->low, (double)value);
    r->high = fmax(r->high, (double)value);
}

es_status es_fits_thresholds(const es_run_summary *run)
{
    return es_source_has(run, "theta", "thresholds");
}

static es_status load(row *r, const es_run_summary *run)
{
    es_status status =
        es_slice_read(&r->theta, run, "theta", run->phase, run->step);
    if (status != ES_OK)
        return status;
    size_t n_rows = r->theta.n_rows, n_columns = r->theta.n_columns;
    for (size_t i = 0; i < N_SIDES; i++) {
        r->sides[i] = es_resize(NULL, n_rows, sizeof *r->sides[i]);
        if (!r->sides[i])
            return es_fail(ES_ENOMEM, "out of memory for %zu layers", n_rows);
    }
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
    range ranges[N_SIDES] = {{INFINITY, -INFINITY}, {0, -INFINITY}};
    range heads = {INFINITY, -INFINITY};
    for (size_t i = 0; i < drawing->n; i++) {
        const es_slice *theta = &rows[i].theta;
        panels[i] =
            (es_heatmap_panel){.title = es_summary_title(
                                   drawing->runs[i], drawing->runs, drawing->n),
                               .subtitle = rows[i].caption,
                               .values = theta->values,
                               .n_layers = (int)theta->n_rows,
                               .n_heads = (int)theta->n_columns};
        for (size_t k = 0; k < theta->n_rows * theta->n_columns; k++)
            include(&heads, theta->values[k]);
        for (size_t side = 0; side < N_SIDES; side++)
            for (size_t l = 0; l < theta->n_rows; l++)
                include(&ranges[side], rows[i].sides[side][l]);
    }
    for (size_t i = 0; i < drawing->n * N_SIDES; i++)
        sides[i] = (es_heatmap_side){
            names[i % N_SIDES], rows[i / N_SIDES].sides[i % N_SIDES],
            ranges[i % N_SIDES].low, ranges[i % N_SIDES].high};
    figure->low = heads.low;
    figure->high = heads.high;
}

static es_status draw(es_picture **out, const es_drawing *drawing,
                      const row *rows)
{
    es_heatmap_panel *panels = calloc(drawing->n, sizeof *panels);
    es_heatmap_side *sides = calloc(drawing->n, N_SIDES * sizeof *sides);
    es_heatmap figure = {.style = drawing->style,
                         .panels = panels,
                         .n_panels = drawing->n,
                         .sides = sides,
                         .n_sides = N_SIDES,
                         .scale_text = "threshold theta"};
    es_status status = ES_OK;
    figure.style.most_columns = 1;
    if (panels && sides) {
        set(&figure, panels, sides, rows, drawing);
        status = es_heatmap_draw(out, &figure);
    } else {
        status = es_fail(ES_ENOMEM, "out of memory for %zu panels", drawing->n);
    }
    free(panels);
    free(sides);
    return status;
}

es_status es_draw_thresholds(es_picture **out, const es_drawing *drawing)
{
    row *rows = calloc(drawing->n, sizeof *rows);
    es_status status = ES_OK;
    if (!rows)
        return es_fail(ES_ENOMEM, "out of memory for %zu runs", drawing->n);
    for (size_t i = 0; i < drawing->n && status == ES_OK; i++)
        status = load(&rows[i], drawing->runs[i]);
    if (status == ES_OK)
        status = draw(out, drawing, rows);
    for (size_t i = 0; i < drawing->n; i++) {
        es_slice_clear(&rows[i].theta);
        for (size_t k = 0; k < N_SIDES; k++)
            free(rows[i].sides[k]);
    }
    free(rows);
    return status;
}
