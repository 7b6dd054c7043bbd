/**
 * Quotes NaN and Infinity in JSON text, where Python's json module and
 * JavaScript write them as bare words.
 */
#ifndef ES_JSON_WORDS_H
#define ES_JSON_WORDS_H

#include <stddef.h>

/**
 * Number of bytes that es_json_quote_words needs for a text of n bytes,
 * including the NUL.
 */
#define ES_JSON_QUOTED_SIZE(n) (2 * (n) + 1)

/**
 * Copies `text` and puts quotes around NaN, Infinity and -Infinity outside
 * strings, because JSON has no such values.
 */
void es_json_quote_words(char *out, const char *text);

#endif
