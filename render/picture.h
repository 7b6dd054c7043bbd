/**
 * A picture is a display list: charts append shapes to it, and a writer for
 * PNG, SVG or PDF draws them. Coordinates are in points (1/72 inch); the origin
 * is at the top left, and y points down.
 */
#ifndef ES_PICTURE_H
#define ES_PICTURE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct es_color {
    uint8_t r, g, b, a; /* a: 255 is opaque */
} es_color;

typedef enum es_align {
    ES_ALIGN_START,
    ES_ALIGN_MIDDLE,
    ES_ALIGN_END
} es_align;

typedef enum es_font_weight { ES_WEIGHT_NORMAL, ES_WEIGHT_BOLD } es_font_weight;

typedef struct es_picture es_picture;

/** Creates an empty picture of width x height points, filled with `background`.
 *  Returns ES_OK, ES_ENOMEM, or ES_EUSAGE if the width or height is not from 1
 *  to 20000. */
es_status es_picture_new(es_picture **out, double width, double height,
                         es_color background) ES_MUST_USE;

void es_picture_free(es_picture *picture); /* accepts NULL */

/*
 * The following functions append shapes to a picture. They return nothing: if
 * memory runs out, the picture remembers the failure and es_picture_write
 * reports it. A shape is left out if a coordinate is not finite, or if a width,
 * height, line width or size is not positive; coordinates are clamped to 1e5
 * points. Strings are copied. They are UTF-8; invalid bytes, control characters
 * and noncharacters are drawn as U+FFFD. Right-to-left words are reordered and
 * Arabic letters joined. A text whose first letter runs right to left begins at
 * the right, but (x, y) and the alignment still refer to the left and right
 * edges of the drawn text. Glyphs are not shaped in any other way. A character
 * without a glyph in DejaVu Sans is drawn as a box.
 *
 * On a device with pixels, the edges of rectangles, frames, hatchings and clips
 * and the centres of vertical and horizontal lines snap to the nearest pixel
 * edge, so that adjacent cells meet without a seam.
 */
void es_picture_rect(es_picture *picture, double x, double y, double width,
                     double height, es_color fill);
void es_picture_frame(es_picture *picture, double x, double y, double width,
                      double height, double line_width, es_color stroke);
/** Appends a rectangle filled with `fill` and diagonal lines, which marks NaN
 *  cells. */
void es_picture_hatch(es_picture *picture, double x, double y, double width,
                      double height, es_color fill, es_color stroke);
void es_picture_line(es_picture *picture, double x0, double y0, double x1,
                     double y1, double line_width, es_color stroke);
/** Appends a dashed line. Each dash and each gap is `dash` points long. */
void es_picture_dashed(es_picture *picture, double x0, double y0, double x1,
                       double y1, double line_width, double dash,
                       es_color stroke);
/** Appends a line through n points, given as pairs (x, y). A pair that is not
 *  finite interrupts the line. */
void es_picture_polyline(es_picture *picture, const double *points, size_t n,
                         double line_width, es_color stroke);
/** Appends a polyline whose dashes and gaps are `dash` points long; the dashes
 *  continue around its corners. */
void es_picture_dashed_polyline(es_picture *picture, const double *points,
                                size_t n, double line_width, double dash,
                                es_color stroke);
/**
 * Appends adjacent vertical bars, which show a series of many samples.
 *
 *   x, column  left edge of the first bar, and the width of each bar
 *   spans      n pairs (top, bottom); a column stays empty if its pair is not
 *              finite or top is not less than bottom
 */
void es_picture_spans(es_picture *picture, double x, double column,
                      const double *spans, size_t n, es_color fill);
void es_picture_dot(es_picture *picture, double x, double y, double radius,
                    es_color fill);
/**
 * Appends an image: a grid with too many cells for one rectangle per cell. The
 * image is stretched over an area without smoothing; a device with fewer pixels
 * than cells leaves cells out.
 *
 *   cells    (n_rows,n_columns) palette indices, row 0 at the top; copied
 *   palette  (n_colors) at most 256, opaque; an index out of range is treated
 *            as 0
 *
 * PDF and SVG files contain the cells as an image.
 */
void es_picture_image(es_picture *picture, double x, double y, double width,
                      double height, const uint8_t *cells, size_t n_columns,
                      size_t n_rows, const es_color *palette, size_t n_colors);
/** Appends a text. (x, y) is a point on its baseline, about which `degrees`
 *  rotates the text counter-clockwise. */
void es_picture_text(es_picture *picture, double x, double y, double size,
                     es_align align, es_font_weight weight, double degrees,
                     es_color color, const char *text);
/** Clips the following shapes to a rectangle, up to the next es_picture_unclip.
 *  Clips do not nest. */
void es_picture_clip(es_picture *picture, double x, double y, double width,
                     double height);
