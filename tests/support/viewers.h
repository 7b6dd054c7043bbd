/** Runs other programs that open our SVG and PDF files, for the tests. */
#ifndef ES_TESTS_VIEWERS_H
#define ES_TESTS_VIEWERS_H

#include "tests/support/pictures.h"

/**
 * Creates a folder for their files, and a font configuration with DejaVu only.
 * Returns false if rsvg-convert, pdftoppm, pdftotext or pdffonts is missing.
 */
bool viewers_open(void);
void viewers_close(void);

/** Renders the picture in `format`, SVG or PDF, with rsvg-convert or pdftoppm
 *  at `scale` pixels per point. Returns false, with their messages on stderr,
 *  if they refuse the file. */
bool viewers_image(es_image *out, const es_picture *picture, es_format format,
                   double scale);

/** Returns the output of "pdftotext" or "pdffonts" for the picture as PDF,
 *  which the caller frees; NULL if the program refuses the file. */
char *viewers_print(const es_picture *picture, const char *program);

#endif
