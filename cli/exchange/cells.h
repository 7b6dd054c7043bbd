/** The cells of one line of CSV (RFC 4180, but without newlines in cells). */
#ifndef ES_CELLS_H
#define ES_CELLS_H

#include "cli/exchange/lines.h"

typedef struct es_cells {
    const char *file;    /* for messages; borrowed */
    size_t line, column; /* position of the last cell, from 1 */
    char separator;
    char *next, *end; /* next is NULL after the last cell */
} es_cells;

/** Returns the separator of a line: ',' if the line contains one, else ';',
 *  else a tab, else a blank, which stands for any number of blanks. */
char es_cells_separator(const es_line *line);

/** Begins a line, whose text is modified while cells are taken. Returns ES_OK;
 *  ES_EFORMAT (longer than ES_LINE_MAX, or a NUL byte). */
es_status es_cells_begin(es_cells *cells, const char *file, const es_line *line,
                         char separator) ES_MUST_USE;

/**
 * Takes the next cell, without quotes and surrounding blanks, NUL-terminated;
 * "" if it is empty. Borrowed until the next line.
 *
 * Returns ES_OK; ES_DONE; ES_EFORMAT (a missing closing quote, or text after
 * it).
 */
es_status es_cells_next(es_cells *cells, char **text) ES_MUST_USE;

/** Calls es_fail(ES_EFORMAT) with "FILE: line L, column C: " before the
 *  message. */
es_status es_cells_fail(const es_cells *cells, const char *fmt, ...)
    ES_PRINTF(2, 3);

#endif
