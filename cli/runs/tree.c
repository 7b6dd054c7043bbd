/* Finds run files below folders, for all commands, and takes stamps of run
   files (identity, size and time), from which the live view and `watch` detect
   changes. A stamp includes the write-ahead log (-wal), because a writer
   appends to the log first. */
#include "cli/runs/tree.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include "store/run_place.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

es_status es_paths_add(es_paths *to, const char *path)
{
    es_status status = ES_OK;
    /* The array grows whenever the number of elements is a power of two, so its
       capacity need not be stored. */
    if ((to->n & (to->n - 1)) == 0)
        status = es_grow(&to->paths, to->n ? 2 * to->n : 1, sizeof *to->paths,
                         "paths");
    if (status == ES_OK &&
        (status = es_copy_text(&to->paths[to->n], path)) == ES_OK)
        to->n++;
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void es_paths_sort(es_paths *paths)
{
    if (paths->n)
        qsort(paths->paths, paths->n, sizeof *paths->paths, by_name);
}

void es_paths_free(es_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->paths[i]);
    free(paths->paths);
    *paths = (es_paths){0};
}

/* State of a walk through folders. `left` is a stack of the paths to visit. */
typedef struct walk {
    es_paths left;
    es_paths *files, *folders; /* results; `folders` may be NULL */
} walk;

static int backwards(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*b)->d_name, (*a)->d_name);
}

static int is_visited(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static es_status fail_unread(const char *path)
{
    return es_fail(errno == ENOMEM ? ES_ENOMEM : ES_EIO, "%s: cannot read: %s",
                   path, strerror(errno));
}

/* Adds the entries of a folder to the paths to visit, or fails. The fts
   functions are not used, because they ignore errors while reading a folder,
   and runs could therefore be missed. */
static es_status open_folder(walk *w, const char *folder)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_visited, backwards);
    if (n < 0)
        return fail_unread(folder);
    es_status status = w->folders ? es_paths_add(w->folders, folder) : ES_OK;
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (status == ES_OK && asprintf(&path, "%s%s%s", folder,
                                        es_text_ends(folder, "/") ? "" : "/",
                                        entries[i]->d_name) < 0) {
            path = NULL;
            status = es_fail(ES_ENOMEM, "%s: out of memory", folder);
        }
        if (status == ES_OK)
            status = es_paths_add(&w->left, path);
        free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

bool es_path_is_run(const char *name)
{
    return es_text_ends(name, ".db") || es_text_ends(name, ".esf");
}

static es_status visit_path(walk *w, const char *path)
{
    struct stat about;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (lstat(path, &about) != 0)
        return errno == ENOENT ? ES_OK /* the entry was removed after the folder
                                          was listed */
                               : fail_unread(path);
    if (S_ISDIR(about.st_mode))
        return open_folder(w, path);
    return S_ISREG(about.st_mode) && name[0] != '.' && es_path_is_run(name)
               ? es_paths_add(w->files, path)
               : ES_OK;
}

es_status es_paths_walk_all(es_paths *out, es_paths *folders, size_t *n_failed,
                            const char *folder, bool quiet)
{
    walk w = {.files = out, .folders = folders};
    es_status status = open_folder(&w, folder);
    while (w.left.n && status == ES_OK) {
        char *path = w.left.paths[--w.left.n];
        status = visit_path(&w, path);
        free(path);
        if (status != ES_EIO)
            continue;
        if (!quiet)
            es_print_note("%s", es_message());
        ++*n_failed;
        status = ES_OK;
    }
    es_paths_free(&w.left);
    return status;
}

bool es_path_is_folder(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISDIR(file.st_mode);
}

es_status es_paths_expand(es_paths *out, size_t *n_failed, char *const *inputs,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        es_status status =
            es_path_is_folder(inputs[i])
                ? es_paths_walk_all(out, NULL, n_failed, inputs[i], false)
                : es_paths_add(out, inputs[i]);
        if (status < 0)
            return status;
    }
    if (!out->n)
        return es_fail(ES_ENOTFOUND, "%s: no run file (*.db, *.esf) below it",
                       inputs[0]);
    return ES_OK;
}

es_status es_inputs_expand(char ***inputs, size_t *n, es_paths *found,
                           size_t *n_failed)
{
    size_t i = 0;
    while (i < *n && !es_path_is_folder((*inputs)[i]))
        i++;
    if (i == *n)
        return ES_OK;
    es_status status = es_paths_expand(found, n_failed, *inputs, *n);
    if (status != ES_OK)
        return status;
    free(*inputs);
    *inputs = found->paths;
    *n = found->n;
    return ES_OK;
}

void es_inputs_free(char **inputs, es_paths *found)
{
    if (inputs != found->paths)
        free(inputs);
    es_paths_free(found);
}

/* --- stamps ---------------------------------------------------------------*/

es_stamp es_stamp_of(const char *path)
{
    char log[PATH_MAX];
    struct stat about;
    es_stamp stamp = {0};
    if (es_path_is_url(path))
        return (es_stamp){.inode = 1, .size = es_path_state(path)};
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
