/** The display list as the devices see it, and what these share. */
#ifndef ES_PICTURE_INTERNAL_H
#define ES_PICTURE_INTERNAL_H

#include "render/picture.h"
#include <cairo.h>
#include <math.h>
#include <string.h>

typedef enum es_shape_kind {
    ES_SHAPE_RECT,
    ES_SHAPE_FRAME,
    ES_SHAPE_HATCH,
    ES_SHAPE_LINE,
    ES_SHAPE_POLYLINE,
    ES_SHAPE_SPANS,
    ES_SHAPE_DOT,
    ES_SHAPE_IMAGE,
    ES_SHAPE_TEXT,
    ES_SHAPE_CLIP,
    ES_SHAPE_UNCLIP
} es_shape_kind;

/** Every number is finite; a NaN exists only among numbers[], as a gap. */
typedef struct es_picture_shape {
    es_shape_kind kind;
    es_color color;       /* fill, or stroke where nothing is filled */
    es_color stroke;      /* of a hatching */
    double x, y;          /* corner, start, middle, baseline */
    double width, height; /* of an area; from start to end of a line */
    double size;          /* line width, radius, column, font size */
    double dash;          /* of a line; 0: solid */
    double degrees;       /* of a text */
    es_align align;
    es_font_weight weight;
    size_t first, n; /* pairs of numbers, or bytes of text with the NUL */
    size_t n_columns, n_colors; /* of an image: bytes of its colours, four
                                   each, then of its n cells, at `first` */
    size_t drawn;  /* of a text: `first`, or where its es_drawn begins */
    bool leftward; /* of a text; see es_drawn */
} es_picture_shape;

struct es_picture {
    double width, height;
    es_color background;
    es_picture_shape *shapes;
    double *numbers; /* of polylines and spans */
    char *text;
    size_t n_shapes, n_numbers, n_text;
    size_t shapes_capacity, numbers_capacity, text_capacity;
    bool failed; /* an append ran out of memory */
};

/* A hatching: lines x + y = k * spacing, in points. */
#define ES_HATCH_SPACING 3.5
#define ES_HATCH_LINE 0.6 /* width of a line */

/** The end of the spans from `from` on that leave no column empty; `from` if
 *  the first does. */
static inline size_t es_spans_end(const double *spans, size_t from, size_t n)
{
    while (from < n && spans[2 * from] < spans[2 * from + 1])
        from++;
    return from;
}

/**
 * Plays the display list: PNG and PDF are drawn by it.
 *
 *   scale   device pixels per point; 0 for a device without pixels, whose
 *           unit is the point
 *
 * Returns cr's status.
 */
cairo_status_t es_picture_play(const es_picture *picture, cairo_t *cr,
                               double scale);

/** DejaVu Sans, or what stands in for it; borrowed; NULL if it could not be
 *  loaded. Any thread. */
cairo_font_face_t *es_font_face(es_font_weight weight);

/** Smooth edges, and metrics that do not depend on the size in pixels.
 *  For the caller to destroy. */
cairo_font_options_t *es_font_options(void);

/**
 * Copies `text` with U+FFFD for control characters, noncharacters (U+FFFE and
 * the like) and what is not UTF-8.
 *
 * Returns the length without the NUL; writes nothing if out is NULL.
 * out holds 3 * strlen(text) + 1 bytes.
 */
size_t es_text_clean(char *out, const char *text);

/** The same as a new string, for the caller to free; NULL out of memory. */
char *es_text_cleaned(const char *text) ES_MUST_USE;

/** True if something in a clean text runs leftward, or says how text runs:
 *  then es_text_turn says what is drawn. Otherwise it is drawn as it is. */
bool es_text_is_bidi(const char *clean);

/** What is drawn of a text, from left to right. */
typedef struct es_drawn {
    char *text;    /* (n) for the caller to free; NULL out of memory. Two
                      strings, each with its NUL: the characters to draw, and
                      for each of them the letter that it is a form of */
    size_t n;      /* bytes of both */
    bool leftward; /* it begins at the right: its first letter does */
} es_drawn;

/**
 * Turns round what runs leftward in a clean text, gives Arabic letters the
 * form that joins their neighbours and leaves out the marks that only say how
 * text runs. Unicode Standard Annex 9. O(length).
 */
es_drawn es_text_turn(const char *clean) ES_MUST_USE;

/** Colour i of an image, and its cells. Borrowed. */
static inline es_color es_image_color(const es_picture *picture,
                                      const es_picture_shape *image, size_t i)
{
    es_color color;
    memcpy(&color, picture->text + image->first + i * sizeof color,
           sizeof color);
    return color;
}

static inline const uint8_t *es_image_cells(const es_picture *picture,
                                            const es_picture_shape *image)
{
    return (const uint8_t *)picture->text + image->first +
           image->n_colors * sizeof(es_color);
}

/** How many pixels a vector file's image has for a cell, of n along `points`:
 *  viewers that smooth blur an edge by a pixel, and of these there are several
 *  a point. Repeated ones cost next to nothing. */
static inline size_t es_image_repeats(double points, size_t n)
{
    double times = ceil(4 * points / (double)n);
    return (size_t)fmax(1, fmin(times, floor(16384 / (double)n)));
}

/** 0xRRGGBB */
static inline uint32_t es_color_packed(es_color color)
{
    return (uint32_t)color.r << 16 | (uint32_t)color.g << 8 | color.b;
}

/** Advance width of characters as they are drawn; 0 without a font. */
double es_drawn_width(const char *drawn, double size, es_font_weight weight);

/** Writers of the formats; as es_picture_write. */
es_status es_picture_write_png(const es_picture *picture, FILE *out,
                               double scale, const es_picture_note *notes,
                               size_t n_notes) ES_MUST_USE;
es_status es_picture_write_svg(const es_picture *picture, FILE *out,
                               const es_picture_note *notes,
                               size_t n_notes) ES_MUST_USE;

/** es_format_check_size, of a picture in points and of a PNG in pixels. */
es_status es_picture_check_sides(double width, double height) ES_MUST_USE;
es_status es_png_check_size(double width, double height) ES_MUST_USE;

/** ES_OK, or what a Cairo status means, with its message. */
es_status es_cairo_status(cairo_status_t status) ES_MUST_USE;

/** The value of the note "Title"; NULL if there is none. */
const char *es_note_title(const es_picture_note *notes, size_t n_notes);

/** Makes an array of `used` elements of `size` bytes hold n more. pointer: its
 *  address. False out of memory; the array is then as it was. */
bool es_picture_reserve(void *pointer, size_t *capacity, size_t used, size_t n,
                        size_t size) ES_MUST_USE;

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
