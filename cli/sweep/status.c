/* `sweep --status`: a table of the runs of a folder, how many there are of
 * each stage, and the last lines of those that broke. */
#include "analyzer/base/checked.h"
#include "cli/output/grid.h"
#include "cli/output/print.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/jobs.h"
#include "cli/sweep/progress.h"
#include "cli/sweep/sweep.h"

#include <inttypes.h>
#include <stdlib.h>

#define SHOWN_MOST 10 /* runs whose last lines are shown */

enum { NAME, STAGE, PROGRESS, STEP, LOSS, BANDS, JOB, FLAGS, N_COLUMNS };

typedef struct line {
    es_sweep_view view;
    const es_sweep_task *task; /* NULL: it was not submitted */
    char *cells[N_COLUMNS];
} line;

typedef struct table {
    const char *folder;
    es_paths names;
    es_sweep_jobs jobs;
    bool queried;      /* Slurm, and it answered */
    line *lines;       /* (n) */
    es_grid_row *rows; /* (n) */
    size_t n, n_failed;
} table;

static es_status fill_line(line *out)
{
    const es_sweep_view *view = &out->view;
    char **cells = out->cells, progress[64];
    const char *stage = es_sweep_stage_name(view->stage);
    es_status status;
    es_sweep_view_bar(progress, sizeof progress, view);
    if ((status = es_cell_name(&cells[NAME], view->name)) < 0 ||
        (status = es_cell_print(&cells[STAGE], "%s", stage)) < 0 ||
        (status = es_cell_print(&cells[PROGRESS], "%s", progress)) < 0 ||
        (status = es_cell_measured(&cells[LOSS], view->loss)) < 0 ||
        (status = es_cell_print(&cells[BANDS], "%s", view->bands)) < 0 ||
        (status = es_cell_print(&cells[FLAGS], "%s", view->flags)) < 0 ||
        (view->step >= 0 &&
         (status = es_cell_print(&cells[STEP], "%lld", (long long)view->step)) <
             0))
        return status;
    return out->task ? es_cell_print(&cells[JOB], "%s", out->task->id) : ES_OK;
}

static es_status fill(table *t, const es_rules_file *rules)
{
    es_status status;
    size_t n = t->names.n;
    if ((status = es_alloc(&t->lines, n, sizeof *t->lines, "a table")) < 0 ||
        (status = es_alloc(&t->rows, n, sizeof *t->rows, "a table")) < 0)
        return status;
    for (; t->n < n && status == ES_OK; t->n++) {
        line *next = &t->lines[t->n];
        const char *name = t->names.paths[t->n];
        if (es_sweep_view_read(&next->view, t->folder, name, rules) != ES_OK) {
            es_print_note("%s", es_message());
            t->n_failed++;
        }
        next->task = es_sweep_jobs_amend(&t->jobs, &next->view);
        t->rows[t->n].cells = next->cells;
        status = fill_line(next);
    }
    return status;
}

/* --- below the table ------------------------------------------------------*/

/* The jobs that still have work, each once. */
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
        fputs(", by what the folder holds: Slurm did not answer", stream);
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
        fputs("no sweep is at work", stream);
    putc('\n', stream);
}

/* Of a run that broke what its training said; of one that did not begin, what
   its task said. */
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
    es_grid_column columns[N_COLUMNS] = {
        [NAME] = {.title = "run", .shortened = true},
        [STAGE] = {.title = "state"},
        [PROGRESS] = {.title = "progress"},
        [STEP] = {.title = "step", .right = true},
        [LOSS] = {.title = "loss", .right = true},
        [BANDS] = {.title = "bands", .right = true},
        [JOB] = {.title = NULL},
        [FLAGS] = {.title = "flags"}};
    es_table_options options;
    table all = {.folder = given->folder};
    es_status status;
    if ((status = es_sweep_folder_names(&all.names, given->folder)) < 0 ||
        (status = es_sweep_jobs_read(&all.jobs, given->folder)) < 0)
        goto done;
    all.queried = es_sweep_jobs_query(&all.jobs) == ES_OK;
    if ((status = fill(&all, given->rules)) < 0)
        goto done;
    columns[JOB].title = all.jobs.n ? "job" : NULL;
    es_table_options_for(&options, stream);
    es_grid_print(stream, columns, N_COLUMNS, all.rows, all.n, &options);
    print_counts(stream, &all);
    print_ends(stream, &all);
done:
    *n_failed = all.n_failed;
    for (size_t i = 0; i < all.n; i++)
        for (size_t k = 0; k < N_COLUMNS; k++)
            free(all.lines[i].cells[k]);
    free(all.lines);
    free(all.rows);
    es_sweep_jobs_free(&all.jobs);
    es_paths_free(&all.names);
    return status;
}
