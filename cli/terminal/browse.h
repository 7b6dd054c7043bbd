/**
 * Many runs on the terminal: one line each, with the columns of the overview
 * (cli/figures/overview.c), of which one is chosen. Drawing depends on nothing
 * but its arguments.
 */
#ifndef ES_BROWSE_H
#define ES_BROWSE_H

#include "cli/terminal/screen.h"
#include "cli/terminal/watched.h"

/** More runs than this are shown as lines. */
#define ES_BROWSE_LEAST 3

typedef enum es_browse_order {
    ES_BROWSE_AS_GIVEN,
    ES_BROWSE_BY_LOSS, /* the number that is shown; what is none comes last */
    ES_BROWSE_BY_FLAG, /* the worst first */
    ES_BROWSE_BY_STEP, /* the farthest first */
    ES_BROWSE_BY_NAME,
    ES_N_BROWSE_ORDERS
} es_browse_order;

typedef struct es_browse {
    const es_watched *runs; /* (n_runs) */
    size_t n_runs;
    es_colormap colormap;
    es_terminal terminal;
    es_browse_order order;

    /* Of a live view: as high as the terminal. Else it has a line for each run,
       and none is chosen. */
    const char *mode; /* NULL: no live view */
    const char *keys;
    size_t chosen; /* a run */
    size_t top;    /* the first line that is shown; moved so that the chosen run
                      is seen */
} es_browse;

/** The runs in their order: *out, to be freed. ES_OK or ES_ENOMEM. */
es_status es_browse_sort(size_t **out, const es_browse *browse) ES_MUST_USE;

/** The run `by` lines below the chosen one, or the last one; above it, if
 *  negative. ES_OK or ES_ENOMEM. */
es_status es_browse_move(es_browse *browse, int64_t by) ES_MUST_USE;

/** Draws: *out is owned by the caller, as wide as the terminal. ES_OK or
 *  ES_ENOMEM. */
es_status es_browse_draw(es_screen **out, es_browse *browse) ES_MUST_USE;

#endif
