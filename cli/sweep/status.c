/* `sweep --status`: a table of the runs of a folder, how many there are of
 * each stage, and the last lines of those that broke. */
#include "cli/sweep/status.h"

#include "analyzer/base/checked.h"
#include "cli/output/grid.h"
#include "cli/output/print.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/jobs.h"
#include "cli/sweep/progress.h"

#include <inttypes.h>
#include <stdlib.h>

#define SHOWN_MOST 10 /* runs whose last lines are shown */

enum { NAME, STAGE, PROGRESS, STEP, LOSS, BANDS, JOB, FLAGS, N_COLUMNS };

typedef struct table {
    const char *folder;
    const es_rules_file *rules;
    es_paths names;
    es_sweep_jobs jobs;
    bool queried;         /* Slurm, and it answered */
    es_sweep_view *views; /* (n) */
    es_grid_row *rows;    /* (n) */
    char **cells;         /* (n,N_COLUMNS) */
    size_t n, n_failed;
} table;

/* --- rows -----------------------------------------------------------------*/

static es_status fill_job(char **cell, const es_sweep_task *task)
{
    char id[ES_SWEEP_JOB_SIZE];
    if (!task)
        return ES_OK;
    es_sweep_task_id(id, task);
    return es_cell_print(cell, "%s", id);
}

static es_status fill_row(char **cells, const char *name,
                          const es_sweep_view *view)
{
    char progress[64];
    es_sweep_view_bar(progress, sizeof progress, view);
    const char *stage = es_sweep_stage_name(view->stage);
    es_status status;
    if ((status = es_cell_name(&cells[NAME], name)) < 0 ||
        (status = es_cell_print(&cells[STAGE], "%s", stage)) < 0 ||
        (status = es_cell_print(&cells[PROGRESS], "%s", progress)) < 0 ||
        (status = es_cell_measured(&cells[LOSS], view->loss)) < 0 ||
        (status = es_cell_print(&cells[BANDS], "%s", view->bands)) < 0 ||
        (status = es_cell_print(&cells[FLAGS], "%s", view->flags)) < 0 ||
        view->step < 0)
        return status;
    return es_cell_print(&cells[STEP], "%lld", (long long)view->step);
}

static es_status fill(table *t)
{
    es_status status;
    size_t n = t->names.n;
    if ((status = es_alloc(&t->views, n, sizeof *t->views, "a table")) < 0 ||
        (status = es_alloc(&t->rows, n, sizeof *t->rows, "a table")) < 0 ||
        (status = es_alloc(&t->cells, n * N_COLUMNS, sizeof *t->cells,
                           "a table")) < 0)
        return status;
    for (; t->n < n && status == ES_OK; t->n++) {
        const char *name = t->names.paths[t->n];
        char **cells = t->cells + t->n * N_COLUMNS;
        es_sweep_view *view = &t->views[t->n];
        const es_sweep_task *task = es_sweep_jobs_find(&t->jobs, name);
        if (es_sweep_view_read(view, t->folder, name, t->rules) != ES_OK) {
            es_print_note("%s", es_message());
            t->n_failed++;
        }
        es_sweep_jobs_amend(view, task);
        t->rows[t->n].cells = cells;
        status = fill_row(cells, name, view);
        if (status == ES_OK)
            status = fill_job(&cells[JOB], task);
    }
    return status;
}

static void free_table(table *t)
{
    for (size_t i = 0; t->cells && i < t->names.n * N_COLUMNS; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->rows);
    free(t->views);
    es_sweep_jobs_free(&t->jobs);
    es_paths_free(&t->names);
}

/* --- below the table ------------------------------------------------------*/

/* The jobs that still have work, each once. */
static bool print_jobs(FILE *stream, const table *t)
{
    const char *between = "Slurm job ";
    int64_t last = -1, next;
    do {
        next = INT64_MAX;
        for (size_t i = 0; i < t->n; i++) {
            const es_sweep_task *task =
                es_sweep_jobs_find(&t->jobs, t->names.paths[i]);
            bool works = t->views[i].stage == ES_SWEEP_QUEUED ||
                         t->views[i].stage == ES_SWEEP_RUNNING;
            if (task && works && task->job > last && task->job < next)
                next = task->job;
        }
        if (next != INT64_MAX)
            fprintf(stream, "%s%" PRId64, between, next);
        between = ", ";
        if (next != INT64_MAX)
            last = next;
    } while (next != INT64_MAX);
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
        n_of_stage[t->views[i].stage]++;
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

/* What the training said; of one that did not begin, what its task said. */
static void print_last_lines(FILE *stream, const table *t, size_t i)
{
    char id[ES_SWEEP_JOB_SIZE], output[ES_SWEEP_JOB_SIZE + 16];
    const char *name = t->names.paths[i];
    const es_sweep_task *task = es_sweep_jobs_find(&t->jobs, name);
    bool known = t->views[i].stage == ES_SWEEP_BROKEN &&
                 es_sweep_print_log(stream, t->folder, name, ".log");
    if (known || !task)
        return;
    es_sweep_task_id(id, task);
    snprintf(output, sizeof output, "slurm-%s", id);
    es_sweep_print_log(stream, t->folder, output, ".out");
}

static void print_ends(FILE *stream, const table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const es_sweep_task *task =
            es_sweep_jobs_find(&t->jobs, t->names.paths[i]);
        bool lost = task && task->queue == ES_SWEEP_QUEUE_LEFT &&
                    !es_sweep_is_done(t->views[i].stage) &&
                    t->views[i].stage != ES_SWEEP_RUNNING;
        if (!lost && t->views[i].stage != ES_SWEEP_BROKEN)
            continue;
        if (n++ >= SHOWN_MOST)
            continue;
        es_print_escaped(stream, t->names.paths[i], ES_ESCAPE_TERMINAL);
        fprintf(stream, ": %s\n", t->views[i].flags);
        print_last_lines(stream, t, i);
    }
    if (n > SHOWN_MOST)
        fprintf(stream, "and %zu more\n", n - SHOWN_MOST);
}

es_status es_sweep_print_status(FILE *stream, size_t *n_failed,
                                const char *folder, const es_rules_file *rules)
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
    table all = {.folder = folder, .rules = rules};
    es_status status;
    if ((status = es_sweep_folder_names(&all.names, folder)) < 0 ||
        (status = es_sweep_jobs_read(&all.jobs, folder)) < 0)
        goto done;
    all.queried = es_sweep_jobs_query(&all.jobs) == ES_OK;
    if ((status = fill(&all)) < 0)
        goto done;
    columns[JOB].title = all.jobs.n ? "job" : NULL;
    es_table_options_for(&options, stream);
    es_grid_print(stream, columns, N_COLUMNS, all.rows, all.n, &options);
    print_counts(stream, &all);
    print_ends(stream, &all);
done:
    *n_failed = all.n_failed;
    free_table(&all);
    return status;
}
