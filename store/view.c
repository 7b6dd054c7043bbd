/*
 * Implements an SQLite VFS for readers of run files. The VFS writes nothing,
 * creates nothing and maps nothing, so that a reader does not change the
 * folder, and a file that another program truncates causes an error and not a
 * SIGBUS.
 *
 * All calls are passed to the system's VFS except those for the shared memory
 * of a write-ahead log, FILE-shm. In this memory SQLite keeps the index of the
 * log and the positions of readers, and it locks bytes of the file. This VFS
 * gives SQLite a copy of the index, which is refreshed by pread at SQLite's
 * memory barriers. The locks are real: a writer sees this reader like any other
 * reader, and keeps the frames that the reader needs. SQLite gets the memory as
 * read-only (SQLITE_READONLY). If no live process maintains the memory
 * (SQLITE_READONLY_CANTINIT), SQLite builds a separate index from the log in
 * its own memory.
 *
 * The formats are described in sqlite.org/walformat.html, sections 2.1 to 2.3;
 * the protocol is SQLite's readonly_shm, since 3.22. If a run file and its log
 * were copied without FILE-shm, there is nothing to lock, so a reader does not
 * delay a writer that resumes the log.
 *
 * The locks belong to the open file (F_OFD_SETLK). Closing a descriptor of
 * FILE-shm drops the POSIX locks that this process holds on it, so a process
 * that writes the run file itself has to use the system's VFS for reading, too.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VIEW_NAME "entropyscan-view"

enum {
    LOG_HEADER_BYTES = 32,
    PAGE_BYTES = 32768, /* the index grows in pages of this size */
    HEADER_BYTES =
        48, /* size of the index header, of which there are two copies */
    SHARED_BYTES = 136, /* size of both headers and of the state of checkpoints
                           and readers */
    INITIALISED = 12,   /* offset of a header byte that is not 0 once the header
                           is initialised */
    LOCK_BASE = 120,    /* offset of the first lock byte in FILE-shm */
    WRITE_LOCK = 0,     /* index of the writer's lock among SQLite's locks */
    LIVE_BYTE = 128,    /* offset of the byte that each process locks while it
                           uses the shared memory */
    MAX_PAGES = 1 << 14, /* maximum number of pages, enough for a log of 256
                            GiB */
};

/**
 * An open main database file or write-ahead log. The object of the system's VFS
 * follows this struct in memory.
 */
typedef struct view_file {
    sqlite3_file head;
    sqlite3_file *real;
    const char
        *path;  /* path if the file is a main database file; owned by SQLite */
    int shm;    /* descriptor of FILE-shm, or -1 */
    bool live;  /* true if other processes maintain the shared
                   memory */
    bool stale; /* true if the copy of the index could not be
                   refreshed */
    unsigned char **pages; /* (n_pages) copies of pages; NULL if a page was not
                              requested yet */
    int n_pages;
} view_file;

static view_file *view_of(sqlite3_file *file)
{
    return (view_file *)file;
}

/* --- calls passed to the system's VFS ------------------------------------ */

static int view_read(sqlite3_file *file, void *out, int n, sqlite3_int64 offset)
{
    sqlite3_file *real = view_of(file)->real;
    return real->pMethods->xRead(real, out, n, offset);
}

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
           (uint32_t)bytes[2] << 8 | bytes[3];
}

/**
 * Checks the same fields of a log's header that SQLite checks before it accepts
 * the salts in the header.
 */
static bool is_log_header(const unsigned char *header)
{
    const uint32_t page = big_endian(header + 8);
    return (big_endian(header) & ~1U) == 0x377f0682 && page >= 512 &&
           page <= 65536 && (page & (page - 1)) == 0;
}

/**
 * Returns the size of a file. Returns 0 for a log without frames, or with a
 * header that a power loss has damaged, because SQLite does not accept the
 * salts of such a header and would wait for the salts in the index.
 */
static int view_size(sqlite3_file *file, sqlite3_int64 *size)
{
    unsigned char header[LOG_HEADER_BYTES];
    sqlite3_file *real = view_of(file)->real;
    int rc = real->pMethods->xFileSize(real, size);
    if (rc != SQLITE_OK || view_of(file)->path || *size == 0)
        return rc;
    if (*size <= LOG_HEADER_BYTES)
        *size = 0;
    else if ((rc = real->pMethods->xRead(real, header, sizeof header, 0)) ==
                 SQLITE_OK &&
             !is_log_header(header))
        *size = 0;
    return rc;
}

