/* entropy-scan rules: prints the manual of the rules file, or checks a file and
 * prints the values that it sets. */
#include "cli/alerts/rules/rules_file.h"
#include "cli/program/command.h"

typedef struct arguments {
    const char *path; /* rules file to check; if NULL, the defaults are
                         printed */
} arguments;

static const es_option table[] = {
    {.name = NULL, ES_OPT_TEXT(arguments, path)},
    ES_HELP_OPTION,
};

static int rules_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan rules", "Print the default thresholds as a file to edit"},
    {NULL, NULL}};

const es_command es_rules_command = {
    .name = "entropy-scan rules",
    .synopsis = "[FILE]",
    .examples = examples,
    .summary = "print a rules file: thresholds of the flags and further rules",
    .details =
        "Prints the thresholds by which runs are judged, as a rules file with\n"
        "comments and examples. Change the values that should differ, and\n"
        "pass the file to --rules. With FILE, checks that file and prints\n"
        "the values that result from it.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = rules_main,
};

static int rules_main(int argc, char **argv)
{
    arguments given = {.path = NULL};
    es_rules_file file;
    es_rules_file_default(&file);
    es_status status =
        es_command_parse(&given, NULL, &es_rules_command, argc, argv);
    if (status == ES_OK && given.path)
        status = es_rules_file_read(&file, given.path);
    if (status == ES_OK)
        es_rules_file_print(stdout, &file, !given.path);
    es_rules_file_free(&file);
    return es_command_exit(status);
}
