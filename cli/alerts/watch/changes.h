/**
 * Notices changes of run files with inotify, for programs that watch folders.
 * Where inotify is unavailable, only the caller's poll interval starts rounds.
 */
#ifndef ES_WATCH_CHANGES_H
#define ES_WATCH_CHANGES_H

#include "cli/alerts/watch/run_files.h"

typedef struct es_watch_changes {
    int fd;            /* descriptor of inotify, which becomes readable after a
                          change; -1 if inotify is unavailable */
    int newest_folder; /* highest watch number that inotify gave to a folder */
    bool has_new_folder; /* true after a folder was added: another round must
                            then find the files that appeared in it before it
                            was watched; the caller resets this */
    bool reported;       /* true after a folder that cannot be watched was
                            reported */
} es_watch_changes;

/** Opens inotify. A failure is reported on standard error. */
void es_watch_changes_open(es_watch_changes *changes);

/** Watches the folders that the newest round has found, and the folder of each
 *  file that the user named, even if the round has not read that folder. */
void es_watch_changes_follow(es_watch_changes *changes,
                             const es_watch_files *files);

/** Reads the pending events. Returns true if any event concerns a run file or a
 *  folder. */
bool es_watch_changes_read(const es_watch_changes *changes);

void es_watch_changes_close(es_watch_changes *changes);

#endif
