/** Draws runs on the terminal, for `entropy-scan RUN.db... --tui`. */
#ifndef ES_SHOW_H
#define ES_SHOW_H

#include "cli/runs/summary.h"
#include "render/colormap.h"

typedef struct es_show_options {
    char *const *inputs; /* (n_inputs) */
    size_t n_inputs;
    es_summary_options summary;
    es_colormap colormap;
    bool follow; /* true: redraw while the files grow, until all runs have
                    ended */
} es_show_options;

/** The result of es_show. */
typedef struct es_show_result {
    /* Number of runs shown, and number of runs and files that could not be
     * read. */
    size_t n_shown, n_failed;
    /* Highest severity of the active flags in the runs shown. */
    es_severity highest;
} es_show_result;

/**
 * Draws the runs on the terminal. If `follow` is set, the function returns when
 * all runs have ended or the user quits; a list of many runs stays open until
 * the user quits.
 *
 * Returns ES_OK; ES_EUSAGE if standard output is not a terminal, or with
 * `follow` if the terminal has no cursor control; ES_EIO if standard output
 * cannot be written; ES_ENOMEM.
 */
es_status es_show(es_show_result *out,
                  const es_show_options *options) ES_MUST_USE;

#endif
