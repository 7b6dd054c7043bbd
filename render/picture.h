/**
 * A picture is a display list: figures append shapes, a device draws them.
 * Coordinates in points (1/72 inch), origin top left, y down.
 */
#ifndef ES_PICTURE_H
#define ES_PICTURE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct es_color {
    uint8_t r, g, b, a; /* a: 255 opaque */
} es_color;

typedef enum es_align {
    ES_ALIGN_START,
    ES_ALIGN_MIDDLE,
    ES_ALIGN_END
} es_align;

typedef enum es_font_weight { ES_WEIGHT_NORMAL, ES_WEIGHT_BOLD } es_font_weight;

typedef struct es_picture es_picture;

/** An empty picture of width x height points on `background`.
 *  ES_OK, ES_ENOMEM, ES_EUSAGE (not 1..20000). */
es_status es_picture_new(es_picture **out, double width, double height,
                         es_color background) ES_MUST_USE;

void es_picture_free(es_picture *picture); /* NULL is fine */

/*
 * Appending cannot fail visibly: out of memory is remembered and reported by
 * es_picture_write. A shape with a coordinate that is not finite, or with a
 * width, height, line width or size that is not above zero, is left out;
 * coordinates are brought within 1e5 points. Strings are copied; they are
 * UTF-8, and whatever is not, control characters and noncharacters are drawn
 * as U+FFFD. Right-to-left words are turned round and Arabic letters joined; a
 * text whose first letter runs leftward begins at the right, and (x, y) with
 * its alignment goes by the left and right of what is drawn all the same.
 * There is no other shaping, and what DejaVu Sans has no glyph for is a box.
 *
 * Where the device has pixels, the edges of rectangles, frames, hatchings and
 * clips and the middle of upright and level lines are moved to the nearest
 * pixel edge, so that cells meet without a seam.
 */
void es_picture_rect(es_picture *picture, double x, double y, double width,
                     double height, es_color fill);
void es_picture_frame(es_picture *picture, double x, double y, double width,
                      double height, double line_width, es_color stroke);
/** Diagonal hatching on `fill`: how a NaN looks. */
void es_picture_hatch(es_picture *picture, double x, double y, double width,
                      double height, es_color fill, es_color stroke);
void es_picture_line(es_picture *picture, double x0, double y0, double x1,
                     double y1, double line_width, es_color stroke);
/** The same, dashed: `dash` points drawn, `dash` points left out. */
void es_picture_dashed(es_picture *picture, double x0, double y0, double x1,
                       double y1, double line_width, double dash,
                       es_color stroke);
/** points: n pairs (x, y); a pair that is not finite lifts the pen. */
void es_picture_polyline(es_picture *picture, const double *points, size_t n,
                         double line_width, es_color stroke);
/**
 * Upright bars side by side: how a long series is drawn.
 *
 *   x, column  left edge of the first bar and width of each
 *   spans      n pairs (top, bottom); a pair that is not finite, or not
 *              top < bottom, leaves its column empty
 */
void es_picture_spans(es_picture *picture, double x, double column,
                      const double *spans, size_t n, es_color fill);
void es_picture_dot(es_picture *picture, double x, double y, double radius,
                    es_color fill);
/**
 * A grid of cells that are too many for a rectangle each, stretched over an
 * area without smoothing. A device that has fewer pixels leaves cells out.
 *
 *   cells    (n_rows,n_columns) indexes of colours, row 0 on top; copied
 *   palette  (n_colors) at most 256, opaque; a cell beyond has colour 0
 *
 * PDF and SVG carry the cells as an image.
 */
void es_picture_image(es_picture *picture, double x, double y, double width,
                      double height, const uint8_t *cells, size_t n_columns,
                      size_t n_rows, const es_color *palette, size_t n_colors);
/** (x, y) is on the baseline; `degrees` turns counter-clockwise about it. */
void es_picture_text(es_picture *picture, double x, double y, double size,
                     es_align align, es_font_weight weight, double degrees,
                     es_color color, const char *text);
