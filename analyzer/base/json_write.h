/**
 * Writes JSON to a stream, for the cli, the recorder and the trainer; no other
 * code writes JSON. The values are written in the order of the calls. To get
 * the JSON as a string, use a stream of open_memstream.
 *
 *     es_json_writer json = {.stream = out};
 *     es_json_write_object(&json, NULL);
 *     es_json_write_text(&json, "name", run->name);
 *     es_json_write_array(&json, "layers");
 *     es_json_write_integer(&json, NULL, 9);
 *     es_json_write_end(&json, "]}");
 *
 * The writer adds commas and escapes, but no blanks. `name` is the name of the
 * object's member (any text), or NULL for an element of an array. No function
 * reports errors: the caller checks the stream.
 *
 * The programs read JSON with jansson but do not write it with jansson, because
 * version 2.14 cannot print the shortest decimals of a float32.
 */
#ifndef ES_JSON_WRITE_H
#define ES_JSON_WRITE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Initialise with {.stream = out}. */
typedef struct es_json_writer {
    FILE *stream;
    bool comma;   /* true if the next value needs a comma before it */
    bool line;    /* true if the next value or bracket begins a new line */
    bool in_html; /* true if '<' is escaped, so that no text can end a script
                     element */
} es_json_writer;

/** Writes '{' or '['; es_json_write_end closes it. */
void es_json_write_object(es_json_writer *json, const char *name);
void es_json_write_array(es_json_writer *json, const char *name);

/**
 * Closes the open objects and arrays with the given brackets: "}", "]", "]}".
 */
void es_json_write_end(es_json_writer *json, const char *brackets);

/**
 * Writes the comma and the name before a value. The caller then prints the
 * value to the stream.
 */
void es_json_write_name(es_json_writer *json, const char *name);

/**
 * Makes the next value or bracket begin a new line; the comma stays on the old
 * line.
 */
void es_json_write_line(es_json_writer *json);

/** Writes a string. Malformed UTF-8 becomes U+FFFD; NULL becomes null. */
void es_json_write_text(es_json_writer *json, const char *name,
                        const char *text);

/** Formats a string like printf and writes it. */
void es_json_write_format(es_json_writer *json, const char *name,
                          const char *fmt, ...) ES_PRINTF(3, 4);

void es_json_write_null(es_json_writer *json, const char *name);
void es_json_write_bool(es_json_writer *json, const char *name, bool value);

void es_json_write_integer(es_json_writer *json, const char *name,
                           int64_t value);
void es_json_write_size(es_json_writer *json, const char *name, size_t value);

/**
 * Writes the shortest decimal that reads back as the double; null unless the
 * value is finite.
 */
void es_json_write_double(es_json_writer *json, const char *name, double value);

/**
 * Writes the shortest decimal that gives the same float32 if the value is a
 * float32, as most recorded values are; otherwise the shortest decimal of the
 * double. Writes null unless the value is finite.
 */
void es_json_write_number(es_json_writer *json, const char *name, double value);

/**
 * Writes a number. A value that JSON cannot express as a number becomes null,
 * followed by a second member with the reason: "NAME":null,"NAME_state":STATE,
 * where STATE is "nan", "inf", "-inf" or "missing".
 *
 *   es_json_write_known     an integer; INT64_MIN (ES_UNKNOWN of store/run.h)
 *                           is written as missing
 *   es_json_write_stated    like es_json_write_number; a NaN gets the state
 *                           `nan`
 *   es_json_write_measured  like es_json_write_number; the bits of a NaN decide
 *                           whether the state is "nan" or "missing"
 *                           (analyzer/base/value.h)
 */
void es_json_write_known(es_json_writer *json, const char *name, int64_t value);
void es_json_write_stated(es_json_writer *json, const char *name, double value,
                          const char *nan);
void es_json_write_measured(es_json_writer *json, const char *name,
                            float value);

/**
 * Writes a value that was read from a file as JSON text. Bytes outside ASCII
 * can only occur within its strings; they are escaped.
 */
void es_json_write_json(es_json_writer *json, const char *name,
                        const char *value);

#endif
