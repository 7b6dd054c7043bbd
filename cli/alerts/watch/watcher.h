/**
 * `entropy-scan watch`: reads run files round after round, enters their alerts
 * into a ledger, and has them delivered.
 */
#ifndef ES_WATCHER_H
#define ES_WATCHER_H

#include "cli/alerts/delivery/deliver.h"
#include "cli/alerts/watch/run_files.h"

typedef struct es_watcher_options {
    char **roots; /* (n_roots) run files, folders and URLs */
    size_t n_roots;
    const es_rules_file *rules; /* the user's rules, borrowed; NULL if there
                                   are none */
    es_severity least;          /* least severity that is delivered */
    es_severity stop_at;        /* least severity that stops a run; NONE:
                                   never */
    bool once;                  /* run one round and its deliveries, then
                                   return */
    double poll;                /* most seconds between two rounds */
    const char *textfile;       /* NULL: not written */
    es_deliver_options deliver;
} es_watcher_options;

typedef struct es_watcher_result {
    es_severity highest;     /* highest severity of the alerts in the files */
    size_t n_read, n_failed; /* number of files */
    int64_t n_given_up;      /* deliveries given up since the watcher began */
    int64_t n_owed;          /* deliveries that it could make and no process
                                has claimed */
    bool no_textfile;        /* the newest textfile could not be written */
} es_watcher_result;

/**
 * Runs a watcher. Returns when the only round is over or when nothing can be
 * delivered any more: ES_OK, ES_EIO (standard output, a folder at the
 * beginning, the ledger), ES_EFORMAT, ES_EVERSION, ES_ELOCKED (of the ledger),
 * ES_ENOMEM. The message has been printed.
 *
 * After the first round it uses at most a seventh of one core: the more files
 * change, the longer it rests between two rounds.
 */
es_status es_watcher_run(es_watcher_result *out,
                         const es_watcher_options *options) ES_MUST_USE;

/**
 * `--textfile`: writes the watcher's counts as OpenMetrics text for a
 * collector. Replaces the file as a whole or not at all. ES_OK; ES_EIO;
 * ES_ENOMEM.
 */
es_status es_metrics_write(const char *path, const es_watch_files *files,
                           const es_ledger_counts *counts) ES_MUST_USE;

#define ES_STATE_NAME_MAX 72 /* bytes */

/**
 * Makes the name of a folder's state file: a readable beginning, and a hash of
 * host and path, which identify the folder. Device and inode would not do: on
 * network and layered file systems, and after a reboot, the same folder has
 * others, and all alerts would be reported again.
 *
 *   folder  absolute, without links
 */
void es_state_name(char out[ES_STATE_NAME_MAX], const char *host,
                   const char *folder);

/**
 * Chooses the state file of a watcher without --state from the first watched
 * folder, or the folder of the first watched file, and makes the folders that
 * the file needs, accessible to this user only. They are below XDG_STATE_HOME
 * or, if that is not an absolute path, below HOME/.local/state: a user who may
 * write to a watched folder must not be able to prepare a state.
 *
 *   out  path of the file, which need not exist; the caller frees it
 *
 * If the file does not exist but the watched folder contains the state of an
 * earlier version, a note on standard error says that it is used only if
 * --state names it.
 *
 * ES_OK; ES_EUSAGE (neither variable is set); ES_EIO (no such folder; the
 * folder of the state cannot be made, or is open to other users); ES_ENOMEM.
 */
es_status es_state_choose(char **out, const char *root) ES_MUST_USE;

#endif
