/**
 * What runs shown together are called: what differs between them.
 *
 * Runs of several architectures are called by these; runs of one that differ
 * in settings by the fewest settings that distinguish all of them, the seed
 * only where it takes that: "SM+LN+G, γ = 0.05, seed 2". Runs without EReg or
 * SM(t) are not called by settings of these in which they agree, beside a run
 * that has them. Where
 * settings do not suffice the run's name follows, or the file's, or the run's
 * place. A label longer than ES_LABEL_COLUMNS is shortened in its middle. No
 * two labels of one set are the same.
 */
#ifndef ES_RUN_LABELS_H
#define ES_RUN_LABELS_H

#include "cli/runs/settings.h"

#define ES_LABEL_COLUMNS 64

/** Zero is empty. */
typedef struct es_run_labels {
    size_t n;
    char **text;  /* (n) of figures: "γ = 0.05, lr = 10⁻³"; not escaped */
    char **plain; /* (n) "gamma=0.05 lr=1e-3": no letters of ours but ASCII */
} es_run_labels;

/**
 * Makes them.
 *
 *   runs  (n) with their settings read, in the order in which they are shown; a
 * single one is called by its architecture, or its name where that is unknown
 *
 * ES_OK or ES_ENOMEM; es_run_labels_free in every case.
 */
es_status es_run_labels_make(es_run_labels *out,
                             const es_run_summary *const *runs,
                             size_t n) ES_MUST_USE;

void es_run_labels_free(es_run_labels *labels);

/** A setting as figures have it: "10⁻³" of a number, else its text.
 *  Returns `out` (ES_SETTING_TEXT_MAX bytes), or the setting's own text. */
#define ES_SETTING_TEXT_MAX 96
const char *es_run_setting_typeset(char *out, const es_run_setting *setting);

/** The letter of a quantity, by its name in configurations and series:
 *  "gamma" -> "γ", "beta2" -> "β₂"; NULL: it has none. */
const char *es_symbol_of(const char *name);

#endif
