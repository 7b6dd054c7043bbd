/* Writes the samples of a series into the report page. Thins the samples to the
   share of the page that the series gets; if samples are left out, adds curves
   with the means of all samples. */
#include "cli/report/report.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/output/progress.h"

#include <inttypes.h>

/* --- shares of the page ---------------------------------------------------*/

/* Assigns at most `share` values to each series that has no share yet: to every
 * such series if `all` is true, otherwise only to series that need no more
 * values. Returns the number of series that still have no share. */
static size_t give(es_report_data *report, size_t *left, size_t share, bool all)
{
    size_t n_open = 0;
    for (size_t i = 0; i < report->n_runs; i++)
        for (size_t k = 0; k < report->runs[i].n_series; k++) {
            es_report_series *s = &report->runs[i].series[k];
            /* Number of values that the complete series needs, including one
             * for the step of each sample. */
            size_t whole;
            if (s->share)
                continue;
            if (!es_size_mul(&whole, s->n_samples, s->series.n_values + 1))
                whole = SIZE_MAX;
            if (!all && whole > share) {
                n_open++;
                continue;
            }
            s->share = whole < share ? whole : share;
            *left -= s->share < *left ? s->share : *left;
        }
    return n_open;
}

void es_report_allot(es_report_data *report, size_t n_values)
{
    size_t left = n_values, before;
    size_t n_open = give(report, &left, 0, false);
    do {
        before = n_open;
        if (n_open)
            n_open = give(report, &left, left / n_open, false);
    } while (n_open && n_open < before);
    if (n_open)
        give(report, &left, left / n_open ? left / n_open : 1, true);
}

/* --- numbers --------------------------------------------------------------*/

void es_report_base64(FILE *out, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                 "qrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t three = (uint32_t)from[i] << 16;
        if (left > 1)
            three |= (uint32_t)from[i + 1] << 8;
        if (left > 2)
            three |= from[i + 2];
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63],
                        left > 1 ? digits[three >> 6 & 63] : '=',
                        left > 2 ? digits[three & 63] : '='};
        fwrite(four, 1, sizeof four, out);
    }
}

/* Writes the members "steps" (n numbers) and "values" (n_values numbers in
 * base64). */
static void put_numbers(es_json_writer *json, const int64_t *steps, size_t n,
                        const float *values, size_t n_values)
{
    es_json_write_array(json, "steps");
    for (size_t i = 0; i < n; i++)
        /* a JavaScript number can represent these steps exactly */
        if (steps[i] <= INT64_C(1) << 53)
            es_json_write_integer(json, NULL, steps[i]);
        else
            es_json_write_format(json, NULL, "%" PRId64, steps[i]);
    es_json_write_end(json, "]");
    es_json_write_name(json, "values");
    fputc('"', json->stream);
    es_report_base64(json->stream, values, n_values * sizeof *values);
    fputc('"', json->stream);
}

static es_status put_curve(es_json_writer *json, const es_trace *trace,
                           size_t n_lines)
{
    const size_t n = es_trace_n_points(trace);
    int64_t *steps = NULL;
    float *values = NULL;
    es_status status;
    if ((status = es_alloc(&steps, n, sizeof *steps, "curves")) < 0 ||
        (status = es_alloc(&values, n, n_lines * sizeof *values, "curves")) < 0)
        goto done;
    es_trace_steps(trace, steps);
    for (size_t i = 0; i < n_lines; i++)
        es_trace_line(trace, i, values + i * n);
    es_json_write_object(json, "curve");
    put_numbers(json, steps, n, values, n * n_lines);
    es_json_write_end(json, "}");
done:
    free(steps);
    free(values);
    return status;
}

/* --- reading -------------------------------------------------------------*/

/* Prepares the pass over the samples of a series. s->share is the maximum
 * number of values of this series in the report. If curves are needed, three
 * quarters of these values are for samples and a quarter is for curves. Curves
 * are not needed if all samples fit or if the series has one value per step. */
static es_status start(es_report_samples *t, const es_report_series *s)
{
    size_t n_values = s->series.n_values;
    size_t capacity = s->share / (n_values + 1);
    const bool curves = capacity < s->n_samples && n_values > 1;
    if (curves)
        capacity = s->share / 4 * 3 / (n_values + 1);
    es_status status = es_thin_new(&t->thin, n_values, s->n_samples, capacity);
    if (status < 0 || !curves ||
        (status = es_trace_new_within(&t->trace, s->n_rows,
                                      s->share / 4 / 3 / (s->n_rows + 1))) < 0)
        return status;
    return es_alloc(&t->means, s->n_rows, sizeof *t->means, "curves");
}

static void add_sample(es_report_samples *t, const es_report_series *s,
                       int64_t step, const float *values)
{
    es_thin_push(t->thin, step, values);
    if (!t->trace)
        return;
    for (size_t i = 0; i < s->n_rows; i++) {
        const float *heads = values + i * s->n_columns;
        es_summary row; /* summary of the layer's heads; its mean excludes
                           non-finite heads */
        es_stats_summary(&row, heads, s->n_columns, 1);
        t->means[i] = s->n_columns == 1             ? *heads
                      : row.n_finite                ? (float)row.mean
                      : row.missing == s->n_columns ? es_missing()
                                                    : NAN;
    }
    es_trace_push(t->trace, step, t->means);
}

es_status es_report_samples_read(es_report_samples *out, es_reader *reader,
                                 size_t run, const es_report_series *s,
                                 int64_t from)
{
    es_series now;
    es_cursor *cursor = NULL;
    int64_t step;
    const float *values;
    es_status status;
    if ((status = start(out, s)) < 0 ||
        (status = es_reader_find(reader, run, s->name, s->series.phase, &now)) <
            0)
        return status;
    if (now.n_values != s->series.n_values || now.shape != s->series.shape)
        return es_fail(ES_EIO, "%s: the file changed during the read",
                       es_reader_path(reader));
    if ((status = es_cursor_open(&cursor, reader, &now, from,
                                 s->series.last_step)) < 0)
        return status;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        add_sample(out, s, step, values);
        es_progress_line_add(1);
    }
    es_cursor_close(cursor);
    es_thin_finish(out->thin);
    return status == ES_DONE ? ES_OK : status;
}

void es_report_samples_free(es_report_samples *samples)
{
    es_thin_free(samples->thin);
    es_trace_free(samples->trace);
    free(samples->means);
}

es_status es_report_write_series(es_json_writer *json, es_reader *reader,
                                 size_t run, const es_report_series *s)
{
    es_report_samples t = {0};
    es_status status =
        es_report_samples_read(&t, reader, run, s, ES_STEP_FIRST);
    if (status < 0)
        goto done;
    put_numbers(json, t.thin->steps, t.thin->n, t.thin->values,
                t.thin->n * s->series.n_values);
    if (t.trace)
        status = put_curve(json, t.trace, s->n_rows);
done:
    es_report_samples_free(&t);
    return status;
}
