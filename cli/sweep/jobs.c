/* Which task of Slurm each run was submitted as, read from the scripts in the
 * folder, and where those tasks are, read from squeue. */
#include "cli/sweep/jobs.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/exchange/lines.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- what the folder says -------------------------------------------------*/

static es_status add_task(es_sweep_jobs *jobs, size_t *capacity,
                          const char *run, const es_sweep_task *task)
{
    if (jobs->n == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 64;
        es_status status =
            es_grow(&jobs->tasks, more, sizeof *jobs->tasks, "tasks");
        if (status < 0)
            return status;
        *capacity = more;
    }
    jobs->tasks[jobs->n] = *task;
    return es_copy_text(&jobs->tasks[jobs->n++].run, run);
}

/* The names in a script, in the order of their tasks. */
static es_status read_script(es_sweep_jobs *jobs, size_t *capacity,
                             const char *path, int64_t job)
{
    es_line_reader *lines = NULL;
    es_line line;
    es_sweep_task task = {.job = job, .index = -1};
    es_status status = es_line_reader_open(&lines, path);
    while (status == ES_OK &&
           (status = es_line_reader_next(lines, &line)) == ES_OK) {
        if (task.index >= 0 && strcmp(line.text, ES_SWEEP_SCRIPT_ENDS) == 0)
            break;
        if (task.index >= 0)
            status = add_task(jobs, capacity, line.text, &task);
        if (task.index >= 0 || es_text_ends(line.text, ES_SWEEP_SCRIPT_BEGINS))
            task.index++;
    }
    es_line_reader_close(lines);
    return status == ES_DONE ? ES_OK : status;
}

/* By run, the last job first. */
static int by_run(const void *a, const void *b)
{
    const es_sweep_task *x = a, *y = b;
    int order = strcmp(x->run, y->run);
    return order ? order : (x->job < y->job) - (x->job > y->job);
}

static void keep_last_jobs(es_sweep_jobs *jobs)
{
    size_t kept = 0;
    if (jobs->n)
        qsort(jobs->tasks, jobs->n, sizeof *jobs->tasks, by_run);
    for (size_t i = 0; i < jobs->n; i++)
        if (kept && strcmp(jobs->tasks[kept - 1].run, jobs->tasks[i].run) == 0)
            free(jobs->tasks[i].run);
        else
            jobs->tasks[kept++] = jobs->tasks[i];
    jobs->n = kept;
}

/* The number of "slurm-4711.sbatch"; false: another file. */
static bool is_script(int64_t *job, const char *name)
{
    int end = 0;
    return sscanf(name, "slurm-%" SCNd64 ".sbatch%n", job, &end) == 1 &&
           end > 0 && !name[end] && *job >= 0;
}

es_status es_sweep_jobs_read(es_sweep_jobs *out, const char *folder)
{
    es_paths scripts = {0};
    size_t capacity = 0;
    int64_t job;
    *out = (es_sweep_jobs){.n = 0};
    es_status status = es_sweep_folder_list(&scripts, folder, ".sbatch");
    for (size_t i = 0; i < scripts.n && status == ES_OK; i++) {
        if (!is_script(&job, scripts.paths[i]))
            continue;
        char *path = es_sweep_path(folder, scripts.paths[i], "");
        status = path ? read_script(out, &capacity, path, job) : ES_ENOMEM;
        free(path);
    }
    es_paths_free(&scripts);
    keep_last_jobs(out);
    return status;
}

void es_sweep_jobs_free(es_sweep_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        free(jobs->tasks[i].run);
    free(jobs->tasks);
    *jobs = (es_sweep_jobs){.n = 0};
}

const es_sweep_task *es_sweep_jobs_find(const es_sweep_jobs *jobs,
                                        const char *run)
{
    size_t low = 0, high = jobs->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(run, jobs->tasks[middle].run);
        if (order == 0)
            return &jobs->tasks[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* --- what Slurm says ------------------------------------------------------*/

typedef struct queued {
    int64_t job, index;
    es_sweep_queue queue;
} queued;

static int by_job(const void *a, const void *b)
{
    const queued *x = a, *y = b;
    if (x->job != y->job)
        return (x->job > y->job) - (x->job < y->job);
    return (x->index > y->index) - (x->index < y->index);
}

static es_sweep_queue queue_of(const char *state)
{
    static const char *const at_work[] = {"RUNNING", "COMPLETING", "STOPPED",
                                          "SUSPENDED", "SIGNALING"};
    for (size_t i = 0; i < sizeof at_work / sizeof *at_work; i++)
        if (strcmp(state, at_work[i]) == 0)
            return ES_SWEEP_QUEUE_RUNS;
    return ES_SWEEP_QUEUE_WAITS;
}

/* Lines "4711_3 PENDING". Returns how many of them there are. */
static size_t parse_lines(queued *out, char *text)
{
    size_t n = 0;
    char state[32], *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        queued *next = &out[n];
        if (sscanf(line, "%" SCNd64 "_%" SCNd64 " %31s", &next->job,
                   &next->index, state) == 3)
            out[n++].queue = queue_of(state);
    }
    return n;
}

static size_t count_lines(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static es_status compare(es_sweep_jobs *jobs, char *text)
{
    queued *list;
    es_status status =
        es_alloc(&list, count_lines(text), sizeof *list, "tasks");
    if (status < 0)
        return status;
    size_t n = parse_lines(list, text);
    qsort(list, n, sizeof *list, by_job);
    for (size_t i = 0; i < jobs->n; i++) {
        es_sweep_task *task = &jobs->tasks[i];
        queued wanted = {.job = task->job, .index = task->index};
        queued *found = bsearch(&wanted, list, n, sizeof *list, by_job);
        task->queue = found ? found->queue : ES_SWEEP_QUEUE_LEFT;
    }
    free(list);
    return ES_OK;
}

es_status es_sweep_jobs_query(es_sweep_jobs *jobs)
{
    char program[] = "squeue", options[] = "-hr", format[] = "--format=%i %T",
         name[] = "--name=" ES_SWEEP_JOB_NAME;
    char *const argv[] = {program, options, format, name, NULL};
    es_sweep_answer answer;
    if (!jobs->n)
        return ES_OK;
    es_status status = es_sweep_query(&answer, argv, 20);
    if (status == ES_OK && answer.code != 0)
        status = es_fail(ES_EIO, "squeue: %s", answer.trouble);
    if (status == ES_OK)
        status = compare(jobs, answer.text);
    free(answer.text);
    return status;
}

/* --- both -----------------------------------------------------------------*/

void es_sweep_task_id(char out[ES_SWEEP_JOB_SIZE], const es_sweep_task *task)
{
    snprintf(out, ES_SWEEP_JOB_SIZE, "%" PRId64 "_%" PRId64, task->job,
             task->index);
}

void es_sweep_jobs_amend(es_sweep_view *view, const es_sweep_task *task)
{
    if (!task || es_sweep_is_done(view->stage) ||
        view->stage == ES_SWEEP_RUNNING)
        return;
    bool unknown = task->queue == ES_SWEEP_QUEUE_UNKNOWN;
    if (task->queue == ES_SWEEP_QUEUE_WAITS ||
        (unknown && view->stage == ES_SWEEP_WAITING))
        view->stage = ES_SWEEP_QUEUED;
    if (task->queue == ES_SWEEP_QUEUE_RUNS)
        view->stage = ES_SWEEP_RUNNING;
    if (task->queue == ES_SWEEP_QUEUE_LEFT && view->stage != ES_SWEEP_BROKEN)
        snprintf(view->flags, sizeof view->flags, "left Slurm's queue");
}
