/**
 * `--trends`: which layers of a run rise or fall, and when they would pass a
 * threshold of the flags if they went on so.
 *
 * Of the second half of the steps up to the one shown, in at most 64 means: a
 * trend of the start says nothing of where a run is heading. Points depend on
 * those before them, so that p is too small; a straight line is no forecast of
 * a training that its learning rate ends.
 *
 * The member "trends" of `--json`:
 *
 *     "trends":[{"path","run","series","from":50,"to":100,
 *       "lines":[{"layer":0|null,"n","slope","low","high","p","p_holm",
 *                 "reason":null,
 *                 "robust":{"slope","low","high","reason":null},
 *                 "passes":null|{"threshold","step","earliest","latest"}}]}]
 *
 * slope: a step, Theil and Sen's, and its interval of 95 %
 * (analyzer/statistics/trend.h); p_holm: for all layers of the run; robust: a
 * line through the same points by Tukey's bisquare. "passes"
 * is there of a trend with p_holm < 0.05 that crosses 5 % or 75 % of the
 * ceiling, or what the rules say, within the planned steps, or twice the steps
 * of a run that does not say how many; "latest" null: maybe never.
 */
#ifndef ES_TRENDS_H
#define ES_TRENDS_H

#include "analyzer/base/json_write.h"
#include "cli/runs/summary.h"

typedef struct es_trends es_trends;

/** ES_OK; ES_EUSAGE: built without GSL; ES_ENOMEM. */
es_status es_trends_new(es_trends **out) ES_MUST_USE;

void es_trends_free(es_trends *trends); /* NULL is fine */

/** Reads the series that the summary shows. As es_cursor_next; ES_ENOMEM. */
es_status es_trends_add(es_trends *trends, es_reader *reader, size_t run,
                        const es_run_summary *summary) ES_MUST_USE;

/** A line of a run that rises or falls, for a picture: through (x, y), with a
 *  slope between low and high. */
typedef struct es_trend_line {
    double x, y, slope, low, high;
    double first, last; /* steps: from the first that it was found in to where
                           the last of the run's lines passes its threshold, or
                           to the last there is */
} es_trend_line;

/** Of a run by the order in which they were added; false: it has no such line,
 *  or that has no trend that the sentences would name. */
bool es_trends_line(es_trend_line *out, const es_trends *trends, size_t run,
                    size_t line);

/** The caller checks the stream. */
void es_trends_print(const es_trends *trends, FILE *stream);
void es_trends_json(const es_trends *trends, es_json_writer *json);

#endif
