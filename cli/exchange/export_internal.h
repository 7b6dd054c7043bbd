/** Shared between the formats of export. */
#ifndef ES_EXPORT_INTERNAL_H
#define ES_EXPORT_INTERNAL_H

#include "analyzer/base/json_write.h"
#include "cli/exchange/export.h"
#include "store/map.h"

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

#define ES_EXPORT_MAPS "attention_map" /* what --series calls them */

/** Attention maps, by the options; or this one. */
bool es_export_wants_maps(const es_export_options *options);
bool es_export_wants_map(const es_export_options *options, const es_map *map);

/** The maps of the run that are wanted. Return as es_reader_maps. */
es_status es_export_maps_csv(const es_export *e, es_reader *reader, size_t run,
                             const es_export_options *options) ES_MUST_USE;
es_status es_export_maps_jsonl(const es_export *e, es_reader *reader,
                               size_t run,
                               const es_export_options *options) ES_MUST_USE;

/** A value as JSON: null is missing, a text is not finite. */
void es_export_put_value(es_json_writer *json, const char *name, float value);

/** NULL: it is not wanted. */
es_export_column *es_export_find(const es_export *e, const es_series *series);

#endif
