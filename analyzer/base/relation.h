/**
 * Relations such as "<=" between a value and the value given in a condition of
 * --where or of a database URL.
 */
#ifndef ES_RELATION_H
#define ES_RELATION_H

#include <stddef.h>

/**
 * Bits for the order of two values. If one of the values is a NaN, the order is
 * ES_NEITHER. For a text and a pattern, the order is ES_EQUAL if the text
 * matches the pattern, otherwise ES_NEITHER.
 */
enum { ES_BELOW = 1, ES_EQUAL = 2, ES_ABOVE = 4, ES_NEITHER = 8 };

/**
 * The characters that form relations. Names and values in conditions cannot
 * contain them.
 */
#define ES_RELATION_SIGNS "=!<>"

/**
 * Reads n bytes of text as one of = != < <= > >=. Returns the relation as a
 * static string and sets *out to the bits of the orders that satisfy it. If the
 * text is not a relation, returns NULL and leaves *out unchanged.
 */
const char *es_relation_read(unsigned *out, const char *text, size_t n);

/** Returns the bit for the order of x and y: ES_BELOW if x < y. */
unsigned es_relation_of(double x, double y);

#endif
