#include "samples/corpus/child.h"

#include "samples/corpus/spool.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t caught;

static void catch (int signal)
{
    caught = signal;
}

void es_child_catch_signals(void)
{
    /* Without SA_RESTART: waitpid has to return. */
    struct sigaction action = {.sa_handler = catch};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, no end would be told */
}

int es_child_signal(void)
{
    return caught;
}

/** 0 or an errno. */
static int redirect(posix_spawn_file_actions_t *actions, FILE *file, int as)
{
    if (file)
        return posix_spawn_file_actions_adddup2(actions, fileno(file), as);
    return posix_spawn_file_actions_addopen(actions, as, "/dev/null", O_RDWR,
                                            0);
}

static int spawn(es_child *child, char *const argv[], FILE *in, FILE *out,
                 const char *folder)
{
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = redirect(&actions, in, 0);
    if (error == 0)
        error = redirect(&actions, out, 1);
    if (error == 0)
        error = redirect(&actions, child->errors, 2);
    if (error == 0 && folder)
        error = posix_spawn_file_actions_addchdir_np(&actions, folder);
    if (error == 0)
        error =
            posix_spawnp(&child->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        child->pid = 0;
    return error;
}

static es_status start(es_child *child, char *const argv[], FILE *in, FILE *out,
                       const char *folder)
{
    int error = spawn(child, argv, in, out, folder);
    if (error == ENOENT)
        return es_fail(ES_EIO,
                       "%s: not found: install the Debian package "
                       "sentencepiece",
                       argv[0]);
    if (error != 0)
        return es_fail(ES_EIO, "%s: cannot start: %s", argv[0],
                       strerror(error));
    return ES_OK;
}

es_status es_child_start(es_child *child, char *const argv[], FILE *in,
                         FILE *out, const char *folder)
{
    *child = (es_child){.name = argv[0]};
    if (caught)
        return es_fail(ES_EIO, "%s: not started: signal %d", argv[0],
                       (int)caught);
    if (in) {
        if (fflush(in) != 0)
            return es_fail(ES_EIO, "%s: its input: %s", argv[0],
                           strerror(errno));
        rewind(in);
    }
    es_status status = es_temporary_file(&child->errors);
    if (status == ES_OK)
        status = start(child, argv, in, out, folder);
    if (status != ES_OK)
        es_child_stop(child);
    return status;
}

/** Cuts what ends `text`, if it does, and the white space before. */
static void cut_end(char *text, const char *ending)
{
    size_t n = strlen(text), n_ending = strlen(ending);
    if (n >= n_ending && strcmp(text + n - n_ending, ending) == 0)
        n -= n_ending;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    text[n] = 0;
}

/** The last line that says something, of the last n - 1 bytes. */
static void last_line(char *out, size_t n, FILE *errors)
{
    long size = fseek(errors, 0, SEEK_END) == 0 ? ftell(errors) : 0;
    long some = size < (long)n ? size : (long)n - 1;
    size_t got = 0;
    if (some > 0 && fseek(errors, size - some, SEEK_SET) == 0)
        got = fread(out, 1, (size_t)some, errors);
    out[got] = 0;
    cut_end(out, "");
    cut_end(out, "Program terminated with an unrecoverable error.");
    const char *line = strrchr(out, '\n');
    if (line)
        memmove(out, line + 1, strlen(line));
}

es_status es_child_wait(es_child *child)
{
    int state = 0;
    pid_t got;
    do
        got = waitpid(child->pid, &state, 0);
    while (got < 0 && errno == EINTR && !caught);
    if (got == child->pid)
        child->pid = 0;
    if (caught) {
        es_child_stop(child);
        return es_fail(ES_EIO, "%s: stopped by signal %d", child->name,
                       (int)caught);
    }
    char said[512];
    last_line(said, sizeof said, child->errors);
    es_child_stop(child);
    if (got < 0)
        return es_fail(ES_EIO, "%s: cannot wait: %s", child->name,
                       strerror(errno));
    if (WIFSIGNALED(state))
        return es_fail(ES_EIO, "%s: ended by signal %d: %s", child->name,
                       WTERMSIG(state), said);
    if (WEXITSTATUS(state) != 0)
        return es_fail(ES_EIO, "%s: exit code %d: %s", child->name,
                       WEXITSTATUS(state), said);
    return ES_OK;
}

void es_child_stop(es_child *child)
{
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (child->errors)
        fclose(child->errors);
    child->errors = NULL;
    child->pid = 0;
}

es_status es_child_run(char *const argv[], FILE *in, FILE *out,
                       const char *folder)
{
    es_child child;
    es_status status = es_child_start(&child, argv, in, out, folder);
    return status == ES_OK ? es_child_wait(&child) : status;
}
