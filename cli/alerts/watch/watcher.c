/* The loop of `entropy-scan watch`: a round over the run files, alerts into
 * the ledger, a process for each action that is owed, then a wait for a change,
 * the end of such a process, or the clock. */
#include "cli/alerts/watch/watcher.h"

#include "cli/alerts/delivery/claimant.h"
#include "cli/alerts/watch/changes.h"
#include "cli/alerts/watch/known.h"
#include "cli/alerts/watch/metrics.h"
#include "cli/output/print.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define REST_LEAST 0.2 /* seconds between two rounds */
#define REST_SHARE 6   /* times the processor time of a round */
#define AGAIN_MOST 300 /* seconds between two tries of a delivery */

/* The process that makes the deliveries of one action. */
typedef struct worker {
    es_process process; /* pid 0: none */
    int tries;          /* that failed, one after the other */
    double again;       /* not before; monotonic seconds */
} worker;

typedef struct watcher {
    const es_watcher_options *options;
    es_watch_files files;
    es_ledger *ledger; /* open during a round; NULL between */
    es_known known;
    worker workers[ES_N_ACTIONS];
    bool owes[ES_N_ACTIONS];
    int64_t n_owed;                  /* see es_watcher_result */
    es_ledger_counts before, counts; /* when we began; now */
    int changes;
    bool changes_reported, ledger_reported, textfile_reported;
    bool output_gone;
} watcher;

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- what was found -------------------------------------------------------*/

static es_status open_ledger(watcher *w)
{
    return w->ledger ? ES_OK
                     : es_ledger_open(&w->ledger, w->options->deliver.ledger);
}

/* Once for each run, whatever its alerts: the id is the run's. */
static es_status enter_stop(watcher *w, const es_alert *alert, const char *json)
{
    const char *const actions[] = {es_action_name(ES_ACTION_STOP)};
    char id[ES_UUID_SIZE + 8];
    bool fresh;
    const es_severity least = w->options->stop_at;
    bool wanted =
        alert->stops || (least != ES_SEVERITY_NONE && alert->severity >= least);
    if (!wanted || !alert->is_written)
        return ES_OK;
    snprintf(id, sizeof id, "%.36s/stop", alert->uuid);
    return es_ledger_add(w->ledger, id, json, alert->severity, actions, 1,
                         &fresh);
}

static es_status enter(watcher *w, const es_alert *alert, const char *id,
                       const char *json)
{
    const es_deliver_options *deliver = &w->options->deliver;
    const char *actions[ES_N_ACTIONS];
    size_t n = 0;
    bool fresh;
    actions[n++] = es_action_name(ES_ACTION_PRINT);
    if (deliver->command)
        actions[n++] = es_action_name(ES_ACTION_EXEC);
    if (deliver->webhook.url)
        actions[n++] = es_action_name(ES_ACTION_WEBHOOK);
    es_status status;
    if ((status = open_ledger(w)) < 0 ||
        (alert->severity >= w->options->least &&
         (status = es_ledger_add(w->ledger, id, json, alert->severity, actions,
                                 n, &fresh)) < 0))
        return status;
    return enter_stop(w, alert, json);
}

static es_status enter_alert(void *user, const es_alert *alert)
{
    watcher *w = user;
    char *json = NULL, *id = es_alert_id(alert);
    es_status status = id ? ES_OK : ES_ENOMEM;
    uint64_t hash = id ? es_known_hash(&w->known, id) : 0;
    if (!id || es_known_has(&w->known, hash))
        goto done;
    json = es_alert_json(alert);
    status = json ? enter(w, alert, id, json) : ES_ENOMEM;
    if (status == ES_OK)
        es_known_add(&w->known, hash);
done:
    free(json);
    free(id);
    return status;
}

static bool can_do(const watcher *w, int action)
{
    const es_deliver_options *deliver = &w->options->deliver;
    return (action != ES_ACTION_EXEC || deliver->command) &&
           (action != ES_ACTION_WEBHOOK || deliver->webhook.url);
}

static bool is_free(const es_delivery *delivery)
{
    return !delivery->claimant || es_claimant_is_gone(delivery->claimant);
}

/* No alert is ever taken out: fewer than before are another file's. */
static es_status count(watcher *w)
{
    const int64_t before = w->counts.alerts;
    es_status status = es_ledger_count(w->ledger, &w->counts);
    if (status == ES_OK && w->counts.alerts < before)
        status = es_fail(ES_EFORMAT,
                         "%s: alerts that it held are gone: another program "
                         "has replaced it: they are reported again by the next "
                         "watch",
                         w->options->deliver.ledger);
    return status;
}

