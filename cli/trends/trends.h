/**
 * Implements `--trends`, which reports which layers of a run rise or fall, and
 * when they would pass a threshold of the flags if the trend continued.
 *
 * The samples in the second half of the steps before the step shown are divided
 * into at most 64 groups of neighbouring samples, and a trend is fitted to the
 * means of these groups. The first half is not used, because early steps do not
 * indicate where a run is heading. The means are not independent of each other,
 * so p is too small; and a straight line cannot predict a run whose learning
 * rate decays.
 *
 * The member "trends" of `--json`:
 *
 *     "trends":[{"path","run","series","from":50,"to":100,
 *       "lines":[{"layer":0|null,"n","slope","low","high","p","p_holm",
 *                 "reason":null,
 *                 "robust":{"slope","low","high","reason":null},
 *                 "passes":null|{"threshold","step","earliest","latest"}}]}]
 *
 * "slope" is the change per step by the method of Theil and Sen, and "low" and
 * "high" are its 95 % interval (analyzer/statistics/trend.h); "p_holm" is p
 * adjusted for the number of layers of the run; "robust" is the slope of a line
 * through the same points by Tukey's bisquare. "passes" is an object if a trend
 * with p_holm < 0.05 crosses 5 % or 75 % of the ceiling, or the thresholds of
 * the rules, within the planned steps or, if the plan is unknown, within twice
 * the recorded steps of the run; "latest" is null if the line may never cross
 * the threshold.
 */
#ifndef ES_TRENDS_H
#define ES_TRENDS_H

#include "analyzer/base/json_write.h"
#include "cli/runs/summary.h"

typedef struct es_trends es_trends;

/**
 * Creates an empty set of trends. Returns ES_OK; ES_EUSAGE if the program is
 * built without GSL; ES_ENOMEM.
 */
es_status es_trends_new(es_trends **out) ES_MUST_USE;

void es_trends_free(es_trends *trends); /* trends may be NULL */

/**
 * Reads the series that the summary shows. Adds the trend of each layer in this
 * series to the set. Returns a status of es_cursor_next, or ES_ENOMEM.
 */
es_status es_trends_add(es_trends *trends, es_reader *reader, size_t run,
                        const es_run_summary *summary) ES_MUST_USE;

/**
 * A rising or falling trend line of a run, to be drawn into a picture. The line
 * passes through (x, y) with a slope between low and high.
 */
typedef struct es_trend_line {
    double x, y, slope, low, high;
    double first, last; /* range of steps in which the line is drawn: from
                           the first step of the trend to the latest step at
                           which a line of the run may pass its threshold, or
                           to the last recorded step */
} es_trend_line;

/**
 * Copies a trend line of a run to *out. Runs are numbered in the order in which
 * they were added. Returns false if the line does not exist or its trend is not
 * significant.
 */
bool es_trends_line(es_trend_line *out, const es_trends *trends, size_t run,
                    size_t line);

/**
 * Print the trends as text or JSON. The caller checks the stream for errors.
 */
void es_trends_print(const es_trends *trends, FILE *stream);
void es_trends_json(const es_trends *trends, es_json_writer *json);

#endif
