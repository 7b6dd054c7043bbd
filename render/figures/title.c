/*
 * Draws titles. The notation of an architecture is typeset; other texts are
 * drawn unchanged. Titles that are too wide are cut.
 */
#include "render/figures/title.h"

#include "analyzer/arch/arch.h"
#include "render/picture_internal.h"
#include <stdlib.h>

#define THIN_SPACE "\xe2\x80\x89" /* U+2009 */
#define ELLIPSIS "\xe2\x80\xa6"
/* Beginning of those names in an architecture's notation that end in an index,
 * such as ScFuFFNi6. */
#define INDEXED "ScFuFFN"

/* Gap before a smaller character, relative to the font size. */
#define KERN 0.05
#define LEAST_SIZE 5.0

typedef enum rank { ON_LINE, SUBSCRIPT, INDEX } rank;

static const double sizes[] = {1, 0.74, 0.6};
static const double drops[] = {0, 0.17, 0.28};

/* Consecutive characters of the same size. */
typedef struct part {
    /* Determines the size and the vertical position of the characters. */
    rank rank;
    size_t first; /* offset of the first character in `text` */
} part;

/* Texts of more than LONGEST bytes are drawn unchanged. */
enum { LONGEST = ES_ARCH_TEXT_MAX - 1, MOST_PARTS = 4 };

typedef struct title {
    /* A plus sign with its thin spaces takes 7 bytes. */
    char text[7 * ES_ARCH_TEXT_MAX + MOST_PARTS];
    size_t n_text;
    part parts[MOST_PARTS];
    size_t n_parts;
} title;

/* --- parts ----------------------------------------------------------------*/

static void add(title *t, rank r, const char *text, size_t n)
{
    bool goes_on = t->n_parts > 0 && t->parts[t->n_parts - 1].rank == r;
    if (!goes_on) {
        if (t->n_text > 0)
            t->n_text++; /* keep the NUL of the previous part */
        t->parts[t->n_parts++] = (part){r, t->n_text};
    }
    memcpy(t->text + t->n_text, text, n);
    t->n_text += n;
    t->text[t->n_text] = '\0';
}

/* Adds "ScFuFFNi6" or "ScFuFFNe6" to the title if `text` begins with this
 * notation. Returns its length in bytes, otherwise 0. */
static size_t add_indexed(title *t, const char *text)
{
    size_t n = strlen(INDEXED);
    if (strncmp(text, INDEXED, n) != 0 || (text[n] != 'i' && text[n] != 'e'))
        return 0;
    size_t n_digits = strspn(text + n + 1, "0123456789");
    add(t, ON_LINE, INDEXED, n);
    add(t, SUBSCRIPT, text + n, 1);
    add(t, INDEX, text + n + 1, n_digits);
    return n + 1 + n_digits;
}

bool es_title_is_arch(const char *text)
{
    es_arch arch;
    return strlen(text) <= LONGEST && es_arch_parse(&arch, text) == ES_OK;
}

/* Returns the length in bytes of the architecture at the beginning of a text;
 * the rest may be " (3 seeds)" or ", γ = 0.2". Returns 0 if the text does not
 * begin with an architecture, or if the architecture is too long. */
static size_t arch_bytes(const char *text)
{
    static const char *const ends[] = {" (", ", "};
    char start[ES_ARCH_TEXT_MAX];
    if (es_title_is_arch(text))
        return strlen(text);
    for (size_t i = 0; strlen(text) <= LONGEST && i < 2; i++) {
        const char *end = strstr(text, ends[i]);
        if (!end)
            continue;
        snprintf(start, sizeof start, "%.*s", (int)(end - text), text);
        if (es_title_is_arch(start))
            return (size_t)(end - text);
    }
    return 0;
}

/* Splits the notation of an architecture into parts. Returns false if the text
 * is not such a notation. */
static bool typeset(title *out, const char *text)
{
    char packed[ES_ARCH_TEXT_MAX], *end = packed;
    const size_t n_arch = arch_bytes(text);
    *out = (title){.n_text = 0};
    if (!n_arch)
        return false;
    for (size_t i = 0; i < n_arch; i++)
        if (text[i] != ' ' && text[i] != '\t')
            *end++ = text[i];
    *end = '\0';
    text += n_arch;
    for (const char *from = packed; *from;) {
        size_t n = add_indexed(out, from);
        /* The plus sign in 1e+3 does not separate parts. */
        bool plus = *from == '+' && !(from > packed && from[-1] == 'e');
        if (n == 0 && plus)
            add(out, ON_LINE, THIN_SPACE "+" THIN_SPACE,
                strlen(THIN_SPACE "+" THIN_SPACE));
        else if (n == 0)
            add(out, ON_LINE, from, 1);
        if (n == 0 && *from == ',')
            add(out, ON_LINE, THIN_SPACE, strlen(THIN_SPACE));
        from += n > 0 ? n : 1;
    }
    if (*text)
        add(out, ON_LINE, text, strlen(text));
    return true;
}

/* Draws the parts of a title from x on, unless `picture` is NULL. Returns the x
 * coordinate of their right end. */
