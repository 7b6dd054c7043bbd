#include "cli/sweep/runner.h"

#include "cli/output/print.h"
#include "cli/sweep/child.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/tell.h"

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
    int lock;         /* es_sweep_folder_take_run's, while at work */
    bool asked_to_stop;
    int64_t written; /* when and how long its files are, to see a change */
    es_sweep_view view;
} worker;

typedef struct runner {
    const es_sweep_job *job;
    es_sweep_result *result;
    es_sweep_teller teller;
    worker *workers; /* (n_at_once) */
    size_t n_working;
    bool *done; /* (n) of the plan, before this sweep */
    size_t next, n_done;
} runner;

/* --- looking --------------------------------------------------------------*/

static int64_t stamp(const char *folder, const char *name, const char *ending)
{
    struct stat of;
    char *path = es_sweep_path(folder, name, ending);
    bool there = path && stat(path, &of) == 0;
    free(path);
    return there ? of.st_mtim.tv_sec * 1000003 + of.st_mtim.tv_nsec / 1000 +
                       of.st_size * 7
                 : 0;
}

static void ask_to_stop(runner *of, worker *at)
{
    char line[300];
    const char *name = at->run->name;
    snprintf(line, sizeof line, "sweep: %s", at->view.flags);
    at->asked_to_stop = true; /* once: a recorder that does not obey won't */
    if (es_sweep_write(of->job->folder, name, ".db.stop", line) != ES_OK)
        es_print_note("%s", es_message());
    else
        es_sweep_tell(&of->teller, "%s: asked to stop: %s", name,
                      at->view.flags);
}

static void look(runner *of, worker *at)
{
    const char *folder = of->job->folder, *name = at->run->name;
    int64_t now = stamp(folder, name, ".db") + stamp(folder, name, ".db-wal");
    if (now == at->written)
        return;
    at->written = now;
    if (es_sweep_look(&at->view, folder, name, of->job->rules) != ES_OK)
        at->written = 0; /* the next look may see more */
    if (at->view.doomed && at->view.stage == ES_SWEEP_RUNNING &&
        !at->asked_to_stop && !of->job->no_stop)
        ask_to_stop(of, at);
}

static void draw(runner *of)
{
    char headline[128];
    size_t n = 0, n_at_once = of->job->n_at_once;
    const char **names = calloc(n_at_once, sizeof *names);
    const es_sweep_view **views = calloc(n_at_once, sizeof *views);
    for (size_t i = 0; names && views && i < n_at_once; i++)
        if (of->workers[i].child.pid) {
            names[n] = of->workers[i].run->name;
            views[n++] = &of->workers[i].view;
        }
    snprintf(headline, sizeof headline, "%zu of %zu runs done, %zu broken",
             of->n_done, of->job->plan->n, of->result->n_broken);
    es_sweep_tell_live(&of->teller, names, views, n, headline);
    free(names);
    free(views);
}

/* --- begin and end --------------------------------------------------------*/

static es_status start(runner *of, worker *at)
{
    const es_sweep_job *job = of->job;
    const char *name = at->run->name;
    bool goes_on;
    es_status status;
    if ((status = es_sweep_folder_can_resume(&goes_on, job->folder, at->run)) <
            0 ||
        (status = es_sweep_folder_clear(job->folder, name, goes_on)) < 0 ||
        (status = es_sweep_child_start(&at->child, job->program, job->folder,
                                       at->run, goes_on)) < 0)
        return status;
    of->n_working++;
    if (es_sweep_look(&at->view, job->folder, name, job->rules) != ES_OK)
        at->written = 0;
    if (!of->teller.live)
        es_sweep_tell(&of->teller, "%s: %s, %zu of %zu", name,
                      goes_on ? "goes on from its checkpoint" : "begins",
                      of->next, job->plan->n);
    return ES_OK;
}

/* One that a task of Slurm has taken, or has ended since, is left to it. */
static es_status begin(runner *of, worker *at, const es_sweep_run *run)
{
    const char *folder = of->job->folder;
    *at = (worker){.run = run};
    es_status status = es_sweep_folder_take_run(&at->lock, folder, run->name);
    if (status == ES_ELOCKED) {
        es_print_note("%s", es_message());
        of->result->n_taken++;
        return ES_OK;
    }
    if (status == ES_OK) {
        status =
            es_sweep_look_before(&at->view, folder, run->name, of->job->rules);
        of->n_done += es_sweep_is_done(at->view.stage);
    }
    if (status == ES_OK && !es_sweep_is_done(at->view.stage))
        status = start(of, at);
    if (!at->child.pid && at->lock >= 0)
        close(at->lock);
    return status;
}

static es_status fill_worker(runner *of, worker *at)
{
    es_status status = ES_OK;
    const es_sweep_plan *plan = of->job->plan;
    while (!at->child.pid && of->next < plan->n && status == ES_OK) {
        size_t next = of->next++;
        if (!of->done[next])
            status = begin(of, at, &plan->runs[next]);
    }
    return status;
}

