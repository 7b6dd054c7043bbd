/**
 * Relations such as "<=" between a value and the value given in a condition of
 * --where or of a database URL.
 */
#ifndef ES_RELATION_H
#define ES_RELATION_H

#include <stddef.h>

/**
 * Bits for the order of two values. A NaN is NEITHER relative to any value. A
 * text either matches a pattern (EQUAL) or does not (NEITHER).
 */
enum { ES_BELOW = 1, ES_EQUAL = 2, ES_ABOVE = 4, ES_NEITHER = 8 };

/**
 * The characters that form relations. Names and values in conditions cannot
 * contain them.
 */
#define ES_RELATION_SIGNS "=!<>"

/**
 * Reads n bytes of text as one of = != < <= > >=. Returns the sign and sets
 * *out to its bits; returns NULL and leaves *out unchanged if the text is not
 * a relation.
 */
const char *es_relation_read(unsigned *out, const char *text, size_t n);

/** Returns the bit for the order of x and y: ES_BELOW if x < y. */
unsigned es_relation_of(double x, double y);

#endif
