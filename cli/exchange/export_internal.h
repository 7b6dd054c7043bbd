/** Declarations that the export formats share. */
#ifndef ES_EXPORT_INTERNAL_H
#define ES_EXPORT_INTERNAL_H

#include "analyzer/base/json_write.h"
#include "cli/exchange/export.h"
#include "store/map.h"

typedef struct es_export_column {
    es_series series; /* its strings are borrowed from the reader */
    float *values;    /* (series.n_values) values of the current step; NULL
                         before the first sample */
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

/** Returns true if the options select attention maps. */
bool es_export_wants_maps(const es_export_options *options);
bool es_export_wants_map(const es_export_options *options, const es_map *map);

/** Writes the selected maps of the run. Returns the same statuses as
 *  es_reader_maps. */
es_status es_export_maps_csv(const es_export *e, es_reader *reader, size_t run,
                             const es_export_options *options) ES_MUST_USE;
es_status es_export_maps_jsonl(const es_export *e, es_reader *reader,
                               size_t run,
                               const es_export_options *options) ES_MUST_USE;

/** Writes a value as JSON: null if the value is missing, a string if it is not
 *  finite. */
void es_export_put_value(es_json_writer *json, const char *name, float value);

/** Returns the column of a series; NULL if the series is not selected. */
es_export_column *es_export_find(const es_export *e, const es_series *series);

#endif
