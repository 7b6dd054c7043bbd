#include "samples/corpus/collect.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "samples/corpus/find.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- reading ------------------------------------------------------------- */

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

/** -1, errno set, if there is no such regular file. */
static int open_regular(int folder, const char *path, size_t *size)
{
    struct stat st;
    int fd =
        openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        fd = -1;
    }
    *size = fd >= 0 ? (size_t)st.st_size : 0;
    return fd;
}

static int open_folder(const char *folder)
{
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

es_status es_corpus_read(unsigned char *out, const es_corpus *corpus,
                         const es_document *document)
{
    const char *folder = corpus->folders[document->folder];
    int at = open_folder(folder);
    size_t size = 0;
    int fd = at >= 0 ? open_regular(at, document->path, &size) : -1;
    es_status status = ES_OK;
    if (fd < 0)
        status = es_fail(ES_EIO, "%s/%s: %s", folder, document->path,
                         strerror(errno));
    else if (size != document->size || read_up_to(fd, out, size) != size ||
             es_tokens_hash(out, size) != document->hash)
        status = es_fail(ES_EIO, "%s/%s: changed while it was read: try again",
                         folder, document->path);
    if (fd >= 0)
        close(fd);
    if (at >= 0)
        close(at);
    return status;
}

/* --- what was seen ------------------------------------------------------- */

static uint64_t *place_of(uint64_t *seen, size_t n_places, uint64_t key)
{
    size_t at = (size_t)key & (n_places - 1);
    while (seen[at] != 0 && seen[at] != key)
        at = (at + 1) & (n_places - 1);
    return &seen[at];
}

/** Room for one more, at most half full. */
static es_status seen_reserve(es_corpus *corpus)
{
    if (2 * (corpus->n_seen + 1) <= corpus->n_places)
        return ES_OK;
    size_t n_places = corpus->n_places ? 2 * corpus->n_places : 1024;
    uint64_t *seen = calloc(n_places, sizeof *seen);
    if (!seen)
        return es_fail(ES_ENOMEM, "out of memory for %zu documents",
                       corpus->n_seen);
    for (size_t i = 0; i < corpus->n_places; i++)
        if (corpus->seen[i] != 0)
            *place_of(seen, n_places, corpus->seen[i]) = corpus->seen[i];
    free(corpus->seen);
    corpus->seen = seen;
    corpus->n_places = n_places;
    return ES_OK;
}

/** ES_DONE if there was a document of this hash, which tells sizes apart. */
static es_status see(es_corpus *corpus, uint64_t hash)
{
    es_status status = seen_reserve(corpus);
    if (status != ES_OK)
        return status;
    uint64_t key = hash ? hash : 1;
    uint64_t *place = place_of(corpus->seen, corpus->n_places, key);
    if (*place == key)
        return ES_DONE;
    *place = key;
    corpus->n_seen++;
    return ES_OK;
}

/* --- adding -------------------------------------------------------------- */

static es_status documents_reserve(es_corpus *corpus)
{
    if (corpus->n < corpus->capacity)
        return ES_OK;
    size_t capacity = corpus->capacity ? 2 * corpus->capacity : 256;
    es_document *items = es_resize(corpus->items, capacity, sizeof *items);
    if (!items)
        return es_fail(ES_ENOMEM, "out of memory for %zu documents", capacity);
    corpus->items = items;
    corpus->capacity = capacity;
    return ES_OK;
}

/** Adds a document; *path is taken over, and NULL then. */
static es_status add_document(es_corpus *corpus, char **path, size_t size,
                              uint64_t hash)
{
    es_status status = documents_reserve(corpus);
    if (status != ES_OK)
        return status;
    bool held_out =
        es_tokens_hash(*path, strlen(*path)) % ES_CORPUS_HELD_OUT == 0;
    es_split split = held_out ? ES_SPLIT_HELD_OUT : ES_SPLIT_TRAIN;
    corpus->items[corpus->n++] = (es_document){.folder = corpus->n_folders - 1,
                                               .path = *path,
                                               .size = size,
                                               .hash = hash,
                                               .split = split};
    *path = NULL;
    corpus->n_documents[split]++;
    corpus->n_bytes[split] += size + 1;
    if (size > corpus->largest)
        corpus->largest = size;
    return ES_OK;
}

/** Adds the file whose bytes these are, or counts why not. */
static es_status judge(es_corpus *corpus, char **path,
                       const unsigned char *bytes, size_t n)
{
    uint64_t *reason = NULL;
    if (n == SIZE_MAX)
        reason = &corpus->n_unreadable;
    else if (n == 0)
        reason = &corpus->n_empty;
    else if (memchr(bytes, 0, n))
        reason = &corpus->n_binary;
    else if (!es_text_is_utf8((const char *)bytes, n))
        reason = &corpus->n_not_utf8;
    if (reason) {
        ++*reason;
        return ES_OK;
    }
    uint64_t hash = es_tokens_hash(bytes, n);
    es_status status = see(corpus, hash);
    if (status == ES_OK)
        return add_document(corpus, path, n, hash);
    if (status == ES_DONE)
        corpus->n_twice++;
    return status < 0 ? status : ES_OK;
}

static bool is_full(const es_corpus *corpus, size_t more, uint64_t limit)
{
    uint64_t n = corpus->n_bytes[0] + corpus->n_bytes[1];
    return limit && (n >= limit || more >= limit - n);
}

/** ES_DONE once the corpus is as long as it may be. */
static es_status add_path(es_corpus *corpus, int folder, char **path,
                          uint64_t limit)
{
    size_t size;
    int fd = open_regular(folder, *path, &size);
    if (fd < 0 && es_paths_is_shortage(errno))
        return es_fail(ES_EIO, "%s: %s", *path, strerror(errno));
    if (fd < 0) {
        corpus->n_unreadable++;
        return ES_OK;
    }
    es_status status = ES_DONE;
    unsigned char *bytes = NULL;
    if (!is_full(corpus, size, limit)) {
        bytes = malloc(size + 1);
        status = bytes ? judge(corpus, path, bytes, read_up_to(fd, bytes, size))
                       : es_fail(ES_ENOMEM, "%s: out of memory for %zu bytes",
                                 *path, size);
    }
    free(bytes);
    close(fd);
    return status;
}

static es_status remember_folder(es_corpus *corpus, const char *folder)
{
    char *copy = strdup(folder);
    char **folders = es_resize(corpus->folders, corpus->n_folders + 1,
                               sizeof *corpus->folders);
    if (folders)
        corpus->folders = folders;
    if (!copy || !folders) {
        free(copy);
        return es_fail(ES_ENOMEM, "%s: out of memory", folder);
    }
    corpus->folders[corpus->n_folders++] = copy;
    return ES_OK;
}

es_status es_corpus_add_folder(es_corpus *corpus, const char *folder,
                               uint64_t limit)
{
    es_paths list = {0};
    int fd = -1;
    es_status status = es_paths_find(&list, folder);
    corpus->n_unreadable += list.n_unreadable;
    if (status == ES_OK)
        status = remember_folder(corpus, folder);
    if (status != ES_OK)
        goto done;
    fd = open_folder(folder);
    if (fd < 0)
        status = es_fail(ES_EIO, "%s: %s", folder, strerror(errno));
    for (size_t i = 0; i < list.n && status == ES_OK; i++)
        status = add_path(corpus, fd, &list.items[i], limit);
done:
    if (fd >= 0)
        close(fd);
    es_paths_free(&list);
    return status < 0 ? status : ES_OK;
}

/* --- the whole ----------------------------------------------------------- */

uint64_t es_corpus_checksum(const es_corpus *corpus)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < corpus->n; i++) {
        const es_document *document = &corpus->items[i];
        uint64_t words[] = {htole64(hash), htole64(document->hash),
                            htole64(document->split)};
        hash = es_tokens_hash(words, sizeof words);
    }
    return hash;
}

void es_corpus_free(es_corpus *corpus)
{
    for (size_t i = 0; i < corpus->n; i++)
        free(corpus->items[i].path);
    for (size_t i = 0; i < corpus->n_folders; i++)
        free(corpus->folders[i]);
    free(corpus->items);
    free(corpus->folders);
    free(corpus->seen);
    *corpus = (es_corpus){0};
}
