/* Finds the Slurm task of each run in the batch scripts of the sweep's folder,
 * and queries squeue for the state of each task. */
#include "cli/sweep/jobs.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/exchange/lines.h"
#include "cli/slurm/query.h"
#include "cli/sweep/folder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- scripts -------------------------------------------------------------- */

/* Reads the names of runs from a batch script, in the order of their tasks. */
static es_status read_script(es_sweep_jobs *jobs, size_t *capacity,
                             const char *path, int64_t job)
{
    es_line_reader *lines = NULL;
    es_line line;
    int64_t index = -1;
    es_status status = es_line_reader_open(&lines, path);
    while (status == ES_OK &&
           (status = es_line_reader_next(lines, &line)) == ES_OK) {
        if (index < 0) {
            index += es_text_ends(line.text, ES_SWEEP_SCRIPT_BEGINS);
            continue;
        }
        if (strcmp(line.text, ES_SWEEP_SCRIPT_ENDS) == 0)
            break;
        if (jobs->n == *capacity) {
            *capacity = *capacity ? 2 * *capacity : 64;
            status =
                es_grow(&jobs->tasks, *capacity, sizeof *jobs->tasks, "tasks");
            if (status < 0)
                break;
        }
        es_sweep_task *task = &jobs->tasks[jobs->n++];
        *task = (es_sweep_task){.job = job};
        snprintf(task->id, sizeof task->id, "%" PRId64 "_%" PRId64, job,
                 index++);
        status = es_copy_text(&task->run, line.text);
    }
    es_line_reader_close(lines);
    return status == ES_DONE ? ES_OK : status;
}

/* Compares two tasks by the name of the run. Tasks of the same run are compared
 * by job number, so that the latest job comes first. */
static int by_run(const void *a, const void *b)
{
    const es_sweep_task *x = a, *y = b;
    int order = strcmp(x->run, y->run);
    return order ? order : (x->job < y->job) - (x->job > y->job);
}

es_status es_sweep_jobs_read(es_sweep_jobs *out, const char *folder)
{
    es_paths scripts = {0};
    size_t capacity = 0, kept = 0;
    *out = (es_sweep_jobs){.n = 0};
    es_status status = es_sweep_folder_list(&scripts, folder, ".sbatch");
    for (size_t i = 0; i < scripts.n && status == ES_OK; i++) {
        const char *name = scripts.paths[i];
        int64_t job;
        int end = 0;
        if (sscanf(name, "slurm-%" SCNd64 ".sbatch%n", &job, &end) == 1 &&
            end > 0 && !name[end] && job >= 0)
            status = read_script(out, &capacity,
                                 es_sweep_path(folder, name, "").path, job);
    }
    es_paths_free(&scripts);
    if (status < 0)
        return status;
    if (out->n)
        qsort(out->tasks, out->n, sizeof *out->tasks, by_run);
    for (size_t i = 0; i < out->n; i++)
        if (kept && strcmp(out->tasks[kept - 1].run, out->tasks[i].run) == 0)
            free(out->tasks[i].run);
        else
            out->tasks[kept++] = out->tasks[i];
    out->n = kept;
    return ES_OK;
}

void es_sweep_jobs_free(es_sweep_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        free(jobs->tasks[i].run);
    free(jobs->tasks);
    *jobs = (es_sweep_jobs){.n = 0};
}

/* --- squeue --------------------------------------------------------------- */

typedef struct queued {
    char id[64], state[32];
} queued;

static int by_id(const void *a, const void *b)
{
    return strcmp(((const queued *)a)->id, ((const queued *)b)->id);
}

/* Parses the output of squeue, which consists of lines such as "4711_3
 * PENDING". */
static es_status read_queue(es_sweep_jobs *jobs, char *text)
{
    static const char *const at_work[] = {"RUNNING", "COMPLETING", "STOPPED",
                                          "SUSPENDED", "SIGNALING"};
    queued *list, wanted;
    size_t n = 0, most = 1;
    for (const char *c = text; *c; c++)
        most += *c == '\n';
    es_status status = es_alloc(&list, most, sizeof *list, "tasks");
    if (status < 0)
        return status;
    for (char *line; (line = strsep(&text, "\n"));)
        n += sscanf(line, "%63s %31s", list[n].id, list[n].state) == 2;
    qsort(list, n, sizeof *list, by_id);
    for (size_t i = 0; i < jobs->n; i++) {
        es_sweep_task *task = &jobs->tasks[i];
        memcpy(wanted.id, task->id, sizeof wanted.id);
        const queued *found = bsearch(&wanted, list, n, sizeof *list, by_id);
        task->queue = found ? ES_SWEEP_QUEUE_WAITS : ES_SWEEP_QUEUE_LEFT;
        for (size_t k = 0; found && k < sizeof at_work / sizeof *at_work; k++)
            if (strcmp(found->state, at_work[k]) == 0)
                task->queue = ES_SWEEP_QUEUE_RUNS;
    }
    free(list);
    return ES_OK;
}

es_status es_sweep_jobs_query(es_sweep_jobs *jobs)
{
    char program[] = "squeue", options[] = "-hr", format[] = "--format=%i %T",
         name[] = "--name=" ES_SWEEP_JOB_NAME;
    char *const argv[] = {program, options, format, name, NULL};
    es_slurm_answer answer;
    if (!jobs->n)
        return ES_OK;
    es_status status = es_slurm_query(&answer, argv, 20);
    if (status == ES_OK && answer.code != 0)
        status = es_fail(ES_EIO, "squeue: %s", answer.trouble);
    if (status == ES_OK)
        status = read_queue(jobs, answer.text);
    free(answer.text);
    return status;
}

static int compare_run(const void *run, const void *task)
{
    return strcmp(run, ((const es_sweep_task *)task)->run);
}

const es_sweep_task *es_sweep_jobs_amend(const es_sweep_jobs *jobs,
                                         es_sweep_view *view)
{
    const es_sweep_task *task = jobs->n
                                    ? bsearch(view->name, jobs->tasks, jobs->n,
                                              sizeof *jobs->tasks, compare_run)
                                    : NULL;
    if (!task || es_sweep_is_done(view->stage) ||
        view->stage == ES_SWEEP_RUNNING)
        return task;
    bool unknown = task->queue == ES_SWEEP_QUEUE_UNKNOWN;
    if (task->queue == ES_SWEEP_QUEUE_WAITS ||
        (unknown && view->stage == ES_SWEEP_WAITING))
        view->stage = ES_SWEEP_QUEUED;
    if (task->queue == ES_SWEEP_QUEUE_RUNS)
        view->stage = ES_SWEEP_RUNNING;
    if (task->queue == ES_SWEEP_QUEUE_LEFT && view->stage != ES_SWEEP_BROKEN)
        snprintf(view->flags, sizeof view->flags, "left Slurm's queue");
    return task;
}
