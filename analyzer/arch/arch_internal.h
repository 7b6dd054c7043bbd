/**
 * Declarations shared by the files of analyzer/arch: one part of the notation,
 * and the functions that read and print it.
 */
#ifndef ES_ARCH_INTERNAL_H
#define ES_ARCH_INTERNAL_H

#include "analyzer/arch/arch.h"
#include "analyzer/base/text.h"

/**
 * One part of an architecture, NAME or NAME(ARGUMENT), split into its pieces.
 */
typedef struct arch_part {
    char text[ES_ARCH_TEXT_MAX]; /* the whole part, for messages */
    char name[ES_ARCH_TEXT_MAX];
    char argument[ES_ARCH_TEXT_MAX];
    bool has_argument;
    bool has_range; /* [first-last] or [first] */
    int first, last;
} arch_part;

/** Fails with ES_EUSAGE and a message that names the part and the reason. */
es_status es_arch_refuse(const arch_part *part, const char *why);

/**
 * Cuts `text` at its first comma and lets *rest point to the text after the
 * comma, or sets *rest to NULL if `text` has no comma.
 */
void es_arch_split_comma(char *text, char **rest);

/**
 * Reads a decimal number. Returns ES_OK, or ES_EUSAGE with a message that names
 * the part.
 */
es_status es_arch_read_number(double *out, const arch_part *part,
                              const char *text) ES_MUST_USE;

/**
 * Read the argument of SM(...), PSM(...) or RA(...) into *arch. Return ES_OK or
 * ES_EUSAGE.
 */
es_status es_arch_read_softmax(es_arch *arch,
                               const arch_part *part) ES_MUST_USE;
es_status es_arch_read_power_softmax(es_arch *arch,
                                     const arch_part *part) ES_MUST_USE;
es_status es_arch_read_scaled_relu(es_arch *arch,
                                   const arch_part *part) ES_MUST_USE;
void es_arch_print_attention(es_text *text, const es_arch *arch);

#endif
