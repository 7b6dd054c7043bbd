#include "samples/corpus/collect.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/tokens.h"
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the paths ----------------------------------------------------------- */

typedef struct paths {
    char **items; /* relative to the folder */
    size_t n, capacity;
} paths;

static void paths_free(paths *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
}

static es_status paths_add(paths *list, const char *path)
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

/** What one entry of the walk means. */
static es_status visit(paths *list, es_corpus *corpus, FTS *walk, FTSENT *entry,
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
        if (entry->fts_level == 0)
            return es_fail(ES_EIO, "%s: %s", folder,
                           strerror(entry->fts_errno));
        corpus->n_unreadable++;
        return ES_OK;
    default: /* symbolic links, devices, the way back up */
        return ES_OK;
    }
}

static es_status find_python(paths *list, es_corpus *corpus, const char *folder)
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
        status = visit(list, corpus, walk, entry, folder);
    }
    if (walk)
        fts_close(walk);
    free(root);
    if (list->n > 0)
        qsort(list->items, list->n, sizeof *list->items, by_bytes);
    return status;
}

/* --- the documents ------------------------------------------------------- */

static es_status documents_reserve(es_documents *documents, size_t more)
{
    size_t need;
    if (es_size_add(&need, documents->n, more)) {
        if (need <= documents->capacity)
            return ES_OK;
        size_t capacity = need < SIZE_MAX / 2 ? 2 * need : need;
        unsigned char *bytes = es_resize(documents->bytes, capacity, 1);
        if (bytes) {
            documents->bytes = bytes;
            documents->capacity = capacity;
            return ES_OK;
        }
    }
    return es_fail(ES_ENOMEM, "out of memory after %zu bytes", documents->n);
}

/** Reads up to n bytes; what came. SIZE_MAX if the system refused. */
static size_t read_up_to(int fd, unsigned char *out, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, out + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return SIZE_MAX;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return done;
}

static int open_regular(int folder, const char *path, size_t *size)
{
    struct stat st;
    int fd =
        openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    *size = fd >= 0 ? (size_t)st.st_size : 0;
    return fd;
}

/** Appends a file, a NUL byte behind it; leaves out what is no text. */
static es_status add_file(es_documents *documents, es_corpus *corpus, int fd,
                          size_t size)
{
    es_status status = documents_reserve(documents, size + 1);
    if (status != ES_OK)
        return status;
    unsigned char *bytes = documents->bytes + documents->n;
    size_t n = read_up_to(fd, bytes, size);
    if (n == SIZE_MAX)
        corpus->n_unreadable++;
    else if (n == 0)
        corpus->n_empty++;
    else if (memchr(bytes, 0, n))
        corpus->n_binary++;
    else {
        bytes[n] = 0;
        documents->n += n + 1;
        documents->n_documents++;
    }
    return ES_OK;
}

/** ES_DONE once the corpus is as long as it may be. */
static es_status add_path(es_corpus *corpus, int folder, const char *path,
                          uint64_t limit)
{
    size_t size;
    int fd = open_regular(folder, path, &size);
    if (fd < 0) {
        corpus->n_unreadable++;
        return ES_OK;
    }
    uint64_t n = corpus->train.n + corpus->held_out.n;
    bool held_out =
        es_tokens_hash(path, strlen(path)) % ES_CORPUS_HELD_OUT == 0;
    es_status status = ES_DONE;
    if (!limit || (n < limit && size < limit - n))
        status = add_file(held_out ? &corpus->held_out : &corpus->train, corpus,
                          fd, size);
    close(fd);
    return status;
}

es_status es_corpus_add_folder(es_corpus *corpus, const char *folder,
                               uint64_t limit)
{
    paths list = {0};
    int fd = -1;
    es_status status = find_python(&list, corpus, folder);
    if (status != ES_OK)
        goto done;
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        status = es_fail(ES_EIO, "%s: %s", folder, strerror(errno));
    for (size_t i = 0; i < list.n && status == ES_OK; i++)
        status = add_path(corpus, fd, list.items[i], limit);
done:
    if (fd >= 0)
        close(fd);
    paths_free(&list);
    return status < 0 ? status : ES_OK;
}

void es_corpus_free(es_corpus *corpus)
{
    free(corpus->train.bytes);
    free(corpus->held_out.bytes);
    *corpus = (es_corpus){0};
}
