/* Submits a sweep as Slurm job arrays with a task for each run: selects the
 * runs that are not done, writes the batch script with their names, and calls
 * sbatch. */
#include "analyzer/base/checked.h"
#include "analyzer/base/outfile.h"
#include "analyzer/base/process.h"
#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include "cli/slurm/query.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/jobs.h"
#include "cli/sweep/sweep.h"
#include "cli/sweep/template.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Name of the batch script until sbatch has assigned a job number. */
#define SCRIPT "slurm.sbatch"

/* The runs to submit, in the order of their tasks. */
typedef struct choice {
    const char **runs; /* (n) borrowed */
    size_t n;
} choice;

/* --- script --------------------------------------------------------------- */

static void print_options(FILE *stream, const es_sweep_spec *spec)
{
    const es_sweep_option *threads = es_sweep_spec_find(spec, "threads", false);
    int64_t n, most = 0; /* number of threads of a run, and the maximum over all
                            runs */
    for (size_t i = 0; threads && i < threads->n; i++)
        if (es_int_parse(&n, threads->values[i], 1, 1024) == ES_OK && n > most)
            most = n;
    if (most && !es_sweep_spec_find(spec, "cpus-per-task", true))
        fprintf(stream, "#SBATCH --cpus-per-task=%" PRId64 "\n", most);
    for (size_t i = 0; i < spec->n; i++) {
        const es_sweep_option *option = &spec->options[i];
        if (option->section != ES_SWEEP_SLURM ||
            strcmp(option->values[0], "false") == 0)
            continue;
        fprintf(stream, "#SBATCH --%s", option->key);
        if (strcmp(option->values[0], "true") != 0) {
            putc('=', stream);
            es_slurm_print_word(stream, option->values[0]);
        }
        putc('\n', stream);
    }
}

/* Converts a path to an absolute path, which is valid on every host. The path
 * need not exist yet. */
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
    return es_fail(
        ES_EUSAGE,
        "%s: a batch script cannot contain this path: choose another", path);
}

static es_status print_script(FILE *stream, const es_sweep_request *given,
                              const es_sweep_spec *spec, const choice *chosen)
{
    char self[PATH_MAX], folder[PATH_MAX], rules[PATH_MAX];
    es_status status;
    if (!es_process_self(self))
        return es_fail(ES_EIO, "cannot find the path of this program: %s",
                       strerror(errno));
    if ((status = find_path(folder, given->folder)) < 0 ||
        (given->rules_path &&
         (status = find_path(rules, given->rules_path)) < 0))
        return status;
    fprintf(stream,
            "#!/bin/sh\n# %zu run%s of a sweep, one per task: "
            "written by entropy-scan sweep --slurm.\n"
            "#SBATCH --job-name=" ES_SWEEP_JOB_NAME "\n#SBATCH --array=0-%zu",
            chosen->n, chosen->n == 1 ? "" : "s", chosen->n - 1);
    if (given->n_at_once)
        fprintf(stream, "%%%zu", given->n_at_once);
    fputs("\n#SBATCH --requeue\n#SBATCH --open-mode=append\n"
          "#SBATCH --output=",
          stream);
    es_slurm_print_log(stream, folder, "slurm-%A_%a.out");
    putc('\n', stream);
    print_options(stream, spec);
    fputs(
        "run=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" " ES_SWEEP_SCRIPT_BEGINS
        "\n",
        stream);
    for (size_t i = 0; i < chosen->n; i++)
        fprintf(stream, "%s\n", chosen->runs[i]);
    fputs(ES_SWEEP_SCRIPT_ENDS "\n)\nexec ", stream);
    es_slurm_print_word(stream, self);
    fputs(" sweep ", stream);
    es_slurm_print_word(stream, folder);
    fputs(given->no_stop ? " --no-stop" : "", stream);
    if (given->grace != ES_SWEEP_GRACE)
        fprintf(stream, " --grace %zu", given->grace);
    if (given->rules_path) {
        fputs(" --rules ", stream);
        es_slurm_print_word(stream, rules);
    }
    fputs(" --run \"$run\"\n", stream);
    return ES_OK;
}

/* --- sbatch ---------------------------------------------------------------*/