static es_status fill_workers(runner *of)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < of->job->n_at_once && status == ES_OK; i++)
        status = fill_worker(of, &of->workers[i]);
    return status;
}

/* A training that was told to end has not failed. */
static void end(runner *of, worker *at, const char *why, bool told)
{
    const char *folder = of->job->folder, *name = at->run->name;
    char *stop = es_sweep_path(folder, name, ".db.stop");
    of->n_working--;
    if (stop)
        unlink(stop); /* it ended before it was asked */
    free(stop);
    if (*why && !told && es_sweep_write(folder, name, ".end", why) != ES_OK)
        es_print_note("%s", es_message());
    es_status status = es_sweep_look(&at->view, folder, name, of->job->rules);
    of->n_done += es_sweep_is_done(at->view.stage);
    if (!told && !es_sweep_is_done(at->view.stage)) {
        at->view.stage = ES_SWEEP_BROKEN;
        of->result->n_broken++;
        snprintf(at->view.flags, sizeof at->view.flags, "%s",
                 *why              ? why
                 : status == ES_OK ? "it wrote no run to its end"
                                   : es_message());
    }
    es_sweep_tell_end(&of->teller, folder, name, &at->view);
    close(at->lock);
}

static void reap(runner *of, bool told)
{
    char why[128];
    for (size_t i = 0; i < of->job->n_at_once; i++) {
        worker *at = &of->workers[i];
        if (at->child.pid && es_sweep_child_ended(why, sizeof why, &at->child))
            end(of, at, why, told);
    }
}

static void signal_all(runner *of, int number)
{
    for (size_t i = 0; i < of->job->n_at_once; i++)
        if (of->workers[i].child.pid)
            es_process_signal(&of->workers[i].child, number);
}

/* --- the loop -------------------------------------------------------------*/

/* The signals that it waits for are blocked meanwhile. */
static int wait_for_signal(const sigset_t *set)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    int number = sigtimedwait(set, NULL, &pause);
    return number > 0 && number != SIGCHLD ? number : 0;
}

static void stop_all(runner *of, const sigset_t *set)
{
    if (of->n_working)
        es_sweep_tell(&of->teller, "stopping %zu training%s", of->n_working,
                      of->n_working == 1 ? "" : "s");
    signal_all(of, SIGTERM);
    while (of->n_working) {
        if (wait_for_signal(set))
            signal_all(of, SIGKILL);
        reap(of, true);
    }
}

static es_status work(runner *of, const sigset_t *set)
{
    es_status status = ES_OK;
    while (!of->result->signal) {
        status = fill_workers(of);
        if (status != ES_OK || !of->n_working)
            break;
        draw(of);
        of->result->signal = wait_for_signal(set);
        reap(of, of->result->signal != 0);
        for (size_t i = 0; i < of->job->n_at_once; i++)
            if (of->workers[i].child.pid)
                look(of, &of->workers[i]);
    }
    stop_all(of, set);
    es_sweep_tell_wipe(&of->teller);
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
static es_status look_back_at(es_sweep_view *view, const char *folder,
                              const char *name)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    es_status status = es_sweep_look_before(view, folder, name, NULL);
    for (int i = 0; status == ES_OK && view->stage == ES_SWEEP_RUNNING; i++) {
        if (is_taken(folder, name))
            return ES_OK;
        if (i == 100)
            return es_fail(ES_ELOCKED,
                           "%s/%s.db: another process is writing it: wait for "
                           "it to end",
                           folder, name);
        nanosleep(&pause, NULL);
        status = es_sweep_look_before(view, folder, name, NULL);
    }
    return status;
}

static es_status look_back(runner *of)
{
    const es_sweep_plan *plan = of->job->plan;
    for (size_t i = 0; i < plan->n; i++) {
        es_sweep_view view;
        es_status status =
            look_back_at(&view, of->job->folder, plan->runs[i].name);
        if (status != ES_OK)
            return status;
        of->done[i] = es_sweep_is_done(view.stage);
        of->n_done += of->done[i];
    }
    if (of->n_done)
        es_sweep_tell(&of->teller, "%zu of %zu runs are done already",
                      of->n_done, plan->n);
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
    runner of = {.job = job, .result = out};
    sigset_t set, before;
    *out = (es_sweep_result){.signal = 0};
    of.workers = calloc(job->n_at_once, sizeof *of.workers);
    of.done = calloc(job->plan->n, sizeof *of.done);
    es_status status = of.workers && of.done
                           ? ES_OK
                           : es_fail(ES_ENOMEM, "out of memory for a sweep");
    es_sweep_tell_begin(&of.teller);
    if (status == ES_OK)
        status = look_back(&of);
    if (status == ES_OK) {
        signal(SIGCHLD, SIG_DFL); /* were it ignored, no end would be told */
        choose_signals(&set);
        sigprocmask(SIG_BLOCK, &set, &before);
        status = work(&of, &set);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    free(of.workers);
    free(of.done);
    return status;
}
