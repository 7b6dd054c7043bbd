/** The progress of what entropy-scan does at the moment: one line on standard
 *  error, where that is a terminal. Notes and failures go above it. */
#ifndef ES_OUTPUT_PROGRESS_H
#define ES_OUTPUT_PROGRESS_H

#include "analyzer/base/progress.h"

/**
 * Begins a line "VERB OBJECT: ..." in place of the one before.
 *
 *   quiet   nothing is drawn
 *   verb    borrowed; object: a file, by its last name, or NULL
 *   unit    ES_PROGRESS_BYTES, or what is counted; borrowed
 *   total   0: unknown
 */
void es_progress_line_begin(bool quiet, const char *verb, const char *object,
                            const char *unit, uint64_t total);

/** So much is done by now; or so much more than before. Less than before is
 *  another pass, of which the rate is that from now on. */
void es_progress_line_set(uint64_t done);
void es_progress_line_add(uint64_t more);

/** Removes what is drawn, until the next call of the others. */
void es_progress_line_wipe(void);

/** Removes the line for good. */
void es_progress_line_end(void);

#endif
