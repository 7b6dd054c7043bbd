/** The display list as the writers of render/ see it, and the helpers that they
 *  share: text, fonts, growing buffers. */
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

/** Every number is finite, except that a NaN in numbers[] marks a gap. */
typedef struct es_picture_shape {
    es_shape_kind kind;
    es_color color;       /* of the fill, or of the stroke of unfilled shapes */
    es_color stroke;      /* lines of a hatching */
    double x, y;          /* corner, start of a line, centre, or baseline */
    double width, height; /* of an area, or from start to end of a line */
    double size;          /* line width, radius, column width or font size */
    double dash;          /* of a line; 0 if solid */
    double degrees;       /* rotation of a text */
    es_align align;
    es_font_weight weight;
    size_t first, n; /* range of pairs in numbers[], or of bytes in text[] with
                        the NUL */
    size_t n_columns, n_colors; /* of an image; text[] has n_colors es_color
                                   and then n cells from `first` on */
    size_t drawn;  /* of a text: start of its es_drawn; otherwise `first` */
    bool leftward; /* of a text; see es_drawn */
} es_picture_shape;

struct es_picture {
    double width, height;
    es_color background;
    es_picture_shape *shapes;
    double *numbers; /* coordinates of polylines and spans */
    char *text;
    size_t n_shapes, n_numbers, n_text;
    size_t shapes_capacity, numbers_capacity, text_capacity;
    bool failed; /* an append ran out of memory */
};

/* A hatching: lines x + y = k * spacing, in points. */
#define ES_HATCH_SPACING 3.5
#define ES_HATCH_LINE 0.6 /* width of a line */

/** Returns the end of the run of non-empty columns that begins at `from`;
 *  `from` if that column is empty. */
static inline size_t es_spans_end(const double *spans, size_t from, size_t n)
{
    while (from < n && spans[2 * from] < spans[2 * from + 1])
        from++;
    return from;
}

/**
 * Draws the display list on a Cairo context, for PNG and PDF.
 *
 *   scale   device pixels per point; 0 for a device without pixels, whose
 *           unit is the point
 *
 * Returns the status of cr.
 */
cairo_status_t es_picture_play(const es_picture *picture, cairo_t *cr,
                               double scale);

/** Returns DejaVu Sans or its substitute, borrowed; NULL if it could not be
 *  loaded. Any thread. */
cairo_font_face_t *es_font_face(es_font_weight weight);

/** Returns options for smooth edges and for metrics that do not depend on the
 *  size in pixels. The caller destroys them. */
cairo_font_options_t *es_font_options(void);

/**
 * Copies `text`, replacing control characters, noncharacters (such as U+FFFE)
 * and invalid UTF-8 by U+FFFD.
 *
 *   out  capacity of 3 * strlen(text) + 1 bytes; NULL to write nothing
 *
 * Returns the length without the NUL.
 */
size_t es_text_clean(char *out, const char *text);

/** Returns the cleaned text as a new string, which the caller frees; NULL if
 *  memory runs out. */
char *es_text_cleaned(const char *text) ES_MUST_USE;

/** Returns true if a clean text has right-to-left characters or directional
 *  marks, so that es_text_turn must reorder it. Other text is drawn as it
 *  is. */
bool es_text_is_bidi(const char *clean);

/** A text as it is drawn, in visual order from left to right. */
typedef struct es_drawn {
    char *text;    /* (n) the caller frees it; NULL if memory ran out. Two
                      strings, each with its NUL: the characters to draw, and
                      the letter that each of them is a form of */
    size_t n;      /* bytes of both strings */
    bool leftward; /* the first letter is right-to-left: begins at the right */
} es_drawn;

/**
 * Puts a clean text into visual order: reverses right-to-left words, joins
 * Arabic letters and removes directional marks. Unicode Standard Annex 9.
 * O(length).
 */
es_drawn es_text_turn(const char *clean) ES_MUST_USE;

/** Return colour i of an image, and its cells, which are borrowed. */
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

/** Returns how many pixels a vector file stores per cell, for n cells along
 *  `points` points. A viewer that smooths images blurs edges by one pixel, so
 *  there are several pixels per point; repeated pixels compress well. */
static inline size_t es_image_repeats(double points, size_t n)
{
    double times = ceil(4 * points / (double)n);
    return (size_t)fmax(1, fmin(times, floor(16384 / (double)n)));
}

/** Returns 0xRRGGBB. */
static inline uint32_t es_color_packed(es_color color)
{
    return (uint32_t)color.r << 16 | (uint32_t)color.g << 8 | color.b;
}

/** Returns the advance width of characters in visual order; 0 without a
 *  font. */
double es_drawn_width(const char *drawn, double size, es_font_weight weight);

/** The writers of the formats. They return as es_picture_write does. */
es_status es_picture_write_png(const es_picture *picture, FILE *out,
                               double scale, const es_picture_note *notes,
                               size_t n_notes) ES_MUST_USE;
es_status es_picture_write_svg(const es_picture *picture, FILE *out,
                               const es_picture_note *notes,
                               size_t n_notes) ES_MUST_USE;

/** es_format_check_size for a picture in points, and for a PNG in pixels. */
es_status es_picture_check_sides(double width, double height) ES_MUST_USE;
es_status es_png_check_size(double width, double height) ES_MUST_USE;

/** Converts a Cairo status to an es_status with its message. */
es_status es_cairo_status(cairo_status_t status) ES_MUST_USE;

/** Returns the value of the note "Title", or NULL. */
const char *es_note_title(const es_picture_note *notes, size_t n_notes);

/** Makes space for n more elements of `size` bytes in an array that has `used`.
 *  pointer is the address of the array's pointer. Returns false if memory runs
 *  out; the array is then unchanged. */
bool es_picture_reserve(void *pointer, size_t *capacity, size_t used, size_t n,
                        size_t size) ES_MUST_USE;

/** A growing byte buffer; {0} is empty. The adding functions return nothing: a
 *  failure is remembered, and es_buffer_write reports it. */
typedef struct es_buffer {
    char *data; /* freed by the owner */
    size_t n, capacity;
    bool failed; /* memory ran out */
} es_buffer;

void es_buffer_add(es_buffer *buffer, const char *data, size_t n);
void es_buffer_text(es_buffer *buffer, const char *text);

/** Adds `clean`, which is UTF-8 without control characters, escaped for XML. */
void es_buffer_xml(es_buffer *buffer, const char *clean);

/**
 * Adds x with at most two decimals in any locale: "12", "-.5", "3.07". |x| must
 * be below 1e15.
 */
void es_buffer_number(es_buffer *buffer, double x);

/** Adds a user's string, cleaned by es_text_clean and escaped if `xml`. */
void es_buffer_clean(es_buffer *buffer, const char *text, bool xml);

/** Adds an image of the picture as a PNG, in base 64. */
void es_buffer_image(es_buffer *buffer, const es_picture *picture,
                     const es_picture_shape *image);

/** Adds a "key: value" line for every note except the title, which every format
 *  stores separately. */
void es_buffer_notes(es_buffer *buffer, const es_picture_note *notes,
                     size_t n_notes, bool xml);

/** Writes the buffer. Returns ES_OK; ES_ENOMEM if adding failed; ES_EIO if
 *  writing failed. */
es_status es_buffer_write(const es_buffer *buffer, FILE *out) ES_MUST_USE;

#endif
