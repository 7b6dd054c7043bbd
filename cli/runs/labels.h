/**
 * Labels of runs that are shown together: each label shows what distinguishes
 * its run from the others.
 *
 * Runs of several architectures are labelled by the architecture; runs of the
 * same architecture by the fewest settings that distinguish all of them, with
 * the seed only if needed: "SM+LN+G, γ = 0.05, seed 2". A label omits settings
 * of EReg or SM(t) if its run does not use that part and all runs without the
 * part agree in the setting. If settings do not suffice, the label adds the
 * name of the run, then the file name, then the number of the run. A label
 * longer than ES_LABEL_COLUMNS is shortened in the middle. All labels of a set
 * are distinct.
 */
#ifndef ES_RUN_LABELS_H
#define ES_RUN_LABELS_H

#include "cli/runs/settings.h"

#define ES_LABEL_COLUMNS 64

/** The labels of n runs. A zero-initialised set is empty. */
typedef struct es_run_labels {
    size_t n;
    char **text;  /* (n) typeset for figures: "γ = 0.05, lr = 10⁻³"; not
                     escaped */
    char **plain; /* (n) plain text: "gamma=0.05 lr=1e-3", with ASCII keys and
                     numbers */
} es_run_labels;

/**
 * Creates the labels of n runs.
 *
 *   out   the caller frees it with es_run_labels_free, also after a failure
 *   runs  (n) summaries with settings, in the order in which they are shown; a
 *         single run is labelled by its architecture, or by its name if the
 *         architecture is unknown
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_run_labels_make(es_run_labels *out,
                             const es_run_summary *const *runs,
                             size_t n) ES_MUST_USE;

void es_run_labels_free(es_run_labels *labels);

/** Returns the value of a setting as figures show it: a number such as "10⁻³",
 *  or the setting's text. The result is `out` (ES_SETTING_TEXT_MAX bytes) or
 *  the setting's text. */
#define ES_SETTING_TEXT_MAX 96
const char *es_run_setting_typeset(char *out, const es_run_setting *setting);

/** Returns the symbol of a quantity, given its name in configurations and
 *  series: "gamma" -> "γ", "beta2" -> "β₂"; NULL if the quantity has no
 *  symbol. */
const char *es_symbol_of(const char *name);

#endif
