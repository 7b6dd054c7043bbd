/**
 * Shows many runs on the terminal as a list with one line per run. The columns
 * are those of the overview (cli/figures/overview.c). One run is selected.
 * Drawing depends only on the arguments.
 */
#ifndef ES_BROWSE_H
#define ES_BROWSE_H

#include "cli/terminal/terminal.h"
#include "cli/terminal/watched.h"

/**
 * Maximum number of runs that are shown as panels; more runs are shown as a
 * list with one line per run.
 */
#define ES_BROWSE_LEAST 3

typedef enum es_browse_order {
    ES_BROWSE_AS_GIVEN,
    /* Ascending by the value shown, such as the loss; runs without a value come
     * last. */
    ES_BROWSE_BY_LOSS,
    ES_BROWSE_BY_FLAG, /* worst first */
    ES_BROWSE_BY_STEP, /* descending by the latest step */
    ES_BROWSE_BY_NAME,
    ES_N_BROWSE_ORDERS
} es_browse_order;

typedef struct es_browse {
    const es_watched *runs; /* (n_runs) */
    size_t n_runs;
    es_colormap colormap;
    es_terminal terminal;
    es_browse_order order;

    /* The members from `mode` to `top` are used only in a live view, where the
     * list is as high as the terminal and one run is selected. Otherwise every
     * run has a line and no run is selected. */
    const char *mode; /* state of the live view, such as "live"; NULL if there
                         is no live view */
    const char *keys; /* text that explains the keys */
    size_t chosen;    /* index of the selected run */
    /* Index of the first visible line; es_browse_draw changes it so that the
     * selected run is visible. */
    size_t top;
} es_browse;

/** Sorts the runs by browse->order. Sets *out to the run indices in this order;
 *  the caller frees *out. Returns ES_OK or ES_ENOMEM. */
es_status es_browse_sort(size_t **out, const es_browse *browse) ES_MUST_USE;

/** Moves the selection `by` lines down, or up if `by` is negative, but not
 *  beyond the first or last line. Returns ES_OK or ES_ENOMEM. */
es_status es_browse_move(es_browse *browse, int64_t by) ES_MUST_USE;

/**
 * Draws the list of runs. *out is as wide as the terminal; the caller frees
 * *out. Returns ES_OK or ES_ENOMEM.
 */
es_status es_browse_draw(es_screen **out, es_browse *browse) ES_MUST_USE;

#endif
