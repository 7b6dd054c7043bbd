/*
 * Opens the input files of all programs: token files and weights, which are
 * read in parts, and small text files with settings, rules and addresses.
 * Opening a file never waits for another process. All checks are made on the
 * open descriptor, so that the file cannot be replaced between check and use.
 */
#include "analyzer/base/infile.h"

#include "analyzer/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static es_status fail_open(const char *path)
{
    return es_fail(ES_EIO, "%s: %s", path, strerror(errno));
}

static es_status fail_read(const char *path)
{
    return es_fail(ES_EIO, "%s: cannot read: %s", path, strerror(errno));
}

/* Without O_NONBLOCK, open() would wait for a FIFO's writer. The caller detects
   a FIFO by fstat. */
static es_status open_any(int *fd, struct stat *about, const char *path)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return *fd < 0 || fstat(*fd, about) < 0 ? fail_open(path) : ES_OK;
}

es_status es_infile_refuse_pointer(const void *head, size_t n, const char *path)
{
    static const char begin[] = "version https://git-lfs";
    if (n < sizeof begin - 1 || memcmp(head, begin, sizeof begin - 1) != 0)
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: a Git LFS pointer, not the file: run git lfs pull",
                   path);
}

es_status es_infile_open(int *fd, uint64_t *size, const char *path)
{
    struct stat about;
    es_status status = open_any(fd, &about, path);
    if (status < 0)
        return status;
    if (!S_ISREG(about.st_mode))
        return es_fail(
            ES_EIO,
            "%s: not a regular file: copy its contents into a regular file",
            path);
    *size = (uint64_t)about.st_size;
    char head[32];
    const ssize_t n = pread(*fd, head, sizeof head, 0);
    return n < 0 ? fail_read(path)
                 : es_infile_refuse_pointer(head, (size_t)n, path);
}

es_status es_infile_read(int fd, void *out, size_t n, uint64_t offset,
                         const char *path)
{
    char *at = out;
    while (n > 0) {
        ssize_t got = pread(fd, at, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_read(path);
        if (got == 0)
            return es_fail(ES_EIO, "%s: was truncated while it was read", path);
        at += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return ES_OK;
}

/**
 * Returns true if no process has had the FIFO open for writing since it was
 * opened here. Returns false for a pipe whose writer has exited (POLLHUP),
 * because such a pipe has merely ended. If a byte has to be read for this
 * check, stores it in *first; otherwise *first is unchanged.
 */
static bool is_unwritten(int *first, int fd)
{
    struct pollfd events = {.fd = fd, .events = POLLIN};
    unsigned char byte;
    if (poll(&events, 1, 0) != 0)
        return false;
    ssize_t n = read(fd, &byte, 1);
    if (n == 1)
        *first = byte;
    return n == 0;
}

/* Removes O_NONBLOCK, so that further reads wait for data. */
static es_status make_blocking(int fd, const char *path)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return fail_read(path);
    return ES_OK;
}

es_status es_infile_stream(FILE **out, const char *path)
{
    struct stat about;
    int fd, first = EOF;
    *out = NULL;
    es_status status = open_any(&fd, &about, path);
    if (status < 0)
        goto failed;
    if (S_ISDIR(about.st_mode)) {
        errno = EISDIR;
        status = fail_open(path);
    } else if (S_ISFIFO(about.st_mode) && is_unwritten(&first, fd)) {
        status = es_fail(ES_EIO, "%s: a FIFO without a writer", path);
    } else if ((status = make_blocking(fd, path)) == ES_OK &&
               !(*out = fdopen(fd, "r"))) {
        status = es_fail(ES_ENOMEM, "%s: out of memory", path);
    }
    if (status < 0)
        goto failed;
    if (first != EOF)
        ungetc(first, *out);
    return ES_OK;
failed:
    if (fd >= 0)
        close(fd);
    return status;
}

es_status es_infile_load(char **out, size_t *n, const char *path,
                         const es_infile_limit *limit)
{
    FILE *stream;
    *out = NULL;
    es_status status = es_infile_stream(&stream, path);
    if (status < 0)
        return status;
    if ((status = es_alloc(out, limit->bytes + 1, 1, path)) < 0)
        goto done;
    errno = 0;
    *n = fread(*out, 1, limit->bytes + 1, stream);
    if (ferror(stream))
        status = fail_read(path);
    else if (*n > limit->bytes)
        status =
            es_fail(limit->code, "%s: larger than the %zu KiB that %s may have",
                    path, limit->bytes >> 10, limit->kind);
    else
        (*out)[*n] = '\0';
done:
    if (status < 0) {
        free(*out);
        *out = NULL;
    }
    fclose(stream);
    return status;
}
