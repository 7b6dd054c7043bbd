/* Simulates a disk that loses power, for tests of run files: see lossy_disk.h.
   The VFS passes all calls to the system's VFS and records each change. */
#include "tests/support/lossy_disk.h"

#include "tests/support/chance.h"
#include "tests/support/test.h"

#include <sqlite3.h>
#include <string.h>

#define BLOCK 512

enum { MAIN, LOG, N_FILES };

typedef struct disk_step {
    enum { WRITE, SYNC, TRUNCATE, REMOVE } what;
    int file;
    sqlite3_int64 offset; /* WRITE: position in the file; TRUNCATE: new size of
                             the file */
    size_t n;
    unsigned char *bytes; /* the n bytes that a WRITE writes */
} disk_step;

/** The contents of a file; `there` is true if the file exists. */
typedef struct disk_file {
    bool there;
    size_t n;
    unsigned char *bytes;
} disk_file;

typedef struct lossy_file {
    sqlite3_file head;
    int which;
    sqlite3_file *real; /* the system VFS's file, stored after this struct */
} lossy_file;

static sqlite3_vfs lossy_vfs, *system_vfs;
static sqlite3_io_methods methods;
static char main_path[4300], log_path[4310];
static disk_step *steps;
static size_t n_steps;
static disk_file at_first[N_FILES];

/* --- recording ------------------------------------------------------------ */

static void add_step(disk_step step, const void *bytes)
{
    if ((n_steps & (n_steps - 1)) == 0) {
        steps = realloc(steps, (n_steps ? 2 * n_steps : 1) * sizeof *steps);
        assert_non_null(steps);
    }
    if (step.n) {
        step.bytes = malloc(step.n);
        assert_non_null(step.bytes);
        memcpy(step.bytes, bytes, step.n);
    }
    steps[n_steps++] = step;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((lossy_file *)file)->real;
}

static int which_of(sqlite3_file *file)
{
    return ((lossy_file *)file)->which;
}

static int lossy_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int lossy_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), out, n, at);
}

static int lossy_write(sqlite3_file *file, const void *bytes, int n,
                       sqlite3_int64 at)
{
    add_step((disk_step){.what = WRITE,
                         .file = which_of(file),
                         .offset = at,
                         .n = (size_t)n},
             bytes);
    return real_of(file)->pMethods->xWrite(real_of(file), bytes, n, at);
}

static int lossy_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    add_step(
        (disk_step){.what = TRUNCATE, .file = which_of(file), .offset = size},
        NULL);
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

/** Records the sync without performing it, because the real disk does not lose
 *  power. */
static int lossy_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    add_step((disk_step){.what = SYNC, .file = which_of(file)}, NULL);
    return SQLITE_OK;
}

static int lossy_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int lossy_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int lossy_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int lossy_reserved(sqlite3_file *file, int *reserved)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), reserved);
}

static int lossy_control(sqlite3_file *file, int operation, void *value)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), operation,
                                                 value);
}

static int lossy_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int lossy_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int lossy_map(sqlite3_file *file, int page, int bytes, int extend,
                     void volatile **out)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, bytes, extend,
                                            out);
}

static int lossy_map_lock(sqlite3_file *file, int from, int n, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), from, n, flags);
}

static void lossy_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int lossy_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static int which_is(const char *path)
{
    return path && strcmp(path, main_path) == 0  ? MAIN
           : path && strcmp(path, log_path) == 0 ? LOG
                                                 : N_FILES;
}

static int lossy_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file,
                      int flags, int *out)
{
    lossy_file *lossy = (lossy_file *)file;
    const int which = which_is(path);
    (void)vfs;
    if (which == N_FILES)
        return system_vfs->xOpen(system_vfs, path, file, flags, out);
    lossy->which = which;
    lossy->real = (sqlite3_file *)(lossy + 1);
    int rc = system_vfs->xOpen(system_vfs, path, lossy->real, flags, out);
    file->pMethods = lossy->real->pMethods ? &methods : NULL;
    return rc;
}

static int lossy_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    int rc = system_vfs->xDelete(system_vfs, path, sync);
    if (rc == SQLITE_OK && which_is(path) < N_FILES)
        add_step((disk_step){.what = REMOVE, .file = which_is(path)}, NULL);
    return rc;
}

static disk_file read_disk_file(const char *path)
{
    disk_file file = {.there = es_file_exists(path)};
    if (file.there)
        file.bytes = es_file_read(path, &file.n);
    return file;
}

void lossy_disk_begin(const char *path)
{
    /* Record changes of the resolved path, because SQLite uses this path. */
    assert_non_null(realpath(path, main_path));
    snprintf(log_path, sizeof log_path, "%s-wal", main_path);
    at_first[MAIN] = read_disk_file(main_path);
    at_first[LOG] = read_disk_file(log_path);
    methods = (sqlite3_io_methods){.iVersion = 2,
                                   .xClose = lossy_close,
                                   .xRead = lossy_read,
                                   .xWrite = lossy_write,
                                   .xTruncate = lossy_truncate,
                                   .xSync = lossy_sync,
                                   .xFileSize = lossy_size,
                                   .xLock = lossy_lock,
                                   .xUnlock = lossy_unlock,
                                   .xCheckReservedLock = lossy_reserved,
                                   .xFileControl = lossy_control,
                                   .xSectorSize = lossy_sector,
                                   .xDeviceCharacteristics = lossy_device,
                                   .xShmMap = lossy_map,
                                   .xShmLock = lossy_map_lock,
                                   .xShmBarrier = lossy_barrier,
                                   .xShmUnmap = lossy_unmap};
    system_vfs = sqlite3_vfs_find("unix");
    assert_non_null(system_vfs);
    lossy_vfs = *system_vfs;
    lossy_vfs.zName = "lossy";
    lossy_vfs.pNext = NULL;
    lossy_vfs.szOsFile = system_vfs->szOsFile + (int)sizeof(lossy_file);
    lossy_vfs.xOpen = lossy_open;
    lossy_vfs.xDelete = lossy_delete;
    assert_int_equal(sqlite3_vfs_register(&lossy_vfs, 1), SQLITE_OK);
}

