/* Splits a command into words as a shell would, without running one: for
 * `--exec`, and for the command lines that a sweep keeps. */
#include "cli/alerts/delivery/words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* One word from *at to `to`, terminated; *at is then behind it. False: a quote
   is not closed. */
static bool read_word(char *out, const char **text)
{
    char quote = 0;
    const char *c = *text;
    for (; *c && (quote || !is_blank(*c)); c++) {
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
    char **words = calloc(most, sizeof *words);
    char *word = malloc(strlen(text) + 1);
    es_status status = ES_OK;
    if (!words || !word)
        status = es_fail(ES_ENOMEM, "out of memory for a command");
    while (status == ES_OK) {
        while (is_blank(*text))
            text++;
        if (!*text)
            break;
        if (!read_word(word, &text))
            status = es_fail(ES_EUSAGE, "--exec: a quote is not closed");
        else if (!(words[n++] = strdup(word)))
            status = es_fail(ES_ENOMEM, "out of memory for a command");
    }
    free(word);
    if (status == ES_OK && n == 0)
        status = es_fail(ES_EUSAGE, "--exec: no command");
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
