/*
 * Draws a display list with characters. Cairo draws the shapes without texts
 * and without smooth edges at 2 x 4 pixels per cell; each cell then gets the
 * two colours and the character that are most similar to its pixels. Last, the
 * texts are written as characters, in places where they touch no other text.
 */
#include "render/cells.h"
#include "render/picture_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/display.h"
#include "analyzer/base/text.h"
#include <stdlib.h>

enum { ACROSS = 2, DOWN = 4, N_PIXELS = ACROSS * DOWN };

/* A pixel of a cell is bit 2 * row + column of a mask. */
enum { LEFT = 0x55, RIGHT = 0xaa, TOP = 0x0f, ALL = 0xff };

/* The state for drawing one picture. */
typedef struct sketch {
    const es_picture *picture;
    es_screen *screen;
    /* (4 * height, 2 * width) pixels as 0x..RRGGBB: `all` shows all shapes,
       `areas` all shapes except lines */
    const uint32_t *all, *areas;
    size_t stride;        /* number of pixels from one row to the next */
    double width, height; /* size of a cell in points */
    es_ink *papers;       /* (height,width) background of each cell */
    /* (height,width) true if the cell contains a character of a text */
    bool *taken;
} sketch;

/* --- shapes ---------------------------------------------------------------*/

/* Enlarges a shape to at least one pixel (`least` points), because edges are
 * not smoothed and a smaller shape might therefore disappear. An area gets a
 * height of at least two pixels, the height of a quadrant. */
static void enlarge(es_picture_shape *shape, double least)
{
    switch (shape->kind) {
    case ES_SHAPE_HATCH:
        shape->kind = ES_SHAPE_RECT;
        /* fall through */
    case ES_SHAPE_RECT:
    case ES_SHAPE_IMAGE:
        shape->width = fmax(shape->width, least);
        shape->height = fmax(shape->height, 2 * least);
        break;
    case ES_SHAPE_LINE:
    case ES_SHAPE_POLYLINE:
        shape->size = fmax(shape->size, least);
        shape->dash = shape->dash > 0 ? fmax(shape->dash, 2 * least) : 0;
        break;
    case ES_SHAPE_DOT:
        shape->size = fmax(shape->size, least);
        break;
    default:
        break;
    }
}

/* Returns true for lines, and for the thin bars that show a series with many
 * samples. Translucent bars are not lines: they shade the range of a curve. */
static bool is_line(const es_picture_shape *shape)
{
    return shape->kind == ES_SHAPE_LINE || shape->kind == ES_SHAPE_POLYLINE ||
           shape->kind == ES_SHAPE_FRAME ||
           (shape->kind == ES_SHAPE_SPANS && shape->color.a > 127);
}

/* Copies the shapes of a picture except texts and, if `lines` is false, lines.
 * The caller frees out->shapes and out->numbers; the text is borrowed. */
static es_status copy_shapes(es_picture *out, const sketch *s, bool lines)
{
    const es_picture *picture = s->picture;
    const double pixel = s->width / ACROSS;
    es_status status;
    *out = *picture;
    out->n_shapes = 0;
    out->shapes = NULL;
    out->numbers = NULL;
    if ((status = es_alloc(&out->shapes, picture->n_shapes, sizeof *out->shapes,
                           "shapes")) < 0 ||
        (status = es_alloc(&out->numbers, picture->n_numbers,
                           sizeof *out->numbers, "shapes")) < 0)
        return status;
    if (picture->n_numbers)
        memcpy(out->numbers, picture->numbers,
               picture->n_numbers * sizeof *out->numbers);
    for (size_t i = 0; i < picture->n_shapes; i++) {
        es_picture_shape shape = picture->shapes[i];
        double *spans = out->numbers + shape.first;
        if (shape.kind == ES_SHAPE_TEXT || (!lines && is_line(&shape)))
            continue;
        enlarge(&shape, pixel);
        for (size_t k = 0; shape.kind == ES_SHAPE_SPANS && k < shape.n; k++)
            if (spans[2 * k] < spans[2 * k + 1])
                spans[2 * k + 1] =
                    fmax(spans[2 * k + 1], spans[2 * k] + 2 * pixel);
        out->shapes[out->n_shapes++] = shape;
    }
    return ES_OK;
}

