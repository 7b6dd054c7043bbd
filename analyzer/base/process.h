/**
 * Starts, watches and ends the processes of entropy-scan: the recorder, the
 * training runs of a sweep, the commands and deliveries of alerts, and Slurm's
 * programs. Each process is identified by its pidfd, so that a signal or a wait
 * never reaches another process. No zombie remains once es_process_wait has
 * returned true. Without a pidfd (Linux before 5.3, or a container that refuses
 * pidfds), process number and start time identify the process.
 */
#ifndef ES_PROCESS_H
#define ES_PROCESS_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * A descriptor that the library holds inside a host program. The host may close
 * descriptors that it does not know and then get the same numbers for its own
 * files. Device and inode are therefore stored with the number, so that such a
 * reuse is detected.
 */
typedef struct es_held {
    int fd; /* -1: no descriptor */
    dev_t device;
    ino_t inode;
} es_held;

/**
 * Takes ownership of `fd`. An `fd` of -1, which stands for no descriptor, is
 * kept as -1.
 */
es_held es_held_take(int fd);

/** Returns true if the descriptor number still refers to the same file. */
bool es_held_is_ours(const es_held *held);

/** Closes the descriptor if it still refers to the same file. */
void es_held_close(es_held *held);

/** Values of es_process_options.streams that are not descriptors. */
enum {
    ES_STREAM_NULL = -1,   /* /dev/null */
    ES_STREAM_INHERIT = -2 /* keep the caller's stream */
};

/**
 * The process group or session of a new process. In a new group or session,
 * Ctrl-C does not reach the process, and the process starts with default signal
 * handlers and no blocked signals.
 */
typedef enum es_process_place {
    ES_PLACE_CALLER, /* the caller's process group */
    ES_PLACE_GROUP,
    ES_PLACE_SESSION
} es_process_place;

typedef struct es_process {
    pid_t pid;      /* process number; 0: no process */
    es_held handle; /* the pidfd */
    bool watched; /* true if the kernel supplied a pidfd, even if it was closed
                     later */
    uint64_t started; /* start time from es_kernel_start_time, set if there is
                         no pidfd; 0 if unknown */
    es_process_place place;
    int error; /* errno if the program could not be executed, otherwise 0 */
} es_process;

typedef struct es_process_options {
    const char *program; /* path or name of the program, searched in PATH if
                            it contains no '/'; NULL: argv[0] */
    char *const *argv;   /* arguments of the program; ends with NULL */
    int streams[3]; /* descriptors for the child's stdin, stdout and stderr, or
                       ES_STREAM_... */
    const int *passed; /* n_passed descriptors that become 3, 4, ... in the
                          child; ES_STREAM_NULL is allowed. If n_passed > 0, the
                          child inherits no other descriptor */
    size_t n_passed;
    es_process_place place;
    int death_signal; /* signal that the child gets when the calling thread
                         ends; 0: none */
    /* True: if the program cannot be executed, es_process_start does not fail;
       the process then ends with code 127 (no such file) or 126, as in a shell,
       and out->error is the errno. */
    bool as_shell;
} es_process_options;

/**
 * Starts a program without copying the caller's memory. The child inherits no
 * close-on-exec descriptor, except those in `passed`. May be called from any
 * thread.
 *
 *   out  owned by the caller, to be freed by es_process_free
 *
 * Returns 0; or an errno if no process was started.
 */
int es_process_start(es_process *out, const es_process_options *options);

/**
 * Starts a copy of this process in a new session. The copy calls
 * main(argument) and exits with its result. Returns 0 or an errno.
 */
int es_process_fork(es_process *out, int (*main)(void *), void *argument);

/** Describes how a process ended. */
typedef struct es_process_end {
    bool lost;  /* other code reaped the process, so code and signal are
                   unknown */
    int code;   /* exit code, or 128 + signal as in a shell */
    int signal; /* the signal that killed the process, or 0 */
} es_process_end;

/**
 * Writes a description of the end: "exit code 3" or "killed by signal 9"; "no
 * exit code" if end->lost is true.
 */
void es_process_end_text(char *out, size_t size, const es_process_end *end);

/**
 * Waits for the end of a process and reaps it.
 *
 *   end  receives the way in which the process ended, if the result is true
 *   ms   time limit in milliseconds; 0: do not wait; -1: no limit
 *
 * Returns false if the process is still running.
 */
bool es_process_wait(es_process_end *end, es_process *process, int64_t ms);

/**
 * Waits for the end of a process. At the time limit, kills the process and, if
 * it leads a process group, the group. Returns false if it had to be killed.
 */
bool es_process_wait_or_kill(es_process_end *end, es_process *process,
                             int64_t ms);

/**
 * Waits at most `ms` milliseconds for the end of a process, without reaping it.
 * Returns true if the process has ended or if its pidfd is lost.
 */
bool es_process_has_ended(es_process *process, int64_t ms);

/** Sends a signal to the process, but not to its group. */
void es_process_signal(es_process *process, int number);

/**
 * Releases the resources of a process, which may keep running. Does nothing if
 * pid is 0.
 */
void es_process_free(es_process *process);

/**
 * Writes the path of the running program. Returns false and writes "" if the
 * path is unknown.
 */
bool es_process_self(char out[PATH_MAX]);

/**
 * Writes the path of a file next to `file`: the folder of `file`, followed by
 * `tail` ("/entropy-train"). Returns true if the resulting path is an
 * executable file.
 */
bool es_process_beside(char out[PATH_MAX], const char *file, const char *tail);

#endif
