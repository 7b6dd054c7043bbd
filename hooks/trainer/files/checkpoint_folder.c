/* Manages a folder of checkpoints: locks it while a training run writes to it,
 * removes old checkpoints and the temporary files of killed runs, and finds the
 * newest valid checkpoint, from which a run is resumed. Files are named
 * NAME-STEP.safetensors. */
#include "hooks/trainer/files/checkpoint_folder.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/leftover.h"
#include "analyzer/base/outfile.h"
#include "analyzer/base/text.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".safetensors"
#define NAME_SIZE 201 /* size of a run's name in a file name, with NUL */

struct es_checkpoint_folder {
    char path[ES_PATH_SIZE];
    char name[NAME_SIZE]; /* the run's name as it appears in file names */
    int64_t keep;
    int fd; /* file descriptor of the locked folder */
};

/* --- files of a folder --------------------------------------------------- */

typedef struct entry {
    int64_t step;
    /* The run's name: a copy of the file name with a NUL in place of
     * "-STEP...". */
    char name[NAME_MAX + 1];
    char file[NAME_MAX + 1];
} entry;

typedef struct listing {
    entry *items; /* newest first */
    size_t n;
} listing;

/** Splits a file name into name and step; returns true if it has the form
 *  NAME-STEP.safetensors. */
static bool read_name(entry *out, const char *file)
{
    size_t n = strlen(file), n_suffix = sizeof SUFFIX - 1;
    if (n >= sizeof out->file || n < n_suffix ||
        strcmp(file + n - n_suffix, SUFFIX) != 0)
        return false;
    strcpy(out->file, file);
    strcpy(out->name, file);
    out->name[n - n_suffix] = 0;
    char *dash = strrchr(out->name, '-');
    if (!dash || dash == out->name)
        return false;
    *dash = 0;
    return dash[1] >= '0' && dash[1] <= '9' &&
           es_int_parse(&out->step, dash + 1, 0, ES_MAX_STEP) == ES_OK;
}

static int newest_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->step != y->step)
        return x->step > y->step ? -1 : 1;
    return strcmp(x->file, y->file);
}

/** Lists all checkpoints of a folder, or only those with one run name; the
 *  caller frees out->items. */
static es_status list_files(listing *out, const char *path, const char *name)
{
    entry item;
    es_status status = ES_OK;
    *out = (listing){0};
    DIR *folder = opendir(path);
    if (!folder)
        return es_fail(ES_EIO, "%s: %s", path, strerror(errno));
    for (struct dirent *d; (d = readdir(folder));) {
        if (!read_name(&item, d->d_name) ||
            (name && strcmp(item.name, name) != 0))
            continue;
        if ((status = es_grow(&out->items, out->n + 1, sizeof item,
                              "a list of checkpoints")) < 0)
            break;
        out->items[out->n++] = item;
    }
    closedir(folder);
    if (out->n > 0)
        qsort(out->items, out->n, sizeof *out->items, newest_first);
    return status;
}

static es_status join_path(char out[ES_PATH_SIZE], const char *folder,
                           const char *file)
{
    size_t n = strlen(folder);
    const char *slash = n > 0 && folder[n - 1] == '/' ? "" : "/";
    if (snprintf(out, ES_PATH_SIZE, "%s%s%s", folder, slash, file) >=
        ES_PATH_SIZE)
        return es_fail(ES_EUSAGE, "%s: the path is too long", folder);
    return ES_OK;
}

/* --- opening ------------------------------------------------------------- */

