/* entropy-scan watch: parses the options of the watcher, runs it, and chooses
 * the exit code. */
#include "cli/alerts/delivery/words.h"
#include "cli/alerts/watch/databases.h"
#include "cli/alerts/watch/watcher.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    es_watcher_options watcher;
    es_rules_file rules;
    char *state;       /* path of the state file; chosen here unless --state is
                          given */
    es_severity check; /* lowest severity of an alert that makes the exit code
                          1; NONE: no alert does */
} arguments;

/* --- options --------------------------------------------------------------*/

static es_status read_command(void *field, const es_option *option,
                              const char *value, const char *where)
{
    es_deliver_options *deliver = field;
    (void)option, (void)where;
    es_words_free(deliver->command);
    deliver->command = NULL;
    return es_words_split(&deliver->command, value);
}

static const char *const formats[] = {"plain", "slack", NULL};
#define SECONDS(field)                                                         \
    ES_OPT_REAL(arguments, field, 0.1, 86400),                                 \
        .expects = "seconds, from 0.1 to 86400"

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, watcher.roots, watcher.n_roots)},
    ES_RECURSIVE_OPTION,
    {"once", 0, NULL, "report the current alerts and exit",
     ES_OPT_FLAG(arguments, watcher.once)},
    {"check", 0, "[SEVERITY]",
     "with --once: exit 1 if there is an alert of this severity (error) or "
     "above, whether or not it was reported before",
     ES_OPT_CALL(arguments, check, es_command_severity)},
    {"rules", 0, "FILE",
     "apply the thresholds and rules in FILE (entropy-scan rules "
     "prints such a file), and stop a run if a rule requires it",
     ES_OPT_CALL(arguments, rules, es_command_rules)},
    {"state", 0, "FILE",
     "remember reported alerts in FILE, which must not belong to another user "
     "(default: a separate file for each first folder, below "
     "$XDG_STATE_HOME/entropy-scan or ~/.local/state/entropy-scan)",
     ES_OPT_TEXT(arguments, watcher.deliver.ledger)},
    {"severity", 0, "LEVEL",
     "report alerts of LEVEL and above: info, warning, error, critical",
     ES_OPT_CALL(arguments, watcher.least, es_command_severity),
     .value = "error"},
    {"exec", 0, "CMD",
     "run CMD for each alert, with the alert as JSON on its standard input; "
     "CMD is split into words as by a shell but run without one",
     ES_OPT_CALL(arguments, watcher.deliver, read_command)},
    {"exec-timeout", 0, "SECONDS", "kill CMD if it runs longer than SECONDS",
     SECONDS(watcher.deliver.command_limit), .value = "30"},
    {"webhook-env", 0, "NAME",
     "post each alert to the URL in the environment variable NAME",
     ES_OPT_CALL(arguments, watcher.deliver.webhook, es_webhook_read_url)},
    {"webhook-file", 0, "FILE", "post to the URL in the first line of FILE",
     ES_OPT_CALL(arguments, watcher.deliver.webhook, es_webhook_read_url)},
    {"webhook-format", 0, "FORMAT",
     "plain: the alert as JSON; slack: {\"text\":...}",
     ES_OPT_CHOICE(arguments, watcher.deliver.webhook.format, formats),
     .expects = "plain or slack", .value = "plain"},
    {"webhook-timeout", 0, "SECONDS",
     "give up an attempt to post after SECONDS",
     SECONDS(watcher.deliver.webhook.timeout), .value = "10"},
    {"stop", 0, NULL,
     "request that the training stop at the first critical alert of a run, "
     "through RUN.db.stop",
     ES_OPT_SET(arguments, watcher.stop_at, ES_SEVERITY_CRITICAL)},
    {"stop-at", 0, "LEVEL", "like --stop, but at any alert of LEVEL or above",
     ES_OPT_CALL(arguments, watcher.stop_at, es_command_severity)},
    {"textfile", 0, "FILE",
     "maintain FILE as OpenMetrics text: alerts, files, deliveries",
     ES_OPT_TEXT(arguments, watcher.textfile)},
    {"poll", 0, "SECONDS",
     "check the files at least this often, even if the system reports no "
     "changes",
     SECONDS(watcher.poll), .value = "5"},
    {"json", 0, NULL, "print each alert as a JSON object on one line",
     ES_OPT_FLAG(arguments, watcher.deliver.json)},
    ES_HELP_OPTION,
};

static int watch_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan watch --once --state state.db .",
     "Report the current alerts below a folder, then exit"},
    {NULL, NULL}};

