/** Declarations that the export formats share. */
#ifndef ES_EXPORT_INTERNAL_H
#define ES_EXPORT_INTERNAL_H

#include "cli/exchange/export.h"
#include "store/map.h"

typedef struct es_export_column {
    es_series series; /* its strings are borrowed from the reader */
    float *values;    /* series.n_values values of the current step; NULL before
                         the first sample */
    bool present;     /* true if the current step has a sample */
} es_export_column;

/** State of one export: a run and its selected series. */
typedef struct es_export {
    FILE *out;
    es_run_info info;
    es_export_column *columns; /* (n_columns) */
    size_t n_columns;
} es_export;

/** Selects the series of a run. Call es_export_end in every case. Returns
 *  ES_OK; ES_ENOTFOUND; ES_ENOMEM. */
es_status es_export_begin(es_export *e, FILE *out, es_reader *reader,
                          size_t run,
                          const es_export_options *options) ES_MUST_USE;
void es_export_end(es_export *e);

/** The name that selects attention maps with --series. */
#define ES_EXPORT_MAPS "attention_map"

/** Returns true if the options select the attention map. */
bool es_export_wants_map(const es_export_options *options, const es_map *map);

/** Returns the column of a series; NULL if the series is not selected. */
es_export_column *es_export_find(const es_export *e, const es_series *series);

#endif
