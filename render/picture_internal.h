/** Declares the display list for the writers in render/, and the helpers that
 *  the writers share: text, fonts and growing buffers. */
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

/** A shape of the display list. Every number is finite, except that a NaN in
 *  numbers[] marks a gap. */
typedef struct es_picture_shape {
    es_shape_kind kind;
    /* Colour of the fill, or of the stroke of shapes without fill. */
    es_color color;
    es_color stroke; /* colour of the lines of a hatching */
    /* Position of the shape: the corner of a rectangle, the start of a line,
     * the centre of a circle, or the point on the baseline at which a text is
     * aligned. */
    double x, y;
    /* Sides of an area, or distance from start to end of a line. */
    double width, height;
    double size;    /* line width, radius, column width or font size */
    double dash;    /* length of the dashes of a line or polyline; 0: solid */
    double degrees; /* rotation of a text, counter-clockwise */
    es_align align;
    es_font_weight weight;
    /* `first` and `n` are the first index and the length of a range: pairs of
     * coordinates in numbers[], or bytes in text[] including the NUL. */
    size_t first, n;
    /* Number of columns and colours of an image. From byte `first` on, text[]
     * contains the n_colors es_color of the image, then its n cells. */
    size_t n_columns, n_colors;
    /* Offset in text[] of the text in visual order (es_drawn); equal to `first`
     * if the text is drawn without reordering. */
    size_t drawn;
    bool leftward; /* the text begins at the right; see es_drawn */
} es_picture_shape;

struct es_picture {
    double width, height;
    es_color background;
    es_picture_shape *shapes;
    double *numbers; /* coordinates of polylines and spans */
    char *text;
    size_t n_shapes, n_numbers, n_text;
    size_t shapes_capacity, numbers_capacity, text_capacity;
    bool failed; /* memory ran out while a shape was appended */
};

/* The lines of a hatching are x + y = k * spacing, in points. */
#define ES_HATCH_SPACING 3.5
#define ES_HATCH_LINE 0.6 /* width of the lines of a hatching, in points */

/** Returns the end of the group of non-empty columns that begins at `from`;
 *  returns `from` if that column is empty. */
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

/** Converts a status of Cairo to an es_status, and sets its message. */
es_status es_cairo_status(cairo_status_t status) ES_MUST_USE;

/**
 * Returns the font DejaVu Sans or its substitute, borrowed; NULL if it could
 * not be loaded. May be called from any thread.
 */
cairo_font_face_t *es_font_face(es_font_weight weight);

/** Returns font options for smooth edges, and for metrics that do not depend on
 *  the size in pixels. The caller destroys the options. */
cairo_font_options_t *es_font_options(void);

/**
 * Copies `text` with replacements: control characters, noncharacters (such as
 * U+FFFE) and invalid UTF-8 become U+FFFD.
 *
 *   out  capacity of 3 * strlen(text) + 1 bytes; NULL to write nothing
 *
 * Returns the length of the copy without its NUL.
 */
size_t es_text_clean(char *out, const char *text);

/** Returns a copy of `text` that es_text_clean has cleaned, or NULL if memory
 *  runs out. The caller frees the copy. */
char *es_text_cleaned(const char *text) ES_MUST_USE;

/**
 * Returns true if a clean text has right-to-left characters or directional
 * marks, so es_text_turn must reorder it. Any other text is drawn without
 * reordering.
 */
bool es_text_is_bidi(const char *clean);

/** A text in visual order, as it is drawn from left to right. */
typedef struct es_drawn {
    /* Memory of n bytes, which the caller frees; NULL if memory ran out.
     * Contains two strings, each with its NUL: the characters to draw, and the
     * original letter of each of these characters */
    char *text;
    size_t n; /* number of bytes of the two strings together */
    /* The first letter is right-to-left, so the text begins at the right. */
    bool leftward;
} es_drawn;

