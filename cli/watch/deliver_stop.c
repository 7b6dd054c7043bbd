#include "cli/watch/deliver.h"
#include "cli/watch/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Written aside and renamed: the recorder never reads half a line, and what
   lies there, a link too, is replaced. */
static bool leave(const char *path, const char *line)
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

es_outcome es_deliver_stop(char *note, size_t size, const char *json)
{
    char *path = es_notice_member(json, "path");
    char *line = es_notice_member(json, "text");
    es_outcome outcome = ES_OUTCOME_DELIVERED;
    if (!path || !line || access(path, F_OK) != 0) {
        snprintf(note, size, "the run file is gone");
        outcome = ES_OUTCOME_FAILED;
    } else if (!leave(path, line)) {
        snprintf(note, size, "%s.stop: cannot write: %s", path,
                 strerror(errno));
        outcome = ES_OUTCOME_AGAIN;
    }
    free(path);
    free(line);
    return outcome;
}
