/**
 * The description of a run in a text file: "# key: value" lines before the
 * first line of data, written by export and read back by import.
 *
 *     # name: baseline
 *     # n_layer: 12
 *     # series: head nats entropy
 *
 * Names and values preserve every byte: a backslash is written \\, and control
 * characters and bytes that are not UTF-8 are written \xNN. Lines with unknown
 * keys are comments.
 */
#ifndef ES_ABOUT_H
#define ES_ABOUT_H

#include "analyzer/base/json_write.h"
#include "store/reader.h"
#include <stdio.h>

#define ES_MAX_TEXT_SERIES ES_MAX_SERIES

/** One series of a text file. */
typedef struct es_text_series {
    char *name, *unit; /* unit may be NULL: unknown */
    es_phase phase;
    es_shape shape;
} es_text_series;

/** Description of a run; owns its strings. A zero-initialised description is
 *  empty. */
typedef struct es_about {
    es_run_info info; /* unknown members are NULL or ES_UNKNOWN */
    char **owned;
    size_t n_owned;
    es_text_series *series;
    size_t n_series;
} es_about;

void es_about_init(es_about *about);
void es_about_free(es_about *about);

/**
 * Reads one line that begins with '#'.
 *
 * Returns ES_OK, also for a comment; ES_EFORMAT if the value of a known key is
 * invalid (the caller adds the position to the message); ES_ENOMEM.
 */
es_status es_about_read(es_about *about, const char *line) ES_MUST_USE;

/** Sets a member, such as "config"; ignores an unknown key. Returns ES_OK;
 *  ES_EFORMAT; ES_ENOMEM. */
es_status es_about_set(es_about *about, const char *key,
                       const char *value) ES_MUST_USE;

/** Replaces members of `about` by the known (not NULL or ES_UNKNOWN) members of
 *  `given`. Returns ES_OK or ES_ENOMEM. */
es_status es_about_override(es_about *about,
                            const es_run_info *given) ES_MUST_USE;

/** Prints the "# key: value" lines of a run, without its series. */
void es_about_print(FILE *out, const es_run_info *info);

/** Prints the "# series: ..." line of one series. */
void es_about_print_series(FILE *out, const es_series *series);

/** Writes the run's members to a JSON object: "name":"baseline",... */
void es_about_put(es_json_writer *json, const es_run_info *info);

/**
 * Prints a series as the header of a column: its name, preceded by "eval:" if
 * `phase` is evaluation, or by "train:" if the name alone would be ambiguous.
 * The header is escaped as above, and quoted where CSV requires it.
 */
void es_column_print(FILE *out, const char *name, es_phase phase);

/** Parses a header cell whose quotes are already removed. The caller frees
 *  *name; *phase changes only if the cell has a prefix. Returns ES_OK,
 *  ES_EFORMAT (no name), ES_ENOMEM. */
es_status es_column_parse(char **name, es_phase *phase,
                          const char *text) ES_MUST_USE;

#endif