/** Writes the run's name in a form that is valid in a file name. */
static void file_name(char out[NAME_SIZE], const char *name)
{
    snprintf(out, NAME_SIZE, "%s", name);
    for (char *c = out; *c; c++)
        if (*c == '/' || (unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '_';
    if (out[0] == '.')
        out[0] = '_';
}

static es_status lock_folder(es_checkpoint_folder *folder)
{
    if (mkdir(folder->path, 0777) != 0 && errno != EEXIST)
        return es_fail(ES_EIO, "%s: cannot create the folder: %s", folder->path,
                       strerror(errno));
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return es_fail(ES_EIO, "%s: %s", folder->path, strerror(errno));
    /* Some file systems cannot lock folders; training then continues without a
     * lock. */
    if (flock(folder->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return es_fail(ES_ELOCKED,
                       "%s: another training run writes checkpoints to this "
                       "folder: give another folder",
                       folder->path);
    return ES_OK;
}

static es_status path_of(char out[ES_PATH_SIZE],
                         const es_checkpoint_folder *folder, int64_t step)
{
    char file[NAME_MAX + 1];
    snprintf(file, sizeof file, "%s-%08" PRId64 SUFFIX, folder->name, step);
    return join_path(out, folder->path, file);
}

/** Checks that files can be created, so that a failure is reported now and not
 *  at the first checkpoint. */
static es_status check_writable(const es_checkpoint_folder *folder)
{
    char path[ES_PATH_SIZE];
    es_outfile *probe;
    FILE *stream;
    es_status status;
    if ((status = path_of(path, folder, 0)) < 0 ||
        (status = es_outfile_open(&probe, &stream, path)) < 0)
        return status;
    es_outfile_abandon(probe);
    return ES_OK;
}

/** Returns true for a checkpoint that was written but never renamed: a
 *  temporary file of this program whose content begins like a checkpoint.
 *  Temporary pictures and tables begin differently. */
static bool is_left_over(int folder, const char *file)
{
    static const char start[] = "{\"__metadata__";
    char head[8 + sizeof start - 1];
    if (!es_leftover_is_name(file))
        return false;
    int fd =
        openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, head, sizeof head);
    bool is = n == (ssize_t)sizeof head &&
              memcmp(head + 8, start, sizeof start - 1) == 0 &&
              es_leftover_is_ours(fd);
    close(fd);
    return is;
}

/** Removes temporary files. While this training run holds the lock, no other
 *  run writes temporary files. So this function also works on network file
 *  systems, where es_leftover_remove cannot determine whether a file is still
 *  in use. */
static void remove_left_overs(const es_checkpoint_folder *folder)
{
    DIR *all = opendir(folder->path);
    if (!all)
        return;
    for (struct dirent *d; (d = readdir(all));)
        if (is_left_over(folder->fd, d->d_name))
            unlinkat(folder->fd, d->d_name, 0);
    closedir(all);
}

/** Reads the run's uuid; returns false if the file is not a readable
 *  checkpoint. */
static bool read_uuid(char out[ES_UUID_SIZE], const char *path)
{
    es_safetensors *file = NULL;
    if (es_safetensors_open(&file, path) != ES_OK)
        return false;
    const char *uuid = es_safetensors_metadata(file, "run");
    bool ours = es_checkpoint_is_ours(file) && uuid && es_uuid_is(uuid);
    if (ours)
        strcpy(out, uuid);
    es_safetensors_close(file);
    return ours;
}

/** Checks that an existing file can neither be mistaken for a checkpoint of
 *  this training run nor be removed as one. */
static es_status check_entry(const es_checkpoint_folder *folder,
                             const entry *item, const char *uuid,
                             int64_t first_step)
{
    char path[ES_PATH_SIZE], theirs[ES_UUID_SIZE];
    es_status status = join_path(path, folder->path, item->file);
    if (status != ES_OK || !read_uuid(theirs, path))
        return status;
    if (strcmp(theirs, uuid) != 0)
        return es_fail(ES_EUSAGE,
                       "%s: belongs to another run: resume that run, or give "
                       "another --checkpoint folder or --name",
                       path);
    es_checkpoint *checkpoint = NULL;
    const bool is_further = item->step > first_step &&
                            es_checkpoint_open(&checkpoint, path) == ES_OK;
    es_checkpoint_close(checkpoint);
    if (is_further)
        return es_fail(
            ES_EUSAGE,
            "%s: this checkpoint is later than step %" PRId64
            ": resume from it, remove it, or give another --checkpoint folder",
            path, first_step);
    return ES_OK;
}

es_status es_checkpoint_folder_open(es_checkpoint_folder **out,
                                    const char *path, const char *name,
                                    const char *uuid, int64_t first_step,
                                    int64_t keep)
{
    *out = NULL;
    es_checkpoint_folder *folder;
    listing all = {0};
    es_status status =
        es_alloc(&folder, 1, sizeof *folder, "a folder of checkpoints");
    if (status < 0)
        return status;
    folder->fd = -1;
    folder->keep = keep;
    file_name(folder->name, name);
    if ((status = join_path(folder->path, path, "")) < 0 ||
        (status = lock_folder(folder)) < 0 ||
        (status = list_files(&all, folder->path, folder->name)) < 0)
        goto done;
    for (size_t i = 0; i < all.n; i++)
        if ((status = check_entry(folder, &all.items[i], uuid, first_step)) < 0)
            goto done;
    if ((status = check_writable(folder)) < 0)
        goto done;
    remove_left_overs(folder);
    *out = folder;
done:
    free(all.items);
    if (status < 0)
        es_checkpoint_folder_close(folder);
    return status;
}

void es_checkpoint_folder_close(es_checkpoint_folder *folder)
{
    if (!folder)
        return;
    if (folder->fd >= 0)
        close(folder->fd);
    free(folder);
}

/* --- saving -------------------------------------------------------------- */

/** Removes all but the last `keep` checkpoints. Ignores files of later steps,
 *  which must be damaged: the folder would otherwise have been refused. */
static es_status remove_old(const es_checkpoint_folder *folder, int64_t step)
{
    listing all;
    int64_t n = 0;
    if (folder->keep == 0)
        return ES_OK;
    es_status status = list_files(&all, folder->path, folder->name);
    for (size_t i = 0; status == ES_OK && i < all.n; i++) {
        if (all.items[i].step > step || ++n <= folder->keep)
            continue;
        if (unlinkat(folder->fd, all.items[i].file, 0) != 0)
            status = es_fail(ES_EIO, "%s%s: cannot remove this file: %s",
                             folder->path, all.items[i].file, strerror(errno));
    }
    free(all.items);
    return status;
}

es_status es_checkpoint_folder_save(es_checkpoint_folder *folder,
                                    es_model *model,
                                    const es_settings *settings,
                                    const es_checkpoint_state *state)
{
    char path[ES_PATH_SIZE];
    es_status status;
    if ((status = path_of(path, folder, state->step)) < 0 ||
        (status = es_checkpoint_write(path, model, settings, state)) < 0)
        return status;
    return remove_old(folder, state->step);
}

/* --- finding ------------------------------------------------------------- */

static es_status check_one_name(const listing *all, const char *path)
{
    for (size_t i = 1; i < all->n; i++)
        if (strcmp(all->items[i].name, all->items[0].name) != 0)
            return es_fail(ES_EUSAGE,
                           "%s: contains checkpoints of several runs, %s and "
                           "%s: give one file",
                           path, all->items[0].name, all->items[i].name);
    if (all->n == 0)
        return es_fail(ES_ENOTFOUND, "%s: no checkpoint in this folder", path);
    return ES_OK;
}

static es_status open_newest(es_checkpoint **out, const listing *all,
                             const char *folder,
                             void (*on_warning)(void *, const char *),
                             void *user)
{
    char path[ES_PATH_SIZE];
    for (size_t i = 0; i < all->n; i++) {
        es_status status = join_path(path, folder, all->items[i].file);
        if (status == ES_OK)
            status = es_checkpoint_open(out, path);
        if (status != ES_EFORMAT && status != ES_EIO)
            return status;
        if (on_warning)
            on_warning(user, es_message());
    }
    return es_fail(ES_EFORMAT, "%s: every checkpoint in this folder is damaged",
                   folder);
}

es_status es_checkpoint_find(es_checkpoint **out, const char *path,
                             void (*on_warning)(void *user,
                                                const char *message),
                             void *user)
{
    struct stat info;
    listing all;
    *out = NULL;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return es_checkpoint_open(out, path);
    es_status status;
    if ((status = list_files(&all, path, NULL)) == ES_OK &&
        (status = check_one_name(&all, path)) == ES_OK)
        status = open_newest(out, &all, path, on_warning, user);
    free(all.items);
    return status;
}
