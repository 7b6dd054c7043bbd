/** The thresholds, which reading and printing of rules files share. */
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
    const char *comment; /* of logits: what a max_logit has to be */
} es_rules_threshold;

#define ES_N_RULES_THRESHOLDS 13
extern const es_rules_threshold es_rules_thresholds[ES_N_RULES_THRESHOLDS];

double es_rules_threshold_get(const es_flag_rules *flags,
                              const es_rules_threshold *threshold);
void es_rules_threshold_set(es_flag_rules *flags,
                            const es_rules_threshold *threshold, double value);

#endif
