/* Fuzzes numbers and escaping: analyzer/base/text.h. */
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void check_float(const char *text, size_t n)
{
    float value, again;
    char printed[ES_FLOAT_TEXT_MAX];
    if (!fuzz_succeeded(es_float_parse(&value, text, n)))
        return;
    es_float_print(printed, value);
    fuzz_require(strlen(printed) < ES_FLOAT_TEXT_MAX);
    fuzz_require(es_float_parse(&again, printed, strlen(printed)) == ES_OK);
    fuzz_require(memcmp(&value, &again, sizeof value) == 0);
}

/* Checks that a number with any bit pattern has the same value after printing
   and parsing. */
static void check_bits(const uint8_t *bytes, size_t n)
{
    float value, again;
    double wide, wide_again;
    char printed[ES_FLOAT_TEXT_MAX];
    if (n < sizeof wide)
        return;
    memcpy(&value, bytes, sizeof value);
    es_float_print(printed, value);
    fuzz_require(es_float_parse(&again, printed, strlen(printed)) == ES_OK);
    fuzz_require(memcmp(&value, &again, sizeof value) == 0);
    memcpy(&wide, bytes, sizeof wide);
    es_double_print(printed, wide);
    fuzz_require(strlen(printed) < ES_FLOAT_TEXT_MAX);
    if (!isfinite(wide))
        return;
    fuzz_require(es_double_parse(&wide_again, printed) == ES_OK);
    fuzz_require(wide == wide_again);
}

static void check_numbers(const char *text)
{
    double number;
    int64_t whole;
    if (fuzz_succeeded(es_double_parse(&number, text)))
        fuzz_require(isfinite(number));
    if (fuzz_succeeded(es_int_parse(&whole, text, -1000, INT64_MAX)))
        fuzz_require(whole >= -1000);
}

static void check_content(const char *out, es_escape kind)
{
    const char *never[] = {[ES_ESCAPE_TERMINAL] = "\x1b\r\n\x7f",
                           [ES_ESCAPE_JSON] = "\x1b\r\n\x7f",
                           [ES_ESCAPE_CSV] = "\x1b\r\n\x7f",
                           [ES_ESCAPE_XML] = "\x1b\r\n\x7f<>\"'"};
    fuzz_require(es_text_is_utf8(out, strlen(out)));
    fuzz_require(!strpbrk(out, never[kind]));
}

/* If the buffer is too small, it must contain the beginning of the complete
   result. */
static void check_escape(const char *text, es_escape kind, size_t cut)
{
    size_t length = es_text_escape(NULL, 0, text, kind);
    char *whole = malloc(length + 1), *part = malloc(cut ? cut : 1);
    fuzz_require(whole && part);
    fuzz_require(es_text_escape(whole, length + 1, text, kind) == length);
    fuzz_require(strlen(whole) == length);
    check_content(whole, kind);
    fuzz_require(es_text_escape(part, cut, text, kind) == length);
    if (cut > 0) {
        fuzz_require(strlen(part) < cut);
        fuzz_require(strncmp(whole, part, strlen(part)) == 0);
        check_content(part, kind);
    }
    free(whole);
    free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return 0;
    size_t cut = bytes[0] % 40;
    char *text = fuzz_string(bytes + 1, n - 1);
    check_float((const char *)bytes + 1, n - 1);
    check_bits(bytes, n);
    check_numbers(text);
    for (int kind = ES_ESCAPE_TERMINAL; kind <= ES_ESCAPE_XML; kind++)
        check_escape(text, (es_escape)kind, cut);
    free(text);
    return 0;
}
