/* Escapes text, and converts numbers to text and back independently of the
   locale, for all code that prints results or reads files. */
#include "analyzer/base/text.h"

#include "analyzer/base/value.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

es_text es_text_begin(char *out, size_t size)
{
    if (size)
        out[0] = '\0';
    return (es_text){.out = out, .size = size};
}

void es_text_append(es_text *text, const char *fmt, ...)
{
    size_t left = text->length < text->size ? text->size - text->length : 0;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(left ? text->out + text->length : NULL, left, fmt, args);
    va_end(args);
    text->length += n > 0 ? (size_t)n : 0;
}

void es_text_unwrap(char *out, const char *name)
{
    static const char compiled[] = "_orig_mod.", parallel[] = "module.";
    /* at_root: true if the rest of the name is at the start of the name or
     * follows a '/'; at_part: also true if it follows a dot. */
    bool at_root = true, at_part = true;
    while (*name) {
        if (at_part && strncmp(name, compiled, sizeof compiled - 1) == 0) {
            name += sizeof compiled - 1;
        } else if (at_root &&
                   strncmp(name, parallel, sizeof parallel - 1) == 0) {
            name += sizeof parallel - 1;
        } else {
            at_root = *name == '/';
            at_part = at_root || *name == '.';
            *out++ = *name++;
        }
    }
    *out = '\0';
}

