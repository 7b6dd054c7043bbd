/* The loop of a sweep on this machine: as many trainings at a time as were
 * wanted, each in a process with the folder's files added to its command line;
 * doomed ones are requested to stop; a signal ends all of them. */
#include "analyzer/base/checked.h"
#include "analyzer/base/process.h"
#include "cli/output/print.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/progress.h"
#include "cli/sweep/sweep.h"

#include <errno.h>
#include <fcntl.h>
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
    bool stop_requested;
    int64_t written; /* when and how long its files are, to see a change */
} worker;

typedef struct runner {
    const es_sweep_request *given;
    const es_sweep_plan *plan;
    const char *program;
    es_sweep_result *result;
    es_sweep_progress progress;
    worker *workers;      /* (n_workers) */
    es_sweep_view *views; /* (n_workers) what they do; no name: nothing */
    size_t n_workers, n_working;
    bool *done; /* (n) of the plan, before this sweep */
    size_t next, n_done;
} runner;

/* --- looking --------------------------------------------------------------*/

static int64_t stamp(const char *folder, const char *name, const char *ending)
{
    struct stat r;
    return stat(es_sweep_path(folder, name, ending).path, &r) == 0
               ? r.st_mtim.tv_sec * 1000003 + r.st_mtim.tv_nsec / 1000 +
                     r.st_size * 7
               : 0;
}

static void update_view(runner *r, worker *w, es_sweep_view *view)
{
    const char *folder = r->given->folder, *name = w->run->name;
    int64_t now = stamp(folder, name, ".db") + stamp(folder, name, ".db-wal");
    if (now == w->written)
        return;
    w->written = now;
    if (es_sweep_view_read(view, folder, name, r->given->rules) != ES_OK)
        w->written = 0; /* the next reading may see more */
    if (!view->doomed || view->stage != ES_SWEEP_RUNNING || w->stop_requested ||
        r->given->no_stop)
        return;
    char line[300];
    snprintf(line, sizeof line, "sweep: %s", view->flags);
    w->stop_requested = true; /* once: a recorder that does not obey won't */
    if (es_sweep_write(folder, name, ".db.stop", line) != ES_OK)
        es_print_note("%s", es_message());
    else
        es_sweep_progress_line(&r->progress, "%s: stop requested: %s", name,
                               view->flags);
}

/* --- begin ----------------------------------------------------------------*/

es_status es_sweep_program(char **out, const char *program)
{
    char self[PATH_MAX], path[PATH_MAX], tail[PATH_MAX];
    bool is_path = strchr(program, '/');
    if (is_path && access(program, X_OK) != 0)
        return es_fail(ES_EUSAGE, "%s: not a program: %s", program,
                       strerror(errno));
    bool is_beside =
        !is_path && snprintf(tail, sizeof tail, "/%s", program) < PATH_MAX &&
        es_process_self(self) && es_process_beside(path, self, tail);
    return es_copy_text(out, is_beside ? path : program);
}

/* No shell, nothing on standard input, what it prints into NAME.log. In a group
   of its own: Ctrl-C is for the sweep to pass on; it gets SIGTERM if the sweep
   dies. A program that is not there is exit code 127. */
static es_status start_process(es_process *out, const char *program,
                               char **argv, const char *log)
{
    int fd = open(log,
                  O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
                      O_CLOEXEC,
                  0666);
    if (fd < 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", log, strerror(errno));
    int error = es_process_start(
        out, &(es_process_options){.program = program,
                                   .argv = argv,
                                   .streams = {ES_STREAM_NULL, fd, fd},
                                   .place = ES_PLACE_GROUP,
                                   .death_signal = SIGTERM,
                                   .as_shell = true});
    if (out->error)
        dprintf(fd, "%s: %s\n", program, strerror(out->error));
    close(fd);
    return error ? es_fail(ES_EIO, "%s: cannot be run: %s", program,
                           strerror(error))
                 : ES_OK;
}

/* The run's command line with what the folder adds. What a training began with
   is not for one that goes on, which does so from its last checkpoint. */
static es_status start_child(es_process *out, const char *program,
                             const char *folder, const es_sweep_run *run,
                             bool goes_on)
{
    static char checkpoint[] = "--checkpoint", resume[] = "--resume",
                option_out[] = "--out";
    es_sweep_file log = es_sweep_path(folder, run->name, ".log");
    es_sweep_file file = es_sweep_path(folder, run->name, ".db");
    es_sweep_file saved =
        es_sweep_path(folder, run->name, ES_SWEEP_CHECKPOINTS);
    size_t n = 0;
    char **argv;
    while (run->argv[n])
        n++;
    es_status status = es_alloc(&argv, n + 7, sizeof *argv, "a command line");
    if (status < 0)
        return status;
    n = 0;
    for (size_t i = 0; run->argv[i]; i++)
        if (goes_on && strcmp(run->argv[i], "--init") == 0 && run->argv[i + 1])
            i++;
        else
            argv[n++] = run->argv[i];
    if (es_sweep_run_has(run, "--checkpoint-every")) {
        argv[n++] = checkpoint;
        argv[n++] = saved.path;
    }
    if (goes_on) {
        argv[n++] = resume;
        argv[n++] = saved.path;
    }
    argv[n++] = option_out;
    argv[n++] = file.path;
    status = start_process(out, program, argv, log.path);
    free(argv);
    return status;
}

static es_status start(runner *r, worker *w, es_sweep_view *view)
{
    const char *folder = r->given->folder, *name = w->run->name;
    bool goes_on;
    es_status status;
    if ((status = es_sweep_folder_can_resume(&goes_on, folder, w->run)) < 0 ||
        (status = es_sweep_folder_clear(folder, name, goes_on)) < 0 ||
        (status = start_child(&w->child, r->program, folder, w->run, goes_on)) <
            0)
        return status;
    r->n_working++;
    if (es_sweep_view_read(view, folder, name, r->given->rules) != ES_OK)
        w->written = 0;
    if (!r->progress.live)
        es_sweep_progress_line(&r->progress, "%s: %s, %zu of %zu", name,
                               goes_on ? "goes on from its checkpoint"
                                       : "begins",
                               r->next, r->plan->n);
    return ES_OK;
}

/* One that a task of Slurm has taken, or has ended since, is left to it. */
static es_status begin(runner *r, worker *w, es_sweep_view *view,
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
        status = start(r, w, view);
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
                (status = begin(r, &r->workers[i], &r->views[i],
                                &r->plan->runs[next])) != ES_OK)
                return status;
        }
    return ES_OK;
}

