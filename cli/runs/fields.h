/**
 * The fields of a run: one row for each value that entropy-scan shows, with its
 * name, the outputs that show it, and how to get it from a summary. Table,
 * JSON, CSV, --where, --sort, the settings of --compare and the numbers of
 * --tui all use these rows, in their order.
 *
 * NaN, missing and zero are distinct: see es_field_text and the functions below
 * it.
 */
#ifndef ES_RUN_FIELDS_H
#define ES_RUN_FIELDS_H

#include "cli/runs/summary.h"

/** The type of a field's value. */
typedef enum es_field_type {
    ES_FIELD_TEXT,     /* NULL: unknown */
    ES_FIELD_INTEGER,  /* ES_UNKNOWN: missing */
    ES_FIELD_MEASURED, /* recorded float; NaN is distinct from missing
                          (analyzer/base/value.h) */
    ES_FIELD_COMPUTED  /* double; NaN: cannot be computed */
} es_field_type;

/** Special treatment of some fields. */
typedef enum es_field_kind {
    ES_FIELD_PLAIN,
    ES_FIELD_FILE,     /* text; the table adds the run's number */
    ES_FIELD_HEADS,    /* integer: number of heads; the table shows "-" if
                          the values have no bands */
    ES_FIELD_SHARE,    /* integer: heads of a band; the table shows per cent */
    ES_FIELD_SEVERITY, /* integer; --where also accepts the names */
    ES_FIELD_FLAGS     /* text: the active flags; --where matches the kind of
                          one of them */
} es_field_kind;

/** Outputs that show a field; bits. */
enum {
    ES_FIELD_IN_TABLE = 1 << 0,
    ES_FIELD_IN_CSV = 1 << 1,
    ES_FIELD_IN_JSON = 1 << 2,     /* before "bands" */
    ES_FIELD_IN_BANDS = 1 << 3,    /* JSON: in "bands" */
    ES_FIELD_IN_JSON_END = 1 << 4, /* JSON: after "flags" */
    ES_FIELD_IN_WHERE = 1 << 5,    /* --where and --sort */
    ES_FIELD_IN_SETTINGS = 1 << 6, /* --compare: settings in which runs may
                                      differ */
    ES_FIELD_IN_PANEL = 1 << 7,    /* --tui; measured fields only */
    ES_FIELD_IN_COMPARED = 1 << 8  /* --compare: results of settings;
                                      computed fields only */
};

typedef struct es_field {
    const char *name; /* name in JSON, CSV and --where */
    unsigned outputs;
    es_field_type type;
    es_field_kind kind;
    size_t member; /* offset in es_run_summary, if all functions are NULL */
    const char *(*text)(const es_run_summary *run);
    int64_t (*integer)(const es_run_summary *run);
    double (*computed)(const es_run_summary *run);
    es_modelled (*interval)(const es_run_summary *run); /* of the value;
                                                           NULL: has none */
    const char *title; /* in table and panel; NULL: the name */
    bool (*shown)(const es_run_summary *run); /* the table has the column if
                                                 this holds for one of its
                                                 runs; NULL: always */
    bool judged; /* needs a run whose flags were judged */
} es_field;

/** Returns the next field of an output after `field` (NULL: the first one);
 *  NULL after the last. */
const es_field *es_field_next(const es_field *field, unsigned output);

/** Returns the field of an output named `name` (n bytes); NULL if there is
 *  none. */
const es_field *es_field_find(const char *name, size_t n, unsigned output);

const char *es_field_title(const es_field *field);

/* The following functions return a run's value of a field of their type. */

/** Borrowed; NULL: unknown. Not for ES_FIELD_FLAGS. */
const char *es_field_text(const es_field *field, const es_run_summary *run);
/** ES_UNKNOWN: missing. */
int64_t es_field_integer(const es_field *field, const es_run_summary *run);
/** es_is_missing: not recorded. */
float es_field_measured(const es_field *field, const es_run_summary *run);
/** For fields of any type; NaN: missing, or a text. */
double es_field_number(const es_field *field, const es_run_summary *run);

#endif
