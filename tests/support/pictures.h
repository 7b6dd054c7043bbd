/** Pictures read back and compared, for the tests of render. */
#ifndef ES_TESTS_PICTURES_H
#define ES_TESTS_PICTURES_H

#include "render/picture.h"
#include "tests/support/auto.h"

AUTO_OF(es_picture, es_picture_free)

#define IMAGE_NOTES 16

/** A PNG as it was read, expanded to RGB. */
typedef struct es_image {
    int width, height;
    int color_type;     /* PNG_COLOR_TYPE_... of the file */
    int n_palette;      /* entries; 0 without a palette */
    unsigned char *rgb; /* (height,width,3) */
    int n_notes;
    char *keys[IMAGE_NOTES], *values[IMAGE_NOTES];
} es_image;

/** Reads a PNG of n bytes; false, with the reason on stderr, if it is none. */
bool image_read(es_image *out, const void *bytes, size_t n);
void image_clear(es_image *image);

/** The pixel as 0xRRGGBB. */
uint32_t image_at(const es_image *image, int x, int y);

/** The colour as image_at gives it. */
uint32_t image_color(es_color color);

/** The value of a note; NULL if there is none. */
const char *image_note(const es_image *image, const char *key);

/** The picture in a format as bytes to free; NULL, with es_message on
 *  stderr, if it cannot be written. */
char *picture_bytes(size_t *n, const es_picture *picture, es_format format,
                    double scale, const es_picture_note *notes, size_t n_notes);

/** The picture as PNG, read back. */
bool picture_image(es_image *out, const es_picture *picture, double scale);

/**
 * How far two images are apart: the largest difference, in 1/255, of the mean
 * colours of a block of 8 x 8 pixels in any channel. (x, y) is the corner of
 * that block. Infinite if the sizes differ.
 */
double image_difference(const es_image *a, const es_image *b, int *x, int *y);

/**
 * Compares the picture, drawn at one pixel a point, with
 * tests/golden/NAME.png: in every block of 8 x 8 pixels the mean colour may
 * differ by 16 of 255, which is more than another rasteriser of letters
 * changes and less than a cell of another colour or a lost line does.
 *
 * A picture that differs is left as BUILD/golden/NAME.png. With
 * ES_GOLDEN_UPDATE=1 in the environment the file is written instead.
 */
bool picture_is_golden(const es_picture *picture, const char *name);

/** Every number of the display list that has to be finite is. */
bool picture_is_finite(const es_picture *picture);

/** Writes the middles of the first `most` dots, in order; returns how many
 *  there are. */
size_t picture_dots(double (*dots)[2], size_t most, const es_picture *picture);

/** True if some text of the picture reads `text`. */
bool picture_says(const es_picture *picture, const char *text);

/**
 * True if every text lies on the page and no two touch, by their widths and
 * the height of capitals; otherwise says on stderr which do not.
 */
bool picture_texts_are_apart(const es_picture *picture);

#endif
