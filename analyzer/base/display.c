/* Measures and shortens UTF-8 text in the columns of a terminal. */
#include "analyzer/base/display.h"

#include "analyzer/base/text.h"

#include <string.h>

/* Ranges of Unicode characters whose width on a terminal is not 1: combining
 * marks (0) and East Asian wide characters (2). The table is used instead of
 * wcwidth of the C library, whose results depend on the locale, because the
 * installed locales differ between machines. */
typedef struct range {
    uint32_t first, last;
    size_t width;
} range;

static const range ranges[] = {
    {0x0300, 0x036f, 0},   {0x0483, 0x0489, 0},   {0x0591, 0x05bd, 0},
    {0x0610, 0x061a, 0},   {0x064b, 0x065f, 0},   {0x06d6, 0x06dc, 0},
    {0x0e34, 0x0e3a, 0},   {0x0e47, 0x0e4e, 0},   {0x1100, 0x115f, 2},
    {0x1ab0, 0x1aff, 0},   {0x1dc0, 0x1dff, 0},   {0x200b, 0x200f, 0},
    {0x202a, 0x202e, 0},   {0x2060, 0x206f, 0},   {0x20d0, 0x20ff, 0},
    {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},   {0xa960, 0xa97f, 2},
    {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},
    {0xfe20, 0xfe2f, 0},   {0xfe30, 0xfe6f, 2},   {0xfeff, 0xfeff, 0},
    {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2},
    {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
    {0xe0100, 0xe01ef, 0},
};

static size_t width_of_character(uint32_t character)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (character >= ranges[i].first && character <= ranges[i].last)
            return ranges[i].width;
    return 1;
}

/* Returns the length in bytes of the first character of a non-empty text, and
 * sets its width in columns. A byte that is not valid UTF-8 counts as a
 * character of width 1. */
static size_t next_character(size_t *width, const char *text, size_t length)
{
    unsigned char lead = (unsigned char)text[0];
    size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    *width = 1;
    if (bytes > length || !es_text_is_utf8(text, bytes))
        return 1;
    uint32_t character = bytes == 1 ? lead : lead & (0x7fU >> bytes);
    for (size_t i = 1; i < bytes; i++)
        character = character << 6 | ((unsigned char)text[i] & 0x3fU);
    *width = width_of_character(character);
    return bytes;
}

static size_t width_of(const char *text, size_t length)
{
    size_t total = 0, width;
    for (size_t i = 0; i < length; total += width)
        i += next_character(&width, text + i, length - i);
    return total;
}

size_t es_display_width(const char *text)
{
    const char *end = text;
    while (*end && (unsigned char)*end < 0x80)
        end++;
    size_t ascii = (size_t)(end - text);
    return ascii + width_of(end, strlen(end));
}

/* Returns the offset in bytes of the first character that does not fit in
   `columns` columns. */
static size_t offset_at(const char *text, size_t length, size_t columns)
{
    size_t i = 0, used = 0, width;
    while (i < length) {
        size_t bytes = next_character(&width, text + i, length - i);
        if (used + width > columns)
            break;
        used += width;
        i += bytes;
    }
    return i;
}

void es_display_shorten(char *text, size_t width)
{
    static const char dots[] = "...";
    size_t n_dots = strlen(dots), kept = width - n_dots;
    size_t length = strlen(text), total = width_of(text, length), ignored;
    if (total <= width)
        return;
    size_t head = offset_at(text, length, kept - kept / 2);
    size_t tail = offset_at(text, length, total - kept / 2);
    /* If the cut is in the middle of a wide character, drop the character, so
       that the tail fits. */
    while (width_of(text + tail, length - tail) > kept / 2)
        tail += next_character(&ignored, text + tail, length - tail);
    if (tail < head + n_dots)
        return;
    memcpy(text + head, dots, n_dots);
    memmove(text + head + n_dots, text + tail, length - tail + 1);
}
