/* Contains the loop of `entropy-scan watch`. Each round reads the run files,
 * enters alerts into the ledger, and starts a process for each action that has
 * pending deliveries; then the loop waits for a file change (inotify), the end
 * of a delivering process, or the next poll. */
#include "cli/alerts/watch/watcher.h"

#include "cli/alerts/watch/changes.h"
#include "cli/output/print.h"

#include <math.h>
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Minimum time in seconds between two rounds, each a check of all run files. */
#define REST_LEAST 0.2
/* Pause after a round (a check of all run files), as a multiple of its CPU
 * time. */
#define REST_SHARE 6
/* Maximum number of databases that notify the watcher of changes; further
 * databases are polled. */
#define DATABASES_MOST 16
/* Maximum time in seconds between two checks of the run files while other hosts
 * write run files. */
#define POLL_ABROAD 1
/* Maximum time between two attempts of a delivery in seconds. */
#define AGAIN_MOST 300
/* Maximum number of remembered alert ids (about 2 MiB). */
#define KNOWN_MOST 16384

/* The process that delivers alerts by one action, such as a command or a
 * webhook. */
typedef struct worker {
    es_process process; /* the running process; pid 0 if there is none */
    bool can_do, owes;
    int tries;    /* consecutive failures */
    double again; /* earliest time of the next attempt to make the deliveries,
                     in seconds of the monotonic clock */
} worker;

typedef struct watcher {
    const es_watcher_options *options;
    es_watch_files files;
    es_ledger *ledger; /* ledger, open during a round; NULL between rounds */
    void *known;       /* tree (tsearch) of n_known alert ids that the ledger
                          contains */
    size_t n_known;
    worker workers[ES_N_ACTIONS];
    int64_t n_owed;                  /* number of pending deliveries that no
                                        process has claimed */
    es_ledger_counts before, counts; /* counts in the ledger at the start of the
                                        watcher and now */
    es_watch_changes changes;
    bool ledger_reported, textfile_reported;
    bool output_gone;
} watcher;

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reports a failure on its first occurrence; *reported stays true until the
 * status is ES_OK again. */
static void report_once(bool *reported, es_status status)
{
    if (status != ES_OK && !*reported)
        es_print_note("%s", es_message());
    *reported = status != ES_OK;
}

/* --- alerts --------------------------------------------------------------- */

static es_status open_ledger(watcher *w)
{
    return w->ledger ? ES_OK
                     : es_ledger_open(&w->ledger, w->options->deliver.ledger);
}

/* Closes the ledger before child processes are started, because they must not
 * inherit it. */
static void close_ledger(watcher *w)
{
    es_ledger_close(w->ledger);
    w->ledger = NULL;
}

/* Stores an alert and its deliveries in the ledger. A request to stop a run is
 * delivered only once, however many alerts cause it, because the id of the
 * request contains only the run. */
