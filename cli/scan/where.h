/** --where 'arch=SM* lr<0.01' selects the runs to show, --sort eval_ppl their
 *  order. */
#ifndef ES_WHERE_H
#define ES_WHERE_H

#include "cli/runs/fields.h"

#define ES_WHERE_MOST 16
#define ES_WHERE_TEXT 128

/** The value by which a run is selected or sorted: a field, or a member of its
 *  configuration, "config.lr", or "lr" if no field has that name. If a run has
 *  no member with that exact name, the name also matches a nested one, such as
 *  "optimizer.lr". */
typedef struct es_criterion {
    const es_field *field; /* NULL: by `key` */
    char key[ES_WHERE_TEXT];
    bool prefixed; /* given as "config.KEY" */
} es_criterion;

/** One condition: a criterion, a relation and a value. */
typedef struct es_condition {
    es_criterion by;
    unsigned relation;        /* accepted relations of the run's value to
                                 this one; bits */
    char text[ES_WHERE_TEXT]; /* value as given */
    double number;            /* value of text; NaN if it is not a number */
} es_condition;

/** Conditions that must all hold. Zero-initialised: every run is shown. */
typedef struct es_where {
    es_condition conditions[ES_WHERE_MOST];
    size_t n;
} es_where;

/**
 * Parses conditions separated by blanks, and appends them.
 *
 * The fields are those of cli/runs/fields.c. Texts are compared by = and !=;
 * "flag" is any kind of active flag, or "ok" if none is active, or "unknown" if
 * the newest samples are also damaged. Numbers are compared by all relations;
 * "severity" is 0 to 4, or none to critical. A member of the configuration may
 * be a number in one run and a text in another: a text satisfies only = and !=,
 * a missing member only !=.
 *
 * Returns ES_OK; ES_EUSAGE: the message says what was expected.
 */
es_status es_where_parse(es_where *to, const char *text) ES_MUST_USE;

/** Returns true if the run meets all conditions. NaN and missing numbers
 *  satisfy only !=. If es_where_reads, the run's settings must have been
 *  read. */
bool es_where_holds(const es_where *where, const es_run_summary *run);

/** Returns true if a condition is on a member of the configuration. */
bool es_where_reads(const es_where *where);

/** Returns true if a condition needs the run to be judged. */
bool es_where_judges(const es_where *where);

/** An order of runs. Zero-initialised: the order in which they are read. */
typedef struct es_order {
    bool given, falling;
    es_criterion by;
} es_order;

/** Parses "eval_ppl", "config.gamma", or "-eval_ppl" for descending order.
 *  Returns ES_OK or ES_EUSAGE. */
es_status es_order_parse(es_order *out, const char *text) ES_MUST_USE;

/**
 * Compares two runs as a qsort callback does. NaN and missing values come last
 * in either direction. Returns 0 for equal runs; the caller breaks ties. By a
 * member of the configuration, numbers come first, then texts in strcmp order,
 * then runs without the member. The runs' settings must have been read.
 */
int es_order_compare(const es_order *order, const es_run_summary *a,
                     const es_run_summary *b);

/* --- members that no run has, or that are ambiguous -------------------------
 * A name that no run has is probably misspelled, and a name that matches two
 * nested members is ambiguous; both are known after all runs have been read. */

/** The members that a name matches. */
typedef struct es_member_seen {
    bool exact;                   /* some run has a member with exactly this
                                     name */
    char names[2][ES_WHERE_TEXT]; /* nested members; truncated */
    int n;                        /* number of names, at most 2 */
} es_member_seen;

/** The members of --where and --sort. Zero-initialised: none seen yet. */
typedef struct es_members_seen {
    es_member_seen where[ES_WHERE_MOST], order;
    size_t n; /* runs seen */
} es_members_seen;

/** Records the members of a run, whose settings must have been read. */
void es_members_see(es_members_seen *seen, const es_where *where,
                    const es_order *order, const es_run_summary *run);

/** Returns ES_OK, also if no run was seen. For the first name that no run has,
 *  returns ES_EUSAGE with the list of fields, or ES_ENOTFOUND if it was given
 *  as "config.KEY". Returns ES_EUSAGE if a name matches two different nested
 *  members. */
es_status es_members_check(const es_members_seen *seen, const es_where *where,
                           const es_order *order) ES_MUST_USE;

#endif
