/** A stream that writes into memory, and fails where there is none. */
#ifndef ES_TEXT_STREAM_H
#define ES_TEXT_STREAM_H

#include <stddef.h>
#include <stdio.h>

/**
 * As open_memstream(), of which glibc's leaves out what it has no memory for
 * and reports no error, neither by ferror() nor by fclose().
 *
 *   text  receives what was written, terminated, at each fflush() and at
 *         fclose(), after which it is the caller's to free; NULL if fclose()
 *         fails
 *   size  receives the position of the stream: bytes written, unless rewound
 *
 * NULL: out of memory, and *text is NULL.
 */
FILE *es_text_stream(char **text, size_t *size);

#endif
