/* Implements output streams that write into memory, for all code that builds a
   text with stdio. They use fopencookie with a write function that reports
   errors; glibc's open_memstream() truncates the text silently. */
#include "analyzer/base/text_stream.h"

#include "analyzer/base/checked.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

enum { FEWEST = 256 };

typedef struct memory {
    char **text; /* the caller's pointer to the text */
    size_t *size;
    /* length: number of bytes up to the highest position that has been
     * written. */
    size_t capacity, length, position;
    bool failed; /* true if memory has run out; all later writes fail */
} memory;

/* Ensures a capacity of n bytes. Added bytes are zero, so the text is always
   terminated. */
static bool reserve_bytes(memory *m, size_t n)
{
    size_t capacity = m->capacity > FEWEST ? m->capacity : FEWEST;
    while (capacity < n)
        capacity *= 2;
    if (capacity > m->capacity) {
        if (es_grow(m->text, capacity, 1, "a text") != ES_OK)
            return false;
        memset(*m->text + m->capacity, 0, capacity - m->capacity);
        m->capacity = capacity;
    }
    return true;
}

static ssize_t write_bytes(void *cookie, const char *bytes, size_t n)
{
    memory *m = cookie;
    m->failed = m->failed || !reserve_bytes(m, m->position + n + 1);
    if (m->failed) {
        errno = ENOMEM;
        return 0;
    }
    memcpy(*m->text + m->position, bytes, n);
    m->position += n;
    if (m->length < m->position)
        m->length = m->position;
    *m->size = m->position;
    return (ssize_t)n;
}

static int seek(void *cookie, off64_t *offset, int whence)
{
    memory *m = cookie;
    const off64_t from = whence == SEEK_SET   ? 0
                         : whence == SEEK_CUR ? (off64_t)m->position
                                              : (off64_t)m->length;
    if (*offset < -from || *offset > (off64_t)m->length - from) {
        errno = EINVAL;
        return -1;
    }
    *offset += from;
    m->position = *m->size = (size_t)*offset;
    return 0;
}

static int close_stream(void *cookie)
{
    memory *m = cookie;
    const bool failed = m->failed || !reserve_bytes(m, 1);
    if (failed) {
        free(*m->text);
        *m->text = NULL;
    }
    free(m);
    return failed ? -1 : 0;
}

FILE *es_text_stream(char **text, size_t *size)
{
    static const cookie_io_functions_t functions = {
        .write = write_bytes, .seek = seek, .close = close_stream};
    memory *m;
    *text = NULL;
    *size = 0;
    if (es_alloc(&m, 1, sizeof *m, "a text") != ES_OK)
        return NULL;
    *m = (memory){.text = text, .size = size};
    FILE *stream = fopencookie(m, "w", functions);
    if (!stream)
        free(m);
    return stream;
}
