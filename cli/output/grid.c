/* Aligned columns: each as wide as its widest cell, names shortened where a
   terminal is too narrow; and tables put together cell by cell. Widths are
   those of cli/output/print.c. */
#include "cli/output/grid.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/output/print.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2
#define NARROWEST 8 /* a shortened name's columns */

void es_table_options_for(es_table_options *out, FILE *stream)
{
    struct winsize size;
    *out = (es_table_options){.colour = es_print_has_colour(stream)};
    if (!isatty(fileno(stream)))
        return;
    bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0;
    out->width = known && size.ws_col > 0 ? size.ws_col : 80;
}

/* --- layout ---------------------------------------------------------------*/

/* Empty where there is none. */
static const char *text_of(const es_grid_row *row, size_t column)
{
    return row->cells[column] ? row->cells[column] : "";
}

static bool is_shown(const es_grid_column *column)
{
    return column->title && !column->hidden;
}

/* As wide as their contents; 0 for those that are not shown. */
static void measure(es_grid_column *columns, size_t n_columns,
                    const es_grid_row *rows, size_t n_rows)
{
    for (size_t column = 0; column < n_columns; column++) {
        es_grid_column *to = &columns[column];
        to->width = is_shown(to) ? es_display_width(to->title) : 0;
        for (size_t i = 0; is_shown(to) && i < n_rows; i++) {
            size_t width = es_display_width(text_of(&rows[i], column));
            if (width > to->width)
                to->width = width;
        }
    }
}

/* Takes what is too wide from the names, from the widest one first. */
static void fit(es_grid_column *columns, size_t n_columns, size_t limit)
{
    size_t total = 0;
    for (size_t i = 0; i < n_columns; i++)
        total += is_shown(&columns[i]) ? columns[i].width + GAP : 0;
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

void es_grid_print(FILE *stream, es_grid_column *columns, size_t n_columns,
                   const es_grid_row *rows, size_t n_rows,
                   const es_table_options *options)
{
    size_t last = n_columns;
    while (last > 0 && !is_shown(&columns[last - 1]))
        last--;
    if (last-- == 0)
        return;
    measure(columns, n_columns, rows, n_rows);
    if (options->width > 0)
        fit(columns, n_columns, (size_t)options->width);
    fputs(options->colour ? "\033[1m" : "", stream);
    for (size_t i = 0; i <= last; i++)
        if (is_shown(&columns[i]))
            print_cell(stream, columns[i].title, &columns[i], i == last);
    fputs(options->colour ? "\033[0m\n" : "\n", stream);
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i <= last; i++) {
            const char *colour = i == last ? rows[row].colour : NULL;
            if (!is_shown(&columns[i]))
                continue;
            fputs(colour ? colour : "", stream);
            print_cell(stream, text_of(&rows[row], i), &columns[i], i == last);
            fputs(colour ? "\033[0m" : "", stream);
        }
        fputc('\n', stream);
    }
}

/* --- cells ----------------------------------------------------------------*/

ES_PRINTF(2, 0)
static es_status print(char **cell, const char *fmt, va_list args)
{
    if (vasprintf(cell, fmt, args) >= 0)
        return ES_OK;
    *cell = NULL;
    return es_fail(ES_ENOMEM, "out of memory for a table");
}

es_status es_cell_print(char **cell, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    es_status status = print(cell, fmt, args);
    va_end(args);
    return status;
}

es_status es_cell_name(char **cell, const char *name)
{
    *cell = es_display_escape(name && *name ? name : "-", ES_ESCAPE_TERMINAL);
    return *cell ? ES_OK : ES_ENOMEM;
}

