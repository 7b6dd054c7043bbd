/** Text for people, of whatever origin: escaped, on a stream, and as wide as a
 *  terminal has space. */
#ifndef ES_PRINT_H
#define ES_PRINT_H

#include "analyzer/base/text.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** es_text_escape to a stream; prints nothing if memory is out. */
void es_print_escaped(FILE *out, const char *text, es_escape kind);

/** "entropy-scan: TEXT" and a line end on standard error, safe for a
 *  terminal. */
void es_print_note(const char *fmt, ...) ES_PRINTF(1, 2);

/** The message of a failure likewise, es_message(); its beginning in red where
 *  colours are wanted. */
void es_print_failure(void);

/** When text has colours: as es_colour_suits says, or as the user does. */
typedef enum es_colours {
    ES_COLOURS_AUTO,
    ES_COLOURS_ALWAYS,
    ES_COLOURS_NEVER
} es_colours;

/** For all streams from now on. */
void es_print_set_colours(es_colours when);
bool es_print_has_colour(FILE *stream);

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
