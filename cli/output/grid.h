/** Text in aligned columns, for people. */
#ifndef ES_GRID_H
#define ES_GRID_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct es_table_options {
    int width;   /* columns of the terminal; 0: not a terminal, and then
                    nothing is shortened */
    bool colour; /* severities in colour */
} es_table_options;

/** What suits a stream: its terminal's width; es_print_has_colour. */
void es_table_options_for(es_table_options *out, FILE *stream);

typedef struct es_grid_column {
    const char *title; /* safe to print */
    bool right;        /* numbers */
    bool shortened;    /* names, where a terminal is too narrow */
    bool hidden;
    size_t width; /* written by es_sheet_print */
} es_grid_column;

typedef struct es_grid_row {
    size_t text;        /* where its first cell begins */
    const char *colour; /* escape sequence of the last column; NULL: none */
} es_grid_row;

/** A share of all: "12%", "<1%"; "-" of none. Returns text. */
const char *es_share_print(char text[8], size_t n, size_t n_all);

/**
 * A table put together cell by cell: a cell of the first row brings its column
 * with it, and every row has the same cells in the same order. The first
 * failure is kept, and nothing is printed then. Zero is empty. It takes hardly
 * more memory than its text.
 */
typedef struct es_sheet {
    es_grid_column *columns; /* (n_columns) their titles are ours */
    es_grid_row *rows;       /* (n_rows) */
    char *text;              /* (n_text) the cells row by row, each a string */
    size_t n_columns, n_rows, n_text;
    es_status status;
} es_sheet;

void es_sheet_free(es_sheet *sheet);

/** Takes back what came after the first n_rows rows, and the failure, which it
 *  returns. */
es_status es_sheet_take_back(es_sheet *sheet, size_t n_rows);

/** Begins the next row. colour: as es_grid_row's. */
void es_sheet_begin_row(es_sheet *sheet, const char *colour);

/** A cell that was put; borrowed until the next one is. */
const char *es_sheet_cell(const es_sheet *sheet, size_t row, size_t column);

/* The next cell of the row, under `title`, which is escaped. Numbers stand to
   the right, names are shortened where a terminal is too narrow. */

ES_PRINTF(3, 4)
void es_sheet_put(es_sheet *sheet, const char *title, const char *fmt, ...);
/** As a name; what it prints has to be safe. */
ES_PRINTF(3, 4)
void es_sheet_put_text(es_sheet *sheet, const char *title, const char *fmt,
                       ...);
/** Escaped; "-" for NULL and "". */
void es_sheet_put_name(es_sheet *sheet, const char *title, const char *name);
/** Four digits; "NaN"; "-" for missing. */
void es_sheet_put_measured(es_sheet *sheet, const char *title, float value);
/** A share of all; "-" of none. */
void es_sheet_put_share(es_sheet *sheet, const char *title, size_t n,
                        size_t n_all);
/** "-" for INT64_MIN (ES_UNKNOWN of store/run.h). */
void es_sheet_put_integer(es_sheet *sheet, const char *title, int64_t value);

/** ES_OK or the first failure; then nothing is printed. */
es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options) ES_MUST_USE;

/** Columns of the terminal that it takes when names are shortened to
 *  `shortest` at most; 0 after a failure. */
size_t es_sheet_width(es_sheet *sheet, size_t shortest);

#endif
