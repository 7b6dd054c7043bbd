/**
 * The temporary files of es_outfile, and what is left of them when a process
 * is killed before it could rename or remove its own.
 */
#ifndef ES_LEFTOVER_H
#define ES_LEFTOVER_H

#include <stdbool.h>

#define ES_TEMPORARY_PREFIX ".entropy-scan." /* and so many of these: */
#define ES_TEMPORARY_N 6
#define ES_TEMPORARY_LETTERS "abcdefghijklmnopqrstuvwxyz012345"

/** True if a file in a folder is called as a temporary file. */
bool es_leftover_is_name(const char *file);

/** True if an open file is one of ours: a regular file of this user, under one
 *  name. Says nothing about who else has it open. */
bool es_leftover_is_ours(int fd);

/** Removes a temporary file, and what SQLite and the writer's lock put beside
 *  it, from an open folder, or AT_FDCWD. What is not there is no matter. */
void es_leftover_unlink(int folder, const char *file);

/**
 * Removes from a folder the temporary files that no process has open any more,
 * and what SQLite and the writer's lock put beside them. Whoever writes one has
 * it open from its creation until it has its final name.
 *
 * Nothing else is touched: the name is exact, the file es_leftover_is_ours, the
 * kernel grants a lease that it would refuse if anybody had the file open, and
 * the file system is one that other machines do not write. Failures are
 * silent: the next one tries again.
 *
 * Once a folder: a thread that writes many files into one reads it once.
 * 4 ms for a folder of 10,000 files.
 */
void es_leftover_remove(const char *folder);

#endif
