#include "cli/sweep/ask.h"

#include "cli/output/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MOST ((off_t)64 << 20) /* bytes */

/* What it prints goes to files in memory: nobody has to read along. */
static es_status start(pid_t *child, char *const argv[], int text, int trouble)
{
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0)
        return es_fail(ES_ENOMEM, "out of memory to run %s", argv[0]);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, text, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, trouble, STDERR_FILENO);
    int reason = posix_spawnp(child, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (reason == 0)
        return ES_OK;
    return es_fail(reason == ENOENT ? ES_ENOTFOUND : ES_EIO,
                   "%s cannot be run: %s", argv[0], strerror(reason));
}

/* False: the time was up. */
static bool wait_for(int *code, pid_t child, double limit)
{
    int how;
    bool in_time = es_wait_ended(&how, child, child, limit);
    *code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    return in_time;
}

static char *text_of(int fd)
{
    struct stat of;
    bool fits = fstat(fd, &of) == 0 && of.st_size <= ANSWER_MOST;
    char *text = fits ? malloc((size_t)of.st_size + 1) : NULL;
    if (!text)
        return NULL;
    ssize_t n = pread(fd, text, (size_t)of.st_size, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* "sbatch: error: A" and "sbatch: error: B" are "A; B". */
static void join_lines(char *out, size_t size, char *text, const char *program)
{
    char *rest = text;
    *out = '\0';
    for (char *line; (line = strsep(&rest, "\n"));) {
        size_t n = strlen(out), own = strlen(program);
        if (strncmp(line, program, own) == 0 &&
            strncmp(line + own, ": ", 2) == 0)
            line += own + 2;
        if (strncmp(line, "error: ", 7) == 0)
            line += 7;
        if (*line)
            snprintf(out + n, size - n, "%s%s", n ? "; " : "", line);
    }
}

static es_status take_answer(es_sweep_answer *out, int text, int trouble,
                             const char *program)
{
    char *lines = text_of(trouble);
    out->text = text_of(text);
    if (lines)
        join_lines(out->trouble, sizeof out->trouble, lines, program);
    free(lines);
    return out->text
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for what %s says", program);
}

es_status es_sweep_ask(es_sweep_answer *out, char *const argv[], double limit)
{
    pid_t child;
    int text = memfd_create("text", MFD_CLOEXEC);
    int trouble = memfd_create("trouble", MFD_CLOEXEC);
    *out = (es_sweep_answer){.text = NULL};
    es_status status =
        text >= 0 && trouble >= 0
            ? start(&child, argv, text, trouble)
            : es_fail(ES_EIO, "%s cannot be run: %s", argv[0], strerror(errno));
    if (status == ES_OK && !wait_for(&out->code, child, limit))
        status =
            es_fail(ES_EIO, "%s does not answer within %g s", argv[0], limit);
    if (status == ES_OK)
        status = take_answer(out, text, trouble, argv[0]);
    if (text >= 0)
        close(text);
    if (trouble >= 0)
        close(trouble);
    return status;
}