/** Everything until unclip is cut at the rectangle. Not nested. */
void es_picture_clip(es_picture *picture, double x, double y, double width,
                     double height);
void es_picture_unclip(es_picture *picture);

/** Appends all shapes of another picture, moved by (x, y); not its paper. */
void es_picture_add(es_picture *picture, const es_picture *other, double x,
                    double y);

/** Width and height in points. */
void es_picture_sides(const es_picture *picture, double *width, double *height);

/**
 * Enlarges the page and all that is on it; for when it is complete.
 * ES_OK; ES_EUSAGE if factor is not above zero, or a side would be outside of
 * what es_picture_new allows.
 */
es_status es_picture_zoom(es_picture *picture, double factor) ES_MUST_USE;

/** Advance width in points of `text` at `size`, drawn as es_picture_text
 *  draws it; 0 if memory runs out. Any thread. */
double es_text_width(const char *text, double size, es_font_weight weight);

/**
 * The longest beginning of `text` that is at most `width` points wide,
 * with an ellipsis if anything is left out; "" if not even that fits.
 * The beginning is what is read first, at the right of right-to-left text.
 *
 * Returns a new string for the caller to free, or NULL out of memory.
 */
char *es_text_fit(const char *text, double width, double size,
                  es_font_weight weight) ES_MUST_USE;

/** The same, but what is left out is the middle: names differ at both ends. */
char *es_text_fit_ends(const char *text, double width, double size,
                       es_font_weight weight) ES_MUST_USE;

typedef enum es_format {
    ES_FORMAT_PNG,
    ES_FORMAT_SVG,
    ES_FORMAT_PDF
} es_format;

/** "png": what it is called, and what names of files end in. */
const char *es_format_name(es_format format);

/** png|svg|pdf. ES_OK or ES_EUSAGE. */
es_status es_format_parse(es_format *out, const char *text) ES_MUST_USE;

/** The format by a file name's ending; false if it has none of ours. */
bool es_format_of_path(es_format *out, const char *path);

/** ES_OK, or ES_EUSAGE: no picture may be so large, in pixels of a PNG, points
 *  of the others. What is 1 to 20000 points a side can be drawn; a PNG has up
 *  to 32767 pixels a side and 100 million in all. */
es_status es_format_check_size(es_format format, double width,
                               double height) ES_MUST_USE;

/** A key and a value, as PNG tEXt/iTXt, SVG and PDF metadata. */
typedef struct es_picture_note {
    const char *key, *value;
} es_picture_note;

/**
 * Draws the picture.
 *
 *   out    written from where it stands; flushed, not closed
 *   scale  PNG pixels per point (2 by default in the program); ignored else
 *   notes  (n_notes) in order; "Title" also names the document in SVG and PDF
 *
 * PNG: 8-bit palette where 256 colours are enough, RGB otherwise. Every
 * colour that the picture names is exact; only blends at smoothed edges may
 * share a palette entry, at most 32 of 255 away in a channel.
 * SVG: SVG 1.1, numbers to 0.01 points; text as text in DejaVu Sans, or in
 * another font pressed into the same width. No scripts and no style sheets.
 * PDF: text as text, the font embedded.
 * The same picture gives the same bytes (no dates inside).
 *
 * ES_OK; ES_EIO if `out` did not take it all; ES_ENOMEM, also when an append
 * ran out of memory; ES_EUSAGE if the PNG would be larger than
 * es_format_check_size allows, or scale is not above zero.
 */
es_status es_picture_write(const es_picture *picture, FILE *out,
                           es_format format, double scale,
                           const es_picture_note *notes,
                           size_t n_notes) ES_MUST_USE;

/**
 * Pictures (n, at least one) as the pages of a PDF, each of its own size.
 * Else as es_picture_write.
 */
es_status es_pictures_write_pdf(const es_picture *const *pages, size_t n,
                                FILE *out, const es_picture_note *notes,
                                size_t n_notes) ES_MUST_USE;

/** The libraries that draw: "cairo 1.16.0, libpng 1.6.39, ...". */
void es_picture_libraries(char *out, size_t size);

#endif
