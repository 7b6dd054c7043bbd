/* How much every other run differs from the baseline, head by head. */
#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/figures/heads.h"

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

static es_status fill(difference *d, es_heatmap_panel *panel,
                      const es_drawing *drawing, size_t i)
{
    const es_run_summary *run = drawing->runs[i];
    const es_run_summary *base = drawing->runs[find_base(drawing)];
    size_t n = run->n_rows * run->n_columns;
    char step[ES_CAPTION_MAX];
    es_status status;
    if ((status = check(run, base)) < 0 ||
        (status = es_alloc(&d->values, n, sizeof *d->values, "a delta")) < 0)
        return status;
    for (size_t k = 0; k < n; k++) {
        float a = run->values[k], b = base->values[k];
        bool missing = es_is_missing(a) || es_is_missing(b);
        d->values[k] = missing ? es_missing() : a - b;
    }
    es_drawing_step(step, run);
    if (run->step == base->step)
        snprintf(d->caption, sizeof d->caption, "%s", step);
    else
        snprintf(d->caption, sizeof d->caption, "%s, minus step %lld", step,
                 (long long)base->step);
    *panel = es_drawing_heads(drawing, i, d->caption);
    panel->values = d->values;
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
             es_drawing_title(drawing, find_base(drawing)));
    return es_heatmap_draw(out, &figure);
}

es_status es_draw_delta(es_picture **out, const es_drawing *drawing)
{
    size_t n = drawing->n - 1, base = find_base(drawing);
    difference *differences = NULL;
    es_heatmap_panel *panels = NULL;
    es_status status;
    if (!n)
        return es_fail(ES_ENOTFOUND,
                       "%s: a delta needs two runs, one of which (--baseline, "
                       "or the first) is subtracted from the others",
                       drawing->runs[0]->path);
    if ((status = es_alloc(&differences, n, sizeof *differences, "a delta")) <
            0 ||
        (status = es_alloc(&panels, n, sizeof *panels, "a delta")) < 0)
        goto done;
    for (size_t i = 0; i < n; i++)
        if ((status = fill(&differences[i], &panels[i], drawing,
                           i < base ? i : i + 1)) < 0)
            goto done;
    status = draw(out, drawing, panels, n);
done:
    for (size_t i = 0; differences && i < n; i++)
        free(differences[i].values);
    free(differences);
    free(panels);
    return status;
}
