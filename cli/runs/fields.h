/**
 * The fields of a run. Each field is a value that entropy-scan outputs. The
 * table of fields has one row per value, with its name, the outputs that
 * contain the value, and how to get the value from a summary. Table, JSON, CSV,
 * --where, --sort, the settings of --compare and the metrics of --tui all use
 * the rows of this table, in their order.
 *
 * The functions es_field_text to es_field_number keep NaN, missing values and
 * zero distinct.
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

/** Kinds of fields that some outputs treat specially. */
typedef enum es_field_kind {
    ES_FIELD_PLAIN,
    ES_FIELD_FILE,     /* text: the file; the table appends the number of the
                          run */
    ES_FIELD_HEADS,    /* integer: a number of heads; the table shows "-" if the
                          run has no bands */
    ES_FIELD_SHARE,    /* integer: the number of heads in a band; the table
                          shows the percentage of all heads */
    ES_FIELD_SEVERITY, /* integer: a severity; --where also accepts its name */
    ES_FIELD_FLAGS     /* text: the active flags; --where compares with the kind
                          of each active flag */
} es_field_kind;

/** Bits for the outputs that contain a field. */
enum {
    ES_FIELD_IN_TABLE = 1 << 0,
    ES_FIELD_IN_CSV = 1 << 1,
    ES_FIELD_IN_JSON = 1 << 2,     /* in the JSON, before "bands" */
    ES_FIELD_IN_BANDS = 1 << 3,    /* in the JSON's object "bands" */
    ES_FIELD_IN_JSON_END = 1 << 4, /* member of the run's JSON object, after
                                      "flags" */
    ES_FIELD_IN_WHERE = 1 << 5,    /* accepted by --where and --sort */
    ES_FIELD_IN_SETTINGS = 1 << 6, /* setting that --compare lists if runs
                                      differ in this setting */
    ES_FIELD_IN_PANEL = 1 << 7,    /* the field is a metric that --tui can show;
                                      measured fields only */
    ES_FIELD_IN_COMPARED = 1 << 8  /* the field is a result that --compare shows
                                      for each setting; computed fields only */
};

typedef struct es_field {
    const char *name; /* name of the field in JSON, CSV and --where */
    unsigned outputs;
    es_field_type type;
    es_field_kind kind;
    size_t member; /* offset of the value in es_run_summary if the field has no
                      function, or in the result of `modelled` */
    const char *(*text)(const es_run_summary *run);
    int64_t (*integer)(const es_run_summary *run);
    double (*computed)(const es_run_summary *run);
    es_modelled (*modelled)(const es_run_summary *run); /* returns a value and
                                                           its interval; the
                                                           field is the member
                                                           of this result at
                                                           offset `member`. NULL
                                                           if the field has no
                                                           interval */
    const char *title; /* heading in the table and in the panel of --tui; if
                          NULL, the name is used */
    bool (*shown)(const es_run_summary *run); /* the table has the column if
                                                 this function returns true for
                                                 any run in the table; NULL if
                                                 the table always has the
                                                 column */
    bool judged; /* true if the value is known only after the flags of the run
                    were evaluated */
} es_field;

/** Returns the field that follows `field` in `output`, or the first field of
 *  `output` if `field` is NULL. Returns NULL after the last field. */
const es_field *es_field_next(const es_field *field, unsigned output);

/** Returns the field of `output` that is named `name` (n bytes), or NULL if
 *  `output` has no field of this name. */
const es_field *es_field_find(const char *name, size_t n, unsigned output);

const char *es_field_title(const es_field *field);

/* The following functions return the value of a field for a run. Each function
   accepts fields of one type, except es_field_number. */

/** Returns the text of a field of type ES_FIELD_TEXT, borrowed from the run;
 *  NULL if the text is unknown. Not for fields of kind ES_FIELD_FLAGS. */
const char *es_field_text(const es_field *field, const es_run_summary *run);
/** Returns the value of an integer field; ES_UNKNOWN if the value is
 *  missing. */
int64_t es_field_integer(const es_field *field, const es_run_summary *run);
/** Returns the value of a measured field; es_is_missing is true for the result
 *  if nothing was recorded. */
float es_field_measured(const es_field *field, const es_run_summary *run);
/** Returns the value of a field of any type as a number; NaN if the value is
 *  missing or text. */
double es_field_number(const es_field *field, const es_run_summary *run);

#endif
