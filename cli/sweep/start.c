/* Starts a training process for entropy-scan sweep: either entropy-train with
 * additional options for the files of the folder, or a user's program, which
 * gets the path of its run file through placeholders and the environment. */
#include "cli/sweep/start.h"

#include "analyzer/base/checked.h"
#include "cli/alerts/delivery/words.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/sweep.h"
#include "cli/sweep/template.h"
#include "store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

es_status es_sweep_program(char **out, const char *program)
{
    char self[PATH_MAX], path[PATH_MAX], tail[PATH_MAX];
    bool is_path = strchr(program, '/');
    if (is_path && access(program, X_OK) != 0)
        return es_fail(ES_EUSAGE, "%s: cannot execute: %s", program,
                       strerror(errno));
    bool is_beside =
        !is_path && snprintf(tail, sizeof tail, "/%s", program) < PATH_MAX &&
        es_process_self(self) && es_process_beside(path, self, tail);
    return es_copy_text(out, is_beside ? path : program);
}

/* Starts the program without a shell and without standard input; its output
 * goes to NAME.log. The program leads a separate process group, so that only
 * the sweep receives Ctrl-C from the terminal. The program gets SIGTERM if the
 * sweep dies. If the program does not exist, the exit code is 127. */
static es_status start_process(es_process *out, const char *program,
                               char **argv, const char *log)
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
    return error
               ? es_fail(ES_EIO, "%s: cannot run: %s", program, strerror(error))
               : ES_OK;
}

/* Starts entropy-train with additional options for the files of the folder. If
 * the run resumes, its option --init is omitted, because the trainer loads the
 * last checkpoint instead. */
static es_status start_trainer(es_process *out, const char *program,
                               const char *folder, const es_sweep_run *run,
                               bool goes_on)
{
    static char checkpoint[] = "--checkpoint", resume[] = "--resume",
                option_out[] = "--out";
    es_sweep_file log = es_sweep_path(folder, run->name, ".log");
    es_sweep_file file = es_sweep_path(folder, run->name, ".db");
    es_sweep_file saved =
        es_sweep_path(folder, run->name, ES_SWEEP_CHECKPOINTS);
    size_t n = 0;
    char **argv;
    while (run->argv[n])
        n++;
    es_status status = es_alloc(&argv, n + 7, sizeof *argv, "a command line");
    if (status < 0)
        return status;
    n = 0;
    for (size_t i = 0; run->argv[i]; i++)
        if (goes_on && strcmp(run->argv[i], "--init") == 0 && run->argv[i + 1])
            i++;
        else
            argv[n++] = run->argv[i];
    if (es_sweep_run_has(run, "--checkpoint-every")) {
        argv[n++] = checkpoint;
        argv[n++] = saved.path;
    }
    if (goes_on) {
        argv[n++] = resume;
        argv[n++] = saved.path;
    }
    argv[n++] = option_out;
    argv[n++] = file.path;
    status = start_process(out, program, argv, log.path);
    free(argv);
    return status;
}

/* Starts the user's program. The path of the run file is absolute, so that the
 * path stays valid if the program changes its directory. The environment of
 * this process is modified, which is safe because the process has only one
 * thread. */
static es_status start_command(es_process *out, const char *program,
                               const char *folder, const es_sweep_run *run)
{
    char here[PATH_MAX];
    char **argv = NULL;
    es_sweep_file log = es_sweep_path(folder, run->name, ".log");
    if (!realpath(folder, here))
        return es_fail(ES_EIO, "%s: %s", folder, strerror(errno));
    es_sweep_file file = es_sweep_path(here, run->name, ".db");
    es_status status = es_sweep_template_fill(
        &argv, run->argv, &(es_sweep_value){ES_SWEEP_RUN, file.path}, 1, false);
    if (status == ES_OK) {
        setenv(ES_SWEEP_RUN_VARIABLE, file.path, 1);
        setenv(ES_RUN_CONFIG_VARIABLE, run->config, 1);
        status = start_process(out, program, argv, log.path);
        unsetenv(ES_SWEEP_RUN_VARIABLE);
        unsetenv(ES_RUN_CONFIG_VARIABLE);
    }
    es_words_free(argv);
    return status;
}

es_status es_sweep_start(es_process *out, const char *program,
                         const char *folder, const es_sweep_run *run,
                         bool goes_on)
{
    return run->config ? start_command(out, program, folder, run)
                       : start_trainer(out, program, folder, run, goes_on);
}

void es_sweep_signal(es_process *process, const es_sweep_run *run, int number)
{
    if (run->config)
        kill(-process->pid, number);
    else
        es_process_signal(process, number);
}
