/* entropy-scan watch */
#include "cli/alerts/delivery/words.h"
#include "cli/alerts/watch/state.h"
#include "cli/alerts/watch/watcher.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    ONCE,
    CHECK,
    RULES,
    STATE,
    SEVERITY,
    EXEC,
    EXEC_TIMEOUT,
    WEBHOOK_ENV,
    WEBHOOK_FILE,
    WEBHOOK_FORMAT,
    WEBHOOK_TIMEOUT,
    STOP,
    STOP_AT,
    TEXTFILE,
    POLL,
    JSON,
    HELP
};

static const es_option options[] = {
    [ONCE] = {"once", 0, NULL, "tell what is there and end"},
    [CHECK] = {"check", 0, NULL,
               "with --once: exit 1 if there is an alert of severity error or "
               "above, told before or not"},
    [RULES] = {"rules", 0, "FILE",
               "judge by this file's thresholds and rules too (entropy-scan "
               "rules prints one), and stop a run where one says so"},
    [STATE] = {"state", 0, "FILE",
               "keep what was told in FILE, which no other user may own (one "
               "for each first folder, below $XDG_STATE_HOME/entropy-scan "
               "or ~/.local/state/entropy-scan)"},
    [SEVERITY] = {"severity", 0, "LEVEL",
                  "tell of alerts from LEVEL on: info, warning, error, "
                  "critical (error)"},
    [EXEC] = {"exec", 0, "CMD",
              "run CMD for each alert, with the alert as JSON on its standard "
              "input; split into words as by a shell, run without one"},
    [EXEC_TIMEOUT] = {"exec-timeout", 0, "SECONDS",
                      "end a CMD that takes longer (30)"},
    [WEBHOOK_ENV] = {"webhook-env", 0, "NAME",
                     "post each alert to the URL in the environment variable "
                     "NAME"},
    [WEBHOOK_FILE] = {"webhook-file", 0, "FILE",
                      "the same to the URL in the first line of FILE"},
    [WEBHOOK_FORMAT] = {"webhook-format", 0, "FORMAT",
                        "plain: the alert as JSON; slack: {\"text\":...} "
                        "(plain)"},
    [WEBHOOK_TIMEOUT] = {"webhook-timeout", 0, "SECONDS",
                         "give up a try that takes longer (10)"},
    [STOP] = {"stop", 0, NULL,
              "ask the training to stop at the first critical alert of a run, "
              "through RUN.db.stop"},
    [STOP_AT] = {"stop-at", 0, "LEVEL",
                 "the same at an alert of LEVEL or above"},
    [TEXTFILE] = {"textfile", 0, "FILE",
                  "keep FILE up to date with OpenMetrics text: alerts, files, "
                  "deliveries"},
    [POLL] = {"poll", 0, "SECONDS",
              "look at the files at least that often, whatever the system says "
              "of changes (5)"},
    [JSON] = {"json", 0, NULL, "print each alert as a JSON object on a line"},
    [HELP] = ES_HELP_OPTION,
};

const es_command es_watch_command = {
    .name = "entropy-scan watch",
    .synopsis = "RUN.db|DIR... [OPTION...]",
    .summary = "tell of alerts while runs are written",
    .details =
        "Prints a line for each alert of the run files named, and of all run\n"
        "files (*.db) below the folders named, new ones too, until it is\n"
        "ended. The files themselves are never written to.\n"
        "\n"
        "With --rules each run is judged by that file's rules as it grows. "
        "Where\n"
        "the file has other thresholds for the flags, these are judged by "
        "them,\n"
        "and the alerts that the recorder stored are not told. A rule whose\n"
        "action is stop asks its training to stop, whatever its severity.\n"
        "\n"
        "What was told is kept in a state file, so that a watcher that was\n"
        "killed, started again, or runs beside another on the same state\n"
        "neither repeats an alert nor misses one. Without --state it is that\n"
        "of this user and host for the first folder, or the folder of the\n"
        "first file, by its path: one that is moved begins anew, one that is\n"
        "made again goes on. A state belongs to one machine and one user. If\n"
        "even the process that makes a delivery is killed, a line may be\n"
        "printed twice; a command is never run twice.\n"
        "\n"
        "A server that cannot be reached, answers no HTTP, or 408, 425, 429,\n"
        "5xx, or a redirection for now, is tried again after 1, 2, 4 ... 300\n"
        "seconds; after any other 4xx, or a redirection for good, the alert\n"
        "is given up, and that is told. Redirections are not followed. The\n"
        "header X-Entropy-Scan-Id names the alert: a post whose outcome\n"
        "nobody saw is made again.\n"
        "\n"
        "CMD fails if it does not exit with 0; it is then told of, and not\n"
        "run again. What it prints goes to standard error.\n"
        "\n"
        "--once exits with 3 if a delivery was given up or is still owed.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

typedef struct arguments {
    es_watcher_options watcher;
    es_rules_file rules;
    const char **roots; /* (n_roots) room for all of argv */
    char *state;        /* made here, if none was given */
    bool check;
} arguments;

/* --- options --------------------------------------------------------------*/

static es_status take_severity(es_severity *out, const char *name,
                               const char *text)
{
    for (int i = ES_SEVERITY_INFO; i <= ES_SEVERITY_CRITICAL; i++)
        if (strcmp(text, es_severity_name((es_severity)i)) == 0) {
            *out = (es_severity)i;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE, "--%s '%.40s': info, warning, error or critical",
                   name, text);
}

static es_status take_seconds(double *out, const char *name, const char *text)
{
    if (es_double_parse(out, text) == ES_OK && *out >= 0.1 && *out <= 86400)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--%s '%.40s': seconds, from 0.1 to 86400", name,
                   text);
}

