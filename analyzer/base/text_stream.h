/** A stream that writes into memory and reports an error if memory runs out. */
#ifndef ES_TEXT_STREAM_H
#define ES_TEXT_STREAM_H

#include <stddef.h>
#include <stdio.h>

/**
 * Works like open_memstream(). glibc's version drops the text for which it
 * finds no memory, and neither ferror() nor fclose() reports it.
 *
 *   text  receives the text, terminated, at each fflush() and at fclose(); the
 *         caller frees it after fclose(). NULL if fclose() fails
 *   size  receives the position of the stream: the number of bytes written,
 *         unless the stream was rewound
 *
 * Returns NULL, with *text NULL, if memory runs out.
 */
FILE *es_text_stream(char **text, size_t *size);

#endif
