/** Prints the progress of a running sweep on standard error. */
#ifndef ES_SWEEP_PROGRESS_H
#define ES_SWEEP_PROGRESS_H

#include "cli/sweep/view.h"

#include <stdio.h>

typedef struct es_sweep_progress {
    bool live; /* true if standard error is a terminal, on which a table of the
                  current runs is redrawn in place */
    int width, height;
    size_t n_drawn; /* number of screen lines of the table that is redrawn in
                       place */
} es_sweep_progress;

void es_sweep_progress_begin(es_sweep_progress *progress);

/**
 * Prints a formatted line above the table that is redrawn in place. The text
 * must be safe for a terminal.
 */
void es_sweep_progress_line(es_sweep_progress *progress, const char *fmt, ...)
    ES_PRINTF(2, 3);

/**
 * Prints the last lines of a text file, indented, to show why a run failed.
 * Returns false if the file is missing or empty.
 */
bool es_sweep_print_log(FILE *stream, const char *folder, const char *name,
                        const char *ending);

/**
 * Prints a line that reports how a run ended. The line stays above the table,
 * which is redrawn in place.
 */
void es_sweep_progress_end(es_sweep_progress *progress, const char *folder,
                           const es_sweep_view *view);

/**
 * Redraws the table of the current runs. These are the elements of `views` (n)
 * that have a name. Does nothing if standard error is not a terminal.
 */
void es_sweep_progress_draw(es_sweep_progress *progress,
                            const es_sweep_view *views, size_t n,
                            const char *headline);

/** Erases the table that is redrawn in place. */
void es_sweep_progress_wipe(es_sweep_progress *progress);

#endif
