/* Starts, watches and ends processes, for all programs and for the library,
   which runs inside a host program. Starts programs with vfork, because fork is
   slow in a host that has mapped hundreds of gigabytes, and because posix_spawn
   does not offer some calls that the child needs, such as requesting a signal
   when its parent dies. */
#include "analyzer/base/process.h"

#include "analyzer/base/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIRST_PASSED 3
#define MOST_PASSED 8
/* Milliseconds between two checks of a child without a pidfd. */
#define SLICE_MS 10
#define ID_PIDFD ((idtype_t)3) /* P_PIDFD, missing from glibc 2.28 */

/* --- descriptors ---------------------------------------------------------- */

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

/* --- starting ------------------------------------------------------------- */

/* Runs in the child: moves the streams and the passed descriptors to the
   numbers 0, 1, 2, ... First duplicates each descriptor above all these
   numbers, so that no dup2 overwrites a descriptor that is needed later. */
static bool set_descriptors(const es_process_options *options)
{
    int n = FIRST_PASSED + (int)options->n_passed;
    int lifted[FIRST_PASSED + MOST_PASSED];
    for (int i = 0; i < n; i++) {
        int fd = i < FIRST_PASSED ? options->streams[i]
                                  : options->passed[i - FIRST_PASSED];
        if (fd == ES_STREAM_NULL)
            fd = open("/dev/null", (i ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        lifted[i] = fd == ES_STREAM_INHERIT
                        ? fd
                        : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_PASSED + n);
        bool is_closed = i < FIRST_PASSED && errno == EBADF; /* stays closed */
        if (lifted[i] == -1 && !is_closed) {
            if (errno == EINVAL) /* fcntl reports EINVAL if the descriptor limit
                                    is below the lowest requested number */
                errno = EMFILE;
            return false;
        }
    }
    for (int i = 0; i < n; i++)
        if (lifted[i] >= 0 && dup2(lifted[i], i) < 0)
            return false;
    if (options->n_passed > 0)
        es_kernel_close_from(n);
    return true;
}

/* Runs in the child, which shares the caller's memory until it calls exec.
   Returns an errno if exec or an earlier call fails. */
static int become(const es_process_options *options, pid_t parent,
                  const sigset_t *mask)
{
    if (options->place == ES_PLACE_SESSION)
        setsid();
    if (options->place == ES_PLACE_GROUP)
        setpgid(0, 0);
    if (options->death_signal) {
        prctl(PR_SET_PDEATHSIG, options->death_signal);
        if (getppid() != parent)
            return ESRCH;
    }
    if (!set_descriptors(options))
        return errno;
    /* Signal handlers are functions of the caller, so reset them: they must not
       run in the child. */
    es_process_place place = options->place;
    sigset_t none;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) == 0 &&
            (place != ES_PLACE_CALLER || now.sa_handler != SIG_IGN))
            signal(number, SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, place == ES_PLACE_CALLER ? mask : &none, NULL);
    execvp(options->program ? options->program : options->argv[0],
           options->argv);
    return errno;
}

static void hold(es_process *out, pid_t pid, es_process_place place)
{
    *out = (es_process){.pid = pid,
                        .handle = es_held_take(es_kernel_pidfd(pid)),
                        .place = place};
    out->watched = out->handle.fd >= 0;
    if (!out->watched)
        out->started = es_kernel_start_time(pid);
}

int es_process_start(es_process *out, const es_process_options *options)
{
    *out = (es_process){.pid = 0};
    if (options->n_passed > MOST_PASSED)
        return EINVAL;
    sigset_t all, mask;
    int cancel;
    /* `error` is volatile, because the child of vfork writes to it too. */
    volatile int error = 0;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    pid_t pid = vfork();
    if (pid == 0) {
        error = become(options, parent, &mask);
        _exit(error == ENOENT ? 127 : 126);
    }
    if (pid < 0)
        error = errno;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_setcancelstate(cancel, &cancel);
    if (pid < 0)
        return error;
    hold(out, pid, options->place);
    out->error = error;
    if (!error || options->as_shell)
        return 0;
    es_process_end end;
    es_process_wait(&end, out, -1);
    es_process_free(out);
    return error;
}

int es_process_fork(es_process *out, int (*main)(void *), void *argument)
{
    *out = (es_process){.pid = 0};
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        _exit(main(argument));
    }
    if (pid < 0)
        return errno;
    hold(out, pid, ES_PLACE_SESSION);
    return 0;
}

/* --- pidfd ---------------------------------------------------------------- */

/* Returns true if the descriptor `fd` is a pidfd of process `pid`. Reads
   fdinfo, which names the process (-1 if the process has already been reaped).
   The inode would not suffice, because before Linux 6.9 all pidfds share one
   inode. */
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

/* Returns the pidfd of the process. Opens a new pidfd if the host program has
   closed the old one. */