static es_status take_command(es_deliver_options *to, const char *text)
{
    es_words_free(to->command);
    to->command = NULL;
    return es_words_split(&to->command, text);
}

static es_status take_webhook(es_webhook *to, int option, const char *value)
{
    free(to->url);
    to->url = NULL;
    return option == WEBHOOK_ENV ? es_webhook_from_env(&to->url, value)
                                 : es_webhook_from_file(&to->url, value);
}

static es_status take_format(es_webhook *to, const char *value)
{
    to->slack = strcmp(value, "slack") == 0;
    if (!to->slack && strcmp(value, "plain") != 0)
        return es_fail(ES_EUSAGE, "--webhook-format '%.40s': plain or slack",
                       value);
    return ES_OK;
}

static es_status take(void *user, int option, const char *value)
{
    arguments *to = user;
    es_watcher_options *watcher = &to->watcher;
    switch (option) {
    case ES_OPTION_ARGUMENT:
        to->roots[watcher->n_roots++] = value;
        return ES_OK;
    case ONCE:
        watcher->once = true;
        return ES_OK;
    case CHECK:
        to->check = true;
        return ES_OK;
    case RULES:
        es_rules_file_free(&to->rules);
        return es_rules_file_read(&to->rules, value);
    case STATE:
        watcher->deliver.ledger = value;
        return ES_OK;
    case SEVERITY:
        return take_severity(&watcher->least, "severity", value);
    case EXEC:
        return take_command(&watcher->deliver, value);
    case EXEC_TIMEOUT:
        return take_seconds(&watcher->deliver.command_limit, "exec-timeout",
                            value);
    case WEBHOOK_ENV:
    case WEBHOOK_FILE:
        return take_webhook(&watcher->deliver.webhook, option, value);
    case WEBHOOK_FORMAT:
        return take_format(&watcher->deliver.webhook, value);
    case WEBHOOK_TIMEOUT:
        return take_seconds(&watcher->deliver.webhook.timeout,
                            "webhook-timeout", value);
    case STOP:
        watcher->stop_at = ES_SEVERITY_CRITICAL;
        return ES_OK;
    case STOP_AT:
        return take_severity(&watcher->stop_at, "stop-at", value);
    case TEXTFILE:
        watcher->textfile = value;
        return ES_OK;
    case POLL:
        return take_seconds(&watcher->poll, "poll", value);
    case JSON:
        watcher->deliver.json = true;
        return ES_OK;
    default:
        return es_command_help(&es_watch_command);
    }
}

static es_status choose_state(arguments *given)
{
    if (given->watcher.deliver.ledger)
        return ES_OK;
    es_status status = es_state_choose(&given->state, given->roots[0]);
    given->watcher.deliver.ledger = given->state;
    return status;
}

static es_status parse(arguments *given, int argc, char **argv)
{
    given->watcher = (es_watcher_options){.least = ES_SEVERITY_ERROR,
                                          .poll = 5,
                                          .deliver.command_limit = 30,
                                          .deliver.webhook.timeout = 10};
    given->roots = calloc((size_t)argc, sizeof *given->roots);
    if (!given->roots)
        return es_fail(ES_ENOMEM, "out of memory for %d arguments", argc);
    given->watcher.roots = given->roots;
    es_rules_file_default(&given->rules);
    es_status status =
        es_options_parse(&es_watch_command, argc, argv, take, given);
    if (status == ES_OK && !given->watcher.n_roots)
        status = es_fail(ES_EUSAGE, "nothing to watch: name run files or "
                                    "folders");
    if (status == ES_OK && given->check && !given->watcher.once)
        status = es_fail(ES_EUSAGE, "--check: only with --once");
    if (status == ES_OK && es_rules_file_is_set(&given->rules))
        given->watcher.rules = &given->rules;
    if (status == ES_OK && given->watcher.textfile)
        status = es_output_check_text(given->watcher.textfile, NULL, 0);
    return status == ES_OK ? choose_state(given) : status;
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
    return given->check && result->alarms;
}

int es_watch_main(int argc, char **argv)
{
    arguments given = {0};
    es_watcher_result result;
    es_status status = parse(&given, argc, argv);
    int code;
    if (status == ES_OK) {
        status = es_watcher_run(&result, &given.watcher);
        code = status == ES_OK
                   ? es_damage_exit(exit_code(&given, &result), result.n_read)
                   : es_exit_code(status);
    } else {
        code = es_command_exit(status);
    }
    es_words_free(given.watcher.deliver.command);
    free(given.watcher.deliver.webhook.url);
    es_rules_file_free(&given.rules);
    free(given.roots);
    free(given.state);
    return code;
}
