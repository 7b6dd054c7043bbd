#include "hooks/recorder/recorder_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "entropy-recorder"
#define N_FDS (ES_FD_END - ES_FD_RING)

extern char **environ;

/* --- descriptors of a host -------------------------------------------------*/

es_held es_held_take(int fd)
{
    struct stat file = {0};
    if (fd < 0 || fstat(fd, &file) != 0)
        return (es_held){.fd = -1};
    return (es_held){fd, file.st_dev, file.st_ino};
}

bool es_held_is_ours(const es_held *held)
{
    struct stat file;
    return held->fd >= 0 && fstat(held->fd, &file) == 0 &&
           file.st_dev == held->device && file.st_ino == held->inode;
}

void es_held_close(es_held *held)
{
    if (es_held_is_ours(held))
        close(held->fd);
    held->fd = -1;
}

/* --- starting -------------------------------------------------------------*/

/* folder of `file` + tail, if that can be executed. */
static bool beside(char out[PATH_MAX], const char *file, const char *tail)
{
    const char *slash = strrchr(file, '/');
    if (!slash)
        return false;
    int n = snprintf(out, PATH_MAX, "%.*s%s", (int)(slash - file), file, tail);
    return n > 0 && n < PATH_MAX && access(out, X_OK) == 0;
}

/* Where no slash is in the answer, PATH is searched. */
static const char *find_program(char out[PATH_MAX], const char *wanted)
{
    const char *variable = secure_getenv("ENTROPY_RECORDER");
    if (wanted)
        return wanted;
    if (variable && *variable)
        return variable;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    if (beside(out, self, "/" NAME))
        return out;
    /* Installed, or in the build folder, beside libentropyscan. */
    static const char here;
    Dl_info library;
    if (dladdr(&here, &library) && library.dli_fname &&
        (beside(out, library.dli_fname, "/../bin/" NAME) ||
         beside(out, library.dli_fname, "/" NAME)))
        return out;
    return NAME;
}

/* Out of the way of the numbers that they get in the child. */
static bool lift(int lifted[N_FDS], const int fds[N_FDS])
{
    bool done = true;
    for (int i = 0; i < N_FDS; i++) {
        lifted[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ES_FD_END);
        done = done && lifted[i] >= 0;
    }
    return done;
}

static int plan_descriptors(posix_spawn_file_actions_t *actions,
                            const int lifted[N_FDS])
{
    int error =
        posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addopen(actions, 1, "/dev/null",
                                                 O_WRONLY, 0);
    for (int i = 0; i < N_FDS && !error; i++)
        error = posix_spawn_file_actions_adddup2(actions, lifted[i],
                                                 ES_FD_RING + i);
    if (!error)
        error = posix_spawn_file_actions_addclosefrom_np(actions, ES_FD_END);
    return error;
}

/* A session of its own: a Ctrl-C in the terminal is not meant for it. */
static int plan_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &none);
    return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSID);
}

static int spawn(pid_t *pid, const char *program, const char *path,
                 const int lifted[N_FDS])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char *argv[] = {(char[]){NAME}, (char[]){"--"}, (char *)path, NULL};
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = plan_descriptors(&actions, lifted);
        if (!error)
            error = plan_signals(&attributes);
        if (!error)
            error = posix_spawnp(pid, program, &actions, &attributes, argv,
                                 environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

es_status es_child_start(es_child *out, const char *program, const char *path,
                         const int fds[ES_FD_END - ES_FD_RING])
{
    char found[PATH_MAX];
    int lifted[N_FDS];
    pid_t pid = -1;
    int error = lift(lifted, fds) ? 0 : errno;
    program = find_program(found, program);
    if (!error)
        error = spawn(&pid, program, path, lifted);
    for (int i = 0; i < N_FDS; i++)
        if (lifted[i] >= 0)
            close(lifted[i]);
    if (error) {
        bool is_missing =
            error == ENOENT || error == EACCES || error == ENOEXEC;
        return es_fail(
            ES_EBROKEN, "cannot start %s: %s%s", program, strerror(error),
            is_missing ? ": set ENTROPY_RECORDER to the program " NAME : "");
    }
    *out = (es_child){pid, es_held_take(pidfd_open(pid, 0))};
    if (out->handle.fd >= 0)
        return ES_OK;
    es_fail(ES_EBROKEN, "cannot watch %s: %s", program, strerror(errno));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return ES_EBROKEN;
}

/* --- ending ---------------------------------------------------------------*/

/* Before Linux 6.9 every pidfd has the inode of all anonymous files. A process
   that somebody else has reaped has the number -1. */
static bool is_handle_of(int fd, pid_t pid)
{
    char path[64], line[256];
    int number = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pid: %d", &number) == 1)
            break;
    if (file)
        fclose(file);
    return number == pid || number == -1;
}

/* Its pidfd: a new one if the host took the first away. */
static int hold(es_child *child)
{
    if (!es_held_is_ours(&child->handle) ||
        !is_handle_of(child->handle.fd, child->pid))
        child->handle = es_held_take(pidfd_open(child->pid, 0));
    return child->handle.fd;
}

void es_child_free(es_child *child)
{
    if (is_handle_of(child->handle.fd, child->pid))
        es_held_close(&child->handle);
}

bool es_child_has_ended(es_child *child, int64_t ms)
{
    struct pollfd end = {.fd = hold(child), .events = POLLIN};
    if (end.fd < 0)
        return true;
    int64_t deadline = es_now_ms() + ms;
    for (;;) {
        int64_t left = deadline - es_now_ms();
        int n = poll(&end, 1, left > 0 ? (int)left : 0);
        if (n >= 0 || errno != EINTR)
            return n > 0;
    }
}

void es_child_reap(es_child *child, int64_t ms, char *how, size_t size)
{
    siginfo_t info = {0};
    if (!es_child_has_ended(child, ms)) {
        snprintf(how, size, "does not answer");
        return;
    }
    /* By pidfd: never another child of the host, whatever it reaps itself. */
    if (child->handle.fd < 0 ||
        waitid(P_PIDFD, (id_t)child->handle.fd, &info, WEXITED | WNOHANG) !=
            0 ||
        info.si_pid == 0)
        snprintf(how, size, "is gone");
    else if (info.si_code == CLD_EXITED)
        snprintf(how, size, "ended with code %d", info.si_status);
    else
        snprintf(how, size, "was killed by signal %d", info.si_status);
}

void es_child_kill(es_child *child)
{
    pidfd_send_signal(hold(child), SIGKILL, NULL, 0);
}
