/** NaN and Infinity in JSON, as Python's json and JavaScript write them. */
#ifndef ES_JSON_WORDS_H
#define ES_JSON_WORDS_H

#include <stddef.h>

/** Room for es_json_quote_words of n bytes and the NUL. */
#define ES_JSON_QUOTED_SIZE(n) (2 * (n) + 1)

/** Copies a text and puts NaN, Infinity and -Infinity outside of strings, which
 *  JSON does not have, between quotes. */
void es_json_quote_words(char *out, const char *text);

#endif
