/**
 * `--trends`: which layers of a run rise or fall, and when they would pass a
 * threshold of the flags if the trend continues.
 *
 * Trends are computed from the second half of the steps up to the one shown, as
 * at most 64 means: a trend at the start says nothing about where a run is
 * heading. Points depend on earlier points, so p is too small; and a straight
 * line cannot predict a training whose learning rate decays.
 *
 * The member "trends" of `--json`:
 *
 *     "trends":[{"path","run","series","from":50,"to":100,
 *       "lines":[{"layer":0|null,"n","slope","low","high","p","p_holm",
 *                 "reason":null,
 *                 "robust":{"slope","low","high","reason":null},
 *                 "passes":null|{"threshold","step","earliest","latest"}}]}]
 *
 * slope: per step, by Theil and Sen, with its 95 % interval
 * (analyzer/statistics/trend.h); p_holm: adjusted for all layers of the run;
 * robust: a line through the same points by Tukey's bisquare. "passes" is an
 * object if a trend with p_holm < 0.05 crosses 5 % or 75 % of the ceiling, or
 * the thresholds of the rules, within the planned steps or, if these are
 * unknown, within twice the steps of the run; "latest" is null if it may never
 * cross.
 */
#ifndef ES_TRENDS_H
#define ES_TRENDS_H

#include "analyzer/base/json_write.h"
#include "cli/runs/summary.h"

typedef struct es_trends es_trends;

/**
 * Makes an empty set of trends. Returns ES_OK; ES_EUSAGE: built without GSL;
 * ES_ENOMEM.
 */
es_status es_trends_new(es_trends **out) ES_MUST_USE;

void es_trends_free(es_trends *trends); /* NULL is allowed */

/**
 * Reads the series that the summary shows and adds its trends. Returns the
 * codes of es_cursor_next; ES_ENOMEM.
 */
es_status es_trends_add(es_trends *trends, es_reader *reader, size_t run,
                        const es_run_summary *summary) ES_MUST_USE;

/**
 * A rising or falling line of a run, for a picture. It goes through (x, y) with
 * a slope between low and high.
 */
typedef struct es_trend_line {
    double x, y, slope, low, high;
    double first, last; /* steps: the first that the trend is computed from,
                           and the latest at which a line of the run passes its
                           threshold, or the last recorded one */
} es_trend_line;

/**
 * Gets a line of a run, counted in the order in which runs were added. Returns
 * false if there is no such line, or if its trend is not reported.
 */
bool es_trends_line(es_trend_line *out, const es_trends *trends, size_t run,
                    size_t line);

/** Print the trends; the caller checks the stream. */
void es_trends_print(const es_trends *trends, FILE *stream);
void es_trends_json(const es_trends *trends, es_json_writer *json);

#endif
