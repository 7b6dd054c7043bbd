/** The temporary files of es_outfile, and their removal after a process was
 *  killed before it could rename or remove them. */
#ifndef ES_LEFTOVER_H
#define ES_LEFTOVER_H

#include <stdbool.h>

#define ES_TEMPORARY_PREFIX                                                    \
    ".entropy-scan." /* followed by this many random letters: */
#define ES_TEMPORARY_N 6
#define ES_TEMPORARY_LETTERS "abcdefghijklmnopqrstuvwxyz012345"

/** Returns true if `file`, a name within a folder, is that of a temporary
 *  file. */
bool es_leftover_is_name(const char *file);

/** Returns true if an open file may be removed: a regular file of this user
 *  with a single name. Does not check whether another process has it open. */
bool es_leftover_is_ours(int fd);

/** Removes a temporary file, SQLite's companions of it and the writer's lock
 *  from the open folder `folder`, or AT_FDCWD. Missing files are no error. */
void es_leftover_unlink(int folder, const char *file);

/**
 * Removes from a folder the temporary files that no process has open any more,
 * with SQLite's companions and the writer's lock. A process that writes a
 * temporary file has it open from its creation until it has its final name.
 *
 * Nothing else is touched: the name matches exactly, es_leftover_is_ours holds,
 * the kernel grants a lease, which it refuses if any process has the file open,
 * and no other machine writes to the file system. Failures are silent; the next
 * call tries again.
 *
 * A thread that writes many files into one folder cleans it once. 4 ms for a
 * folder of 10,000 files.
 */
void es_leftover_remove(const char *folder);

#endif
