/* Tests tables of command-line options: parsing of values into typed fields,
 * error messages, and help. */
#include "analyzer/base/completions.h"
#include "analyzer/base/help.h"
#include "analyzer/base/manual.h"
#include "tests/support/test.h"

typedef enum color { RED, GREEN } color;
static const char *const colors[] = {"red", "green", NULL};

typedef struct arguments {
    const char *heatmap, *output;
    int64_t step;
    int n_jobs;
    double rate;
    color color, background;
    char name[8];
    bool quiet;
    char **names, **inputs; /* owned */
    size_t n_names, n_inputs;
} arguments;

static es_status read_heatmap(void *field, const es_option *option,
                              const char *value, const char *where)
{
    (void)option;
    if (value && strcmp(value, "stop") == 0)
        return es_fail(ES_EIO, "%s: stopped", where);
    *(const char **)field = value ? value : "(none)";
    return ES_OK;
}

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, inputs, n_inputs)},
    {"heatmap", 0, "[FILE]", "draw a heatmap",
     ES_OPT_CALL(arguments, heatmap, read_heatmap)},
    {"step", 's', "N", "the step to show",
     ES_OPT_INT(arguments, step, 0, INT64_MAX - 1), .value = "7"},
    {"quiet", 'q', NULL, "say less", ES_OPT_FLAG(arguments, quiet)},
    {"output", 'o', "FILE",
     "a help text that is longer than one line of a narrow terminal can hold",
     ES_OPT_TEXT(arguments, output)},
    {"jobs", 0, "N", "jobs", ES_OPT_INT(arguments, n_jobs, 1, 4),
     .expects = "a number from 1 to 4", .tags = 2},
    {"rate", 0, "X", "rate", ES_OPT_REAL(arguments, rate, 0, 0.5), .tags = 2},
    {"color", 0, "NAME", "color", ES_OPT_CHOICE(arguments, color, colors),
     .value = "green", .tags = 2},
    {"background", 0, "NAME", "background",
     ES_OPT_CHOICE(arguments, background, colors), .expects = "red or green",
     .tags = 2},
    {"red", 0, NULL, "red", ES_OPT_SET(arguments, color, RED), .tags = 2},
    {"name", 0, "NAME", "name", ES_OPT_COPY(arguments, name), .tags = 2},
    {"also", 0, "NAME", "names", ES_OPT_LIST(arguments, names, n_names),
     .most = 2, .tags = 2},
    {"help", 'h', NULL, "help", .type = ES_OPTION_END, .tags = 2},
};

static const es_command command = {.name = "entropy-scan",
                                   .synopsis = "RUN.db",
                                   .summary = "shows runs",
                                   .details = ".dotted - line",
                                   .options = options,
                                   .n_options =
                                       sizeof options / sizeof *options};

static arguments got;
static bool given[ES_MAX_OPTIONS];
static char line_copy[256];

static void release(void)
{
    free(got.names);
    free(got.inputs);
    got = (arguments){.quiet = false};
    memset(given, 0, sizeof given);
}

static es_status parse_for(const es_command *some, const char *line)
{
    char *rest, *argv[32] = {(char[]){"entropy-scan"}};
    int argc = 1;
    release();
    snprintf(line_copy, sizeof line_copy, "%s", line);
    for (char *word = strtok_r(line_copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    assert_int_equal(es_options_default(&got, some), ES_OK);
    return es_options_parse(&got, given, some, argc, argv);
}

static es_status parse(const char *line)
{
    return parse_for(&command, line);
}

TEST(each_type_reaches_its_target)
{
    assert_int_equal(parse("a.db --heatmap -s 3 b.db --out=x -q --jobs 4 --rate"
                           " 0.25 --color red --name abcdefg --also p --also q"
                           " -- --c"),
                     ES_OK);
    assert_string_equal(got.heatmap, "(none)");
    assert_string_equal(got.output, "x");
    assert_int_equal(got.step, 3);
    assert_int_equal(got.n_jobs, 4);
    assert_true(got.rate == 0.25 && got.quiet && got.color == RED);
    assert_string_equal(got.name, "abcdefg");
    assert_int_equal(got.n_names, 2);
    assert_string_equal(got.names[1], "q");
    assert_int_equal(got.n_inputs, 3);
    assert_string_equal(got.inputs[0], "a.db");
    assert_string_equal(got.inputs[2], "--c");
    assert_int_equal(parse("--heatmap=f.png -qofile"), ES_OK);
    assert_string_equal(got.heatmap, "f.png");
    assert_string_equal(got.output, "file");
    assert_int_equal(parse("--step 9223372036854775806"), ES_OK);
    assert_true(got.step == INT64_MAX - 1);
    release();
}

TEST(defaults_hold_until_an_option_is_given)
{
    assert_int_equal(parse(""), ES_OK);
    assert_int_equal(got.step, 7);
    assert_int_equal(got.color, GREEN);
    assert_false(es_options_has(&command, given, "step"));
    assert_int_equal(parse("--step 7 --red"), ES_OK);
    assert_int_equal(got.color, RED);
    assert_true(es_options_has(&command, given, "step"));
    assert_false(es_options_has(&command, given, "color"));
}

TEST(a_wrong_line_is_refused_with_a_message)
{
    static const char *const cases[][2] = {
        {"--heatmop x", "--heatmop: no such option: did you mean --heatmap?"},
        {"--zzzzzzzzz", "--zzzzzzzzz: no such option: see entropy-scan --help"},
        {"a.db -x", "-x: no such option: see entropy-scan --help"},
        {"--r", "--r is short for several options: write it out"},
        {"a.db --step", "--step needs a value: --step=N"},
        {"-q -o", "--output needs a value: --output=FILE"},
        {"--quiet=3", "--quiet takes no value"},
        {"--step x", "--step: 'x' is not a whole number"},
        {"--step -1", "--step: -1 is not in 0..9223372036854775806"},
        {"--jobs 5", "--jobs '5': expected a number from 1 to 4"},
        {"--rate x", "--rate: 'x' is not a number"},
        {"--rate 1", "--rate: 1 is not between 0 and 0.5"},
        {"--color blue",
         "--color: unknown value 'blue': expected one of red, green"},
        {"--background blue", "--background 'blue': expected red or green"},
        {"--name abcdefgh", "--name: must have 1 to 7 bytes"},
        {"--also a --also b --also c", "--also: more than 2 names"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i][0]), ES_EUSAGE);
        assert_string_equal(es_message(), cases[i][1]);
    }
    release();
}

