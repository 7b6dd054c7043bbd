/** Text in aligned columns, for people, and the cells it is made of. */
#ifndef ES_GRID_H
#define ES_GRID_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct es_table_options {
    int width;   /* columns of the terminal; 0: not a terminal, and then
                    nothing is shortened */
    bool colour; /* severities in colour */
} es_table_options;

/** What suits a stream: its terminal's width, colours only on a terminal and
 *  never with NO_COLOR or TERM=dumb. */
void es_table_options_for(es_table_options *out, FILE *stream);

typedef struct es_grid_column {
    const char *title; /* safe to print; NULL: the column is not shown */
    bool right;        /* numbers */
    bool shortened;    /* names, where a terminal is too narrow */
    size_t width;      /* written by es_grid_print */
} es_grid_column;

typedef struct es_grid_row {
    char *const *cells; /* (n_columns) safe to print; NULL is empty */
    const char *colour; /* escape sequence of the last column; NULL: none */
} es_grid_row;

/** A line of titles, then the rows. The caller checks the stream. */
void es_grid_print(FILE *stream, es_grid_column *columns, size_t n_columns,
                   const es_grid_row *rows, size_t n_rows,
                   const es_table_options *options);

/** Columns that it takes when names are shortened to `shortest` at most. */
size_t es_grid_width(es_grid_column *columns, size_t n_columns,
                     const es_grid_row *rows, size_t n_rows, size_t shortest);

/* Each of these makes *cell, to be freed. ES_OK; ES_ENOMEM: *cell is NULL. */

/** printf. What it prints has to be safe. */
ES_PRINTF(2, 3)
ES_MUST_USE es_status es_cell_print(char **cell, const char *fmt, ...);

/** Escaped; "-" for NULL and "". */
es_status es_cell_name(char **cell, const char *name) ES_MUST_USE;

/** Four digits; "NaN". */
es_status es_cell_number(char **cell, double value) ES_MUST_USE;

/** The same; "-" for missing. */
es_status es_cell_measured(char **cell, float value) ES_MUST_USE;

/** A share of all: "12%", "<1%"; "-" of none. */
es_status es_cell_share(char **cell, size_t n, size_t n_all) ES_MUST_USE;

#endif
