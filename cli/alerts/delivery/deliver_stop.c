/* `--stop`: leaves RUN.db.stop, which the recorder of the run looks for. The
 * request is made only if the file still holds the alert's run. */
#include "cli/alerts/alert.h"
#include "cli/alerts/delivery/deliver.h"
#include "store/reader.h"

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

/* ES_ENOTFOUND: the run of the alert is not in the file. */
static es_status find_run(const char *path, const char *uuid)
{
    es_reader *reader = NULL;
    es_run_info info;
    bool found = false;
    es_status status = es_reader_open(&reader, path);
    size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    for (size_t i = 0; i < n && !found && status == ES_OK; i++) {
        status = es_reader_run(reader, i, &info);
        found = status == ES_OK && info.uuid && strcmp(info.uuid, uuid) == 0;
    }
    es_reader_close(reader);
    if (status == ES_OK && !found)
        status = es_fail(ES_ENOTFOUND, "%s: holds another run now", path);
    return status;
}

/* An alert may be delivered late: whoever records in its file by then may not
   be stopped for it. */
static es_delivery_outcome stop(char *note, size_t size, const char *path,
                                const char *uuid, const char *line)
{
    if (access(path, F_OK) != 0) {
        snprintf(note, size, "the run file is gone");
        return ES_OUTCOME_FAILED;
    }
    es_status status = find_run(path, uuid);
    if (status != ES_OK) {
        snprintf(note, size, "%s", es_message());
        return status == ES_ENOTFOUND || status == ES_EFORMAT
                   ? ES_OUTCOME_FAILED
                   : ES_OUTCOME_AGAIN;
    }
    if (leave(path, line))
        return ES_OUTCOME_DELIVERED;
    snprintf(note, size, "%s.stop: cannot write: %s", path, strerror(errno));
    return ES_OUTCOME_AGAIN;
}

es_delivery_outcome es_deliver_stop(char *note, size_t size,
                                    const es_alert *alert)
{
    char *line = es_alert_line(alert);
    es_delivery_outcome outcome = ES_OUTCOME_AGAIN;
    if (line)
        outcome = stop(note, size, alert->path, alert->uuid, line);
    else
        snprintf(note, size, "%s", es_message());
    free(line);
    return outcome;
}
