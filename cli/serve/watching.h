/**
 * Finds and reads runs in a separate process, and sends the changes to the
 * process that answers browsers (messages.h). A damaged or huge run file
 * therefore cannot delay or prevent answers to browsers.
 */
#ifndef ES_SERVE_WATCHING_H
#define ES_SERVE_WATCHING_H

#include "cli/runs/summary.h"

typedef struct es_serve_watching {
    char *const *roots; /* (n_roots) run files, folders and URLs */
    size_t n_roots;
    const es_rules_file *rules; /* thresholds and rules; NULL for the default
                                   thresholds and no rules */
    int fd;                     /* end of the pipe to which messages are
                                   written */
} es_serve_watching;

/** Maximum number of runs; further runs are reported as unreadable. */
#define ES_SERVE_RUNS_MOST 20000

/**
 * The main function of the process, for es_process_fork. `argument` is an
 * es_serve_watching. The process ends when the pipe is closed.
 */
int es_serve_watch(void *argument);

#endif
