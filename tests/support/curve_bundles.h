/** Creates curves that own their arrays (bundles), and draws figures of these
 *  curves, for tests. Include cmocka.h before this header. */
#ifndef ES_TESTS_CURVE_BUNDLES_H
#define ES_TESTS_CURVE_BUNDLES_H

#include "render/figures/curves_internal.h"
#include "tests/support/pictures.h"

typedef struct bundle {
    es_curve *curves;
    char (*labels)[32];
    int64_t *steps;
    float *values;
    size_t n_curves, n;
} bundle;

/** A figure that has been laid out and drawn, with its pixels. */
typedef struct shot {
    es_curves_sheet sheet;
    es_picture *picture;
    es_image image;
    double scale;
} shot;

/** Returns the values (n) of a curve in the bundle. */
float *row(const bundle *b, size_t curve);

/**
 * Returns curves that fall slowly at different heights, with a little noise,
 * named "layer 0" and so on.
 */
bundle bundle_new(size_t n_curves, size_t n, double noise);
void bundle_free(bundle *b);

/**
 * Returns a figure that sets every optional text, and a reference line at
 * 3.878.
 */
es_curves figure_of(const es_curves_panel *panels, size_t n);

/**
 * Draws a figure. Fails the test unless drawing succeeds, all coordinates are
 * finite and no texts touch.
 */
es_picture *drawn(const es_curves *figure);

shot shot_of(const es_curves *figure, double scale);
void shot_clear(shot *s);

/** Returns the colour 0xRRGGBB of the pixel at the given step and value of a
 *  panel. */
uint32_t pixel(const shot *s, size_t panel, double step, double value);

/** Returns the colour of a curve in the first panel. */
uint32_t color_of(const shot *s, size_t curve);

size_t count_shapes(const es_picture *picture, es_shape_kind kind);

#endif
