/* One training of a sweep as a process: its command line with the folder's
 * files added, its log, and how it ended. */
#include "cli/sweep/child.h"

#include "analyzer/base/checked.h"
#include "cli/sweep/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- where it is ----------------------------------------------------------*/

es_status es_sweep_program(char **out, const char *program)
{
    char self[PATH_MAX], path[PATH_MAX], tail[PATH_MAX];
    bool is_path = strchr(program, '/');
    if (is_path && access(program, X_OK) != 0)
        return es_fail(ES_EUSAGE, "%s: not a program: %s", program,
                       strerror(errno));
    bool is_beside =
        !is_path && snprintf(tail, sizeof tail, "/%s", program) < PATH_MAX &&
        es_process_self(self) && es_process_beside(path, self, tail);
    return es_copy_text(out, is_beside ? path : program);
}

/* --- start ----------------------------------------------------------------*/

static size_t count(char *const *argv)
{
    size_t n = 0;
    while (argv[n])
        n++;
    return n;
}

/* A group of its own: Ctrl-C is for the sweep to pass on. */
static es_status start(es_process *out, const char *program, char **argv,
                       const char *log)
{
    int fd = open(log,
                  O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
                      O_CLOEXEC,
                  0666);
    if (fd < 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", log, strerror(errno));
    int error = es_process_start(
        out, &(es_process_options){.program = program,
                                   .argv = argv,
                                   .streams = {ES_STREAM_NULL, fd, fd},
                                   .place = ES_PLACE_GROUP,
                                   .death_signal = SIGTERM,
                                   .as_shell = true});
    if (out->error)
        dprintf(fd, "%s: %s\n", program, strerror(out->error));
    close(fd);
    return error ? es_fail(ES_EIO, "%s: cannot be run: %s", program,
                           strerror(error))
                 : ES_OK;
}

static void add_pair(char **argv, size_t *n, char *key, char *value)
{
    argv[(*n)++] = key;
    argv[(*n)++] = value;
}

/* What the folder adds to a command line. What a training began with is not
   for one that goes on. */
static void complete(char **argv, const es_sweep_run *run, char *file,
                     char *saved, bool goes_on)
{
    static char checkpoint[] = "--checkpoint", resume[] = "--resume",
                out[] = "--out";
    size_t n = 0;
    for (size_t i = 0; run->argv[i]; i++)
        if (goes_on && strcmp(run->argv[i], "--init") == 0 && run->argv[i + 1])
            i++;
        else
            argv[n++] = run->argv[i];
    if (es_sweep_run_has(run, "--checkpoint-every"))
        add_pair(argv, &n, checkpoint, saved);
    if (goes_on)
        add_pair(argv, &n, resume, saved);
    add_pair(argv, &n, out, file);
}

es_status es_sweep_child_start(es_process *out, const char *program,
                               const char *folder, const es_sweep_run *run,
                               bool goes_on)
{
    char *log = es_sweep_path(folder, run->name, ".log");
    char *file = es_sweep_path(folder, run->name, ".db");
    char *saved = es_sweep_path(folder, run->name, ES_SWEEP_CHECKPOINTS);
    char **argv = calloc(count(run->argv) + 7, sizeof *argv);
    es_status status = ES_ENOMEM;
    if (!argv)
        es_fail(ES_ENOMEM, "out of memory for a command line");
    if (argv && log && file && saved) {
        complete(argv, run, file, saved, goes_on);
        status = start(out, program, argv, log);
    }
    free(argv);
    free(log);
    free(file);
    free(saved);
    return status;
}

/* --- end ------------------------------------------------------------------*/

bool es_sweep_child_ended(char *why, size_t size, es_process *child)
{
    es_process_end end;
    if (!es_process_wait(&end, child, 0))
        return false;
    *why = '\0';
    if (end.lost || end.code > 1) /* 1: the loss is not finite */
        es_process_end_text(why, size, &end);
    es_process_free(child);
    return true;
}
