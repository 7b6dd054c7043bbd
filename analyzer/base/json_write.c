/* Writes JSON to a stream. The writer tracks whether the next value needs a
 * comma: it does after a value or a closing bracket, but not after a name or an
 * opening bracket. Text is escaped in pieces that fit a fixed buffer, so the
 * writer needs no heap memory. */
#include "analyzer/base/json_write.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Number of bytes of text that are escaped at once. Each of them becomes at
 * most 6 bytes. */
#define PIECE 40

static bool is_within_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Returns the length of the first piece of `text` (n bytes), which is at most
   PIECE bytes. The piece does not split a UTF-8 character. */
static size_t piece_length(const char *text, size_t n)
{
    if (n <= PIECE)
        return n;
    for (n = PIECE; n > PIECE - 4; n--)
        if (!is_within_character(text[n]))
            return n;
    return PIECE; /* the text is not UTF-8 and may be cut anywhere */
}

static void put_plain(es_json_writer *json, const char *text, size_t n)
{
    const char *angle;
    while (json->in_html && (angle = memchr(text, '<', n))) {
        size_t before = (size_t)(angle - text);
        fwrite(text, 1, before, json->stream);
        fputs("\\u003c", json->stream);
        text = angle + 1;
        n -= before + 1;
    }
    fwrite(text, 1, n, json->stream);
}

static void put_escaped(es_json_writer *json, const char *text, size_t n)
{
    char piece[PIECE + 1], escaped[6 * PIECE + 1];
    while (n > 0) {
        size_t length = piece_length(text, n);
        memcpy(piece, text, length);
        piece[length] = '\0';
        put_plain(
            json, escaped,
            es_text_escape(escaped, sizeof escaped, piece, ES_ESCAPE_JSON));
        text += length;
        n -= length;
    }
}

static void put_string(es_json_writer *json, const char *text)
{
    fputc('"', json->stream);
    put_escaped(json, text, strlen(text));
    fputc('"', json->stream);
}

void es_json_write_name(es_json_writer *json, const char *name)
{
    if (json->comma)
        fputc(',', json->stream);
    if (json->line)
        fputc('\n', json->stream);
    json->line = false;
    json->comma = true;
    if (!name)
        return;
    put_string(json, name);
    fputc(':', json->stream);
}

static void put_member(es_json_writer *json, const char *name, const char *text)
{
    es_json_write_name(json, name);
    fputs(text, json->stream);
}

void es_json_write_object(es_json_writer *json, const char *name)
{
    put_member(json, name, "{");
    json->comma = false;
}

void es_json_write_array(es_json_writer *json, const char *name)
{
    put_member(json, name, "[");
    json->comma = false;
}

void es_json_write_end(es_json_writer *json, const char *brackets)
{
    json->comma = false;
    put_member(json, NULL, brackets);
}

void es_json_write_line(es_json_writer *json)
{
    json->line = true;
}

void es_json_write_text(es_json_writer *json, const char *name,
                        const char *text)
{
    if (!text) {
        es_json_write_null(json, name);
        return;
    }
    es_json_write_name(json, name);
    put_string(json, text);
}

void es_json_write_format(es_json_writer *json, const char *name,
                          const char *fmt, ...)
{
    char text[ES_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    es_json_write_text(json, name, text);
}

void es_json_write_null(es_json_writer *json, const char *name)
{
    put_member(json, name, "null");
}

void es_json_write_bool(es_json_writer *json, const char *name, bool value)
{
    put_member(json, name, value ? "true" : "false");
}

void es_json_write_integer(es_json_writer *json, const char *name,
                           int64_t value)
{
    es_json_write_name(json, name);
    fprintf(json->stream, "%" PRId64, value);
}

void es_json_write_size(es_json_writer *json, const char *name, size_t value)
{
    es_json_write_name(json, name);
    fprintf(json->stream, "%zu", value);
}

void es_json_write_double(es_json_writer *json, const char *name, double value)
{
    char text[ES_FLOAT_TEXT_MAX];
    put_member(json, name,
               isfinite(value) ? es_double_print(text, value) : "null");
}

void es_json_write_number(es_json_writer *json, const char *name, double value)
{
    char text[ES_FLOAT_TEXT_MAX];
    const float single = (float)value;
    if (isfinite(value) && (double)single == value)
        put_member(json, name, es_float_print(text, single));
    else
        es_json_write_double(json, name, value);
}

/* Writes "NAME":null,"NAME_state":STATE. */
static void put_state(es_json_writer *json, const char *name, const char *state)
{
    es_json_write_null(json, name);
    fputs(",\"", json->stream);
    put_escaped(json, name, strlen(name));
    fprintf(json->stream, "_state\":\"%s\"", state);
}

void es_json_write_known(es_json_writer *json, const char *name, int64_t value)
{
    if (value == INT64_MIN)
        put_state(json, name, "missing");
    else
        es_json_write_integer(json, name, value);
}

void es_json_write_stated(es_json_writer *json, const char *name, double value,
                          const char *nan)
{
    if (isfinite(value))
        es_json_write_number(json, name, value);
    else if (isnan(value))
        put_state(json, name, nan);
    else
        put_state(json, name, value > 0 ? "inf" : "-inf");
}

void es_json_write_measured(es_json_writer *json, const char *name, float value)
{
    es_json_write_stated(json, name, value,
                         es_is_missing(value) ? "missing" : "nan");
}

void es_json_write_json(es_json_writer *json, const char *name,
                        const char *value)
{
    es_json_write_name(json, name);
    for (size_t n; *value; value += n) {
        bool plain = (unsigned char)*value < 0x7f;
        for (n = 1; value[n] && ((unsigned char)value[n] < 0x7f) == plain; n++)
            ;
        if (plain)
            put_plain(json, value, n);
        else
            put_escaped(json, value, n);
    }
}