static double lay_parts(es_picture *picture, double x, double y, double size,
                        es_font_weight weight, es_color color, const title *t)
{
    for (size_t i = 0; i < t->n_parts; i++) {
        rank r = t->parts[i].rank;
        const char *letters = t->text + t->parts[i].first;
        double kern = r == ON_LINE ? 0 : KERN * size;
        double own = fmax(sizes[r] * size, fmin(size, LEAST_SIZE));
        if (picture)
            es_picture_text(picture, x + kern, y + drops[r] * size, own,
                            ES_ALIGN_START, weight, 0, color, letters);
        x += kern + es_text_width(letters, own, weight);
    }
    return x;
}

double es_title_width(const char *text, double size, es_font_weight weight)
{
    title t;
    return typeset(&t, text)
               ? lay_parts(NULL, 0, 0, size, weight, (es_color){0}, &t)
               : es_text_width(text, size, weight);
}

/* --- drawing --------------------------------------------------------------*/

/* Draws the notation of an architecture if it fits. Returns true if it was
 * drawn. */
static bool draw_typeset(es_picture *picture, double x, double y, double size,
                         es_align align, es_font_weight weight, es_color color,
                         const title *t, double width)
{
    static const double before[] = {
        [ES_ALIGN_START] = 0, [ES_ALIGN_MIDDLE] = 0.5, [ES_ALIGN_END] = 1};
    double wanted = lay_parts(NULL, 0, 0, size, weight, color, t);
    if (wanted <= width)
        lay_parts(picture, x - before[align] * wanted, y, size, weight, color,
                  t);
    return wanted <= width;
}

void es_draw_fitted(es_picture *picture, double x, double y, double size,
                    es_align align, es_font_weight weight, es_color color,
                    const char *text, double width)
{
    title t;
    char cut[sizeof t.text + sizeof ELLIPSIS];
    if (typeset(&t, text)) {
        if (draw_typeset(picture, x, y, size, align, weight, color, &t, width))
            return;
        /* Draw only the part before the first subscript, cut so that the
         * ellipsis fits. */
        snprintf(cut, sizeof cut, "%s%s", t.text,
                 t.n_parts == 1 ? "" : ELLIPSIS);
        text = cut;
    }
    char *fitted = es_text_fit(text, width, size, weight);
    if (fitted)
        es_picture_text(picture, x, y, size, align, weight, 0, color, fitted);
    else
        picture->failed = true;
    free(fitted);
}

void es_draw_run_name(es_picture *picture, double x, double y, double size,
                      es_font_weight weight, es_color color, const char *text,
                      double width)
{
    title t;
    if (typeset(&t, text) && draw_typeset(picture, x, y, size, ES_ALIGN_START,
                                          weight, color, &t, width))
        return;
    char *fitted = es_text_fit_ends(text, width, size, weight);
    if (fitted)
        es_picture_text(picture, x, y, size, ES_ALIGN_START, weight, 0, color,
                        fitted);
    else
        picture->failed = true;
    free(fitted);
}

/* Returns the length in bytes of one line: the whole text if it fits; otherwise
 * up to the last comma that fits, or up to the first comma if none fits. */
static size_t line_bytes(const char *text, double width, double size,
                         es_font_weight weight)
{
    char line[256];
    const size_t whole = strlen(text);
    size_t best = whole;
    if (es_title_width(text, size, weight) <= width)
        return whole;
    for (const char *comma = strstr(text, ", "); comma;
         comma = strstr(comma + 1, ", ")) {
        const size_t n = (size_t)(comma - text);
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        if (n >= sizeof line ||
            (best < whole && es_title_width(line, size, weight) > width))
            break;
        best = n;
    }
    return best;
}

size_t es_draw_run_lines(es_picture *picture, double x, double y, double size,
                         es_font_weight weight, es_color color,
                         const char *text, double width, double line_height,
                         size_t most)
{
    char line[256];
    size_t n = 0;
    while (*text) {
        const size_t bytes =
            ++n < most ? line_bytes(text, width, size, weight) : strlen(text);
        const bool cut = text[bytes] && bytes < sizeof line;
        if (cut)
            snprintf(line, sizeof line, "%.*s", (int)bytes, text);
        if (picture)
            es_draw_run_name(picture, x, y, size, weight, color,
                             cut ? line : text, width);
        text += bytes + (text[bytes] ? strlen(", ") : 0);
        y += line_height;
    }
    return n;
}

void es_draw_small(const es_canvas *canvas, double x, double y, es_align align,
                   es_color color, const char *text, double width)
{
    es_draw_fitted(canvas->picture, x, y, ES_SMALL_SIZE, align,
                   ES_WEIGHT_NORMAL, color, text, width);
}

void es_draw_label(const es_canvas *canvas, double x, double y, es_align align,
                   es_color color, const char *text)
{
    es_picture_text(canvas->picture, x, y, ES_SMALL_SIZE, align,
                    ES_WEIGHT_NORMAL, 0, color, text);
}

void es_draw_name(const es_canvas *canvas, double x, double y, double degrees,
                  es_color color, const char *text)
{
    es_picture_text(canvas->picture, x, y, ES_LABEL_SIZE, ES_ALIGN_MIDDLE,
                    ES_WEIGHT_NORMAL, degrees, color, text);
}