/**
 * Puts a clean text into visual order: reverses right-to-left words, joins
 * Arabic letters and removes directional marks, as specified by Unicode
 * Standard Annex 9. O(length).
 */
es_drawn es_text_turn(const char *clean) ES_MUST_USE;

/** Return colour i of an image, and the cells of an image, which are
 *  borrowed. */
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

/**
 * Returns the number of pixels that a vector file stores per cell of an image,
 * if n cells have a length of `points` points. Cells get several pixels per
 * point, because a viewer that smooths images blurs edges by one pixel;
 * repeated pixels compress well.
 */
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

/** Returns the advance width of characters in visual order; 0 if the font could
 *  not be loaded. */
double es_drawn_width(const char *drawn, double size, es_font_weight weight);

/**
 * Returns true if, since the last call, memory ran out while this thread
 * measured a text.
 */
bool es_text_ran_out(void);

/**
 * Returns ES_OK if a picture can be written, or ES_ENOMEM if an append ran out
 * of memory or the fonts could not be loaded.
 */
es_status es_picture_check_ready(const es_picture *picture) ES_MUST_USE;

/** Write a picture as PNG or SVG. Both return the statuses of
 *  es_picture_write. */
es_status es_picture_write_png(const es_picture *picture, FILE *out,
                               double scale, const es_picture_note *notes,
                               size_t n_notes) ES_MUST_USE;
es_status es_picture_write_svg(const es_picture *picture, FILE *out,
                               const es_picture_note *notes,
                               size_t n_notes) ES_MUST_USE;

/** Check the size of a picture like es_format_check_size:
 *  es_picture_check_sides in points, es_png_check_size in pixels. */
es_status es_picture_check_sides(double width, double height) ES_MUST_USE;
es_status es_png_check_size(double width, double height) ES_MUST_USE;

/** Makes space for n more elements of `size` bytes in a growing array with
 *  `used` elements. `pointer` is the address of the pointer to the array. If
 *  memory runs out, returns false and leaves the array unchanged. */
bool es_picture_reserve(void *pointer, size_t *capacity, size_t used, size_t n,
                        size_t size) ES_MUST_USE;

/** A growing byte buffer; zero-initialised, it is empty. The functions that add
 *  to a buffer return nothing: if memory runs out, the buffer remembers the
 *  failure, and es_buffer_write reports it. */
typedef struct es_buffer {
    char *data; /* bytes of the buffer; the owner of the buffer frees them */
    size_t n, capacity;
    bool failed; /* memory ran out */
} es_buffer;

void es_buffer_add(es_buffer *buffer, const char *data, size_t n);
void es_buffer_text(es_buffer *buffer, const char *text);

/** Adds `clean`, escaped for XML. `clean` must be UTF-8 without control
 *  characters. */
void es_buffer_xml(es_buffer *buffer, const char *clean);

/**
 * Adds the number x with at most two decimals, in any locale: "12", "-.5",
 * "3.07". |x| must be below 1e15.
 */
void es_buffer_number(es_buffer *buffer, double x);

/** Adds a string from a user, cleaned by es_text_clean, and escaped for XML if
 *  `xml`. */
void es_buffer_clean(es_buffer *buffer, const char *text, bool xml);

/** Returns the value of the note with the key "Title", or NULL. */
const char *es_note_title(const es_picture_note *notes, size_t n_notes);

/** Adds a line "key: value" for every note. The title is left out, because
 *  every format stores it separately. */
void es_buffer_notes(es_buffer *buffer, const es_picture_note *notes,
                     size_t n_notes, bool xml);

/** Writes the bytes of the buffer to a stream. Returns ES_OK; ES_ENOMEM if
 *  adding failed; ES_EIO if writing failed. */
es_status es_buffer_write(const es_buffer *buffer, FILE *out) ES_MUST_USE;

/**
 * Adds an image of the picture as a PNG in base64. Implemented in write_png.c.
 */
void es_buffer_image(es_buffer *buffer, const es_picture *picture,
                     const es_picture_shape *image);

#endif
