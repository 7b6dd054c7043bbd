/**
 * What a watcher has found and reported: a small database of its own, never the
 * run file. Alerts are entered once, each with the deliveries that it owes;
 * a delivery is claimed by exactly one process before it is made, so that
 * watchers that are killed, restarted or run side by side neither repeat one
 * nor forget one.
 *
 * A ledger belongs to one thread at a time and to the process that opened it:
 * who delivers in a child opens the file again there. Every call is one
 * transaction, on the disk when it returns.
 */
#ifndef ES_LEDGER_H
#define ES_LEDGER_H

#include "analyzer/base/status.h"
#include "analyzer/flags/flags.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct es_ledger es_ledger;

/**
 * Opens `path`, making it if absent or empty. What a killed watcher has left
 * half done is rolled back.
 *
 * ES_OK; ES_EIO (no such folder, no permission, a disk that is full; the file
 * or its journal is a link, no regular file or another user's, or the journal
 * names a further file: nothing is touched); ES_EFORMAT (another program's
 * file, or its schema is not ours to the byte: it is left untouched);
 * ES_EVERSION; ES_ELOCKED (locked for longer than five seconds); ES_ENOMEM.
 *
 * Every later call checks the files again, and ends with ES_EFORMAT after a
 * second or two of computing: a damaged file may be without an end.
 */
es_status es_ledger_open(es_ledger **out, const char *path) ES_MUST_USE;

void es_ledger_close(es_ledger *ledger); /* NULL is fine */

/**
 * Enters an alert and what it owes, unless it is there already.
 *
 *   id       what makes it this alert and no other: the event's dedupe key
 *   json     what is delivered: one JSON object
 *   actions  (n_actions) names, each a delivery
 *   fresh    written: it was not there
 *
 * ES_OK; ES_EIO, ES_ELOCKED, ES_ENOMEM: nothing is entered; ES_EFORK.
 */
es_status es_ledger_add(es_ledger *ledger, const char *id, const char *json,
                        es_severity severity, const char *const *actions,
                        size_t n_actions, bool *fresh) ES_MUST_USE;

/** One delivery. Strings are the ledger's until its next call. */
typedef struct es_delivery {
    int64_t number;
    const char *id, *json, *action;
    es_severity severity;
    int64_t tries;    /* that failed */
    int64_t claimant; /* pid; 0: nobody has it */
} es_delivery;

/**
 * The first delivery after number `after` that is not made yet: one to claim
 * (claimant 0), or one that a process has claimed and not settled.
 *
 * ES_OK; ES_DONE: there is none; ES_EIO, ES_ELOCKED, ES_EFORK.
 */
es_status es_ledger_next(es_ledger *ledger, int64_t after,
                         es_delivery *out) ES_MUST_USE;

/**
 * Claims a delivery for process `claimant`.
 *
 *   from  who has it now: 0, or a process that is known to be gone
 *
 * ES_OK: it is ours; ES_DONE: somebody else was first; ES_EIO, ES_ELOCKED.
 */
es_status es_ledger_claim(es_ledger *ledger, int64_t number, int64_t from,
                          int64_t claimant) ES_MUST_USE;

typedef enum es_delivery_outcome {
    ES_OUTCOME_DELIVERED,
    ES_OUTCOME_AGAIN, /* it failed, and is to be tried again */
    ES_OUTCOME_FAILED /* it failed, and will not be tried again */
} es_delivery_outcome;

/** Settles a claimed delivery; `note` says why it failed, or NULL. ES_OK,
 *  ES_EIO, ES_ELOCKED, ES_EFORMAT: it is not in the file any more. */
es_status es_ledger_settle(es_ledger *ledger, int64_t number,
                           es_delivery_outcome outcome,
                           const char *note) ES_MUST_USE;

/** How many alerts there are; how many deliveries were made, are owed, were
 *  given up. */
typedef struct es_ledger_counts {
    int64_t alerts, delivered, owed, failed;
} es_ledger_counts;

es_status es_ledger_count(es_ledger *ledger, es_ledger_counts *out) ES_MUST_USE;

#endif
