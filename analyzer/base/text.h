/**
 * Converts numbers and names to text: escapes names for their destination, and
 * prints numbers so that reading them gives the same value.
 */
#ifndef ES_TEXT_H
#define ES_TEXT_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_escape {
    ES_ESCAPE_TERMINAL, /* for terminals: C0, C1, DEL and malformed UTF-8
                           become \xNN */
    ES_ESCAPE_JSON,     /* for JSON strings; malformed UTF-8 becomes U+FFFD */
    ES_ESCAPE_CSV,      /* for CSV: quoted where RFC 4180 requires it;
                           control bytes become \xNN; a ' is put before a
                           leading = + - @ */
    ES_ESCAPE_XML       /* for XML character data and attribute values */
} es_escape;

/**
 * Writes `text`, escaped for `kind`, into out[0..size), always terminated.
 *
 * Returns the length of the complete result, like snprintf. If the length is
 * `size` or more, the text in `out` was truncated between two characters.
 */
size_t es_text_escape(char *out, size_t size, const char *text, es_escape kind);

/**
 * A text that grows in a fixed buffer. The text in `out` is truncated at the
 * end of the buffer, but `length` counts the complete text, like snprintf.
 */
typedef struct es_text {
    char *out; /* always terminated, unless size is 0 */
    size_t size, length;
} es_text;

/** Returns an empty text in out[0..size). */
es_text es_text_begin(char *out, size_t size);

void es_text_append(es_text *text, const char *fmt, ...) ES_PRINTF(2, 3);

/**
 * Copies a PyTorch name without the prefixes that DDP ("module.", at the start
 * or after a slash) and torch.compile ("_orig_mod.", before any part) add.
 * `out` needs as much space as `name`.
 */
void es_text_unwrap(char *out, const char *name);

/** Returns true if `text` ends in `ending` or equals it. */
bool es_text_ends(const char *text, const char *ending);

/** Returns true if all of text[0..n) is well-formed UTF-8 (RFC 3629). */
bool es_text_is_utf8(const char *text, size_t n);

#define ES_FLOAT_TEXT_MAX 32

/**
 * Prints the shortest decimal that reads back as the same float32, for CSV
 * files. Special values are printed as "NaN", "inf", "-inf"; the missing value
 * as ""; any NaN except the canonical quiet NaN with its bits, such as
 * "NaN(0x7fc00001)".
 *
 * Returns `out`, which must have ES_FLOAT_TEXT_MAX bytes. The locale has no
 * influence.
 */
char *es_float_print(char *out, float value);

/**
 * Prints the shortest decimal that reads back as the same double: 0.05, 1e-3,
 * 128. Returns `out`.
 */
char *es_double_print(char *out, double value);

/**
 * Prints a number rounded to `digits` significant digits, for human readers:
 * 0.05, 1.2e-5, 3000; "NaN", "inf", "-inf". Returns `out`.
 */
char *es_number_print(char *out, double value, int digits);

/**
 * Shortens the exponents that printf writes, in place: "1.2e-05" becomes
 * "1.2e-5", "1e+05" becomes "1e5".
 */
void es_text_shorten_exponents(char *text);

/**
 * Reads any decimal number and the forms that es_float_print writes. "nan" and
 * "inf" may be in upper or lower case. An empty or blank text reads as the
 * missing value.
 *
 *   text   n bytes, need not be terminated
 *
 * Returns ES_OK, or ES_EFORMAT if `text` is not entirely a number.
 */
es_status es_float_parse(float *out, const char *text, size_t n) ES_MUST_USE;

/**
 * Reads a finite double. The text may contain only the number. Returns ES_OK or
 * ES_EFORMAT.
 */
es_status es_double_parse(double *out, const char *text) ES_MUST_USE;

/** Reads a decimal integer in [low, high]. Returns ES_OK or ES_EFORMAT. */
es_status es_int_parse(int64_t *out, const char *text, int64_t low,
                       int64_t high) ES_MUST_USE;

#endif
