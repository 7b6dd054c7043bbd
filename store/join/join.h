/** Joins the fragments of one distributed training run into one run. */
#ifndef ES_JOIN_H
#define ES_JOIN_H

#include "store/join/fragment.h"
#include "store/writer.h"

/**
 * Receives one line of text about a gap or missing values in the joined run.
 * The line is valid during the call.
 */
typedef void es_join_handler(void *user, const char *line);

/**
 * Adds to the file of `writer` the run whose parts are the fragments (n). L and
 * H cover all fragments together, the uuid is the fragments', `batch` is the
 * sum over the ranks that contain the same heads, and all other facts are those
 * of the lowest rank.
 *
 * Fragments may contain different layers or heads (stages of a pipeline, tensor
 * parallel), which are placed side by side, or the same heads (data parallel),
 * whose samples of a step are combined into the values that one rank with all
 * the rows would have recorded:
 *
 *   statistics of heads  by the rules in analyzer/heads: means weighted by the
 *                        series finite_rows, minimum of minima, maximum of
 *                        maxima, sum of counts. A rank without finite rows does
 *                        not count in a mean; without the series finite_rows
 *                        the mean is missing
 *   loss, ce, ereg       the unweighted mean over the ranks that have the
 *                        series, like the gradient; NaN if one is NaN
 *   finite_rows, tokens_per_s, nan_activations   the sum
 *   other series         kept if all ranks have the same value, else missing
 *
 * Missing values are never filled in. If a rank lacks a step, the joined run
 * has the values of the other ranks at this step, and an event of the kind
 * "gap" reports the number of steps that the rank lacks. Another event lists
 * the ranks without a fragment. Values that no rule can combine stay missing,
 * and an event of the kind "unjoined" reports them. Events of the fragments
 * keep their text, preceded by "rank 1: ".
 *
 *   writer   not in a transaction; everything is written in one transaction
 *   handler  called with the message of each event of the kinds "gap" and
 *            "unjoined"; may be NULL
 *
 * Returns ES_OK; ES_DONE if the run already exists (nothing is written);
 * ES_EFORMAT if the fragments do not fit together (different uuids or numbers
 * of ranks, a duplicate rank, overlapping layers and heads, a series with
 * different shapes); ES_EARGUMENT (n is 0, L or H is too large for a run); the
 * errors of reading and writing. Memory grows with n and L*H, not with steps.
 */
es_status es_join(es_writer *writer, const es_fragment *fragments, size_t n,
                  es_join_handler *handler, void *user) ES_MUST_USE;

#endif
