/* A sweep as arrays of Slurm's jobs: chooses the runs that are not done,
 * writes the batch script with their names, and submits it. */
#include "cli/sweep/slurm.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/process.h"
#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/jobs.h"
#include "cli/sweep/query.h"
#include "store/outfile.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRIPT "slurm.sbatch" /* until its job has a number */

/* --- the script -----------------------------------------------------------*/

/* Slurm reads '%' in the name of an output file. */
static void print_output(FILE *stream, const char *folder)
{
    char path[2 * PATH_MAX + 32];
    size_t n = 0;
    for (const char *c = folder; *c && n < 2 * PATH_MAX; c++) {
        if (*c == '%')
            path[n++] = '%';
        path[n++] = *c;
    }
    snprintf(path + n, sizeof path - n, "/slurm-%%A_%%a.out");
    fputs("#SBATCH --output=", stream);
    es_sweep_print_word(stream, path);
    putc('\n', stream);
}

static const es_sweep_option *find(const es_sweep_option *options, size_t n,
                                   const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(options[i].key, key) == 0)
            return &options[i];
    return NULL;
}

/* The most that a run of the spec has. */
static int64_t threads_of(const es_sweep_spec *spec)
{
    int64_t n, most = 0;
    const es_sweep_option *threads =
        find(spec->train, spec->n_train, "threads");
    if (!threads)
        threads = find(spec->grid, spec->n_grid, "threads");
    for (size_t i = 0; threads && i < threads->n; i++)
        if (es_int_parse(&n, threads->values[i], 1, 1024) == ES_OK && n > most)
            most = n;
    return most;
}

static void print_options(FILE *stream, const es_sweep_spec *spec)
{
    int64_t threads = threads_of(spec);
    if (threads && !find(spec->slurm, spec->n_slurm, "cpus-per-task"))
        fprintf(stream, "#SBATCH --cpus-per-task=%" PRId64 "\n", threads);
    for (size_t i = 0; i < spec->n_slurm; i++) {
        const es_sweep_option *option = &spec->slurm[i];
        if (strcmp(option->values[0], "false") == 0)
            continue;
        fprintf(stream, "#SBATCH --%s", option->key);
        if (strcmp(option->values[0], "true") != 0) {
            putc('=', stream);
            es_sweep_print_word(stream, option->values[0]);
        }
        putc('\n', stream);
    }
}

static void print_command(FILE *stream, const es_sweep_submission *given,
                          const char *self, const char *folder,
                          const char *rules)
{
    fputs("exec ", stream);
    es_sweep_print_word(stream, self);
    fputs(" sweep ", stream);
    es_sweep_print_word(stream, folder);
    fputs(given->no_stop ? " --no-stop" : "", stream);
    if (*rules) {
        fputs(" --rules ", stream);
        es_sweep_print_word(stream, rules);
    }
    fputs(" --run \"$run\"\n", stream);
}

/* As every host sees it, also before it is there. */
static es_status find_path(char out[PATH_MAX], const char *path)
{
    char here[PATH_MAX];
    int n = 0;
    if (!realpath(path, out))
        n = *path == '/' || !getcwd(here, sizeof here)
                ? snprintf(out, PATH_MAX, "%s", path)
                : snprintf(out, PATH_MAX, "%s/%s", here, path);
    if (n < PATH_MAX && !strpbrk(out, "\n\r\\"))
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%s: no batch script can name it: take another path", path);
}

static es_status find_self(char out[PATH_MAX])
{
    return es_process_self(out)
               ? ES_OK
               : es_fail(ES_EIO, "cannot find where this program is: %s",
                         strerror(errno));
}

static void print_head(FILE *stream, const es_sweep_submission *given, size_t n,
                       const char *folder)
{
    fprintf(stream,
            "#!/bin/sh\n# %zu run%s of a sweep, one a task: "
            "entropy-scan sweep --slurm wrote it.\n"
            "#SBATCH --job-name=" ES_SWEEP_JOB_NAME "\n#SBATCH --array=0-%zu",
            n, n == 1 ? "" : "s", n - 1);
    if (given->n_at_once)
        fprintf(stream, "%%%zu", given->n_at_once);
    fputs("\n#SBATCH --requeue\n#SBATCH --open-mode=append\n", stream);
    print_output(stream, folder);
    print_options(stream, given->spec);
}

es_status es_sweep_print_script(FILE *stream, const es_sweep_submission *given,
                                const char *const *runs, size_t n)
{
    char self[PATH_MAX], folder[PATH_MAX], rules[PATH_MAX] = "";
    es_status status = find_self(self);
    if (status == ES_OK)
        status = find_path(folder, given->folder);
    if (status == ES_OK && given->rules)
        status = find_path(rules, given->rules);
    if (status != ES_OK)
        return status;
    print_head(stream, given, n, folder);
    fputs(
        "run=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" " ES_SWEEP_SCRIPT_BEGINS
        "\n",
        stream);
    for (size_t i = 0; i < n; i++)
        fprintf(stream, "%s\n", runs[i]);
    fputs(ES_SWEEP_SCRIPT_ENDS "\n)\n", stream);
    print_command(stream, given, self, folder, rules);
    return ES_OK;
}

/* --- sbatch ---------------------------------------------------------------*/

static es_status write_script(const char *path,
                              const es_sweep_submission *given,
                              const char *const *runs, size_t n)
{
    es_outfile *file = NULL;
    FILE *stream = NULL;
    es_status status;
    if ((status = es_sweep_make_way(path)) < 0 ||
        (status = es_outfile_open(&file, &stream, path)) < 0)
        return status;
    return es_outfile_finish(file,
                             es_sweep_print_script(stream, given, runs, n));
}