TEST(a_reader_or_help_ends_the_parsing)
{
    assert_int_equal(parse("--heatmap=stop -q"), ES_EIO);
    assert_string_equal(es_message(), "--heatmap: stopped");
    assert_false(got.quiet);
    assert_int_equal(parse("-h --zzz"), ES_DONE);
    assert_true(es_options_has(&command, given, "help"));
}

TEST(a_command_takes_the_rows_of_its_tags)
{
    es_command some = command;
    some.takes = 2;
    assert_int_equal(parse_for(&some, "--rate 0.5"), ES_OK);
    assert_int_equal(got.step, 0);
    assert_int_equal(parse_for(&some, "--step 3"), ES_EUSAGE);
    assert_int_equal(parse_for(&some, "a.db"), ES_EUSAGE);
    assert_string_equal(es_message(), "'a.db': entropy-scan takes no argument");
}

TEST(printed_values_read_back)
{
    char text[32];
    assert_int_equal(parse("--rate 0.1 --color red -q --name n -s 12"), ES_OK);
    static const char *const want[][2] = {{"rate", "0.1"},   {"color", "red"},
                                          {"quiet", "true"}, {"name", "n"},
                                          {"step", "12"},    {"heatmap", ""}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (size_t k = 0; k < command.n_options; k++)
            if (options[k].name && strcmp(options[k].name, want[i][0]) == 0) {
                es_option_print(text, sizeof text, &got, &options[k]);
                assert_string_equal(text, want[i][1]);
            }
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

/* Returns a command with only the first five rows of the table, whose help is
   short enough to be compared as a whole. */
static es_command plain(void)
{
    es_command some = command;
    some.n_options = 5;
    return some;
}

static void print_help(FILE *out)
{
    const es_command some = plain();
    es_options_print_help(out, &some, 60, false);
}

static void print_man(FILE *out)
{
    const es_command some = plain(), *const commands[] = {&some};
    const es_program program = {.commands = commands, .n = 1};
    es_manual_print(out, &program, &some);
}

static void print_completion(FILE *out)
{
    const es_command some = plain();
    es_options_print_completion(out, &some);
}

TEST(help_shows_names_and_defaults)
{
    AUTO_FREE char *text = printed(print_help);
    assert_string_equal(
        text, "entropy-scan - shows runs\n\n"
              "usage: entropy-scan RUN.db\n\n"
              "      --heatmap[=FILE]        draw a heatmap\n"
              "  -s, --step=N                the step to show (7)\n"
              "  -q, --quiet                 say less\n"
              "  -o, --output=FILE           a help text that is longer\n"
              "                              than one line of a narrow\n"
              "                              terminal can hold\n\n"
              ".dotted - line\n");
}

TEST(manual_and_completion_name_the_rows)
{
    AUTO_FREE char *man = printed(print_man);
    assert_non_null(strstr(man, ".TP\n.B \\-\\-heatmap[=FILE]\n"));
    assert_non_null(strstr(man, "\nthe step to show (7).\n"));
    assert_non_null(strstr(man, "\n\\&.dotted \\- line\n"));
    AUTO_FREE char *words = printed(print_completion);
    assert_string_equal(
        words, "    '') words=\"--heatmap --step= --quiet --output=\" ;;\n");
}
