/** Draws, checks, compares and searches the pictures of tests. */
#ifndef ES_TESTS_DRAWN_H
#define ES_TESTS_DRAWN_H

#include "render/figures/theme.h"
#include "tests/support/pictures.h"

/**
 * Returns the picture that a drawing function created. Fails the test unless
 * `status` is ES_OK, every coordinate is finite and no texts touch.
 */
es_picture *sound_picture(es_status status, es_picture *const *picture);

/**
 * Fails the test unless the picture, drawn at one pixel per point, equals
 * tests/golden/NAME.png. Frees the picture.
 */
void assert_golden(es_picture *picture, const char *name);

/** The expected colour of one pixel. */
typedef struct es_wanted_pixel {
    int x, y;
    uint32_t color; /* 0xRRGGBB */
} es_wanted_pixel;

/**
 * Fails the test unless the picture, drawn at `scale` pixels per point, has the
 * given pixels and exactly n_colors colours (0: any number). Frees the picture.
 */
#define ASSERT_PIXELS(picture, scale, n_colors, ...)                           \
    assert_pixels(picture, scale, n_colors,                                    \
                  (const es_wanted_pixel[]){__VA_ARGS__},                      \
                  sizeof((const es_wanted_pixel[]){__VA_ARGS__}) /             \
                      sizeof(es_wanted_pixel))
void assert_pixels(es_picture *picture, double scale, int n_colors,
                   const es_wanted_pixel *wanted, size_t n);

/** A function that draws a figure of the type that `figure` points to. */
typedef es_status es_draw_any(es_picture **out, const void *figure);

/**
 * Fails the test unless the figure has the size that `style`, a member of the
 * figure, requests. Tests sizes from a paper's column to a large page. A size
 * that is too small must be refused with a message that contains the minimum
 * size, and the minimum size must be accepted.
 */
void assert_sizes_are_kept(es_draw_any *draw, const void *figure,
                           es_figure_style *style);

/** Fails the test unless both pictures give the same SVG. Frees both. */
void assert_same_picture(es_picture *a, es_picture *b);

/**
 * ASSERT_SAYS fails the test unless all given texts are in the picture;
 * ASSERT_SAYS_NOT fails the test if any of them is. The message contains the
 * missing or unwanted text.
 */
#define ASSERT_SAYS(picture, ...)                                              \
    assert_says(picture, true, (const char *const[]){__VA_ARGS__, NULL})
#define ASSERT_SAYS_NOT(picture, ...)                                          \
    assert_says(picture, false, (const char *const[]){__VA_ARGS__, NULL})
void assert_says(const es_picture *picture, bool said,
                 const char *const *texts);

#endif
