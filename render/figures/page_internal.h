/** The texts of a page, for page.c. */
#ifndef ES_PAGE_INTERNAL_H
#define ES_PAGE_INTERNAL_H

#include "render/figures/page.h"

#define ES_PAGE_NOTE_LINE 10.0 /* points, of a note of several lines */

/** Breaks the note at its blanks into lines of note_width; what does not fit
 *  into the last line is cut. Draws it, y the baseline of its first line, if
 *  there is a picture; returns the number of lines. */
size_t es_page_break_note(const es_page *page, double y);

/** What panel i's title with its letter, or its subtitle, takes in one line. */
double es_page_title_width(const es_page *page, size_t i);

/** Sets head, title_lines, subtitle_lines and letters_above by the widths of
 * the panels. */
void es_page_measure_head(es_page *page);

/** Draws letter, title and subtitle of panel i, y the baseline of the last line
 *  of subtitles; the last line of a title on the line of all others'. */
void es_page_draw_title(const es_page *page, size_t i, double y);

#endif
