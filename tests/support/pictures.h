/** Reads pictures back and compares them, for the tests of render. */
#ifndef ES_TESTS_PICTURES_H
#define ES_TESTS_PICTURES_H

#include "render/picture.h"
#include "tests/support/auto.h"

AUTO_OF(es_picture, es_picture_free)

#define IMAGE_NOTES 16

/** A PNG that was read, expanded to RGB. */
typedef struct es_image {
    int width, height;
    int color_type;     /* PNG_COLOR_TYPE_... of the file */
    int n_palette;      /* entries; 0 without a palette */
    unsigned char *rgb; /* (height,width,3) */
    int n_notes;
    char *keys[IMAGE_NOTES], *values[IMAGE_NOTES];
} es_image;

/** Reads a PNG of n bytes; false, with the reason on stderr, if it is
 *  invalid. */
bool image_read(es_image *out, const void *bytes, size_t n);
void image_clear(es_image *image);

/** Returns a pixel as 0xRRGGBB. */
uint32_t image_at(const es_image *image, int x, int y);

/** Returns a colour as 0xRRGGBB. */
uint32_t image_color(es_color color);

/** Returns the value of a note, or NULL. */
const char *image_note(const es_image *image, const char *key);

/** Returns the picture in a format as n bytes, which the caller frees; NULL,
 * with es_message on stderr, if writing fails. */
char *picture_bytes(size_t *n, const es_picture *picture, es_format format,
                    double scale, const es_picture_note *notes, size_t n_notes);

/** Writes the picture as PNG and reads it back. */
bool picture_image(es_image *out, const es_picture *picture, double scale);

/**
 * Returns the difference of two images: the largest difference, in 1/255,
 * between the mean colours of a block of 8 x 8 pixels in any channel. (x, y) is
 * set to the corner of that block. INFINITY if the sizes differ.
 */
double image_difference(const es_image *a, const es_image *b, int *x, int *y);

/**
 * Compares the picture, drawn at one pixel per point, with
 * tests/golden/NAME.png. The mean colour of every block of 8 x 8 pixels may
 * differ by 16 of 255: more than another rasteriser of letters changes, but
 * less than a wrong cell colour or a lost line.
 *
 * A picture that differs is saved as BUILD/golden/NAME.png. With
 * ES_GOLDEN_UPDATE=1 in the environment, the golden file is rewritten first.
 */
bool picture_is_golden(const es_picture *picture, const char *name);

/** Returns true if every number of the display list is finite, apart from
 *  gaps. */
bool picture_is_finite(const es_picture *picture);

/** Stores the centres of the first `most` dots in order; returns the number of
 * all dots. */
size_t picture_dots(double (*dots)[2], size_t most, const es_picture *picture);

/** Returns true if the picture has the text `text`. */
bool picture_says(const es_picture *picture, const char *text);

/**
 * Returns true if every text is on the page and no two overlap, by their widths
 * and the height of capitals; otherwise prints the offending texts on stderr.
 */
bool picture_texts_are_apart(const es_picture *picture);

#endif
