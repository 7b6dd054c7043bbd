/* Figures with a panel of lines for each run: reading, naming, drawing. */
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
    const es_run_lines *lines = &panel->lines;
    size_t n = lines->n_lines;
    panel->n_curves = n;
    es_status status;
    if ((status = es_alloc(&panel->curves, n, sizeof *panel->curves,
                           "curves")) < 0 ||
        (status =
             es_alloc(&panel->labels, n, sizeof *panel->labels, "curves")) < 0)
        return status;
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

es_status es_panels_draw(es_picture **out, const es_drawing *drawing,
                         es_panel_load *load, es_curves *figure)
{
    es_panel *panels = NULL;
    es_curves_panel *list = NULL;
    es_status status;
    if ((status = es_alloc(&panels, drawing->n, sizeof *panels, "panels")) <
            0 ||
        (status = es_alloc(&list, drawing->n, sizeof *list, "panels")) < 0)
        goto done;
    for (size_t i = 0; i < drawing->n; i++) {
        es_panel *panel = &panels[i];
        if ((status = load(panel, drawing->runs[i], drawing->options)) < 0)
            goto done;
        list[i] = (es_curves_panel){
            .title = es_drawing_title(drawing, i),
            .subtitle = *panel->subtitle ? panel->subtitle : NULL,
            .curves = panel->curves,
            .n_curves = panel->n_curves};
    }
    figure->style = drawing->style;
    figure->panels = list;
    figure->n_panels = drawing->n;
    status = es_curves_draw(out, figure);
done:
    for (size_t i = 0; panels && i < drawing->n; i++)
        es_panel_clear(&panels[i]);
    free(panels);
    free(list);
    return status;
}