void es_picture_unclip(es_picture *picture);

/** Appends all shapes of another picture, moved by (x, y). The background of
 *  the other picture is not copied. */
void es_picture_add(es_picture *picture, const es_picture *other, double x,
                    double y);

/** Sets *width and *height to the size of the picture in points. */
void es_picture_sides(const es_picture *picture, double *width, double *height);

/**
 * Scales the page and all shapes; call it after the last append. Returns ES_OK,
 * or ES_EUSAGE if `factor` is not positive, or if the width or height would
 * leave the range that es_picture_new allows.
 */
es_status es_picture_zoom(es_picture *picture, double factor) ES_MUST_USE;

/**
 * Returns the advance width in points of `text` at `size`, as es_picture_text
 * draws it. If memory runs out it returns 0, and the next picture that this
 * thread writes fails with ES_ENOMEM. May be called from any thread.
 */
double es_text_width(const char *text, double size, es_font_weight weight);

/**
 * Returns the longest beginning of `text` that is at most `width` points wide,
 * with an ellipsis if anything is left out, or "" if not even the ellipsis
 * fits. The beginning is the part that is read first, which is the right end of
 * right-to-left text.
 *
 * The caller frees the string. Returns NULL if memory runs out.
 */
char *es_text_fit(const char *text, double width, double size,
                  es_font_weight weight) ES_MUST_USE;

/** Shortens a text like es_text_fit, but leaves out its middle, for names that
 *  differ at their ends. */
char *es_text_fit_ends(const char *text, double width, double size,
                       es_font_weight weight) ES_MUST_USE;

typedef enum es_format {
    ES_FORMAT_PNG,
    ES_FORMAT_SVG,
    ES_FORMAT_PDF,
    ES_FORMAT_TEXT
} es_format;

/** Returns the name of a format: "png", "svg", "pdf" or "txt". The name is also
 *  the extension of file names. */
const char *es_format_name(es_format format);

/** Parses the name of a format, such as "png". Returns ES_OK or ES_EUSAGE. */
es_status es_format_parse(es_format *out, const char *text) ES_MUST_USE;

/** Sets *out to the format that the extension of `path` names. Returns false if
 *  the extension is unknown. */
bool es_format_of_path(es_format *out, const char *path);

/**
 * Checks if a format allows a size, which is in pixels for PNG and in points
 * for the other formats. The width and height may be from 1 to 20000 points; a
 * PNG may have up to 32767 pixels per side and 100 million in total. Returns
 * ES_OK or ES_EUSAGE.
 */
es_status es_format_check_size(es_format format, double width,
                               double height) ES_MUST_USE;

/** An item of metadata in a picture file: a PNG tEXt or iTXt chunk, a line of
 *  the SVG <desc>, or a PDF property. */
typedef struct es_picture_note {
    const char *key, *value;
} es_picture_note;

/**
 * Writes a picture to a stream in one of the formats.
 *
 *   out    written from its current position; flushed, not closed
 *   scale  PNG pixels per point (the program uses 2); other formats ignore it
 *   notes  (n_notes) metadata, written in this order; "Title" also names the
 *          document in SVG and PDF
 *
 * PNG: an 8-bit palette if 256 colours suffice, otherwise RGB. The colours of
 * all shapes are exact; only the blends at smoothed edges may share a palette
 * entry, which differs by at most 32 of 255 in a channel. SVG: SVG 1.1 with
 * numbers to 0.01 points. Text is stored as text in DejaVu Sans; where this
 * font is missing, a substitute is squeezed to the same width. There are no
 * scripts and no style sheets. PDF: text is stored as text, and the font is
 * embedded. Text: ASCII characters without colours and notes, drawn by
 * es_cells_draw. The same picture is always written as the same bytes, because
 * no dates are written.
 *
 * Returns ES_OK; ES_EIO if writing to `out` failed; ES_ENOMEM, also if an
 * append ran out of memory; ES_EUSAGE if the PNG would be larger than
 * es_format_check_size allows or scale is not positive, or if the text would be
 * larger than es_cells_draw allows.
 */
es_status es_picture_write(const es_picture *picture, FILE *out,
                           es_format format, double scale,
                           const es_picture_note *notes,
                           size_t n_notes) ES_MUST_USE;

/**
 * Writes n >= 1 pictures as the pages of one PDF; each page keeps its size.
 * Notes and statuses are the same as for es_picture_write.
 */
es_status es_pictures_write_pdf(const es_picture *const *pages, size_t n,
                                FILE *out, const es_picture_note *notes,
                                size_t n_notes) ES_MUST_USE;

/** Prints the names and versions of the drawing libraries: "cairo 1.16.0,
 *  libpng 1.6.39, ...". */
void es_picture_libraries(char *out, size_t size);

#endif
