/** Names the temporary files of es_outfile, and removes those that a killed
 *  process could not rename or remove. */
#ifndef ES_LEFTOVER_H
#define ES_LEFTOVER_H

#include <stdbool.h>

/* Beginning of a temporary file's name; ES_TEMPORARY_N random characters
 * follow. */
#define ES_TEMPORARY_PREFIX ".entropy-scan."
#define ES_TEMPORARY_N 6
#define ES_TEMPORARY_LETTERS "abcdefghijklmnopqrstuvwxyz012345"

/** Returns true if `file`, a name without a folder, has the form of a temporary
 *  file's name. */
bool es_leftover_is_name(const char *file);

/**
 * Returns true if an open file may be removed: it is a regular file of this
 * user and has no other hard link. Does not check whether another process has
 * the file open.
 */
bool es_leftover_is_ours(int fd);

/**
 * Removes a temporary file, SQLite's companion files and the writer's lock.
 * `folder` is a descriptor of their folder, or AT_FDCWD. Missing files are not
 * an error.
 */
void es_leftover_unlink(int folder, const char *file);

/**
 * Removes from a folder the temporary files that no process has open, together
 * with SQLite's companion files and the writer's lock. A process that writes a
 * temporary file keeps it open until the file has its final name.
 *
 * A file is removed only if all of these conditions are met: its name has
 * exactly the form of a temporary file's name; es_leftover_is_ours returns
 * true; the kernel grants a lease (it refuses if any process has the file
 * open); and no other machine can write to the file system. Failures are not
 * reported; the next call tries again.
 *
 * A thread that writes many files into one folder cleans the folder only once.
 * Cleaning takes 4 ms for a folder of 10,000 files.
 */
void es_leftover_remove(const char *folder);

#endif
