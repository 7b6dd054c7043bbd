/** Prints the progress of a running sweep on standard error. */
#ifndef ES_SWEEP_PROGRESS_H
#define ES_SWEEP_PROGRESS_H

#include "cli/sweep/view.h"

#include <stdio.h>

typedef struct es_sweep_progress {
    bool live; /* true if standard error is a terminal, on which current runs
                  are drawn in place */
    int width, height;
    size_t n_drawn; /* number of screen lines that are currently drawn in
                       place */
} es_sweep_progress;

void es_sweep_progress_begin(es_sweep_progress *progress);

/**
 * Prints a formatted line above the runs drawn in place. The text must be safe
 * for a terminal.
 */
void es_sweep_progress_line(es_sweep_progress *progress, const char *fmt, ...)
    ES_PRINTF(2, 3);

/**
 * Prints the last lines of a text file, indented, to show why a run failed.
 * Returns false if the file is missing or empty.
 */
bool es_sweep_print_log(FILE *stream, const char *folder, const char *name,
                        const char *ending);

/** Prints a permanent line that reports how a run ended. */
void es_sweep_progress_end(es_sweep_progress *progress, const char *folder,
                           const es_sweep_view *view);

/**
 * Draws the current runs, which are the views (n) that have a name. Does
 * nothing if standard error is not a terminal.
 */
void es_sweep_progress_draw(es_sweep_progress *progress,
                            const es_sweep_view *views, size_t n,
                            const char *headline);

/** Erases the lines drawn in place. */
void es_sweep_progress_wipe(es_sweep_progress *progress);

#endif
