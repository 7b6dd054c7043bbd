/** `entropy-scan RUN.db... --tui`: runs drawn on the terminal. */
#ifndef ES_SHOW_H
#define ES_SHOW_H

#include "cli/summary.h"
#include "render/colormap.h"

#include <stdbool.h>

typedef struct es_show_options {
    char *const *inputs; /* (n_inputs) */
    size_t n_inputs;
    es_summary_options summary;
    es_colormap colormap;
} es_show_options;

/** What came of it. */
typedef struct es_show_result {
    size_t n_shown, n_failed; /* runs, or files without one; told of already */
    bool alarms;              /* of the runs shown, as es_summary_alarms */
} es_show_result;

/** Draws all runs that can be read, and returns. ES_OK; ES_EUSAGE (standard
 *  output is no terminal); ES_EIO (it cannot be written); ES_ENOMEM. */
es_status es_show(es_show_result *out,
                  const es_show_options *options) ES_MUST_USE;

#endif
