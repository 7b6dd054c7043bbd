/**
 * The fields of a run: one row for each thing that entropy-scan shows of a run,
 * with its name, where it is shown and how it is found in a summary. Table,
 * JSON, CSV, --where, --sort, the settings of --compare and the numbers of
 * --tui are all written from these rows; each output keeps their order.
 *
 * NaN, missing and zero are three things: see es_field_text and those below it.
 */
#ifndef ES_RUN_FIELDS_H
#define ES_RUN_FIELDS_H

#include "cli/runs/summary.h"

/** What a field is stored as. */
typedef enum es_field_type {
    ES_FIELD_TEXT,     /* NULL: unknown */
    ES_FIELD_INTEGER,  /* ES_UNKNOWN: missing */
    ES_FIELD_MEASURED, /* float that was recorded: NaN is one thing, missing
                          (analyzer/base/value.h) another */
    ES_FIELD_COMPUTED  /* double; NaN: there is nothing to compute it from */
} es_field_type;

/** What is more to know of some fields. */
typedef enum es_field_kind {
    ES_FIELD_PLAIN,
    ES_FIELD_FILE,     /* text: in the table with the run's number within it */
    ES_FIELD_HEADS,    /* integer: number of heads; "-" in the table if the
                          values shown have no bands */
    ES_FIELD_SHARE,    /* integer: heads of a band; in the table per cent */
    ES_FIELD_SEVERITY, /* integer: --where takes its names, too */
    ES_FIELD_FLAGS     /* text: what stands; --where takes one kind of it */
} es_field_kind;

/** Where a field is shown; bits. */
enum {
    ES_FIELD_IN_TABLE = 1 << 0,
    ES_FIELD_IN_CSV = 1 << 1,
    ES_FIELD_IN_JSON = 1 << 2,     /* before "bands" */
    ES_FIELD_IN_BANDS = 1 << 3,    /* JSON: within "bands" */
    ES_FIELD_IN_JSON_END = 1 << 4, /* JSON: after "flags" */
    ES_FIELD_IN_WHERE = 1 << 5,    /* --where and --sort */
    ES_FIELD_IN_SETTINGS = 1 << 6, /* --compare: what runs may differ in */
    ES_FIELD_IN_PANEL = 1 << 7,    /* --tui; measured */
    ES_FIELD_IN_COMPARED = 1 << 8  /* --compare: what follows from settings;
                                      computed */
};

typedef struct es_field {
    const char *name; /* in JSON, CSV and --where */
    unsigned outputs;
    es_field_type type;
    es_field_kind kind;
    size_t member; /* offset in es_run_summary, if none of the next is set */
    const char *(*text)(const es_run_summary *run);
    int64_t (*integer)(const es_run_summary *run);
    double (*computed)(const es_run_summary *run);
    es_modelled (*interval)(const es_run_summary *run); /* about it; NULL: it
                                                           has none */
    const char *title; /* in table and panel; NULL: the name */
    bool (*shown)(const es_run_summary *run); /* the table has the column if
                                                 this holds for one of its
                                                 runs; NULL: always */
    bool judged; /* known only of a run whose flags were judged */
} es_field;

/** The field of an output after `field`, NULL for the first one; NULL after
 *  the last. */
const es_field *es_field_next(const es_field *field, unsigned output);

/** The field of an output called `name` (n bytes); NULL if there is none. */
const es_field *es_field_find(const char *name, size_t n, unsigned output);

const char *es_field_title(const es_field *field);

/* What a run has there, for fields of that type. */

/** Borrowed; NULL: unknown. Not for ES_FIELD_FLAGS. */
const char *es_field_text(const es_field *field, const es_run_summary *run);
/** ES_UNKNOWN: missing. */
int64_t es_field_integer(const es_field *field, const es_run_summary *run);
/** es_is_missing: not recorded. */
float es_field_measured(const es_field *field, const es_run_summary *run);
/** Of any field but a text; NaN: missing, or it is one. */
double es_field_number(const es_field *field, const es_run_summary *run);

#endif
