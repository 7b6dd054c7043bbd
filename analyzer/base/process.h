/**
 * Processes that entropy-scan starts: the recorder, trainings of a sweep,
 * commands and deliveries of alerts, Slurm's programs. Each is held by its
 * pidfd, so that a signal or a wait never meets another process, and leaves no
 * zombie once es_process_wait has returned true. Where the kernel gives no
 * pidfd (before 5.3, or in a container) number and start identify it.
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
 * A descriptor in a process that is not ours: the host may close every one
 * that it does not know, and its own files get the numbers. A number alone
 * proves nothing there, so device and inode are kept with it.
 */
typedef struct es_held {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
} es_held;

/** Takes `fd` over; -1 stays -1. */
es_held es_held_take(int fd);

/** Whether the number still is what it was. */
bool es_held_is_ours(const es_held *held);

/** Closes it if it is ours. */
void es_held_close(es_held *held);

/** Of es_process_options.streams. */
enum {
    ES_STREAM_NULL = -1,   /* /dev/null */
    ES_STREAM_INHERIT = -2 /* the caller's own */
};

/** Where a process stands; a group or session of its own is out of reach of
 *  Ctrl-C, and begins with default signals and none blocked. */
typedef enum es_process_place {
    ES_PLACE_CALLER, /* in the caller's group */
    ES_PLACE_GROUP,
    ES_PLACE_SESSION
} es_process_place;

typedef struct es_process {
    pid_t pid;        /* 0: none */
    es_held handle;   /* pidfd */
    bool watched;     /* false: the kernel gave no pidfd */
    uint64_t started; /* then: es_kernel_start_time; 0: not known */
    es_process_place place;
    int error; /* errno of a program that could not be executed, or 0 */
} es_process;

typedef struct es_process_options {
    const char
        *program;      /* NULL: argv[0]; without '/' it is looked up in PATH */
    char *const *argv; /* NULL at its end */
    int streams[3];    /* descriptors, or ES_STREAM_... */
    const int *passed; /* (n_passed) they become 3, 4, ...; if there is one,
                          no other descriptor is inherited; ES_STREAM_NULL is
                          fine here, too */
    size_t n_passed;
    es_process_place place;
    int death_signal; /* what it gets when the calling thread ends; 0: none */
    /* A program that cannot be executed is no error, but a process that ends
       with code 127 (no such file) or 126; out->error says why. */
    bool as_shell;
} es_process_options;

/**
 * Starts a program without copying the caller's memory. Descriptors that are
 * close-on-exec stay with the caller, but those it passes on. Any thread.
 *
 *   out  owned by the caller, for es_process_free
 *
 * 0 or an errno: then there is no process.
 */
int es_process_start(es_process *out, const es_process_options *options);

/** Starts a copy of this process in a session of its own, which calls
 *  main(argument) and ends with what that returns. 0 or an errno. */
int es_process_fork(es_process *out, int (*main)(void *), void *argument);

/** How a process ended. */
typedef struct es_process_end {
    bool lost;  /* somebody else reaped it: nothing is known */
    int code;   /* exit code; 128 + signal, as a shell has it */
    int signal; /* that killed it, or 0 */
} es_process_end;

/** "exit code 3", "killed by signal 9"; "no exit code" of a lost one. */
void es_process_end_text(char *out, size_t size, const es_process_end *end);

/**
 * Waits for its end and reaps it.
 *
 *   end  written if true
 *   ms   at most, in milliseconds; 0: only looks; -1: without limit
 *
 * False: it runs still.
 */
bool es_process_wait(es_process_end *end, es_process *process, int64_t ms);

/** Waits, but kills it when the time is up, with its group if it leads one.
 *  False: the time was up. */
bool es_process_wait_or_kill(es_process_end *end, es_process *process,
                             int64_t ms);

/** Waits for its end, at most `ms` milliseconds, and reaps nothing. True also
 *  if it has no pidfd any more. */
bool es_process_has_ended(es_process *process, int64_t ms);

/** Sends it a signal, not its group. */
void es_process_signal(es_process *process, int number);

/** Lets go of a process, which may still run; nothing for pid 0. */
void es_process_free(es_process *process);

/** The running program's own path; false, and "", if nobody knows. */
bool es_process_self(char out[PATH_MAX]);

/** The folder of `file` + tail ("/entropy-train"); true if that can be
 *  executed. */
bool es_process_beside(char out[PATH_MAX], const char *file, const char *tail);

#endif
