#include "hooks/trainer/files/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

es_status es_regular_open(int *fd, uint64_t *size, const char *path)
{
    struct stat info;
    /* A FIFO would block here without O_NONBLOCK; fstat then refuses it. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 || fstat(*fd, &info) < 0)
        return es_fail(ES_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return es_fail(ES_EIO, "%s: not a regular file", path);
    *size = (uint64_t)info.st_size;
    return ES_OK;
}

es_status es_regular_read(int fd, void *out, size_t n, uint64_t offset,
                          const char *path)
{
    char *at = out;
    while (n > 0) {
        ssize_t got = pread(fd, at, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return es_fail(ES_EIO, "%s: cannot read: %s", path,
                           strerror(errno));
        if (got == 0)
            return es_fail(ES_EIO, "%s: became shorter while it was read",
                           path);
        at += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return ES_OK;
}
