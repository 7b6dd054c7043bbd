/* Implements the grid of character cells. When text from run files is written
 * into the grid, it is measured and unsafe characters are replaced; when the
 * grid is printed, escape sequences are emitted only where colours change. */
#include "render/screen.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/display.h"
#include "analyzer/base/text.h"

#include <stdarg.h>
#include <string.h>

enum {
    TAG_SIXTEEN = 1, /* top byte of an es_ink that contains one of the
                        terminal's sixteen colours; TAG_RGB is used for a 24-bit
                        colour */
    TAG_RGB = 2,
    /* Size in bytes of a cell's text, enough for a character with one or two
     * accents. */
    CELL_BYTES = 8,
};

/* A cell of the grid. A wide character is stored in the left of its two cells;
 * the right cell has no text and is marked as `covered`. A cell with empty text
 * is drawn as a space. */
typedef struct es_screen_cell {
    char text[CELL_BYTES];
    es_style style;
    bool covered;
} cell;

es_ink es_ink_of(es_color color)
{
    return (uint32_t)TAG_RGB << 24 | (uint32_t)color.r << 16 |
           (uint32_t)color.g << 8 | color.b;
}

/* The six levels of a channel in xterm's colour cube are 0, 95, 135, 175, 215
 * and 255. */
static int cube_step(int channel)
{
    return channel < 48 ? 0 : channel < 115 ? 1 : (channel - 35) / 40;
}

int es_ink_cube(es_color color)
{
    return 16 + 36 * cube_step(color.r) + 6 * cube_step(color.g) +
           cube_step(color.b);
}

es_status es_screen_new(es_screen **out, es_depth depth, int width, int height)
{
    es_screen *screen;
    cell *cells;
    es_status status = es_alloc(&screen, 1, sizeof *screen, "a screen");
    if (status < 0)
        return status;
    if ((status = es_alloc(&cells, (size_t)width * (size_t)height,
                           sizeof *cells, "a screen")) < 0) {
        free(screen);
        return status;
    }
    *screen = (es_screen){depth, width, height, cells};
    *out = screen;
    return ES_OK;
}

void es_screen_free(es_screen *screen)
{
    if (!screen)
        return;
    free(screen->cells);
    free(screen);
}

/* --- writing --------------------------------------------------------------*/

/* Copies the first character of `text` to `out`. Returns its length in
 * bytes. */
static size_t take_character(char out[5], const char *text)
{
    unsigned char lead = (unsigned char)*text;
    size_t n = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (strnlen(text, n) < n || !es_text_is_utf8(text, n))
        n = 1;
    memcpy(out, text, n);
    out[n] = 0;
    return n;
}

/* Returns true for zero-width characters other than accents. Such characters
   change the direction of the following text or the width of an emoji. */
static bool steers(const char *character)
{
    unsigned char lead = (unsigned char)*character;
    return lead == 0xe2 || lead == 0xef || lead == 0xf3;
}

static bool is_printable(const es_screen *screen, const char *character)
{
    unsigned char lead = (unsigned char)*character;
    if (lead < 0x80)
        return lead >= 0x20 && lead != 0x7f;
    bool c1 = lead == 0xc2 && (unsigned char)character[1] < 0xa0;
    return screen->depth != ES_DEPTH_ASCII && character[1] && !c1;
}

static cell *cell_at(const es_screen *screen, int x, int y)
{
    return &screen->cells[(size_t)y * (size_t)screen->width + (size_t)x];
}

int es_screen_write(es_screen *screen, int x, int y, int columns,
                    const char *text, es_style style)
{
    int used = 0;
    char character[5];
    if (y < 0 || y >= screen->height || x < 0)
        return 0;
    if (columns > screen->width - x)
        columns = screen->width - x;
    while (*text) {
        text += take_character(character, text);
        int width = (int)es_display_width(character);
        bool printable = is_printable(screen, character);
        if (used + width > columns)
            break;
        if (width == 0) {
            cell *to = used > 0 ? cell_at(screen, x + used - 1, y) : NULL;
            if (to && printable && !steers(character) &&
                strlen(to->text) + strlen(character) < CELL_BYTES)
                strcat(to->text, character);
            continue;
        }
        for (int i = 0; i < width; i++) {
            cell *to = cell_at(screen, x + used + i, y);
            *to = (cell){.style = style, .covered = printable && i > 0};
            if (!to->covered)
                strcpy(to->text, printable ? character : "?");
        }
        used += width;
    }
    return used;
}

