/* The option table: parsing, messages, help. */
#include "analyzer/base/options.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEATMAP, STEP, QUIET, OUTPUT };

static const es_option options[] = {
    {"heatmap", 0, "[FILE]", "draw a heatmap"},
    {"step", 's', "N", "the step to show"},
    {"quiet", 'q', NULL, "say less"},
    {"output", 'o', "FILE",
     "a help text that is longer than one line of a narrow terminal can hold"},
};

static const es_command command = {.name = "entropy-scan",
                                   .synopsis = "RUN.db",
                                   .summary = "shows runs",
                                   .details = ".dotted - line",
                                   .options = options,
                                   .n_options = 4};

static char seen[256];

static es_status note(void *user, int option, const char *value)
{
    (void)user;
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%d=%s ", option, value ? value : "");
    return value && strcmp(value, "stop") == 0 ? es_fail(ES_EIO, "stopped")
                                               : ES_OK;
}

static es_status parse(const char *line)
{
    char copy[256], *rest, *argv[16] = {"entropy-scan"};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    seen[0] = 0;
    return es_options_parse(&command, argc, argv, note, NULL);
}

static void test_options__order(void **state)
{
    (void)state;
    assert_int_equal(parse("a.db --heatmap -s 3 b.db --out=x -q -- --c"),
                     ES_OK);
    assert_string_equal(seen, "0= 1=3 3=x 2= -1=a.db -1=b.db -1=--c ");
    assert_int_equal(parse("--heatmap=f.png -qofile"), ES_OK);
    assert_string_equal(seen, "0=f.png 2= 3=file ");
    assert_int_equal(parse(""), ES_OK);
}

static void assert_message(const char *line, const char *message)
{
    assert_int_equal(parse(line), ES_EUSAGE);
    assert_string_equal(es_message(), message);
}

static void test_options__messages(void **state)
{
    (void)state;
    assert_message("--heatmop x",
                   "--heatmop: no such option: did you mean --heatmap?");
    assert_message("--zzzzzzzzz",
                   "--zzzzzzzzz: no such option: see entropy-scan --help");
    assert_message("a.db -x", "-x: no such option: see entropy-scan --help");
    assert_message("a.db --step", "--step needs a value: --step=N");
    assert_message("-q -o", "--output needs a value: --output=FILE");
    assert_message("--quiet=3", "--quiet takes no value");
}

static void test_options__handler_stops(void **state)
{
    (void)state;
    assert_int_equal(parse("-o stop -q"), ES_EIO);
    assert_string_equal(seen, "3=stop ");
}

static char *printed(void (*print)(FILE *))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    print(out);
    fclose(out);
    return text;
}

static void print_help(FILE *out)
{
    es_options_print_help(out, &command, 60);
}

static void print_man(FILE *out)
{
    es_options_print_man(out, &command);
}

static void print_completion(FILE *out)
{
    es_options_print_completion(out, &command);
}

static void test_options__help(void **state)
{
    (void)state;
    char *text = printed(print_help);
    assert_string_equal(
        text, "entropy-scan - shows runs\n\n"
              "usage: entropy-scan RUN.db\n\n"
              "      --heatmap[=FILE]        draw a heatmap\n"
              "  -s, --step=N                the step to show\n"
              "  -q, --quiet                 say less\n"
              "  -o, --output=FILE           a help text that is longer\n"
              "                              than one line of a narrow\n"
              "                              terminal can hold\n\n"
              ".dotted - line\n");
    free(text);
}

static void test_options__man_and_completion(void **state)
{
    (void)state;
    char *man = printed(print_man);
    assert_non_null(strstr(man, ".TP\n.B \\-\\-heatmap[=FILE]\n"));
    assert_non_null(strstr(man, "\n\\&.dotted \\- line\n"));
    free(man);
    char *words = printed(print_completion);
    assert_string_equal(
        words, "    '') words=\"--heatmap --step= --quiet --output=\" ;;\n");
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options__order),
        cmocka_unit_test(test_options__messages),
        cmocka_unit_test(test_options__handler_stops),
        cmocka_unit_test(test_options__help),
        cmocka_unit_test(test_options__man_and_completion),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
