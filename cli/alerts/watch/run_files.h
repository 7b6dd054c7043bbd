/**
 * The run files that a watcher watches: which have changed, and what alerts
 * are in those that have. Nothing is ever written into a run file, and none
 * stays open.
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
    bool read;      /* what is in it is known */
    bool failed;    /* it could not be read, as it is */
    bool reported;  /* as failed, since it could be read last */
    bool again;     /* it is to be read even if it does not change */
    bool waits;     /* until the others are read: it is searched for frames */
    int64_t judged; /* sum of the last steps when we judged it */
    es_growth *growth; /* of a fragment that is written; NULL: no such */
    es_follow **runs;  /* (n_runs) by the user's rules; NULL: there are none */
    size_t n_runs;
    es_follow_counts counts; /* of all of its alerts */
    uint32_t *of_rules;      /* (n of the user's rules) the same, or NULL */
} es_watch_file;

typedef struct es_watch_files {
    char *const *roots; /* (n_roots) run files, folders and URLs; borrowed */
    size_t n_roots;
    const char *state;          /* a file that is no run; borrowed */
    const es_rules_file *rules; /* the user's; borrowed; NULL: none */
    es_severity least;          /* what is handed on; what a rule wants to stop
                                   its run is in any case */
    es_alert_handler *handler;  /* of each alert of a file that has changed */
    void *user;
    bool at_once;           /* one round: a failure is reported at once */
    bool refused;           /* the handler failed, not a file */
    es_watch_file *counted; /* whose alerts are counted now */
    int n_alerts;           /* those of its run */
    bool lost; /* a folder of the user's cannot be read, which was reported */

    es_watch_file *files; /* (n_files) by path */
    size_t n_files;
    es_paths folders; /* those of the newest round */
    es_watch_databases databases;
    size_t n_failed;    /* files and folders that could not be read */
    size_t n_read;      /* files whose content is known */
    size_t n_abroad;    /* fragments that other machines write */
    size_t n_searching; /* damaged fragments of which more is to be searched */
    size_t turn;        /* which of them is first */
    double judging; /* processor seconds of this round that went into judging
                       fragments which have only grown */
} es_watch_files;

/**
 * One round: finds all of the files, new ones included, and reads those that
 * have changed. A file that cannot be read is reported on standard error, once
 * until it can, and not before it has stayed so for two rounds and three
 * seconds: it may be being copied.
 *
 * Of a fragment that is written only what was appended is read, as long as that
 * is samples and nobody judges them here; it is looked at in each round, for
 * its times may be old where hosts share it. Once its writer is silent for half
 * a minute, and dead, its runs are judged as ended.
 * That it is to be judged again may wait for later rounds: the alerts of others
 * do not wait for that. Nor do they for a fragment that ends with many bytes
 * that are no frames: of those a round searches some, after all other files,
 * and the next one goes on there.
 *
 * An alert may be handed on more than once, as after a file's change: its id
 * is the same. A run in which the recorder left no alert is judged here by the
 * same rules, which gives the same ids: one that is being written, now and
 * then. By the user's rules every run is judged as it grows; where these have
 * other thresholds for the flags, the recorder's alerts are none.
 *
 * A folder named by the user that cannot be read ends the first round; later it
 * is reported, and the others are read.
 *
 * ES_OK; ES_EIO (that folder); ES_ENOMEM; what the handler returned: that file
 * will be read again.
 */
es_status es_watch_files_read(es_watch_files *watch) ES_MUST_USE;

void es_watch_files_close(es_watch_files *watch);

#endif
