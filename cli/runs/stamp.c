/* Stamps of run files, for the live view and for `watch`: the log beside a file
   (-wal) belongs to its stamp, for a writer appends there first. */
#include "cli/runs/stamp.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

es_stamp es_stamp_of(const char *path)
{
    char log[PATH_MAX];
    struct stat about;
    es_stamp stamp = {0};
    if (stat(path, &about) == 0) {
        stamp.device = about.st_dev;
        stamp.inode = about.st_ino;
        stamp.size = about.st_size;
        stamp.changed = about.st_mtim;
        stamp.marked = about.st_ctim;
    }
    if (snprintf(log, sizeof log, "%s-wal", path) < (int)sizeof log &&
        stat(log, &about) == 0 && about.st_size > 0) {
        stamp.log_size = about.st_size;
        stamp.log_changed = about.st_mtim;
        stamp.log_marked = about.st_ctim;
    }
    return stamp;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool just_now(struct timespec time, double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double ago = (double)(now.tv_sec - time.tv_sec) +
                 1e-9 * (double)(now.tv_nsec - time.tv_nsec);
    return ago > -seconds && ago < seconds;
}

bool es_stamp_is_fresh(const es_stamp *stamp, double seconds)
{
    return just_now(stamp->marked, seconds) ||
           just_now(stamp->log_marked, seconds);
}

bool es_stamp_same(const es_stamp *a, const es_stamp *b)
{
    return a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->log_size == b->log_size &&
           same_time(a->changed, b->changed) &&
           same_time(a->log_changed, b->log_changed) &&
           same_time(a->marked, b->marked) &&
           same_time(a->log_marked, b->log_marked);
}
