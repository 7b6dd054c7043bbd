/** `entropy-scan RUN.db... --tui`: runs drawn on the terminal. */
#ifndef ES_SHOW_H
#define ES_SHOW_H

#include "cli/runs/summary.h"
#include "render/colormap.h"

typedef struct es_show_options {
    char *const *inputs; /* (n_inputs) */
    size_t n_inputs;
    es_summary_options summary;
    es_colormap colormap;
    bool follow; /* redraw while the files grow, until all runs have ended */
} es_show_options;

/** The result of es_show. */
typedef struct es_show_result {
    size_t n_shown, n_failed; /* runs; unreadable files count as failed */
    es_severity highest;      /* of the active flags of the runs shown */
} es_show_result;

/**
 * Draws the runs. With `follow`, or to browse many runs, returns when the runs
 * have ended or the user quits.
 *
 * Returns ES_OK; ES_EUSAGE if standard output is not a terminal, or `follow`
 * needs a terminal with cursor control; ES_EIO (standard output); ES_ENOMEM.
 */
es_status es_show(es_show_result *out,
                  const es_show_options *options) ES_MUST_USE;

#endif
