#include "cli/tree.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/print.h"

#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

es_status es_paths_add(es_paths *to, const char *path)
{
    /* Doubled at powers of two: room needs no member of its own. */
    if ((to->n & (to->n - 1)) == 0) {
        char **grown =
            es_resize(to->paths, to->n ? 2 * to->n : 1, sizeof *grown);
        if (!grown)
            return es_fail(ES_ENOMEM, "out of memory for %zu paths", to->n);
        to->paths = grown;
    }
    char *copy = strdup(path);
    if (!copy)
        return es_fail(ES_ENOMEM, "out of memory for %zu paths", to->n);
    to->paths[to->n++] = copy;
    return ES_OK;
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

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* What fts says of one entry. */
static es_status take(es_paths *out, es_paths *folders, size_t *n_failed,
                      bool quiet, const FTSENT *entry)
{
    switch (entry->fts_info) {
    case FTS_D:
        return folders ? es_paths_add(folders, entry->fts_path) : ES_OK;
    case FTS_F:
        return is_run_name(entry->fts_name) ? es_paths_add(out, entry->fts_path)
                                            : ES_OK;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        if (entry->fts_level == FTS_ROOTLEVEL)
            return es_fail(ES_EIO, "%s: cannot be read: %s", entry->fts_path,
                           strerror(entry->fts_errno));
        if (!quiet)
            es_print_note("%s: cannot be read: %s", entry->fts_path,
                          strerror(entry->fts_errno));
        ++*n_failed;
        return ES_OK;
    default:
        return ES_OK;
    }
}

es_status es_paths_walk(es_paths *out, size_t *n_failed, const char *folder)
{
    return es_paths_walk_all(out, NULL, n_failed, folder, false);
}

es_status es_paths_walk_all(es_paths *out, es_paths *folders, size_t *n_failed,
                            const char *folder, bool quiet)
{
    char *root = strdup(folder);
    char *const roots[] = {root, NULL};
    FTS *walk =
        root ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name) : NULL;
    es_status status = ES_OK;
    if (!walk)
        status = es_fail(root && errno != ENOMEM ? ES_EIO : ES_ENOMEM,
                         "%s: cannot be read: %s", folder, strerror(errno));
    while (status == ES_OK) {
        errno = 0;
        const FTSENT *entry = fts_read(walk);
        if (!entry) {
            if (errno)
                status = es_fail(ES_EIO, "%s: cannot be read: %s", folder,
                                 strerror(errno));
            break;
        }
        status = take(out, folders, n_failed, quiet, entry);
    }
    if (walk)
        fts_close(walk);
    free(root);
    return status;
}

bool es_path_is_same(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
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
        es_status status = es_path_is_folder(inputs[i])
                               ? es_paths_walk(out, n_failed, inputs[i])
                               : es_paths_add(out, inputs[i]);
        if (status != ES_OK)
            return status;
    }
    if (!out->n)
        return es_fail(ES_ENOTFOUND, "%s: no run file (*.db) below it",
                       inputs[0]);
    return ES_OK;
}
