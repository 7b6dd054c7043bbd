/* Contains the loop of a sweep on this machine: trains the requested number of
 * runs at a time, each in a process that start.c starts; requests a stop of
 * runs with critical flags ("doomed" runs); ends all training processes on a
 * signal. */
#include "analyzer/base/checked.h"
#include "analyzer/base/kernel.h"
#include "analyzer/base/progress.h"
#include "cli/output/print.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/progress.h"
#include "cli/sweep/start.h"
#include "cli/sweep/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A slot in which one run at a time is trained. */
typedef struct worker {
    const es_sweep_run *run;
    es_process child; /* training process; pid 0 while the slot is idle */
    int lock;         /* lock of the run (es_sweep_folder_take_run) while it
                         is trained */
    bool stop_requested;
    int64_t ended_at; /* time (es_now_ms) at which a training process that
                         ignores a stop request is terminated; 0: never */
    int64_t written;  /* value computed from the modification times and sizes of
                         the run's files, to detect changes */
    double before;    /* share of the run's steps that were done before this
                         training process started */
} worker;

typedef struct runner {
    const es_sweep_request *given;
    const es_sweep_plan *plan;
    const char *program;
    es_sweep_result *result;
    es_sweep_progress progress;
    worker *workers;      /* (n_workers) */
    es_sweep_view *views; /* state of the run of each of the n_workers workers;
                             its `name` is NULL while the worker is idle */
    size_t n_workers, n_working;
    bool *done; /* n elements; true for each run of the plan that was done
                   before this sweep */
    size_t next, n_done;
    int64_t started; /* start of the sweep (es_now_ms) */
    double did;      /* number of runs that have ended during this sweep; of a
                        resumed run, only the share of steps that were trained
                        since it was resumed is counted */
} runner;

/* --- current state -------------------------------------------------------- */

static int64_t stamp(const char *path)
{
    struct stat r;
    return stat(path, &r) == 0 ? r.st_mtim.tv_sec * 1000003 +
                                     r.st_mtim.tv_nsec / 1000 + r.st_size * 7
                               : 0;
}

static void update_view(runner *r, worker *w, es_sweep_view *view)
{
    const char *folder = r->given->folder, *name = w->run->name;
    int64_t now = stamp(es_sweep_run_file(folder, name).path) +
                  stamp(es_sweep_path(folder, name, ".db-wal").path);
    if (now == w->written)
        return;
    w->written = now;
    if (es_sweep_view_read(view, folder, name, r->given->rules) != ES_OK)
        w->written = 0; /* 0 makes the next call read the files again */
    if (!view->doomed || view->stage != ES_SWEEP_RUNNING || w->stop_requested ||
        r->given->no_stop)
        return;
    char line[300];
    snprintf(line, sizeof line, "sweep: %s", view->flags);
    w->stop_requested = true; /* a second request would be useless: a recorder
                                 that ignores the first request also ignores the
                                 second */
    if (es_sweep_write(folder, name, ".db.stop", line) != ES_OK)
        es_print_note("%s", es_message());
    else
        es_sweep_progress_line(&r->progress, "%s: stop requested: %s", name,
                               view->flags);
    if (w->run->config)
        w->ended_at = es_now_ms() + (int64_t)r->given->grace * 1000;
}

/* Terminates a user's program that ignores the stop request. entropy-train
 * stops on request, but other programs may not check for requests. */
static void end_if_deaf(runner *r, worker *w)
{
    if (!w->child.pid || !w->ended_at || es_now_ms() < w->ended_at)
        return;
    w->ended_at = 0;
    es_sweep_progress_line(
        &r->progress, "%s: did not stop on request: terminated", w->run->name);
    es_sweep_signal(&w->child, w->run, SIGTERM);
}

/* --- start ---------------------------------------------------------------- */

static es_status start_training(runner *r, worker *w, es_sweep_view *view)
{
    const char *folder = r->given->folder, *name = w->run->name;
    bool goes_on;
    es_status status;
    if ((status = es_sweep_folder_can_resume(&goes_on, folder, w->run)) < 0 ||
        (status = es_sweep_folder_clear(folder, name, goes_on)) < 0 ||
        (status = es_sweep_start(&w->child, r->program, folder, w->run,
                                 goes_on)) < 0)
        return status;
    r->n_working++;
    w->before = goes_on ? es_sweep_view_share(view) : 0;
    if (es_sweep_view_read(view, folder, name, r->given->rules) != ES_OK)
        w->written = 0;
    if (!r->progress.live)
        es_sweep_progress_line(&r->progress, "%s: %s, %zu of %zu", name,
                               goes_on ? "resumes from its checkpoint"
                                       : "begins",
                               r->next, r->plan->n);
    return ES_OK;
}

/* Starts the training process of a run, unless a Slurm task is training the run
 * or has finished it in the meantime. */
