/** Shared between the files that print a comparison. */
#ifndef ES_COMPARE_PRINT_INTERNAL_H
#define ES_COMPARE_PRINT_INTERNAL_H

#include "cli/compare/compare_internal.h"
#include "cli/compare/sheet.h"

#define MATRIX_MOST 12 /* runs */

/** What is worth a column. */
typedef struct es_compare_layout {
    const es_comparison *comparison;
    const es_table_options *options;
    bool files;                   /* names do not identify the runs */
    bool evaluated;               /* some run is */
    bool best;                    /* not always the final one */
    bool best_means;              /* the same of configurations */
    bool onsets[ES_N_FLAG_KINDS]; /* some run has one */
    bool nonfinite;               /* some head is */
    bool matrix;                  /* of distances, else columns */
    bool cut;                     /* some mean leaves runs out */
} es_compare_layout;

/** ES_OK or ES_ENOMEM. */
es_status es_compare_layout_find(es_compare_layout *out,
                                 const es_comparison *comparison,
                                 const es_table_options *options) ES_MUST_USE;

/** Is a difference a column, of configurations or of runs? */
bool es_compare_shows_setting(const es_comparison *comparison,
                              size_t difference, bool configurations);

/* Cells of the row that was begun. */

/** The run's name, and its file where names do not identify the runs. */
void es_compare_put_names(es_sheet *sheet, const es_compare_layout *layout,
                          size_t run);

void es_compare_put_settings(es_sheet *sheet, const es_comparison *comparison,
                             size_t run, bool configurations);

void es_compare_put_bands(es_sheet *sheet, const es_bands *bands);

/** Title of a band's column, as in the table of runs. */
const char *es_compare_band_title(int band);

/** "-" for NaN. */
void es_compare_put_distance(es_sheet *sheet, const char *title,
                             double distance);

/** "+1.5%"; "-" for missing. */
void es_compare_put_signed(es_sheet *sheet, const char *title,
                           es_compare_number number, int digits,
                           const char *unit);

/** One line a configuration. ES_OK or ES_ENOMEM. */
es_status
es_compare_print_configurations(FILE *stream,
                                const es_compare_layout *layout) ES_MUST_USE;

/** Distances between all runs. ES_OK or ES_ENOMEM. */
es_status es_compare_print_matrix(FILE *stream,
                                  const es_compare_layout *layout) ES_MUST_USE;

/** What the tables do not say themselves. */
void es_compare_print_notes(FILE *stream, const es_compare_layout *layout);

#endif
