/**
 * Draws a picture with characters, for terminals and text files. A cell of the
 * grid shows 3.5 x 7 points of the page. This is slightly less than a character
 * of a label takes, so every text fits.
 */
#ifndef ES_CELLS_H
#define ES_CELLS_H

#include "render/picture.h"
#include "render/screen.h"

/** Width and height of a cell in points. */
#define ES_CELL_WIDTH 3.5
#define ES_CELL_HEIGHT 7.0

/**
 * Draws a picture into a new grid of cells.
 *
 *   out      as wide and high as the page, rounded up to whole cells; the
 *            caller frees it
 *   columns  maximum width of the grid in cells; if the page is wider, each
 *            cell shows more points; 0 for no maximum
 *   depth    with ES_DEPTH_ASCII, letters and punctuation marks show shapes,
 *            and darker characters show colours that differ more from the
 *            background; otherwise blocks and dots in colours show shapes
 *
 * Texts are written one character per cell, and begin, end or are centred
 * where they do in the picture. A text that would touch another text is moved
 * by a cell, or left out if there is no space next to it either. Vertical
 * texts are written downwards.
 *
 * Returns ES_OK; ES_ENOMEM, also if memory ran out while the picture was made;
 * ES_EUSAGE if the grid would have more than ES_CELLS_MOST cells.
 */
es_status es_cells_draw(es_screen **out, const es_picture *picture, int columns,
                        es_depth depth) ES_MUST_USE;

#define ES_CELLS_MOST 4000000

/**
 * Draws a picture with es_cells_draw and prints it on a stream, one line per
 * row of cells. Returns the same statuses as es_cells_draw, or ES_EIO.
 */
es_status es_cells_print(const es_picture *picture, FILE *out, int columns,
                         es_depth depth) ES_MUST_USE;

#endif
