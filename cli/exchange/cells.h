/** The cells of one line of CSV (RFC 4180, but no line ends inside cells). */
#ifndef ES_CELLS_H
#define ES_CELLS_H

#include "cli/exchange/lines.h"

typedef struct es_cells {
    const char *file;    /* for messages; borrowed */
    size_t line, column; /* of the cell that came last; both from 1 */
    char separator;
    char *next, *end; /* at is NULL after the last cell */
} es_cells;

/** ',' if the line has one, else ';', else a tab, else a blank: then runs of
 *  blanks separate. */
char es_cells_separator(const es_line *line);

/** Begins a line, whose text is changed as cells are taken from it.
 *  ES_OK; ES_EFORMAT (longer than ES_LINE_MAX). */
es_status es_cells_begin(es_cells *cells, const char *file, const es_line *line,
                         char separator) ES_MUST_USE;

/**
 * The next cell: quotes removed, blanks around it too, NUL-terminated,
 * borrowed until the next line. "" for an empty one.
 *
 * ES_OK; ES_DONE; ES_EFORMAT (a NUL byte, a quote left open).
 */
es_status es_cells_next(es_cells *cells, char **text) ES_MUST_USE;

/** es_fail(ES_EFORMAT) with "FILE: line L, column C: " before the message. */
es_status es_cells_fail(const es_cells *cells, const char *fmt, ...)
    ES_PRINTF(2, 3);

#endif
