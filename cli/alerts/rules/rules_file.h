/**
 * Reads and prints rules files, which contain thresholds of the flags and
 * additional rules in ini format. The output of `entropy-scan rules` is the
 * manual of the format.
 */
#ifndef ES_RULES_FILE_H
#define ES_RULES_FILE_H

#include "analyzer/base/json_write.h"
#include "analyzer/flags/rules.h"
#include <stdio.h>

/* Maximum size of a rules file in bytes. */
#define ES_RULES_FILE_BYTES (64 << 10)
#define ES_RULES_MOST 256

typedef struct es_rules_file {
    es_flag_rules flags;
    es_rule *rules; /* (n) rules with unique names */
    size_t n;
    char *baseline; /* path of the baseline, a run file that rules compare with;
                       NULL if no rule needs a baseline */
} es_rules_file;

/** Sets the built-in thresholds and no rules. */
void es_rules_file_default(es_rules_file *out);

void es_rules_file_free(es_rules_file *file);

/**
 * Loads a rules file with es_infile_load and parses it. Thresholds that the
 * file does not set keep their defaults.
 *
 *   out   release with es_rules_file_free, also on failure
 *
 * Returns ES_OK; ES_EIO; ES_EUSAGE (the message names the file, the line and
 * the expected text); ES_ENOMEM. Must not run in two threads at once.
 */
es_status es_rules_file_read(es_rules_file *out, const char *path) ES_MUST_USE;

/**
 * Parses the text (n bytes) of a rules file like es_rules_file_read; `path` is
 * used in messages only.
 */
es_status es_rules_file_parse(es_rules_file *out, const char *path,
                              const char *text, size_t n) ES_MUST_USE;

/**
 * Prints `file` as a rules file with comments. Reading the printed text gives
 * the same values. If `examples` is true, adds example rules, commented out by
 * semicolons.
 */
void es_rules_file_print(FILE *out, const es_rules_file *file, bool examples);

/**
 * Returns true if the file contains a rule or a threshold that differs from its
 * default.
 */
bool es_rules_file_is_set(const es_rules_file *file);

/** Returns true if a threshold of a flag differs from its default. */
bool es_rules_file_sets_flags(const es_rules_file *file);

/**
 * Writes the member "rules" of `--json`. It contains the thresholds, grouped by
 * section as in the file; "further", a list of the additional rules with all of
 * their keys ("end" is null if the rule sets no second threshold); and
 * "baseline", a path or null.
 */
void es_rules_file_json(es_json_writer *json, const es_rules_file *file);

#endif
