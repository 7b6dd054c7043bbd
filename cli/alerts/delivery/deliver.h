/**
 * Makes the pending deliveries of a ledger. Each kind of action has a separate
 * process, which opens the ledger, claims one delivery after the other, makes
 * it and records its outcome. The process continues if the watcher is killed,
 * so that each claimed delivery is made exactly once.
 *
 * If the delivering process is killed before it records the outcome, it is
 * unknown whether the delivery was made. A line is then printed again, a
 * webhook is posted again, and a request to stop is made again; a command is
 * not run again but reported as failed.
 */
#ifndef ES_DELIVER_H
#define ES_DELIVER_H

#include "analyzer/base/process.h"
#include "cli/alerts/delivery/webhook.h"

typedef enum es_action {
    ES_ACTION_PRINT,
    ES_ACTION_EXEC,
    ES_ACTION_WEBHOOK,
    ES_ACTION_STOP, /* creates RUN.db.stop, which makes the run's recorder
                       stop the training (hooks/recorder/process) */
    ES_N_ACTIONS
} es_action;

const char *es_action_name(es_action action); /* Returns the name of the
                                                 action, for example "print". */

typedef struct es_deliver_options {
    const char
        *ledger;    /* path of the alert ledger, the watcher's SQLite file */
    bool json;      /* action print: true to print the alert as JSON
                       instead of text */
    char **command; /* action exec: words of the command to run,
                       terminated by NULL */
    double command_limit; /* exec: seconds */
    es_webhook webhook;
} es_deliver_options;

/** Exit codes of a process that delivers alerts. */
enum {
    ES_DELIVER_DONE,  /* all alerts pending for the action were delivered */
    ES_DELIVER_AGAIN, /* a delivery failed but may succeed later */
    ES_DELIVER_GONE   /* standard output can no longer be written */
};

/**
 * Starts a process that delivers the pending alerts by means of `action`. The
 * caller must not have an alert ledger or a run file open. Returns 0 or an
 * errno.
 */
int es_deliver_start(es_process *out, es_action action,
                     const es_deliver_options *options);

/**
 * Returns true if no process has claimed the delivery, or the claiming process
 * has ended.
 */
bool es_deliver_is_free(const es_delivery *delivery);

#endif