int es_screen_say(es_screen *screen, int x, int y, int columns, es_style style,
                  const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (columns > screen->width - x)
        columns = screen->width - x;
    if ((int)es_display_width(text) > columns)
        return 0;
    return es_screen_write(screen, x, y, columns, text, style);
}

void es_screen_copy_row(es_screen *screen, int y, const es_screen *from,
                        int from_y)
{
    const int n = from->width < screen->width ? from->width : screen->width;
    if (y < 0 || y >= screen->height || from_y < 0 || from_y >= from->height)
        return;
    memcpy(cell_at(screen, 0, y), cell_at(from, 0, from_y),
           (size_t)n * sizeof(cell));
}

/* --- printing -------------------------------------------------------------*/

static bool same_style(const es_style *a, const es_style *b)
{
    return a->ink == b->ink && a->paper == b->paper && a->bold == b->bold &&
           a->faint == b->faint;
}

/* Prints the part of an escape sequence (SGR) that sets a colour. `base` is 30
 * for the colour of the text, 40 for the background. */
static void print_ink(es_depth depth, es_ink ink, int base, FILE *out)
{
    es_color color = {
        .r = (uint8_t)(ink >> 16), .g = (uint8_t)(ink >> 8), .b = (uint8_t)ink};
    if (ink >> 24 == TAG_SIXTEEN)
        fprintf(out, ";%d", base + (int)(ink & 7));
    else if (ink >> 24 == TAG_RGB && depth == ES_DEPTH_TRUE)
        fprintf(out, ";%d;2;%d;%d;%d", base + 8, color.r, color.g, color.b);
    else if (ink >> 24 == TAG_RGB)
        fprintf(out, ";%d;5;%d", base + 8, es_ink_cube(color));
}

void es_screen_print_row(const es_screen *screen, int y, FILE *out)
{
    const cell *row = cell_at(screen, 0, y);
    es_style current = ES_PLAIN;
    int n = screen->width;
    while (n > 0 && !row[n - 1].covered && !row[n - 1].style.paper &&
           (!*row[n - 1].text || strcmp(row[n - 1].text, " ") == 0))
        n--;
    for (int x = 0; x < n; x++) {
        const cell *c = &row[x];
        if (c->covered)
            continue;
        if (screen->depth != ES_DEPTH_ASCII &&
            !same_style(&c->style, &current)) {
            current = c->style;
            fprintf(out, "\033[0%s%s", current.bold ? ";1" : "",
                    current.faint ? ";2" : "");
            print_ink(screen->depth, current.ink, 30, out);
            print_ink(screen->depth, current.paper, 40, out);
            fputc('m', out);
        }
        fputs(*c->text ? c->text : " ", out);
    }
    if (!same_style(&current, &ES_PLAIN))
        fputs("\033[0m", out);
}

void es_screen_print(const es_screen *screen, FILE *out)
{
    for (int y = 0; y < screen->height; y++) {
        es_screen_print_row(screen, y, out);
        fputc('\n', out);
    }
}

/* --- marks ----------------------------------------------------------------*/

const char *es_mark_broken_text(const es_screen *screen)
{
    return screen->depth == ES_DEPTH_ASCII ? "x" : "×";
}

void es_mark_broken(es_screen *screen, int x, int y)
{
    es_screen_write(screen, x, y, 1, es_mark_broken_text(screen),
                    ES_BROKEN_STYLE);
}

const char *es_mark_ascii(double share)
{
    static const char *const shades[] = {".", ":", "-", "=", "+",
                                         "*", "#", "%", "@"};
    enum { N = sizeof shades / sizeof *shades };
    int shade = share > 0 ? (int)(share * N) : 0;
    return shades[shade < N ? shade : N - 1];
}

void es_mark_shade(es_screen *screen, int x, int y, es_colormap map,
                   double share)
{
    if (screen->depth == ES_DEPTH_ASCII)
        es_screen_write(screen, x, y, 1, es_mark_ascii(share), ES_PLAIN);
    else
        es_screen_write(
            screen, x, y, 1, " ",
            (es_style){.paper = es_ink_of(es_colormap_at(map, share))});
}
