/* Splits a CSV line in place at separators, and removes quotes and blanks.
   Messages name the file, the line and the column. The parsers of import use
   this. */
#include "cli/exchange/cells.h"

#include <stdarg.h>
#include <string.h>

char es_cells_separator(const es_line *line)
{
    const char candidates[] = ",;\t";
    for (const char *c = candidates; *c; c++)
        if (memchr(line->text, *c, line->n))
            return *c;
    return ' ';
}

es_status es_cells_begin(es_cells *cells, const char *file, const es_line *line,
                         char separator)
{
    *cells = (es_cells){.file = file,
                        .line = line->number,
                        .separator = separator,
                        .next = line->text,
                        .end = line->text + line->n};
    if (line->cut)
        return es_fail(ES_EFORMAT, "%s: line %zu is longer than %d bytes", file,
                       line->number, ES_LINE_MAX);
    const char *nul = memchr(line->text, 0, line->n);
    if (!nul)
        return ES_OK;
    cells->column = 1;
    for (const char *c = line->text; c < nul; c++)
        cells->column += *c == separator;
    return es_cells_fail(cells, "contains a NUL byte: not a text file");
}

es_status es_cells_fail(const es_cells *cells, const char *fmt, ...)
{
    char text[ES_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return es_fail(ES_EFORMAT, "%s: line %zu, column %zu: %s", cells->file,
                   cells->line, cells->column, text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static char *skip_blanks(const es_cells *cells, char *next)
{
    while (next < cells->end && is_blank(*next) &&
           (*next != cells->separator || cells->separator == ' '))
        next++;
    return next;
}

/* Moves to the next cell. `next` points to the end of the current cell, where
   the separator is, if any. */
static void step_over(es_cells *cells, char *next)
{
    if (cells->separator == ' ')
        next = skip_blanks(cells, next);
    else if (next < cells->end)
        next++;
    else
        next = NULL;
    cells->next = next;
}

/* Removes the quotes of a cell in place; a doubled quote becomes a single
   quote. */
static es_status take_quoted(es_cells *cells, char **text)
{
    char *from = cells->next + 1, *to = *text = cells->next;
    for (;;) {
        if (from == cells->end)
            return es_cells_fail(cells, "the closing quote is missing");
        if (*from == '"' && (++from == cells->end || *from != '"'))
            break;
        *to++ = *from++;
    }
    char *rest = skip_blanks(cells, from);
    if (rest < cells->end && *rest != cells->separator &&
        (cells->separator != ' ' || rest == from))
        return es_cells_fail(cells, "text after the closing quote");
    step_over(cells, rest);
    *to = 0;
    return ES_OK;
}

static void take_plain(es_cells *cells, char **text)
{
    char *from = cells->next;
    char *end = from;
    while (end < cells->end && *end != cells->separator)
        end++;
    char *last = end;
    while (last > from && is_blank(last[-1]))
        last--;
    step_over(cells, end);
    *last = 0;
    *text = from;
}

es_status es_cells_next(es_cells *cells, char **text)
{
    if (cells->next)
        cells->next = skip_blanks(cells, cells->next);
    bool over = cells->separator == ' ' && cells->next == cells->end;
    if (!cells->next || over)
        return ES_DONE;
    cells->column++;
    if (cells->next < cells->end && *cells->next == '"')
        return take_quoted(cells, text);
    take_plain(cells, text);
    return ES_OK;
}
