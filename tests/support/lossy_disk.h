/** Simulates a disk that loses power: an SQLite VFS, the default in this
 *  process, records the writes and syncs of a file and its log. */
#ifndef ES_TESTS_LOSSY_DISK_H
#define ES_TESTS_LOSSY_DISK_H

#include <stddef.h>
#include <stdint.h>

/**
 * Records from now on all changes of `path` and "`path`-wal" by files that
 * SQLite opens through the default VFS; the current contents of `path` are on
 * the disk. Random choices use chance.h.
 */
void lossy_disk_begin(const char *path);

/** Stops recording, and discards the record. */
void lossy_disk_end(void);

/** Returns the number of writes, syncs, truncations and removals so far. */
size_t lossy_disk_n_steps(void);

/**
 * Writes to `path`, and next to it, the files that a disk may contain if it
 * loses power after n_steps steps. Each block of 512 bytes written since the
 * last sync of its file has its old bytes, its new bytes, zeros or random
 * bytes; only the first truncations and removals survive. The first block of
 * the run file is written whole or not at all, and a block that was overwritten
 * with its old contents is unchanged. An index of the log with random bytes may
 * be left, too.
 */
void lossy_disk_leave(const char *path, size_t n_steps);

#endif