static es_status draw_shapes(cairo_surface_t *surface, const sketch *s,
                             bool lines)
{
    es_picture shapes;
    es_status status = copy_shapes(&shapes, s, lines);
    if (status == ES_OK) {
        cairo_t *cr = cairo_create(surface);
        cairo_set_antialias(cr, CAIRO_ANTIALIAS_NONE);
        status =
            es_cairo_status(es_picture_play(&shapes, cr, ACROSS / s->width));
        cairo_destroy(cr);
    }
    cairo_surface_flush(surface);
    free(shapes.shapes);
    free(shapes.numbers);
    return status;
}

/* --- cells ----------------------------------------------------------------*/

static es_color color_of(uint32_t packed)
{
    return (es_color){(uint8_t)(packed >> 16), (uint8_t)(packed >> 8),
                      (uint8_t)packed, 255};
}

/* Returns the squared distance of two colours. */
static int distance(uint32_t a, uint32_t b)
{
    es_color x = color_of(a), y = color_of(b);
    return (x.r - y.r) * (x.r - y.r) + (x.g - y.g) * (x.g - y.g) +
           (x.b - y.b) * (x.b - y.b);
}

static void take_pixels(uint32_t out[N_PIXELS], const sketch *s,
                        const uint32_t *pixels, int column, int row)
{
    for (int i = 0; i < N_PIXELS; i++) {
        const size_t x = (size_t)(ACROSS * column + i % ACROSS);
        const size_t y = (size_t)(DOWN * row + i / ACROSS);
        out[i] = pixels[y * s->stride + x] & 0xffffff;
    }
}

/* A cell whose pixels are reduced to two colours. */
typedef struct split {
    uint32_t paper, ink;
    unsigned mask; /* the pixels that have the colour `ink` */
} split;

/* Returns the colour with the largest product of its difference from `paper`
 * and its number of pixels. Returns `paper` if no pixel differs. */
static uint32_t find_ink(const uint32_t pixels[N_PIXELS], uint32_t paper)
{
    uint32_t ink = paper;
    int best = 0;
    for (int i = 0; i < N_PIXELS; i++) {
        int sum = 0;
        for (int k = 0; k < N_PIXELS; k++)
            sum += pixels[k] == pixels[i] ? distance(pixels[k], paper) : 0;
        if (sum > best) {
            best = sum;
            ink = pixels[i];
        }
    }
    return ink;
}

/* Returns the most frequent colour; if several are equally frequent, the first.
 */
static uint32_t find_paper(const uint32_t pixels[N_PIXELS])
{
    uint32_t paper = pixels[0];
    int n_most = 0;
    for (int i = 0; i < N_PIXELS; i++) {
        int n = 0;
        for (int k = 0; k < N_PIXELS; k++)
            n += pixels[k] == pixels[i];
        if (n > n_most) {
            n_most = n;
            paper = pixels[i];
        }
    }
    return paper;
}

/* Reduces the colours of a cell's pixels to two; each pixel gets the one that
 * is more similar to its colour. */
static split split_cell(const uint32_t pixels[N_PIXELS], uint32_t paper)
{
    split out = {.paper = paper, .ink = find_ink(pixels, paper)};
    for (int i = 0; i < N_PIXELS; i++)
        if (distance(pixels[i], out.ink) < distance(pixels[i], paper))
            out.mask |= 1u << i;
    return out;
}

static int count_bits(unsigned mask)
{
    int n = 0;
    for (; mask; mask &= mask - 1)
        n++;
    return n;
}

/* Writes the UTF-8 bytes of the character with the code point `code`, which is
 * from U+2500 to U+28FF. */