static es_status begin_run(runner *r, worker *w, es_sweep_view *view,
                           const es_sweep_run *run)
{
    const char *folder = r->given->folder;
    *w = (worker){.run = run};
    es_status status = es_sweep_folder_take_run(&w->lock, folder, run->name);
    if (status == ES_ELOCKED) {
        es_print_note("%s", es_message());
        r->result->n_taken++;
        return ES_OK;
    }
    if (status != ES_OK)
        return status;
    status = es_sweep_view_read_any(view, folder, run->name, r->given->rules);
    if (es_sweep_is_done(view->stage))
        r->n_done++;
    else if (status == ES_OK)
        status = start_training(r, w, view);
    if (!w->child.pid) {
        view->name = NULL;
        close(w->lock);
    }
    return status;
}

static es_status fill_workers(runner *r)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < r->n_workers; i++)
        while (!r->workers[i].child.pid && r->next < r->plan->n) {
            size_t next = r->next++;
            if (!r->done[next] &&
                (status = begin_run(r, &r->workers[i], &r->views[i],
                                    &r->plan->runs[next])) != ES_OK)
                return status;
        }
    return ES_OK;
}

/* --- end ------------------------------------------------------------------*/

/* Waits until the recorder has written the end of the run and closed the file.
 * If the training process was killed, the recorder does so shortly
 * afterwards. */
static void await_recorder(const char *folder, const char *name)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    es_sweep_view view;
    es_status status = ES_OK;
    for (int i = 0; i < 50; i++) {
        status = es_sweep_view_read(&view, folder, name, NULL);
        if (status == ES_EFORMAT ||
            (status == ES_OK && view.stage != ES_SWEEP_RUNNING))
            return;
        nanosleep(&pause, NULL);
    }
}

static void keep_end(const char *folder, const char *name, const char *why)
{
    if (*why && es_sweep_write(folder, name, ".end", why) != ES_OK)
        es_print_note("%s", es_message());
}

/* Handles the end of a training process. Exit code 1 of entropy-train is not a
 * failure, because it means that the run is complete but its loss ended in NaN.
 * If `stopped` is true, the sweep itself ended the process, which is not a
 * failure either. */
static void end_run(runner *r, worker *w, es_sweep_view *view,
                    const es_process_end *how, bool stopped)
{
    const char *folder = r->given->folder, *name = w->run->name;
    char why[256] = "";
    r->n_working--;
    r->did += 1 - w->before;
    es_process_free(&w->child);
    if (how->lost || how->code > (w->run->config ? 0 : 1))
        es_process_end_text(why, sizeof why, how);
    /* removes a stop request that the training process did not read before it
     * ended */
    unlink(es_sweep_path(folder, name, ".db.stop").path);
    await_recorder(folder, name);
    keep_end(folder, name, stopped ? "" : why);
    es_status status = es_sweep_view_read(view, folder, name, r->given->rules);
    if (es_sweep_is_done(view->stage)) {
        r->n_done++;
    } else if (!stopped) {
        view->stage = ES_SWEEP_BROKEN;
        r->result->n_broken++;
        bool any = access(es_sweep_run_file(folder, name).path, F_OK) == 0;
        if (!*why) {
            snprintf(why, sizeof why, "%s",
                     !any              ? "the training wrote no run file"
                     : status == ES_OK ? "the training did not finish its run"
                                       : es_message());
            keep_end(folder, name, why);
        }
        snprintf(view->flags, sizeof view->flags, "%s", why);
    }
    es_sweep_progress_end(&r->progress, folder, view);
    view->name = NULL;
    close(w->lock);
}

static void reap_workers(runner *r, bool stopped)
{
    es_process_end how;
    for (size_t i = 0; i < r->n_workers; i++)
        if (r->workers[i].child.pid &&
            es_process_wait(&how, &r->workers[i].child, 0))
            end_run(r, &r->workers[i], &r->views[i], &how, stopped);
}

static void signal_all(runner *r, int number)
{
    for (size_t i = 0; i < r->n_workers; i++)
        if (r->workers[i].child.pid)
            es_sweep_signal(&r->workers[i].child, r->workers[i].run, number);
}

/* --- the loop -------------------------------------------------------------*/

/* Waits at most 0.3 seconds for a signal in `set`. The signals must be blocked.
 * Returns the signal's number; 0 for SIGCHLD or if no signal arrived. */
static int wait_for_signal(const sigset_t *set)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    int number = sigtimedwait(set, NULL, &pause);
    return number > 0 && number != SIGCHLD ? number : 0;
}

/* Prints a headline such as "1 of 6 runs done, 0 broken, 3m05s left". The
 * remaining time is computed from the average speed so far, in which a run that
 * failed early counts as a complete run; the time is therefore too low if runs
 * fail early. */