static int view_lock(sqlite3_file *file, int level)
{
    sqlite3_file *real = view_of(file)->real;
    if (level > SQLITE_LOCK_SHARED)
        return SQLITE_READONLY;
    return real->pMethods->xLock(real, level);
}

static int view_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *real = view_of(file)->real;
    return real->pMethods->xUnlock(real, level);
}

static int view_reserved(sqlite3_file *file, int *reserved)
{
    sqlite3_file *real = view_of(file)->real;
    return real->pMethods->xCheckReservedLock(real, reserved);
}

static int view_control(sqlite3_file *file, int operation, void *value)
{
    sqlite3_file *real = view_of(file)->real;
    return real->pMethods->xFileControl(real, operation, value);
}

static int view_sector(sqlite3_file *file)
{
    sqlite3_file *real = view_of(file)->real;
    return real->pMethods->xSectorSize(real);
}

static int view_device(sqlite3_file *file)
{
    sqlite3_file *real = view_of(file)->real;
    return real->pMethods->xDeviceCharacteristics(real);
}

/* --- refused calls ------------------------------------------------------ */

static int refuse_write(sqlite3_file *file, const void *bytes, int n,
                        sqlite3_int64 offset)
{
    (void)file, (void)bytes, (void)n, (void)offset;
    return SQLITE_READONLY;
}

static int refuse_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    (void)file, (void)size;
    return SQLITE_READONLY;
}

static int sync_nothing(sqlite3_file *file, int flags)
{
    (void)file, (void)flags;
    return SQLITE_OK;
}

/* --- shared memory: the copy --------------------------------------------- */

static bool read_page(const view_file *view, int page)
{
    return pread(view->shm, view->pages[page], PAGE_BYTES,
                 (off_t)page * PAGE_BYTES) == PAGE_BYTES;
}

/**
 * Refreshes the copy of the index. The header is read before the pages, because
 * a writer updates the pages before the header. SQLite compares the header
 * again after its last barrier, and starts again if the header has changed.
 */
static void refresh_view(view_file *view)
{
    unsigned char now[SHARED_BYTES], *known = view->pages[0];
    view->stale = pread(view->shm, now, sizeof now, 0) != (ssize_t)sizeof now;
    if (!view->stale && memcmp(now, known, HEADER_BYTES) != 0)
        for (int i = 0; i < view->n_pages && !view->stale; i++)
            view->stale = view->pages[i] && !read_page(view, i);
    if (view->stale)
        memset(known, 0,
               SHARED_BYTES); /* SQLite treats a header of zeros as missing */
    else
        memcpy(known, now, sizeof now);
}

static void refresh_live(view_file *view)
{
    if (view->live && view->n_pages > 0 && view->pages[0])
        refresh_view(view);
}

/* --- shared memory: locks ------------------------------------------------ */

/** Locks or unlocks n bytes of FILE-shm, beginning at offset `first`. */
static int lock_bytes(const view_file *view, short type, int first, int n)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
    if (view->shm < 0 || fcntl(view->shm, F_OFD_SETLK, &lock) == 0)
        return SQLITE_OK;
    return errno == EAGAIN || errno == EACCES ? SQLITE_BUSY
                                              : SQLITE_IOERR_SHMLOCK;
}

/**
 * Finds another process's lock that would prevent a write lock on the byte at
 * this offset. Sets *type to the type of this lock, or to F_UNLCK if there is
 * none.
 */
static int find_lock(const view_file *view, int byte, short *type)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(view->shm, F_OFD_GETLK, &lock) != 0)
        return SQLITE_IOERR_SHMLOCK;
    *type = lock.l_type;
    return SQLITE_OK;
}

/**
 * Returns true if FILE-shm now contains both headers of the index, and if the
 * headers are equal.
 */
static bool header_is_sound(const view_file *view)
{
    unsigned char now[2 * HEADER_BYTES];
    return pread(view->shm, now, sizeof now, 0) == (ssize_t)sizeof now &&
           now[INITIALISED] &&
           memcmp(now, now + HEADER_BYTES, HEADER_BYTES) == 0;
}

/**
 * Takes the writer's lock for SQLite. SQLite requests this lock if the two
 * headers differ, and gives up if they still differ once it holds the lock.
 * However, the headers also differ for a moment while a writer updates them.
 * SQLite then has to retry, which it does if this function returns SQLITE_BUSY.
 * While the lock is held, no writer can be between the updates of the two
 * headers.
 */
