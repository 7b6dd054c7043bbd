/* `--exec`: a command for each alert, with the alert's JSON on its standard
 * input, in a process group of its own that can be killed as a whole. */
#include "cli/alerts/delivery/deliver.h"

#include "analyzer/base/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the command reads: a file in memory, which it may leave unread. */
static int input_of(const es_alert *alert)
{
    char *json = es_alert_json(alert);
    size_t n = json ? strlen(json) : 0;
    int fd = memfd_create("alert", MFD_CLOEXEC);
    if (!json || fd < 0 || write(fd, json, n) != (ssize_t)n ||
        write(fd, "\n", 1) != 1 || lseek(fd, 0, SEEK_SET) != 0) {
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    free(json);
    return fd;
}

/* The command leads a process group of its own and does not outlive us. */
es_delivery_outcome es_deliver_exec(char *note, size_t size,
                                    const es_alert *alert,
                                    const es_deliver_options *options)
{
    es_process child;
    es_process_end end;
    double limit = options->command_limit;
    int input = input_of(alert);
    int error =
        input < 0
            ? errno
            : es_process_start(&child, &(es_process_options){
                                           .argv = options->command,
                                           .streams = {input, STDERR_FILENO,
                                                       ES_STREAM_INHERIT},
                                           .place = ES_PLACE_GROUP,
                                           .death_signal = SIGKILL,
                                           .as_shell = true});
    if (input >= 0)
        close(input);
    if (error) {
        snprintf(note, size, "cannot be run: %s", strerror(error));
        return ES_OUTCOME_AGAIN;
    }
    bool in_time =
        es_process_wait_or_kill(&end, &child, (int64_t)(limit * 1000));
    es_process_free(&child);
    if (in_time && !end.lost && end.code == 0)
        return ES_OUTCOME_DELIVERED;
    if (!in_time) {
        snprintf(note, size, "killed after %g s", limit);
        return ES_OUTCOME_FAILED;
    }
    es_process_end_text(note, size, &end);
    if (end.code == 127)
        strncat(note, ": no such command?", size - strlen(note) - 1);
    return ES_OUTCOME_FAILED;
}
