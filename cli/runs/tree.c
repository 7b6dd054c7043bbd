/* Finds run files below folders, for --recursive, watch and merge. */
#include "cli/runs/tree.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/output/print.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

es_status es_paths_add(es_paths *to, const char *path)
{
    es_status status = ES_OK;
    /* Doubled at powers of two: the capacity needs no member of its own. */
    if ((to->n & (to->n - 1)) == 0)
        status = es_grow(&to->paths, to->n ? 2 * to->n : 1, sizeof *to->paths,
                         "paths");
    if (status == ES_OK &&
        (status = es_copy_text(&to->paths[to->n], path)) == ES_OK)
        to->n++;
    return status;
}

void es_paths_free(es_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->paths[i]);
    free(paths->paths);
    *paths = (es_paths){0};
}

static bool is_run_name(const char *name)
{
    return name[0] != '.' && es_text_ends(name, ".db");
}

/* What is still to be visited, the next one last. */
typedef struct walk {
    es_paths left;
    es_paths *files, *folders; /* found; folders may be NULL */
    size_t *n_failed;
    bool quiet;
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
    return es_fail(errno == ENOMEM ? ES_ENOMEM : ES_EIO,
                   "%s: cannot be read: %s", path, strerror(errno));
}

static es_status push(walk *w, const char *folder, const char *name)
{
    const char *slash = es_text_ends(folder, "/") ? "" : "/";
    char *path;
    if (asprintf(&path, "%s%s%s", folder, slash, name) < 0)
        return es_fail(ES_ENOMEM, "%s: out of memory", folder);
    es_status status = es_paths_add(&w->left, path);
    free(path);
    return status;
}

/* What is in a folder, or nothing of it: a listing that breaks off in the
   middle, which fts passes over, would hide runs. */
static es_status open_folder(walk *w, const char *folder)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_visited, backwards);
    if (n < 0)
        return fail_unread(folder);
    es_status status = w->folders ? es_paths_add(w->folders, folder) : ES_OK;
    for (int i = 0; i < n; i++) {
        if (status == ES_OK)
            status = push(w, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static es_status visit(walk *w, const char *path)
{
    struct stat about;
    const char *slash = strrchr(path, '/');
    if (lstat(path, &about) != 0)
        return errno == ENOENT ? ES_OK /* removed meanwhile */
                               : fail_unread(path);
    if (S_ISDIR(about.st_mode))
        return open_folder(w, path);
    return S_ISREG(about.st_mode) && is_run_name(slash ? slash + 1 : path)
               ? es_paths_add(w->files, path)
               : ES_OK;
}

static es_status walk_on(walk *w)
{
    es_status status = ES_OK;
    while (w->left.n && status == ES_OK) {
        char *path = w->left.paths[--w->left.n];
        status = visit(w, path);
        free(path);
        if (status != ES_EIO)
            continue;
        if (!w->quiet)
            es_print_note("%s", es_message());
        ++*w->n_failed;
        status = ES_OK;
    }
    return status;
}

es_status es_paths_walk_all(es_paths *out, es_paths *folders, size_t *n_failed,
                            const char *folder, bool quiet)
{
    walk w = {
        .files = out, .folders = folders, .n_failed = n_failed, .quiet = quiet};
    es_status status = open_folder(&w, folder);
    if (status == ES_OK)
        status = walk_on(&w);
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
        return es_fail(ES_ENOTFOUND, "%s: no run file (*.db) below it",
                       inputs[0]);
    return ES_OK;
}
