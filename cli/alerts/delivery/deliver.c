/* The process that makes the deliveries of one action: it claims them in the
 * ledger one after the other, turns each stored alert into a value, delivers
 * it, and settles it. Here also the plainest delivery: a line on standard
 * output. */
#include "cli/alerts/delivery/deliver.h"

#include "cli/alerts/alert.h"
#include "cli/alerts/delivery/claimant.h"
#include "cli/output/print.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILURES_MOST 2 /* in a row */
#define SETTLE_TRIES 60 /* seconds: a full disk may become writable */

const char *es_action_name(es_action action)
{
    static const char *const names[] = {[ES_ACTION_PRINT] = "print",
                                        [ES_ACTION_EXEC] = "exec",
                                        [ES_ACTION_WEBHOOK] = "webhook",
                                        [ES_ACTION_STOP] = "stop"};
    return names[action];
}

/* --- standard output ------------------------------------------------------*/

/* Also where another program has made the terminal or pipe not wait. */
static bool write_all(int fd, const char *text, size_t n)
{
    struct pollfd output = {.fd = fd, .events = POLLOUT};
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EAGAIN)
            poll(&output, 1, -1);
        else if (done < 0 && errno != EINTR)
            return false;
        if (done > 0) {
            text += done;
            n -= (size_t)done;
        }
    }
    return true;
}

/* One write as far as the pipe allows it: lines of two watchers do not mix.
   `gone` becomes true if it cannot be written. */
static es_delivery_outcome print(bool *gone, char *note, size_t size,
                                 const es_alert *alert,
                                 const es_deliver_options *options)
{
    char *text = options->json ? es_alert_json(alert) : es_alert_line(alert);
    size_t n = text ? strlen(text) : 0;
    if (!text) {
        snprintf(note, size, "%s", es_message());
        return ES_OUTCOME_AGAIN;
    }
    text[n] = '\n'; /* in the place of the terminating NUL */
    *gone = !write_all(STDOUT_FILENO, text, n + 1);
    if (*gone)
        snprintf(note, size, "standard output: cannot write: %s",
                 strerror(errno));
    free(text);
    return *gone ? ES_OUTCOME_AGAIN : ES_OUTCOME_DELIVERED;
}

/* --- one delivery ---------------------------------------------------------*/

static es_delivery_outcome act(es_action action, bool *gone, char *note,
                               size_t size, const char *id,
                               const es_alert *alert,
                               const es_deliver_options *options)
{
    switch (action) {
    case ES_ACTION_EXEC:
        return es_deliver_exec(note, size, alert, options);
    case ES_ACTION_WEBHOOK:
        return es_webhook_post(note, size, &options->webhook, id, alert);
    case ES_ACTION_STOP:
        return es_deliver_stop(note, size, alert);
    default:
        return print(gone, note, size, alert, options);
    }
}

static es_delivery_outcome read_and_act(es_action action, bool *gone,
                                        char *note, size_t size,
                                        const es_delivery *delivery,
                                        const es_deliver_options *options)
{
    es_alert alert;
    if (es_alert_read(&alert, delivery->json) != ES_OK) {
        snprintf(note, size, "%s", es_message());
        return ES_OUTCOME_AGAIN;
    }
    es_delivery_outcome outcome =
        act(action, gone, note, size, delivery->id, &alert, options);
    es_alert_free(&alert);
    return outcome;
}

/* What was done must not be done again: a ledger that cannot be written for
   the moment is tried for a while; a damaged one does not heal. */
static es_status settle(es_ledger *ledger, int64_t number,
                        es_delivery_outcome outcome, const char *note)
{
    es_status status = ES_OK;
    for (int i = 0; i < SETTLE_TRIES; i++) {
        status = es_ledger_settle(ledger, number, outcome, note);
        if (status == ES_OK || status == ES_EFORMAT)
            break;
        sleep(1);
    }
    return status;
}

/* Makes a delivery that is ours now. */
static int make(es_ledger *ledger, const es_delivery *delivery, bool orphan,
                es_action action, const es_deliver_options *options)
{
    char note[ES_MESSAGE_MAX] = "";
    bool gone = false;
    es_delivery_outcome outcome = ES_OUTCOME_FAILED;
    if (orphan && action == ES_ACTION_EXEC)
        snprintf(note, sizeof note,
                 "the process that ran it was killed: not run again");
    else
        outcome =
            read_and_act(action, &gone, note, sizeof note, delivery, options);
    /* What fails again and again is reported the first time. */
    if (outcome != ES_OUTCOME_DELIVERED &&
        (outcome == ES_OUTCOME_FAILED || !delivery->tries))
        es_print_note("%s: %s: %s", es_action_name(action), delivery->id, note);
    if (outcome == ES_OUTCOME_DELIVERED && delivery->tries)
        es_print_note("%s: %s: delivered, after %lld that failed",
                      es_action_name(action), delivery->id,
                      (long long)delivery->tries);
    es_status status = settle(ledger, delivery->number, outcome,
                              outcome == ES_OUTCOME_DELIVERED ? NULL : note);
    if (status != ES_OK)
        es_print_note("%s", es_message());
    if (status == ES_OK && outcome != ES_OUTCOME_AGAIN)
        return ES_DELIVER_DONE;
    return gone ? ES_DELIVER_GONE : ES_DELIVER_AGAIN;
}

/* --- all of them ----------------------------------------------------------*/

static bool is_free(const es_delivery *delivery, es_action action)
{
    return strcmp(delivery->action, es_action_name(action)) == 0 &&
           (!delivery->claimant || es_claimant_is_gone(delivery->claimant));
}

/* One that fails whenever it is tried does not keep the others back; where two
   fail in a row, so will the rest. */
static int deliver_all(es_ledger *ledger, es_action action,
                       const es_deliver_options *options)
{
    es_delivery next;
    int64_t after = 0;
    int code = ES_DELIVER_DONE, n_failed = 0;
    es_status status = ES_OK;
    while (n_failed < FAILURES_MOST && code != ES_DELIVER_GONE &&
           (status = es_ledger_next(ledger, after, &next)) == ES_OK) {
        after = next.number;
        if (!is_free(&next, action))
            continue;
        status = es_ledger_claim(ledger, next.number, next.claimant,
                                 es_claimant_self());
        if (status < 0)
            break;
        if (status != ES_OK)
            continue;
        int made = make(ledger, &next, next.claimant != 0, action, options);
        n_failed = made == ES_DELIVER_DONE ? 0 : n_failed + 1;
        if (made != ES_DELIVER_DONE)
            code = made;
    }
    if (status < 0) {
        es_print_note("%s", es_message());
        code = ES_DELIVER_AGAIN;
    }
    return code;
}

struct order {
    es_action action;
    const es_deliver_options *options;
};

/* In a session of its own: what a terminal sends to the watcher must not end
   it between claim and settlement. */
static int be_the_child(void *argument)
{
    const struct order *order = argument;
    es_ledger *ledger = NULL;
    signal(SIGPIPE, SIG_IGN);
    es_status status = es_ledger_open(&ledger, order->options->ledger);
    if (status != ES_OK) {
        es_print_note("%s", es_message());
        return ES_DELIVER_AGAIN;
    }
    int code = deliver_all(ledger, order->action, order->options);
    es_ledger_close(ledger);
    return code;
}

int es_deliver_start(es_process *out, es_action action,
                     const es_deliver_options *options)
{
    struct order order = {action, options};
    return es_process_fork(out, be_the_child, &order);
}
