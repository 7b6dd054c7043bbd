/** Figures with a panel of lines for each run. */
#ifndef ES_PANELS_H
#define ES_PANELS_H

#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "render/figures/curves.h"

/** One run's lines. Zero is empty; es_panel_clear it. */
typedef struct es_panel {
    es_run_lines lines, low, high;  /* the latter two: areas, if read */
    es_curve *curves;               /* (n_curves) */
    char (*labels)[ES_CAPTION_MAX]; /* (n_curves) */
    size_t n_curves;
    char subtitle[160]; /* "" for none */
} es_panel;

/** Reads what the figure shows of a run, and names it. */
typedef es_status es_panel_load(es_panel *panel, const es_run_summary *run,
                                const es_figure_options *options);

/** Makes a curve of every line: "layer 3" where `word` is "layer", or
 *  the word alone where that is all there is. ES_OK or ES_ENOMEM. */
es_status es_panel_name(es_panel *panel, const char *word) ES_MUST_USE;

void es_panel_clear(es_panel *panel);

/**
 * Draws `figure`, whose panels are the runs as `load` reads them.
 * What load or es_curves_draw return.
 */
es_status es_panels_draw(es_picture **out, const es_drawing *drawing,
                         es_panel_load *load, es_curves *figure) ES_MUST_USE;

#endif
