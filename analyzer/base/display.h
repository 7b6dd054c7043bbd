/** Measures and shortens text in the columns of a terminal. */
#ifndef ES_DISPLAY_H
#define ES_DISPLAY_H

#include <stddef.h>

/**
 * Returns the width of a UTF-8 text on a terminal in columns. A byte that is
 * not valid UTF-8 has a width of one column.
 */
size_t es_display_width(const char *text);

/**
 * Shortens text in place to at most `width` columns (at least 5): replaces its
 * middle by "...", so that both ends of a name remain. Never splits a
 * character.
 */
void es_display_shorten(char *text, size_t width);

#endif
