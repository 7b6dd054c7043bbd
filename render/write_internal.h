/** What the writers of vector formats share: a growing text, the notes. */
#ifndef ES_WRITE_INTERNAL_H
#define ES_WRITE_INTERNAL_H

#include "render/picture_internal.h"

/** Bytes that grow; {0} is empty. Adding cannot fail visibly: es_buffer_write
 *  reports it. */
typedef struct es_buffer {
    char *data; /* for the owner to free */
    size_t n, capacity;
    bool failed; /* memory has run out */
} es_buffer;

void es_buffer_add(es_buffer *buffer, const char *data, size_t n);
void es_buffer_text(es_buffer *buffer, const char *text);

/** Adds `clean`, UTF-8 without control characters, escaped for XML. */
void es_buffer_xml(es_buffer *buffer, const char *clean);

/**
 * Adds x with two decimals at most, whatever the locale: "12", "-.5", "3.07".
 * |x| is below 1e15.
 */
void es_buffer_number(es_buffer *buffer, double x);

/** Adds a string of the user cleaned by es_text_clean, escaped if `xml`. */
void es_buffer_clean(es_buffer *buffer, const char *text, bool xml);

/** Adds an image of the picture as a PNG, in base 64. */
void es_buffer_image(es_buffer *buffer, const es_picture *picture,
                     const es_picture_shape *image);

/** Adds "key: value" lines of all notes but the title, which has a place of
 *  its own in every format. */
void es_buffer_notes(es_buffer *buffer, const es_picture_note *notes,
                     size_t n_notes, bool xml);

/** ES_OK; ES_ENOMEM if adding failed; ES_EIO if `out` did not take it all. */
es_status es_buffer_write(const es_buffer *buffer, FILE *out) ES_MUST_USE;

#endif
