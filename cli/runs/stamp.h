/** How a run file looks from outside, without opening it. */
#ifndef ES_STAMP_H
#define ES_STAMP_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/** As long as it does not change nothing was written to the file. Zeros: there
 *  is none. */
typedef struct es_stamp {
    dev_t device;
    ino_t inode;
    off_t size, log_size; /* of the file, and of the log beside it, which is
                             not there while it is empty */
    struct timespec changed, log_changed;
    struct timespec marked, log_marked; /* by the system, which lets nobody set
                                           it: st_ctime */
} es_stamp;

es_stamp es_stamp_of(const char *path);

bool es_stamp_same(const es_stamp *a, const es_stamp *b);

/** The file was written to less than so many seconds ago: it may be being
 *  copied, or, within a tick of the system's coarse clock, have been written to
 *  again with the same stamp. */
bool es_stamp_is_fresh(const es_stamp *stamp, double seconds);

#endif