bool es_text_ends(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

/* A text that grows in a fixed buffer, like es_text, but is truncated only
   between characters. */
typedef struct sink {
    char *bytes;
    size_t size, length;
    bool full; /* true if some text did not fit; later text is dropped */
} sink;

static void put_piece(sink *out, const char *piece, size_t n)
{
    if (!out->full && out->length + n < out->size)
        memcpy(out->bytes + out->length, piece, n);
    else if (!out->full) {
        out->full = true;
        if (out->size)
            out->bytes[out->length < out->size ? out->length : out->size - 1] =
                0;
    }
    out->length += n;
}

static void put_text(sink *out, const char *text)
{
    put_piece(out, text, strlen(text));
}

static void put_hex(sink *out, const char *fmt, unsigned value)
{
    char text[16];
    snprintf(text, sizeof text, fmt, value);
    put_text(out, text);
}

/* Returns the number of bytes of the UTF-8 character at `text`; 0 if it is
   malformed. */
static size_t utf8_length(const unsigned char *text, size_t n)
{
    unsigned char lead = text[0];
    if (lead < 0x80)
        return 1;
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Rejects overlong forms, surrogates, and values beyond U+10FFFF. */
    if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f) ||
        (lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

bool es_text_is_utf8(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = utf8_length((const unsigned char *)text + i, n - i);
        if (!length)
            return false;
        i += length;
    }
    return true;
}

/* Returns true for the characters C0, DEL and C1 (U+0080..U+009F, two bytes in
   UTF-8), which control a terminal. */
static bool is_control(const unsigned char *text, size_t length)
{
    return length == 1 ? text[0] < 0x20 || text[0] == 0x7f
                       : length == 2 && text[0] == 0xc2 && text[1] < 0xa0;
}

/* Returns true for the characters U+202A..E and U+2066..9, which reorder the
   text around them. */
static bool is_bidi(const unsigned char *text, size_t length)
{
    if (length != 3 || text[0] != 0xe2)
        return false;
    return (text[1] == 0x80 && text[2] >= 0xaa && text[2] <= 0xae) ||
           (text[1] == 0x81 && text[2] >= 0xa6 && text[2] <= 0xa9);
}

static void put_bytes_hex(sink *out, const unsigned char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        put_hex(out, "\\x%02x", text[i]);
}

static void put_terminal(sink *out, const unsigned char *text, size_t length)
{
    if (!length)
        put_bytes_hex(out, text, 1);
    else if (is_control(text, length) || is_bidi(text, length))
        put_bytes_hex(out, text, length);
    else
        put_piece(out, (const char *)text, length);
}

static void put_json(sink *out, const unsigned char *text, size_t length)
{
    if (!length)
        put_text(out, "\xef\xbf\xbd");
    else if (text[0] == '"' || text[0] == '\\')
        put_piece(out, text[0] == '"' ? "\\\"" : "\\\\", 2);
    else if (is_control(text, length))
        put_hex(out, "\\u%04x", length == 1 ? text[0] : text[1]);
    else
        put_piece(out, (const char *)text, length);
}

static void put_xml(sink *out, const unsigned char *text, size_t length)
{
    static const struct {
        char character;
        const char *entity;
    } entities[] = {{'&', "&amp;"},
                    {'<', "&lt;"},
                    {'>', "&gt;"},
                    {'"', "&quot;"},
                    {'\'', "&#39;"}};
    for (size_t i = 0; length == 1 && i < 5; i++)
        if (text[0] == (unsigned char)entities[i].character) {
            put_text(out, entities[i].entity);
            return;
        }
    /* XML 1.0 cannot represent control characters. */
    if (!length || is_control(text, length))
        put_text(out, "\xef\xbf\xbd");
    else
        put_piece(out, (const char *)text, length);
}

static void put_csv(sink *out, const unsigned char *text, size_t length)
{
    if (length == 1 && text[0] == '"')
        put_text(out, "\"\"");
    else
        put_terminal(out, text, length);
}

size_t es_text_escape(char *out, size_t size, const char *text, es_escape kind)
{
    static void (*const put_one[])(sink *, const unsigned char *, size_t) = {
        put_terminal, put_json, put_csv, put_xml};
    sink escaped = {.bytes = out, .size = size};
    size_t n = strlen(text);
    bool formula = n && strchr("=+-@", text[0]);
    bool quote = kind == ES_ESCAPE_CSV && text[strcspn(text, ",\"\r\n")];
    if (quote)
        put_piece(&escaped, "\"", 1);
    if (kind == ES_ESCAPE_CSV && formula)
        put_piece(&escaped, "'", 1);
    for (size_t i = 0; i < n;) {
        const unsigned char *next = (const unsigned char *)text + i;
        size_t length = utf8_length(next, n - i);
        put_one[kind](&escaped, next, length);
        i += length ? length : 1;
    }
    if (quote)
        put_piece(&escaped, "\"", 1);
    if (!escaped.full && escaped.size)
        escaped.bytes[escaped.length] = 0;
    return escaped.length;
}

/* A finite number, stored as its significant digits and the decimal exponent of
   the first digit. */
typedef struct decimal {
    char digits[24];
    int n, exponent;
    bool negative;
} decimal;

/* Reads printf's "-1.2345e+02", with any decimal point that the locale may use.
 */
static decimal read_scientific(const char *text)
{
    decimal out = {.negative = *text == '-'};
    const char *e = strchr(text, 'e');
    for (; text < e; text++)
        if (*text >= '0' && *text <= '9')
            out.digits[out.n++] = *text;
    while (out.n > 1 && out.digits[out.n - 1] == '0')
        out.n--;
    out.exponent = atoi(e + 1);
    return out;
}

static char *write_fixed(char *end, const decimal *number)
{
    int e = number->exponent;
    if (e < 0)
        *end++ = '0';
    for (int i = e < 0 ? e + 1 : 0; i < number->n || i <= e; i++) {
        if (i == e + 1)
            *end++ = '.';
        *end++ = i >= 0 && i < number->n ? number->digits[i] : '0';
    }
    *end = 0;
    return end;
}

static char *write_scientific(char *end, const decimal *number)
{
    *end++ = number->digits[0];
    if (number->n > 1) {
        *end++ = '.';
        memcpy(end, number->digits + 1, (size_t)number->n - 1);
        end += number->n - 1;
    }
    return end + sprintf(end, "e%d", number->exponent);
}

/* Writes the shorter of the forms 0.05 and 5e-2; the fixed form if they are
   equally long. */
static char *write_decimal(char *out, const decimal *number)
{
    char *at = out, scientific[ES_FLOAT_TEXT_MAX];
    if (number->negative)
        *at++ = '-';
    long length = write_scientific(scientific, number) - scientific;
    int e = number->exponent, fixed = e < 0 ? number->n - e + 1 : e + 1;
    if (e >= 0 && number->n > e + 1)
        fixed = number->n + 1;
    if (fixed <= length)
        write_fixed(at, number);
    else
        strcpy(at, scientific);
    return out;
}

static char *print_special(char *out, double value)
{
    if (isnan(value))
        return strcpy(out, "NaN");
    return strcpy(out, value > 0 ? "inf" : "-inf");
}

char *es_double_print(char *out, double value)
{
    char text[40];
    if (!isfinite(value))
        return print_special(out, value);
    /* For normal numbers, begin with DBL_DIG digits; if the shortest form has
     * fewer digits, the rest are zeros, which read_scientific removes. A
     * subnormal number may need fewer digits. */
    int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    for (; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (strtod(text, NULL) == value)
            break;
    }
    decimal number = read_scientific(text);
    return write_decimal(out, &number);
}

void es_text_shorten_exponents(char *text)
{
    static const char digits[] = "0123456789";
    for (char *e = text; (e = strchr(e, 'e')); e++) {
        bool exponent = e > text && strchr(digits, e[-1]) &&
                        (e[1] == '-' || e[1] == '+') && e[2] &&
                        strchr(digits, e[2]);
        if (!exponent)
            continue;
        const char *from = e + 2 + strspn(e + 2, "0");
        from -= !*from || !strchr(digits, *from); /* keeps one zero of the
                                                     exponent e+00 */
        memmove(e + 1 + (e[1] == '-'), from, strlen(from) + 1);
    }
}

char *es_number_print(char *out, double value, int digits)
{
    if (!isfinite(value))
        return print_special(out, value);
    snprintf(out, ES_FLOAT_TEXT_MAX, "%.*g", digits, value);
    es_text_shorten_exponents(out);
    return out;
}

char *es_float_print(char *out, float value)
{
    char text[40];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (es_is_missing(value))
        return strcpy(out, "");
    if (isnan(value) && bits != UINT32_C(0x7fc00000)) {
        snprintf(out, ES_FLOAT_TEXT_MAX, "NaN(0x%08x)", bits);
        return out;
    }
    if (!isfinite(value))
        return print_special(out, (double)value);
    int digits = fabsf(value) < FLT_MIN ? 1 : FLT_DIG;
    for (; digits <= FLT_DECIMAL_DIG; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    decimal number = read_scientific(text);
    return write_decimal(out, &number);
}

static es_status not_a_number(const char *text, size_t n)
{
    return es_fail(ES_EFORMAT, "'%.*s' is not a number", n > 40 ? 40 : (int)n,
                   text);
}

/* Reads a NaN whose bits are written in hexadecimal: "NaN(0x7fc00001)". */
static bool parse_nan_bits(float *out, const char *text)
{
    char *end;
    if (strncasecmp(text, "nan(0x", 6) != 0)
        return false;
    unsigned long bits = strtoul(text + 4, &end, 16);
    if (strcmp(end, ")") != 0 || bits > UINT32_MAX)
        return false;
    uint32_t bits32 = (uint32_t)bits;
    float value;
    memcpy(&value, &bits32, sizeof value);
    if (!isnan(value))
        return false;
    memcpy(out, &bits32, sizeof bits32);
    return true;
}

static bool parse_word(float *out, const char *text)
{
    const uint32_t quiet = UINT32_C(0x7fc00000);
    const char *word = *text == '+' || *text == '-' ? text + 1 : text;
    if (strcasecmp(text, "nan") == 0)
        memcpy(out, &quiet, sizeof quiet);
    else if (strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0)
        *out = *text == '-' ? -INFINITY : INFINITY;
    else
        return parse_nan_bits(out, text);
    return true;
}

/* Accepts only decimal notation: rejects hexadecimal floats, "infinity" and
   blanks within the number. */
static bool is_decimal(const char *text, size_t n)
{
    return n && strspn(text, "+-.0123456789eE") == n;
}

/* Replaces the decimal point by the locale's decimal point, which strtod
   expects. Returns false if the locale's decimal point is longer than one
   byte. */
static bool to_locale(char *text)
{
    const char *point = localeconv()->decimal_point;
    char *at = strchr(text, '.');
    if (at && strlen(point) == 1)
        *at = point[0];
    return !at || strlen(point) == 1;
}

es_status es_float_parse(float *out, const char *text, size_t n)
{
    char copy[64], *end = copy;
    while (n && (text[0] == ' ' || text[0] == '\t'))
        text++, n--;
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    if (!n) {
        *out = es_missing();
        return ES_OK;
    }
    if (n >= sizeof copy)
        return not_a_number(text, n);
    memcpy(copy, text, n);
    copy[n] = 0;
    if (parse_word(out, copy))
        return ES_OK;
    const bool reads = is_decimal(copy, n) && to_locale(copy);
    const float value = reads ? strtof(copy, &end) : 0;
    if (end == copy || *end)
        return not_a_number(text, n);
    if (isinf(value))
        return es_fail(ES_EFORMAT, "'%.*s' is too large for a float32", (int)n,
                       text);
    *out = value;
    return ES_OK;
}

es_status es_double_parse(double *out, const char *text)
{
    char copy[64], *end = copy;
    size_t n = strlen(text);
    if (n >= sizeof copy || !is_decimal(text, n))
        return not_a_number(text, n);
    memcpy(copy, text, n + 1);
    double value = to_locale(copy) ? strtod(copy, &end) : 0;
    if (end == copy || *end || !isfinite(value))
        return not_a_number(text, n);
    *out = value;
    return ES_OK;
}

es_status es_int_parse(int64_t *out, const char *text, int64_t low,
                       int64_t high)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || text[strspn(text, "+-0123456789")])
        return es_fail(ES_EFORMAT, "'%.40s' is not a whole number", text);
    if (errno == ERANGE || value < low || value > high)
        return es_fail(ES_EFORMAT, "%.40s is not in %lld..%lld", text,
                       (long long)low, (long long)high);
    *out = value;
    return ES_OK;
}
