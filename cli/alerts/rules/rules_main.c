/* entropy-scan rules: what a rules file may say, and what one does say */
#include "cli/alerts/rules/rules_file.h"
#include "cli/program/command.h"

enum { HELP };

static const es_option table[] = {
    [HELP] = ES_HELP_OPTION,
};

const es_command es_rules_command = {
    .name = "entropy-scan rules",
    .synopsis = "[FILE]",
    .summary = "print a rules file: the thresholds of the flags, further rules",
    .details = "Prints the thresholds that runs are judged by as a rules file\n"
               "with comments and examples: change what should be different,\n"
               "and give it to --rules. With FILE checks that one, and prints\n"
               "what it comes to.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
};

static es_status take(void *user, int option, const char *value)
{
    if (option == ES_OPTION_ARGUMENT)
        return es_command_one_file(user, value);
    return es_command_help(&es_rules_command);
}

int es_rules_main(int argc, char **argv)
{
    const char *path = NULL;
    es_rules_file file;
    es_rules_file_default(&file);
    es_status status =
        es_options_parse(&es_rules_command, argc, argv, take, &path);
    if (status == ES_OK && path)
        status = es_rules_file_read(&file, path);
    if (status == ES_OK)
        es_rules_file_print(stdout, &file, !path);
    es_rules_file_free(&file);
    return es_command_exit(status);
}
