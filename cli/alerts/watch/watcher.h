/**
 * Implements `entropy-scan watch`: polls run files, enters their alerts into a
 * ledger, and starts the processes that deliver them.
 */
#ifndef ES_WATCHER_H
#define ES_WATCHER_H

#include "cli/alerts/delivery/deliver.h"
#include "cli/alerts/watch/run_files.h"

typedef struct es_watcher_options {
    char **roots; /* (n_roots) watched run files, folders and URLs */
    size_t n_roots;
    const es_rules_file *rules; /* the user's rules or NULL; borrowed */
    es_severity least;          /* lowest severity of the alerts that are
                                   delivered */
    es_severity stop_at;        /* lowest severity of an alert that stops its
                                   run; NONE if no severity does */
    bool once;                  /* true to poll the files only once, deliver
                                   the alerts and end */
    double poll;                /* maximum time between two polls in seconds */
    const char *textfile;       /* path of the metrics file; NULL if no metrics
                                   are written */
    es_deliver_options deliver;
} es_watcher_options;

typedef struct es_watcher_result {
    es_severity highest;     /* highest severity of the alerts in the files */
    size_t n_read, n_failed; /* numbers of readable and of unreadable files */
    int64_t n_given_up;      /* number of deliveries given up since the
                                watcher started */
    int64_t n_owed;          /* number of pending deliveries that no process has
                                claimed */
    bool no_textfile;        /* true if the newest metrics file could not be
                                written */
} es_watcher_result;

/**
 * Runs a watcher until its only poll is over (`once`) or standard output can
 * no longer be written.
 *
 * Returns ES_OK; ES_EIO if standard output or the ledger fails, or if a folder
 * is unreadable in the first poll; ES_EFORMAT, ES_EVERSION or ES_ELOCKED if
 * the ledger cannot be used; ES_ENOMEM. The message of an error has already
 * been printed.
 *
 * After the first poll the watcher uses at most a seventh of one core, because
 * it rests longer between two polls if more files change.
 */
es_status es_watcher_run(es_watcher_result *out,
                         const es_watcher_options *options) ES_MUST_USE;

/**
 * Implements `--textfile`: writes the watcher's counts as OpenMetrics text for
 * a collector. The file is replaced as a whole or not at all. Returns ES_OK,
 * ES_EIO or ES_ENOMEM.
 */
es_status es_metrics_write(const char *path, const es_watch_files *files,
                           const es_ledger_counts *counts) ES_MUST_USE;

#define ES_STATE_NAME_MAX 72 /* bytes */

/**
 * Composes the name of the state file for a watched folder from the folder's
 * name and a hash of host and path. Device and inode numbers are unsuitable: on
 * network and layered file systems they change on a reboot, and all alerts
 * would then be reported again.
 *
 *   folder  absolute path without symbolic links
 */
void es_state_name(char out[ES_STATE_NAME_MAX], const char *host,
                   const char *folder);

/**
 * Chooses the state file of a watcher without --state. Its name depends on the
 * first watched folder, or on the folder of the first watched file. Creates the
 * folders that will contain the file, accessible to this user only. These
 * folders are below XDG_STATE_HOME or, if that is not an absolute path, below
 * HOME/.local/state, so that a user who may write to a watched folder cannot
 * plant a forged state file.
 *
 *   out  path of the state file, which need not exist; the caller frees it
 *
 * If the state file does not exist but the watched folder contains a state file
 * of an earlier version, a note on standard error explains that the old file is
 * used only if --state names it.
 *
 * Returns ES_OK; ES_EUSAGE if neither XDG_STATE_HOME nor HOME is set; ES_EIO if
 * `root` does not exist, or if the folder of the state file cannot be created
 * or is writable by other users; ES_ENOMEM.
 */
es_status es_state_choose(char **out, const char *root) ES_MUST_USE;

#endif
