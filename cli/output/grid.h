/** Prints tables with aligned columns. */
#ifndef ES_GRID_H
#define ES_GRID_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct es_table_options {
    int width;   /* width of the terminal in columns; 0 if the output is not a
                    terminal, in which case names are not shortened */
    bool colour; /* true if severities are coloured */
} es_table_options;

/**
 * Sets the options for a stream: the width of its terminal, and colour if
 * es_print_has_colour returns true.
 */
void es_table_options_for(es_table_options *out, FILE *stream);

typedef struct es_grid_column {
    const char *title; /* title, safe to print */
    bool right;        /* true for numbers, which are aligned to the right */
    bool shortened;    /* true for names, which are shortened if the terminal
                          is too narrow */
    bool hidden;
    size_t width; /* width in screen columns, set by es_sheet_print */
} es_grid_column;

typedef struct es_grid_row {
    size_t text;        /* offset of the row's first cell in the sheet's text */
    const char *colour; /* escape sequence that colours the last column, or
                           NULL */
} es_grid_row;

/**
 * Formats n of n_all as a percentage: "12%", "<1%", or "-" if n_all is 0.
 * Returns text.
 */
const char *es_share_print(char text[8], size_t n, size_t n_all);

/**
 * A table that is built cell by cell. Adding a cell to the first row also adds
 * the cell's column; all rows must have the same cells in the same order. After
 * a failure, `status` stays set, and nothing is printed. A struct of zeros is
 * an empty sheet. A sheet needs little more memory than the text of its cells.
 */
typedef struct es_sheet {
    es_grid_column *columns; /* (n_columns) columns, with titles owned by the
                                sheet */
    es_grid_row *rows;       /* (n_rows) */
    char *text;              /* (n_text) text of all cells, row by row; each
                                cell is NUL-terminated */
    size_t n_columns, n_rows, n_text;
    es_status status;
} es_sheet;

void es_sheet_free(es_sheet *sheet);

/**
 * Removes all rows except the first n_rows. Returns the sheet's status, and
 * resets it to ES_OK.
 */
es_status es_sheet_take_back(es_sheet *sheet, size_t n_rows);

/**
 * Begins the next row. `colour` is the escape sequence that colours the row's
 * last column, or NULL.
 */
void es_sheet_begin_row(es_sheet *sheet, const char *colour);

/** Returns the text of a cell; borrowed until the next cell is added. */
const char *es_sheet_cell(const es_sheet *sheet, size_t row, size_t column);

/* The functions es_sheet_put... append the next cell of the row, in the column
   `title`. The title is escaped for the terminal. Numbers are aligned to the
   right; names are aligned to the left and shortened if the terminal is too
   narrow. */

ES_PRINTF(3, 4)
void es_sheet_put(es_sheet *sheet, const char *title, const char *fmt, ...);
/** Appends a formatted name, which must be safe for a terminal. */
ES_PRINTF(3, 4)
void es_sheet_put_text(es_sheet *sheet, const char *title, const char *fmt,
                       ...);
/** Escapes a name and appends it. Appends "-" for NULL and "". */
void es_sheet_put_name(es_sheet *sheet, const char *title, const char *name);
/** Appends a number with four digits; "NaN" for a NaN, "-" for a missing
 *  value. */
void es_sheet_put_measured(es_sheet *sheet, const char *title, float value);
/** Appends n of n_all as a percentage; "-" if n_all is 0. */
void es_sheet_put_share(es_sheet *sheet, const char *title, size_t n,
                        size_t n_all);
/** Appends an integer; "-" for INT64_MIN (ES_UNKNOWN of store/run.h). */
void es_sheet_put_integer(es_sheet *sheet, const char *title, int64_t value);

/**
 * Prints the table. If building the sheet failed, prints nothing and returns
 * the first failure; otherwise returns ES_OK.
 */
es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options) ES_MUST_USE;

/** Returns the width of the table in screen columns if names are shortened to
 *  at most `shortest` columns; 0 if building the sheet failed. */
size_t es_sheet_width(es_sheet *sheet, size_t shortest);

#endif
