/**
 * Members of JSON objects as `--json` writes them. Each comes with the comma
 * before it. The caller checks the stream for errors.
 */
#ifndef ES_JSON_MEMBERS_H
#define ES_JSON_MEMBERS_H

#include "analyzer/base/status.h"
#include "analyzer/flags/bands.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** A member's name and colon; `first` leaves out the comma. */
void es_json_name(FILE *stream, const char *name, bool first);

/** A string, without a name. ES_OK or ES_ENOMEM. */
es_status es_json_quoted(FILE *stream, const char *text) ES_MUST_USE;

/** A string, or null for NULL. ES_OK or ES_ENOMEM. */
es_status es_json_text(FILE *stream, const char *name,
                       const char *text) ES_MUST_USE;

/**
 * A JSON value out of a file, without a name: what is not ASCII can only stand
 * in a string, and is escaped as in every other string. ES_OK or ES_ENOMEM.
 */
es_status es_json_value(FILE *stream, const char *json) ES_MUST_USE;

/** A finite number, without a name. */
void es_json_digits(FILE *stream, double value);

/** A number; one that is not finite is null with its state beside it, for a
 *  NaN `unknown`: "nan" or "missing". */
void es_json_number(FILE *stream, const char *name, double value,
                    const char *unknown);

/** The same; a NaN says itself which it is. */
void es_json_measured(FILE *stream, const char *name, float value);

/** ES_UNKNOWN is missing. */
void es_json_integer(FILE *stream, const char *name, int64_t value);

/** "fractions": the share of heads in each band, all null without heads. */
void es_json_fractions(FILE *stream, const es_bands *bands);

#endif
