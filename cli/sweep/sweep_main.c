/* entropy-scan sweep */
#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/scan/scan.h"
#include "cli/sweep/child.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/runner.h"
#include "cli/sweep/slurm.h"
#include "cli/sweep/status.h"
#include "cli/sweep/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct arguments {
    const char *input, *folder, *run;
    const char *rules_file; /* --rules, or NULL */
    es_rules_file rules;    /* of it */
    size_t n_at_once;       /* 0: as many as there are processors */
    bool status, slurm, no_stop, dry_run;
} arguments;

static es_status read_rules(void *field, const es_option *option,
                            const char *value, const char *where)
{
    arguments *given = field;
    given->rules_file = value;
    return es_command_rules(&given->rules, option, value, where);
}

static const es_option table[] = {
    {.name = NULL, ES_OPT_TEXT(arguments, input)},
    {"output", 'o', "DIR", "the folder of the sweep",
     ES_OPT_TEXT(arguments, folder)},
    {"jobs", 'j', "N", "train N at a time (as many as there are processors)",
     ES_OPT_INT(arguments, n_at_once, 1, 1024),
     .expects = "a number from 1 to 1024"},
    {"status", 0, NULL, "say how far the sweep in DIR is",
     ES_OPT_FLAG(arguments, status)},
    {"slurm", 0, NULL,
     "submit the runs to Slurm, a task each; print the job's id",
     ES_OPT_FLAG(arguments, slurm)},
    {"run", 0, "NAME", "train one run of the sweep in DIR: what a task does",
     ES_OPT_TEXT(arguments, run)},
    {"rules", 0, "FILE", ES_RULES_HELP, ES_OPT_ALL(read_rules)},
    {"no-stop", 0, NULL, "leave a run going that is doomed",
     ES_OPT_FLAG(arguments, no_stop)},
    {"dry-run", 0, NULL,
     "print the command line of each run, or the batch script; train nothing",
     ES_OPT_FLAG(arguments, dry_run)},
    ES_HELP_OPTION,
};

static int sweep_main(int argc, char **argv);

const es_command es_sweep_command = {
    .name = "entropy-scan sweep",
    .synopsis = "SPEC -o DIR [OPTION...] | DIR --status | DIR --run NAME",
    .summary = "train every combination of settings",
    .details =
        "SPEC is a file of lines KEY = VALUE. In [sweep] are arch (several,\n"
        "separated by semicolons), seed (several, separated by blanks), data,\n"
        "config, and program (entropy-train: beside this program, or in\n"
        "PATH); in [train] options of entropy-train for all runs; in [grid]\n"
        "options with several values, separated by blanks. An option without\n"
        "a value is true or false. Every combination is a run, named by arch,\n"
        "seed and the values of [grid], with its run file NAME.db, what it\n"
        "printed NAME.log, and its command line NAME.cmd in DIR. A run has "
        "one\n"
        "thread unless SPEC says threads = N.\n"
        "\n"
        "A run is doomed if something critical stands of it, or a rule of\n"
        "--rules whose action is stop: it is stopped, through\n"
        "NAME.db.stop. One that fails is reported with the last lines of its\n"
        "log; the others go on. Ctrl-C stops the trainings. The same command\n"
        "goes on with what is not done: a run that had ended, was\n"
        "stopped, or had a loss that was not finite is not run again; one "
        "that\n"
        "was interrupted or broke begins again, or, if SPEC says\n"
        "checkpoint-every = N, goes on from its last checkpoint, which lies "
        "in\n"
        "NAME.checkpoints.\n"
        "\n"
        "--slurm writes an array script of one task a run into DIR, submits "
        "it\n"
        "with sbatch, and ends; options of sbatch go into [slurm] of SPEC, "
        "and\n"
        "-j says how many tasks may run at a time. Given again, it submits\n"
        "what is neither done nor in Slurm's queue. A task that is requeued\n"
        "goes on from its last checkpoint. A run keeps its task as slurm_job\n"
        "in its configuration; scancel JOB ends all. What a task itself says\n"
        "is in DIR/slurm-JOB_TASK.out.\n"
        "\n"
        "At the end it prints what entropy-scan DIR/*.db --compare --check\n"
        "does, draws DIR/bands.png, and exits as --check; with 4 if a run "
        "broke.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = sweep_main,
};

