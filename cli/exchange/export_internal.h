/** Shared between the formats of export. */
#ifndef ES_EXPORT_INTERNAL_H
#define ES_EXPORT_INTERNAL_H

#include "cli/exchange/export.h"

typedef struct es_export_column {
    es_series series; /* strings are the reader's */
    float *values;    /* (series.n_values) of the step at hand; NULL before
                         the first sample */
    bool present;     /* it has a sample there */
} es_export_column;

/** One export: a run, and the series of it that are wanted. */
typedef struct es_export {
    FILE *out;
    es_run_info info;
    es_export_column *columns; /* (n_columns) */
    size_t n_columns;
} es_export;

/** es_export_end in either case. ES_OK; ES_ENOTFOUND; ES_ENOMEM. */
es_status es_export_begin(es_export *e, FILE *out, es_reader *reader,
                          size_t run,
                          const es_export_options *options) ES_MUST_USE;
void es_export_end(es_export *e);

/** NULL: it is not wanted. */
es_export_column *es_export_find(const es_export *e, const es_series *series);

#endif
