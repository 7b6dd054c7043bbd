/** Shared between the files of the trends. */
#ifndef ES_TRENDS_INTERNAL_H
#define ES_TRENDS_INTERNAL_H

#include "analyzer/statistics/trend.h"
#include "cli/trends/trends.h"

typedef struct es_line_trend {
    es_series_trend trend;
    es_robust_fit robust; /* through the same points */
    double p_holm;
    double share, threshold;         /* of the ceiling; in the series' unit */
    double passes, earliest, latest; /* steps; NaN: it does not, soon */
} es_line_trend;

typedef struct es_run_trends {
    char *path, *name, *series, *unit; /* escape them */
    size_t number;                     /* of the run in the file; 0: alone */
    es_shape shape;
    int64_t first, last;  /* steps */
    double end;           /* the step that lines are drawn to */
    es_line_trend *lines; /* (n) layers, or the run */
    size_t n;
} es_run_trends;

/** Is it said that it rises or falls? */
bool es_trend_is_named(const es_line_trend *line);

struct es_trends {
    es_run_trends *runs; /* (n) */
    size_t n;
};

#endif
