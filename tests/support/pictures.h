/** Reads PNG files and compares pictures, for the tests of the renderer. */
#ifndef ES_TESTS_PICTURES_H
#define ES_TESTS_PICTURES_H

#include "render/picture.h"
#include "tests/support/auto.h"

AUTO_OF(es_picture, es_picture_free)

#define IMAGE_NOTES 16

/** An image that was read from a PNG and expanded to RGB. */
typedef struct es_image {
    int width, height;
    int color_type;     /* colour type of the file: PNG_COLOR_TYPE_... */
    int n_palette;      /* number of palette entries; 0 without a palette */
    unsigned char *rgb; /* (height,width,3) */
    int n_notes;
    char *keys[IMAGE_NOTES], *values[IMAGE_NOTES];
} es_image;

/** Reads a PNG of n bytes. If it is invalid, prints the reason on stderr and
 *  returns false. */
bool image_read(es_image *out, const void *bytes, size_t n);
void image_clear(es_image *image);

/** Returns a pixel as 0xRRGGBB. */
uint32_t image_at(const es_image *image, int x, int y);

/** Returns a colour as 0xRRGGBB. */
uint32_t image_color(es_color color);

/** Returns the value of the PNG text entry with this key, or NULL. */
const char *image_note(const es_image *image, const char *key);

/** Writes the picture in a format to memory. Returns the n bytes, which the
 *  caller frees. If writing fails, prints es_message on stderr and returns
 *  NULL. */
char *picture_bytes(size_t *n, const es_picture *picture, es_format format,
                    double scale, const es_picture_note *notes, size_t n_notes);

/** Writes the picture as PNG and reads it back. */
bool picture_image(es_image *out, const es_picture *picture, double scale);

/**
 * Returns how much two images differ: the largest difference between the mean
 * colours of a block of 8 x 8 pixels, in any channel, from 0 to 255. Sets (*x,
 * *y) to the top left corner of this block. Returns INFINITY if the sizes of
 * the images differ.
 */
double image_difference(const es_image *a, const es_image *b, int *x, int *y);

/**
 * Compares the picture, drawn at one pixel per point, with
 * tests/golden/NAME.png. The mean colour of every block of 8 x 8 pixels may
 * differ by 16 of 255, because a different font rasteriser causes smaller
 * differences, whereas a wrong cell colour or a missing line causes larger
 * ones.
 *
 * A picture that differs is saved as BUILD/golden/NAME.png. With
 * ES_GOLDEN_UPDATE=1 in the environment, the golden file is rewritten first.
 */
bool picture_is_golden(const es_picture *picture, const char *name);

/** Returns true if every number of the display list is finite, apart from the
 *  NaNs that mark gaps in a line. */
bool picture_is_finite(const es_picture *picture);

/** Stores the centres of the first `most` dots of the picture in drawing order.
 *  Returns the total number of dots in the picture. */
size_t picture_dots(double (*dots)[2], size_t most, const es_picture *picture);

/** Returns true if a text of the picture equals `text`. */
bool picture_says(const es_picture *picture, const char *text);

/**
 * Returns true if every text is completely on the page and no two texts
 * overlap. A text occupies a rectangle as wide as the text and as high as a
 * capital letter. Otherwise prints the texts concerned on stderr and returns
 * false.
 */
bool picture_texts_are_apart(const es_picture *picture);

#endif
