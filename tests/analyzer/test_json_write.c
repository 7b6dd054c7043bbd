/**
 * Tests the JSON writer: commas and lines, escapes, numbers, and the states of
 * numbers that are not finite. Reads the output back with jansson.
 */
#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"

#include <jansson.h>

AUTO_OF(json_t, json_decref)

typedef struct output {
    char *text;
    size_t n;
    es_json_writer json;
} output;

static void begin(output *out)
{
    *out = (output){.text = NULL};
    out->json.stream = open_memstream(&out->text, &out->n);
    assert_non_null(out->json.stream);
}

static void check(output *out, const char *wanted)
{
    assert_int_equal(fclose(out->json.stream), 0);
    assert_string_equal(out->text, wanted);
    free(out->text);
}

TEST(commas_and_lines_are_added)
{
    output out;
    begin(&out);
    es_json_writer *json = &out.json;
    es_json_write_object(json, NULL);
    es_json_write_integer(json, "a", -1);
    es_json_write_array(json, "empty");
    es_json_write_end(json, "]");
    es_json_write_object(json, "b");
    es_json_write_bool(json, "c", true);
    es_json_write_null(json, "d");
    es_json_write_end(json, "}");
    es_json_write_line(json);
    es_json_write_array(json, "list");
    for (size_t i = 0; i < 2; i++) {
        es_json_write_line(json);
        es_json_write_size(json, NULL, i);
    }
    es_json_write_line(json);
    es_json_write_end(json, "]}");
    check(&out, "{\"a\":-1,\"empty\":[],\"b\":{\"c\":true,\"d\":null},\n"
                "\"list\":[\n0,\n1\n]}");
}

TEST(text_is_escaped)
{
    static const struct {
        const char *text, *plain, *html;
    } cases[] = {
        {"a\"\\\n", "\"a\\\"\\\\\\u000a\"", "\"a\\\"\\\\\\u000a\""},
        {"</script>", "\"</script>\"", "\"\\u003c/script>\""},
        {"\xff<", "\"\xef\xbf\xbd<\"", "\"\xef\xbf\xbd\\u003c\""},
        {"\xc2\x9b\x7f", "\"\\u009b\\u007f\"", "\"\\u009b\\u007f\""},
        {NULL, "null", "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int html = 0; html < 2; html++) {
            output out;
            begin(&out);
            out.json.in_html = html;
            es_json_write_text(&out.json, NULL, cases[i].text);
            check(&out, html ? cases[i].html : cases[i].plain);
        }
}

/* The writer escapes long texts in pieces. The result must be the same as if
   the whole text were escaped at once. */
TEST(pieces_split_no_character)
{
    static const char *const characters[] = {"a",
                                             "\"",
                                             "\n",
                                             "\xc2\x9b",
                                             "\xc3\xa4",
                                             "\xe6\xa8\xa1",
                                             "\xf0\x9f\x98\x80",
                                             "\xff",
                                             "\x80",
                                             "\xe6\xa8"};
    chance_seed(14);
    for (int round = 0; round < 500; round++) {
        char text[600] = "", escaped[4000], wanted[4002];
        output out;
        for (unsigned n = chance_below(100); n > 0; n--)
            strcat(text, characters[chance_below(10)]);
        es_text_escape(escaped, sizeof escaped, text, ES_ESCAPE_JSON);
        snprintf(wanted, sizeof wanted, "\"%s\"", escaped);
        begin(&out);
        es_json_write_text(&out.json, NULL, text);
        check(&out, wanted);
    }
}

TEST(numbers_are_shortest_or_have_a_state)
{
    output out;
    begin(&out);
    es_json_writer *json = &out.json;
    es_json_write_object(json, NULL);
    es_json_write_number(json, "float", 0.1F);
    es_json_write_number(json, "double", 0.1);
    es_json_write_double(json, "wide", 0.1F);
    es_json_write_double(json, "nan", NAN);
    es_json_write_stated(json, "s", NAN, "missing");
    es_json_write_stated(json, "t", -INFINITY, "nan");
    es_json_write_measured(json, "m", es_missing());
    es_json_write_measured(json, "n", NAN);
    es_json_write_measured(json, "i", INFINITY);
    es_json_write_measured(json, "z", 0);
    es_json_write_known(json, "k", INT64_MIN);
    es_json_write_known(json, "o", 7);
    es_json_write_end(json, "}");
    check(&out, "{\"float\":0.1,\"double\":0.1,\"wide\":0.10000000149011612,"
                "\"nan\":null,\"s\":null,\"s_state\":\"missing\","
                "\"t\":null,\"t_state\":\"-inf\","
                "\"m\":null,\"m_state\":\"missing\","
                "\"n\":null,\"n_state\":\"nan\","
                "\"i\":null,\"i_state\":\"inf\",\"z\":0,"
                "\"k\":null,\"k_state\":\"missing\",\"o\":7}");
}

TEST(json_of_a_file_keeps_its_values)
{
    output out;
    begin(&out);
    out.json.in_html = true;
    es_json_write_array(&out.json, NULL);
    es_json_write_json(&out.json, NULL, "{\"a<\":\"\xff\xc3\xa4\x7f\"}");
    es_json_write_format(&out.json, NULL, "%d of %s", 1, "\"x\"");
    es_json_write_end(&out.json, "]");
    check(&out, "[{\"a\\u003c\":\"\xef\xbf\xbd\xc3\xa4\\u007f\"},"
                "\"1 of \\\"x\\\"\"]");
}

/* Writes random values with random nesting. */
static void put_any(es_json_writer *json, const char *name, unsigned depth)
{
    static const char *const texts[] = {"", "\"", "\xff\n<", "plain", "\\u"};
    unsigned kind = chance_below(depth ? 7 : 5);
    if (kind == 0)
        es_json_write_text(json, name, texts[chance_below(5)]);
    else if (kind == 1)
        es_json_write_number(json, name, ldexp(1, (int)chance_below(2000)));
    else if (kind == 2)
        es_json_write_double(json, name, -1.0 / chance_below(9));
    else if (kind == 3)
        es_json_write_integer(json, name, INT64_MIN);
    else if (kind == 4)
        es_json_write_bool(json, name, false);
    else {
        if (kind == 5)
            es_json_write_object(json, name);
        else
            es_json_write_array(json, name);
        for (unsigned i = chance_below(4); i > 0; i--)
            put_any(json, kind == 5 ? texts[i] : NULL, depth - 1);
        es_json_write_end(json, kind == 5 ? "}" : "]");
    }
}

TEST(all_output_can_be_read_back)
{
    chance_seed(15);
    for (int round = 0; round < 1000; round++) {
        output out;
        json_error_t error;
        begin(&out);
        out.json.in_html = round % 2;
        put_any(&out.json, NULL, 5);
        assert_int_equal(fclose(out.json.stream), 0);
        AUTO(json_t) value = json_loads(out.text, JSON_DECODE_ANY, &error);
        assert_non_null(value);
        free(out.text);
    }
}
