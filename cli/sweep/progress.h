/** What a sweep says on standard error while it is at work. */
#ifndef ES_SWEEP_PROGRESS_H
#define ES_SWEEP_PROGRESS_H

#include "cli/sweep/view.h"

#include <stdio.h>

typedef struct es_sweep_progress {
    bool live; /* a terminal: the runs at work are drawn in place */
    int width, height;
    size_t n_drawn; /* lines */
} es_sweep_progress;

void es_sweep_progress_begin(es_sweep_progress *progress);

/** A line that stays. Not for texts of unknown origin. */
void es_sweep_progress_line(es_sweep_progress *progress, const char *fmt, ...)
    ES_PRINTF(2, 3);

/** The last lines of a text file, indented: what a run died of. False if there
 *  are none. */
bool es_sweep_print_log(FILE *stream, const char *folder, const char *name,
                        const char *ending);

/** How a run ended. */
void es_sweep_progress_end(es_sweep_progress *progress, const char *folder,
                           const es_sweep_view *view);

/** Draws the runs (n) at work, those whose view has a name; nothing where it is
 *  no terminal. */
void es_sweep_progress_draw(es_sweep_progress *progress,
                            const es_sweep_view *views, size_t n,
                            const char *headline);

/** Removes what was drawn in place. */
void es_sweep_progress_wipe(es_sweep_progress *progress);

#endif
