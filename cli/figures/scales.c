/* The learnable scales of ScFFN blocks, alpha and beta, of every layer. */
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "render/figures/curves.h"

#include "analyzer/base/checked.h"

#include <math.h>
#include <stdio.h>

enum { ALPHA, BETA, N_SCALES };

static const char *const names[N_SCALES] = {"alpha", "beta"};

typedef struct scales {
    es_slice *slices;               /* (N_SCALES,n) */
    int64_t *layers;                /* (most) 0, 1, 2 ... */
    es_curve *curves;               /* (N_SCALES,n) */
    char (*labels)[ES_CAPTION_MAX]; /* (n) */
    size_t n, most;
} scales;

static void clear(scales *s)
{
    for (size_t i = 0; s->slices && i < N_SCALES * s->n; i++)
        es_slice_clear(&s->slices[i]);
    free(s->slices);
    free(s->layers);
    free(s->curves);
    free(s->labels);
}

static es_status allocate(scales *s, const es_drawing *drawing)
{
    es_status status;
    s->n = drawing->n;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = (size_t)drawing->runs[i]->n_layer;
        s->most = n > s->most ? n : s->most;
    }
    if ((status = es_alloc(&s->slices, s->n, N_SCALES * sizeof *s->slices,
                           "scales")) < 0 ||
        (status = es_alloc(&s->curves, s->n, N_SCALES * sizeof *s->curves,
                           "scales")) < 0 ||
        (status = es_alloc(&s->labels, s->n, sizeof *s->labels, "scales")) <
            0 ||
        (status = es_alloc(&s->layers, s->most, sizeof *s->layers, "scales")) <
            0)
        return status;
    for (size_t i = 0; i < s->most; i++)
        s->layers[i] = (int64_t)i;
    return ES_OK;
}

/* One that the run does not have stays a line without samples. */
static es_status read_scale(scales *s, size_t scale, size_t i,
                            const es_run_summary *run)
{
    es_slice *slice = &s->slices[scale * s->n + i];
    es_status status =
        es_slice_read(slice, run, names[scale], run->phase, run->step);
    if (status == ES_ENOTFOUND) {
        es_status has = es_source_has(run, names[scale], "a figure of scales");
        status = has == ES_ENOTFOUND ? ES_OK : has == ES_OK ? status : has;
    }
    bool fits = status == ES_OK && slice->values && slice->n_columns == 1;
    s->curves[scale * s->n + i] = (es_curve){.label = s->labels[i],
                                             .x = s->layers,
                                             .values = slice->values,
                                             .n = fits ? slice->n_rows : 0,
                                             .color = i};
    return status;
}

static es_status load(scales *s, const es_drawing *drawing)
{
    es_status status = allocate(s, drawing);
    for (size_t i = 0; status == ES_OK && i < s->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        snprintf(s->labels[i], sizeof s->labels[i], "%.60s",
                 es_drawing_title(drawing, i));
        if ((status = read_scale(s, ALPHA, i, run)) == ES_OK)
            status = read_scale(s, BETA, i, run);
    }
    return status;
}

es_status es_draw_scales(es_picture **out, const es_drawing *drawing)
{
    scales s = {.n = 0};
    char step[ES_CAPTION_MAX];
    es_curves_panel panels[N_SCALES];
    es_curves figure = {.style = drawing->style,
                        .panels = panels,
                        .n_panels = N_SCALES,
                        .own_scales = true,
                        .x_text = "layer",
                        .colors = ES_CURVES_BY_CATEGORY,
                        .reference = NAN};
    es_status status = load(&s, drawing);
    if (status < 0)
        goto done;
    es_drawing_step(step, drawing->runs[0]);
    for (size_t k = 0; k < N_SCALES; k++)
        panels[k] = (es_curves_panel){.title = names[k],
                                      .subtitle = step,
                                      .curves = s.curves + k * s.n,
                                      .n_curves = s.n};
    status = es_curves_draw(out, &figure);
done:
    clear(&s);
    return status;
}
