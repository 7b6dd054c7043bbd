/** Declarations that the files of the trends share. */
#ifndef ES_TRENDS_INTERNAL_H
#define ES_TRENDS_INTERNAL_H

#include "analyzer/statistics/trend.h"
#include "cli/trends/trends.h"

typedef struct es_line_trend {
    es_series_trend trend;
    es_robust_fit robust; /* line through the same points */
    double p_holm;
    double share, threshold;         /* threshold as a share of the ceiling,
                                        and in the series' unit */
    double passes, earliest, latest; /* steps; NaN: the threshold is not passed
                                        before the end */
} es_line_trend;

typedef struct es_run_trends {
    char *path, *name, *series, *unit; /* from the run file: escape before
                                          printing */
    size_t number;                     /* index of the run in the file; 0: the
                                          only run */
    es_shape shape;
    int64_t first, last;  /* range of steps */
    double end;           /* step up to which lines are drawn */
    es_line_trend *lines; /* (n) layers, or the whole run */
    size_t n;
} es_run_trends;

/** Returns true if the line is reported as rising or falling. */
bool es_trend_is_named(const es_line_trend *line);

struct es_trends {
    es_run_trends *runs; /* (n) */
    size_t n;
};

#endif
