/**
 * Many runs on the terminal: one line each, with the columns of the overview
 * (cli/figures/overview.c). One run is selected. Drawing depends only on the
 * arguments.
 */
#ifndef ES_BROWSE_H
#define ES_BROWSE_H

#include "cli/terminal/screen.h"
#include "cli/terminal/watched.h"

/** More runs than this are shown as lines. */
#define ES_BROWSE_LEAST 3

typedef enum es_browse_order {
    ES_BROWSE_AS_GIVEN,
    ES_BROWSE_BY_LOSS, /* by the number shown; runs without it come last */
    ES_BROWSE_BY_FLAG, /* worst first */
    ES_BROWSE_BY_STEP, /* latest step first */
    ES_BROWSE_BY_NAME,
    ES_N_BROWSE_ORDERS
} es_browse_order;

typedef struct es_browse {
    const es_watched *runs; /* (n_runs) */
    size_t n_runs;
    es_colormap colormap;
    es_terminal terminal;
    es_browse_order order;

    /* For a live view, which is as high as the terminal. Otherwise every run
       has a line and no run is selected. */
    const char *mode; /* state, such as "live"; NULL: no live view */
    const char *keys; /* explanation of the keys */
    size_t chosen;    /* index of the selected run */
    size_t top;       /* first line shown; scrolled to show the selected run */
} es_browse;

/** Sets *out to the indices of the runs in their order; the caller frees it.
 *  Returns ES_OK or ES_ENOMEM. */
es_status es_browse_sort(size_t **out, const es_browse *browse) ES_MUST_USE;

/** Moves the selection down by `by` lines, or up if negative, as far as the
 * last or first line. Returns ES_OK or ES_ENOMEM. */
es_status es_browse_move(es_browse *browse, int64_t by) ES_MUST_USE;

/** Draws the runs. *out is owned by the caller and as wide as the terminal.
 * Returns ES_OK or ES_ENOMEM. */
es_status es_browse_draw(es_screen **out, es_browse *browse) ES_MUST_USE;

#endif
