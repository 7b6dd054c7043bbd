/* Turns the output of Python's json module into valid JSON: NaN and Infinity
 * become strings. Used for training histories and for configuration files next
 * to weights. */
#include "analyzer/base/json_words.h"

#include <stdbool.h>
#include <string.h>

void es_json_quote_words(char *out, const char *text)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    bool in_string = false;
    while (*text) {
        size_t n = 0;
        for (size_t i = 0; i < 3 && !in_string && !n; i++)
            if (strncmp(text, words[i], strlen(words[i])) == 0)
                n = strlen(words[i]);
        if (n) {
            *out++ = '"';
            memcpy(out, text, n);
            out += n;
            *out++ = '"';
            text += n;
            continue;
        }
        if (*text == '"')
            in_string = !in_string;
        if (*text == '\\' && text[1])
            *out++ = *text++;
        *out++ = *text++;
    }
    *out = '\0';
}
