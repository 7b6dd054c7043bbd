/**
 * The verbs of entropy-scan, and what their command lines have in common.
 *
 * A verb is an es_command in a file of its own, with a line in ES_VERBS.
 */
#ifndef ES_COMMAND_H
#define ES_COMMAND_H

#include "analyzer/base/help.h"

/** In the order that help names them; the first is the program without one. */
#define ES_VERBS(verb)                                                         \
    verb(scan) verb(summarise) verb(import) verb(export) verb(merge)           \
        verb(push) verb(sql) verb(report) verb(cost) verb(importance)          \
            verb(rules) verb(explain) verb(watch) verb(sweep) verb(help)

#define ES_DECLARE_VERB(verb) extern const es_command es_##verb##_command;
ES_VERBS(ES_DECLARE_VERB)

extern const es_program es_scan_program;

/** entropy-scan-run(5), the run file: help run-file. */
extern const es_topic es_run_file_topic;

/** A tag of rows that the verb summarise shares with the scan. */
#define ES_SUMMARY_TAG (1u << 30)

/** The last row of every table of options. */
#define ES_HELP_OPTION                                                         \
    {                                                                          \
        "help", 'h', NULL, "print this and exit", .type = ES_OPTION_END,       \
                                                  .tags = ES_SUMMARY_TAG       \
    }

#define ES_SALVAGE_OPTION                                                      \
    {                                                                          \
        "salvage", 0, NULL,                                                    \
            "do not fail because of damaged samples: they are missing values " \
            "either way",                                                      \
            ES_OPT_ALL(es_command_salvage), .tags = ES_SUMMARY_TAG             \
    }

#define ES_COLOR_OPTION                                                        \
    {                                                                          \
        "color", 0, "WHEN",                                                    \
            "colour the text: always, never, or auto: on a terminal (auto)",   \
            ES_OPT_ALL(es_command_color), .tags = ES_SUMMARY_TAG               \
    }

/** Nothing follows from it: a folder is the run files below it either way. */
#define ES_RECURSIVE_OPTION                                                    \
    {                                                                          \
        "recursive", 'r', NULL,                                                \
            "read the run files (*.db) below the folders given, as without "   \
            "it",                                                              \
            ES_OPT_ALL(es_command_recursive), .tags = ES_SUMMARY_TAG           \
    }

/** Readers of options that several verbs have: --salvage; --recursive; --color;
 * --phase, into an es_phase_choice; a severity, error without a value, into an
 *  es_severity; --rules, into an es_rules_file, which is freed first;
 *  --forecast[=stop], into an es_forecast_choice. */
es_option_reader es_command_salvage, es_command_recursive, es_command_color,
    es_command_phase, es_command_severity, es_command_rules,
    es_command_forecast;

/** What the latter reads, said of runs that are looked at. */
#define ES_FORECAST_HELP                                                       \
    "judge by the rule that warns of a run that is heading for a collapse or " \
    "NaN, too; stop: by the threshold that stops one"

/** What es_command_rules reads, said in a few places. */
#define ES_RULES_HELP                                                          \
    "judge by this file's thresholds and rules (entropy-scan rules prints "    \
    "one)"

/**
 * Sets the defaults of the command's options, and parses its command line.
 * Parameters as es_options_parse's.
 *
 * ES_OK; ES_DONE: --help or --version was given, and is printed; what
 * es_options_parse returns.
 */
es_status es_command_parse(void *target, bool *given, const es_command *command,
                           int argc, char **argv) ES_MUST_USE;

/** Columns of standard output; 80 where it is no terminal. */
int es_command_width(void);

/** Prints the message of a failure; returns the exit code. */
int es_command_exit(es_status status);

#endif
