/**
 * Numbers and names as text: escaped for where they go, printed so that they
 * read back the same.
 */
#ifndef ES_TEXT_H
#define ES_TEXT_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_escape {
    ES_ESCAPE_TERMINAL, /* C0, C1, DEL and bad UTF-8 become \xNN */
    ES_ESCAPE_JSON,     /* inside a JSON string; bad UTF-8 becomes U+FFFD */
    ES_ESCAPE_CSV,      /* quoted where RFC 4180 needs it; control bytes as
                           for the terminal; a leading = + - @ gets a ' */
    ES_ESCAPE_XML       /* character data and attribute values */
} es_escape;

/**
 * Writes `text` escaped for `kind` into out[0..size), always terminated.
 *
 * Returns the length the whole result has, as snprintf does: a return of
 * `size` or more means that it was cut, between characters.
 */
size_t es_text_escape(char *out, size_t size, const char *text, es_escape kind);

/** Text that grows in a buffer: cut where that ends, but counted whole, as
 *  snprintf does. */
typedef struct es_text {
    char *out; /* always terminated, unless size is 0 */
    size_t size, length;
} es_text;

/** An empty one in out[0..size). */
es_text es_text_begin(char *out, size_t size);

void es_text_append(es_text *text, const char *fmt, ...) ES_PRINTF(2, 3);

/** Copies a name of PyTorch without what DDP (module., at its beginning or
 * after a slash) and torch.compile (_orig_mod., before any part) put into it;
 * `out` is as long as the name. */
void es_text_unwrap(char *out, const char *name);

/** True if text ends in `ending`, or is it. */
bool es_text_ends(const char *text, const char *ending);

/** True if all of text[0..n) is well-formed UTF-8 (RFC 3629). */
bool es_text_is_utf8(const char *text, size_t n);

#define ES_FLOAT_TEXT_MAX 32

/**
 * The shortest decimal that reads back as the same float32, in the spelling
 * of our CSV: "NaN", "inf", "-inf"; "" for missing; a NaN that is not the
 * canonical quiet one as "NaN(0x7fc00001)", so that nothing is lost.
 *
 * Returns out. out has ES_FLOAT_TEXT_MAX bytes. Independent of the
 * locale.
 */
char *es_float_print(char *out, float value);

/** The same for double; shortest form, e.g. 0.05, 1e-3, 128. */
char *es_double_print(char *out, double value);

/** Rounded to so many significant digits, for people: 0.05, 1.2e-5, 3000;
 * "NaN", "inf", "-inf". */
char *es_number_print(char *out, double value, int digits);

/** Numbers as printf leaves them, in place: every "1.2e-05" of the text becomes
 *  "1.2e-5", "1e+05" "1e5". */
void es_text_shorten_exponents(char *text);

/**
 * Reads what es_float_print writes, and any decimal number; case of nan and
 * inf is ignored; n = 0 or blanks alone read as missing.
 *
 *   text   n bytes, need not be terminated
 *
 * ES_OK, or ES_EFORMAT if text is not wholly a number (message set).
 */
es_status es_float_parse(float *out, const char *text, size_t n) ES_MUST_USE;

/** A finite double, whole text used. ES_OK or ES_EFORMAT. */
es_status es_double_parse(double *out, const char *text) ES_MUST_USE;

/** A decimal integer in [low, high]. ES_OK or ES_EFORMAT. */
es_status es_int_parse(int64_t *out, const char *text, int64_t low,
                       int64_t high) ES_MUST_USE;

#endif
