/** Internal declarations shared by the files of cli/trends. */
#ifndef ES_TRENDS_INTERNAL_H
#define ES_TRENDS_INTERNAL_H

#include "analyzer/statistics/trend.h"
#include "cli/trends/trends.h"

typedef struct es_line_trend {
    es_series_trend trend;
    es_robust_fit robust; /* robust line through the same points */
    double p_holm;
    double share, threshold;         /* threshold towards which the line leads,
                                        as a share of the ceiling and in the
                                        unit of the series */
    double passes, earliest, latest; /* expected, earliest and latest step at
                                        which the line passes the threshold; NaN
                                        if it does not do so before the end of
                                        the run */
} es_line_trend;

typedef struct es_run_trends {
    char *path, *name, *series, *unit; /* strings from the run file, which must
                                          be escaped before printing */
    size_t number;                     /* number of the run in the file, from 1;
                                          0 if the file has only one run */
    es_shape shape;
    int64_t first, last;  /* range of steps from which the trends are
                             computed */
    double end;           /* step up to which the lines are drawn */
    es_line_trend *lines; /* trend of each of n layers, or one trend if the
                             series has one value per step */
    size_t n;
} es_run_trends;

/**
 * Returns true if the trend is significant. Only then is the line reported as
 * rising or falling.
 */
bool es_trend_is_named(const es_line_trend *line);

struct es_trends {
    es_run_trends *runs; /* (n) */
    size_t n;
};

#endif
