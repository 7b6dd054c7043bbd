/**
 * Declares the verbs (subcommands) of entropy-scan, and the options that
 * several verbs have.
 *
 * A verb consists of an es_command in a source file of its module and an entry
 * in ES_VERBS.
 */
#ifndef ES_COMMAND_H
#define ES_COMMAND_H

#include "analyzer/base/help.h"

/**
 * All verbs (subcommands), in the order of the help. `scan` stands for the
 * program without a verb.
 */
#define ES_VERBS(verb)                                                         \
    verb(scan) verb(draw) verb(compare) verb(tui) verb(trends) verb(summarise) \
        verb(import) verb(export) verb(merge) verb(push) verb(sql)             \
            verb(report) verb(cost) verb(importance) verb(rules) verb(explain) \
                verb(watch) verb(serve) verb(sweep) verb(help)

#define ES_DECLARE_VERB(verb) extern const es_command es_##verb##_command;
ES_VERBS(ES_DECLARE_VERB)

extern const es_program es_scan_program;

/**
 * Topic of `entropy-scan help run-file`, which prints the manual page
 * entropy-scan-run(5).
 */
extern const es_topic es_run_file_topic;

/** Tags of options. Several verbs share the table of options in
 *  cli/scan/scan_options.c; the tags of an option say which of these verbs have
 *  it. */
#define ES_SUMMARY_TAG (1u << 30)
#define ES_DRAW_TAG (1u << 29)
#define ES_COMPARE_TAG (1u << 28)
#define ES_TUI_TAG (1u << 27)
#define ES_TRENDS_TAG (1u << 26)
#define ES_SCAN_VERB_TAGS                                                      \
    (ES_SUMMARY_TAG | ES_DRAW_TAG | ES_COMPARE_TAG | ES_TUI_TAG | ES_TRENDS_TAG)

/** Row of the option --help, which is the last row of every table of
 *  options. */
#define ES_HELP_OPTION                                                         \
    {                                                                          \
        "help", 'h', NULL, "print this and exit", .type = ES_OPTION_END,       \
                                                  .tags = ES_SCAN_VERB_TAGS    \
    }

#define ES_SALVAGE_OPTION                                                      \
    {                                                                          \
        "salvage", 0, NULL,                                                    \
            "accept damaged samples, which are read as missing",               \
            ES_OPT_ALL(es_command_salvage), .tags = ES_SCAN_VERB_TAGS          \
    }

#define ES_COLOR_OPTION                                                        \
    {                                                                          \
        "color", 0, "WHEN",                                                    \
            "colour the text: always, never or auto (default)",                \
            ES_OPT_ALL(es_command_color), .tags = ES_SCAN_VERB_TAGS            \
    }

/**
 * Row of the option --recursive, which has no effect, because folders are
 * always searched recursively.
 */
#define ES_RECURSIVE_OPTION                                                    \
    {                                                                          \
        "recursive", 'r', NULL, "search folders recursively (the default)",    \
            ES_OPT_ALL(es_command_recursive), .tags = ES_SUMMARY_TAG           \
    }

/**
 * Functions that read the options that several verbs share. --phase sets an
 * es_phase_choice. An option with a severity sets an es_severity, which is
 * ES_SEVERITY_ERROR if the option has no value. --rules replaces an
 * es_rules_file.
 */
es_option_reader es_command_salvage, es_command_recursive, es_command_color,
    es_command_phase, es_command_severity, es_command_rules;

/** Help text of --rules. */
#define ES_RULES_HELP                                                          \
    "apply the thresholds and rules in FILE (entropy-scan rules prints "       \
    "an example)"

/**
 * Sets the defaults of the command's options, then parses its command line. The
 * parameters are those of es_options_parse.
 *
 * Returns ES_OK; ES_DONE if --help or --version was given and has been printed;
 * otherwise the error of es_options_parse.
 */
es_status es_command_parse(void *target, bool *given, const es_command *command,
                           int argc, char **argv) ES_MUST_USE;

/**
 * Returns the width in columns of the terminal to which standard output is
 * written, or 80 if standard output is not a terminal.
 */
int es_command_width(void);

/**
 * Returns the exit code of the program for `status`. If `status` is an error,
 * prints the error message.
 */
int es_command_exit(es_status status);

#endif
