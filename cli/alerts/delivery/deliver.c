/* Delivers alerts by one action, such as a command, in a separate process. The
 * process claims deliveries in the ledger one after the other, makes each
 * delivery and settles it, that is, records its outcome. This file contains all
 * kinds of delivery except the webhook (webhook.c). Each delivery function
 * returns the outcome and sets the message unless the alert was delivered. */
#include "cli/alerts/delivery/deliver.h"

#include "cli/alerts/delivery/stop.h"
#include "cli/output/print.h"
#include "store/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Number of consecutive failures after which a process makes no more
 * deliveries. */
#define FAILURES_MOST 2
/* Maximum number of attempts to record the outcome of a delivery in the ledger,
 * one per second. During this time a user can free space on a full disk. */
#define SETTLE_TRIES 60

const char *es_action_name(es_action action)
{
    static const char *const names[] = {[ES_ACTION_PRINT] = "print",
                                        [ES_ACTION_EXEC] = "exec",
                                        [ES_ACTION_WEBHOOK] = "webhook",
                                        [ES_ACTION_STOP] = "stop"};
    return names[action];
}

/* --- claimants ------------------------------------------------------------ */

/* A process that claims a delivery is identified by one number, which combines
 * its pid and start time, so that a killed process is not confused with a later
 * process of the same pid. Without /proc the start time is unknown and the
 * process is assumed to be alive. */
#define PID_BITS 22 /* bits of a pid; the kernel's limit is 2^22 */
#define PID_MASK (((int64_t)1 << PID_BITS) - 1)

/* Returns the start time of a process in clock ticks since boot; 0 if unknown;
 * -1 if the process has ended, even if its parent has not waited for it yet. */