static es_status store_alert(watcher *w, const es_alert *alert)
{
    const char *actions[ES_N_ACTIONS], *stop = es_action_name(ES_ACTION_STOP);
    const es_severity stop_at = w->options->stop_at;
    char stop_id[ES_UUID_SIZE + 8];
    size_t n = 0;
    bool fresh;
    for (int i = 0; i < ES_ACTION_STOP; i++)
        if (w->workers[i].can_do)
            actions[n++] = es_action_name((es_action)i);
    es_status status;
    if ((status = open_ledger(w)) < 0 ||
        (alert->severity >= w->options->least &&
         (status = es_ledger_add(w->ledger, alert, actions, n, &fresh)) < 0) ||
        !alert->is_written || es_path_is_url(alert->path) ||
        !(alert->stops ||
          (stop_at != ES_SEVERITY_NONE && alert->severity >= stop_at)))
        return status;
    snprintf(stop_id, sizeof stop_id, "%.36s/stop", alert->uuid);
    es_alert request = *alert;
    request.id = stop_id;
    return es_ledger_add(w->ledger, &request, &stop, 1, &fresh);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Enters an alert into the ledger. If its id is among the remembered ids, the
 * alert is already in the ledger and no query is needed. When KNOWN_MOST ids
 * are remembered, all are forgotten, because many belong to runs that ended
 * long ago; the ledger still contains them. */
static es_status enter_alert(void *user, const es_alert *alert)
{
    watcher *w = user;
    if (tfind(alert->id, &w->known, by_text))
        return ES_OK;
    es_status status = store_alert(w, alert);
    if (status != ES_OK)
        return status;
    if (w->n_known == KNOWN_MOST) {
        tdestroy(w->known, free);
        w->known = NULL;
        w->n_known = 0;
    }
    char *id = strdup(alert->id);
    if (id && tsearch(id, &w->known, by_text))
        w->n_known++; /* the tree w->known owns the id now */
    else
        free(id); /* not remembered for lack of memory; the ledger still
                     contains the id */
    return ES_OK;
}

/* Reads the counts of alerts and deliveries from the ledger. Alerts are never
 * deleted from a ledger; fewer alerts than before therefore mean that the file
 * was replaced. */
static es_status count_alerts(watcher *w)
{
    const int64_t before = w->counts.alerts;
    es_status status = es_ledger_count(w->ledger, &w->counts);
    if (status == ES_OK && w->counts.alerts < before)
        status = es_fail(ES_EFORMAT,
                         "%s: alerts are missing, because another program has "
                         "replaced the file: restart the watcher to report "
                         "them again",
                         w->options->deliver.ledger);
    return status;
}

/* Determines for which actions (such as a command or a webhook) deliveries are
 * pending, including deliveries that other watchers entered. */
static es_status read_owed(watcher *w)
{
    es_delivery next;
    int64_t after = 0;
    es_status status;
    w->n_owed = 0;
    for (int i = 0; i < ES_N_ACTIONS; i++)
        w->workers[i].owes = false;
    if ((status = open_ledger(w)) < 0 || (status = count_alerts(w)) < 0)
        return status;
    while ((status = es_ledger_next(w->ledger, after, &next)) == ES_OK) {
        after = next.number;
        for (int i = 0; i < ES_N_ACTIONS; i++) {
            if (strcmp(next.action, es_action_name((es_action)i)) != 0)
                continue;
            w->workers[i].owes = true;
            w->n_owed += w->workers[i].can_do && es_deliver_is_free(&next);
        }
    }
    return status == ES_DONE ? ES_OK : status;
}

static es_status read_files(watcher *w)
{
    es_status status = es_watch_files_read(&w->files);
    if (status == ES_OK)
        status = read_owed(w);
    es_watch_changes_follow(&w->changes, &w->files);
    report_once(&w->ledger_reported, status);
    close_ledger(w);
    return status;
}

/* --- deliveries -----------------------------------------------------------*/

static void start_workers(watcher *w)
{
    double now = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < ES_N_ACTIONS; i++) {
        worker *slot = &w->workers[i];
        if (!slot->owes || !slot->can_do || slot->process.pid ||
            now < slot->again)
            continue;
        int error = es_deliver_start(&slot->process, (es_action)i,
                                     &w->options->deliver);
        slot->owes = error != 0;
        if (error) {
            es_print_note("cannot start a process for a delivery: %s",
                          strerror(error));
            slot->again = now + 1;
        }
    }
}

/* Handles the workers that have ended, or waits for all workers if `wait` is
 * true. Failed deliveries are retried after 1, 2, 4 ... seconds. */
