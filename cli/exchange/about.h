/**
 * What a text file says about its run: "# key: value" lines before the first
 * line of data, written by export and read back by import.
 *
 *     # name: baseline
 *     # n_layer: 12
 *     # series: head nats entropy
 *
 * Names and values keep every byte: a backslash is written \\, and control
 * characters and bytes that are not UTF-8 are written \xNN. Keys that are not
 * known are comments.
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

/** Owns its strings. Zero is empty. */
typedef struct es_about {
    es_run_info info; /* what nobody said is NULL or ES_UNKNOWN */
    char **owned;
    size_t n_owned;
    es_text_series *series;
    size_t n_series;
} es_about;

void es_about_init(es_about *about);
void es_about_free(es_about *about);

/**
 * Takes one line that begins with '#'.
 *
 * ES_OK, also for a comment; ES_EFORMAT if the value of a known key is wrong
 * (the message does not say where: the caller knows); ES_ENOMEM.
 */
es_status es_about_read(es_about *about, const char *line) ES_MUST_USE;

/** A member, "config", of the lines above. ES_OK; ES_EFORMAT; ES_ENOMEM. */
es_status es_about_set(es_about *about, const char *key,
                       const char *value) ES_MUST_USE;

/** Members of `given` that are known replace those of `about`. */
es_status es_about_override(es_about *about,
                            const es_run_info *given) ES_MUST_USE;

/** The lines of a run, without its series. */
void es_about_print(FILE *out, const es_run_info *info);

/** The line of one series. */
void es_about_print_series(FILE *out, const es_series *series);

/** The same facts as members of a JSON object: "name":"baseline",... */
void es_about_put(es_json_writer *json, const es_run_info *info);

/**
 * A series as the header of a column: its name, with "eval:" before it in that
 * phase, and "train:" before a name that would be misunderstood without.
 * Backslash escapes as above; quoted where CSV needs it.
 */
void es_column_print(FILE *out, const char *name, es_phase phase);

/** Reads a header cell, already unquoted. *name is allocated; *phase stays if
 *  the cell does not say it. ES_OK, ES_EFORMAT (no name), ES_ENOMEM. */
es_status es_column_parse(char **name, es_phase *phase,
                          const char *text) ES_MUST_USE;

#endif