static es_status call_sbatch(int64_t *job, char *script)
{
    /* The job name is also an argument, because SBATCH_JOB_NAME would override
     * the name in the script. */
    char program[] = "sbatch", parsable[] = "--parsable",
         name[] = "--job-name=" ES_SWEEP_JOB_NAME;
    char *const argv[] = {program, parsable, name, script, NULL};
    return es_slurm_submit(job, argv, script);
}

/* Submits a job array and renames the batch script to slurm-JOB.sbatch, so that
 * the folder shows which job trains which runs. */
static es_status submit_array(const es_sweep_request *given,
                              const es_sweep_spec *spec, const choice *part)
{
    int64_t job = 0;
    char name[64];
    es_sweep_file script = es_sweep_path(given->folder, SCRIPT, "");
    es_outfile *file = NULL;
    FILE *stream = NULL;
    es_status status;
    if ((status = es_sweep_make_way(script.path)) < 0 ||
        (status = es_outfile_open(&file, &stream, script.path)) < 0 ||
        (status = es_outfile_finish(
             file, print_script(stream, given, spec, part))) < 0 ||
        (status = call_sbatch(&job, script.path)) < 0)
        return status;
    printf("%" PRId64 "\n", job);
    es_print_note("%s: job %" PRId64 " of Slurm: %zu run%s submitted",
                  given->folder, job, part->n, part->n == 1 ? "" : "s");
    snprintf(name, sizeof name, "slurm-%" PRId64 ".sbatch", job);
    if (rename(script.path, es_sweep_path(given->folder, name, "").path) != 0)
        status = es_fail(ES_EIO,
                         "%s: cannot rename: %s: job %" PRId64
                         " is submitted, but --status does not know it",
                         script.path, strerror(errno), job);
    return status;
}

/* --- selection ------------------------------------------------------------ */

static es_status choose_runs(choice *selected, const es_sweep_request *given,
                             const es_sweep_plan *plan,
                             const es_sweep_jobs *jobs)
{
    size_t done = 0, running = 0, queued = 0;
    for (size_t i = 0; i < plan->n; i++) {
        const char *name = plan->runs[i].name;
        es_sweep_view view;
        es_status status =
            es_sweep_view_read_any(&view, given->folder, name, NULL);
        if (status != ES_OK)
            return status;
        es_sweep_jobs_amend(jobs, &view);
        if (es_sweep_is_done(view.stage))
            done++;
        else if (view.stage == ES_SWEEP_RUNNING)
            running++;
        else if (view.stage == ES_SWEEP_QUEUED)
            queued++;
        else
            selected->runs[selected->n++] = name;
    }
    if (done || !selected->n)
        es_print_note("%s: %zu already done, %zu running, %zu queued%s",
                      given->folder, done, running, queued,
                      selected->n ? "" : ": nothing to submit");
    return ES_OK;
}

es_status es_sweep_submit(const es_sweep_request *given,
                          const es_sweep_spec *spec, const es_sweep_plan *plan)
{
    es_sweep_jobs jobs = {.n = 0};
    choice selected = {.n = 0};
    es_status status =
        es_alloc(&selected.runs, plan->n, sizeof *selected.runs, "a sweep");
    if (status < 0)
        return status;
    if (given->dry_run) {
        while (selected.n < plan->n) {
            selected.runs[selected.n] = plan->runs[selected.n].name;
            selected.n++;
        }
        status = print_script(stdout, given, spec, &selected);
        goto done;
    }
    if ((status = es_sweep_jobs_read(&jobs, given->folder)) < 0 ||
        (status = es_sweep_jobs_query(&jobs)) < 0 ||
        (status = choose_runs(&selected, given, plan, &jobs)) < 0)
        goto done;
    /* Remove the files that describe how earlier attempts of the runs ended. */
    for (size_t i = 0; i < selected.n && status == ES_OK; i++)
        status = es_sweep_folder_clear(given->folder, selected.runs[i], true);
    for (size_t first = 0; first < selected.n && status == ES_OK;
         first += ES_SWEEP_ARRAY_MOST) {
        choice part = {selected.runs + first, selected.n - first};
        if (part.n > ES_SWEEP_ARRAY_MOST)
            part.n = ES_SWEEP_ARRAY_MOST;
        status = submit_array(given, spec, &part);
    }
done:
    es_sweep_jobs_free(&jobs);
    free(selected.runs);
    return status;
}