static es_status check(const arguments *given)
{
    if (!given->input)
        return es_fail(ES_EUSAGE, "no spec: see entropy-scan sweep --help");
    if (given->status && given->run)
        return es_fail(ES_EUSAGE, "--status and --run exclude each other");
    if ((given->status || given->run) && given->folder)
        return es_fail(ES_EUSAGE,
                       "%s: name the folder alone: entropy-scan sweep %.200s "
                       "--status",
                       given->status ? "--status" : "--run", given->folder);
    if (given->status || given->run)
        return ES_OK;
    if (given->slurm && !given->folder)
        return es_fail(ES_EUSAGE, "--slurm: no folder for the runs: -o DIR");
    if (!given->dry_run && !given->folder)
        return es_fail(ES_EUSAGE, "no folder for the runs: -o DIR");
    return ES_OK;
}

static es_status print_plan(const es_sweep_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        char *line = es_sweep_command_line(&plan->runs[i]);
        if (!line)
            return ES_ENOMEM;
        puts(line);
        free(line);
    }
    return ES_OK;
}

static const es_rules_file *rules_of(const arguments *given)
{
    return given->rules_file ? &given->rules : NULL;
}

/* --- what came of it ------------------------------------------------------*/

/* Judges and shows; frees the options and their inputs. */
static int scan_runs(es_scan_options *options, const char *rules_file,
                     es_status status)
{
    int code = 0;
    if (status == ES_OK && rules_file && options->n_inputs) {
        options->summary.rules = &options->rules;
        status = es_rules_file_read(&options->rules, rules_file);
    }
    if (status == ES_OK && options->n_inputs)
        status = es_scan_judge(options);
    if (status != ES_OK)
        code = es_command_exit(status);
    else if (options->n_inputs)
        code = es_scan_run(options);
    for (size_t i = 0; i < options->n_inputs; i++)
        free(options->inputs[i]);
    es_scan_options_free(options);
    return code;
}

/* What entropy-scan DIR/RUN.db --compare --check --bands=DIR/bands.png does, of
   the run files that are there: a broken run may have none. */
static int scan_all(const arguments *given, const es_sweep_plan *plan)
{
    es_scan_options options;
    char *picture = NULL;
    es_status status = es_scan_options_default(&options, plan->n);
    if (status == ES_OK &&
        asprintf(&picture, "%s/bands.png", given->folder) < 0) {
        picture = NULL;
        status = es_fail(ES_ENOMEM, "out of memory for a table");
    }
    for (size_t i = 0; status == ES_OK && i < plan->n; i++) {
        char *path = es_sweep_path(given->folder, plan->runs[i].name, ".db");
        if (path && access(path, F_OK) == 0)
            options.inputs[options.n_inputs++] = path;
        else
            free(path);
    }
    es_figures_want_one(&options.figures, ES_FIGURE_BANDS, picture);
    options.compare = options.check = true;
    int code = scan_runs(&options, given->rules_file, status);
    free(picture);
    return code;
}

/* The exit code of --check, without a table. */
static int check_one(const arguments *given)
{
    es_scan_options options;
    es_status status = es_scan_options_default(&options, 1);
    char *path = es_sweep_path(given->input, given->run, ".db");
    if (status == ES_OK && path)
        options.inputs[options.n_inputs++] = path;
    else
        free(path);
    options.check = options.quiet = true;
    return scan_runs(&options, given->rules_file, path ? status : ES_ENOMEM);
}

static int conclude(const arguments *given, const es_sweep_plan *plan,
                    const es_sweep_result *result)
{
    if (result->signal) {
        es_print_note("%s: interrupted: the same command goes on with it",
                      given->folder);
        return 128 + result->signal;
    }
    int code = scan_all(given, plan);
    if (result->n_broken)
        es_print_note("%zu of %zu runs broke: see their logs in %s",
                      result->n_broken, plan->n, given->folder);
    bool some_failed = result->n_broken || result->n_taken;
    return some_failed && code <= 1 ? ES_EXIT_SOME_FAILED : code;
}

/* --- the sweep ------------------------------------------------------------*/

static size_t n_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (size_t)n : 1;
}

static es_status run_all(es_sweep_result *result, const arguments *given,
                         const es_sweep_plan *plan, const char *folder,
                         const char *program)
{
    const es_sweep_job job = {.plan = plan,
                              .folder = folder,
                              .program = program,
                              .n_at_once = given->n_at_once ? given->n_at_once
                                                            : n_processors(),
                              .rules = rules_of(given),
                              .no_stop = given->no_stop};
    return es_sweep_run_all(result, &job);
}

