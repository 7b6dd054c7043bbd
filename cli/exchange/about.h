/**
 * Reads and writes the description of a run in a text file. The description
 * consists of lines "# key: value" before the first line of data. Export writes
 * these lines, and import reads them back.
 *
 *     # name: baseline
 *     # n_layer: 12
 *     # series: head nats entropy
 *
 * Names and values preserve every byte: a backslash is written \\, and control
 * characters and bytes that are not UTF-8 are written \xNN. Lines with unknown
 * keys are treated as comments.
 */
#ifndef ES_ABOUT_H
#define ES_ABOUT_H

#include "analyzer/base/json_write.h"
#include "store/reader.h"
#include <stdio.h>

#define ES_MAX_TEXT_SERIES ES_MAX_SERIES

/** A series that a text file declares or contains. */
typedef struct es_text_series {
    char *name, *unit; /* unit is NULL if unknown */
    es_phase phase;
    es_shape shape;
} es_text_series;

/** Description of a run; owns its strings. A zero-initialised description is
 *  empty. */
typedef struct es_about {
    es_run_info info; /* unknown properties are NULL or ES_UNKNOWN */
    char **owned;
    size_t n_owned;
    es_text_series *series;
    size_t n_series;
} es_about;

void es_about_init(es_about *about);
void es_about_free(es_about *about);

/**
 * Reads a line that begins with '#' into `about`.
 *
 * Returns ES_OK, even for a comment; ES_EFORMAT if the value of a known key is
 * invalid (the caller adds the position to the message); ES_ENOMEM.
 */
es_status es_about_read(es_about *about, const char *line) ES_MUST_USE;

/**
 * Sets the property `key`, such as "config"; ignores an unknown key. Returns
 * ES_OK; ES_EFORMAT; ES_ENOMEM.
 */
es_status es_about_set(es_about *about, const char *key,
                       const char *value) ES_MUST_USE;

/**
 * Copies the members of `given` that are known (neither NULL nor ES_UNKNOWN) to
 * `about`. Returns ES_OK or ES_ENOMEM.
 */
es_status es_about_override(es_about *about,
                            const es_run_info *given) ES_MUST_USE;

/** Prints the "# key: value" lines of a run, without its series. */
void es_about_print(FILE *out, const es_run_info *info);

/** Prints the "# series: ..." line of one series. */
void es_about_print_series(FILE *out, const es_series *series);

/**
 * Writes the run's properties as members of a JSON object:
 * "name":"baseline",...
 */
void es_about_put(es_json_writer *json, const es_run_info *info);

/**
 * Prints a series as the header of a column: its name, preceded by "eval:" if
 * `phase` is evaluation, or by "train:" if the name alone would be ambiguous.
 * Escapes the name like the names in the description, and quotes the header
 * where CSV requires it.
 */
void es_column_print(FILE *out, const char *name, es_phase phase);

/** Parses the header cell of a column into *name and *phase; the quotes must
 *  already be removed. The caller frees *name; *phase changes only if the cell
 *  has a prefix. Returns ES_OK, ES_EFORMAT (no name), ES_ENOMEM. */
es_status es_column_parse(char **name, es_phase *phase,
                          const char *text) ES_MUST_USE;

#endif
