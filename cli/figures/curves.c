#include "render/figures/curves.h"

#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One run's lines. */
typedef struct panel {
    es_lines lines;
    es_curve *curves;               /* (n_lines) */
    char (*labels)[ES_CAPTION_MAX]; /* (n_lines) */
} panel;

static void free_panel(panel *p)
{
    es_lines_clear(&p->lines);
    free(p->curves);
    free(p->labels);
}

static es_status name_lines(panel *p, const es_run_summary *run)
{
    const es_lines *lines = &p->lines;
    p->curves = es_resize(NULL, lines->n_lines, sizeof *p->curves);
    p->labels = es_resize(NULL, lines->n_lines, sizeof *p->labels);
    if (!p->curves || !p->labels)
        return es_fail(ES_ENOMEM, "out of memory for %zu curves",
                       lines->n_lines);
    for (size_t i = 0; i < lines->n_lines; i++) {
        if (lines->shape == ES_SHAPE_RUN)
            snprintf(p->labels[i], sizeof p->labels[i], "%.60s", run->series);
        else
            snprintf(p->labels[i], sizeof p->labels[i], "layer %zu", i);
        p->curves[i] = (es_curve){.label = p->labels[i],
                                  .x = lines->steps,
                                  .values = lines->values + i * lines->n,
                                  .n = lines->n};
    }
    return ES_OK;
}

static es_status load_panel(panel *p, const es_run_summary *run)
{
    es_status status =
        es_lines_read(&p->lines, run, run->series, run->phase, ES_REDUCE_MEAN);
    return status == ES_OK ? name_lines(p, run) : status;
}

/* The ceiling bounds entropies; no line if the runs have different ones. */
static double common_ceiling(const es_drawing *drawing)
{
    double ceiling = drawing->runs[0]->ceiling;
    if (strncmp(drawing->runs[0]->series, "entropy", 7) != 0)
        return NAN;
    for (size_t i = 1; i < drawing->n; i++)
        if (!(drawing->runs[i]->ceiling == ceiling))
            return NAN;
    return ceiling;
}

static const char *subtitle_of(const es_run_summary *run)
{
    bool eval = run->phase == ES_PHASE_EVAL;
    if (run->shape == ES_SHAPE_HEAD)
        return eval ? "mean of each layer, eval" : "mean of each layer";
    return eval ? "eval" : NULL;
}

static es_status draw(es_picture **out, const es_drawing *drawing,
                      const panel *panels, es_curves_panel *list)
{
    bool is_run = drawing->runs[0]->shape == ES_SHAPE_RUN;
    es_curves figure = {.style = drawing->style,
                        .panels = list,
                        .n_panels = drawing->n,
                        .y_text = drawing->axis,
                        .line_text = is_run ? NULL : "layer",
                        .reference = common_ceiling(drawing),
                        .reference_text = "ceiling ln(T!)/T"};
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        list[i] = (es_curves_panel){
            .title = es_summary_title(run, drawing->runs, drawing->n),
            .subtitle = subtitle_of(run),
            .curves = panels[i].curves,
            .n_curves = panels[i].lines.n_lines};
    }
    return es_curves_draw(out, &figure);
}

es_status es_draw_curves(es_picture **out, const es_drawing *drawing)
{
    panel *panels = calloc(drawing->n, sizeof *panels);
    es_curves_panel *list = calloc(drawing->n, sizeof *list);
    es_status status = ES_OK;
    if (!panels || !list)
        status = es_fail(ES_ENOMEM, "out of memory for %zu panels", drawing->n);
    for (size_t i = 0; status == ES_OK && i < drawing->n; i++)
        status = load_panel(&panels[i], drawing->runs[i]);
    if (status == ES_OK)
        status = draw(out, drawing, panels, list);
    for (size_t i = 0; panels && i < drawing->n; i++)
        free_panel(&panels[i]);
    free(panels);
    free(list);
    return status;
}
