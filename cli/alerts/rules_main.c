/* entropy-scan rules: what a rules file may say, and what one does say */
#include "cli/alerts/rules/rules_file.h"
#include "cli/program/command.h"

typedef struct arguments {
    const char *path; /* NULL: none */
    es_forecast_choice forecast;
} arguments;

static const es_option table[] = {
    {.name = NULL, ES_OPT_TEXT(arguments, path)},
    {"forecast", 0, "[stop]",
     "with the rule that warns of a run that is heading for a collapse or "
     "NaN: one healthy run of 20 is warned of; stop: one of 100 is stopped",
     ES_OPT_CALL(arguments, forecast, es_command_forecast)},
    ES_HELP_OPTION,
};

static int rules_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan rules", "Print the thresholds, as a file to be changed"},
    {"entropy-scan rules --forecast",
     "Print them with the rule that warns of a collapse to come"},
    {NULL, NULL}};

const es_command es_rules_command = {
    .name = "entropy-scan rules",
    .synopsis = "[FILE]",
    .examples = examples,
    .summary = "print a rules file: the thresholds of the flags, further rules",
    .details = "Prints the thresholds that runs are judged by as a rules file\n"
               "with comments and examples: change what should be different,\n"
               "and give it to --rules. With FILE checks that one, and prints\n"
               "what it comes to.",
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
        status = es_rules_file_add_forecast(&file, given.forecast);
    if (status == ES_OK)
        es_rules_file_print(stdout, &file, !given.path);
    es_rules_file_free(&file);
    return es_command_exit(status);
}
