/** Which runs to show: --where 'arch=SM* flag=collapse'; and in which order:
 *  --sort eval_ppl. */
#ifndef ES_WHERE_H
#define ES_WHERE_H

#include "cli/runs/fields.h"

#define ES_WHERE_MOST 16
#define ES_WHERE_TEXT 128

/** One condition: a field, a relation, a value. */
typedef struct es_condition {
    const es_field *field;
    unsigned relation;        /* of the run's value to this one; bits */
    char text[ES_WHERE_TEXT]; /* as it was given */
    double number;            /* of it; NaN if it is none */
} es_condition;

/** All must hold. Zero: every run is shown. */
typedef struct es_where {
    es_condition conditions[ES_WHERE_MOST];
    size_t n;
} es_where;

/**
 * Reads conditions separated by blanks and adds them.
 *
 * The fields are those of cli/runs/fields.c: texts are compared by = and !=
 * ("flag" is any kind that stands; if none does "ok", or "unknown" where the
 * newest samples are damaged), numbers by all
 * relations ("severity" is 0 to 4, or none to critical).
 * ES_OK; ES_EUSAGE: the message says what was expected where.
 */
es_status es_where_parse(es_where *to, const char *text) ES_MUST_USE;

/** NaN and missing numbers satisfy != alone. */
bool es_where_holds(const es_where *where, const es_run_summary *run);

/** True if a condition needs the run to be judged. */
bool es_where_judges(const es_where *where);

/** An order of runs. Zero: as they come. */
typedef struct es_order {
    bool given, falling;
    const es_field *field; /* NULL: by `key` */
    const char *key;       /* of the configuration; borrowed from the text */
} es_order;

/** "eval_ppl", "config.gamma" or "-eval_ppl": falling. `text` is kept. ES_OK or
 *  ES_EUSAGE. */
es_status es_order_parse(es_order *out, const char *text) ES_MUST_USE;

/**
 * As qsort's: NaN and missing come last whichever way; runs that are alike
 * keep no order of their own: the caller breaks ties. Of a configuration's key
 * numbers come first, by their size, then what is none, by its letters; runs
 * without the key are last. Their settings were read.
 */
int es_order_compare(const es_order *order, const es_run_summary *a,
                     const es_run_summary *b);

#endif
