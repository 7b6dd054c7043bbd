/* Makes JSON of what Python's json writes: its NaN and Infinity become strings.
 * For histories, and the configurations that others put beside weights. */
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