static es_status take_folder(int *lock, const char *folder,
                             const es_sweep_plan *plan)
{
    es_status status = es_sweep_folder_take(lock, folder);
    return status == ES_OK ? es_sweep_folder_plan(folder, plan) : status;
}

static int train(const arguments *given, const es_sweep_plan *plan)
{
    int lock = -1;
    char *program = NULL;
    es_sweep_result result = {.signal = 0};
    es_status status = es_sweep_program(&program, plan->runs[0].argv[0]);
    if (status == ES_OK)
        status = take_folder(&lock, given->folder, plan);
    if (status == ES_OK)
        status = run_all(&result, given, plan, given->folder, program);
    if (lock >= 0)
        close(lock);
    free(program);
    return status == ES_OK ? conclude(given, plan, &result)
                           : es_command_exit(status);
}

/* One run, whose end is the exit code of --check. */
static int train_one(const arguments *given)
{
    es_sweep_plan plan;
    char *program = NULL;
    es_sweep_result result = {.signal = 0};
    es_status status = es_sweep_folder_run(&plan, given->input, given->run);
    if (status == ES_OK)
        status = es_sweep_program(&program, plan.runs[0].argv[0]);
    if (status == ES_OK)
        status = run_all(&result, given, &plan, given->input, program);
    int code;
    if (status != ES_OK)
        code = es_command_exit(status);
    else if (result.signal)
        code = 128 + result.signal;
    else if (result.n_broken || result.n_taken)
        code = es_exit_code(ES_EIO);
    else
        code = check_one(given);
    free(program);
    es_sweep_plan_free(&plan);
    return code;
}

/* --- Slurm ----------------------------------------------------------------*/

static es_status print_script(const es_sweep_submission *given)
{
    es_status status = ES_ENOMEM;
    const char **runs = calloc(given->plan->n, sizeof *runs);
    if (!runs)
        return es_fail(ES_ENOMEM, "out of memory for a script");
    for (size_t i = 0; i < given->plan->n; i++)
        runs[i] = given->plan->runs[i].name;
    status = es_sweep_print_script(stdout, given, runs, given->plan->n);
    free(runs);
    return status;
}

static int submit(const arguments *given, const es_sweep_spec *spec,
                  const es_sweep_plan *plan)
{
    int lock = -1;
    const es_sweep_submission submission = {.spec = spec,
                                            .plan = plan,
                                            .folder = given->folder,
                                            .n_at_once = given->n_at_once,
                                            .rules = given->rules_file,
                                            .no_stop = given->no_stop};
    if (given->dry_run)
        return es_command_exit(print_script(&submission));
    es_status status = take_folder(&lock, given->folder, plan);
    if (status == ES_OK)
        status = es_sweep_submit(&submission);
    if (lock >= 0)
        close(lock);
    return es_command_exit(status);
}

/* --- the verb -------------------------------------------------------------*/

static int plan_and_train(const arguments *given)
{
    es_sweep_spec spec;
    es_sweep_plan plan = {.n = 0};
    int code;
    es_status status = es_sweep_spec_read(&spec, given->input);
    if (status == ES_OK)
        status = es_sweep_plan_make(&plan, &spec);
    if (status == ES_OK && given->dry_run && !given->slurm)
        status = print_plan(&plan);
    if (status != ES_OK || (given->dry_run && !given->slurm))
        code = es_command_exit(status);
    else
        code = given->slurm ? submit(given, &spec, &plan) : train(given, &plan);
    es_sweep_plan_free(&plan);
    es_sweep_spec_free(&spec);
    return code;
}

static int print_status(const arguments *given)
{
    size_t n_failed;
    es_status status =
        es_sweep_print_status(stdout, &n_failed, given->input, rules_of(given));
    return status == ES_OK && n_failed ? ES_EXIT_SOME_FAILED
                                       : es_command_exit(status);
}

static int sweep(const arguments *given)
{
    if (given->status)
        return print_status(given);
    return given->run ? train_one(given) : plan_and_train(given);
}

static int sweep_main(int argc, char **argv)
{
    arguments given = {.input = NULL};
    es_status status =
        es_command_parse(&given, NULL, &es_sweep_command, argc, argv);
    if (status == ES_OK)
        status = check(&given);
    int code = status == ES_OK ? sweep(&given) : es_command_exit(status);
    es_damage_print();
    code = es_damage_exit(code, 2);
    es_rules_file_free(&given.rules);
    return code;
}
