/* Reads the small curves in the list of runs (sparklines) from growing
   series. */
#include "cli/serve/line.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/statistics/stats.h"

#include <math.h>
#include <string.h>

static float mean_of(const float *values, size_t n)
{
    es_summary all;
    if (n == 1)
        return *values;
    es_stats_summary(&all, values, n, 1);
    return all.n_finite       ? (float)all.mean
           : all.missing == n ? es_missing()
                              : NAN;
}

void es_serve_line_clear(es_serve_line *line)
{
    *line = (es_serve_line){0};
}

static bool is_broken(float value)
{
    return !isfinite(value) && !es_is_missing(value);
}

/* Removes every second point of a line that has the maximum number of
 * points. */
static void halve(es_serve_line *line)
{
    for (size_t i = 0; i < ES_SERVE_POINTS / 2; i++) {
        line->steps[i] = line->steps[2 * i];
        line->values[i] =
            is_broken(line->values[2 * i + 1]) ? NAN : line->values[2 * i];
    }
    line->n_points = ES_SERVE_POINTS / 2;
    line->stride *= 2;
}

static void push(es_serve_line *line, int64_t step, float value)
{
    if (line->n_samples++ % line->stride == 0) {
        if (line->n_points == ES_SERVE_POINTS)
            halve(line);
        line->steps[line->n_points] = step;
        line->values[line->n_points++] = value;
    } else if (is_broken(value))
        line->values[line->n_points - 1] = NAN;
    line->last = step;
    line->newest = value;
}

/* Sets *same to true if the sample at the step that was read last is
   unchanged. */
static es_status check_last(bool *same, const es_serve_line *line,
                            es_reader *reader, const es_series *series)
{
    float *values;
    int64_t found;
    *same = false;
    es_status status =
        es_alloc(&values, series->n_values, sizeof *values, "a sample");
    if (status < 0)
        return status;
    status = es_reader_sample(reader, series, line->last, values,
                              series->n_values, &found);
    if (status == ES_OK) {
        const float mean = mean_of(values, series->n_values);
        *same = memcmp(&mean, &line->newest, sizeof mean) == 0;
    }
    free(values);
    return status == ES_ENOTFOUND ? ES_OK : status;
}

es_status es_serve_line_read(es_serve_line *line, es_reader *reader, size_t run,
                             const char *name, es_phase phase)
{
    es_series series;
    es_cursor *cursor;
    const float *values;
    int64_t step;
    bool same = false;
    es_status status = es_reader_find(reader, run, name, phase, &series);
    if (status == ES_ENOTFOUND ||
        (status == ES_OK && series.last_step == ES_UNKNOWN)) {
        es_serve_line_clear(line);
        return ES_OK;
    }
    if (status < 0 || (line->n_points &&
                       (status = check_last(&same, line, reader, &series)) < 0))
        return status;
    if (!same)
        *line = (es_serve_line){.stride = 1, .last = -1};
    if (series.last_step == line->last)
        return ES_OK;
    if ((status = es_cursor_open(&cursor, reader, &series, line->last + 1,
                                 ES_STEP_LAST)) < 0)
        return status;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK)
        push(line, step, mean_of(values, series.n_values));
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static void write_value(es_json_writer *json, float value)
{
    if (es_is_missing(value))
        es_json_write_text(json, NULL, "");
    else
        es_json_write_number(json, NULL, value);
}

void es_serve_line_write(es_json_writer *json, const char *name,
                         const es_serve_line *line)
{
    const size_t n = line->n_points;
    /* true if the last sample is not among the line's points */
    const bool more = n && line->steps[n - 1] < line->last;
    es_json_write_object(json, name);
    es_json_write_array(json, "steps");
    for (size_t i = 0; i < n; i++)
        es_json_write_integer(json, NULL, line->steps[i]);
    if (more)
        es_json_write_integer(json, NULL, line->last);
    es_json_write_end(json, "]");
    es_json_write_array(json, "values");
    for (size_t i = 0; i < n; i++)
        write_value(json, line->values[i]);
    if (more)
        write_value(json, line->newest);
    es_json_write_end(json, "]}");
}
