/* Parses TensorBoard event files. Reads the file twice. The first pass collects
   the names and the description of the run, which export writes; the second
   pass reads the numbers. An incomplete record at the end of the file is
   skipped. Records that are damaged, or do not contain an Event, are skipped
   and counted. */
#include "cli/exchange/event_file.h"
#include "cli/exchange/import_scalars.h"

#include "analyzer/base/checked.h"

#include <string.h>

typedef struct events {
    es_import *import;
    es_scalars *scalars;
    es_event_reader reader;
    es_tag_rules rules;
} events;

es_status es_import_events_match(bool *out, es_line_reader *lines)
{
    unsigned char head[12];
    size_t n;
    es_status status = es_line_reader_bytes_read(lines, head, sizeof head, &n);
    *out = status == ES_OK && n == sizeof head && es_event_begins(head);
    return status == ES_OK ? es_line_reader_rewind(lines) : status;
}

/* Reads the description of the run, which export writes as a text event. */
static es_status take_about(void *user, const char *tag, const char *text,
                            size_t n)
{
    events *e = user;
    char *copy;
    es_status status = ES_OK;
    if (strcmp(tag, ES_EVENT_ABOUT_TAG) != 0 || e->rules.is_ours)
        return ES_OK;
    if ((status = es_alloc(&copy, n + 1, 1, "a text")) < 0)
        return status;
    memcpy(copy, text, n);
    e->rules.is_ours = true;
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line && status == ES_OK;
         line = strtok_r(NULL, "\n", &rest))
        if (*line == '#')
            status = es_about_read(&e->import->about, line);
    free(copy);
    if (status < 0)
        return es_fail(status, "%s: record %zu: %s",
                       es_line_reader_name(e->import->lines), e->reader.number,
                       es_message());
    return status;
}

static es_status take_name(void *user, int64_t step, const char *tag,
                           float number)
{
    (void)step, (void)number;
    events *e = user;
    return es_scalars_name(e->scalars, tag, e->reader.number);
}

static es_status take_number(void *user, int64_t step, const char *tag,
                             float number)
{
    events *e = user;
    return es_scalars_put(e->scalars, tag, step, number);
}

static es_status take_restart(void *user, int64_t step)
{
    events *e = user;
    e->import->report->n_again += e->reader.number > 2;
    es_scalars_void(e->scalars, step);
    return ES_OK;
}

static es_status read_all(events *e, es_event_handler *handler)
{
    es_line_reader *lines = e->import->lines;
    es_status status;
    e->reader.number = e->reader.n_damaged = 0;
    while ((status = es_event_reader_next(&e->reader, lines)) == ES_OK) {
        status = es_event_each(&e->reader, handler);
        if (status == ES_EFORMAT && !handler->refused)
            e->reader.n_damaged++;
        else if (status != ES_OK)
            return status;
    }
    return status == ES_DONE ? ES_OK : status;
}

es_status es_import_events(es_import *import)
{
    events e = {.import = import,
                .rules = {.pattern = import->options->tags,
                          .series = import->options->series}};
    es_event_handler names = {
        .user = &e, .scalar = take_name, .text = take_about};
    es_event_handler numbers = {
        .user = &e, .scalar = take_number, .restart = take_restart};
    es_status status;
    if ((status = es_scalars_new(&e.scalars, import, &e.rules)) == ES_OK &&
        (status = read_all(&e, &names)) == ES_OK &&
        (status = es_scalars_begin(e.scalars)) == ES_OK &&
        (status = es_line_reader_rewind(import->lines)) == ES_OK &&
        (status = read_all(&e, &numbers)) == ES_OK)
        status = es_scalars_finish(e.scalars);
    import->report->n_cut = e.reader.cut;
    import->report->n_damaged = e.reader.n_damaged;
    es_event_reader_free(&e.reader);
    es_scalars_free(e.scalars);
    return status;
}
