/* Splits a command into words as a shell would, without running a shell. Used
 * for `--exec` and for the command lines that a sweep stores. */
#include "cli/alerts/delivery/words.h"

#include "analyzer/base/checked.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\n"

/* Copies one word from *text to `out`, adds a terminating NUL, and advances
 * *text past the word. Returns false if a quote is not closed. */
static bool read_word(char *out, const char **text)
{
    char quote = 0;
    const char *c = *text;
    for (; *c && (quote || !strchr(BLANKS, *c)); c++) {
        if (quote ? *c == quote : *c == '\'' || *c == '"') {
            quote = quote ? 0 : *c;
        } else if (*c == '\\' && c[1] &&
                   (!quote ||
                    (quote == '"' && (c[1] == '"' || c[1] == '\\')))) {
            *out++ = *++c;
        } else {
            *out++ = *c;
        }
    }
    *out = '\0';
    *text = c;
    return !quote;
}

es_status es_words_split(char ***out, const char *text)
{
    size_t n = 0, most = strlen(text) / 2 + 2;
    char **words = NULL, *word = NULL;
    es_status status;
    if ((status = es_alloc(&words, most, sizeof *words, "a command")) < 0 ||
        (status = es_alloc(&word, strlen(text) + 1, 1, "a command")) < 0)
        goto done;
    while (text += strspn(text, BLANKS), *text) {
        if (!read_word(word, &text))
            status = es_fail(ES_EUSAGE, "--exec: a quote is not closed");
        if (status < 0 || (status = es_copy_text(&words[n++], word)) < 0)
            goto done;
    }
    if (n == 0)
        status = es_fail(ES_EUSAGE, "--exec: the command is empty");
done:
    free(word);
    if (status == ES_OK)
        *out = words;
    else
        es_words_free(words);
    return status;
}

void es_words_free(char **words)
{
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}
