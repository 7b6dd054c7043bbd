/**
 * Runs on the terminal: for each a title, what is wrong in colour, the heatmap
 * of layers x heads, and lines over the steps. Drawing depends on nothing but
 * its arguments.
 */
#ifndef ES_TUI_H
#define ES_TUI_H

#include "cli/terminal/panel.h"

/** What a live view says at the bottom; NULL members are left out. */
typedef struct es_tui_state {
    const char *mode; /* "live" */
    const char *keys; /* "q quit" */
} es_tui_state;

typedef struct es_tui {
    const es_tui_run *runs; /* (n_runs) */
    size_t n_runs;
    es_colormap colormap;
    es_terminal terminal;
    bool fits;    /* all rows of the drawing within the terminal's height,
                     as a live view needs it: runs that do not fit are
                     left out, and it says so; else as high as it wants */
    size_t first; /* of a live view: the first run shown */
    const es_tui_state *state; /* NULL: none */
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