/* Which actions are owed, by whomever. */
static es_status read_owed(watcher *w)
{
    es_delivery next;
    int64_t after = 0;
    es_status status = open_ledger(w);
    memset(w->owes, 0, sizeof w->owes);
    w->n_owed = 0;
    if (status == ES_OK)
        status = count(w);
    while (status == ES_OK &&
           (status = es_ledger_next(w->ledger, after, &next)) == ES_OK) {
        after = next.number;
        for (int i = 0; i < ES_N_ACTIONS; i++) {
            if (strcmp(next.action, es_action_name((es_action)i)) != 0)
                continue;
            w->owes[i] = true;
            w->n_owed += can_do(w, i) && is_free(&next);
        }
    }
    return status == ES_DONE ? ES_OK : status;
}

/* Reports a failure once, until it is over. */
static void report_once(bool *reported, es_status status)
{
    if (status != ES_OK && !*reported)
        es_print_note("%s", es_message());
    *reported = status != ES_OK;
}

static es_status files(watcher *w)
{
    es_status status = es_watch_files_read(&w->files);
    es_status read = status == ES_OK ? read_owed(w) : ES_OK;
    es_changes_watch(w->changes, &w->files, &w->changes_reported);
    report_once(&w->ledger_reported, status == ES_OK ? read : status);
    /* No other process may inherit it. */
    es_ledger_close(w->ledger);
    w->ledger = NULL;
    return status == ES_OK ? read : status;
}

/* --- deliveries -----------------------------------------------------------*/

static void start_workers(watcher *w)
{
    double now = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < ES_N_ACTIONS; i++) {
        worker *slot = &w->workers[i];
        if (!w->owes[i] || slot->process.pid || now < slot->again ||
            !can_do(w, i))
            continue;
        w->owes[i] = false;
        int error = es_deliver_start(&slot->process, (es_action)i,
                                     &w->options->deliver);
        if (error) {
            es_print_note("no process for a delivery: %s", strerror(error));
            slot->again = now + 1;
            w->owes[i] = true;
        }
    }
}

/* 1, 2, 4 ... seconds after a failure. */
static void end_worker(watcher *w, int action, const es_process_end *end)
{
    worker *slot = &w->workers[action];
    es_process_free(&slot->process);
    int outcome = end->lost || end->signal ? ES_DELIVER_AGAIN : end->code;
    w->output_gone = w->output_gone || outcome == ES_DELIVER_GONE;
    if (outcome == ES_DELIVER_DONE) {
        slot->tries = 0;
        slot->again = 0;
        return;
    }
    double wait = slot->tries < 9 ? ldexp(1, slot->tries++) : AGAIN_MOST;
    slot->again = seconds(CLOCK_MONOTONIC) + fmin(wait, AGAIN_MOST);
    w->owes[action] = true;
}

static void end_workers(watcher *w, bool wait)
{
    for (int i = 0; i < ES_N_ACTIONS; i++) {
        es_process_end end;
        es_process *process = &w->workers[i].process;
        if (process->pid && es_process_wait(&end, process, wait ? -1 : 0))
            end_worker(w, i, &end);
    }
}

static void write_textfile(watcher *w)
{
    if (w->options->textfile)
        report_once(
            &w->textfile_reported,
            es_metrics_write(w->options->textfile, &w->files, &w->counts));
}

/* --- waiting --------------------------------------------------------------*/

/* Until `deadline`, a change if `listen`, or the end of a worker; true if there
   was a change. */
static bool wait_for(watcher *w, double deadline, bool listen)
{
    struct pollfd fds[ES_N_ACTIONS + 1];
    for (int i = 0; i < ES_N_ACTIONS; i++) {
        const worker *slot = &w->workers[i];
        const es_process *process = &slot->process;
        fds[i] = (struct pollfd){.fd = process->pid ? process->handle.fd : -1,
                                 .events = POLLIN};
        if (w->owes[i] && !process->pid && slot->again > 0)
            deadline = fmin(deadline, slot->again);
    }
    fds[ES_N_ACTIONS] =
        (struct pollfd){.fd = listen ? w->changes : -1, .events = POLLIN};
    double left = deadline - seconds(CLOCK_MONOTONIC);
    poll(fds, ES_N_ACTIONS + 1, left > 0 ? (int)ceil(1000 * left) : 0);
    end_workers(w, false);
    start_workers(w);
    return fds[ES_N_ACTIONS].revents && es_changes_read(w->changes);
}

