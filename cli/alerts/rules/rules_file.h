/**
 * Rules files: the thresholds of the flags and further rules, as ini. What
 * `entropy-scan rules` prints is the manual of the format.
 */
#ifndef ES_RULES_FILE_H
#define ES_RULES_FILE_H

#include "analyzer/base/json_write.h"
#include "analyzer/flags/rules.h"
#include <stdio.h>

#define ES_RULES_FILE_BYTES (64 << 10) /* a larger file is refused */
#define ES_RULES_MOST 256

typedef struct es_rules_file {
    es_flag_rules flags;
    es_rule *rules; /* (n) names differ */
    size_t n;
    char *baseline; /* a run file; NULL: no rule needs one */
} es_rules_file;

/** The built-in thresholds, no rule. */
void es_rules_file_default(es_rules_file *out);

void es_rules_file_free(es_rules_file *file);

/**
 * Reads a file, as es_infile_load does; what it does not set keeps its
 * default.
 *
 *   out   es_rules_file_free, also on failure
 *
 * ES_OK; ES_EIO; ES_EUSAGE (the message names file, line, and what was
 * expected there); ES_ENOMEM. Not for two threads at a time.
 */
es_status es_rules_file_read(es_rules_file *out, const char *path) ES_MUST_USE;

/** The same from text (n); `path` is for messages. */
es_status es_rules_file_parse(es_rules_file *out, const char *path,
                              const char *text, size_t n) ES_MUST_USE;

/** Prints what reads back as the same values, with comments; `examples` adds
 *  rules as lines that begin with a semicolon. */
void es_rules_file_print(FILE *out, const es_rules_file *file, bool examples);

/** --forecast[=stop] */
typedef enum es_forecast_choice {
    ES_FORECAST_OFF,
    ES_FORECAST_WARN,
    ES_FORECAST_STOP
} es_forecast_choice;

/** Adds the rule "forecast" (analyzer/flags/forecast.h), if it was chosen:
 *  after --rules, which replaces all. ES_OK; ES_EUSAGE: there is one of that
 *  name, or there are too many; ES_ENOMEM. */
es_status es_rules_file_add_forecast(es_rules_file *file,
                                     es_forecast_choice choice) ES_MUST_USE;

/** True if it says something: a threshold other than the default, a rule. */
bool es_rules_file_is_set(const es_rules_file *file);

/** True if it has a threshold of a flag other than the default. */
bool es_rules_file_sets_flags(const es_rules_file *file);

/**
 * The member "rules" of `--json`: thresholds by section as in the file;
 * "further": every rule with all of its keys, "end" null where it is the
 * threshold; "baseline": a path or null.
 */
void es_rules_file_json(es_json_writer *json, const es_rules_file *file);

#endif
