/**
 * Runs on the terminal: for each a title, what is wrong in colour, the heatmap
 * of layers x heads, and lines over the steps. Drawing depends on nothing but
 * its arguments.
 */
#ifndef ES_TUI_H
#define ES_TUI_H

#include "cli/terminal/panel.h"

typedef struct es_tui {
    const es_watched *runs; /* (n_runs) */
    size_t n_runs;
    es_colormap colormap;
    es_terminal terminal;

    /* Of a live view: the drawing fits into the terminal's height, runs that
       do not are left out, and the last row says so. Else it is as high as it
       wants. */
    const char *mode; /* "live"; NULL: no live view */
    const char *keys; /* "q quit" */
    size_t first;     /* run that is shown first */
} es_tui;

/**
 * Draws: runs side by side where they fit, else below one another,
 * on one colour scale.
 *
 *   out      owned by the caller; as wide as the terminal
 *   n_shown  written: runs from `first` on that fit; may be NULL
 *
 * ES_OK or ES_ENOMEM.
 */
es_status es_tui_draw(es_screen **out, size_t *n_shown,
                      const es_tui *tui) ES_MUST_USE;

#endif
