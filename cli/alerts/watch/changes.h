/**
 * Notices changes of run files with inotify, for programs that watch folders.
 * Where inotify is unavailable, the callers search again only after their poll
 * interval.
 */
#ifndef ES_WATCH_CHANGES_H
#define ES_WATCH_CHANGES_H

#include "cli/alerts/watch/run_files.h"

typedef struct es_watch_changes {
    int fd;            /* descriptor of inotify, which becomes readable after a
                          change; -1 if inotify is unavailable */
    int newest_folder; /* highest watch descriptor that inotify gave to a
                          folder */
    bool has_new_folder; /* true after a folder was added: another search must
                            then find the files that appeared in it before it
                            was watched; the caller resets this */
    bool reported;       /* true after a folder that cannot be watched was
                            reported */
} es_watch_changes;

/** Opens inotify. A failure is reported on standard error. */
void es_watch_changes_open(es_watch_changes *changes);

/** Watches the folders that the caller's last search has found, and the folder
 *  of each file that the user named, even if that search has not read the
 *  file. */
void es_watch_changes_follow(es_watch_changes *changes,
                             const es_watch_files *files);

/** Reads the pending events. Returns true if any event concerns a run file or a
 *  folder. */
bool es_watch_changes_read(const es_watch_changes *changes);

void es_watch_changes_close(es_watch_changes *changes);

#endif
