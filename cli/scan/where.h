/** Implements --where, which selects runs, as in --where 'arch=SM* lr<0.01',
 *  and --sort, which sorts runs, as in --sort eval_ppl. */
#ifndef ES_WHERE_H
#define ES_WHERE_H

#include "cli/runs/fields.h"

#define ES_WHERE_MOST 16
#define ES_WHERE_TEXT 128

/** The value by which runs are selected or sorted. It is either a field or a
 *  member of the configuration. The member lr is named "config.lr", or "lr" if
 *  no field is named lr. If a run has no member with exactly this name, the
 *  name also matches a nested member, such as "optimizer.lr". */
typedef struct es_criterion {
    const es_field *field; /* NULL if `key` names a member of the
                              configuration */
    char key[ES_WHERE_TEXT];
    bool prefixed; /* true if the name was given as "config.KEY" */
} es_criterion;

/** One condition: a criterion, a relation and a value. */
typedef struct es_condition {
    es_criterion by;
    unsigned relation; /* set of flags such as ES_BELOW: the condition holds
                          if comparing the run's value with the given value
                          has one of these results */
    char text[ES_WHERE_TEXT]; /* the value in the condition, as text */
    double number;            /* the value in the condition as a number; NaN
                                 if it is not a number */
} es_condition;

/** Conditions that must all hold. A zero-initialised list selects every run. */
typedef struct es_where {
    es_condition conditions[ES_WHERE_MOST];
    size_t n;
} es_where;

/**
 * Parses conditions separated by blanks, and appends them.
 *
 * The fields are those of cli/runs/fields.c. Text is compared by = and !=;
 * "flag" equals the kind of any active flag. Without active flags, it equals
 * "ok", or "unknown" if the newest samples are damaged. Numbers are compared by
 * all relations; "severity" is 0 to 4, or none to critical. A member of the
 * configuration may be a number in one run and text in another: text can only
 * satisfy = and !=, a missing member only !=.
 *
 * Returns ES_OK; ES_EUSAGE if the text is invalid (the message reports the
 * expected syntax).
 */
es_status es_where_parse(es_where *to, const char *text) ES_MUST_USE;

/** Returns true if the run meets all conditions. NaN and missing numbers only
 *  satisfy the relation !=. If es_where_reads returns true, the run's settings
 *  must have been read. */
bool es_where_holds(const es_where *where, const es_run_summary *run);

/** Returns true if a condition refers to a member of the configuration. */
bool es_where_reads(const es_where *where);

/** Returns true if a condition refers to flags, which are known only after the
 *  run's samples have been checked. */
bool es_where_judges(const es_where *where);

/** An order of runs. A zero-initialised order keeps the order of reading. */
typedef struct es_order {
    bool given, falling;
    es_criterion by;
} es_order;

/** Parses "eval_ppl", "config.gamma", or "-eval_ppl" for descending order.
 *  Returns ES_OK or ES_EUSAGE. */
es_status es_order_parse(es_order *out, const char *text) ES_MUST_USE;

/**
 * Compares two runs like a qsort callback. NaN and missing values come last in
 * either direction. Returns 0 if the order does not distinguish the runs. For a
 * member of the configuration, numbers come first, then text in strcmp order,
 * then runs without the member. The runs' settings must have been read.
 */
int es_order_compare(const es_order *order, const es_run_summary *a,
                     const es_run_summary *b);

/* --- members that no run has, or that are ambiguous -------------------------
 * A name that no run has is probably misspelled, and a name that matches two
 * nested members is ambiguous; both are known after all runs have been read. */

/**
 * Members of the runs' configurations that match one name in --where or --sort.
 */
typedef struct es_member_seen {
    bool exact;                   /* true if some run has a member with exactly
                                     this name */
    char names[2][ES_WHERE_TEXT]; /* names of the first two different nested
                                     members that match, truncated */
    int n;                        /* number of elements in `names` */
} es_member_seen;

/** Matches of all names in --where and --sort. The caller initialises this
 *  struct with zeros before the first run. */
typedef struct es_members_seen {
    es_member_seen where[ES_WHERE_MOST], order;
    size_t n; /* number of runs seen */
} es_members_seen;

/** Records which names match members of the run. The run's settings must have
 *  been read. */
void es_members_see(es_members_seen *seen, const es_where *where,
                    const es_order *order, const es_run_summary *run);

/** Checks that each name matches a member in some run. Returns ES_OK if all
 *  names match, or if no run was seen. For a name without a match, returns
 *  ES_ENOTFOUND if it was given as "config.KEY", otherwise ES_EUSAGE with a
 *  message that lists the fields. Returns ES_EUSAGE if a name matches two
 *  different nested members. */
es_status es_members_check(const es_members_seen *seen, const es_where *where,
                           const es_order *order) ES_MUST_USE;

#endif
