/** Splits a command into words as a shell would. */
#ifndef ES_WORDS_H
#define ES_WORDS_H

#include "analyzer/base/status.h"

/**
 * Splits `text` at blanks. Blanks within '...' or "..." do not split the text,
 * and a backslash quotes the next character (within "..." only the characters "
 * and \). Nothing else is special: variables, patterns and redirections are not
 * interpreted.
 *
 *   out  the words, terminated by NULL; release with es_words_free
 *
 * Returns ES_OK; ES_EUSAGE if a quote is not closed or there is no word;
 * ES_ENOMEM.
 */
es_status es_words_split(char ***out, const char *text) ES_MUST_USE;

void es_words_free(char **words); /* words may be NULL */

#endif