/* Rests for what the round has cost, then waits for a change or the time. */
static void wait_for_next(watcher *w, double cost)
{
    double now = seconds(CLOCK_MONOTONIC);
    double earliest = now + fmax(REST_LEAST, REST_SHARE * cost);
    double latest = fmax(earliest, now + w->options->poll);
    bool rang = false;
    while (!w->output_gone && (now < earliest || (now < latest && !rang))) {
        bool listen = now >= earliest;
        rang = wait_for(w, listen ? latest : earliest, listen);
        now = seconds(CLOCK_MONOTONIC);
    }
}

/* --- the watch ------------------------------------------------------------*/

static bool has_alarms(const es_watch_files *files, const es_watch_file *file)
{
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        if (file->counts[kind][ES_SEVERITY_ERROR] ||
            file->counts[kind][ES_SEVERITY_CRITICAL])
            return true;
    for (size_t i = 0; file->of_rules && i < files->rules->n; i++)
        if (file->of_rules[i] &&
            files->rules->rules[i].severity >= ES_SEVERITY_ERROR)
            return true;
    return false;
}

static void fill_result(es_watcher_result *out, const watcher *w)
{
    *out =
        (es_watcher_result){.n_read = w->files.n_read,
                            .n_failed = w->files.n_failed,
                            .n_given_up = w->counts.failed - w->before.failed,
                            .n_owed = w->n_owed,
                            .no_textfile = w->textfile_reported};
    for (size_t i = 0; i < w->files.n_files; i++)
        out->alarms = out->alarms || has_alarms(&w->files, &w->files.files[i]);
}

static es_status watch_once(watcher *w)
{
    es_status status = files(w);
    if (status != ES_OK)
        return status;
    start_workers(w);
    end_workers(w, true);
    status = read_owed(w);
    report_once(&w->ledger_reported, status);
    es_ledger_close(w->ledger);
    w->ledger = NULL;
    if (status == ES_OK)
        write_textfile(w);
    return status;
}

/* The first round reads everything; what it costs is paid once. */
static es_status watch_on(watcher *w)
{
    es_status status = files(w);
    double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
    while ((status == ES_OK || w->files.files) && !w->output_gone) {
        start_workers(w);
        write_textfile(w);
        double now = seconds(CLOCK_PROCESS_CPUTIME_ID);
        wait_for_next(w, now - before);
        before = now;
        if (!w->output_gone)
            status = files(w);
    }
    return w->output_gone ? ES_EIO : status;
}

static es_status check_ledger(watcher *w)
{
    es_ledger *ledger = NULL;
    es_status status = es_ledger_open(&ledger, w->options->deliver.ledger);
    if (status == ES_OK)
        status = es_ledger_count(ledger, &w->before);
    w->counts = w->before;
    es_ledger_close(ledger);
    return status;
}

es_status es_watcher_run(es_watcher_result *out,
                         const es_watcher_options *options)
{
    watcher w = {.options = options, .changes = -1};
    w.files = (es_watch_files){.roots = options->roots,
                               .n_roots = options->n_roots,
                               .state = options->deliver.ledger,
                               .rules = options->rules,
                               .handler = enter_alert,
                               .user = &w,
                               .at_once = options->once};
    w.files.least = options->least;
    if (options->stop_at != ES_SEVERITY_NONE &&
        options->stop_at < w.files.least)
        w.files.least = options->stop_at;
    signal(SIGCHLD, SIG_DFL); /* ignored, no end would be reported */
    if (getrandom(&w.known.seed, sizeof w.known.seed, GRND_NONBLOCK) < 0)
        w.known.seed = (uint64_t)getpid();
    es_status status = check_ledger(&w);
    report_once(&w.ledger_reported, status);
    if (status == ES_OK && !options->once)
        w.changes = es_changes_open();
    if (status == ES_OK)
        status = options->once ? watch_once(&w) : watch_on(&w);
    fill_result(out, &w);
    if (w.changes >= 0)
        close(w.changes);
    es_known_free(&w.known);
    es_watch_files_close(&w.files);
    return status;
}