static const char *encode(char out[4], unsigned code)
{
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    out[3] = '\0';
    return out;
}

/* Returns the character for a cell that lines cross: a line character if the
 * line is straight, otherwise a Braille character with a dot for each pixel. */
static const char *line_character(char out[4], unsigned mask)
{
    /* bits of the dots of Braille characters, in the order of the mask */
    static const unsigned dots[N_PIXELS] = {1, 8, 2, 16, 4, 32, 64, 128};
    unsigned code = 0x2800;
    if (mask == LEFT || mask == RIGHT)
        return "│";
    if (mask == 0x0c || mask == 0x30)
        return "─";
    if (mask == 0x03)
        return "▔";
    if (mask == 0xc0)
        return "▁";
    for (int i = 0; i < N_PIXELS; i++)
        code += mask >> i & 1 ? dots[i] : 0;
    return encode(out, code);
}

/* Returns the block character for the pixels of an area. A block character
 * consists of four quadrants. A quadrant has the colour of its upper pixel, so
 * that straight edges stay straight. */
static const char *area_character(unsigned mask)
{
    /* indexed by a mask whose bits are, from the lowest, the upper left, upper
     * right, lower left and lower right quadrant */
    static const char *const quadrants[] = {" ", "▘", "▝", "▀", "▖", "▌",
                                            "▞", "▛", "▗", "▚", "▐", "▜",
                                            "▄", "▙", "▟", "█"};
    return quadrants[(mask & 3) | (mask >> 2 & 12)];
}

/* Returns the ASCII character for a cell that lines cross. */
static char line_mark(unsigned mask)
{
    const int upper = count_bits(mask & TOP);
    const int lower = count_bits(mask & ~(unsigned)TOP);
    const bool left = mask & LEFT, right = mask & RIGHT;
    if (upper && lower && left != right && upper + lower > 2)
        return '|';
    if (upper && !lower)
        return mask & 0x0c && left && right ? '-' : '\'';
    if (lower && !upper)
        return mask & 0xc0 && left && right ? '_' : mask & 0x30 ? '-' : '.';
    if (mask & TOP & RIGHT && mask & 0xf0 & LEFT && !(mask & 0x81))
        return '/';
    if (mask & TOP & LEFT && mask & 0xf0 & RIGHT && !(mask & 0x42))
        return '\\';
    return upper + lower > 4 ? '+' : ':';
}

static double luminance(uint32_t packed)
{
    es_color c = color_of(packed);
    return (0.299 * c.r + 0.587 * c.g + 0.114 * c.b) / 255;
}

/* Returns how much the pixels differ from the background: 0 to 1. */
static double contrast(const sketch *s, const uint32_t pixels[N_PIXELS])
{
    const double base = luminance(es_color_packed(s->picture->background));
    double sum = 0;
    for (int i = 0; i < N_PIXELS; i++)
        sum += fabs(luminance(pixels[i]) - base);
    return sum / N_PIXELS / fmax(base, 1 - base);
}

static const char *ascii_character(char out[4], const sketch *s, int column,
                                   const split *cell,
                                   const uint32_t areas[N_PIXELS], bool lines)
{
    const double faint = contrast(
        s, (uint32_t[N_PIXELS]){cell->ink, cell->ink, cell->ink, cell->ink,
                                cell->ink, cell->ink, cell->ink, cell->ink});
    const double area = contrast(s, areas);
    if (!lines)
        return area > 0 ? es_mark_ascii(area) : " ";
    /* A line of a grid is dotted, so that it is not mistaken for a curve. */
    out[0] = faint >= 0.2 ? line_mark(cell->mask) : column % 4 ? ' ' : '.';
    out[1] = '\0';
    return out;
}

