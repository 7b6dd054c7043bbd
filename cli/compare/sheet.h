/** A table put together cell by cell: a cell of the first row brings its column
 *  with it. The first failure is kept, and nothing is printed then. */
#ifndef ES_SHEET_H
#define ES_SHEET_H

#include "cli/output/grid.h"
#include <stdint.h>

/** Zero is empty. */
typedef struct es_sheet {
    es_grid_column *columns; /* (n_columns) their titles are ours */
    size_t n_columns;
    char **cells; /* (n_cells) row by row */
    size_t n_cells, capacity;
    size_t n_rows;
    es_status status;
} es_sheet;

void es_sheet_free(es_sheet *sheet);

/** Begins the next row: every row has the same cells in the same order. */
void es_sheet_begin_row(es_sheet *sheet);

/* The next cell of the row, under `title`, which is escaped. Numbers stand to
   the right, names are shortened where a terminal is too narrow. */

ES_PRINTF(3, 4)
void es_sheet_put(es_sheet *sheet, const char *title, const char *fmt, ...);
/** As a name; what it prints has to be safe. */
ES_PRINTF(3, 4)
void es_sheet_put_text(es_sheet *sheet, const char *title, const char *fmt,
                       ...);
void es_sheet_put_name(es_sheet *sheet, const char *title, const char *name);
void es_sheet_put_measured(es_sheet *sheet, const char *title, float value);
/** A share of all; "-" of none. */
void es_sheet_put_share(es_sheet *sheet, const char *title, size_t n,
                        size_t n_all);
/** "-" for ES_UNKNOWN. */
void es_sheet_put_step(es_sheet *sheet, const char *title, int64_t step);

/** ES_OK or the first failure; then nothing is printed. */
es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options) ES_MUST_USE;

/** es_grid_width; 0 after a failure. */
size_t es_sheet_width(es_sheet *sheet, size_t shortest);

#endif
