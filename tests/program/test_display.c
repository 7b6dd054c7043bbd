/**
 * Tests the measured width of text on a terminal, the shortening of names, and
 * the formatting of numbers with the fewest digits.
 */
#include "analyzer/base/display.h"
#include "cli/output/print.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"

#define CJK "\xe6\xa8\xa1\xe5\x9e\x8b" /* two characters, four columns */
#define ACCENT "e\xcc\x81"             /* e and a combining accent */

TEST(text_has_the_width_of_its_characters)
{
    static const struct {
        const char *text;
        size_t width;
    } cases[] = {
        {"", 0},         {"abc", 3},       {CJK, 4},
        {ACCENT, 1},     {"\xce\xb1z", 2}, {CJK ACCENT "x", 6},
        {"\xff\xfe", 2}, {"\xe6\xa8", 2},  {"\xf0\x9f\x98\x80", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(es_display_width(cases[i].text), cases[i].width);
}

TEST(shortening_keeps_both_ends)
{
    static const struct {
        const char *text;
        size_t width;
        const char *shortened;
    } cases[] = {
        {"abcdefghij", 10, "abcdefghij"},
        {"abcdefghij", 9, "abc...hij"},
        {"abcdefghij", 8, "abc...ij"},
        {"abcdefghij", 5, "a...j"},
        {"abc", 5, "abc"},
        {"", 5, ""},
        {CJK CJK CJK, 12, CJK CJK CJK},
        {CJK CJK CJK, 11, CJK "..." CJK},
        {CJK CJK CJK, 8, "\xe6\xa8\xa1...\xe5\x9e\x8b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        es_display_shorten(text, cases[i].width);
        assert_string_equal(text, cases[i].shortened);
    }
}

/* Any string can be shortened to any width without splitting a character. */
TEST(shortened_text_fits)
{
    static const char *const pieces[] = {"a", CJK, ACCENT, "\xce\xb1", "-"};
    uint32_t random = 12345;
    for (int trial = 0; trial < 2000; trial++) {
        char text[256] = "";
        congruence_bits(&random);
        size_t n = random >> 16 & 31, width = 5 + (random >> 24 & 31);
        for (size_t i = 0; i < n; i++)
            strcat(text, pieces[(congruence_bits(&random) >> 16) % 5]);
        size_t before = es_display_width(text);
        es_display_shorten(text, width);
        size_t after = es_display_width(text);
        assert_true(after <= width || before <= width);
        assert_true(before > width || after == before);
        assert_true(es_text_is_utf8(text, strlen(text)));
    }
}

TEST(names_are_escaped_completely)
{
    AUTO_FREE char *escaped = es_display_escape("a\033[1m", ES_ESCAPE_TERMINAL);
    AUTO_FREE char *none = es_display_escape(NULL, ES_ESCAPE_JSON);
    assert_string_equal(escaped, "a\\x1b[1m");
    assert_string_equal(none, "");
}

TEST(numbers_are_printed_as_shortest_decimals)
{
    char text[ES_FLOAT_TEXT_MAX];
    assert_string_equal(es_display_number(text, 3.87F), "3.87");
    assert_string_equal(es_display_number(text, 0.5), "0.5");
    assert_string_equal(es_display_number(text, 3.87), "3.87");
    double third = 1.0 / 3;
    assert_true(strtod(es_display_number(text, third), NULL) == third);
}