static void draw_cell(sketch *s, int column, int row)
{
    uint32_t all[N_PIXELS], areas[N_PIXELS];
    take_pixels(all, s, s->all, column, row);
    take_pixels(areas, s, s->areas, column, row);
    /* In a cell at the edge of an area, the edge is drawn instead of a line
     * that crosses the cell. */
    split cell = split_cell(areas, find_paper(areas));
    const bool lines = !cell.mask && memcmp(all, areas, sizeof all) != 0;
    if (lines)
        cell = split_cell(all, cell.paper);
    es_style style = {.paper = es_ink_of(color_of(cell.paper)),
                      .ink = es_ink_of(color_of(cell.ink))};
    const char *character = " ";
    char bytes[4];
    s->papers[(size_t)row * (size_t)s->screen->width + (size_t)column] =
        style.paper;
    if (s->screen->depth == ES_DEPTH_ASCII)
        character = ascii_character(bytes, s, column, &cell, areas, lines);
    else if (lines)
        character = line_character(bytes, cell.mask);
    else if (cell.mask)
        character = area_character(cell.mask);
    if (!cell.mask)
        style.ink = 0;
    if (s->screen->depth == ES_DEPTH_ASCII)
        style = ES_PLAIN;
    es_screen_write(s->screen, column, row, 1, character, style);
}

/* Marks those cells of a hatched shape in which its fill is visible. (Hatching
   stands for NaN.) */
static void mark_hatching(sketch *s, const es_picture_shape *shape)
{
    const es_ink fill = es_ink_of(shape->color);
    const int width = s->screen->width, height = s->screen->height;
    const double right = fmin(shape->x + shape->width, s->picture->width);
    const double bottom = fmin(shape->y + shape->height, s->picture->height);
    int first = (int)fmax(0, round(shape->x / s->width));
    int row = (int)fmax(0, round(shape->y / s->height));
    for (; row < height && (row + 0.5) * s->height < bottom; row++)
        for (int x = first; x < width && (x + 0.5) * s->width < right; x++)
            if (s->papers[(size_t)row * (size_t)width + (size_t)x] == fill)
                es_screen_write(
                    s->screen, x, row, 1, "/",
                    (es_style){.ink = es_ink_of(shape->stroke), .paper = fill});
}

/* --- texts ----------------------------------------------------------------*/

/* Copies the first character of a text, with the marks of width 0 that follow
 * it. Returns its length in bytes. */
static size_t take_letter(char out[32], const char *text)
{
    size_t n = 0;
    while (text[n]) {
        size_t next = n + 1;
        while (((unsigned char)text[next] & 0xc0) == 0x80)
            next++;
        if (next >= 32)
            break;
        memcpy(out + n, text + n, next - n);
        out[next] = '\0';
        if (n > 0 && es_display_width(out + n) > 0)
            break;
        n = next;
    }
    out[n] = '\0';
    return n;
}

/* Appends the ASCII spelling of a character of the figures: "^-4" for the
 * exponent of a power, "..." for an ellipsis; other characters are unchanged.
 * The spelling is not longer than the character. *raised is true within an
 * exponent. */
static char *spell(char *to, bool *raised, const char *letter)
{
    static const char *const spellings[][2] = {
        {"−", "-"},      {"–", "-"},      {"×", "x"},     {"…", "..."},
        {"·", "."},      {"±", "+-"},     {"→", "->"},    {"≤", "<="},
        {"≥", ">="},     {"⁻", "-"},      {"⁰", "0"},     {"¹", "1"},
        {"²", "2"},      {"³", "3"},      {"⁴", "4"},     {"⁵", "5"},
        {"⁶", "6"},      {"⁷", "7"},      {"⁸", "8"},     {"⁹", "9"},
        {"\u202f", " "}, {"\u2009", " "}, {"\u00a0", " "}};
    enum { N = sizeof spellings / sizeof *spellings, RAISED = 9, END = 20 };
    size_t i = 0;
    while (i < N && strcmp(letter, spellings[i][0]) != 0)
        i++;
    const bool raises = i >= RAISED && i < END;
    if (raises && !*raised)
        *to++ = '^';
    *raised = raises;
    return stpcpy(to, i < N ? spellings[i][1] : letter);
}

