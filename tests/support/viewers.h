/** Opens this project's SVG and PDF files with other programs, for tests. */
#ifndef ES_TESTS_VIEWERS_H
#define ES_TESTS_VIEWERS_H

#include "tests/support/pictures.h"

/**
 * Creates a folder for the files that the viewer programs read and write, and a
 * font configuration with DejaVu only. Returns false if rsvg-convert, pdftoppm,
 * pdftotext or pdffonts is missing.
 */
bool viewers_open(void);
void viewers_close(void);

/** Renders the picture as SVG with rsvg-convert, or as PDF with pdftoppm, at
 *  `scale` pixels per point. Returns false, after printing the program's
 *  messages on stderr, if the program refuses the file. */
bool viewers_image(es_image *out, const es_picture *picture, es_format format,
                   double scale);

/** Runs the program "pdftotext" or "pdffonts" on the picture as PDF and returns
 *  its output, which the caller frees; NULL if the program refuses the file. */
char *viewers_print(const es_picture *picture, const char *program);

#endif
