/** The small curve of a series in the list of runs (sparkline): a few points
 *  over all steps, to which points are added as the run grows. */
#ifndef ES_SERVE_LINE_H
#define ES_SERVE_LINE_H

#include "analyzer/base/json_write.h"
#include "store/reader.h"

/* Maximum number of stored points of a line. */
#define ES_SERVE_POINTS 60

/** A struct of zeros is a line that has not been read. */
typedef struct es_serve_line {
    int64_t steps[ES_SERVE_POINTS];
    float values[ES_SERVE_POINTS]; /* values of every stride-th sample, n_points
                                      in total; NaN if this sample or a sample
                                      before the next point is not finite */
    size_t n_points, n_samples, stride;
    int64_t last; /* last step that was read */
    float newest; /* value at the step `last` */
} es_serve_line;

/**
 * Adds the samples since the last call. The value of a sample is the mean of
 * its finite values; NaN if it has none; missing if all values are missing. If
 * earlier samples were replaced, reads the series from its start. If the series
 * does not exist, the line becomes empty. Returns ES_OK, ES_EFORMAT, ES_EIO,
 * ES_ENOMEM.
 */
es_status es_serve_line_read(es_serve_line *line, es_reader *reader, size_t run,
                             const char *name, es_phase phase) ES_MUST_USE;

/** Writes the member `name`: {"steps":[..],"values":[..]}, at most 61 points. A
 *  value is null if it is not finite, and "" if it is missing. */
void es_serve_line_write(es_json_writer *json, const char *name,
                         const es_serve_line *line);

void es_serve_line_clear(es_serve_line *line);

#endif
