/** Text for people: how wide it is on a terminal, and how to make it fit. */
#ifndef ES_DISPLAY_H
#define ES_DISPLAY_H

#include "analyzer/base/text.h"
#include <stddef.h>

/** `text` escaped for `kind`; "" for NULL. Owned by the caller; NULL: out of
 *  memory (message set). */
char *es_display_escape(const char *text, es_escape kind);

/** Columns that UTF-8 text takes on a terminal. A byte that is no UTF-8
 *  counts as one. */
size_t es_display_width(const char *text);

/**
 * Shortens text in place to at most `width` columns (at least 5): "..." in
 * the middle, so that both ends of a name stay. Never cuts within a character.
 */
void es_display_shorten(char *text, size_t width);

/** The shortest decimal of a finite number: as a float32 if it is one, since
 *  most of our numbers are. `out` has ES_FLOAT_TEXT_MAX bytes. Returns out. */
char *es_display_number(char *out, double value);

/** True if a name of the n comes twice; sorts them. */
bool es_names_repeat(const char **names, size_t n);

#endif
