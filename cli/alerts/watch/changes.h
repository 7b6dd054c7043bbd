/**
 * What wakes a watcher before its next round is due: a change in a folder
 * (inotify). It only says that something happened; what, the round finds.
 * Without inotify, or beyond its limits, rounds come by the clock.
 */
#ifndef ES_CHANGES_H
#define ES_CHANGES_H

#include "cli/alerts/watch/run_files.h"

/** A file descriptor to poll, closed by the caller; -1: there is no inotify,
 *  which is reported on standard error. */
int es_changes_open(void);

/**
 * Watches the folders of the newest round, and those of its files.
 *
 *   reported  written: the first failure was reported on standard error
 */
void es_changes_watch(int bell, const es_watch_files *files, bool *reported);

/** Takes what is there to read; true if it concerns a run file or a folder. */
bool es_changes_read(int bell);

#endif
