/** A stream that writes into memory and reports an error if memory runs out. */
#ifndef ES_TEXT_STREAM_H
#define ES_TEXT_STREAM_H

#include <stddef.h>
#include <stdio.h>

/**
 * Works like open_memstream(). If memory runs out, glibc's open_memstream()
 * drops text, and neither ferror() nor fclose() reports the loss; on a stream
 * from es_text_stream() both report it.
 *
 *   text  receives the text, terminated, at each fflush() and at fclose(); the
 *         caller frees it after fclose(). NULL if fclose() fails
 *   size  receives the position of the stream, which is the number of bytes
 *         written unless the stream was rewound
 *
 * Returns NULL and sets *text to NULL if the stream cannot be allocated.
 */
FILE *es_text_stream(char **text, size_t *size);

#endif
