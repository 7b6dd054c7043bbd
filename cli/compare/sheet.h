/** A table as it is put together, cell by cell. The first failure stays. */
#ifndef ES_SHEET_H
#define ES_SHEET_H

#include "cli/output/grid.h"
#include "cli/runs/summary.h"

/** Zero is empty. */
typedef struct es_sheet {
    es_grid_column *columns; /* (n_columns) their titles are ours */
    size_t n_columns;
    char **cells; /* (n_cells) row by row */
    size_t n_cells, capacity;
    es_status status;
} es_sheet;

void es_sheet_free(es_sheet *sheet);

/** All columns come before the first cell. Any title: it is escaped. */
void es_sheet_number_column(es_sheet *sheet, const char *title);
void es_sheet_text_column(es_sheet *sheet, const char *title);

/** The next cell: row by row, and of each every column. */
ES_PRINTF(2, 3) void es_sheet_put(es_sheet *sheet, const char *fmt, ...);
void es_sheet_put_name(es_sheet *sheet, const char *name);
void es_sheet_put_number(es_sheet *sheet, double value);
void es_sheet_put_measured(es_sheet *sheet, float value);
void es_sheet_put_share(es_sheet *sheet, const es_bands *bands, int band);

/** "-" for ES_UNKNOWN. */
void es_sheet_put_step(es_sheet *sheet, int64_t step);

/** ES_OK or the first failure; then nothing is printed. */
es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options) ES_MUST_USE;

/** es_grid_width; 0 after a failure. */
size_t es_sheet_width(es_sheet *sheet, size_t shortest);

#endif
