/* Text of unknown origin, escaped for where it goes; and the notes that the
   program writes on standard error. */
#include "cli/output/print.h"

#include <stdarg.h>
#include <stdlib.h>

void es_print_escaped(FILE *out, const char *text, es_escape kind)
{
    char small[256], *all = small;
    size_t n = es_text_escape(small, sizeof small, text, kind);
    if (n >= sizeof small) {
        all = malloc(n + 1);
        if (!all)
            return;
        es_text_escape(all, n + 1, text, kind);
    }
    fwrite(all, 1, n, out);
    if (all != small)
        free(all);
}

void es_print_note(const char *fmt, ...)
{
    char text[ES_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fputs("entropy-scan: ", stderr);
    es_print_escaped(stderr, text, ES_ESCAPE_TERMINAL);
    fputc('\n', stderr);
}
