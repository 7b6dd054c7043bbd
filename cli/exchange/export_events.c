/* Writes a run as an event file of TensorBoard, one sample at a time. */
#include "cli/exchange/event_file.h"
#include "cli/exchange/export_internal.h"
#include "cli/exchange/tags.h"

#include "analyzer/base/text_stream.h"
#include "analyzer/base/value.h"
#include "cli/exchange/about.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Converts a time string of the run file to seconds since 1970; returns 0 for
   any other string. */
static double seconds_of(const char *text)
{
    struct tm t = {0};
    double second;
    if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%lfZ", &t.tm_year, &t.tm_mon,
                        &t.tm_mday, &t.tm_hour, &t.tm_min, &second) != 6)
        return 0;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    return (double)timegm(&t) + second;
}

/* Writes the description of the run and its series as a text event; the code
   fence makes TensorBoard show its lines unchanged. */
static es_status write_about(const es_export *e, double time)
{
    char *text = NULL;
    size_t n;
    es_event_builder event = {0};
    FILE *lines = es_text_stream(&text, &n);
    if (!lines)
        return es_fail(ES_ENOMEM, "out of memory");
    fputs("```\n", lines);
    es_about_print(lines, &e->info);
    for (size_t i = 0; i < e->n_columns; i++)
        es_about_print_series(lines, &e->columns[i].series);
    fputs("```\n", lines);
    es_status status =
        fclose(lines) == 0 ? ES_OK : es_fail(ES_ENOMEM, "out of memory");
    if (status == ES_OK) {
        es_event_put_text(&event, ES_EVENT_ABOUT_TAG, text);
        status = es_event_write(&event, e->out, time, 0);
    }
    free(text);
    return status;
}

/* Buffer for the text of a tag, reused for each scalar. */
typedef struct tag_text {
    char *text;
    size_t n;
    FILE *stream;
} tag_text;

static void put_value(es_event_builder *event, tag_text *buffer,
                      const es_tag *tag, bool mean, float value)
{
    rewind(buffer->stream);
    es_tag_print(buffer->stream, tag, mean);
    fputc('\0', buffer->stream);
    if (fflush(buffer->stream) == 0)
        es_event_put_scalar(event, buffer->text, value);
    else
        event->status =
            es_fail(ES_ENOMEM, "out of memory while writing a scalar's tag");
}

/* Returns the mean of the measured heads; a missing value if no head is
   measured. */
static float mean_of(const float *values, size_t n)
{
    double sum = 0;
    size_t n_measured = 0;
    for (size_t i = 0; i < n; i++)
        if (!es_is_missing(values[i])) {
            sum += (double)values[i];
            n_measured++;
        }
    return n_measured ? (float)(sum / (double)n_measured) : es_missing();
}

static void put_sample(es_event_builder *event, tag_text *buffer,
                       const float *values, const es_series *series,
                       size_t n_head)
{
    es_tag tag = {.phase = series->phase, .shape = series->shape};
    snprintf(tag.series, sizeof tag.series, "%s", series->name);
    bool by_head = series->shape == ES_SHAPE_HEAD;
    for (size_t i = 0; i < series->n_values; i++) {
        tag.layer = (int64_t)(by_head ? i / n_head : i);
        tag.head = (int64_t)(by_head ? i % n_head : 0);
        if (!es_is_missing(values[i]))
            put_value(event, buffer, &tag, false, values[i]);
        if (!by_head || tag.head)
            continue;
        float mean = mean_of(values + i, n_head);
        if (!es_is_missing(mean))
            put_value(event, buffer, &tag, true, mean);
    }
}

static es_status write_samples(const es_export *e, es_cursor *cursor,
                               double time)
{
    es_event_builder event = {0};
    tag_text buffer = {0};
    es_status status = ES_OK;
    int64_t step;
    const float *values;
    es_series series;
    buffer.stream = es_text_stream(&buffer.text, &buffer.n);
    if (!buffer.stream)
        return es_fail(ES_ENOMEM, "out of memory");
    while (status == ES_OK && !ferror(e->out) &&
           (status = es_cursor_next_of_run(cursor, &step, &values, &series)) ==
               ES_OK) {
        if (!es_export_find(e, &series))
            continue;
        put_sample(&event, &buffer, values, &series, (size_t)e->info.n_head);
        if (event.n || event.status < 0)
            status = es_event_write(&event, e->out, time, step);
    }
    fclose(buffer.stream);
    free(buffer.text);
    es_event_builder_free(&event);
    return status == ES_DONE ? ES_OK : status;
}

es_status es_export_events(FILE *out, es_reader *reader, size_t run,
                           const es_export_options *options)
{
    es_export e;
    es_cursor *cursor = NULL;
    es_status status;
    if ((status = es_export_begin(&e, out, reader, run, options)) == ES_OK &&
        (status = es_cursor_open_run(&cursor, reader, run)) == ES_OK) {
        double time = seconds_of(e.info.started_at);
        if ((status = es_event_write_version(out, time)) == ES_OK &&
            (status = write_about(&e, time)) == ES_OK)
            status = write_samples(&e, cursor, time);
    }
    es_cursor_close(cursor);
    es_export_end(&e);
    return status;
}
