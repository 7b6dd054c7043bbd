/**
 * Finds and reads runs in a separate process, and sends what changed to the
 * process that answers browsers (messages.h). A damaged or huge run file
 * therefore cannot delay or end the answers.
 */
#ifndef ES_SERVE_WATCHING_H
#define ES_SERVE_WATCHING_H

#include "cli/runs/summary.h"

typedef struct es_serve_watching {
    char *const *roots; /* (n_roots) run files, folders and URLs */
    size_t n_roots;
    const es_rules_file *rules; /* NULL: default thresholds and no rules */
    int fd;                     /* the pipe's end for writing */
} es_serve_watching;

/** Maximum number of runs; further runs are reported as unreadable. */
#define ES_SERVE_RUNS_MOST 20000

/**
 * The main function of the process: es_process_fork calls it with an
 * es_serve_watching. Ends when the pipe is closed.
 */
int es_serve_watch(void *argument);

#endif
