/* A growing buffer of bytes for the writers. */
#include "render/write_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room for n more bytes; false, with `failed` set, if there is none. */
static bool reserve(es_buffer *b, size_t n)
{
    size_t needed;
    if (!b->failed && es_size_add(&needed, b->n, n)) {
        if (needed <= b->capacity)
            return true;
        size_t wanted =
            needed / 2 > b->capacity ? needed : needed + b->capacity;
        char *grown = es_resize(b->data, wanted, 1);
        if (grown) {
            b->data = grown;
            b->capacity = wanted;
            return true;
        }
    }
    b->failed = true;
    return false;
}

void es_buffer_add(es_buffer *b, const char *data, size_t n)
{
    if (!reserve(b, n))
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
    if (reserve(b, most))
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
        return es_fail(ES_EIO, "picture: cannot be written: %s",
                       strerror(errno));
    return ES_OK;
}
