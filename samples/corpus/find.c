#include "samples/corpus/find.h"

#include "analyzer/base/checked.h"
#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static es_status paths_add(es_paths *list, const char *path)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        char **items = es_resize(list->items, capacity, sizeof *items);
        if (!items)
            return es_fail(ES_ENOMEM, "out of memory for %zu paths", capacity);
        list->items = items;
        list->capacity = capacity;
    }
    char *copy = strdup(path);
    if (!copy)
        return es_fail(ES_ENOMEM, "out of memory for %zu paths", list->n);
    list->items[list->n++] = copy;
    return ES_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_left_out(const char *directory)
{
    static const char *const names[] = {"test", "tests", "site-packages",
                                        "dist-packages"};
    if (directory[0] == '.')
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(directory, names[i]) == 0)
            return true;
    return false;
}

static bool is_python(const FTSENT *entry)
{
    return entry->fts_namelen > 3 &&
           strcmp(entry->fts_name + entry->fts_namelen - 3, ".py") == 0;
}

static const char *relative(const FTSENT *entry, const char *folder)
{
    const char *path = entry->fts_path + strlen(folder);
    return path + strspn(path, "/");
}

bool es_paths_is_shortage(int reason)
{
    return reason == EMFILE || reason == ENFILE || reason == ENOMEM;
}

/** What one entry of the walk means. */
static es_status visit(es_paths *list, FTS *walk, FTSENT *entry,
                       const char *folder)
{
    switch (entry->fts_info) {
    case FTS_D:
        if (entry->fts_level > 0 && is_left_out(entry->fts_name))
            fts_set(walk, entry, FTS_SKIP);
        return ES_OK;
    case FTS_F:
        if (entry->fts_level == 0)
            return es_fail(ES_EIO, "%s: not a directory", folder);
        if (is_python(entry))
            return paths_add(list, relative(entry, folder));
        return ES_OK;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        if (entry->fts_level == 0 || es_paths_is_shortage(entry->fts_errno))
            return es_fail(ES_EIO, "%s: %s", entry->fts_path,
                           strerror(entry->fts_errno));
        list->n_unreadable++;
        return ES_OK;
    default: /* symbolic links, devices, the way back up */
        return ES_OK;
    }
}

es_status es_paths_find(es_paths *list, const char *folder)
{
    char *root = strdup(folder);
    char *const roots[] = {root, NULL};
    FTS *walk =
        root ? fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL)
             : NULL;
    es_status status = ES_OK;
    if (!walk)
        status = es_fail(ES_EIO, "%s: %s", folder, strerror(errno));
    while (status == ES_OK) {
        errno = 0;
        FTSENT *entry = fts_read(walk);
        if (!entry && errno)
            status = es_fail(ES_EIO, "%s: %s", folder, strerror(errno));
        if (!entry)
            break;
        status = visit(list, walk, entry, folder);
    }
    if (walk)
        fts_close(walk);
    free(root);
    if (list->n > 0)
        qsort(list->items, list->n, sizeof *list->items, by_bytes);
    return status;
}

void es_paths_free(es_paths *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
    *list = (es_paths){0};
}
