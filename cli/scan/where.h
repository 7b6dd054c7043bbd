/** Which runs to show: --where 'arch=SM* lr<0.01'; and in which order: --sort
 *  eval_ppl. */
#ifndef ES_WHERE_H
#define ES_WHERE_H

#include "cli/runs/fields.h"

#define ES_WHERE_MOST 16
#define ES_WHERE_TEXT 128

/** What a run is chosen or sorted by: a field, or a member of its
 * configuration, "config.lr", or "lr" where no field is called so. A run that
 * has no member of that name may have one inside another: "optimizer.lr". */
typedef struct es_criterion {
    const es_field *field; /* NULL: by `key` */
    char key[ES_WHERE_TEXT];
    bool prefixed; /* it was "config.KEY" */
} es_criterion;

/** One condition: what, a relation, a value. */
typedef struct es_condition {
    es_criterion by;
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
 * relations ("severity" is 0 to 4, or none to critical). Members of a
 * configuration are numbers in one run and texts in the next: of a text no
 * relation but = and != holds, without the member no other than !=.
 * ES_OK; ES_EUSAGE: the message says what was expected where.
 */
es_status es_where_parse(es_where *to, const char *text) ES_MUST_USE;

/** NaN and missing numbers satisfy != alone. The run's settings were read if
 *  es_where_reads. */
bool es_where_holds(const es_where *where, const es_run_summary *run);

/** True if a condition is by a member of the configuration. */
bool es_where_reads(const es_where *where);

/** True if a condition needs the run to be judged. */
bool es_where_judges(const es_where *where);

/** An order of runs. Zero: as they come. */
typedef struct es_order {
    bool given, falling;
    es_criterion by;
} es_order;

/** "eval_ppl", "config.gamma" or "-eval_ppl": falling. ES_OK or ES_EUSAGE. */
es_status es_order_parse(es_order *out, const char *text) ES_MUST_USE;

/**
 * As qsort's: NaN and missing come last whichever way; runs that are alike
 * keep no order of their own: the caller breaks ties. Of a configuration's key
 * numbers come first, by their size, then what is none, by its letters; runs
 * without the key are last. Their settings were read.
 */
int es_order_compare(const es_order *order, const es_run_summary *a,
                     const es_run_summary *b);

/* --- members that nobody has, or several ------------------------------------
 * They are probably misspelled, or one of two is meant, which is known when all
 * runs have been seen. */

/** Which members a name stands for. */
typedef struct es_member_seen {
    bool exact;                   /* a run has one of that very name */
    char names[2][ES_WHERE_TEXT]; /* those inside others; cut off */
    int n;                        /* of them, at most 2 */
} es_member_seen;

/** Those of --where and --sort. Zero: none seen yet. */
typedef struct es_members_seen {
    es_member_seen where[ES_WHERE_MOST], order;
    size_t n; /* runs */
} es_members_seen;

/** A run's settings were read. */
void es_members_see(es_members_seen *seen, const es_where *where,
                    const es_order *order, const es_run_summary *run);

/** ES_OK, also if no run was seen; of the first member that none of the runs
 *  has ES_EUSAGE, with the fields that there are, or of "config.KEY"
 *  ES_ENOTFOUND; ES_EUSAGE if two of different names are inside others. */
es_status es_members_check(const es_members_seen *seen, const es_where *where,
                           const es_order *order) ES_MUST_USE;

#endif
