/* Prints tables in aligned columns, which are built cell by cell. Each column
 * is as wide as its widest cell; names are shortened if the terminal is too
 * narrow. cli/output/print.c measures the width of text. */
#include "cli/output/grid.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/display.h"
#include "analyzer/base/value.h"
#include "cli/output/print.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2
#define NARROWEST 8 /* minimum width of a shortened name in screen columns */

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

static const char *next_of(const char *cell)
{
    return cell + strlen(cell) + 1;
}

/* Sets the width of each column to that of its widest cell, or to 0 if the
 * column is hidden. */
static void measure_columns(es_sheet *sheet)
{
    for (size_t i = 0; i < sheet->n_columns; i++) {
        es_grid_column *to = &sheet->columns[i];
        to->width = to->hidden ? 0 : es_display_width(to->title);
    }
    for (size_t row = 0; row < sheet->n_rows; row++) {
        const char *cell = sheet->text + sheet->rows[row].text;
        for (size_t i = 0; i < sheet->n_columns; i++, cell = next_of(cell)) {
            es_grid_column *to = &sheet->columns[i];
            const size_t width = to->hidden ? 0 : es_display_width(cell);
            to->width = width > to->width ? width : to->width;
        }
    }
}

/* Repeatedly narrows the widest column of names until the table fits. */
static void fit_columns(es_grid_column *columns, size_t n_columns, size_t limit)
{
    size_t total = 0;
    for (size_t i = 0; i < n_columns; i++)
        total += columns[i].hidden ? 0 : columns[i].width + GAP;
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

static void print_titles(FILE *stream, const es_sheet *sheet, size_t last,
                         bool colour)
{
    fputs(colour ? "\033[1m" : "", stream);
    for (size_t i = 0; i <= last; i++)
        if (!sheet->columns[i].hidden)
            print_cell(stream, sheet->columns[i].title, &sheet->columns[i],
                       i == last);
    fputs(colour ? "\033[0m\n" : "\n", stream);
}

static void print_row(FILE *stream, const es_sheet *sheet,
                      const es_grid_row *row, size_t last)
{
    const char *cell = sheet->text + row->text;
    for (size_t i = 0; i <= last; i++, cell = next_of(cell)) {
        const char *colour = i == last ? row->colour : NULL;
        if (sheet->columns[i].hidden)
            continue;
        fputs(colour ? colour : "", stream);
        print_cell(stream, cell, &sheet->columns[i], i == last);
        fputs(colour ? "\033[0m" : "", stream);
    }
    fputc('\n', stream);
}

es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options)
{
    size_t last = sheet->n_columns;
    if (sheet->status < 0)
        return sheet->status;
    while (last > 0 && sheet->columns[last - 1].hidden)
        last--;
    if (last-- == 0)
        return ES_OK;
    measure_columns(sheet);
    if (options->width > 0)
        fit_columns(sheet->columns, sheet->n_columns, (size_t)options->width);
    print_titles(stream, sheet, last, options->colour);
    for (size_t row = 0; row < sheet->n_rows; row++)
        print_row(stream, sheet, &sheet->rows[row], last);
    return ES_OK;
}

size_t es_sheet_width(es_sheet *sheet, size_t shortest)
{
    size_t total = 0;
    if (sheet->status < 0)
        return 0;
    measure_columns(sheet);
    for (size_t i = 0; i < sheet->n_columns; i++) {
        size_t width = sheet->columns[i].width;
        if (sheet->columns[i].shortened && width > shortest)
            width = shortest;
        total += width + GAP;
    }
    return total > GAP ? total - GAP : 0;
}

/* --- cell by cell ---------------------------------------------------------*/

es_status es_sheet_take_back(es_sheet *sheet, size_t n_rows)
{
    const es_status status = sheet->status;
    if (n_rows < sheet->n_rows)
        sheet->n_text = sheet->rows[n_rows].text;
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
    free(sheet->text);
    free(sheet->rows);
}

/* Provides space for one more element. The array grows whenever the number of
 * elements is a power of two, so its capacity need not be stored. */
static void reserve_element(es_sheet *sheet, void *array, size_t n, size_t size)
{
    if (sheet->status == ES_OK && (n & (n - 1)) == 0)
        sheet->status = es_grow(array, n ? 2 * n : 1, size, "a table");
}

