/** `entropy-scan watch`: reads run files round after round, enters what it
 *  finds into a ledger, and has it delivered. */
#ifndef ES_WATCHER_H
#define ES_WATCHER_H

#include "cli/alerts/delivery/deliver.h"
#include "cli/alerts/watch/run_files.h"

typedef struct es_watcher_options {
    char **roots; /* (n_roots) run files and folders */
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
    es_severity highest;     /* of the alerts in the files */
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

/** `--textfile`: what a watcher knows, as OpenMetrics text for a collector.
 *  Writes the file anew, whole or not at all. ES_OK or ES_EIO, ES_ENOMEM. */
es_status es_metrics_write(const char *path, const es_watch_files *files,
                           const es_ledger_counts *counts) ES_MUST_USE;

#define ES_STATE_NAME_MAX 72 /* bytes */

/**
 * The name of the state of a folder: readable at its beginning, and a hash of
 * host and path, both of which are the folder's identity. Device and inode are
 * not: on network and layered file systems, and after a reboot, the same folder
 * has others, and all would be reported again.
 *
 *   folder  absolute, without links
 */
void es_state_name(char out[ES_STATE_NAME_MAX], const char *host,
                   const char *folder);

/**
 * Chooses where a watcher keeps what it has reported, if --state does not say,
 * by the first of what is watched, a folder or a file in one, and makes the
 * folders that the state needs, for this user alone. They are below
 * XDG_STATE_HOME or, if that is no absolute path, below HOME/.local/state: who
 * may write in a watched folder must not be able to prepare a state.
 *
 *   out  its path, to be freed; the file itself need not be there
 *
 * If it is not, and one of an earlier version lies in the watched folder, that
 * is reported on standard error: it is not used unless --state names it.
 *
 * ES_OK; ES_EUSAGE (neither variable is set); ES_EIO (no such folder; the
 * state's cannot be made, or is open to others); ES_ENOMEM.
 */
es_status es_state_choose(char **out, const char *root) ES_MUST_USE;

#endif
