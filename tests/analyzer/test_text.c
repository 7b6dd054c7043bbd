/* Tests conversions of text: numbers that read back as the same value, and
   names that are escaped for their destination. */
#include "analyzer/base/text.h"
#include "tests/support/test.h"

#include <locale.h>

static const char *escaped(const char *text, es_escape kind)
{
    static char out[256];
    es_text_escape(out, sizeof out, text, kind);
    return out;
}

TEST(control_bytes_are_escaped)
{
    assert_string_equal(escaped("\x1b[31mred", ES_ESCAPE_TERMINAL),
                        "\\x1b[31mred");
    assert_string_equal(escaped("a\xc2\x9b"
                                "b",
                                ES_ESCAPE_TERMINAL),
                        "a\\xc2\\x9bb");
    assert_string_equal(escaped("\xe2\x80\xae!", ES_ESCAPE_TERMINAL),
                        "\\xe2\\x80\\xae!");
    assert_string_equal(escaped("\xff\xc3\xa9", ES_ESCAPE_TERMINAL),
                        "\\xff\xc3\xa9");
}

TEST(json_is_escaped)
{
    assert_string_equal(escaped("a\"\\\n\x7f", ES_ESCAPE_JSON),
                        "a\\\"\\\\\\u000a\\u007f");
    assert_string_equal(escaped("\xc3", ES_ESCAPE_JSON), "\xef\xbf\xbd");
    assert_string_equal(escaped("\xc2\x85", ES_ESCAPE_JSON), "\\u0085");
}

TEST(csv_is_escaped)
{
    assert_string_equal(escaped("SM+LN", ES_ESCAPE_CSV), "SM+LN");
    assert_string_equal(escaped("a,b", ES_ESCAPE_CSV), "\"a,b\"");
    assert_string_equal(escaped("say \"x\"", ES_ESCAPE_CSV),
                        "\"say \"\"x\"\"\"");
    assert_string_equal(escaped("=1+1", ES_ESCAPE_CSV), "'=1+1");
}

TEST(xml_is_escaped)
{
    assert_string_equal(escaped("<a & 'b'>\x01", ES_ESCAPE_XML),
                        "&lt;a &amp; &#39;b&#39;&gt;\xef\xbf\xbd");
}

TEST(escape_cuts_between_characters)
{
    char out[4] = "zzz";
    assert_int_equal(
        es_text_escape(out, sizeof out, "ab\xc3\xa9", ES_ESCAPE_TERMINAL), 4);
    assert_string_equal(out, "ab");
    assert_int_equal(es_text_escape(out, sizeof out, "a<", ES_ESCAPE_XML), 5);
    assert_string_equal(out, "a");
    assert_int_equal(es_text_escape(NULL, 0, "abc", ES_ESCAPE_JSON), 3);
}

/* es_text truncates text at the end of the buffer, but counts its complete
   length. Nothing is written beyond the buffer. */
TEST(appended_text_is_cut_and_counted_whole)
{
    char buffer[12] = "xxxxxxxxxxx";
    es_text to = es_text_begin(buffer, 6);
    assert_string_equal(buffer, "");
    es_text_append(&to, "%s%d", "a", 12);
    assert_string_equal(buffer, "a12");
    es_text_append(&to, "%s", "bcd");
    assert_string_equal(buffer, "a12bc");
    es_text_append(&to, "%s", "e");
    es_text_append(&to, "%s", "fg");
    assert_string_equal(buffer, "a12bc");
    assert_int_equal(to.length, 9);
    assert_string_equal(buffer + 6, "xxxxx");
    es_text none = es_text_begin(NULL, 0);
    es_text_append(&none, "%d", 123);
    assert_int_equal(none.length, 3);
}

TEST(an_ending_is_found)
{
    assert_true(es_text_ends("a.db", ".db"));
    assert_true(es_text_ends(".db", ".db"));
    assert_true(es_text_ends("a", ""));
    assert_false(es_text_ends("db", ".db"));
    assert_false(es_text_ends("a.db-wal", ".db"));
    assert_false(es_text_ends("", ".db"));
}

TEST(malformed_utf8_is_found)
{
    assert_true(es_text_is_utf8("\xf0\x9f\x98\x80", 4));
    assert_false(es_text_is_utf8("\xf0\x9f\x98", 3));
    assert_false(es_text_is_utf8("\xc0\x80", 2));         /* overlong */
    assert_false(es_text_is_utf8("\xed\xa0\x80", 3));     /* surrogate */
    assert_false(es_text_is_utf8("\xf4\x90\x80\x80", 4)); /* > U+10FFFF */
}

static void assert_double_text(double value, const char *text)
{
    char out[ES_FLOAT_TEXT_MAX];
    double back;
    assert_string_equal(es_double_print(out, value), text);
    assert_int_equal(es_double_parse(&back, out), ES_OK);
    assert_true(back == value);
}

