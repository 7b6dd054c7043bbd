/* How much every other run differs from the baseline, head by head. */
#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/figures/drawing.h"
#include "render/figures/heatmap.h"

#include <math.h>
#include <string.h>

/* One run less the baseline. */
typedef struct difference {
    float *values;
    char caption[2 * ES_CAPTION_MAX];
} difference;

/* The baseline's first run; or the first of all. */
static size_t find_base(const es_drawing *drawing)
{
    for (size_t i = 0; drawing->baseline && i < drawing->n; i++)
        if (strcmp(drawing->runs[i]->path, drawing->baseline) == 0)
            return i;
    return 0;
}

static es_status check(const es_run_summary *run, const es_run_summary *base)
{
    if (run->n_rows == base->n_rows && run->n_columns == base->n_columns)
        return ES_OK;
    return es_fail(ES_ENOTFOUND,
                   "%s has %zu layers of %zu heads, %s has %zu of %zu: a delta "
                   "is drawn of runs of one shape",
                   run->path, run->n_rows, run->n_columns, base->path,
                   base->n_rows, base->n_columns);
}

static float subtract(float a, float b)
{
    return es_is_missing(a) || es_is_missing(b) ? es_missing() : a - b;
}

static es_status fill(difference *d, es_heatmap_panel *panel,
                      const es_drawing *drawing, const es_run_summary *run)
{
    const es_run_summary *base = drawing->runs[find_base(drawing)];
    size_t n = run->n_rows * run->n_columns;
    char step[ES_CAPTION_MAX];
    es_status status = check(run, base);
    if (status != ES_OK)
        return status;
    d->values = es_resize(NULL, n, sizeof *d->values);
    if (!d->values)
        return es_fail(ES_ENOMEM, "out of memory for %zu heads", n);
    for (size_t i = 0; i < n; i++)
        d->values[i] = subtract(run->values[i], base->values[i]);
    es_drawing_step(step, run);
    if (run->step == base->step)
        snprintf(d->caption, sizeof d->caption, "%s", step);
    else
        snprintf(d->caption, sizeof d->caption, "%s, minus step %lld", step,
                 (long long)base->step);
    *panel = (es_heatmap_panel){
        .title = es_summary_title(run, drawing->runs, drawing->n),
        .subtitle = d->caption,
        .values = d->values,
        .n_layers = (int)run->n_rows,
        .n_heads = (int)run->n_columns};
    return ES_OK;
}

/* As far below zero as above it, so that the sign is seen by the hue. */
static double largest(const es_heatmap_panel *panels, size_t n)
{
    double most = NAN;
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < panels[i].n_layers * panels[i].n_heads; k++)
            if (isfinite(panels[i].values[k]))
                most = es_peak_of(most, fabs((double)panels[i].values[k]));
    return most == 0 ? 1 : most;
}

static es_status draw(es_picture **out, const es_drawing *drawing,
                      const es_heatmap_panel *panels, size_t n)
{
    const es_run_summary *base = drawing->runs[find_base(drawing)];
    char note[512], axis[sizeof drawing->axis + 16];
    double most = largest(panels, n);
    es_heatmap figure = {.style = drawing->style,
                         .panels = panels,
                         .n_panels = n,
                         .low = -most,
                         .high = most,
                         .scale_text = axis,
                         .note = note};
    figure.style.colormap = drawing->style.theme == ES_THEME_DARK
                                ? ES_COLORMAP_DIVERGING_DARK
                                : ES_COLORMAP_DIVERGING;
    snprintf(axis, sizeof axis, "difference of %s", drawing->axis);
    snprintf(note, sizeof note, "each minus %s",
             es_summary_title(base, drawing->runs, drawing->n));
    return es_heatmap_draw(out, &figure);
}

es_status es_draw_delta(es_picture **out, const es_drawing *drawing)
{
    size_t n = drawing->n - 1, base = find_base(drawing);
    es_status status = ES_OK;
    if (!n)
        return es_fail(ES_ENOTFOUND,
                       "%s: a delta needs two runs, one of which (--baseline, "
                       "or the first) is subtracted from the others",
                       drawing->runs[0]->path);
    difference *differences = calloc(n, sizeof *differences);
    es_heatmap_panel *panels = calloc(n, sizeof *panels);
    if (!differences || !panels)
        status = es_fail(ES_ENOMEM, "out of memory for %zu panels", n);
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = fill(&differences[i], &panels[i], drawing,
                      drawing->runs[i < base ? i : i + 1]);
    if (status == ES_OK)
        status = draw(out, drawing, panels, n);
    for (size_t i = 0; differences && i < n; i++)
        free(differences[i].values);
    free(differences);
    free(panels);
    return status;
}
