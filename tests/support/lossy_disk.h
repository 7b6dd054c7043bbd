/** A disk that loses power: SQLite's default VFS in this process, which
 *  remembers what is written to a file and its log, and what is synced. */
#ifndef ES_TESTS_LOSSY_DISK_H
#define ES_TESTS_LOSSY_DISK_H

#include <stddef.h>
#include <stdint.h>

/** From now on SQLite's files that are opened through the default VFS and
 *  named `path` or "`path`-wal" are remembered; what lies at `path` is on the
 *  disk. The draws are those of chance.h. */
void lossy_disk_begin(const char *path);

/** No file is remembered any longer, and all is forgotten. */
void lossy_disk_end(void);

/** Writes, syncs, truncations and removals so far. */
size_t lossy_disk_n_steps(void);

/**
 * Leaves at `path`, and beside it, what a disk may have that loses power after
 * so many steps. Of each block of 512 bytes that was written since the last
 * sync of its file it has the old bytes, the new ones, zeros or others; of
 * truncations and removals the first ones. The first block of the file itself
 * is written as a whole or not at all, and one that was overwritten by what it
 * had stays. Beside it there may be an index of the log with any bytes.
 */
void lossy_disk_leave(const char *path, size_t n_steps);

#endif
