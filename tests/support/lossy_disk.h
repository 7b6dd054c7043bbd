/** Simulates a disk that loses power. An SQLite VFS, which becomes the default
 *  VFS of this process, records the writes and syncs of a file and of its
 *  log. */
#ifndef ES_TESTS_LOSSY_DISK_H
#define ES_TESTS_LOSSY_DISK_H

#include <stddef.h>
#include <stdint.h>

/**
 * From now on, records all changes that SQLite makes to `path` and "`path`-wal"
 * through the default VFS. The current contents of `path` are treated as
 * synced. Random choices use chance.h.
 */
void lossy_disk_begin(const char *path);

/** Stops recording the writes, and discards the recorded writes. */
void lossy_disk_end(void);

/** Returns the number of writes, syncs, truncations and removals so far. */
size_t lossy_disk_n_steps(void);

/**
 * Writes to `path`, and next to it, the files that a disk may contain if it
 * loses power after n_steps steps. Each block of 512 bytes written since the
 * last sync of its file has its old bytes, its new bytes, zeros or random
 * bytes; of the truncations and removals since then, only the first ones have
 * taken effect. The first block of the run file is written completely or not at
 * all, and a block that was overwritten with its old contents is unchanged. An
 * index of the log with random bytes may exist, too.
 */
void lossy_disk_leave(const char *path, size_t n_steps);

#endif
