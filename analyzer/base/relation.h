/**
 * Relations between a value and the value in a condition, as in --where and in
 * the URL of a database.
 */
#ifndef ES_RELATION_H
#define ES_RELATION_H

#include <stddef.h>

/**
 * Bits for the order of two values. A NaN is NEITHER to any value. A text is
 * EQUAL to a pattern or NEITHER.
 */
enum { ES_BELOW = 1, ES_EQUAL = 2, ES_ABOVE = 4, ES_NEITHER = 8 };

/** The characters of relations, which names and values cannot contain. */
#define ES_RELATION_SIGNS "=!<>"

/**
 * Reads n bytes of text as one of = != < <= > >=. Returns the sign and sets
 * *out to its bits; returns NULL and leaves *out unchanged if the text is not
 * a relation.
 */
const char *es_relation_read(unsigned *out, const char *text, size_t n);

/** Returns the one bit that encodes how x compares to y. */
unsigned es_relation_of(double x, double y);

#endif