/* Returns a copy of a text. If the screen can show only ASCII, the copy is
 * spelled with ASCII characters. The caller frees the copy; it is NULL if
 * memory runs out. */
static char *written_text(const sketch *s, const char *text)
{
    char letter[32], *copy = strdup(text), *to = copy;
    bool raised = false;
    if (!copy || s->screen->depth != ES_DEPTH_ASCII)
        return copy;
    while (*text) {
        text += take_letter(letter, text);
        to = spell(to, &raised, letter);
    }
    return copy;
}

/* Returns true if a text of `n` cells that begins at (x, y), horizontal or
 * downwards, would touch no other text. */
static bool is_free(const sketch *s, int x, int y, int n, bool upright)
{
    const int width = s->screen->width, height = s->screen->height;
    for (int i = -1; i <= n; i++) {
        const int column = upright ? x : x + i, row = upright ? y + i : y;
        if (column < 0 || row < 0 || column >= width || row >= height) {
            if (i >= 0 && i < n)
                return false;
        } else if (s->taken[(size_t)row * (size_t)width + (size_t)column])
            return false;
    }
    return true;
}

static void put_letters(sketch *s, int x, int y, const char *text, bool upright,
                        es_style style)
{
    char letter[32];
    while (*text && x < s->screen->width && y < s->screen->height) {
        const size_t at = (size_t)y * (size_t)s->screen->width + (size_t)x;
        text += take_letter(letter, text);
        style.paper = s->papers[at];
        const int n = es_screen_write(s->screen, x, y, s->screen->width - x,
                                      letter, style);
        for (int i = 0; i < n; i++)
            s->taken[at + (size_t)i] = true;
        x += upright ? 0 : n;
        y += upright ? n > 0 : 0;
    }
}

/* Writes `text`, the characters for a text shape of the picture, at the nearest
 * position at which it touches no other text. */
static void place_text(sketch *s, const es_picture_shape *shape,
                       const char *text)
{
    static const double before[] = {
        [ES_ALIGN_START] = 0, [ES_ALIGN_MIDDLE] = 0.5, [ES_ALIGN_END] = 1};
    static const int moves[] = {0, 1, -1};
    const bool upright = fabs(shape->degrees - 90) < 45;
    /* Height of a character's middle above the baseline. */
    const double middle = 0.36 * shape->size;
    const int most = upright ? s->screen->height : s->screen->width;
    const int n_columns = (int)fmin((double)es_display_width(text), 1e6);
    const int n = n_columns < most ? n_columns : most;
    double x = shape->x / s->width, y = shape->y / s->height;
    if (upright) {
        x -= middle / s->width;
        /* the text runs downwards, so its end is at the bottom */
        y -= n * (1 - before[shape->align]);
    } else {
        x = round(x - n * before[shape->align]);
        /* Round the vertical middle of the text in the same way as the position
         * of a line, so that a text and the swatch before it are in the same
         * row. */
        y = shape->y - middle;
        y = (round(y * DOWN / s->height - 0.5) + 0.5) / DOWN;
    }
    const int column = (int)floor(fmax(-1e6, fmin(x, 1e6)));
    const int row = (int)floor(fmax(-1e6, fmin(upright ? round(y) : y, 1e6)));
    /* True if the row below is the second nearest to the text, false if the row
     * above is. */
    const bool below = y - floor(y) > 0.5;
    const es_style style = {
        .ink = s->screen->depth == ES_DEPTH_ASCII ? 0 : es_ink_of(shape->color),
        .bold = shape->weight == ES_WEIGHT_BOLD};
    for (int i = 0; i < 9; i++) {
        /* try positions along the line first, then positions in adjacent
         * rows */
        int across = moves[i % 3], down = moves[i / 3];
        down = below ? down : -down;
        int left = column + (upright ? down : across);
        int top = row + (upright ? across : down);
        if (left + (upright ? 1 : n) > s->screen->width)
            left = s->screen->width - (upright ? 1 : n);
        if (top + (upright ? n : 1) > s->screen->height)
            top = s->screen->height - (upright ? n : 1);
        left = left > 0 ? left : 0;
        top = top > 0 ? top : 0;
        if (!is_free(s, left, top, n, upright))
            continue;
        put_letters(s, left, top, text, upright, style);
        return;
    }
}

