#include "cli/figures/panels.h"

#include "analyzer/base/checked.h"

#include <stdio.h>

void es_panel_clear(es_panel *panel)
{
    es_lines_clear(&panel->lines);
    es_lines_clear(&panel->low);
    es_lines_clear(&panel->high);
    free(panel->curves);
    free(panel->labels);
}

static void set_area(es_curve *curve, const es_panel *panel, size_t i)
{
    size_t n = panel->lines.n;
    /* Of a file that grew meanwhile the mean is all that is shown. */
    if (!panel->low.values || panel->low.n != n || panel->high.n != n)
        return;
    curve->low = panel->low.values + i * n;
    curve->high = panel->high.values + i * n;
}

es_status es_panel_name(es_panel *panel, const char *word)
{
    const es_lines *lines = &panel->lines;
    size_t n = lines->n_lines;
    panel->n_curves = n;
    panel->curves = es_resize(NULL, n, sizeof *panel->curves);
    panel->labels = es_resize(NULL, n, sizeof *panel->labels);
    if (!panel->curves || !panel->labels)
        return es_fail(ES_ENOMEM, "out of memory for %zu curves", n);
    for (size_t i = 0; i < n; i++) {
        if (lines->shape == ES_SHAPE_RUN)
            snprintf(panel->labels[i], sizeof panel->labels[i], "%.60s", word);
        else
            snprintf(panel->labels[i], sizeof panel->labels[i], "%.40s %zu",
                     word, i);
        panel->curves[i] = (es_curve){.label = panel->labels[i],
                                      .x = lines->steps,
                                      .values = lines->values + i * lines->n,
                                      .n = lines->n};
        set_area(&panel->curves[i], panel, i);
    }
    return ES_OK;
}

static void show(es_curves_panel *list, const es_panel *panels,
                 const es_drawing *drawing)
{
    for (size_t i = 0; i < drawing->n; i++)
        list[i] = (es_curves_panel){
            .title =
                es_summary_title(drawing->runs[i], drawing->runs, drawing->n),
            .subtitle = *panels[i].subtitle ? panels[i].subtitle : NULL,
            .curves = panels[i].curves,
            .n_curves = panels[i].n_curves};
}

es_status es_panels_draw(es_picture **out, const es_drawing *drawing,
                         es_panel_load *load, es_curves *figure)
{
    es_panel *panels = calloc(drawing->n, sizeof *panels);
    es_curves_panel *list = calloc(drawing->n, sizeof *list);
    es_status status = ES_OK;
    if (!panels || !list)
        status = es_fail(ES_ENOMEM, "out of memory for %zu panels", drawing->n);
    for (size_t i = 0; status == ES_OK && i < drawing->n; i++)
        status = load(&panels[i], drawing->runs[i], drawing->options);
    if (status == ES_OK) {
        show(list, panels, drawing);
        figure->style = drawing->style;
        figure->panels = list;
        figure->n_panels = drawing->n;
        status = es_curves_draw(out, figure);
    }
    for (size_t i = 0; panels && i < drawing->n; i++)
        es_panel_clear(&panels[i]);
    free(panels);
    free(list);
    return status;
}
