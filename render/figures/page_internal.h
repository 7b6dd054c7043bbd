/** Measures and draws the texts of a page: notes and panel titles. */
#ifndef ES_PAGE_INTERNAL_H
#define ES_PAGE_INTERNAL_H

#include "render/figures/page.h"

#define ES_PAGE_NOTE_LINE 10.0 /* line height of a note, in points */

/** Breaks the note of a page at spaces into lines of note_width points. The
 *  last line is cut if it is too long. Draws the note if the page has a
 *  picture; y is the baseline of the first line. Returns the number of
 *  lines. */
size_t es_page_break_note(const es_page *page, double y);

/** Returns the width of panel i's title with its letter, or of its subtitle if
 *  that is wider, each on one line. */
double es_page_title_width(const es_page *page, size_t i);

/** Sets page->head, title_lines, subtitle_lines and letters_above, for the
 *  current widths of the panels. */
void es_page_measure_head(es_page *page);

/** Draws the letter, title and subtitle of panel i; y is the baseline of the
 *  last subtitle line. In a row of panels, the last lines of all titles are at
 *  the same height. */
void es_page_draw_title(const es_page *page, size_t i, double y);

#endif
