/**
 * The one writer of JSON, for the cli, the recorder and the trainer: values in
 * the order in which they are written, onto a stream (open_memstream for text).
 *
 *     es_json_writer json = {.stream = out};
 *     es_json_write_object(&json, NULL);
 *     es_json_write_text(&json, "name", run->name);
 *     es_json_write_array(&json, "layers");
 *     es_json_write_integer(&json, NULL, 9);
 *     es_json_write_end(&json, "]}");
 *
 * Commas and escapes come by themselves, without blanks. `name` is the
 * member's, a plain word or any text; NULL for an element of an array. Nothing
 * fails here: the caller checks the stream for errors.
 *
 * jansson reads JSON everywhere, but does not write it: its version 2.14 has
 * no shortest decimals of a float32.
 */
#ifndef ES_JSON_WRITE_H
#define ES_JSON_WRITE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Begin with {.stream = out}. */
typedef struct es_json_writer {
    FILE *stream;
    bool comma;   /* stands before the next value */
    bool line;    /* the next value or bracket begins a line */
    bool in_html; /* '<' is escaped: no text can end a script element */
} es_json_writer;

/** '{' or '[', until es_json_write_end. */
void es_json_write_object(es_json_writer *json, const char *name);
void es_json_write_array(es_json_writer *json, const char *name);

/** Closes what is open, by the brackets themselves: "}", "]", "]}". */
void es_json_write_end(es_json_writer *json, const char *brackets);

/** What stands before a value, which the caller prints onto the stream. */
void es_json_write_name(es_json_writer *json, const char *name);

/** The next value or bracket begins a line; its comma ends the one before. */
void es_json_write_line(es_json_writer *json);

/** Bad UTF-8 becomes U+FFFD; NULL is null. */
void es_json_write_text(es_json_writer *json, const char *name,
                        const char *text);

/** As printf prints it. */
void es_json_write_format(es_json_writer *json, const char *name,
                          const char *fmt, ...) ES_PRINTF(3, 4);

void es_json_write_null(es_json_writer *json, const char *name);
void es_json_write_bool(es_json_writer *json, const char *name, bool value);

void es_json_write_integer(es_json_writer *json, const char *name,
                           int64_t value);
void es_json_write_size(es_json_writer *json, const char *name, size_t value);

/** The shortest decimal of a double; null unless it is finite. */
void es_json_write_double(es_json_writer *json, const char *name, double value);

/** The shortest decimal of a float32 if the number is one, since most of ours
 *  are, else of the double; null unless it is finite. */
void es_json_write_number(es_json_writer *json, const char *name, double value);

/**
 * Members with a state beside them: where there is no number,
 * "NAME":null,"NAME_state":STATE with "nan", "inf", "-inf", "missing".
 *
 *   known     INT64_MIN (ES_UNKNOWN of store/run.h) is missing
 *   stated    as es_json_write_number; a NaN is the state `nan`
 *   measured  a NaN itself says whether it is missing (analyzer/base/value.h)
 */
void es_json_write_known(es_json_writer *json, const char *name, int64_t value);
void es_json_write_stated(es_json_writer *json, const char *name, double value,
                          const char *nan);
void es_json_write_measured(es_json_writer *json, const char *name,
                            float value);

/** A value that is JSON already, out of a file: what is not ASCII can only
 *  stand in a string, and is escaped as there. */
void es_json_write_json(es_json_writer *json, const char *name,
                        const char *value);

#endif
