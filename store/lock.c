/* Constructs the names of the files next to a run file, and implements the
   writer's lock, which uses one of these files. Records which locks this
   process holds, because a reader in the writing process must not close a
   descriptor of the file. Uses open-file-description locks, so that even two
   threads of one process cannot both hold a lock. */
#include "store/store_internal.h"

#include "analyzer/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX "-lock"
/* Maximum number of attempts, needed if other processes remove the lock file
   between open and lock. */
#define N_TRIES 100

/* --- files next to a run file --------------------------------------------- */

const char *es_beside(char out[PATH_MAX], const char *file, const char *suffix)
{
    if (snprintf(out, PATH_MAX, "%s%s", file, suffix) >= PATH_MAX)
        out[0] = '\0';
    return out;
}

int es_beside_stat(struct stat *st, const char *file, const char *suffix)
{
    char path[PATH_MAX];
    return lstat(es_beside(path, file, suffix), st) == 0 ? 0 : errno;
}

/* --- the locks of this process ------------------------------------------- */

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static es_lock *own_locks;

bool es_lock_is_ours(const char *file)
{
    size_t n = strlen(file);
    bool ours = false;
    pthread_mutex_lock(&guard);
    for (const es_lock *lock = own_locks; lock && !ours; lock = lock->next)
        ours = lock->owner == getpid() && strncmp(lock->path, file, n) == 0 &&
               strcmp(lock->path + n, SUFFIX) == 0;
    pthread_mutex_unlock(&guard);
    return ours;
}

/* --- the lock file ------------------------------------------------------- */

static struct flock whole_file(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static es_status fail_locked(int fd, const char *shown)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;
    if (pid > 0)
        return es_fail(ES_ELOCKED,
                       "%s: process %ld is writing it: wait for it to end, or "
                       "write another file",
                       shown, pid);
    return es_fail(ES_ELOCKED,
                   "%s: another process is writing it: wait for it to end, or "
                   "write another file",
                   shown);
}

/**
 * Returns true if `path` still names the file that is open as `fd`. Returns
 * false if the last holder of the lock removed the file before this process
 * locked it.
 */
static bool names(const char *path, int fd)
{
    struct stat by_name, by_fd;
    return lstat(path, &by_name) == 0 && fstat(fd, &by_fd) == 0 &&
           by_name.st_dev == by_fd.st_dev && by_name.st_ino == by_fd.st_ino;
}

static es_status open_lock_file(int *fd, const char *path)
{
    struct stat st;
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
               0666);
    if (*fd < 0)
        return es_fail(ES_EIO, "%s: cannot create the lock file: %s", path,
                       strerror(errno));
    /* The lock file will be truncated. A file with several hard links is
       refused, because it may be a user's file. */
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1) {
        close(*fd);
        *fd = -1;
        return es_fail(ES_EIO, "%s: not a lock file: remove it", path);
    }
    return ES_OK;
}

static bool has_no_locks(int reason)
{
    return reason == ENOLCK || reason == ENOSYS || reason == EOPNOTSUPP ||
           reason == EINVAL;
}

/**
 * Locks an open lock file. Returns ES_DONE if the file was removed in the
 * meantime; the caller must then try again.
 */
static es_status try_lock(int fd, const char *path, const char *shown,
                          bool is_optional)
{
    struct flock lock = whole_file(F_WRLCK);
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        if (errno == EAGAIN || errno == EACCES)
            return fail_locked(fd, shown);
        if (!is_optional || !has_no_locks(errno))
            return es_fail(ES_EIO, "%s: cannot lock: %s", path,
                           strerror(errno));
    }
    return names(path, fd) ? ES_OK : ES_DONE;
}

/**
 * Writes the pid into the lock file. The pid is used only in messages; the lock
 * does not depend on it.
 */
static es_status write_pid(int fd, const char *path)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n)
        return ES_OK;
    return es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(errno));
}

es_status es_lock_take(es_lock *lock, const char *file, const char *shown)
{
    char path[PATH_MAX];
    int fd = -1;
    es_status status = ES_DONE;
    es_beside(path, file, SUFFIX);
    for (int i = 0; i < N_TRIES && status == ES_DONE; i++) {
        status = open_lock_file(&fd, path);
        if (status == ES_OK)
            status = try_lock(fd, path, shown, lock->is_optional);
        if (status != ES_OK && fd >= 0)
            close(fd);
    }
    if (status == ES_DONE)
        status = es_fail(
            ES_EIO, "%s: another process keeps removing the lock file", path);
    if (status < 0)
        return status;
    *lock = (es_lock){
        .fd = fd, .is_optional = lock->is_optional, .owner = getpid()};
    if ((status = es_copy_text(&lock->path, path)) < 0) {
        close(fd);
        return status;
    }
    pthread_mutex_lock(&guard);
    lock->next = own_locks;
    own_locks = lock;
    pthread_mutex_unlock(&guard);
    if ((status = write_pid(fd, path)) < 0)
        es_lock_release(lock, true);
    return status;
}

void es_lock_release(es_lock *lock, bool remove)
{
    if (!lock->path)
        return;
    pthread_mutex_lock(&guard);
    for (es_lock **link = &own_locks; *link; link = &(*link)->next)
        if (*link == lock) {
            *link = lock->next;
            break;
        }
    pthread_mutex_unlock(&guard);
    /* Remove the lock file only if it is still the file that this process has
     * locked; another process may have removed that file and created a new
     * one. */
    if (remove && names(lock->path, lock->fd))
        unlink(lock->path);
    close(lock->fd);
    free(lock->path);
    *lock = (es_lock){.fd = -1};
}

es_status es_lock_check(bool *held, const char *file, const char *shown)
{
    struct flock lock = whole_file(F_RDLCK);
    char path[PATH_MAX];
    *held = false;
    int fd = open(es_beside(path, file, SUFFIX),
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ELOOP))
        return ES_OK; /* there is no lock file, or it is a symbolic link, which
                         no writer creates */
    bool known = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0;
    int reason = errno;
    if (fd >= 0)
        close(fd);
    if (!known)
        return es_fail(ES_EIO,
                       "%s: cannot find out whether it is being written: %s",
                       shown, strerror(reason));
    *held = lock.l_type != F_UNLCK;
    return ES_OK;
}
