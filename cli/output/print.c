/* Escapes text of unknown origin for output, and prints notes on standard
 * error. */
#include "cli/output/print.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/colour.h"
#include "cli/output/progress.h"

#include <stdarg.h>
#include <string.h>

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

static void print_message(const char *before, const char *text)
{
    es_progress_line_wipe();
    fputs(before, stderr);
    es_print_escaped(stderr, text, ES_ESCAPE_TERMINAL);
    fputc('\n', stderr);
}

void es_print_note(const char *fmt, ...)
{
    char text[ES_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_message("entropy-scan: ", text);
}

void es_print_failure(void)
{
    print_message(es_print_has_colour(stderr) ? "\033[31mentropy-scan:\033[0m "
                                              : "entropy-scan: ",
                  es_message());
}

/* --- colours --------------------------------------------------------------*/

static es_colours colours;

void es_print_set_colours(es_colours when)
{
    colours = when;
}

bool es_print_has_colour(FILE *stream)
{
    return colours == ES_COLOURS_AUTO ? es_colour_suits(stream)
                                      : colours == ES_COLOURS_ALWAYS;
}

/* --- text -----------------------------------------------------------------*/

char *es_display_escape(const char *text, es_escape kind)
{
    const char *from = text ? text : "";
    size_t length = es_text_escape(NULL, 0, from, kind);
    char *escaped;
    if (es_alloc(&escaped, length + 1, 1, "a name") == ES_OK)
        es_text_escape(escaped, length + 1, from, kind);
    return escaped;
}

char *es_display_number(char *out, double value)
{
    bool single = (double)(float)value == value;
    return single ? es_float_print(out, (float)value)
                  : es_double_print(out, value);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool es_names_repeat(const char **names, size_t n)
{
    if (n > 1)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return true;
    return false;
}
