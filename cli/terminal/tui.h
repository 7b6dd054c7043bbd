/**
 * Several runs on the terminal, each with a title, coloured flags, the heatmap
 * of layers x heads, and lines over the steps. Drawing depends only on the
 * arguments.
 */
#ifndef ES_TUI_H
#define ES_TUI_H

#include "cli/terminal/panel.h"

typedef struct es_tui {
    const es_watched *runs; /* (n_runs) */
    size_t n_runs;
    es_colormap colormap;
    es_terminal terminal;

    /* For a live view: the drawing fits into the terminal's height, and the
     * last row says which runs are shown. Otherwise the height is not
     * limited. */
    const char *mode; /* state, such as "live"; NULL: no live view */
    const char *keys; /* explanation of the keys: "q quit" */
    size_t first;     /* first run shown */
} es_tui;

/**
 * Draws the runs side by side if they fit, otherwise one below the other, on
 * one colour scale.
 *
 *   out      owned by the caller; as wide as the terminal
 *   n_shown  written; number of runs from `first` on that fit; may be NULL
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_tui_draw(es_screen **out, size_t *n_shown,
                      const es_tui *tui) ES_MUST_USE;

#endif
