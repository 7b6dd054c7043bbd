/**
 * Making the deliveries that a ledger owes. Each kind of action has a process
 * of its own, which opens the ledger, claims one delivery after the other,
 * makes it and settles it. It outlives a watcher that is killed, so that what
 * is claimed is also made, and only once.
 *
 * If that process too is killed between claim and settlement nobody knows
 * whether the delivery was made. A line is then printed, posted, and a request
 * to stop made, again; a command is not run again, but reported as failed.
 */
#ifndef ES_DELIVER_H
#define ES_DELIVER_H

#include "analyzer/base/process.h"
#include "cli/alerts/delivery/webhook.h"

typedef enum es_action {
    ES_ACTION_PRINT,
    ES_ACTION_EXEC,
    ES_ACTION_WEBHOOK,
    ES_ACTION_STOP, /* RUN.db.stop is left for the recorder of the run
                       (hooks/recorder/process), if it is still there */
    ES_N_ACTIONS
} es_action;

const char *es_action_name(es_action action); /* "print" */

typedef struct es_deliver_options {
    const char *ledger;   /* path */
    bool json;            /* print: the object instead of its line */
    char **command;       /* exec: words, NULL at their end */
    double command_limit; /* seconds */
    es_webhook webhook;
} es_deliver_options;

/** How a delivering process ended. */
enum {
    ES_DELIVER_DONE,  /* nothing that it could do is left */
    ES_DELIVER_AGAIN, /* something failed that may go well later */
    ES_DELIVER_GONE   /* standard output cannot be written */
};

/** Starts a process that makes the deliveries of this action. 0 or an errno.
 *  The caller must have no ledger and no run file open. */
int es_deliver_start(es_process *out, es_action action,
                     const es_deliver_options *options);

/** Nobody has claimed it, or a process that is gone. */
bool es_deliver_is_free(const es_delivery *delivery);

#endif
