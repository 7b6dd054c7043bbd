/**
 * Implements a watcher's ledger: a small database, separate from the run file,
 * that contains the alerts that the watcher has found and the state of their
 * deliveries. An alert is entered once, together with its deliveries. A process
 * claims a delivery before it makes the delivery, and only one process can
 * claim it. Therefore watchers that are killed, restarted or run in parallel
 * never repeat or lose a delivery.
 *
 * A ledger belongs to one thread at a time and to the process that opened it: a
 * forked child must open the file again. Every call is one transaction, which
 * is on the disk when the call returns.
 */
#ifndef ES_LEDGER_H
#define ES_LEDGER_H

#include "analyzer/base/severity.h"
#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct es_ledger es_ledger;

#define ES_ALERT_LAYERS 64 /* maximum number of layers that an alert lists */

/**
 * An alert about one run, raised when a flag or a rule becomes active or more
 * severe. cli/alerts/watch/follow.c fills it once, the ledger stores it in
 * columns, and a delivery formats it. Strings are borrowed, and untrusted
 * because they come from run files.
 */
typedef struct es_alert {
    const char *id;          /* "UUID/alert:TITLE@ONSET:SEVERITY" */
    const char *text;        /* description of the alert in one line, without a
                                newline */
    const char *path;        /* absolute path of the run file, or its URL */
    const char *uuid;        /* uuid of the run */
    const char *name, *arch; /* name and architecture of the run; may be NULL */
    const char *title;       /* name of the flag, such as "collapse", or of the
                                rule; no rule has the name of a flag */
    es_severity severity;
    int64_t onset, step;     /* steps at which the episode began and the alert
                                was raised */
    double value, threshold; /* value that crossed the threshold; both NaN if
                                unknown */
    int layers[ES_ALERT_LAYERS], n_layers;
    /* The ledger does not store these two members. */
    bool stops;      /* true if the rule that raised the alert stops the run */
    bool is_written; /* true if a live process is writing the run; only then
                        can the run be stopped */
} es_alert;

/**
 * Opens `path`, or creates it if it is absent or empty. Rolls back the
 * unfinished transaction of a killed watcher.
 *
 * Returns ES_OK; ES_EIO (no such folder, no permission, a full disk; the file
 * or its journal is a link, not a regular file or another user's, or the
 * journal names another file: nothing is touched); ES_EFORMAT (another
 * program's file, or its schema is not exactly that of this version: the file
 * is left untouched); ES_EVERSION; ES_ELOCKED (locked for longer than five
 * seconds); ES_ENOMEM.
 *
 * Every later call checks the files again. A call that computes for longer than
 * a second or two fails with ES_EFORMAT, because a crafted file could otherwise
 * keep it busy for hours.
 */
es_status es_ledger_open(es_ledger **out, const char *path) ES_MUST_USE;

void es_ledger_close(es_ledger *ledger); /* `ledger` may be NULL */

/**
 * Enters an alert and its deliveries, unless the ledger already has an alert
 * with its id.
 *
 *   actions  names of n_actions actions, each of which needs one delivery
 *   fresh    set to true if the alert is new
 *
 * Returns ES_OK; ES_EIO, ES_ELOCKED or ES_ENOMEM (nothing is entered);
 * ES_EFORK.
 */
es_status es_ledger_add(es_ledger *ledger, const es_alert *alert,
                        const char *const *actions, size_t n_actions,
                        bool *fresh) ES_MUST_USE;

/** One delivery of an alert. The strings belong to the ledger and are valid
 *  until its next call. */
typedef struct es_delivery {
    int64_t number;
    const char *action;
    es_alert alert;
    int64_t tries;    /* number of failed attempts to deliver */
    int64_t claimant; /* pid of the process that has claimed the delivery, or
                         0 */
} es_delivery;

/**
 * Finds the first unsettled delivery whose number is greater than `after`. The
 * delivery is either unclaimed (claimant 0) or claimed by a process that has
 * not settled it.
 *
 * Returns ES_OK; ES_DONE if there are no more; ES_EIO, ES_ELOCKED, ES_EFORK.
 */
es_status es_ledger_next(es_ledger *ledger, int64_t after,
                         es_delivery *out) ES_MUST_USE;

/**
 * Claims a delivery for process `claimant`.
 *
 *   from  current claimant: 0, or a process that is known to have exited
 *
 * Returns ES_OK if the delivery is claimed; ES_DONE if another process has
 * claimed it first; ES_EIO, ES_ELOCKED.
 */
es_status es_ledger_claim(es_ledger *ledger, int64_t number, int64_t from,
                          int64_t claimant) ES_MUST_USE;

typedef enum es_delivery_outcome {
    ES_OUTCOME_DELIVERED,
    ES_OUTCOME_AGAIN, /* the attempt has failed and will be repeated */
    ES_OUTCOME_FAILED /* the attempt has failed and will not be repeated */
} es_delivery_outcome;

/**
 * Stores the outcome of a claimed delivery. `note` is the reason of a failure,
 * or NULL. Returns ES_OK, ES_EIO, ES_ELOCKED; ES_EFORMAT if the delivery is no
 * longer in the file.
 */
es_status es_ledger_settle(es_ledger *ledger, int64_t number,
                           es_delivery_outcome outcome,
                           const char *note) ES_MUST_USE;

/**
 * Number of alerts, and numbers of deliveries that were made, are still to be
 * made, or were given up.
 */
typedef struct es_ledger_counts {
    int64_t alerts, delivered, owed, failed;
} es_ledger_counts;

es_status es_ledger_count(es_ledger *ledger, es_ledger_counts *out) ES_MUST_USE;

#endif