/* What --parsable prints: "4711", or "4711;CLUSTER". */
static es_status read_job(int64_t *job, const es_sweep_answer *answer,
                          const char *script)
{
    char *end = answer->text;
    if (answer->code != 0)
        return es_fail(ES_EIO, "%s: sbatch refuses it: %s", script,
                       *answer->trouble ? answer->trouble : "without a word");
    *job = strtoll(answer->text, &end, 10);
    if (end == answer->text || *job < 0)
        return es_fail(ES_EIO, "%s: sbatch names no job: '%.40s'", script,
                       answer->text);
    return ES_OK;
}

static es_status call_sbatch(int64_t *job, char *script)
{
    /* the name here, too: SBATCH_JOB_NAME would overrule the script's */
    char program[] = "sbatch", parsable[] = "--parsable",
         name[] = "--job-name=" ES_SWEEP_JOB_NAME;
    char *const argv[] = {program, parsable, name, script, NULL};
    es_sweep_answer answer;
    es_status status = es_sweep_query(&answer, argv, 300);
    if (status == ES_OK)
        status = read_job(job, &answer, script);
    free(answer.text);
    return status;
}

/* The script gets the job's number: from then on the folder knows the job. */
static es_status keep_script(const char *script, const char *folder,
                             int64_t job)
{
    char name[64];
    snprintf(name, sizeof name, "slurm-%" PRId64 ".sbatch", job);
    char *path = es_sweep_path(folder, name, "");
    es_status status = ES_OK;
    if (!path || rename(script, path) != 0)
        status = es_fail(ES_EIO,
                         "%s: cannot be renamed: %s: job %" PRId64
                         " is submitted, but --status does not know it",
                         script, strerror(errno), job);
    free(path);
    return status;
}

static es_status submit_array(const es_sweep_submission *given,
                              const char *const *runs, size_t n)
{
    int64_t job = 0;
    char *script = es_sweep_path(given->folder, SCRIPT, "");
    es_status status =
        script ? write_script(script, given, runs, n) : ES_ENOMEM;
    if (status == ES_OK)
        status = call_sbatch(&job, script);
    if (status == ES_OK) {
        printf("%" PRId64 "\n", job);
        es_print_note("%s: job %" PRId64 " of Slurm: %zu run%s submitted",
                      given->folder, job, n, n == 1 ? "" : "s");
        status = keep_script(script, given->folder, job);
    }
    free(script);
    return status;
}

/* --- what is to be submitted ----------------------------------------------*/

typedef struct choice {
    const char **runs; /* (n) names, borrowed */
    size_t n;
    size_t n_of_stage[ES_SWEEP_N_STAGES];
} choice;

static es_status choose(choice *selected, const es_sweep_submission *given,
                        const es_sweep_jobs *jobs)
{
    for (size_t i = 0; i < given->plan->n; i++) {
        const char *name = given->plan->runs[i].name;
        es_sweep_view view;
        es_status status =
            es_sweep_view_read_any(&view, given->folder, name, NULL);
        if (status != ES_OK)
            return status;
        es_sweep_jobs_amend(&view, es_sweep_jobs_find(jobs, name));
        selected->n_of_stage[view.stage]++;
        if (!es_sweep_is_done(view.stage) && view.stage != ES_SWEEP_RUNNING &&
            view.stage != ES_SWEEP_QUEUED)
            selected->runs[selected->n++] = name;
    }
    return ES_OK;
}

static void report_rest(const choice *selected, const char *folder)
{
    size_t done = 0;
    for (int i = 0; i < ES_SWEEP_N_STAGES; i++)
        if (es_sweep_is_done((es_sweep_stage)i))
            done += selected->n_of_stage[i];
    if (done || !selected->n)
        es_print_note("%s: %zu done already, %zu running, %zu queued%s", folder,
                      done, selected->n_of_stage[ES_SWEEP_RUNNING],
                      selected->n_of_stage[ES_SWEEP_QUEUED],
                      selected->n ? "" : ": nothing to submit");
}

/* What is said of an earlier end is not of the try that begins now. */
static es_status submit_all(const es_sweep_submission *given,
                            const choice *selected)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < selected->n && status == ES_OK; i++)
        status = es_sweep_folder_clear(given->folder, selected->runs[i], true);
    for (size_t first = 0; first < selected->n && status == ES_OK;) {
        size_t n = selected->n - first;
        if (n > ES_SWEEP_ARRAY_MOST)
            n = ES_SWEEP_ARRAY_MOST;
        status = submit_array(given, selected->runs + first, n);
        first += n;
    }
    return status;
}

es_status es_sweep_submit(const es_sweep_submission *given)
{
    es_sweep_jobs jobs;
    choice selected = {.n = 0};
    es_status status = es_alloc(&selected.runs, given->plan->n,
                                sizeof *selected.runs, "a sweep");
    if (status < 0)
        return status;
    if ((status = es_sweep_jobs_read(&jobs, given->folder)) < 0 ||
        (status = es_sweep_jobs_query(&jobs)) < 0 ||
        (status = choose(&selected, given, &jobs)) < 0)
        goto done;
    report_rest(&selected, given->folder);
    status = submit_all(given, &selected);
done:
    es_sweep_jobs_free(&jobs);
    free(selected.runs);
    return status;
}
