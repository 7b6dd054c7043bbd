/*
 * Implements the growing buffer in which the writers collect a file, and the
 * notes about a picture, which every format stores as text.
 */
#include "render/picture_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include <errno.h>
#include <stdlib.h>

/* Makes space for n more bytes in a buffer. If memory runs out, sets b->failed
 * and returns false. */
static bool reserve_bytes(es_buffer *b, size_t n)
{
    if (!b->failed && es_picture_reserve(&b->data, &b->capacity, b->n, n, 1))
        return true;
    b->failed = true;
    return false;
}

void es_buffer_add(es_buffer *b, const char *data, size_t n)
{
    if (!reserve_bytes(b, n))
        return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void es_buffer_text(es_buffer *b, const char *text)
{
    es_buffer_add(b, text, strlen(text));
}

void es_buffer_xml(es_buffer *b, const char *clean)
{
    const size_t longest = 6; /* &quot; */
    size_t most = 0;
    if (!es_size_mul(&most, strlen(clean) + 1, longest))
        b->failed = true;
    if (reserve_bytes(b, most))
        b->n += es_text_escape(b->data + b->n, most, clean, ES_ESCAPE_XML);
}

void es_buffer_number(es_buffer *b, double x)
{
    char digits[24], *start = digits + sizeof digits;
    long long hundredths = llround(x * 100);
    unsigned long long left =
        (unsigned long long)(hundredths < 0 ? -hundredths : hundredths);
    int decimals = left % 100 == 0 ? 0 : left % 10 == 0 ? 1 : 2;
    for (int i = decimals; i < 2; i++)
        left /= 10;
    for (int i = 0; i < decimals; i++, left /= 10)
        *--start = (char)('0' + left % 10);
    if (decimals > 0)
        *--start = '.';
    for (; left > 0; left /= 10)
        *--start = (char)('0' + left % 10);
    if (hundredths == 0)
        *--start = '0';
    if (hundredths < 0)
        *--start = '-';
    es_buffer_add(b, start, (size_t)(digits + sizeof digits - start));
}

void es_buffer_clean(es_buffer *b, const char *text, bool xml)
{
    char *clean = es_text_cleaned(text);
    if (!clean) {
        b->failed = true;
        return;
    }
    if (xml)
        es_buffer_xml(b, clean);
    else
        es_buffer_text(b, clean);
    free(clean);
}

const char *es_note_title(const es_picture_note *notes, size_t n_notes)
{
    for (size_t i = 0; i < n_notes; i++)
        if (strcmp(notes[i].key, "Title") == 0)
            return notes[i].value;
    return NULL;
}

void es_buffer_notes(es_buffer *b, const es_picture_note *notes, size_t n_notes,
                     bool xml)
{
    size_t start = b->n;
    for (size_t i = 0; i < n_notes; i++) {
        if (strcmp(notes[i].key, "Title") == 0)
            continue;
        if (b->n > start)
            es_buffer_text(b, "\n");
        es_buffer_clean(b, notes[i].key, xml);
        es_buffer_text(b, ": ");
        es_buffer_clean(b, notes[i].value, xml);
    }
}

es_status es_buffer_write(const es_buffer *b, FILE *out)
{
    if (b->failed)
        return es_fail(ES_ENOMEM, "picture: out of memory");
    if (fwrite(b->data, 1, b->n, out) != b->n)
        return es_fail(ES_EIO, "cannot write the picture: %s", strerror(errno));
    return ES_OK;
}
