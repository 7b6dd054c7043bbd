/**
 * Which file systems other machines may write, too. There SQLite keeps no
 * write-ahead log safely: its index is shared memory, which two hosts do not
 * share, and whoever reads beside the writer may be on another host.
 */
#ifndef ES_MOUNT_H
#define ES_MOUNT_H

#include "analyzer/base/status.h"

#define ES_MOUNT_TYPE_SIZE 32
#define ES_MOUNT_UNKNOWN 0 /* a magic number that nobody knows */

/** A text in the form of /proc/self/mountinfo, read instead of that: for
 *  trying what a network file system would do. */
#define ES_MOUNTINFO_VARIABLE "ENTROPY_MOUNTINFO"

/**
 * Whether a folder lies on a file system that hosts share: nfs, lustre, gpfs,
 * beegfs, ceph, 9p, smb and their like, anything by way of fuse but a local
 * disk (fuseblk), and an overlay whose upper folder lies on one of them. What
 * nobody knows is local.
 *
 *   type       written: the name of such a file system; "" if it is local
 *   mountinfo  text of /proc/self/mountinfo, proc(5); NULL or "": not known,
 *              then the magic number decides alone
 *   magic      statfs's f_type of the folder
 *   folder     absolute, without symbolic links
 *
 * Pure: looks at nothing but its arguments. Of several mounts on one point the
 * last one counts, as in the kernel.
 */
void es_mount_judge(char type[ES_MOUNT_TYPE_SIZE], const char *mountinfo,
                    unsigned long magic, const char *folder);

/**
 * The same of the folder that the file `path` is in, which need not be there.
 * Of a folder that cannot be looked at "": who opens the file says why.
 */
void es_mount_of_file(char type[ES_MOUNT_TYPE_SIZE], const char *path);

#endif
