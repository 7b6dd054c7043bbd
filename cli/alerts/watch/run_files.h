/**
 * Detects which run files of a watcher have changed and reads their alerts.
 * Never writes to a run file and keeps no file open.
 */
#ifndef ES_RUN_FILES_H
#define ES_RUN_FILES_H

#include "cli/alerts/watch/databases.h"
#include "cli/alerts/watch/follow.h"
#include "cli/runs/tree.h"
#include "store/growth.h"

/** A watched run file and what the watcher knows about it. */
typedef struct es_watch_file {
    char *path;
    es_stamp stamp;    /* stamp of the file when it was read */
    bool read;         /* true if the last attempt to read the file succeeded */
    bool failed;       /* true if the current content could not be read */
    bool reported;     /* true from the report of a failure until the file is
                          readable again */
    bool again;        /* true if the next round must read the file even without
                          a change */
    bool waits;        /* true if the search for intact frames in this damaged
                          fragment must wait until the other files are read */
    es_growth *growth; /* state of a fragment that is being written; NULL for
                          other files */
    es_follow **runs;  /* state of the evaluation of each of the n_runs runs */
    size_t n_runs;
    es_follow_counts counts; /* number of all alerts of the file by kind and
                                severity */
    uint32_t *of_rules;      /* number of alerts of each of the user's rules;
                                NULL if the user has given no rules */
} es_watch_file;

/** Callbacks about the files themselves, for a program that shows runs. */
typedef struct es_watch_observer {
    void *user;
    /**
     * Called after the runs of a new or changed file were evaluated. `reader`
     * is open during the call. A failure is handled like an unreadable file.
     */
    es_status (*read)(void *user, const char *path, es_reader *reader);
    /** Called if a file has become unreadable; es_message() is the reason. */
    void (*failed)(void *user, const char *path);
    /** Called if a file was removed. */
    void (*gone)(void *user, const char *path);
} es_watch_observer;

typedef struct es_watch_files {
    char *const *roots; /* watched run files, folders and URLs, n_roots in
                           total; borrowed */
    size_t n_roots;
    const char *state;          /* path of the watcher's state file, which is
                                   skipped; borrowed */
    const es_rules_file *rules; /* the user's rules or NULL; borrowed */
    es_severity least;          /* lowest severity that is reported; an alert
                                   whose rule stops the run is always
                                   reported */
    es_alert_handler *handler;  /* receives each alert of a file that has
                                   changed */
    void *user;
    const es_watch_observer *observer; /* NULL without an observer; borrowed */
    bool at_once;                      /* true if only one round is run;
                                          failures are then reported at once */
    bool refused; /* true if the last failure came from the handler, not from
                     reading a file */
    bool lost;    /* true if a folder named by the user is unreadable and this
                     has been reported */

    es_watch_file *files; /* the n_files watched files, sorted by path */
    size_t n_files;
    es_paths folders; /* folders found in the newest round */
    es_watch_databases databases;
    size_t n_failed;    /* number of files and folders that could not be read */
    size_t n_read;      /* number of files whose current content has been
                           read */
    size_t n_abroad;    /* number of fragments that other machines are
                           writing */
    size_t n_searching; /* number of damaged fragments whose search for intact
                           frames is not complete */
    size_t turn;        /* index of the file with which the next round's search
                           begins */
} es_watch_files;

/**
 * Runs one round: finds all files, including new ones, and reads those that
 * have changed. An unreadable file may be an incomplete copy. The file is
 * therefore reported on standard error only after it has been unreadable for
 * two rounds and three seconds, and is reported again only if it has been
 * readable in between.
 *
 * The flags and rules of every run are evaluated as the run grows: each reading
 * continues where the last one ended. Only the appended part of a fragment that
 * is being written is read, as long as this part contains only samples. Such a
 * fragment is checked in each round, because its modification time may be stale
 * on a shared file system. Once its writer has been silent for half a minute
 * and is dead, its runs are evaluated as ended. A fragment may end in many
 * bytes that are not frames; each round searches a part of these bytes, after
 * all other files have been read, and the next round continues there.
 *
 * An alert may be reported more than once, with the same id, for example after
 * a run was replaced.
 *
 * If a folder named by the user cannot be read, the first round fails; later
 * rounds report the folder and read the others.
 *
 * Returns ES_OK, ES_ENOMEM, or ES_EIO if a folder is unreadable in the first
 * round. If the handler fails, returns the handler's result, and the file is
 * read again in the next round.
 */
es_status es_watch_files_read(es_watch_files *watch) ES_MUST_USE;

void es_watch_files_close(es_watch_files *watch);

#endif
