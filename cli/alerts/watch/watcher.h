/** `entropy-scan watch`: reads run files round after round, enters what it
 *  finds into a ledger, and has it delivered. */
#ifndef ES_WATCHER_H
#define ES_WATCHER_H

#include "cli/alerts/delivery/deliver.h"
#include "cli/alerts/rules/rules_file.h"

typedef struct es_watcher_options {
    const char *const *roots; /* (n_roots) run files and folders */
    size_t n_roots;
    const es_rules_file *rules; /* further ones, borrowed; NULL: none */
    es_severity least;          /* what is delivered */
    es_severity stop_at;        /* what stops a run; NONE: nothing does */
    bool once;                  /* one round, its deliveries, and the end */
    double poll;          /* seconds between rounds that no change causes */
    const char *textfile; /* NULL: none */
    es_deliver_options deliver;
} es_watcher_options;

typedef struct es_watcher_result {
    bool alarms; /* an alert of severity error or above is in the files */
    size_t n_read, n_failed; /* files */
    int64_t n_given_up;      /* deliveries, since the watcher began */
    int64_t n_owed;          /* that it could make, and nobody is about to */
    bool no_textfile;        /* the newest one could not be written */
} es_watcher_result;

/**
 * Returns when the one round is over, or when nothing can be delivered any
 * more: ES_OK, ES_EIO (standard output, a folder at the beginning, the
 * ledger), ES_EFORMAT, ES_EVERSION, ES_ELOCKED (of the ledger), ES_ENOMEM. The
 * message has been printed.
 *
 * Of its own time it takes a seventh of one core at most, after the first
 * round: the more files change, the longer it rests between two.
 */
es_status es_watcher_run(es_watcher_result *out,
                         const es_watcher_options *options) ES_MUST_USE;

#endif
