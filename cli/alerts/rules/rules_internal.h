/** The tables that reading and printing of rules files share. */
#ifndef ES_CLI_RULES_INTERNAL_H
#define ES_CLI_RULES_INTERNAL_H

#include "cli/alerts/rules/rules_file.h"

typedef enum es_rules_range {
    ES_RULES_SHARE,    /* 0 to 1 */
    ES_RULES_POSITIVE, /* above 0 */
    ES_RULES_COUNT     /* 1 to ES_RULES_COUNT_MOST; an int */
} es_rules_range;

#define ES_RULES_COUNT_MOST 1000000

/** A threshold of a flag. */
typedef struct es_rules_threshold {
    es_flag_kind section;
    const char *key;
    size_t offset; /* in es_flag_rules */
    es_rules_range range;
    const char *comment;
} es_rules_threshold;

#define ES_N_RULES_THRESHOLDS 12
extern const es_rules_threshold es_rules_thresholds[ES_N_RULES_THRESHOLDS];

double es_rules_threshold_get(const es_flag_rules *flags,
                              const es_rules_threshold *threshold);
void es_rules_threshold_set(es_flag_rules *flags,
                            const es_rules_threshold *threshold, double value);

#define ES_RULES_TEXT_MOST 180 /* bytes of a name or path */

/** True for a name or path that may stand in a rules file. */
bool es_rules_is_text(const char *value);

/** The keys of a rule. */
typedef enum es_rules_key {
    ES_RULES_KEY_SERIES,
    ES_RULES_KEY_PHASE,
    ES_RULES_KEY_AGGREGATE,
    ES_RULES_KEY_ABOVE, /* and the other comparisons, in their order */
    ES_RULES_KEY_SHARE_OF = ES_RULES_KEY_ABOVE + ES_N_RULE_COMPARISONS,
    ES_RULES_KEY_END,
    ES_RULES_KEY_SAMPLES,
    ES_RULES_KEY_WARM_UP,
    ES_RULES_KEY_COOL_DOWN,
    ES_RULES_KEY_SEVERITY,
    ES_RULES_KEY_ACTION,
    ES_N_RULES_KEYS
} es_rules_key;

typedef struct es_rules_key_row {
    const char *name;
    const char *expected; /* what it may say, for messages */
} es_rules_key_row;

extern const es_rules_key_row es_rules_keys[ES_N_RULES_KEYS];

/**
 * Sets what a key of a rule says. ES_OK; ES_EUSAGE: `at` ("FILE:LINE")
 * begins the message.
 */
es_status es_rules_set(es_rule *rule, es_rules_key key, const char *value,
                       const char *place) ES_MUST_USE;

/**
 * Checks what only the whole rule shows: that it has a series and a threshold,
 * that its keys fit each other.
 *
 *   lines   (ES_N_RULES_KEYS) of the file `path`, where each key is set; 0: not
 *   header  the line of "[rule NAME]"
 *
 * Returns as es_rules_set; the message names the line.
 */
es_status es_rules_check(const es_rule *rule, const int lines[ES_N_RULES_KEYS],
                         const char *path, int header) ES_MUST_USE;

#endif