static int handle_of(es_process *process)
{
    es_held *handle = &process->handle;
    if (process->watched &&
        (!es_held_is_ours(handle) || !is_handle_of(handle->fd, process->pid)))
        *handle = es_held_take(es_kernel_pidfd(process->pid));
    return handle->fd;
}

void es_process_free(es_process *process)
{
    if (process->pid && is_handle_of(process->handle.fd, process->pid))
        es_held_close(&process->handle);
    *process = (es_process){.pid = 0};
}

/* --- ending --------------------------------------------------------------- */

/* Returns true if a process without a pidfd has ended or is no longer our
   child. The start time shows whether the host has reaped the process and
   another child has got the same process number. */
static bool is_over(const es_process *process)
{
    siginfo_t info = {0};
    int failed =
        waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return failed || info.si_pid != 0 ||
           (process->started &&
            process->started != es_kernel_start_time(process->pid));
}

static bool is_over_within(const es_process *process, int64_t ms)
{
    int64_t deadline = es_now_ms() + ms;
    for (;;) {
        int64_t left = deadline - es_now_ms();
        if (is_over(process))
            return true;
        if (left <= 0)
            return false;
        int64_t slice = left < SLICE_MS ? left : SLICE_MS;
        nanosleep(&(struct timespec){.tv_nsec = slice * 1000000}, NULL);
    }
}

void es_process_signal(es_process *process, int number)
{
    int fd = handle_of(process);
    if (fd >= 0 && es_kernel_signal(fd, number) == 0)
        return;
    /* A kernel or a filter may allow pidfd_open but not pidfd_send_signal, so
       fall back to kill. */
    if ((!process->watched || (fd >= 0 && errno != ESRCH)) && !is_over(process))
        kill(process->pid, number);
}

bool es_process_has_ended(es_process *process, int64_t ms)
{
    if (!process->watched)
        return is_over_within(process, ms);
    struct pollfd end = {.fd = handle_of(process), .events = POLLIN};
    if (end.fd < 0)
        return true;
    int64_t deadline = es_now_ms() + ms;
    for (;;) {
        int64_t left = deadline - es_now_ms();
        int slice = left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
        int n = poll(&end, 1, slice);
        if (n > 0 || (n == 0 && left <= slice) || (n < 0 && errno != EINTR))
            return n > 0;
    }
}

static int reap(siginfo_t *info, idtype_t type, int id, int options)
{
    int failed;
    do
        failed = waitid(type, (id_t)id, info, WEXITED | options);
    while (failed && errno == EINTR);
    return failed;
}

/* Reaps our process only, even if the host program also reaps children. Waits
   by pidfd; waitid accepts pidfds since Linux 5.4. Without a pidfd the start
   time shows whether the process number still belongs to our child. */
static int reap_ours(siginfo_t *info, es_process *process, int options)
{
    int fd = handle_of(process);
    if (process->watched && fd < 0)
        return -1;
    if (fd >= 0) {
        int failed = reap(info, ID_PIDFD, fd, options);
        if (!failed || errno != EINVAL)
            return failed;
    }
    if (process->started &&
        process->started != es_kernel_start_time(process->pid))
        return -1;
    return reap(info, P_PID, process->pid, options);
}

bool es_process_wait(es_process_end *end, es_process *process, int64_t ms)
{
    siginfo_t info = {0};
    if (ms > 0 && !es_process_has_ended(process, ms))
        return false;
    int failed = reap_ours(&info, process, ms == 0 ? WNOHANG : 0);
    if (!failed && info.si_pid == 0)
        return false;
    int status = info.si_status;
    bool exited = info.si_code == CLD_EXITED;
    *end = failed   ? (es_process_end){.lost = true}
           : exited ? (es_process_end){.code = status}
                    : (es_process_end){.code = 128 + status, .signal = status};
    return true;
}

bool es_process_wait_or_kill(es_process_end *end, es_process *process,
                             int64_t ms)
{
    if (es_process_wait(end, process, ms))
        return true;
    if (process->place == ES_PLACE_CALLER)
        es_process_signal(process, SIGKILL);
    else
        kill(-process->pid, SIGKILL);
    es_process_wait(end, process, -1);
    return false;
}

void es_process_end_text(char *out, size_t size, const es_process_end *end)
{
    if (end->lost)
        snprintf(out, size, "no exit code");
    else if (end->signal)
        snprintf(out, size, "killed by signal %d", end->signal);
    else
        snprintf(out, size, "exit code %d", end->code);
}

/* --- neighbouring programs ------------------------------------------------ */

bool es_process_self(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

bool es_process_beside(char out[PATH_MAX], const char *file, const char *tail)
{
    const char *slash = strrchr(file, '/');
    if (!slash)
        return false;
    int n = snprintf(out, PATH_MAX, "%.*s%s", (int)(slash - file), file, tail);
    return n > 0 && n < PATH_MAX && access(out, X_OK) == 0;
}
