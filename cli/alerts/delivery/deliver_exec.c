#include "cli/alerts/delivery/deliver.h"

#include "cli/output/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
static void become(char **command, int input)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    dup2(input, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(command[0], command);
    _exit(errno == ENOENT ? 127 : 126);
}

es_delivery_outcome es_deliver_exec(char *note, size_t size,
                                    const es_alert *alert,
                                    const es_deliver_options *options)
{
    int code, input = input_of(alert);
    pid_t child = input >= 0 ? fork() : -1;
    if (child == 0)
        become(options->command, input);
    if (child < 0)
        snprintf(note, size, "cannot be run: %s", strerror(errno));
    if (input >= 0)
        close(input);
    if (child < 0)
        return ES_OUTCOME_AGAIN;
    bool in_time = es_wait_ended(&code, child, -child, options->command_limit);
    if (in_time && WIFEXITED(code) && WEXITSTATUS(code) == 0)
        return ES_OUTCOME_DELIVERED;
    if (!in_time)
        snprintf(note, size, "killed after %g s", options->command_limit);
    else if (WIFSIGNALED(code))
        snprintf(note, size, "ended by signal %d", WTERMSIG(code));
    else
        snprintf(note, size, "exit code %d%s", WEXITSTATUS(code),
                 WEXITSTATUS(code) == 127 ? ": no such command?" : "");
    return ES_OUTCOME_FAILED;
}
