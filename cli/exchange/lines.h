/** Reads text files line by line, with any line endings. */
#ifndef ES_LINES_H
#define ES_LINES_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ES_LINE_MAX (1 << 20) /* maximum size of a line in bytes */

typedef struct es_line_reader es_line_reader;

/** A line without its line ending. */
typedef struct es_line {
    char *text; /* n bytes, which may include NUL, followed by a terminating
                   NUL; the caller may modify the text until the next line is
                   read */
    size_t n;
    size_t number; /* from 1 */
    bool cut;      /* true if the line was cut at ES_LINE_MAX bytes */
} es_line;

/**
 * Opens a regular file, or standard input for "-". Standard input is first
 * copied to a temporary file, since most parsers read their input twice.
 *
 * Returns ES_OK, or ES_EIO if the file does not exist, is a directory or
 * a FIFO, or if there is no permission to read it.
 */
es_status es_line_reader_open(es_line_reader **out,
                              const char *path) ES_MUST_USE;

/**
 * Same as es_line_reader_open, but reads `stream`, which must support
 * rewinding. The reader owns the stream, even on failure. `name` is used in
 * messages; borrowed.
 */
es_status es_line_reader_new(es_line_reader **out, FILE *stream,
                             const char *name) ES_MUST_USE;

/** Returns the name of the file, or "standard input". Borrowed. */
const char *es_line_reader_name(const es_line_reader *lines);

/**
 * Reads the next line. A line ends at LF, CR LF or a lone CR (progress bars);
 * the last line of the file may lack a line ending. A byte order mark of UTF-8
 * is skipped.
 *
 * Returns ES_OK, ES_DONE after the last line, ES_EIO, or ES_EFORMAT if the file
 * is UTF-16.
 */
es_status es_line_reader_next(es_line_reader *lines, es_line *out) ES_MUST_USE;

/** Reads the next n bytes unchanged, for binary files. Sets *got to the number
 *  of bytes read, which is less than n at the end of the file. Returns ES_OK or
 *  ES_EIO. */
es_status es_line_reader_bytes_read(es_line_reader *lines, void *out, size_t n,
                                    size_t *got) ES_MUST_USE;

/** Returns the size in bytes of the file, or of the copy of standard input; 0
 *  if the size is unknown. */
uint64_t es_line_reader_size(const es_line_reader *lines);

/** Sets a function that is called after each read with the number of bytes read
 *  so far (es_line_reader_bytes). */
void es_line_reader_watch(es_line_reader *lines, void (*watch)(uint64_t bytes));

/** Returns the number of bytes read since the start of the file, including up
 *  to 64 KiB that were read ahead. */
uint64_t es_line_reader_bytes(const es_line_reader *lines);

/** Returns to the first line. Returns ES_OK, ES_EIO, or ES_EFORMAT if the file
 *  is UTF-16. */
es_status es_line_reader_rewind(es_line_reader *lines) ES_MUST_USE;

void es_line_reader_close(es_line_reader *lines); /* lines may be NULL */

#endif
