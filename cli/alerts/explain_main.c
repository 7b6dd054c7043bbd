/* entropy-scan explain: prints the meaning, causes and remedies of a flag, from
 * the table of analyzer/flags. */
#include "analyzer/base/text.h"
#include "analyzer/flags/flags.h"
#include "cli/program/command.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct arguments {
    char **kinds; /* (n_kinds) */
    size_t n_kinds;
} arguments;

static const es_option table[] = {
    {.name = NULL, ES_OPT_LIST(arguments, kinds, n_kinds)},
    ES_HELP_OPTION,
};

static int explain_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan explain", "List the flags with their meanings"},
    {"entropy-scan explain collapse",
     "Explain what causes a collapse and what helps"},
    {NULL, NULL}};

const es_command es_explain_command = {
    .name = "entropy-scan explain",
    .synopsis = "[KIND...]",
    .examples = examples,
    .summary = "explain a flag: its meaning, causes and remedies",
    .details =
        "Prints what a flag means, its likely causes, what helps, and the\n"
        "papers and measurements behind it. Without KIND, lists all flags.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = explain_main,
};

/* Prints "- SENTENCE", wrapped to the width of the terminal. */
static void print_item(const char *sentence)
{
    fputs("- ", stdout);
    es_help_print_wrapped(stdout, sentence, 2, es_command_width());
}

static void print_thresholds(const es_flag_info *info)
{
    char number[ES_FLOAT_TEXT_MAX], line[256];
    const char *title =
        "\n"
        "thresholds, which a rules file can set (see entropy-scan rules):\n";
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++) {
        const es_flag_threshold *row = &es_flag_thresholds[i];
        if (es_flag_info_at(row->kind) != info)
            continue;
        fputs(title, stdout);
        title = "";
        snprintf(line, sizeof line, "%s = %s: %s", row->key,
                 es_double_print(number, row->value), row->comment);
        print_item(line);
    }
}

static void print_whole(const es_flag_info *info)
{
    char severities[ES_FLAG_SEVERITIES_MAX];
    printf("%s (%s)\n", info->name, es_flag_severities(severities, info));
    es_help_print_wrapped(stdout, info->meaning, 0, es_command_width());
    puts("\nlikely causes:");
    es_help_print_wrapped(stdout, info->causes, 0, es_command_width());
    puts("\nwhat helps:");
    es_help_print_wrapped(stdout, info->remedies, 0, es_command_width());
    print_thresholds(info);
    puts("\nsources:");
    for (size_t i = 0; i < ES_FLAG_SOURCES_MOST && info->sources[i]; i++)
        print_item(info->sources[i]);
}

static void print_all(void)
{
    enum { NAME = 12, INDENT = 32 };
    char severities[ES_FLAG_SEVERITIES_MAX];
    const es_flag_info *info;
    for (size_t i = 0; (info = es_flag_info_at(i)); i++) {
        printf("%-*s%-*s", NAME, info->name, INDENT - NAME,
               es_flag_severities(severities, info));
        es_help_print_wrapped(stdout, info->meaning, INDENT,
                              es_command_width());
    }
}

static int explain_main(int argc, char **argv)
{
    arguments given = {.kinds = NULL};
    char names[ES_FLAG_NAMES_MAX];
    es_status status =
        es_command_parse(&given, NULL, &es_explain_command, argc, argv);
    for (size_t i = 0; status == ES_OK && i < given.n_kinds; i++)
        if (!es_flag_info_find(given.kinds[i]))
            status =
                es_fail(ES_EUSAGE, "unknown flag '%.40s': expected one of %s",
                        given.kinds[i], es_flag_names(names, SIZE_MAX));
    for (size_t i = 0; status == ES_OK && i < given.n_kinds; i++) {
        if (i)
            putchar('\n');
        print_whole(es_flag_info_find(given.kinds[i]));
    }
    if (status == ES_OK && !given.n_kinds)
        print_all();
    free(given.kinds);
    return es_command_exit(status);
}
