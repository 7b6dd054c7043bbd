/* The loop of a sweep on this machine: as many trainings at a time as were
 * wanted, each in a process; doomed ones are requested to stop; a signal ends
 * all of them. */
#include "cli/sweep/runner.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "cli/sweep/child.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/progress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A run at work. */
typedef struct worker {
    const es_sweep_run *run;
    es_process child; /* pid 0: idle */
    int lock;         /* es_sweep_folder_take_run's, while w work */
    bool stop_requested;
    int64_t written; /* when and how long its files are, to see a change */
    es_sweep_view view;
} worker;

typedef struct runner {
    const es_sweep_job *job;
    es_sweep_result *result;
    es_sweep_progress progress;
    worker *workers; /* (n_at_once) */
    size_t n_working;
    bool *done; /* (n) of the plan, before this sweep */
    size_t next, n_done;
} runner;

/* --- looking --------------------------------------------------------------*/

static int64_t stamp(const char *folder, const char *name, const char *ending)
{
    struct stat r;
    char *path = es_sweep_path(folder, name, ending);
    bool there = path && stat(path, &r) == 0;
    free(path);
    return there ? r.st_mtim.tv_sec * 1000003 + r.st_mtim.tv_nsec / 1000 +
                       r.st_size * 7
                 : 0;
}

static void request_stop(runner *r, worker *w)
{
    char line[300];
    const char *name = w->run->name;
    snprintf(line, sizeof line, "sweep: %s", w->view.flags);
    w->stop_requested = true; /* once: a recorder that does not obey won't */
    if (es_sweep_write(r->job->folder, name, ".db.stop", line) != ES_OK)
        es_print_note("%s", es_message());
    else
        es_sweep_progress_line(&r->progress, "%s: stop requested: %s", name,
                               w->view.flags);
}

static void update_view(runner *r, worker *w)
{
    const char *folder = r->job->folder, *name = w->run->name;
    int64_t now = stamp(folder, name, ".db") + stamp(folder, name, ".db-wal");
    if (now == w->written)
        return;
    w->written = now;
    if (es_sweep_view_read(&w->view, folder, name, r->job->rules) != ES_OK)
        w->written = 0; /* the next reading may see more */
    if (w->view.doomed && w->view.stage == ES_SWEEP_RUNNING &&
        !w->stop_requested && !r->job->no_stop)
        request_stop(r, w);
}

static void draw(runner *r)
{
    char headline[128];
    size_t n = 0, n_at_once = r->job->n_at_once;
    const char **names = calloc(n_at_once, sizeof *names);
    const es_sweep_view **views = calloc(n_at_once, sizeof *views);
    for (size_t i = 0; names && views && i < n_at_once; i++)
        if (r->workers[i].child.pid) {
            names[n] = r->workers[i].run->name;
            views[n++] = &r->workers[i].view;
        }
    snprintf(headline, sizeof headline, "%zu of %zu runs done, %zu broken",
             r->n_done, r->job->plan->n, r->result->n_broken);
    es_sweep_progress_draw(&r->progress, names, views, n, headline);
    free(names);
    free(views);
}

/* --- begin and end --------------------------------------------------------*/

static es_status start(runner *r, worker *w)
{
    const es_sweep_job *job = r->job;
    const char *name = w->run->name;
    bool goes_on;
    es_status status;
    if ((status = es_sweep_folder_can_resume(&goes_on, job->folder, w->run)) <
            0 ||
        (status = es_sweep_folder_clear(job->folder, name, goes_on)) < 0 ||
        (status = es_sweep_child_start(&w->child, job->program, job->folder,
                                       w->run, goes_on)) < 0)
        return status;
    r->n_working++;
    if (es_sweep_view_read(&w->view, job->folder, name, job->rules) != ES_OK)
        w->written = 0;
    if (!r->progress.live)
        es_sweep_progress_line(&r->progress, "%s: %s, %zu of %zu", name,
                               goes_on ? "goes on from its checkpoint"
                                       : "begins",
                               r->next, job->plan->n);
    return ES_OK;
}

/* One that a task of Slurm has taken, or has ended since, is left to it. */
static es_status begin(runner *r, worker *w, const es_sweep_run *run)
{
    const char *folder = r->job->folder;
    *w = (worker){.run = run};
    es_status status = es_sweep_folder_take_run(&w->lock, folder, run->name);
    if (status == ES_ELOCKED) {
        es_print_note("%s", es_message());
        r->result->n_taken++;
        return ES_OK;
    }
    if (status == ES_OK) {
        status =
            es_sweep_view_read_any(&w->view, folder, run->name, r->job->rules);
        r->n_done += es_sweep_is_done(w->view.stage);
    }
    if (status == ES_OK && !es_sweep_is_done(w->view.stage))
        status = start(r, w);
    if (!w->child.pid && w->lock >= 0)
        close(w->lock);
    return status;
}

static es_status fill_worker(runner *r, worker *w)
{
    es_status status = ES_OK;
    const es_sweep_plan *plan = r->job->plan;
    while (!w->child.pid && r->next < plan->n && status == ES_OK) {
        size_t next = r->next++;
        if (!r->done[next])
            status = begin(r, w, &plan->runs[next]);
    }
    return status;
}

static es_status fill_workers(runner *r)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < r->job->n_at_once && status == ES_OK; i++)
        status = fill_worker(r, &r->workers[i]);
    return status;
}

