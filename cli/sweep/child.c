#include "cli/sweep/child.h"

#include "cli/sweep/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- where it is ----------------------------------------------------------*/

static char *beside_us(const char *program)
{
    char self[PATH_MAX], *path = NULL;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash ||
        asprintf(&path, "%.*s/%s", (int)(slash - self), self, program) < 0)
        return NULL;
    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

es_status es_sweep_program(char **out, const char *program)
{
    bool is_path = strchr(program, '/');
    if (is_path && access(program, X_OK) != 0)
        return es_fail(ES_EUSAGE, "%s: not a program: %s", program,
                       strerror(errno));
    *out = is_path ? NULL : beside_us(program);
    if (!*out)
        *out = strdup(program);
    return *out ? ES_OK : es_fail(ES_ENOMEM, "out of memory for a path");
}

/* --- start ----------------------------------------------------------------*/

static size_t count(char *const *argv)
{
    size_t n = 0;
    while (argv[n])
        n++;
    return n;
}

/* In the child. A group of its own: Ctrl-C is for the sweep to pass on. */
static void become(const char *program, char **argv, int log, pid_t parent)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    sigset_t none;
    setpgid(0, 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(126);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp(program, argv);
    dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

static es_status start(pid_t *out, const char *program, char **argv,
                       const char *log)
{
    pid_t parent = getpid();
    int fd = open(log,
                  O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
                      O_CLOEXEC,
                  0666);
    if (fd < 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", log, strerror(errno));
    *out = fork();
    if (*out == 0)
        become(program, argv, fd, parent);
    int reason = errno;
    close(fd);
    if (*out < 0)
        return es_fail(ES_EIO, "%s: cannot be run: %s", program,
                       strerror(reason));
    return ES_OK;
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

es_status es_sweep_child_start(pid_t *out, const char *program,
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

bool es_sweep_child_ended(char *why, size_t size, pid_t child)
{
    int code = 0;
    pid_t ended;
    while ((ended = waitpid(child, &code, WNOHANG)) < 0 && errno == EINTR)
        ;
    if (ended == 0)
        return false;
    *why = '\0';
    if (ended < 0)
        snprintf(why, size, "lost: %s", strerror(errno));
    else if (WIFSIGNALED(code))
        snprintf(why, size, "killed by signal %d", WTERMSIG(code));
    else if (WEXITSTATUS(code) > 1) /* 1: the loss is not finite */
        snprintf(why, size, "exit code %d", WEXITSTATUS(code));
    return true;
}
