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
    bool follow; /* redraw as the files grow, until the runs have ended */
} es_show_options;

/** What came of it. */
typedef struct es_show_result {
    size_t n_shown, n_failed; /* runs, or files without one; reported */
    es_severity highest;      /* of what stands of the runs shown */
} es_show_result;

/**
 * Draws once and returns; to follow, when the runs have ended or the user
 * wants to.
 *
 * ES_OK; ES_EUSAGE: standard output is no terminal, or, to follow, one whose
 * cursor cannot be moved; ES_EIO (standard output); ES_ENOMEM.
 */
es_status es_show(es_show_result *out,
                  const es_show_options *options) ES_MUST_USE;

#endif
