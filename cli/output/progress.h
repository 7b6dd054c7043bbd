/**
 * Shows the progress of the current operation on one line of standard error if
 * standard error is a terminal. Notes and failures are printed above this line.
 */
#ifndef ES_OUTPUT_PROGRESS_H
#define ES_OUTPUT_PROGRESS_H

#include "analyzer/base/progress.h"

/**
 * Begins a progress line of the form "VERB OBJECT: ...", and ends the previous
 * progress line.
 *
 *   quiet   if true, nothing is printed
 *   verb    what the operation does; borrowed
 *   object  path of a file, printed without its folder, or NULL
 *   unit    ES_PROGRESS_BYTES, or a noun for the counted objects; borrowed
 *   total   total amount; 0 if unknown
 */
void es_progress_line_begin(bool quiet, const char *verb, const char *object,
                            const char *unit, uint64_t total);

/**
 * es_progress_line_set sets the amount that is done, es_progress_line_add
 * increases it. If the amount is smaller than before, a new pass over the data
 * begins, and the speed is measured from this time on.
 */
void es_progress_line_set(uint64_t done);
void es_progress_line_add(uint64_t more);

/** Removes the progress line from the screen until the next update. */
void es_progress_line_wipe(void);

/** Ends and removes the line. */
void es_progress_line_end(void);

#endif
