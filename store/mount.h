/**
 * Detects file systems to which several machines may write. SQLite's
 * write-ahead log is unsafe on such a file system: its index is shared memory,
 * which two hosts do not share, although reader and writer may run on different
 * hosts.
 */
#ifndef ES_MOUNT_H
#define ES_MOUNT_H

#include "analyzer/base/status.h"

#define ES_MOUNT_TYPE_SIZE 32
/* Value of file system types that have no known magic number. */
#define ES_MOUNT_UNKNOWN 0

/**
 * Environment variable that contains the path of a file that is read instead of
 * /proc/self/mountinfo. Tests use it to simulate a network file system.
 */
#define ES_MOUNTINFO_VARIABLE "ENTROPY_MOUNTINFO"

/**
 * Finds out whether a folder is on a file system that several hosts share.
 * These are nfs, lustre, gpfs, beegfs, ceph, 9p, smb and the like; anything
 * mounted through fuse except a local disk (fuseblk); and an overlay whose
 * upper folder is on one of these. An unknown file system counts as local.
 *
 *   type       set to the name of the file system; "" if it is local
 *   mountinfo  text of /proc/self/mountinfo, proc(5); if it is NULL or "", the
 *              magic number alone decides
 *   magic      statfs's f_type of the folder
 *   folder     absolute, without symbolic links
 *
 * The result depends only on the arguments. If several mounts have the same
 * mount point, the last of them is used, as in the kernel.
 */
void es_mount_judge(char type[ES_MOUNT_TYPE_SIZE], const char *mountinfo,
                    unsigned long magic, const char *folder);

/**
 * Finds out whether the folder of the file `path` is on a shared file system.
 * The file need not exist. Sets `type` to "" if the folder cannot be examined;
 * the error is then reported when the file is opened.
 */
void es_mount_of_file(char type[ES_MOUNT_TYPE_SIZE], const char *path);

#endif
