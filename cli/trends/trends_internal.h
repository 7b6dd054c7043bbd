/** Internal declarations shared by the files of cli/trends. */
#ifndef ES_TRENDS_INTERNAL_H
#define ES_TRENDS_INTERNAL_H

#include "analyzer/statistics/trend.h"
#include "cli/trends/trends.h"

typedef struct es_line_trend {
    es_series_trend trend;
    es_robust_fit robust; /* robust line through the same points */
    double p_holm;
    double share, threshold;         /* threshold as a share of the ceiling,
                                        and in the unit of the series */
    double passes, earliest, latest; /* steps at which the threshold is
                                        passed; NaN if it is not passed
                                        before the end of the run */
} es_line_trend;

typedef struct es_run_trends {
    char *path, *name, *series, *unit; /* strings that come from the run
                                          file: escape before printing */
    size_t number;                     /* number of the run in the file; 0
                                          for the only run */
    es_shape shape;
    int64_t first, last;  /* range of steps from which the trends are
                             computed */
    double end;           /* step up to which the lines are drawn */
    es_line_trend *lines; /* (n) trend of each layer, or one trend for the
                             whole run */
    size_t n;
} es_run_trends;

/**
 * Returns true if the trend is significant, so that the line is reported as
 * rising or falling.
 */
bool es_trend_is_named(const es_line_trend *line);

struct es_trends {
    es_run_trends *runs; /* (n) */
    size_t n;
};

#endif