static int64_t start_of(pid_t pid)
{
    char path[32], line[1024];
    long long start = 0;
    char state = '?';
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return kill(pid, 0) != 0 && errno == ESRCH ? -1 : 0;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = '\0';
    /* The process state and the numbers follow the last ')', because the
     * program name in parentheses may itself contain ')'. */
    const char *field = strrchr(line, ')');
    if (!field || sscanf(field + 1,
                         " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                         "%*s %*s %*s %*s %*s %*s %lld",
                         &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? -1 : start;
}

static int64_t claimant_of(pid_t pid, int64_t start)
{
    start = start < 0 ? 0 : start;
    return (start & (INT64_MAX >> PID_BITS)) << PID_BITS | (pid & PID_MASK);
}

bool es_deliver_is_free(const es_delivery *delivery)
{
    int64_t claimant = delivery->claimant;
    pid_t pid = (pid_t)(claimant & PID_MASK);
    if (!claimant)
        return true;
    int64_t start = start_of(pid);
    return start < 0 || (start > 0 && claimant >> PID_BITS > 0 &&
                         claimant_of(pid, start) != claimant);
}

/* --- print ----------------------------------------------------------------*/

/* Prints the alert, with a single write if the pipe accepts it, so that the
 * lines of two watchers do not mix. Standard output may be non-blocking,
 * because another program that shares it may have set O_NONBLOCK. Sets *gone if
 * standard output cannot be written. */
static es_delivery_outcome print_alert(bool *gone, const es_alert *alert,
                                       bool json)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    char *text = json ? es_alert_json(alert) : strdup(alert->text);
    if (!text) {
        es_fail(ES_ENOMEM, "out of memory for an alert");
        return ES_OUTCOME_AGAIN;
    }
    size_t n = strlen(text), n_written = 0;
    text[n++] = '\n'; /* the line end replaces the terminating NUL */
    while (n_written < n && !*gone) {
        ssize_t done = write(STDOUT_FILENO, text + n_written, n - n_written);
        if (done < 0 && errno == EAGAIN)
            poll(&output, 1, -1);
        else if (done < 0 && errno != EINTR)
            *gone = true;
        n_written += done > 0 ? (size_t)done : 0;
    }
    if (*gone)
        es_fail(ES_EIO, "standard output: cannot write: %s", strerror(errno));
    free(text);
    return *gone ? ES_OUTCOME_AGAIN : ES_OUTCOME_DELIVERED;
}

/* --- exec -----------------------------------------------------------------*/

/* Returns the descriptor of a memory file that contains the alert as JSON and
 * becomes the command's standard input; -1 on failure. Unlike writing to a
 * pipe, writing to this file does not fail if the command reads nothing. */
static int input_of(const es_alert *alert)
{
    char *json = es_alert_json(alert);
    size_t n = json ? strlen(json) : 0;
    int fd = memfd_create("alert", MFD_CLOEXEC);
    if (!json || fd < 0 || write(fd, json, n) != (ssize_t)n ||
        write(fd, "\n", 1) != 1 || lseek(fd, 0, SEEK_SET) != 0) {
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    free(json);
    return fd;
}

/* Runs the command with the alert as a line of JSON on its standard input; its
 * output goes to the standard error of this process. The command leads a
 * separate process group, which can be killed as a whole and does not outlive
 * this process. The alert is delivered if the command exits with 0. */
static es_delivery_outcome run_command(const es_alert *alert,
                                       const es_deliver_options *options)
{
    char note[64];
    es_process child;
    es_process_end end;
    double limit = options->command_limit;
    int input = input_of(alert);
    int error =
        input < 0
            ? errno
            : es_process_start(&child, &(es_process_options){
                                           .argv = options->command,
                                           .streams = {input, STDERR_FILENO,
                                                       ES_STREAM_INHERIT},
                                           .place = ES_PLACE_GROUP,
                                           .death_signal = SIGKILL,
                                           .as_shell = true});
    if (input >= 0)
        close(input);
    if (error) {
        es_fail(ES_EIO, "cannot run the command: %s", strerror(error));
        return ES_OUTCOME_AGAIN;
    }
    bool in_time =
        es_process_wait_or_kill(&end, &child, (int64_t)(limit * 1000));
    es_process_free(&child);
    if (in_time && !end.lost && end.code == 0)
        return ES_OUTCOME_DELIVERED;
    es_process_end_text(note, sizeof note, &end);
    if (in_time)
        es_fail(ES_EIO, "%s%s", note,
                end.code == 127 ? " (no such command?)" : "");
    else
        es_fail(ES_EIO, "killed after %g s", limit);
    return ES_OUTCOME_FAILED;
}

/* --- stop -----------------------------------------------------------------*/

static es_delivery_outcome request_stop(const es_alert *alert)
{
    es_status status = es_stop_request(alert->path, alert->uuid, alert->text);
    if (status == ES_OK)
        return ES_OUTCOME_DELIVERED;
    return status == ES_ENOTFOUND || status == ES_EFORMAT ? ES_OUTCOME_FAILED
                                                          : ES_OUTCOME_AGAIN;
}

/* --- one delivery ---------------------------------------------------------*/

static es_delivery_outcome perform_action(es_action action, bool *gone,
                                          const es_delivery *delivery,
                                          const es_deliver_options *options)
{
    const es_alert *alert = &delivery->alert;
    if (action == ES_ACTION_EXEC)
        return run_command(alert, options);
    if (action == ES_ACTION_WEBHOOK)
        return es_webhook_post(&options->webhook, alert);
    return action == ES_ACTION_STOP ? request_stop(alert)
                                    : print_alert(gone, alert, options->json);
}

/* Makes a delivery that this process has claimed, and records its outcome in
 * the ledger. A completed delivery must not be repeated; therefore a failed
 * attempt to record it is retried for a while, unless the ledger is damaged. */
static int make_delivery(es_ledger *ledger, const es_delivery *delivery,
                         es_action action, const es_deliver_options *options)
{
    char note[ES_MESSAGE_MAX];
    bool gone = false;
    es_delivery_outcome outcome = ES_OUTCOME_FAILED;
    if (delivery->claimant && action == ES_ACTION_EXEC)
        es_fail(ES_EIO, "the process that ran the command was killed: "
                        "the command is not run again");
    else
        outcome = perform_action(action, &gone, delivery, options);
    bool delivered = outcome == ES_OUTCOME_DELIVERED;
    snprintf(note, sizeof note, "%s", es_message());
    /* A delivery that fails repeatedly is reported only after its first
     * failure. */
    if (!delivered && (outcome == ES_OUTCOME_FAILED || !delivery->tries))
        es_print_note("%s: %s: %s", es_action_name(action), delivery->alert.id,
                      note);
    if (delivered && delivery->tries)
        es_print_note("%s: %s: delivered (failed attempts: %lld)",
                      es_action_name(action), delivery->alert.id,
                      (long long)delivery->tries);
    es_status status = ES_OK;
    for (int i = 0; i < SETTLE_TRIES; i++) {
        status = es_ledger_settle(ledger, delivery->number, outcome,
                                  delivered ? NULL : note);
        if (status == ES_OK || status == ES_EFORMAT)
            break;
        sleep(1);
    }
    if (status != ES_OK)
        es_print_note("%s", es_message());
    if (status == ES_OK && outcome != ES_OUTCOME_AGAIN)
        return ES_DELIVER_DONE;
    return gone ? ES_DELIVER_GONE : ES_DELIVER_AGAIN;
}

/* --- all deliveries ------------------------------------------------------- */

struct order {
    es_action action;
    const es_deliver_options *options;
};

/* Makes all pending deliveries of one action, such as a command. Runs in a
 * separate session, so that signals that a terminal sends to the watcher do not
 * end this process between claiming a delivery and recording its outcome. A
 * delivery that always fails does not block the others; but after two
 * consecutive failures the process ends, because the remaining deliveries would
 * probably fail too. */
static int deliver_all(void *argument)
{
    const struct order *order = argument;
    const char *name = es_action_name(order->action);
    int64_t after = 0, self = claimant_of(getpid(), start_of(getpid()));
    int code = ES_DELIVER_DONE, n_failed = 0;
    es_ledger *ledger = NULL;
    es_delivery next;
    signal(SIGPIPE, SIG_IGN);
    es_status status = es_ledger_open(&ledger, order->options->ledger);
    while (status >= 0 && n_failed < FAILURES_MOST && code != ES_DELIVER_GONE &&
           (status = es_ledger_next(ledger, after, &next)) == ES_OK) {
        after = next.number;
        if (strcmp(next.action, name) != 0 || !es_deliver_is_free(&next))
            continue;
        status = es_ledger_claim(ledger, next.number, next.claimant, self);
        if (status != ES_OK) /* the claim failed, or another process has claimed
                                the delivery */
            continue;
        int made = make_delivery(ledger, &next, order->action, order->options);
        n_failed = made == ES_DELIVER_DONE ? 0 : n_failed + 1;
        if (made != ES_DELIVER_DONE)
            code = made;
    }
    if (status < 0) {
        es_print_note("%s", es_message());
        code = ES_DELIVER_AGAIN;
    }
    es_ledger_close(ledger);
    return code;
}

int es_deliver_start(es_process *out, es_action action,
                     const es_deliver_options *options)
{
    struct order order = {action, options};
    return es_process_fork(out, deliver_all, &order);
}
