/*
 * Removes the temporary files that killed processes leave in folders. Used by
 * es_outfile, which cleans the folder to which it writes, and for checkpoints,
 * whose folder also has a lock. To check that no process has a file open, the
 * code requests a write lease on it: the kernel grants the lease only if there
 * is no other open descriptor.
 */
#include "analyzer/base/leftover.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_SUPER_MAGIC 0x2fc12fc1

bool es_leftover_is_name(const char *file)
{
    const size_t n = sizeof ES_TEMPORARY_PREFIX - 1;
    return strncmp(file, ES_TEMPORARY_PREFIX, n) == 0 &&
           strspn(file + n, ES_TEMPORARY_LETTERS) == ES_TEMPORARY_N &&
           !file[n + ES_TEMPORARY_N];
}

bool es_leftover_is_ours(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
           about.st_nlink == 1 && about.st_uid == geteuid();
}

/* Only local file systems are cleaned, because a lease from this kernel does
 * not cover processes on other machines. */
static bool is_local(int folder)
{
    struct statfs about;
    if (fstatfs(folder, &about) != 0)
        return false;
    switch ((unsigned long)about.f_type) {
    case EXT4_SUPER_MAGIC: /* ext2 and ext3 have the same magic number */
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case ZFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

/* Takes a lease, which lasts until the file is closed. If another process opens
 * the file meanwhile, the kernel sends a signal. SIGURG is chosen because it is
 * ignored by default; the usual SIGIO would end this process. */
static bool take_lease(int fd)
{
    return fcntl(fd, F_SETSIG, SIGURG) == 0 &&
           fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

void es_leftover_unlink(int folder, const char *file)
{
    /* The file itself (ending "") is removed last, because a later attempt
       could not find the other files without it. */
    static const char *const endings[] = {"-wal", "-shm", "-journal", "-lock",
                                          ""};
    char name[PATH_MAX];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (snprintf(name, sizeof name, "%s%s", file, endings[i]) < PATH_MAX)
            unlinkat(folder, name, 0);
}

static void remove_one(int folder, const char *file)
{
    int fd =
        openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (es_leftover_is_ours(fd) && take_lease(fd))
        es_leftover_unlink(folder, file);
    close(fd);
}

/**
 * Returns true unless the folder is the last folder that this thread has
 * cleaned.
 */
static bool is_new(int folder)
{
    static _Thread_local dev_t device;
    static _Thread_local ino_t inode;
    struct stat about;
    if (fstat(folder, &about) != 0 ||
        (about.st_dev == device && about.st_ino == inode))
        return false;
    device = about.st_dev;
    inode = about.st_ino;
    return true;
}

void es_leftover_remove(const char *folder)
{
    DIR *all = opendir(folder);
    if (!all)
        return;
    int fd = dirfd(all);
    if (is_new(fd) && is_local(fd))
        for (struct dirent *entry; (entry = readdir(all));)
            if (es_leftover_is_name(entry->d_name))
                remove_one(fd, entry->d_name);
    closedir(all);
}
