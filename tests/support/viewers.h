/** Other people's programs that open our SVG and PDF, for the tests. */
#ifndef ES_TESTS_VIEWERS_H
#define ES_TESTS_VIEWERS_H

#include "tests/support/pictures.h"

/**
 * Makes a folder for their files and a font configuration that knows DejaVu
 * and nothing else. False if rsvg-convert, pdftoppm, pdftotext or pdffonts is
 * not there.
 */
bool viewers_open(void);
void viewers_close(void);

/** The picture in `format`, SVG or PDF, as rsvg-convert or pdftoppm shows it
 *  at `scale` pixels a point; false, with their words on stderr, if they
 *  refuse it. */
bool viewers_image(es_image *out, const es_picture *picture, es_format format,
                   double scale);

/** What "pdftotext" or "pdffonts" prints of the picture as PDF, to free; NULL
 *  if it refuses it. */
char *viewers_print(const es_picture *picture, const char *program);

#endif
