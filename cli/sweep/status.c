/* Implements `sweep --status`, which prints a table of the runs of a folder,
 * the number of runs in each stage (such as queued or done), and the last
 * output lines of broken runs. */
#include "analyzer/base/checked.h"
#include "cli/output/grid.h"
#include "cli/output/print.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/jobs.h"
#include "cli/sweep/progress.h"
#include "cli/sweep/sweep.h"

#include <inttypes.h>
#include <stdlib.h>

/* Maximum number of runs whose last output lines are shown. */
#define SHOWN_MOST 10

enum { NAME, STAGE, PROGRESS, STEP, LOSS, BANDS, JOB, FLAGS };

typedef struct line {
    es_sweep_view view;
    const es_sweep_task *task; /* Slurm task of the run; NULL if the run was
                                  not submitted */
} line;

typedef struct table {
    const char *folder;
    es_paths names;
    es_sweep_jobs jobs;
    bool queried; /* true if Slurm has answered a query */
    line *lines;  /* (n) */
    es_sheet sheet;
    size_t n, n_failed;
} table;

/** Appends a row that describes one run to the table. */
static void put_line(es_sheet *to, const line *run)
{
    const es_sweep_view *view = &run->view;
    char progress[64];
    es_sweep_view_bar(progress, sizeof progress, view);
    es_sheet_begin_row(to, NULL);
    es_sheet_put_name(to, "run", view->name);
    es_sheet_put_text(to, "state", "%s", es_sweep_stage_name(view->stage));
    es_sheet_put_text(to, "progress", "%s", progress);
    if (view->step >= 0)
        es_sheet_put_integer(to, "step", view->step);
    else
        es_sheet_put(to, "step", "%s", "");
    es_sheet_put_measured(to, "loss", view->loss);
    es_sheet_put(to, "bands", "%s", view->bands);
    es_sheet_put_text(to, "job", "%s", run->task ? run->task->id : "");
    es_sheet_put_text(to, "flags", "%s", view->flags);
}

static es_status print_lines(FILE *stream, table *t)
{
    es_table_options options;
    es_sheet *sheet = &t->sheet;
    es_table_options_for(&options, stream);
    for (size_t i = 0; i < sheet->n_columns; i++) {
        sheet->columns[i].shortened = i == NAME;
        sheet->columns[i].hidden = i == JOB && !t->jobs.n;
    }
    return es_sheet_print(sheet, stream, &options);
}

static es_status fill_table(table *t, const es_rules_file *rules)
{
    const size_t n = t->names.n;
    es_status status = es_alloc(&t->lines, n, sizeof *t->lines, "a table");
    for (; t->n < n && status == ES_OK; t->n++) {
        line *next = &t->lines[t->n];
        const char *name = t->names.paths[t->n];
        if (es_sweep_view_read(&next->view, t->folder, name, rules) != ES_OK) {
            es_print_note("%s", es_message());
            t->n_failed++;
        }
        next->task = es_sweep_jobs_amend(&t->jobs, &next->view);
        put_line(&t->sheet, next);
        status = t->sheet.status;
    }
    return status;
}

/* --- below the table ------------------------------------------------------ */

/* Prints the numbers of the Slurm jobs that have unfinished tasks. Returns
 * false if there is no such job. */
static bool print_jobs(FILE *stream, const table *t)
{
    int64_t last = -1, next;
    for (;; last = next) {
        next = INT64_MAX;
        for (size_t i = 0; i < t->n; i++) {
            const line *run = &t->lines[i];
            bool works = run->view.stage == ES_SWEEP_QUEUED ||
                         run->view.stage == ES_SWEEP_RUNNING;
            if (run->task && works && run->task->job > last &&
                run->task->job < next)
                next = run->task->job;
        }
        if (next == INT64_MAX)
            break;
        fprintf(stream, "%s%" PRId64, last < 0 ? "Slurm job " : ", ", next);
    }
    if (last >= 0 && !t->queried)
        fputs(", according to the folder: Slurm did not answer", stream);
    return last >= 0;
}

static void print_counts(FILE *stream, const table *t)
{
    char holder[128];
    size_t n_of_stage[ES_SWEEP_N_STAGES] = {0};
    const char *between = ": ";
    for (size_t i = 0; i < t->n; i++)
        n_of_stage[t->lines[i].view.stage]++;
    fprintf(stream, "%zu run%s", t->n, t->n == 1 ? "" : "s");
    for (int i = ES_SWEEP_N_STAGES; i-- > 0;)
        if (n_of_stage[i]) {
            fprintf(stream, "%s%zu %s", between, n_of_stage[i],
                    es_sweep_stage_name((es_sweep_stage)i));
            between = ", ";
        }
    fputs("; ", stream);
    es_sweep_folder_holder(holder, sizeof holder, t->folder);
    if (*holder)
        es_print_escaped(stream, holder, ES_ESCAPE_TERMINAL);
    else if (!print_jobs(stream, t))
        fputs("no sweep is running", stream);
    putc('\n', stream);
}

/* Prints the last lines of the log of each broken run, or of the Slurm task's
 * output if the training did not start. */
static void print_ends(FILE *stream, const table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const es_sweep_view *view = &t->lines[i].view;
        const es_sweep_task *task = t->lines[i].task;
        bool broken = view->stage == ES_SWEEP_BROKEN;
        bool lost = task && task->queue == ES_SWEEP_QUEUE_LEFT &&
                    !es_sweep_is_done(view->stage) &&
                    view->stage != ES_SWEEP_RUNNING;
        if ((!lost && !broken) || n++ >= SHOWN_MOST)
            continue;
        es_print_escaped(stream, view->name, ES_ESCAPE_TERMINAL);
        fprintf(stream, ": %s\n", view->flags);
        if ((broken &&
             es_sweep_print_log(stream, t->folder, view->name, ".log")) ||
            !task)
            continue;
        char output[sizeof task->id + 8];
        snprintf(output, sizeof output, "slurm-%s", task->id);
        es_sweep_print_log(stream, t->folder, output, ".out");
    }
    if (n > SHOWN_MOST)
        fprintf(stream, "and %zu more\n", n - SHOWN_MOST);
}

es_status es_sweep_print_status(FILE *stream, size_t *n_failed,
                                const es_sweep_request *given)
{
    table all = {.folder = given->folder};
    es_status status;
    if ((status = es_sweep_folder_names(&all.names, given->folder)) < 0 ||
        (status = es_sweep_jobs_read(&all.jobs, given->folder)) < 0)
        goto done;
    all.queried = es_sweep_jobs_query(&all.jobs) == ES_OK;
    if ((status = fill_table(&all, given->rules)) < 0)
        goto done;
    if ((status = print_lines(stream, &all)) < 0)
        goto done;
    print_counts(stream, &all);
    print_ends(stream, &all);
done:
    *n_failed = all.n_failed;
    free(all.lines);
    es_sheet_free(&all.sheet);
    es_sweep_jobs_free(&all.jobs);
    es_paths_free(&all.names);
    return status;
}
