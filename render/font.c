/*
 * Loads the font DejaVu Sans; measures, cleans and shortens texts. The font is
 * opened by its path. A fontconfig query would take longer than drawing a
 * heatmap, would depend on the user's settings, and might select a font of
 * another weight. The folder `fonts` next to the program, which the Python
 * package includes, is searched first; fontconfig is used only if no known
 * folder has the file.
 */
#include "render/picture_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/process.h"
#include "analyzer/base/text.h"
#include <cairo-ft.h>
#include <ft2build.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include FT_FREETYPE_H

#define MEASURED_SIZE 64 /* font size for measuring; widths scale with it */
#define ELLIPSIS "\xe2\x80\xa6"
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Each font is loaded once and never freed, because Cairo's caches refer to the
 * font faces until the program ends. */
typedef struct font {
    cairo_font_face_t *face;
    cairo_scaled_font_t *measured;
} font;

static FT_Library library;
static font fonts[2];
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static const char *const folders[] = {
    "/usr/share/fonts/truetype/dejavu", /* Debian */
    "/usr/share/fonts/dejavu-sans-fonts",
    "/usr/share/fonts/TTF",
    "/usr/share/fonts/dejavu",
    "/usr/local/share/fonts/dejavu",
};

static cairo_font_face_t *face_in_folder(const char *folder, const char *name,
                                         bool *exists)
{
    char path[PATH_MAX];
    FT_Face face;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0)
        return NULL;
    *exists = true;
    if (!library || FT_New_Face(library, path, 0, &face) != 0)
        return NULL;
    return cairo_ft_font_face_create_for_ft_face(face, FT_LOAD_NO_HINTING);
}

/* Loads a font file from the first folder in which it is readable. Returns NULL
 * if no folder has such a file. *exists is set to true if any folder has the
 * file, even an unreadable one. */
static cairo_font_face_t *face_from_file(const char *name, bool *exists)
{
    char self[PATH_MAX], beside[PATH_MAX];
    cairo_font_face_t *face = NULL;
    *exists = false;
    if (es_process_self(self) && es_process_beside(beside, self, "/fonts"))
        face = face_in_folder(beside, name, exists);
    for (size_t i = 0; !face && i < sizeof folders / sizeof *folders; i++)
        face = face_in_folder(folders[i], name, exists);
    return face;
}

/* Loads a font from its file, or through fontconfig if no folder has the file.
 * The font stays empty if the file exists but cannot be read: most likely
 * memory ran out, and fontconfig would crash in that case. */
static void load_font(font *out, const char *file, cairo_font_weight_t weight)
{
    bool exists;
    out->face = face_from_file(file, &exists);
    if (!out->face && exists)
        return;
    if (!out->face)
        out->face = cairo_toy_font_face_create("DejaVu Sans",
                                               CAIRO_FONT_SLANT_NORMAL, weight);
    cairo_matrix_t size, device;
    cairo_matrix_init_scale(&size, MEASURED_SIZE, MEASURED_SIZE);
    cairo_matrix_init_identity(&device);
    cairo_font_options_t *options = es_font_options();
    out->measured =
        cairo_scaled_font_create(out->face, &size, &device, options);
    cairo_font_options_destroy(options);
}

static void load_fonts(void)
{
    if (FT_Init_FreeType(&library) != 0)
        library = NULL;
    load_font(&fonts[ES_WEIGHT_NORMAL], "DejaVuSans.ttf",
              CAIRO_FONT_WEIGHT_NORMAL);
    load_font(&fonts[ES_WEIGHT_BOLD], "DejaVuSans-Bold.ttf",
              CAIRO_FONT_WEIGHT_BOLD);
}

cairo_font_face_t *es_font_face(es_font_weight weight)
{
    pthread_once(&loaded, load_fonts);
    return fonts[weight].face;
}

cairo_font_options_t *es_font_options(void)
{
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    return options;
}

/* Returns the length in bytes of the UTF-8 character at `text`; 0 if it is
 * malformed. */
static size_t character_bytes(const unsigned char *text)
{
    if (text[0] < 0x80) /* ASCII is the usual case */
        return 1;
    for (size_t n = 2; n <= 4 && text[n - 1]; n++)
        if (es_text_is_utf8((const char *)text, n))
            return n;
    return 0;
}

