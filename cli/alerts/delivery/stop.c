/* Asks a training run to stop, for `watch` and `serve`. */
#include "cli/alerts/delivery/stop.h"

#include "store/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes the line to a temporary file and renames it to PATH.stop. The
 * recorder therefore never reads half a line, and an existing file or link
 * is replaced. */
static bool write_stop_file(const char *path, const char *line)
{
    char file[PATH_MAX], aside[PATH_MAX];
    size_t n = strlen(line);
    if (snprintf(file, sizeof file, "%s.stop", path) >= (int)sizeof file ||
        snprintf(aside, sizeof aside, "%s.stop-%ld", path, (long)getpid()) >=
            (int)sizeof aside) {
        errno = ENAMETOOLONG;
        return false;
    }
    unlink(aside);
    int fd =
        open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    bool written = write(fd, line, n) == (ssize_t)n && write(fd, "\n", 1) == 1;
    if (close(fd) == 0 && written && rename(aside, file) == 0)
        return true;
    int reason = errno;
    unlink(aside);
    errno = reason;
    return false;
}

/* Searches the run file `path` for the run with the given uuid. Returns
 * ES_ENOTFOUND if the file does not contain the run. */
static es_status find_run(const char *path, const char *uuid)
{
    es_reader *reader = NULL;
    es_run_info info;
    bool found = false;
    if (access(path, F_OK) != 0)
        return es_fail(ES_ENOTFOUND, "the run file no longer exists");
    es_status status = es_reader_open(&reader, path);
    size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    for (size_t i = 0; i < n && !found && status == ES_OK; i++) {
        status = es_reader_run(reader, i, &info);
        found = status == ES_OK && info.uuid && strcmp(info.uuid, uuid) == 0;
    }
    es_reader_close(reader);
    if (status == ES_OK && !found)
        status = es_fail(ES_ENOTFOUND, "%s: now contains another run", path);
    return status;
}

es_status es_stop_request(const char *path, const char *uuid, const char *line)
{
    es_status status = find_run(path, uuid);
    if (status == ES_OK && !write_stop_file(path, line))
        status =
            es_fail(ES_EIO, "%s.stop: cannot write: %s", path, strerror(errno));
    return status;
}
