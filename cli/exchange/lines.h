/** Text files, line by line, whatever their line ends. */
#ifndef ES_LINES_H
#define ES_LINES_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ES_LINE_MAX (1 << 20) /* bytes of a line that are kept */

typedef struct es_line_reader es_line_reader;

/** One line, without its end. */
typedef struct es_line {
    char *text; /* n bytes, of which some may be 0, and a final 0; ours to
                   change until the next line is read */
    size_t n;
    size_t number; /* from 1 */
    bool cut;      /* it went on beyond ES_LINE_MAX */
} es_line;

/**
 * Opens a regular file, or standard input for "-", which is copied to a
 * temporary file first: what follows reads everything twice.
 *
 * ES_OK; ES_EIO (no such file, a directory, a FIFO, no permission).
 */
es_status es_line_reader_open(es_line_reader **out,
                              const char *path) ES_MUST_USE;

/** The same over a stream that can be rewound; the stream is closed with it,
 *  also when this fails. `name` is borrowed: the file's, for messages. */
es_status es_line_reader_new(es_line_reader **out, FILE *stream,
                             const char *name) ES_MUST_USE;

/** The name given, or "standard input". Borrowed. */
const char *es_line_reader_name(const es_line_reader *lines);

/**
 * The next line. A line ends at LF, CR LF or a lone CR (progress bars); the
 * last one need not end. A byte order mark of UTF-8 is skipped.
 *
 * ES_OK; ES_DONE; ES_EIO; ES_EFORMAT (UTF-16).
 */
es_status es_line_reader_next(es_line_reader *lines, es_line *out) ES_MUST_USE;

/** The next bytes as they are, in place of lines, for files that are no text.
 *  got: how many, less than n at the end of the file. ES_OK or ES_EIO. */
es_status es_line_reader_bytes_read(es_line_reader *lines, void *out, size_t n,
                                    size_t *got) ES_MUST_USE;

/** The size of the file, or of the copy of standard input; 0 where it is
 *  unknown. */
uint64_t es_line_reader_size(const es_line_reader *lines);

/** Calls `watch` with es_line_reader_bytes whenever more was read. */
void es_line_reader_watch(es_line_reader *lines, void (*watch)(uint64_t bytes));

/** Bytes read since the first line: what was handed out, and at most 64 KiB
 *  more. */
uint64_t es_line_reader_bytes(const es_line_reader *lines);

/** Back to the first line. ES_OK or ES_EIO. */
es_status es_line_reader_rewind(es_line_reader *lines) ES_MUST_USE;

void es_line_reader_close(es_line_reader *lines); /* NULL is fine */

#endif