/* --- the picture ----------------------------------------------------------*/

static es_status draw_cells(sketch *s)
{
    const es_picture *picture = s->picture;
    for (int row = 0; row < s->screen->height; row++)
        for (int column = 0; column < s->screen->width; column++)
            draw_cell(s, column, row);
    for (size_t i = 0; i < picture->n_shapes; i++)
        if (picture->shapes[i].kind == ES_SHAPE_HATCH)
            mark_hatching(s, &picture->shapes[i]);
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *shape = &picture->shapes[i];
        if (shape->kind != ES_SHAPE_TEXT)
            continue;
        char *text = written_text(s, picture->text + shape->first);
        if (!text)
            return es_fail(ES_ENOMEM, "picture: out of memory");
        place_text(s, shape, text);
        free(text);
    }
    return ES_OK;
}

static const uint32_t *pixels_of(cairo_surface_t *surface)
{
    return (const uint32_t *)(const void *)cairo_image_surface_get_data(
        surface);
}

es_status es_cells_draw(es_screen **out, const es_picture *picture, int columns,
                        es_depth depth)
{
    const double cell = columns > 0
                            ? fmax(ES_CELL_WIDTH, picture->width / columns)
                            : ES_CELL_WIDTH;
    sketch s = {.picture = picture,
                .width = cell,
                .height = cell * ES_CELL_HEIGHT / ES_CELL_WIDTH};
    const int width = (int)ceil(picture->width / s.width - 1e-6);
    const int height = (int)ceil(picture->height / s.height - 1e-6);
    const size_t n = (size_t)width * (size_t)height;
    cairo_surface_t *surfaces[2] = {NULL, NULL};
    es_status status;
    if (n > ES_CELLS_MOST)
        return es_fail(ES_EUSAGE,
                       "a drawing of %dx%d characters is too large (at most %d "
                       "million are possible): make it smaller",
                       width, height, ES_CELLS_MOST / 1000000);
    if ((status = es_picture_check_ready(picture)) < 0 ||
        (status = es_screen_new(&s.screen, depth, width, height)) < 0 ||
        (status = es_alloc(&s.papers, n, sizeof *s.papers, "a drawing")) < 0 ||
        (status = es_alloc(&s.taken, n, sizeof *s.taken, "a drawing")) < 0)
        goto done;
    for (int i = 0; i < 2; i++) {
        surfaces[i] = cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                                 ACROSS * width, DOWN * height);
        if ((status = draw_shapes(surfaces[i], &s, i == 0)) < 0)
            goto done;
    }
    s.all = pixels_of(surfaces[0]);
    s.areas = pixels_of(surfaces[1]);
    s.stride = (size_t)cairo_image_surface_get_stride(surfaces[0]) / 4;
    if ((status = draw_cells(&s)) < 0)
        goto done;
    *out = s.screen;
    s.screen = NULL;
done:
    for (int i = 0; i < 2; i++)
        cairo_surface_destroy(surfaces[i]);
    es_screen_free(s.screen);
    free(s.papers);
    free(s.taken);
    return status;
}

es_status es_cells_print(const es_picture *picture, FILE *out, int columns,
                         es_depth depth)
{
    es_screen *screen = NULL;
    es_status status = es_cells_draw(&screen, picture, columns, depth);
    if (status == ES_OK)
        es_screen_print(screen, out);
    es_screen_free(screen);
    return status;
}