void es_sheet_begin_row(es_sheet *sheet, const char *colour)
{
    reserve_element(sheet, &sheet->rows, sheet->n_rows, sizeof *sheet->rows);
    if (sheet->status == ES_OK)
        sheet->rows[sheet->n_rows++] =
            (es_grid_row){.text = sheet->n_text, .colour = colour};
}

const char *es_sheet_cell(const es_sheet *sheet, size_t row, size_t column)
{
    const char *cell = sheet->text + sheet->rows[row].text;
    for (; column > 0; column--)
        cell = next_of(cell);
    return cell;
}

static void add_column(es_sheet *sheet, const char *title, bool right)
{
    reserve_element(sheet, &sheet->columns, sheet->n_columns,
                    sizeof *sheet->columns);
    char *safe = sheet->status == ES_OK
                     ? es_display_escape(title, ES_ESCAPE_TERMINAL)
                     : NULL;
    if (safe)
        sheet->columns[sheet->n_columns++] = (es_grid_column){
            .title = safe, .right = right, .shortened = !right};
    else
        sheet->status = ES_ENOMEM;
}

/* Appends the next cell of the row. Does nothing if an earlier call failed.
 * `text` is NULL if the caller ran out of memory. */
static void append_cell(es_sheet *sheet, const char *title, bool right,
                        const char *text)
{
    const size_t n = text ? strlen(text) + 1 : 0;
    if (sheet->status < 0)
        return;
    if (!text)
        sheet->status = ES_ENOMEM;
    else if (sheet->n_rows == 1)
        add_column(sheet, title, right);
    /* The capacity is always the smallest 256 * 2^k that is large enough, so it
       need not be stored. Grow the text if the new cell requires a larger
       capacity. */
    for (size_t size = 256; sheet->status == ES_OK; size *= 2)
        if (sheet->n_text + n <= size) {
            if (size == 256 ? sheet->n_text == 0 : sheet->n_text <= size / 2)
                sheet->status = es_grow(&sheet->text, size, 1, "a table");
            break;
        }
    if (sheet->status < 0)
        return;
    memcpy(sheet->text + sheet->n_text, text, n);
    sheet->n_text += n;
}

ES_PRINTF(4, 0)
static void append_printed(es_sheet *sheet, const char *title, bool right,
                           const char *fmt, va_list args)
{
    char *text = NULL;
    if (sheet->status < 0)
        return;
    if (vasprintf(&text, fmt, args) < 0) {
        sheet->status = es_fail(ES_ENOMEM, "out of memory for a table");
        return;
    }
    if (right)
        es_text_shorten_exponents(text);
    append_cell(sheet, title, right, text);
    free(text);
}

void es_sheet_put(es_sheet *sheet, const char *title, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    append_printed(sheet, title, true, fmt, args);
    va_end(args);
}

void es_sheet_put_text(es_sheet *sheet, const char *title, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    append_printed(sheet, title, false, fmt, args);
    va_end(args);
}

void es_sheet_put_name(es_sheet *sheet, const char *title, const char *name)
{
    char *safe =
        es_display_escape(name && *name ? name : "-", ES_ESCAPE_TERMINAL);
    append_cell(sheet, title, false, safe);
    free(safe);
}

void es_sheet_put_measured(es_sheet *sheet, const char *title, float value)
{
    char text[ES_FLOAT_TEXT_MAX];
    append_cell(sheet, title, true,
                es_is_missing(value) ? "-" : es_number_print(text, value, 4));
}

const char *es_share_print(char text[8], size_t n, size_t n_all)
{
    double percent = 100 * ((double)n / (double)n_all);
    if (n_all == 0)
        snprintf(text, 8, "-");
    else if (percent > 0 && percent < 0.5)
        snprintf(text, 8, "<1%%");
    else
        snprintf(text, 8, "%.0f%%", percent);
    return text;
}

void es_sheet_put_share(es_sheet *sheet, const char *title, size_t n,
                        size_t n_all)
{
    char text[8];
    append_cell(sheet, title, true, es_share_print(text, n, n_all));
}

void es_sheet_put_integer(es_sheet *sheet, const char *title, int64_t value)
{
    if (value == INT64_MIN)
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%" PRId64, value);
}