TEST(a_double_prints_in_its_shortest_form)
{
    assert_double_text(0.05, "0.05");
    assert_double_text(1e-3, "1e-3");
    assert_double_text(0, "0");
    assert_double_text(-0.25, "-0.25");
    assert_double_text(128, "128");
    assert_double_text(1e-5, "1e-5");
    assert_double_text(1.5e300, "1.5e300");
    assert_double_text(123456.75, "123456.75");
    assert_double_text(0.1 + 0.2, "0.30000000000000004");
    assert_double_text(DBL_TRUE_MIN, "5e-324");
    assert_double_text(-DBL_MAX, "-1.7976931348623157e308");
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

TEST(numbers_for_people_are_rounded)
{
    static const struct {
        double value;
        int digits;
        const char *text;
    } cases[] = {{1e-5, 4, "1e-5"},       {0.000123456, 3, "0.000123"},
                 {-2.5e10, 4, "-2.5e10"}, {128, 4, "128"},
                 {NAN, 4, "NaN"},         {-(double)NAN, 4, "NaN"},
                 {-INFINITY, 4, "-inf"}};
    char text[ES_FLOAT_TEXT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(
            es_number_print(text, cases[i].value, cases[i].digits),
            cases[i].text);
}

TEST(exponents_have_no_needless_digits)
{
    static const char *const cases[][2] = {{"1e-05", "1e-5"},
                                           {"-1.25e+10", "-1.25e10"},
                                           {"1e+00", "1e0"},
                                           {"1e-300", "1e-300"},
                                           {"2e-05-3e+06", "2e-5-3e6"},
                                           {"the-05 -e+07", "the-05 -e+07"},
                                           {"1e", "1e"},
                                           {"1e5", "1e5"},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        strcpy(text, cases[i][0]);
        es_text_shorten_exponents(text);
        assert_string_equal(text, cases[i][1]);
    }
}

/* Every 7,919th bit pattern, and special values, must keep all their bits. */
TEST(a_float_reads_back_as_itself)
{
    const uint32_t corners[] = {0,          0x80000000, 1,          0x007fffff,
                                0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000,
                                0x7fc00000, 0xffc00000, 0x7fc00001, 0x7fffffff,
                                0x7fc007a2};
    for (uint64_t i = 0; i < 542366 + 13; i++) {
        uint32_t bits = i < 13 ? corners[i] : (uint32_t)((i - 13) * 7919);
        float value, back;
        char out[ES_FLOAT_TEXT_MAX];
        memcpy(&value, &bits, sizeof value);
        /* A signalling NaN may become quiet when it is passed by value. */
        if (isnan(value) && !(bits & 0x00400000))
            continue;
        es_float_print(out, value);
        assert_int_equal(es_float_parse(&back, out, strlen(out)), ES_OK);
        if (float_bits(back) != bits)
            fail_msg("%08x printed as %s reads as %08x", bits, out,
                     float_bits(back));
    }
}

TEST(words_are_read_as_floats)
{
    float value;
    assert_int_equal(es_float_parse(&value, " nan ", 5), ES_OK);
    assert_true(isnan(value) && !es_is_missing(value));
    assert_int_equal(es_float_parse(&value, "", 0), ES_OK);
    assert_true(es_is_missing(value));
    assert_int_equal(es_float_parse(&value, "-INF", 4), ES_OK);
    assert_true(isinf(value) && value < 0);
    const char *bad[] = {
        "1.2.3",           "0x10", "1e999",   "nano", "1 2", "--1",
        "nan(0x7f800000)", "e5",   "nan(0x1", "1,5",  ".",   "+"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (es_float_parse(&value, bad[i], strlen(bad[i])) != ES_EFORMAT)
            fail_msg("'%s' was read as %g", bad[i], (double)value);
}

TEST(an_integer_is_read_within_its_range)
{
    int64_t value;
    assert_int_equal(es_int_parse(&value, "-12", -20, 20), ES_OK);
    assert_int_equal(value, -12);
    assert_int_equal(es_int_parse(&value, "21", -20, 20), ES_EFORMAT);
    assert_int_equal(es_int_parse(&value, " 1", -20, 20), ES_EFORMAT);
    assert_int_equal(es_int_parse(&value, "1x", -20, 20), ES_EFORMAT);
    assert_int_equal(es_int_parse(&value, "", -20, 20), ES_EFORMAT);
    assert_int_equal(
        es_int_parse(&value, "99999999999999999999", INT64_MIN, INT64_MAX),
        ES_EFORMAT);
    assert_int_equal(
        es_int_parse(&value, "9223372036854775807", INT64_MIN, INT64_MAX),
        ES_OK);
}

/* The locale of a program may use a decimal comma, but the functions of text.h
   always use a decimal point. */
TEST(a_locale_changes_nothing)
{
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        es_skip("no locale de_DE.UTF-8");
    char out[ES_FLOAT_TEXT_MAX];
    double back;
    float narrow;
    assert_string_equal(es_double_print(out, 1.5), "1.5");
    assert_int_equal(es_double_parse(&back, "2.25"), ES_OK);
    assert_true(back == 2.25);
    assert_int_equal(es_float_parse(&narrow, "0.125", 5), ES_OK);
    assert_true(narrow == 0.125f);
    setlocale(LC_NUMERIC, "C");
}

TEST(message_is_one_line)
{
    assert_int_equal(es_fail(ES_EIO, "%s", "a\nb\x1b[0m"), ES_EIO);
    assert_string_equal(es_message(), "a?b?[0m");
    es_fail(ES_EIO, "again: %s", es_message());
    assert_string_equal(es_message(), "again: a?b?[0m");
}
