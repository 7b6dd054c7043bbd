/* Aligned columns: each as wide as its widest cell, names shortened where a
   terminal is too narrow. Widths are those of cli/output/display.c. */
#include "cli/output/grid.h"

#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2
#define NARROWEST 8 /* a shortened name's columns */

void es_table_options_for(es_table_options *out, FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    struct winsize size;
    *out = (es_table_options){0};
    if (!isatty(fileno(stream)))
        return;
    bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0;
    out->width = known && size.ws_col > 0 ? size.ws_col : 80;
    out->colour = !(no_colour && *no_colour) && term && strcmp(term, "dumb");
}

/* --- layout ---------------------------------------------------------------*/

static const char *text_of(const es_grid_row *row, size_t column)
{
    return row->cells[column] ? row->cells[column] : "";
}

/* As wide as their contents; 0 for those that are not shown. */
static void measure(es_grid_column *columns, size_t n_columns,
                    const es_grid_row *rows, size_t n_rows)
{
    for (size_t column = 0; column < n_columns; column++) {
        es_grid_column *to = &columns[column];
        to->width = to->title ? es_display_width(to->title) : 0;
        for (size_t i = 0; to->title && i < n_rows; i++) {
            size_t width = es_display_width(text_of(&rows[i], column));
            if (width > to->width)
                to->width = width;
        }
    }
}

size_t es_grid_width(es_grid_column *columns, size_t n_columns,
                     const es_grid_row *rows, size_t n_rows, size_t shortest)
{
    size_t total = 0;
    measure(columns, n_columns, rows, n_rows);
    for (size_t i = 0; i < n_columns; i++) {
        size_t width = columns[i].width;
        if (columns[i].shortened && width > shortest)
            width = shortest;
        total += columns[i].title ? width + GAP : 0;
    }
    return total > GAP ? total - GAP : 0;
}

/* Takes what is too wide from the names, from the widest one first. */
static void fit(es_grid_column *columns, size_t n_columns, size_t limit)
{
    size_t total = 0;
    for (size_t i = 0; i < n_columns; i++)
        total += columns[i].title ? columns[i].width + GAP : 0;
    while (total > limit + GAP) {
        es_grid_column *widest = NULL;
        for (size_t i = 0; i < n_columns; i++)
            if (columns[i].shortened && columns[i].width > NARROWEST &&
                (!widest || columns[i].width > widest->width))
                widest = &columns[i];
        if (!widest)
            return;
        widest->width--;
        total--;
    }
}

/* --- printing -------------------------------------------------------------*/

static void print_cell(FILE *stream, const char *text,
                       const es_grid_column *column, bool last)
{
    char *copy = NULL;
    size_t taken = es_display_width(text), width = column->width;
    if (taken > width && (copy = strdup(text)) != NULL) {
        es_display_shorten(copy, width);
        text = copy;
        taken = es_display_width(copy);
    }
    int padding = taken < width ? (int)(width - taken) : 0;
    if (column->right)
        fprintf(stream, "%*s", padding, "");
    fputs(text, stream);
    if (!column->right && !last)
        fprintf(stream, "%*s", padding, "");
    if (!last)
        fprintf(stream, "%*s", GAP, "");
    free(copy);
}

static void print_row(FILE *stream, const es_grid_column *columns, size_t last,
                      const es_grid_row *row)
{
    for (size_t i = 0; i <= last; i++) {
        const char *colour = i == last ? row->colour : NULL;
        if (!columns[i].title)
            continue;
        fputs(colour ? colour : "", stream);
        print_cell(stream, text_of(row, i), &columns[i], i == last);
        fputs(colour ? "\033[0m" : "", stream);
    }
    fputc('\n', stream);
}

void es_grid_print(FILE *stream, es_grid_column *columns, size_t n_columns,
                   const es_grid_row *rows, size_t n_rows,
                   const es_table_options *options)
{
    size_t last = n_columns;
    while (last > 0 && !columns[last - 1].title)
        last--;
    if (last-- == 0)
        return;
    measure(columns, n_columns, rows, n_rows);
    if (options->width > 0)
        fit(columns, n_columns, (size_t)options->width);
    fputs(options->colour ? "\033[1m" : "", stream);
    for (size_t i = 0; i <= last; i++)
        if (columns[i].title)
            print_cell(stream, columns[i].title, &columns[i], i == last);
    fputs(options->colour ? "\033[0m\n" : "\n", stream);
    for (size_t i = 0; i < n_rows; i++)
        print_row(stream, columns, last, &rows[i]);
}

/* --- cells ----------------------------------------------------------------*/

es_status es_cell_print(char **cell, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(cell, fmt, args);
    va_end(args);
    if (n >= 0)
        return ES_OK;
    *cell = NULL;
    return es_fail(ES_ENOMEM, "out of memory for a table");
}

es_status es_cell_name(char **cell, const char *name)
{
    *cell = es_display_escape(name && *name ? name : "-", ES_ESCAPE_TERMINAL);
    return *cell ? ES_OK : ES_ENOMEM;
}

es_status es_cell_number(char **cell, double value)
{
    if (isnan(value))
        return es_cell_print(cell, "NaN");
    return es_cell_print(cell, "%.4g", value);
}

es_status es_cell_measured(char **cell, float value)
{
    return es_is_missing(value) ? es_cell_print(cell, "-")
                                : es_cell_number(cell, value);
}

es_status es_cell_share(char **cell, size_t n, size_t n_all)
{
    double percent = 100 * ((double)n / (double)n_all);
    if (n_all == 0)
        return es_cell_print(cell, "-");
    if (percent > 0 && percent < 0.5)
        return es_cell_print(cell, "<1%%");
    return es_cell_print(cell, "%.0f%%", percent);
}
