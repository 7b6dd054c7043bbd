/**
 * Rules files: thresholds of the flags and further rules, in ini format. The
 * output of `entropy-scan rules` is the manual of the format.
 */
#ifndef ES_RULES_FILE_H
#define ES_RULES_FILE_H

#include "analyzer/base/json_write.h"
#include "analyzer/flags/rules.h"
#include <stdio.h>

#define ES_RULES_FILE_BYTES (64 << 10) /* larger files are refused */
#define ES_RULES_MOST 256

typedef struct es_rules_file {
    es_flag_rules flags;
    es_rule *rules; /* (n); names are unique */
    size_t n;
    char *baseline; /* path of a run file; NULL if no rule needs a baseline */
} es_rules_file;

/** Sets the built-in thresholds and no rules. */
void es_rules_file_default(es_rules_file *out);

void es_rules_file_free(es_rules_file *file);

/**
 * Reads a file, as es_infile_load does. Thresholds that the file does not set
 * keep their defaults.
 *
 *   out   release with es_rules_file_free, also on failure
 *
 * ES_OK; ES_EIO; ES_EUSAGE (the message names file, line, and what was expected
 * there); ES_ENOMEM. Must not run in two threads at once.
 */
es_status es_rules_file_read(es_rules_file *out, const char *path) ES_MUST_USE;

/** Does the same for text (n); `path` is used in messages only. */
es_status es_rules_file_parse(es_rules_file *out, const char *path,
                              const char *text, size_t n) ES_MUST_USE;

/**
 * Prints a file that reads back as the same values, with comments. If
 * `examples` is true, adds example rules, each line of which begins with a
 * semicolon.
 */
void es_rules_file_print(FILE *out, const es_rules_file *file, bool examples);

/** The values of --forecast[=stop]. */
typedef enum es_forecast_choice {
    ES_FORECAST_OFF,
    ES_FORECAST_WARN,
    ES_FORECAST_STOP
} es_forecast_choice;

/**
 * Adds the rule "forecast" (analyzer/flags/forecast.h) if it was chosen. Must
 * be called after --rules has been read, which replaces all rules. ES_OK;
 * ES_EUSAGE: a rule of that name exists, or there are too many; ES_ENOMEM.
 */
es_status es_rules_file_add_forecast(es_rules_file *file,
                                     es_forecast_choice choice) ES_MUST_USE;

/**
 * True if the file has any effect: a threshold that differs from the default,
 * or a rule.
 */
bool es_rules_file_is_set(const es_rules_file *file);

/** True if a threshold of a flag differs from the default. */
bool es_rules_file_sets_flags(const es_rules_file *file);

/**
 * Writes the member "rules" of `--json`: the thresholds by section as in the
 * file; "further": every rule with all of its keys, "end" null if it equals the
 * threshold; "baseline": a path or null.
 */
void es_rules_file_json(es_json_writer *json, const es_rules_file *file);

#endif