static int lock_against_writer(view_file *view)
{
    const int rc = lock_bytes(view, F_RDLCK, LOCK_BASE + WRITE_LOCK, 1);
    if (rc != SQLITE_OK || view->shm < 0)
        return rc;
    refresh_live(view);
    if (view->stale || !header_is_sound(view))
        return rc;
    lock_bytes(view, F_UNLCK, LOCK_BASE + WRITE_LOCK, 1);
    return SQLITE_BUSY;
}

static int view_shm_lock(sqlite3_file *file, int first, int n, int flags)
{
    view_file *view = view_of(file);
    if (flags & SQLITE_SHM_EXCLUSIVE && flags & SQLITE_SHM_LOCK)
        return SQLITE_BUSY;
    if (flags & SQLITE_SHM_UNLOCK)
        return lock_bytes(view, F_UNLCK, LOCK_BASE + first, n);
    if (first == WRITE_LOCK)
        return lock_against_writer(view);
    return lock_bytes(view, F_RDLCK, LOCK_BASE + first, n);
}

/* --- shared memory: opening ---------------------------------------------- */

static void view_shm_barrier(sqlite3_file *file)
{
    atomic_thread_fence(memory_order_seq_cst);
    refresh_live(view_of(file));
}

static int open_shm(view_file *view)
{
    struct stat st;
    char path[PATH_MAX];
    view->shm = open(es_beside(path, view->path, "-shm"),
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (view->shm < 0)
        return errno == ENOENT ? SQLITE_OK : SQLITE_CANTOPEN;
    if (fstat(view->shm, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
        return SQLITE_OK;
    close(view->shm);
    view->shm = -1;
    return SQLITE_CANTOPEN;
}

/**
 * Sets *sound to true if the index can be used. Returns SQLITE_BUSY if a writer
 * is changing the index at this moment.
 */
static int check_index(const view_file *view, bool *sound)
{
    short type = F_UNLCK;
    *sound = header_is_sound(view);
    int rc =
        *sound ? SQLITE_OK : find_lock(view, LOCK_BASE + WRITE_LOCK, &type);
    if (rc == SQLITE_OK && !*sound && type != F_UNLCK)
        return SQLITE_BUSY;
    *sound =
        *sound || header_is_sound(view); /* checks again, because a writer may
                                            have finished in the meantime */
    return rc;
}

/**
 * Sets view->live to true if other processes maintain the shared memory. If so,
 * takes a lock that keeps the next process from initialising the memory again.
 */
static int join_living(view_file *view)
{
    short type = F_UNLCK;
    int rc = view->shm < 0 ? open_shm(view) : SQLITE_OK;
    if (rc == SQLITE_OK && view->shm >= 0)
        rc = find_lock(view, LIVE_BYTE, &type);
    if (rc != SQLITE_OK || type == F_UNLCK)
        return rc;
    if (type == F_WRLCK)
        return SQLITE_BUSY; /* another process is initialising FILE-shm */
    rc = lock_bytes(view, F_RDLCK, LIVE_BYTE, 1);
    if (rc == SQLITE_OK)
        rc = check_index(view, &view->live);
    if (!view->live && lock_bytes(view, F_UNLCK, LIVE_BYTE, 1) != SQLITE_OK)
        rc = SQLITE_IOERR_SHMLOCK;
    return rc;
}

/**
 * Returns a copy of a page of the index, which is read at its first use. *out
 * stays NULL if FILE-shm ends before the page.
 */
static int copy_page(view_file *view, int page, void volatile **out)
{
    struct stat st;
    if (page >= MAX_PAGES || fstat(view->shm, &st) != 0)
        return SQLITE_IOERR_SHMMAP;
    if (st.st_size < ((off_t)page + 1) * PAGE_BYTES)
        return SQLITE_OK;
    if (page >= view->n_pages) {
        size_t n = (size_t)page + 1;
        unsigned char **pages = realloc(view->pages, n * sizeof *pages);
        if (!pages)
            return SQLITE_NOMEM;
        for (size_t i = (size_t)view->n_pages; i < n; i++)
            pages[i] = NULL;
        view->pages = pages;
        view->n_pages = page + 1;
    }
    if (!view->pages[page]) {
        view->pages[page] = malloc(PAGE_BYTES);
        if (!view->pages[page])
            return SQLITE_NOMEM;
        if (!read_page(view, page)) {
            free(view->pages[page]);
            view->pages[page] = NULL;
            return SQLITE_IOERR_SHMMAP;
        }
    }
    *out = view->pages[page];
    return SQLITE_OK;
}

static int view_shm_map(sqlite3_file *file, int page, int size, int extend,
                        void volatile **out)
{
    view_file *view = view_of(file);
    int rc = size == PAGE_BYTES ? SQLITE_OK : SQLITE_IOERR_SHMMAP;
    (void)extend; /* ignored, because only writers extend the file */
    *out = NULL;
    if (rc == SQLITE_OK && !view->live)
        rc = join_living(view);
    if (rc == SQLITE_OK && !view->live)
        return SQLITE_READONLY_CANTINIT;
    if (rc == SQLITE_OK)
        rc = copy_page(view, page, out);
    return rc == SQLITE_OK ? SQLITE_READONLY : rc;
}

/**
 * Frees the copy of the index, and releases the locks. Never removes FILE-shm,
 * because only the process that created the file may remove it.
 */
static int view_shm_unmap(sqlite3_file *file, int remove)
{
    view_file *view = view_of(file);
    (void)remove;
    for (int i = 0; i < view->n_pages; i++)
        free(view->pages[i]);
    free(view->pages);
    view->pages = NULL;
    view->n_pages = 0;
    if (view->shm >= 0) {
        lock_bytes(view, F_UNLCK, LOCK_BASE, LIVE_BYTE + 1 - LOCK_BASE);
        if (!es_lock_is_ours(view->path)) /* closing the file would drop this
                                             process's locks on it */
            close(view->shm);
    }
    view->shm = -1;
    view->live = false;
    return SQLITE_OK;
}

static int view_close(sqlite3_file *file)
{
    sqlite3_file *real = view_of(file)->real;
    view_shm_unmap(file, 0);
    return real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

/* --- the VFS ------------------------------------------------------------- */

static const sqlite3_io_methods methods = {
    .iVersion = 2, /* version 2 has no xFetch, so SQLite maps no pages */
    .xClose = view_close,
    .xRead = view_read,
    .xWrite = refuse_write,
    .xTruncate = refuse_truncate,
    .xSync = sync_nothing,
    .xFileSize = view_size,
    .xLock = view_lock,
    .xUnlock = view_unlock,
    .xCheckReservedLock = view_reserved,
    .xFileControl = view_control,
    .xSectorSize = view_sector,
    .xDeviceCharacteristics = view_device,
    .xShmMap = view_shm_map,
    .xShmLock = view_shm_lock,
    .xShmBarrier = view_shm_barrier,
    .xShmUnmap = view_shm_unmap,
};

static sqlite3_vfs *system_vfs(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static int view_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file,
                     int flags, int *got)
{
    view_file *view = view_of(file);
    struct stat st;
    *view = (view_file){.shm = -1, .real = (sqlite3_file *)(view + 1)};
    if (!(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return SQLITE_CANTOPEN; /* readers need no journal and no temporary
                                   file */
    if (flags & SQLITE_OPEN_MAIN_DB)
        view->path = path;
    else if (lstat(path, &st) != 0 && errno == ENOENT)
        path = "/dev/null"; /* a missing write-ahead log is equivalent to an
                               empty one */
    flags &= ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    int rc = system_vfs(vfs)->xOpen(system_vfs(vfs), path, view->real,
                                    flags | SQLITE_OPEN_READONLY, got);
    if (rc == SQLITE_OK)
        view->head.pMethods = &methods;
    return rc;
}

static int refuse_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs, (void)path, (void)sync;
    return SQLITE_IOERR_DELETE;
}

static sqlite3_vfs view_vfs;
static bool registered;

/**
 * Registers the VFS as a layer on the VFS "unix". The default VFS is not used,
 * because the host program may have replaced it by a VFS that locks in another
 * way.
 */
static void register_view(void)
{
    sqlite3_vfs *real = sqlite3_vfs_find("unix");
    if (!real)
        return;
    view_vfs = *real; /* the functions that are copied here do not use
                         pAppData */
    view_vfs.pNext = NULL;
    view_vfs.zName = VIEW_NAME;
    view_vfs.pAppData = real;
    view_vfs.szOsFile = (int)sizeof(view_file) + real->szOsFile;
    view_vfs.xOpen = view_open;
    view_vfs.xDelete = refuse_delete;
    registered = sqlite3_vfs_register(&view_vfs, 0) == SQLITE_OK;
}

const char *es_view_name(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_view);
    return registered ? VIEW_NAME : NULL;
}
