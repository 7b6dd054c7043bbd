/** Joins the fragments of one distributed training into one run. */
#ifndef ES_JOIN_H
#define ES_JOIN_H

#include "store/join/fragment.h"
#include "store/writer.h"

/** Receives one line about the joined run: a gap, or values left missing.
 *  Borrowed. */
typedef void es_join_handler(void *user, const char *line);

/**
 * Adds the run that the fragments (n) are parts of. L and H cover all of them
 * together, the uuid is theirs, and the other facts are those of the lowest
 * rank, except `batch`, the sum over the ranks that hold the same heads.
 *
 * Fragments hold different layers or heads (stages of a pipeline, tensor
 * parallel), which are put side by side, or the same ones (data parallel),
 * whose samples of a step are combined to the values that all their rows
 * together give:
 *
 *   statistics of heads  as in analyzer/heads: means weighted by the series
 *                        finite_rows, lowest of lowest, highest of highest,
 *                        counts added. A rank without finite rows does not
 *                        count in a mean; without the series finite_rows the
 *                        mean is missing
 *   loss, ce, ereg       the mean of the ranks that have it, like the
 *                        gradient: NaN if one is NaN
 *   finite_rows, tokens_per_s, nan_activations   the sum
 *   other series         kept if all ranks have the same value, else missing
 *
 * No values are made up: a step that a rank lacks has the values of the other
 * ranks, and an event of the kind "gap" gives the number of steps that the rank
 * lacks; another lists the ranks without a fragment. Values that no rule can
 * combine stay missing, with an event of the kind "unjoined". Events keep their
 * text, after "rank 1: ".
 *
 *   writer   outside a transaction: everything is one transaction
 *   handler  called with the message of each event of those two kinds; may be
 *            NULL
 *
 * ES_OK; ES_DONE: the run already exists, nothing is written; ES_EFORMAT: the
 * fragments do not fit: different uuids or numbers of ranks, a rank twice,
 * layers and heads that overlap, series of different shapes; ES_EARGUMENT (n is
 * 0, L or H is too large for a run); the errors of reading and writing. Memory
 * grows with n and L*H, not with steps.
 */
es_status es_join(es_writer *writer, const es_fragment *fragments, size_t n,
                  es_join_handler *handler, void *user) ES_MUST_USE;

#endif