static void end_workers(watcher *w, bool wait)
{
    for (int i = 0; i < ES_N_ACTIONS; i++) {
        es_process_end end;
        worker *slot = &w->workers[i];
        if (!slot->process.pid ||
            !es_process_wait(&end, &slot->process, wait ? -1 : 0))
            continue;
        es_process_free(&slot->process);
        int outcome = end.lost || end.signal ? ES_DELIVER_AGAIN : end.code;
        w->output_gone = w->output_gone || outcome == ES_DELIVER_GONE;
        if (outcome == ES_DELIVER_DONE) {
            slot->tries = 0;
            slot->again = 0;
            continue;
        }
        double pause = slot->tries < 9 ? ldexp(1, slot->tries++) : AGAIN_MOST;
        slot->again = seconds(CLOCK_MONOTONIC) + fmin(pause, AGAIN_MOST);
        slot->owes = true;
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

/* Returns true if a database has notified the watcher or a connection was
 * lost. */
static bool hear_databases(watcher *w)
{
    bool heard = false;
    for (size_t i = 0; i < w->files.databases.n; i++)
        heard |= es_remote_watch_heard(w->files.databases.list[i].watch);
    return heard;
}

/* Waits until `deadline`, a file change (if `listen` is true), or the end of a
 * worker. Returns true on a file change. */
static bool wait_for(watcher *w, double deadline, bool listen)
{
    struct pollfd fds[ES_N_ACTIONS + 1 + DATABASES_MOST];
    nfds_t n = 0;
    for (int i = 0; i < ES_N_ACTIONS; i++) {
        const worker *slot = &w->workers[i];
        const es_process *process = &slot->process;
        fds[n++] = (struct pollfd){.fd = process->pid ? process->handle.fd : -1,
                                   .events = POLLIN};
        if (slot->owes && !process->pid && slot->again > 0)
            deadline = fmin(deadline, slot->again);
    }
    fds[n++] =
        (struct pollfd){.fd = listen ? w->changes.fd : -1, .events = POLLIN};
    for (size_t i = 0; listen && i < w->files.databases.n && i < DATABASES_MOST;
         i++)
        fds[n++] = (struct pollfd){
            .fd = es_remote_watch_fd(w->files.databases.list[i].watch),
            .events = POLLIN};
    double left = deadline - seconds(CLOCK_MONOTONIC);
    poll(fds, n, left > 0 ? (int)ceil(1000 * left) : 0);
    end_workers(w, false);
    start_workers(w);
    const bool changed =
        fds[ES_N_ACTIONS].revents && es_watch_changes_read(&w->changes);
    const bool heard = listen && hear_databases(w);
    return changed || heard;
}

/* Sleeps in proportion to the CPU time that the round took, then waits for a
 * change or the next poll. */
static void wait_for_next(watcher *w, double cost)
{
    double now = seconds(CLOCK_MONOTONIC);
    double earliest = now + fmax(REST_LEAST, REST_SHARE * cost);
    double poll = w->options->poll;
    if (w->files.n_abroad) /* inotify does not report writes by other hosts */
        poll = fmin(poll, POLL_ABROAD);
    const bool at_once = w->changes.has_new_folder || w->files.n_searching;
    double latest = fmax(earliest, at_once ? 0 : now + poll);
    bool changed = false;
    w->changes.has_new_folder = false;
    while (!w->output_gone && (now < earliest || (now < latest && !changed))) {
        bool listen = now >= earliest;
        changed = wait_for(w, listen ? latest : earliest, listen);
        now = seconds(CLOCK_MONOTONIC);
    }
}

/* --- watch ---------------------------------------------------------------- */

static es_status watch_once(watcher *w)
{
    es_status status = read_files(w);
    if (status != ES_OK)
        return status;
    start_workers(w);
    end_workers(w, true);
    status = read_owed(w);
    report_once(&w->ledger_reported, status);
    close_ledger(w);
    if (status == ES_OK)
        write_textfile(w);
    return status;
}

/* Runs rounds until standard output can no longer be written. The pause after a
 * round depends on its CPU time. The first round, which reads all files, is an
 * exception, so that the second round is not delayed. */
static es_status watch_on(watcher *w)
{
    es_status status = read_files(w);
    double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
    while ((status == ES_OK || w->files.files) && !w->output_gone) {
        start_workers(w);
        write_textfile(w);
        double now = seconds(CLOCK_PROCESS_CPUTIME_ID);
        wait_for_next(w, now - before);
        before = now;
        if (!w->output_gone)
            status = read_files(w);
    }
    return w->output_gone ? ES_EIO : status;
}

static es_severity highest_of(const es_watch_files *files,
                              const es_watch_file *file)
{
    int highest = ES_SEVERITY_CRITICAL;
    for (; highest > ES_SEVERITY_NONE; highest--) {
        for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
            if (file->counts[kind][highest])
                return (es_severity)highest;
        for (size_t i = 0; file->of_rules && i < files->rules->n; i++)
            if (file->of_rules[i] &&
                (int)files->rules->rules[i].severity == highest)
                return (es_severity)highest;
    }
    return ES_SEVERITY_NONE;
}

es_status es_watcher_run(es_watcher_result *out,
                         const es_watcher_options *options)
{
    const es_severity stop_at = options->stop_at;
    watcher w = {.options = options,
                 .changes = {.fd = -1},
                 .files = {.roots = options->roots,
                           .n_roots = options->n_roots,
                           .state = options->deliver.ledger,
                           .rules = options->rules,
                           .least = options->least,
                           .handler = enter_alert,
                           .at_once = options->once}};
    w.files.user = &w;
    if (stop_at != ES_SEVERITY_NONE && stop_at < w.files.least)
        w.files.least = stop_at;
    for (int i = 0; i < ES_N_ACTIONS; i++)
        w.workers[i].can_do =
            (i != ES_ACTION_EXEC || options->deliver.command) &&
            (i != ES_ACTION_WEBHOOK || options->deliver.webhook.url);
    signal(SIGCHLD, SIG_DFL); /* an ignored SIGCHLD would hide the end of a
                                 child */
    es_status status = open_ledger(&w);
    if (status == ES_OK)
        status = es_ledger_count(w.ledger, &w.before);
    w.counts = w.before;
    close_ledger(&w);
    report_once(&w.ledger_reported, status);
    if (status == ES_OK && !options->once)
        es_watch_changes_open(&w.changes);
    if (status == ES_OK)
        status = options->once ? watch_once(&w) : watch_on(&w);
    *out = (es_watcher_result){.n_read = w.files.n_read,
                               .n_failed = w.files.n_failed,
                               .n_given_up = w.counts.failed - w.before.failed,
                               .n_owed = w.n_owed,
                               .no_textfile = w.textfile_reported};
    for (size_t i = 0; i < w.files.n_files; i++) {
        const es_severity of_file = highest_of(&w.files, &w.files.files[i]);
        if (of_file > out->highest)
            out->highest = of_file;
    }
    es_watch_changes_close(&w.changes);
    tdestroy(w.known, free);
    es_watch_files_close(&w.files);
    return status;
}
