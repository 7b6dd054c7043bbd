/** The progress of the current operation: one line on standard error if that is
 *  a terminal. Notes and failures are printed above it. */
#ifndef ES_OUTPUT_PROGRESS_H
#define ES_OUTPUT_PROGRESS_H

#include "analyzer/base/progress.h"

/**
 * Begins a line "VERB OBJECT: ..." that replaces the previous one.
 *
 *   quiet   draw nothing
 *   verb    borrowed
 *   object  path of a file, of which the last part is shown; or NULL
 *   unit    ES_PROGRESS_BYTES, or the noun that is counted; borrowed
 *   total   0: unknown
 */
void es_progress_line_begin(bool quiet, const char *verb, const char *object,
                            const char *unit, uint64_t total);

/** Sets or increases the amount that is done. A smaller amount than before
 *  begins another pass, and the rate is measured from then on. */
void es_progress_line_set(uint64_t done);
void es_progress_line_add(uint64_t more);

/** Removes the line from the screen until the next update. */
void es_progress_line_wipe(void);

/** Ends and removes the line. */
void es_progress_line_end(void);

#endif
