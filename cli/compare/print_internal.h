/** Shared between the files that print a comparison. */
#ifndef ES_COMPARE_PRINT_INTERNAL_H
#define ES_COMPARE_PRINT_INTERNAL_H

#include "cli/compare/compare_internal.h"
#include "cli/compare/sheet.h"

#define SETTINGS_SHOWN 12 /* columns; the others are named below */
#define VALUE_WIDTH 40    /* columns of a setting's value */
#define MATRIX_MOST 12    /* runs */
#define NAME_WIDTH 16     /* columns: a shorter name hardly tells a run */

/** What is worth a column. */
typedef struct es_layout {
    const es_comparison *comparison;
    const es_table_options *options;
    bool files;                   /* names do not tell the runs */
    bool evaluated;               /* some run is */
    bool best;                    /* not always the final one */
    bool best_means;              /* the same of configurations */
    bool onsets[ES_N_FLAG_KINDS]; /* some run has one */
    bool nonfinite;               /* some head is */
    bool matrix;                  /* of distances, else columns */
    bool cut;                     /* some mean leaves runs out */
} es_layout;

/** ES_OK or ES_ENOMEM. */
es_status es_layout_find(es_layout *out, const es_comparison *comparison,
                         const es_table_options *options) ES_MUST_USE;

/** Is a difference a column, of configurations or of runs? */
bool es_layout_has_setting(const es_comparison *comparison, size_t difference,
                           bool configurations);

void es_sheet_add_names(es_sheet *sheet, const es_layout *has);
void es_sheet_put_names(es_sheet *sheet, const es_layout *has, size_t run);

void es_sheet_add_settings(es_sheet *sheet, const es_comparison *comparison,
                           bool configurations);
void es_sheet_put_settings(es_sheet *sheet, const es_comparison *comparison,
                           size_t run, bool configurations);

void es_sheet_add_bands(es_sheet *sheet);
void es_sheet_add_onsets(es_sheet *sheet, const es_layout *has);

/** "240"; "80w 240": warned of since 80, an error since 240; "80w"; "(240)":
 *  over by the end. */
void es_sheet_put_onset(es_sheet *sheet, const es_onset *onset);

/** "-" for NaN. */
void es_sheet_put_distance(es_sheet *sheet, double distance);

/** "+1.5%"; "-" for missing. */
void es_sheet_put_signed(es_sheet *sheet, es_measure measure, int digits,
                         const char *unit);

/** One line a configuration. ES_OK or ES_ENOMEM. */
es_status es_print_configurations(FILE *stream,
                                  const es_layout *has) ES_MUST_USE;

/** Distances between all runs. ES_OK or ES_ENOMEM. */
es_status es_print_matrix(FILE *stream, const es_layout *has) ES_MUST_USE;

/** What the tables do not say themselves. */
void es_print_notes(FILE *stream, const es_layout *has);

#endif