void lossy_disk_end(void)
{
    sqlite3_vfs_unregister(&lossy_vfs);
    for (size_t i = 0; i < n_steps; i++)
        free(steps[i].bytes);
    for (int i = 0; i < N_FILES; i++)
        free(at_first[i].bytes);
    free(steps);
    steps = NULL;
    n_steps = 0;
}

size_t lossy_disk_n_steps(void)
{
    return n_steps;
}

/* --- power loss ----------------------------------------------------------- */

static void resize(disk_file *file, size_t n)
{
    if (n > file->n) {
        file->bytes = realloc(file->bytes, n);
        assert_non_null(file->bytes);
        memset(file->bytes + file->n, 0, n - file->n);
    }
    file->n = n;
}

static void write_whole(disk_file *file, const disk_step *step)
{
    const size_t at = (size_t)step->offset;
    if (at + step->n > file->n)
        resize(file, at + step->n);
    memcpy(file->bytes + at, step->bytes, step->n);
    file->there = true;
}

/** Applies a recorded change whose data has been synced. */
static void apply(disk_file *file, const disk_step *step)
{
    if (step->what == WRITE)
        write_whole(file, step);
    else if (step->what == TRUNCATE)
        resize(file, (size_t)step->offset);
    else if (step->what == REMOVE)
        *file = (disk_file){.bytes = file->bytes};
}

/**
 * Randomly chooses what the bytes at..end of a block contain after the power
 * loss. `bytes` are the contents that an unsynced write would have stored
 * there.
 */
static void lose_block(disk_file *file, int which, size_t at, size_t end,
                       const unsigned char *bytes)
{
    const bool header = which == MAIN && at < BLOCK;
    if (memcmp(file->bytes + at, bytes, end - at) == 0)
        return;
    const uint32_t fate = chance_below(header ? 2 : 4);
    for (size_t i = at; i < end && fate; i++)
        file->bytes[i] = fate == 1   ? bytes[i - at]
                         : fate == 2 ? 0
                                     : (unsigned char)chance_below(256);
}

/** Applies a write that has not been synced. If the write extends the file, the
 *  file's size after the power loss is chosen at random up to the new size. */
static void lose_write(disk_file *file, const disk_step *step)
{
    const size_t at = (size_t)step->offset, end = at + step->n;
    size_t reached = file->n;
    if (end > file->n)
        reached += chance_below((uint32_t)(end - file->n) + 1);
    file->there = file->there || chance_below(2);
    if (reached > file->n)
        resize(file, reached);
    for (size_t from = at; from < end && from < file->n;) {
        size_t to = (from / BLOCK + 1) * BLOCK;
        to = to > end ? end : to;
        to = to > file->n ? file->n : to;
        lose_block(file, step->file, from, to, step->bytes + (from - at));
        from = to;
    }
}

static disk_file copy_of(const disk_file *file)
{
    disk_file copy = {.there = file->there};
    resize(&copy, file->n);
    if (file->n)
        memcpy(copy.bytes, file->bytes, file->n);
    return copy;
}

/**
 * Builds the contents of a file after a power loss that follows n steps, of
 * which the first `safe` steps have been synced. Of the later truncations and
 * removals, all up to a randomly chosen one have taken effect, regardless of
 * which written bytes are lost.
 */
static disk_file lose(int which, size_t safe, size_t n)
{
    disk_file file = copy_of(&at_first[which]);
    bool late = false;
    for (size_t i = 0; i < n; i++) {
        const disk_step *step = &steps[i];
        if (step->file != which || step->what == SYNC)
            continue;
        if (i < safe)
            apply(&file, step);
        else if (step->what == WRITE)
            lose_write(&file, step);
        else if (!late && !(late = chance_below(2)))
            apply(&file, step);
    }
    return file;
}

/** Returns how many of the first n recorded steps can no longer be lost for
 *  this file, because a later sync has made them permanent. The removal of a
 *  file changes the folder, and a later sync of any file makes it permanent. */
static size_t find_safe(int which, size_t n)
{
    for (size_t i = n; i > 0; i--) {
        if (steps[i - 1].what != SYNC)
            continue;
        if (steps[i - 1].file == which)
            return i;
        for (size_t k = i - 1; k > 0; k--)
            if (steps[k - 1].what == REMOVE && steps[k - 1].file == which)
                return k;
    }
    return 0;
}

static void leave_file(const char *path, disk_file file)
{
    if (file.there)
        es_file_write(path, file.n ? file.bytes : (void *)"", file.n);
    else
        unlink(path);
    free(file.bytes);
}

/** Creates an index of the write-ahead log (the file -shm) with random bytes.
 *  SQLite never syncs this index, so recovery must not rely on its contents. */
static void leave_index(const char *path)
{
    unsigned char bytes[BLOCK];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)chance_below(256);
    es_file_write(path, bytes, sizeof bytes);
    assert_int_equal(truncate(path, 32768), 0);
}

void lossy_disk_leave(const char *path, size_t n)
{
    char beside[4310];
    leave_file(path, lose(MAIN, find_safe(MAIN, n), n));
    snprintf(beside, sizeof beside, "%s-wal", path);
    leave_file(beside, lose(LOG, find_safe(LOG, n), n));
    snprintf(beside, sizeof beside, "%s-shm", path);
    unlink(beside);
    if (chance_below(4) == 0)
        leave_index(beside);
}
