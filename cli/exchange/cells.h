/** Reads the cells of one CSV line (RFC 4180, but cells contain no
 *  newlines). */
#ifndef ES_CELLS_H
#define ES_CELLS_H

#include "cli/exchange/lines.h"

typedef struct es_cells {
    const char *file; /* file name for messages; borrowed */
    /* Position of the cell that was read last, counted from 1. */
    size_t line, column;
    char separator;
    char *next, *end; /* start of the next cell (NULL after the last cell), and
                         end of the line */
} es_cells;

/**
 * Returns the separator of a line: ',' if the line contains a comma, else ';',
 * else a tab if it contains one, else a blank. In the last case, one or more
 * blanks separate two cells.
 */
char es_cells_separator(const es_line *line);

/** Prepares to read the cells of `line`. es_cells_next modifies the text of the
 *  line. Returns ES_OK, or ES_EFORMAT if the line is longer than ES_LINE_MAX or
 *  contains a NUL byte. */
es_status es_cells_begin(es_cells *cells, const char *file, const es_line *line,
                         char separator) ES_MUST_USE;

/**
 * Returns the next cell in *text, without quotes and surrounding blanks,
 * NUL-terminated; "" if the cell is empty. Valid until the next line begins.
 *
 * Returns ES_OK, ES_DONE after the last cell, or ES_EFORMAT if a closing quote
 * is missing or followed by text.
 */
es_status es_cells_next(es_cells *cells, char **text) ES_MUST_USE;

/** Fails with ES_EFORMAT and a message that begins with "FILE: line L, column
 *  C: ". */
es_status es_cells_fail(const es_cells *cells, const char *fmt, ...)
    ES_PRINTF(2, 3);

#endif