const es_command es_watch_command = {
    .name = "entropy-scan watch",
    .synopsis = "RUN.db|DIR... [OPTION...]",
    .examples = examples,
    .summary = "report alerts while runs are written",
    .details =
        "Prints a line for each alert in the given run files, and in all\n"
        "run files (*.db, *.esf) below the given folders, including new\n"
        "files, until it is interrupted. It never writes to run files.\n"
        "\n"
        "Each run is judged as it grows: by the flags of `explain`, and with\n"
        "--rules also by the rules and thresholds of that file. A rule whose\n"
        "action is stop stops the training, whatever its severity.\n"
        "\n"
        "CMD fails unless it exits with 0; the failure is reported, and CMD\n"
        "is not run again. Its output goes to standard error.\n"
        "\n"
        "--once exits with 3 if a delivery was given up or is still owed.",
    .further_about = "The state file, and how posts are retried",
    .further =
        "Reported alerts are remembered in a state file, so that a watcher\n"
        "that is killed, restarted, or shares its state with another\n"
        "watcher neither repeats an alert nor misses one. Without --state,\n"
        "the file depends on the user, the host and the path of the first\n"
        "folder, or of the folder of the first file. A folder that is moved\n"
        "gets a new state file; a folder that is recreated keeps the old\n"
        "one. A state file belongs to one machine and user. If the process\n"
        "that makes a delivery is itself killed, a line may be printed\n"
        "twice; a command is never run twice.\n"
        "\n"
        "A post is retried after 1, 2, 4 ... 300 seconds if the server\n"
        "cannot be reached, does not answer in HTTP, or answers 408, 425,\n"
        "429, 5xx or a temporary redirection. After any other 4xx or a\n"
        "permanent redirection the alert is given up, which is reported.\n"
        "Redirections are not followed. The header X-Entropy-Scan-Id names\n"
        "the alert, because a post whose outcome is unknown is repeated.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = watch_main,
};

static es_status parse_arguments(arguments *given, int argc, char **argv)
{
    es_watcher_options *watcher = &given->watcher;
    es_rules_file_default(&given->rules);
    es_status status =
        es_command_parse(given, NULL, &es_watch_command, argc, argv);
    if (status != ES_OK)
        return status;
    if (!watcher->n_roots)
        return es_fail(ES_EUSAGE, "nothing to watch: name run files or "
                                  "folders");
    for (size_t i = 0; i < watcher->n_roots; i++)
        if (watcher->stop_at != ES_SEVERITY_NONE &&
            es_path_is_url(watcher->roots[i]))
            return es_fail(ES_EUSAGE,
                           "%s: --stop cannot stop a training run through a "
                           "database: watch the run file",
                           watcher->roots[i]);
    if (given->check && !watcher->once)
        return es_fail(ES_EUSAGE, "--check: needs --once");
    if (es_rules_file_is_set(&given->rules))
        watcher->rules = &given->rules;
    if (watcher->textfile &&
        (status = es_output_check_text(watcher->textfile, NULL, 0)) != ES_OK)
        return status;
    if (!watcher->deliver.ledger) {
        status = es_state_choose(&given->state, watcher->roots[0]);
        watcher->deliver.ledger = given->state;
    }
    return status;
}

/* --- the verb -------------------------------------------------------------*/

static int exit_code(const arguments *given, const es_watcher_result *result)
{
    bool undelivered = result->n_given_up || result->n_owed;
    if (undelivered)
        es_print_note("%s: deliveries given up: %lld, still owed: %lld",
                      given->watcher.deliver.ledger,
                      (long long)result->n_given_up, (long long)result->n_owed);
    if (undelivered || result->no_textfile ||
        (result->n_failed && !result->n_read))
        return es_exit_code(ES_EIO);
    if (result->n_failed)
        return ES_EXIT_SOME_FAILED;
    return given->check && result->highest >= given->check;
}

static int watch_main(int argc, char **argv)
{
    arguments given = {0};
    es_watcher_result result;
    int code;
    es_status status = parse_arguments(&given, argc, argv);
    if (status != ES_OK)
        code = es_command_exit(status);
    else if ((status = es_watcher_run(&result, &given.watcher)) != ES_OK)
        code = es_exit_code(status); /* the message has been printed already */
    else
        code = es_damage_exit(exit_code(&given, &result), result.n_read);
    es_words_free(given.watcher.deliver.command);
    free(given.watcher.deliver.webhook.url);
    es_rules_file_free(&given.rules);
    free(given.watcher.roots);
    free(given.state);
    return code;
}
