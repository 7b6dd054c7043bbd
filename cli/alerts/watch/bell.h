/**
 * What wakes a watcher before its next look is due: a change in a folder
 * (inotify). It only says that something happened; what, the look finds. Where
 * there is no inotify, or its limits are reached, the looks come by the clock.
 */
#ifndef ES_BELL_H
#define ES_BELL_H

#include "cli/alerts/watch/look.h"

/** A file descriptor to poll, closed by the caller; -1: there is no inotify,
 *  which is told of on standard error. */
int es_bell_open(void);

/**
 * Watches the folders of the newest look, and those of its files.
 *
 *   told  written: the first failure has been told of on standard error
 */
void es_bell_watch(int bell, const es_look *look, bool *told);

/** Takes what is there to read; true if it concerns a run file or a folder. */
bool es_bell_rings(int bell);

#endif
