/** The fragments of one distributed training as one run. */
#ifndef ES_JOIN_H
#define ES_JOIN_H

#include "store/join/fragment.h"
#include "store/writer.h"

/** One line about the joined run: a gap, numbers left missing. Borrowed. */
typedef void es_join_handler(void *user, const char *line);

/**
 * Adds the run that the fragments (n) are parts of: L and H are those of all
 * of them together, the uuid is theirs, the other facts those of the lowest
 * rank, but for `batch`, the sum over the ranks that hold the same heads.
 *
 * Fragments hold other layers or heads (stages of a pipeline, tensor
 * parallel), which are put side by side, or the very same ones (data
 * parallel), whose samples of a step become what all their rows give:
 *
 *   statistics of heads  as analyzer/heads: means weighted by the series
 *                        finite_rows, lowest of lowest, highest of highest,
 *                        counts added. A rank without finite rows has no part
 *                        in a mean; without finite_rows there is none
 *   loss, ce, ereg       the mean of the ranks that have it, as the gradient
 *                        is: NaN if one is
 *   finite_rows, tokens_per_s, nan_activations   the sum
 *   other series         kept where all ranks say the same, else missing
 *
 * Nothing is invented: of a step that a rank lacks there is what the others
 * have, and an event of the kind "gap" says how many steps it lacks. So it does
 * of ranks that are in no fragment. What stays missing for want of a rule has
 * an event of the kind "unjoined". Events keep their text, after "rank 1: ".
 *
 *   writer   outside a transaction: all of it is one
 *   handler  called with the message of each event of those two kinds; NULL:
 *            nobody
 *
 * ES_OK; ES_DONE: the run is there already, nothing is written; ES_EFORMAT: the
 * fragments do not fit: other uuids or numbers of ranks, a rank twice, layers
 * and heads that overlap, series of other shapes; ES_EARGUMENT (n is 0, L or H
 * beyond what a run can have); what reading or writing says. Memory grows with
 * n and L*H, not with steps.
 */
es_status es_join(es_writer *writer, const es_fragment *fragments, size_t n,
                  es_join_handler *handler, void *user) ES_MUST_USE;

#endif
