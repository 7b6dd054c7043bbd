/** Relations of a value to that of a condition, as --where and the URL of a
 *  database have them. */
#ifndef ES_RELATION_H
#define ES_RELATION_H

#include <stddef.h>

/** Bits: how a value is to another; a NaN is neither to any. A text is EQUAL to
 *  a pattern or NEITHER. */
enum { ES_BELOW = 1, ES_EQUAL = 2, ES_ABOVE = 4, ES_NEITHER = 8 };

/** What conditions are made of: names and values have none of these. */
#define ES_RELATION_SIGNS "=!<>"

/** The relation that n bytes of text are: one of = != < <= > >=, which is
 *  returned, and its bits in *out. NULL: none, and *out is unchanged. */
const char *es_relation_read(unsigned *out, const char *text, size_t n);

/** How x is to y: one bit. */
unsigned es_relation_of(double x, double y);

#endif
