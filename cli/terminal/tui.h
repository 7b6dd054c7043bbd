/**
 * Shows several runs on the terminal. The panel of a run has a title, coloured
 * flags, a heatmap of layers x heads, and sparklines over the steps. Drawing
 * depends only on the arguments.
 */
#ifndef ES_TUI_H
#define ES_TUI_H

#include "cli/terminal/panel.h"
#include "cli/terminal/terminal.h"

typedef struct es_tui {
    const es_watched *runs; /* (n_runs) */
    size_t n_runs;
    es_colormap colormap;
    es_terminal terminal;

    /* The members from `mode` to `first` are used only in a live view, in which
     * the drawing fits into the terminal's height and its last row reports
     * which runs are shown. Without a live view, the height is not limited. */
    const char *mode; /* state of the live view, such as "live"; NULL if there
                         is no live view */
    const char *keys; /* text that explains the keys, such as "q quit" */
    size_t first;     /* index of the first run shown */
} es_tui;

/**
 * Draws the panels of the runs side by side if they fit, otherwise one below
 * the other. All panels share one colour scale.
 *
 *   out      drawing, as wide as the terminal; the caller frees it
 *   n_shown  set to the number of runs from `first` on that fit into the
 *            drawing; may be NULL
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_tui_draw(es_screen **out, size_t *n_shown,
                      const es_tui *tui) ES_MUST_USE;

#endif