static void print_headline(char *out, size_t size, const runner *r)
{
    char text[ES_DURATION_MAX];
    double did = r->did, left = 0;
    for (size_t i = 0; i < r->n_workers; i++)
        if (r->workers[i].child.pid) {
            const double share = es_sweep_view_share(&r->views[i]);
            did += share - r->workers[i].before;
            left += 1 - share;
        }
    for (size_t i = r->next; i < r->plan->n; i++)
        left += !r->done[i];
    const double seconds = 1e-3 * (double)(es_now_ms() - r->started);
    snprintf(out, size, "%zu of %zu runs done, %zu broken%s%s%s", r->n_done,
             r->plan->n, r->result->n_broken, did > 0 ? ", " : "",
             did > 0 ? es_duration_print(text, seconds * left / did) : "",
             did > 0 ? " left" : "");
}

static es_status run_workers(runner *r, const sigset_t *set)
{
    es_status status = ES_OK;
    char headline[128];
    r->started = es_now_ms();
    while (!r->result->signal) {
        status = fill_workers(r);
        if (status != ES_OK || !r->n_working)
            break;
        print_headline(headline, sizeof headline, r);
        es_sweep_progress_draw(&r->progress, r->views, r->n_workers, headline);
        r->result->signal = wait_for_signal(set);
        reap_workers(r, r->result->signal != 0);
        for (size_t i = 0; i < r->n_workers; i++) {
            if (r->workers[i].child.pid)
                update_view(r, &r->workers[i], &r->views[i]);
            end_if_deaf(r, &r->workers[i]);
        }
    }
    if (r->n_working)
        es_sweep_progress_line(&r->progress, "stopping %zu run%s", r->n_working,
                               r->n_working == 1 ? "" : "s");
    signal_all(r, SIGTERM);
    while (r->n_working) {
        if (wait_for_signal(set))
            signal_all(r, SIGKILL);
        reap_workers(r, true);
    }
    es_sweep_progress_wipe(&r->progress);
    return status;
}

/* Reads the state of a run. If the run is still being written although the
 * sweep that started it was killed, waits up to ten seconds for the end of the
 * training. If another process has locked the run, returns at once; begin_run()
 * checks the lock later. */
static es_status read_one(es_sweep_view *view, const char *folder,
                          const char *name)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    es_status status = es_sweep_view_read_any(view, folder, name, NULL);
    for (int i = 0; status == ES_OK && view->stage == ES_SWEEP_RUNNING; i++) {
        int lock;
        bool taken =
            es_sweep_folder_take_run(&lock, folder, name) == ES_ELOCKED;
        if (lock >= 0)
            close(lock);
        if (taken)
            return ES_OK;
        if (i == 100)
            return es_fail(
                ES_ELOCKED,
                "%s/%s.db: another process is writing it: wait until it ends",
                folder, name);
        nanosleep(&pause, NULL);
        status = es_sweep_view_read_any(view, folder, name, NULL);
    }
    return status;
}

static es_status read_all(runner *r)
{
    for (size_t i = 0; i < r->plan->n; i++) {
        es_sweep_view view;
        es_status status =
            read_one(&view, r->given->folder, r->plan->runs[i].name);
        if (status != ES_OK)
            return status;
        r->done[i] = es_sweep_is_done(view.stage);
        r->n_done += r->done[i];
    }
    if (r->n_done)
        es_sweep_progress_line(&r->progress, "%zu of %zu runs are already done",
                               r->n_done, r->plan->n);
    return ES_OK;
}

es_status es_sweep_run_all(es_sweep_result *out, const es_sweep_request *given,
                           const es_sweep_plan *plan, const char *program)
{
    static const int fatal[] = {SIGINT, SIGTERM, SIGHUP};
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    runner r = {.given = given,
                .plan = plan,
                .program = program,
                .result = out,
                .n_workers = given->n_at_once};
    sigset_t set, before;
    struct sigaction now;
    es_status status;
    *out = (es_sweep_result){.signal = 0};
    if (!r.n_workers)
        r.n_workers = n_processors > 0 ? (size_t)n_processors : 1;
    es_sweep_progress_begin(&r.progress);
    if ((status = es_alloc(&r.workers, r.n_workers, sizeof *r.workers,
                           "a sweep")) < 0 ||
        (status = es_alloc(&r.views, r.n_workers, sizeof *r.views, "a sweep")) <
            0 ||
        (status = es_alloc(&r.done, plan->n, 1, "a sweep")) < 0 ||
        (status = read_all(&r)) < 0)
        goto done;
    signal(SIGCHLD, SIG_DFL); /* an ignored SIGCHLD would hide the end of a
                                 child */
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, fatal[i]);
    sigprocmask(SIG_BLOCK, &set, &before);
    status = run_workers(&r, &set);
    sigprocmask(SIG_SETMASK, &before, NULL);
done:
    free(r.workers);
    free(r.views);
    free(r.done);
    return status;
}
