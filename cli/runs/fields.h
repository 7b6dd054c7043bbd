/**
 * The fields of a run: the table has one row for each value that entropy-scan
 * shows, with its name, the outputs that show it, and how to get it from a
 * summary. Table, JSON, CSV, --where, --sort, the settings of --compare and the
 * metrics of --tui all use these rows, in their order.
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
    ES_FIELD_INTEGER,  /* integer; ES_UNKNOWN if it is missing */
    ES_FIELD_MEASURED, /* recorded float; NaN is distinct from missing
                          (analyzer/base/value.h) */
    ES_FIELD_COMPUTED  /* double; NaN if it cannot be computed */
} es_field_type;

/** Special treatment of some fields. */
typedef enum es_field_kind {
    ES_FIELD_PLAIN,
    ES_FIELD_FILE,     /* text: the file; the table appends the number of the
                          run */
    ES_FIELD_HEADS,    /* integer: a number of heads; the table shows "-" if the
                          run has no bands */
    ES_FIELD_SHARE,    /* integer: the heads in a band; the table shows a
                          percentage */
    ES_FIELD_SEVERITY, /* integer: a severity; --where also accepts its name */
    ES_FIELD_FLAGS     /* text: the active flags; --where matches if one of them
                          has the kind */
} es_field_kind;

/** Bits for the outputs that show a field. */
enum {
    ES_FIELD_IN_TABLE = 1 << 0,
    ES_FIELD_IN_CSV = 1 << 1,
    ES_FIELD_IN_JSON = 1 << 2,     /* before "bands" */
    ES_FIELD_IN_BANDS = 1 << 3,    /* member of "bands" in JSON */
    ES_FIELD_IN_JSON_END = 1 << 4, /* member of the JSON object, after
                                      "flags" */
    ES_FIELD_IN_WHERE = 1 << 5,    /* accepted by --where and --sort */
    ES_FIELD_IN_SETTINGS = 1 << 6, /* setting that --compare lists if runs
                                      differ in it */
    ES_FIELD_IN_PANEL = 1 << 7,    /* metric of --tui; measured fields only */
    ES_FIELD_IN_COMPARED = 1 << 8  /* result that --compare shows per setting;
                                      computed fields only */
};

typedef struct es_field {
    const char *name; /* in JSON, CSV and --where */
    unsigned outputs;
    es_field_type type;
    es_field_kind kind;
    size_t member; /* offset in es_run_summary, if no function is given */
    const char *(*text)(const es_run_summary *run);
    int64_t (*integer)(const es_run_summary *run);
    double (*computed)(const es_run_summary *run);
    es_modelled (*interval)(const es_run_summary *run); /* interval of the
                                                           value; NULL if the
                                                           field has no
                                                           interval */
    const char *title; /* heading in table and panel; NULL: the name is the
                          heading */
    bool (*shown)(const es_run_summary *run); /* the table has the column if
                                                 this returns true for any shown
                                                 run; NULL: always */
    bool judged; /* true if the value is known only after the flags of the run
                    were judged */
} es_field;

/** Returns the next field that `output` shows after `field`, or the first one
 *  if `field` is NULL; NULL after the last. */
const es_field *es_field_next(const es_field *field, unsigned output);

/** Returns the field of an output with the name `name` (n bytes); NULL if the
 *  output has no such field. */
const es_field *es_field_find(const char *name, size_t n, unsigned output);

const char *es_field_title(const es_field *field);

/* Each of the following functions returns a run's value of a field of the given
   type. */

/** Borrowed; NULL if the value is unknown. Not for ES_FIELD_FLAGS. */
const char *es_field_text(const es_field *field, const es_run_summary *run);
/** Returns ES_UNKNOWN if the value is missing. */
int64_t es_field_integer(const es_field *field, const es_run_summary *run);
/** Returns a value for which es_is_missing is true if nothing was recorded. */
float es_field_measured(const es_field *field, const es_run_summary *run);
/** Accepts fields of any type. Returns NaN if the value is missing or text. */
double es_field_number(const es_field *field, const es_run_summary *run);

#endif