size_t es_text_clean(char *out, const char *text)
{
    const unsigned char *from = (const unsigned char *)text;
    size_t length = 0;
    while (*from) {
        size_t n = character_bytes(from);
        /* Replace control characters. Also replace noncharacters, because Cairo
         * would reject the whole text. */
        static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        uint32_t code = n > 0 ? from[0] & masks[n] : 0;
        for (size_t i = 1; i < n; i++)
            code = code << 6 | (from[i] & 0x3f);
        bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
        bool reserved =
            (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
        bool shown = !control && !reserved;
        const char *source = shown ? (const char *)from : REPLACEMENT;
        size_t bytes = shown ? n : strlen(REPLACEMENT);
        if (out)
            memcpy(out + length, source, bytes);
        length += bytes;
        from += n > 0 ? n : 1;
    }
    if (out)
        out[length] = '\0';
    return length;
}

char *es_text_cleaned(const char *text)
{
    char *clean = es_resize(NULL, es_text_clean(NULL, text) + 1, 1);
    if (clean)
        es_text_clean(clean, text);
    return clean;
}

double es_drawn_width(const char *drawn, double size, es_font_weight weight)
{
    cairo_text_extents_t extents;
    pthread_once(&loaded, load_fonts);
    if (!fonts[weight].measured)
        return 0;
    cairo_scaled_font_text_extents(fonts[weight].measured, drawn, &extents);
    return extents.x_advance * size / MEASURED_SIZE;
}

/* True if memory has run out while this thread measured a text, so a width was
 * wrong; es_text_ran_out resets it. */
static _Thread_local bool ran_out;

bool es_text_ran_out(void)
{
    const bool before = ran_out;
    ran_out = false;
    return before;
}

/* Returns the width of a clean text. If memory runs out, sets ran_out and
   returns 0. */
static double clean_width(const char *clean, double size, es_font_weight weight)
{
    if (!es_text_is_bidi(clean))
        return es_drawn_width(clean, size, weight);
    es_drawn drawn = es_text_turn(clean);
    double width = drawn.text ? es_drawn_width(drawn.text, size, weight) : 0;
    ran_out = ran_out || !drawn.text;
    free(drawn.text);
    return width;
}

double es_text_width(const char *text, double size, es_font_weight weight)
{
    char *clean = es_text_cleaned(text);
    ran_out = ran_out || !clean;
    if (!clean)
        return 0;
    double width = clean_width(clean, size, weight);
    free(clean);
    return width;
}

/* Copies the first n bytes of `clean`, but not a partial last character, and
 * appends an ellipsis. */
static void cut_text(char *out, const char *clean, size_t n)
{
    while (n > 0 && ((unsigned char)clean[n] & 0xc0) == 0x80)
        n--;
    while (n > 0 && clean[n - 1] == ' ')
        n--;
    memcpy(out, clean, n);
    memcpy(out + n, ELLIPSIS, sizeof ELLIPSIS);
}

/* Copies the beginning and the end of `clean`, at most `kept` bytes in total,
   with an ellipsis in between. */
static void cut_middle(char *out, const char *clean, size_t kept)
{
    size_t n = strlen(clean), n_end = kept / 2;
    cut_text(out, clean, kept - n_end);
    while (n_end > 0 && ((unsigned char)clean[n - n_end] & 0xc0) == 0x80)
        n_end--;
    strcat(out, clean + n - n_end);
}

/* Shortens `text` to as many bytes as fit into `width`. The number is found by
 * bisection. */
static char *fit(const char *text, double width, double size,
                 es_font_weight weight,
                 void (*shorten)(char *out, const char *clean, size_t n))
{
    char *clean = es_text_cleaned(text);
    size_t n = clean ? strlen(clean) : 0;
    char *out = es_resize(NULL, n + sizeof ELLIPSIS, 1);
    if (!clean || !out)
        goto done;
    memcpy(out, clean, n + 1);
    if (clean_width(out, size, weight) <= width)
        goto done;
    /* Numbers of bytes, not counting the ellipsis. */
    size_t fits = 0, too_long = n;
    while (too_long - fits > 1) {
        size_t middle = fits + (too_long - fits) / 2;
        shorten(out, clean, middle);
        if (clean_width(out, size, weight) <= width)
            fits = middle;
        else
            too_long = middle;
    }
    shorten(out, clean, fits);
    if (!(clean_width(out, size, weight) <= width))
        out[0] = '\0';
done:
    if (!clean) {
        free(out);
        out = NULL;
    }
    free(clean);
    return out;
}

char *es_text_fit(const char *text, double width, double size,
                  es_font_weight weight)
{
    return fit(text, width, size, weight, cut_text);
}

char *es_text_fit_ends(const char *text, double width, double size,
                       es_font_weight weight)
{
    return fit(text, width, size, weight, cut_middle);
}