/* A training that was stopped has not failed. */
static void end(runner *r, worker *w, const char *why, bool stopped)
{
    const char *folder = r->job->folder, *name = w->run->name;
    char *stop = es_sweep_path(folder, name, ".db.stop");
    r->n_working--;
    if (stop)
        unlink(stop); /* it ended before it saw the request */
    free(stop);
    if (*why && !stopped && es_sweep_write(folder, name, ".end", why) != ES_OK)
        es_print_note("%s", es_message());
    es_status status =
        es_sweep_view_read(&w->view, folder, name, r->job->rules);
    r->n_done += es_sweep_is_done(w->view.stage);
    if (!stopped && !es_sweep_is_done(w->view.stage)) {
        w->view.stage = ES_SWEEP_BROKEN;
        r->result->n_broken++;
        snprintf(w->view.flags, sizeof w->view.flags, "%s",
                 *why              ? why
                 : status == ES_OK ? "it wrote no run to its end"
                                   : es_message());
    }
    es_sweep_progress_end(&r->progress, folder, name, &w->view);
    close(w->lock);
}

static void reap(runner *r, bool stopped)
{
    char why[128];
    for (size_t i = 0; i < r->job->n_at_once; i++) {
        worker *w = &r->workers[i];
        if (w->child.pid && es_sweep_child_ended(why, sizeof why, &w->child))
            end(r, w, why, stopped);
    }
}

static void signal_all(runner *r, int number)
{
    for (size_t i = 0; i < r->job->n_at_once; i++)
        if (r->workers[i].child.pid)
            es_process_signal(&r->workers[i].child, number);
}

/* --- the loop -------------------------------------------------------------*/

/* The signals that it waits for are blocked meanwhile. */
static int wait_for_signal(const sigset_t *set)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    int number = sigtimedwait(set, NULL, &pause);
    return number > 0 && number != SIGCHLD ? number : 0;
}

static void stop_all(runner *r, const sigset_t *set)
{
    if (r->n_working)
        es_sweep_progress_line(&r->progress, "stopping %zu training%s",
                               r->n_working, r->n_working == 1 ? "" : "s");
    signal_all(r, SIGTERM);
    while (r->n_working) {
        if (wait_for_signal(set))
            signal_all(r, SIGKILL);
        reap(r, true);
    }
}

static es_status work(runner *r, const sigset_t *set)
{
    es_status status = ES_OK;
    while (!r->result->signal) {
        status = fill_workers(r);
        if (status != ES_OK || !r->n_working)
            break;
        draw(r);
        r->result->signal = wait_for_signal(set);
        reap(r, r->result->signal != 0);
        for (size_t i = 0; i < r->job->n_at_once; i++)
            if (r->workers[i].child.pid)
                update_view(r, &r->workers[i]);
    }
    stop_all(r, set);
    es_sweep_progress_wipe(&r->progress);
    return status;
}

static bool is_taken(const char *folder, const char *name)
{
    int lock;
    es_status status = es_sweep_folder_take_run(&lock, folder, name);
    if (lock >= 0)
        close(lock);
    return status == ES_ELOCKED;
}

/* A sweep that was killed takes its trainings with it, but they need a moment.
   One that is at work keeps the run to itself, which is seen when the run's
   turn comes. */
static es_status read_one(es_sweep_view *view, const char *folder,
                          const char *name)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    es_status status = es_sweep_view_read_any(view, folder, name, NULL);
    for (int i = 0; status == ES_OK && view->stage == ES_SWEEP_RUNNING; i++) {
        if (is_taken(folder, name))
            return ES_OK;
        if (i == 100)
            return es_fail(ES_ELOCKED,
                           "%s/%s.db: another process is writing it: wait for "
                           "it to end",
                           folder, name);
        nanosleep(&pause, NULL);
        status = es_sweep_view_read_any(view, folder, name, NULL);
    }
    return status;
}

static es_status read_all(runner *r)
{
    const es_sweep_plan *plan = r->job->plan;
    for (size_t i = 0; i < plan->n; i++) {
        es_sweep_view view;
        es_status status = read_one(&view, r->job->folder, plan->runs[i].name);
        if (status != ES_OK)
            return status;
        r->done[i] = es_sweep_is_done(view.stage);
        r->n_done += r->done[i];
    }
    if (r->n_done)
        es_sweep_progress_line(&r->progress, "%zu of %zu runs are done already",
                               r->n_done, plan->n);
    return ES_OK;
}

static void choose_signals(sigset_t *set)
{
    static const int fatal[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, fatal[i]);
}

es_status es_sweep_run_all(es_sweep_result *out, const es_sweep_job *job)
{
    runner r = {.job = job, .result = out};
    sigset_t set, before;
    *out = (es_sweep_result){.signal = 0};
    es_status status;
    es_sweep_progress_begin(&r.progress);
    if ((status = es_alloc(&r.workers, job->n_at_once, sizeof *r.workers,
                           "a sweep")) < 0 ||
        (status = es_alloc(&r.done, job->plan->n, 1, "a sweep")) < 0 ||
        (status = read_all(&r)) < 0)
        goto done;
    signal(SIGCHLD, SIG_DFL); /* ignored, no end would be reported */
    choose_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &before);
    status = work(&r, &set);
    sigprocmask(SIG_SETMASK, &before, NULL);
done:
    free(r.workers);
    free(r.done);
    return status;
}
