/* Puts right-to-left text into visual order, so that texts can be measured and
 * drawn. FriBidi implements the rules. Most texts are purely left-to-right and
 * skip this step. */
#include "render/picture_internal.h"

#include "analyzer/base/checked.h"
#include <fribidi.h>
#include <limits.h>

/* Returns the code point at *text, and moves *text to the next one. */
static uint32_t next_code(const unsigned char **text)
{
    const unsigned char *at = *text;
    uint32_t code = at[0];
    size_t n = code < 0x80 ? 1 : code < 0xe0 ? 2 : code < 0xf0 ? 3 : 4;
    if (n > 1)
        code &= 0x7fu >> n;
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (at[i] & 0x3fu);
    *text = at + n;
    return code;
}

/* Returns true if a code point belongs to a right-to-left script or is a
 * directional mark. */
static bool is_bidi(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        {0x590, 0x8ff},     {0x200e, 0x200f},   {0x202a, 0x202e},
        {0x2066, 0x2069},   {0xfb1d, 0xfdff},   {0xfe70, 0xfeff},
        {0x10800, 0x10fff}, {0x1e800, 0x1efff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

bool es_text_is_bidi(const char *clean)
{
    const unsigned char *at = (const unsigned char *)clean;
    while (*at)
        /* No right-to-left character begins with a smaller byte. */
        if (*at < 0xd6)
            at++;
        else if (is_bidi(next_code(&at)))
            return true;
    return false;
}

/* A line of n characters with the properties that FriBidi determines. */
typedef struct line {
    /* Number of characters; decreases when marks are removed. */
    FriBidiStrIndex n;
    FriBidiParType
        base; /* base direction of the line: left-to-right or right-to-left */
    FriBidiChar *read; /* the n characters in logical order */
    /* The n characters in visual order, with Arabic letters in their joined
     * forms. */
    FriBidiChar *drawn;
    /* For each of the n characters in `drawn`, its index in `read`. */
    FriBidiStrIndex *places;
    FriBidiCharType *types;       /* (n) */
    FriBidiBracketType *brackets; /* (n) */
    FriBidiLevel *levels;         /* (n) */
    FriBidiJoiningType *joining;  /* (n) */
} line;

/* Allocates the arrays for n characters as one block, out->read, which the
 * caller frees. Returns false if memory runs out. */
static bool line_new(line *out, size_t n)
{
    const size_t each = sizeof *out->read + sizeof *out->drawn +
                        sizeof *out->places + sizeof *out->types +
                        sizeof *out->brackets + sizeof *out->levels +
                        sizeof *out->joining;
    *out = (line){.base = FRIBIDI_PAR_ON};
    out->read = n <= INT_MAX ? calloc(n + 1, each) : NULL;
    if (!out->read)
        return false;
    out->drawn = out->read + n;
    out->places = (FriBidiStrIndex *)(out->drawn + n);
    out->types = (FriBidiCharType *)(out->places + n);
    out->brackets = out->types + n;
    out->levels = (FriBidiLevel *)(out->brackets + n);
    out->joining = (FriBidiJoiningType *)(out->levels + n);
    return true;
}

/*
 * Puts l->drawn into visual order; returns false if memory runs out. In the
 * result, combining marks precede their letters, because DejaVu Sans draws
 * marks to the right of the pen.
 */
static bool reorder(line *l)
{
    const FriBidiFlags flags = FRIBIDI_FLAG_SHAPE_MIRRORING |
                               FRIBIDI_FLAG_REMOVE_SPECIALS |
                               FRIBIDI_FLAGS_ARABIC;
    fribidi_get_bidi_types(l->read, l->n, l->types);
    fribidi_get_bracket_types(l->read, l->n, l->types, l->brackets);
    if (!fribidi_get_par_embedding_levels_ex(l->types, l->brackets, l->n,
                                             &l->base, l->levels))
        return false;
    fribidi_get_joining_types(l->read, l->n, l->joining);
    fribidi_join_arabic(l->types, l->n, l->levels, l->joining);
    fribidi_shape(flags, l->levels, l->n, l->joining, l->drawn);
    if (!fribidi_reorder_line(flags, l->types, l->n, 0, l->base, l->levels,
                              l->drawn, l->places))
        return false;
    l->n = fribidi_remove_bidi_marks(l->drawn, l->n, NULL, l->places, NULL);
    return l->n >= 0;
}

/* Writes l->drawn as UTF-8 with a NUL. Returns the address after the NUL. */
static char *write_line(char *out, const line *l)
{
    return out + 1 +
           fribidi_unicode_to_charset(FRIBIDI_CHAR_SET_UTF8, l->drawn, l->n,
                                      out);
}

es_drawn es_text_turn(const char *clean)
{
    const size_t longest = 4; /* maximum number of bytes per character */
    const unsigned char *at = (const unsigned char *)clean;
    es_drawn out = {0};
    line l;
    if (!line_new(&l, strlen(clean)))
        return out;
    for (; *at; l.n++) {
        l.read[l.n] = l.drawn[l.n] = next_code(&at);
        l.places[l.n] = l.n;
    }
    if (reorder(&l))
        out.text = malloc(2 * (longest * (size_t)l.n + 1));
    if (out.text) {
        char *letters = write_line(out.text, &l);
        /* Store the original letter of each drawn form. The ligatures of lam
         * and alef stay ligatures, because PDF readers disagree about the order
         * of two letters in one glyph. */
        for (FriBidiStrIndex i = 0; i < l.n; i++)
            if (!(l.drawn[i] >= 0xfef5 && l.drawn[i] <= 0xfefc))
                l.drawn[i] = l.read[l.places[i]];
        out.n = (size_t)(write_line(letters, &l) - out.text);
        out.leftward = FRIBIDI_IS_RTL(l.base);
    }
    free(l.read);
    return out;
}
