/**
 * Creates labels for runs that appear in one table or figure. A label contains
 * the settings that distinguish its run from the other runs.
 *
 * Runs of several architectures are labelled by the architecture; runs of the
 * same architecture by the fewest settings that distinguish all these runs, as
 * in "SM+LN+G, γ = 0.05, seed 2". The seed is included only if needed. A label
 * omits a setting of EReg or SM(t) if the run does not use this part of the
 * model and all runs without the part have the same value. If settings do not
 * suffice, the label adds the name of the run, then the file name, then the
 * number of the run. A label longer than ES_LABEL_COLUMNS is shortened in the
 * middle; if that makes labels equal, the names of the runs are the labels, if
 * they are all different. All labels in an es_run_labels are distinct.
 */
#ifndef ES_RUN_LABELS_H
#define ES_RUN_LABELS_H

#include "cli/runs/settings.h"

#define ES_LABEL_COLUMNS 64

/** The labels of n runs. A zero-initialised es_run_labels is empty. */
typedef struct es_run_labels {
    size_t n;
    char **text; /* the n labels, typeset for figures: "γ = 0.05, lr = 10⁻³";
                    not escaped */
    char **plain; /* the n labels as plain text: "gamma=0.05 lr=1e-3", with
                     ASCII keys and numbers */
} es_run_labels;

/**
 * Creates the labels of n runs.
 *
 *   out   the caller frees it with es_run_labels_free, also after a failure
 *   runs  (n) summaries with settings, in the order of the table or figure; a
 *         single run is labelled by its architecture, or by its name if the
 *         architecture is unknown
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_run_labels_make(es_run_labels *out,
                             const es_run_summary *const *runs,
                             size_t n) ES_MUST_USE;

void es_run_labels_free(es_run_labels *labels);

/** Returns the value of a setting, typeset for figures. A number, such as
 *  "10⁻³", is written to `out` (ES_SETTING_TEXT_MAX bytes), which is returned.
 *  For other settings, returns the setting's text. */
#define ES_SETTING_TEXT_MAX 96
const char *es_run_setting_typeset(char *out, const es_run_setting *setting);

/** Returns the symbol of a quantity, given its name in configurations and
 *  series: "gamma" -> "γ", "beta2" -> "β₂"; NULL if the quantity has no
 *  symbol. */
const char *es_symbol_of(const char *name);

#endif
