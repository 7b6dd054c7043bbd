/** Escapes text of any origin, and prints it on a stream. */
#ifndef ES_PRINT_H
#define ES_PRINT_H

#include "analyzer/base/text.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Escapes and prints a text. Prints nothing if memory is exhausted. */
void es_print_escaped(FILE *out, const char *text, es_escape kind);

/**
 * Prints a formatted note as a line "entropy-scan: TEXT" on standard error,
 * escaped for a terminal.
 */
void es_print_note(const char *fmt, ...) ES_PRINTF(1, 2);

/**
 * Prints "entropy-scan: " and es_message() on a line of standard error,
 * escaped; the prefix is red if standard error has colours.
 */
void es_print_failure(void);

/**
 * Values of --color. With AUTO, es_colour_suits decides whether text is
 * coloured.
 */
typedef enum es_colours {
    ES_COLOURS_AUTO,
    ES_COLOURS_ALWAYS,
    ES_COLOURS_NEVER
} es_colours;

/** Sets the value of --color, which applies to all streams. */
void es_print_set_colours(es_colours when);
bool es_print_has_colour(FILE *stream);

/**
 * Returns `text` escaped for `kind`, or "" if `text` is NULL; the caller frees
 * the string. Returns NULL and sets the error message if memory is exhausted.
 */
char *es_display_escape(const char *text, es_escape kind);

/**
 * Formats a finite number as the shortest decimal that reads back as the same
 * value. For a number that is exactly a float32, like most recorded values, it
 * suffices that the decimal reads back as the same float32. `out` has
 * ES_FLOAT_TEXT_MAX bytes. Returns out.
 */
char *es_display_number(char *out, double value);

/** Sorts the n names. Returns true if any two names are equal. */
bool es_names_repeat(const char **names, size_t n);

#endif
