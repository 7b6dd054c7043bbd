/* Contains the table of entropy-scan's verbs, the readers of options that
 * several verbs have (--help, --version, --phase, --rules, --salvage,
 * --color), and the mapping of failures to exit codes. The main function of
 * every verb uses this file. */
#include "cli/program/command.h"

#include "analyzer/statistics/inference.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "cli/runs/summary.h"
#include "render/picture.h"
#include "store/sql/query.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define VERB(verb) &es_##verb##_command,
static const es_command *const commands[] = {ES_VERBS(VERB)};

static const es_named_text exits[] = {
    {"0", "done"},
    {"1", "--check found something"},
    {"2", "the command line is wrong"},
    {"3", "an input or output failed, samples or rows are damaged, or recorded "
          "samples are lost"},
    {"4", "some of several inputs failed; the others were processed"},
    {"128+N", "ended by signal N"},
    {NULL, NULL}};

static const es_named_text environment[] = {
    {"NO_COLOR", "text is not coloured"},
    {"FORCE_COLOR", "text is coloured even if the output is not a terminal; "
                    "NO_COLOR takes precedence"},
    {"TERM, COLORTERM", "type of the terminal, and whether it has colours"},
    {"LC_ALL, LC_CTYPE, LANG", "whether the terminal displays UTF-8"},
    {"XDG_STATE_HOME",
     "folder in which watch records the alerts that it has delivered"},
    {"HOME",
     "without XDG_STATE_HOME, watch uses .local/state in this directory"},
    {NULL, NULL}};

static const es_named_text files[] = {
    {"RUN.db",
     "a run file: an SQLite database, which is only read; entropy-scan sql "
     "RUN.db --views prints views of it; entropy-scan-run(5), which "
     "entropy-scan help run-file prints, describes the tables"},
    {"RUN.esf",
     "a fragment, which a training run records instead of a run file on a file "
     "system that several hosts share (nfs, lustre, ...), or with --store "
     "fragment; it is read like a run file, also while it is written; merge "
     "converts it to a run file"},
    {"RUN.db-wal, RUN.db-shm", "part of a run file while it is written"},
    {"RUN.db.stop",
     "created by watch --stop and serve --allow-stop: requests that "
     "the training stop"},
    {"$XDG_STATE_HOME/entropy-scan/watch",
     "record of the alerts that watch has delivered"},
    {NULL, NULL}};

const es_program es_scan_program = {
    commands, sizeof commands / sizeof *commands,
    exits,    environment,
    files,    &es_run_file_topic};

int es_command_width(void)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    return known ? size.ws_col : 80;
}

static void print_version(void)
{
    char libraries[128];
    es_picture_libraries(libraries, sizeof libraries);
    printf("entropy-scan " ES_VERSION "\nSQLite %s, %s\n", es_query_sqlite(),
           libraries);
    if (es_stats_gsl())
        printf(
            "GSL %s: this program is under GPL-3, its sources are under MIT\n",
            es_stats_gsl());
    else
        puts("no GSL: no intervals, p-values, effect sizes or importance");
}

es_status es_command_parse(void *target, bool *given, const es_command *command,
                           int argc, char **argv)
{
    bool buffer[ES_MAX_OPTIONS] = {false}, *row = given ? given : buffer;
    es_status status;
    if ((status = es_options_default(target, command)) != ES_OK ||
        (status = es_options_parse(target, row, command, argc, argv)) !=
            ES_DONE)
        return status;
    if (es_options_has(command, row, "version"))
        print_version();
    else
        es_program_print_help(stdout, &es_scan_program, command,
                              es_command_width(), false);
    return ES_DONE;
}

int es_command_exit(es_status status)
{
    if (status < 0)
        es_print_failure();
    return es_exit_code(status);
}

es_status es_command_salvage(void *field, const es_option *option,
                             const char *value, const char *where)
{
    (void)field, (void)option, (void)value, (void)where;
    es_damage_accept();
    return ES_OK;
}

es_status es_command_recursive(void *field, const es_option *option,
                               const char *value, const char *where)
{
    (void)field, (void)option, (void)value, (void)where;
    return ES_OK;
}

es_status es_command_color(void *field, const es_option *option,
                           const char *value, const char *where)
{
    static const char *const names[] = {"auto", "always", "never"};
    (void)field, (void)option, (void)where;
    for (int i = 0; i < 3; i++)
        if (strcmp(value, names[i]) == 0) {
            es_print_set_colours((es_colours)i);
            return ES_OK;
        }
    return es_fail(
        ES_EUSAGE,
        "--color: unknown value '%.40s': expected auto, always or never",
        value);
}

es_status es_command_severity(void *field, const es_option *option,
                              const char *value, const char *where)
{
    (void)option;
    if (!value) {
        *(es_severity *)field = ES_SEVERITY_ERROR;
        return ES_OK;
    }
    for (int i = ES_SEVERITY_INFO; i <= ES_SEVERITY_CRITICAL; i++)
        if (strcmp(value, es_severity_name((es_severity)i)) == 0) {
            *(es_severity *)field = (es_severity)i;
            return ES_OK;
        }
    return es_fail(
        ES_EUSAGE,
        "%s: unknown value '%.40s': expected info, warning, error or critical",
        where, value);
}

es_status es_command_phase(void *field, const es_option *option,
                           const char *value, const char *where)
{
    (void)option, (void)where;
    if (strcmp(value, "train") != 0 && strcmp(value, "eval") != 0)
        return es_fail(ES_EUSAGE,
                       "--phase: unknown value '%.40s': expected train or eval",
                       value);
    *(es_phase_choice *)field =
        value[0] == 't' ? ES_PHASE_ONLY_TRAIN : ES_PHASE_ONLY_EVAL;
    return ES_OK;
}

es_status es_command_rules(void *field, const es_option *option,
                           const char *value, const char *where)
{
    (void)option, (void)where;
    es_rules_file_free(field);
    return es_rules_file_read(field, value);
}

/* --- the verb help --------------------------------------------------------*/

static int help_main(int argc, char **argv)
{
    return es_command_exit(es_program_help(stdout, &es_scan_program,
                                           &es_help_command, argc, argv,
                                           es_command_width()));
}

const es_command es_help_command = {
    .name = "entropy-scan help",
    .synopsis = ES_HELP_SYNOPSIS,
    .summary = ES_HELP_SUMMARY,
    .options = es_help_options,
    .n_options = ES_N_HELP_OPTIONS,
    .main = help_main,
};