/* --- end ------------------------------------------------------------------*/

/* A training that did what it had to may still have ended in NaN, which is exit
   code 1; one that was stopped has not failed. */
static void end(runner *r, worker *w, es_sweep_view *view,
                const es_process_end *how, bool stopped)
{
    const char *folder = r->given->folder, *name = w->run->name;
    char why[128] = "";
    r->n_working--;
    es_process_free(&w->child);
    if (how->lost || how->code > 1)
        es_process_end_text(why, sizeof why, how);
    /* it ended before it saw the request */
    unlink(es_sweep_path(folder, name, ".db.stop").path);
    if (*why && !stopped && es_sweep_write(folder, name, ".end", why) != ES_OK)
        es_print_note("%s", es_message());
    es_status status = es_sweep_view_read(view, folder, name, r->given->rules);
    if (es_sweep_is_done(view->stage)) {
        r->n_done++;
    } else if (!stopped) {
        view->stage = ES_SWEEP_BROKEN;
        r->result->n_broken++;
        snprintf(view->flags, sizeof view->flags, "%s",
                 *why              ? why
                 : status == ES_OK ? "it wrote no run to its end"
                                   : es_message());
    }
    es_sweep_progress_end(&r->progress, folder, view);
    view->name = NULL;
    close(w->lock);
}

static void reap(runner *r, bool stopped)
{
    es_process_end how;
    for (size_t i = 0; i < r->n_workers; i++)
        if (r->workers[i].child.pid &&
            es_process_wait(&how, &r->workers[i].child, 0))
            end(r, &r->workers[i], &r->views[i], &how, stopped);
}

static void signal_all(runner *r, int number)
{
    for (size_t i = 0; i < r->n_workers; i++)
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

static es_status work(runner *r, const sigset_t *set)
{
    es_status status = ES_OK;
    char headline[128];
    while (!r->result->signal) {
        status = fill_workers(r);
        if (status != ES_OK || !r->n_working)
            break;
        snprintf(headline, sizeof headline, "%zu of %zu runs done, %zu broken",
                 r->n_done, r->plan->n, r->result->n_broken);
        es_sweep_progress_draw(&r->progress, r->views, r->n_workers, headline);
        r->result->signal = wait_for_signal(set);
        reap(r, r->result->signal != 0);
        for (size_t i = 0; i < r->n_workers; i++)
            if (r->workers[i].child.pid)
                update_view(r, &r->workers[i], &r->views[i]);
    }
    if (r->n_working)
        es_sweep_progress_line(&r->progress, "stopping %zu training%s",
                               r->n_working, r->n_working == 1 ? "" : "s");
    signal_all(r, SIGTERM);
    while (r->n_working) {
        if (wait_for_signal(set))
            signal_all(r, SIGKILL);
        reap(r, true);
    }
    es_sweep_progress_wipe(&r->progress);
    return status;
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
        int lock;
        bool taken =
            es_sweep_folder_take_run(&lock, folder, name) == ES_ELOCKED;
        if (lock >= 0)
            close(lock);
        if (taken)
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
        es_sweep_progress_line(&r->progress, "%zu of %zu runs are done already",
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
    signal(SIGCHLD, SIG_DFL); /* ignored, no end would be reported */
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, fatal[i]);
    sigprocmask(SIG_BLOCK, &set, &before);
    status = work(&r, &set);
    sigprocmask(SIG_SETMASK, &before, NULL);
done:
    free(r.workers);
    free(r.views);
    free(r.done);
    return status;
}
