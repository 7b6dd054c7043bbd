/* Converts a JSON document to JSON lines in a temporary file, which the parser
   of histories reads. A document is an array of objects; the trainer_state.json
   of transformers, whose member log_history is an array of objects; or
   a single object that spans several lines. */
#include "cli/exchange/import_open.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_words.h"
#include "cli/exchange/import_internal.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

enum { DOCUMENT_MAX = 1 << 28 };

/* Reads the first two characters of the file that are not blank. */
static es_status read_opening(char out[2], es_line_reader *lines)
{
    es_line line;
    size_t n = 0;
    es_status status;
    out[0] = out[1] = '\0';
    while (n < 2 && (status = es_line_reader_next(lines, &line)) == ES_OK)
        for (size_t i = 0; i < line.n && n < 2; i++)
            if (!strchr(" \t", line.text[i]))
                out[n++] = line.text[i];
    return n == 2 || status == ES_DONE ? es_line_reader_rewind(lines) : status;
}

static json_t *parse_json(char *quoted, const char *text, json_error_t *error)
{
    es_json_quote_words(quoted, text);
    json_t *json = json_loads(quoted, 0, error);
    if (!json && json_error_code(error) == json_error_numeric_overflow)
        json = json_loads(quoted, JSON_DECODE_INT_AS_REAL, error);
    return json;
}

static json_t *history_of(const json_t *state)
{
    json_t *rows = json_object_get(state, "log_history");
    return json_is_array(rows) ? rows : NULL;
}

/* Sets *out to true if the first line with content is a complete JSON object,
   and not a trainer state of transformers. */
static es_status is_history(bool *out, es_line_reader *lines)
{
    es_line line;
    char *quoted = NULL;
    json_error_t error;
    es_status status;
    while ((status = es_line_reader_next(lines, &line)) == ES_OK &&
           es_import_is_blank(&line))
        ;
    if (status != ES_OK)
        return status;
    if ((status = es_alloc(&quoted, ES_JSON_QUOTED_SIZE(line.n), 1, "a line")) <
        0)
        return status;
    json_t *json = parse_json(quoted, line.text, &error);
    *out = json && !history_of(json);
    json_decref(json);
    free(quoted);
    return es_line_reader_rewind(lines);
}

static es_status write_rows(FILE *to, const json_t *document, const char *name)
{
    size_t i;
    const json_t *row;
    const json_t *rows =
        json_is_array(document) ? document : history_of(document);
    if (!rows)
        return json_dumpf(document, to, JSON_COMPACT) == 0
                   ? ES_OK
                   : es_fail(ES_EIO, "%s: cannot write a temporary copy: %s",
                             name, strerror(errno));
    json_array_foreach(rows, i, row)
    {
        if (!json_is_object(row))
            return es_fail(ES_EFORMAT,
                           "%s: element %zu of the array is not a JSON object, "
                           "such as {\"step\": 10, \"loss\": 2.5}",
                           name, i);
        if (json_dumpf(row, to, JSON_COMPACT) < 0 || fputc('\n', to) == EOF)
            return es_fail(ES_EIO, "%s: cannot write a temporary copy: %s",
                           name, strerror(errno));
    }
    return ES_OK;
}

/* Reads the whole file into *text; sets *text to NULL if the file is larger
   than DOCUMENT_MAX. */
static es_status load_document(char **text, es_line_reader *lines)
{
    size_t n = 0, got = 0, capacity = 1 << 16;
    es_status status;
    *text = NULL;
    do {
        capacity *= 2;
        if ((status = es_grow(text, capacity + 1, 1, "a document")) == ES_OK)
            status =
                es_line_reader_bytes_read(lines, *text + n, capacity - n, &got);
        n += status == ES_OK ? got : 0;
    } while (status == ES_OK && n == capacity && capacity < DOCUMENT_MAX);
    if (status < 0 || n == capacity) {
        free(*text);
        *text = NULL;
        return status < 0 ? status : es_line_reader_rewind(lines);
    }
    (*text)[n] = '\0';
    return es_line_reader_rewind(lines);
}

static es_status replace_lines(es_line_reader **lines, const json_t *document)
{
    const char *name = es_line_reader_name(*lines);
    es_line_reader *rows;
    FILE *to = tmpfile();
    if (!to)
        return es_fail(ES_EIO, "%s: cannot make a temporary copy: %s", name,
                       strerror(errno));
    es_status status = write_rows(to, document, name);
    if (status == ES_OK && fflush(to) != 0)
        status = es_fail(ES_EIO, "%s: cannot write a temporary copy: %s", name,
                         strerror(errno));
    if (status < 0) {
        fclose(to);
        return status;
    }
    if ((status = es_line_reader_new(&rows, to, name)) < 0)
        return status;
    es_line_reader_close(*lines);
    *lines = rows;
    return ES_OK;
}

es_status es_import_unpack(bool *is_document, es_line_reader **lines)
{
    char first[2], *text = NULL, *quoted = NULL;
    bool is_lines = false;
    json_error_t error;
    json_t *document = NULL;
    *is_document = false;
    es_status status = read_opening(first, *lines);
    if (status == ES_OK && first[0] == '{')
        status = is_history(&is_lines, *lines);
    if (status < 0 || is_lines ||
        (first[0] != '{' && (first[0] != '[' || !strchr("{]", first[1]))))
        return status;
    if ((status = load_document(&text, *lines)) < 0 || !text)
        return status;
    status =
        es_alloc(&quoted, ES_JSON_QUOTED_SIZE(strlen(text)), 1, "a document");
    if (status == ES_OK)
        document = parse_json(quoted, text, &error);
    /* A file that cannot be parsed as one JSON document may still contain JSON
       lines of which the last is truncated. */
    if (status == ES_OK && document) {
        *is_document = true;
        status = replace_lines(lines, document);
    } else if (status == ES_OK && first[0] == '[') {
        status = es_fail(ES_EFORMAT, "%s: line %d: not JSON: %s",
                         es_line_reader_name(*lines), error.line, error.text);
    }
    json_decref(document);
    free(quoted);
    free(text);
    return status;
}
