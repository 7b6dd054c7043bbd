/**
 * Labels of runs that are shown together: what differs between them.
 *
 * Runs of several architectures are labelled by the architecture; runs of the
 * same architecture by the fewest settings that distinguish all of them, with
 * the seed only if needed: "SM+LN+G, γ = 0.05, seed 2". Settings of EReg or
 * SM(t) that another run uses are omitted for runs without that part, if these
 * runs agree in them. If settings are not enough, the run's name follows, then
 * the file's, then the run's number. A label longer than ES_LABEL_COLUMNS is
 * shortened in its middle. All labels of a set are distinct.
 */
#ifndef ES_RUN_LABELS_H
#define ES_RUN_LABELS_H

#include "cli/runs/settings.h"

#define ES_LABEL_COLUMNS 64

/** Zero-initialised: empty. */
typedef struct es_run_labels {
    size_t n;
    char **text;  /* (n) for figures: "γ = 0.05, lr = 10⁻³"; not escaped */
    char **plain; /* (n) "gamma=0.05 lr=1e-3": keys and numbers are ASCII */
} es_run_labels;

/**
 * Makes the labels of n runs.
 *
 *   out   to be freed by es_run_labels_free in every case
 *   runs  (n) with their settings read, in the order in which they are shown; a
 * single run is labelled by its architecture, or its name if that is unknown
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_run_labels_make(es_run_labels *out,
                             const es_run_summary *const *runs,
                             size_t n) ES_MUST_USE;

void es_run_labels_free(es_run_labels *labels);

/** Returns a setting as figures show it: numbers such as "10⁻³", other settings
 *  as their text. The result is `out` (ES_SETTING_TEXT_MAX bytes) or the
 *  setting's text. */
#define ES_SETTING_TEXT_MAX 96
const char *es_run_setting_typeset(char *out, const es_run_setting *setting);

/** Returns the symbol of a quantity by its name in configurations and series:
 *  "gamma" -> "γ", "beta2" -> "β₂"; NULL if it has none. */
const char *es_symbol_of(const char *name);

#endif
