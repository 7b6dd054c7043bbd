/** Text of any origin, for people: escaped, printed on a stream, and measured
 *  in columns of a terminal. */
#ifndef ES_PRINT_H
#define ES_PRINT_H

#include "analyzer/base/text.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Prints es_text_escape of text; prints nothing if there is no memory. */
void es_print_escaped(FILE *out, const char *text, es_escape kind);

/** Prints "entropy-scan: TEXT" and a newline on standard error, escaped for a
 *  terminal. */
void es_print_note(const char *fmt, ...) ES_PRINTF(1, 2);

/** Prints es_message() in the same way; the prefix is red if standard error has
 *  colours. */
void es_print_failure(void);

/** When text is coloured; AUTO: as es_colour_suits says. */
typedef enum es_colours {
    ES_COLOURS_AUTO,
    ES_COLOURS_ALWAYS,
    ES_COLOURS_NEVER
} es_colours;

/** Applies to all streams from now on. */
void es_print_set_colours(es_colours when);
bool es_print_has_colour(FILE *stream);

/** Returns `text` escaped for `kind`; "" for NULL. Owned by the caller. NULL:
 *  out of memory (the message is set). */
char *es_display_escape(const char *text, es_escape kind);

/** Returns the columns that UTF-8 text takes on a terminal. A byte that is not
 *  UTF-8 takes one. */
size_t es_display_width(const char *text);

/**
 * Shortens text in place to at most `width` columns (at least 5): replaces its
 * middle by "...", so that both ends of a name remain. Never splits a
 * character.
 */
void es_display_shorten(char *text, size_t width);

/** Prints the shortest decimal of a finite number, as a float32 if it is one,
 *  since most recorded numbers are. `out` has ES_FLOAT_TEXT_MAX bytes. Returns
 *  out. */
char *es_display_number(char *out, double value);

/** Returns true if two of the n names are equal; sorts them. */
bool es_names_repeat(const char **names, size_t n);

#endif
