/* Restricts the files that SQLite may touch while it writes a database: the
 * file itself and its rollback journal, each only if it is a regular file that
 * belongs to the user and has no other hard link. The restriction is needed
 * because a journal is untrusted data: it may name another file, which SQLite
 * would read and delete. SQLite's default VFS is therefore wrapped in a VFS
 * that refuses to open, check or delete any other file and passes all other
 * calls on. */
#include "store/store_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Stores the reason of a refusal for the error message, unless an earlier
 * reason is already stored. */
static int refuse_file(es_guard *guard, const char *suffix, const char *reason)
{
    if (!guard->refusal[0])
        snprintf(guard->refusal, sizeof guard->refusal, "%s%s%s%s",
                 suffix[0] ? "its " : "", suffix, suffix[0] ? " " : "", reason);
    return SQLITE_PERM;
}

/* Refuses a file unless it is a regular file that belongs to the user and has
 * no other hard link. A file that does not exist yet is accepted. */
static int check_file(es_guard *guard, const char *path, const char *suffix)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return SQLITE_OK;
    if (!S_ISREG(st.st_mode))
        return refuse_file(guard, suffix, "is not a regular file: remove it");
    if (st.st_nlink > 1)
        return refuse_file(guard, suffix, "is a hard link: remove it");
    if (st.st_uid != geteuid())
        return refuse_file(
            guard, suffix,
            "belongs to another user: name a file that is yours");
    return SQLITE_OK;
}

static int check_absent(es_guard *guard, const char *suffix)
{
    struct stat st;
    return es_beside_stat(&st, guard->file, suffix) == 0
               ? refuse_file(guard, suffix,
                             "was not made by this program: remove it")
               : SQLITE_OK;
}

/* Returns the part of `path` that follows the name of the guarded file, or NULL
   if `path` does not begin with this name. */
static const char *suffix_of(const es_guard *guard, const char *path)
{
    size_t n = strlen(guard->file);
    return strncmp(path, guard->file, n) == 0 ? path + n : NULL;
}

static bool is_journal(const es_guard *guard, const char *path)
{
    const char *suffix = suffix_of(guard, path);
    return suffix && strcmp(suffix, "-journal") == 0;
}

/* --- SQLite's calls ------------------------------------------------------ */

static int open_main(es_guard *guard, const char *path)
{
    const char *suffix = suffix_of(guard, path);
    if (!suffix || *suffix)
        return refuse_file(guard, "", "is a symbolic link: name its target");
    int rc = check_file(guard, path, "");
    if (rc == SQLITE_OK)
        rc = check_absent(guard, "-wal");
    return rc == SQLITE_OK ? check_absent(guard, "-shm") : rc;
}

static int guarded_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file,
                        int flags, int *out_flags)
{
    es_guard *guard = (es_guard *)vfs;
    int rc = SQLITE_OK;
    file->pMethods = NULL;
    if (flags & SQLITE_OPEN_MAIN_DB)
        rc = open_main(guard, path);
    else if (flags & SQLITE_OPEN_WAL)
        rc = refuse_file(guard, "-wal", "was not made by this program");
    else if (path && !is_journal(guard, path))
        rc = refuse_file(guard, "-journal", "names another file: remove it");
    else if (path)
        rc = check_file(guard, path, "-journal");
    return rc == SQLITE_OK
               ? guard->base->xOpen(guard->base, path, file, flags, out_flags)
               : rc;
}

static int guarded_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    es_guard *guard = (es_guard *)vfs;
    return is_journal(guard, path)
               ? guard->base->xDelete(guard->base, path, sync)
               : refuse_file(guard, "-journal",
                             "names another file: remove it");
}

/* Before SQLite rolls a journal back, it also calls this function for another
 * file that the journal names. */
static int guarded_access(sqlite3_vfs *vfs, const char *path, int flags,
                          int *out)
{
    es_guard *guard = (es_guard *)vfs;
    const char *suffix = suffix_of(guard, path);
    int rc = SQLITE_OK;
    *out = 0;
    if (suffix && strcmp(suffix, "-wal") == 0)
        return check_absent(guard, suffix);
    if (is_journal(guard, path))
        rc = check_file(guard, path, suffix);
    else
        rc = refuse_file(guard, "-journal", "names another file: remove it");
    return rc == SQLITE_OK ? guard->base->xAccess(guard->base, path, flags, out)
                           : rc;
}

int es_guard_open(es_guard *guard, sqlite3 **handle, const char *file,
                  int flags)
{
    guard->base = sqlite3_vfs_find(NULL);
    guard->file = file;
    guard->vfs = *guard->base;
    guard->vfs.xOpen = guarded_open;
    guard->vfs.xDelete = guarded_delete;
    guard->vfs.xAccess = guarded_access;
    snprintf(guard->name, sizeof guard->name, "guard-%p", (void *)guard);
    guard->vfs.zName = guard->name;
    int rc = sqlite3_vfs_register(&guard->vfs, 0);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_open_v2(file, handle, flags, guard->name);
    sqlite3_vfs_unregister(
        &guard->vfs); /* the open connection keeps its pointer to the VFS */
    return rc;
}
