/**
 * The run files of a watcher: detects which have changed and reads their
 * alerts. It never writes to a run file and keeps none open.
 */
#ifndef ES_RUN_FILES_H
#define ES_RUN_FILES_H

#include "cli/alerts/watch/databases.h"
#include "cli/alerts/watch/follow.h"
#include "cli/runs/tree.h"
#include "store/growth.h"

/** One run file. */
typedef struct es_watch_file {
    char *path;
    es_stamp stamp; /* when it was read */
    bool read;      /* its content is known */
    bool failed;    /* its present content could not be read */
    bool reported;  /* the failure was reported, and it has not been readable
                       since */
    bool again;     /* read it in the next round even if it does not change */
    bool waits;     /* searched for frames after the other files have been
                       read */
    int64_t judged; /* sum of the runs' last steps when it was judged */
    es_growth *growth; /* state of a fragment that is being written; otherwise
                          NULL */
    es_follow **runs;  /* (n_runs) judged by the user's rules; NULL if there
                          are none */
    size_t n_runs;
    es_follow_counts counts; /* all of its alerts */
    uint32_t *of_rules;      /* (number of the user's rules) alerts of each, or
                                NULL */
} es_watch_file;

typedef struct es_watch_files {
    char *const *roots; /* (n_roots) run files, folders and URLs; borrowed */
    size_t n_roots;
    const char *state;          /* state file, which is not a run; borrowed */
    const es_rules_file *rules; /* the user's rules; borrowed; NULL if there
                                   are none */
    es_severity least;          /* least severity that is reported; an alert
                                   whose rule stops the run is always
                                   reported */
    es_alert_handler *handler;  /* receives each alert of a file that has
                                   changed */
    void *user;
    bool at_once;           /* only one round: failures are reported at once */
    bool refused;           /* the handler failed, not a file */
    es_watch_file *counted; /* file whose alerts are being counted */
    int n_alerts;           /* alerts counted in the current run */
    bool lost; /* a folder named by the user cannot be read, which was
                  reported */

    es_watch_file *files; /* (n_files) sorted by path */
    size_t n_files;
    es_paths folders; /* folders found in the newest round */
    es_watch_databases databases;
    size_t n_failed;    /* files and folders that could not be read */
    size_t n_read;      /* files whose content is known */
    size_t n_abroad;    /* fragments that other machines write */
    size_t n_searching; /* damaged fragments that are not fully searched yet */
    size_t turn;        /* index of the file to be searched first */
    double judging;     /* processor seconds of this round spent on judging
                           fragments that have only grown */
} es_watch_files;

/**
 * Runs one round: finds all files, including new ones, and reads those that
 * have changed. A file that cannot be read may be a copy in progress. It is
 * reported on standard error only after it has failed for two rounds and three
 * seconds, and once until it can be read again.
 *
 * Only the appended part of a fragment that is being written is read, as long
 * as it contains only samples and no user rule judges them. Such a fragment is
 * checked in each round, because its modification time may be stale on a shared
 * file system. Once its writer has been silent for half a minute and is dead,
 * its runs are judged as ended. Judging a fragment again may be postponed to
 * later rounds, so that it does not delay the alerts of others. Nor does a
 * fragment with many trailing bytes that are not frames: a round searches a
 * part of them, after all other files, and the next round continues there.
 *
 * An alert may be reported more than once, for example after a file has
 * changed: its id is the same. A run in which the recorder left no alert is
 * judged here by the same rules, which gives the same ids; if it is being
 * written, this happens now and then. With the user's rules every run is judged
 * as it grows; if the rules change thresholds of flags, the recorder's alerts
 * are ignored.
 *
 * If a folder named by the user cannot be read, the first round fails; later
 * rounds report it and read the others.
 *
 * ES_OK; ES_EIO (that folder); ES_ENOMEM; the handler's result, in which case
 * the file is read again.
 */
es_status es_watch_files_read(es_watch_files *watch) ES_MUST_USE;

void es_watch_files_close(es_watch_files *watch);

#endif