es_status es_cell_number(char **cell, double value)
{
    char number[ES_FLOAT_TEXT_MAX];
    return es_cell_print(cell, "%s", es_number_print(number, value, 4));
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

/* --- cell by cell ---------------------------------------------------------*/

es_status es_sheet_take_back(es_sheet *sheet, size_t n_rows)
{
    const es_status status = sheet->status;
    while (sheet->n_cells > n_rows * sheet->n_columns)
        free(sheet->cells[--sheet->n_cells]);
    while (n_rows == 0 && sheet->n_columns > 0)
        free((char *)(uintptr_t)sheet->columns[--sheet->n_columns].title);
    sheet->n_rows = n_rows;
    sheet->status = ES_OK;
    return status;
}

void es_sheet_free(es_sheet *sheet)
{
    (void)es_sheet_take_back(sheet, 0);
    free(sheet->columns);
    free(sheet->cells);
    free(sheet->rows);
}

/* Doubled at powers of two: the capacity needs no member of its own. */
static void reserve(es_sheet *sheet, void *array, size_t n, size_t size)
{
    if (sheet->status == ES_OK && (n & (n - 1)) == 0)
        sheet->status = es_grow(array, n ? 2 * n : 1, size, "a table");
}

void es_sheet_begin_row(es_sheet *sheet, const char *colour)
{
    reserve(sheet, &sheet->rows, sheet->n_rows, sizeof *sheet->rows);
    if (sheet->status == ES_OK)
        sheet->rows[sheet->n_rows++] = (es_grid_row){.colour = colour};
}

/* Where the next cell goes; NULL once something failed. */
static char **next_cell(es_sheet *sheet, const char *title, bool right)
{
    if (sheet->n_rows == 1) {
        reserve(sheet, &sheet->columns, sheet->n_columns,
                sizeof *sheet->columns);
        char *safe = sheet->status < 0
                         ? NULL
                         : es_display_escape(title, ES_ESCAPE_TERMINAL);
        if (!safe) {
            sheet->status = ES_ENOMEM;
            return NULL;
        }
        sheet->columns[sheet->n_columns++] = (es_grid_column){
            .title = safe, .right = right, .shortened = !right};
    }
    reserve(sheet, &sheet->cells, sheet->n_cells, sizeof *sheet->cells);
    return sheet->status == ES_OK ? &sheet->cells[sheet->n_cells] : NULL;
}

/* Counts the cell, once it was made. */
static void end_cell(es_sheet *sheet, es_status status)
{
    sheet->status = status;
    sheet->n_cells += status == ES_OK;
}

void es_sheet_put(es_sheet *sheet, const char *title, const char *fmt, ...)
{
    char **cell = next_cell(sheet, title, true);
    va_list args;
    va_start(args, fmt);
    if (cell)
        end_cell(sheet, print(cell, fmt, args));
    if (cell && sheet->status == ES_OK)
        es_text_shorten_exponents(*cell);
    va_end(args);
}

void es_sheet_put_text(es_sheet *sheet, const char *title, const char *fmt, ...)
{
    char **cell = next_cell(sheet, title, false);
    va_list args;
    va_start(args, fmt);
    if (cell)
        end_cell(sheet, print(cell, fmt, args));
    va_end(args);
}

void es_sheet_put_name(es_sheet *sheet, const char *title, const char *name)
{
    char **cell = next_cell(sheet, title, false);
    if (cell)
        end_cell(sheet, es_cell_name(cell, name));
}

void es_sheet_put_measured(es_sheet *sheet, const char *title, float value)
{
    char **cell = next_cell(sheet, title, true);
    if (cell)
        end_cell(sheet, es_cell_measured(cell, value));
}

void es_sheet_put_share(es_sheet *sheet, const char *title, size_t n,
                        size_t n_all)
{
    char **cell = next_cell(sheet, title, true);
    if (cell)
        end_cell(sheet, es_cell_share(cell, n, n_all));
}

void es_sheet_put_integer(es_sheet *sheet, const char *title, int64_t value)
{
    if (value == INT64_MIN)
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%" PRId64, value);
}

size_t es_sheet_width(es_sheet *sheet, size_t shortest)
{
    size_t total = 0;
    if (sheet->status < 0)
        return 0;
    for (size_t i = 0; i < sheet->n_rows; i++)
        sheet->rows[i].cells = sheet->cells + i * sheet->n_columns;
    measure(sheet->columns, sheet->n_columns, sheet->rows, sheet->n_rows);
    for (size_t i = 0; i < sheet->n_columns; i++) {
        size_t width = sheet->columns[i].width;
        if (sheet->columns[i].shortened && width > shortest)
            width = shortest;
        total += width + GAP;
    }
    return total > GAP ? total - GAP : 0;
}

es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options)
{
    if (sheet->status < 0)
        return sheet->status;
    for (size_t i = 0; i < sheet->n_rows; i++)
        sheet->rows[i].cells = sheet->cells + i * sheet->n_columns;
    es_grid_print(stream, sheet->columns, sheet->n_columns, sheet->rows,
                  sheet->n_rows, options);
    return ES_OK;
}
