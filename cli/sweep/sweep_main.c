/* entropy-scan sweep */
#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/sweep/child.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/look.h"
#include "cli/sweep/runner.h"
#include "cli/sweep/slurm.h"
#include "cli/sweep/status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTPUT, JOBS, STATUS, SLURM, RUN, RULES, NO_STOP, DRY_RUN, HELP };

static const es_option options[] = {
    [OUTPUT] = {"output", 'o', "DIR", "the folder of the sweep"},
    [JOBS] = {"jobs", 'j', "N",
              "train N at a time (as many as there are processors)"},
    [STATUS] = {"status", 0, NULL, "say how far the sweep in DIR is"},
    [SLURM] = {"slurm", 0, NULL,
               "submit the runs to Slurm, a task each; print the job's id"},
    [RUN] = {"run", 0, "NAME",
             "train one run of the sweep in DIR: what a task does"},
    [RULES] = {"rules", 0, "FILE",
               "judge by this file's thresholds and rules (entropy-scan rules "
               "prints one)"},
    [NO_STOP] = {"no-stop", 0, NULL, "leave a run going that is doomed"},
    [DRY_RUN] = {"dry-run", 0, NULL,
                 "print the command line of each run, or the batch script; "
                 "train nothing"},
    [HELP] = ES_HELP_OPTION,
};

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
        "--rules whose action is stop: it is asked to stop, through\n"
        "NAME.db.stop. One that fails is told of with the last lines of its\n"
        "log; the others go on. Ctrl-C stops the trainings. The same command\n"
        "goes on with what is not done: a run that had ended, was asked to\n"
        "stop, or had a loss that was not finite is not run again; one that\n"
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
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

typedef struct arguments {
    const char *input, *folder, *run;
    const char *rules_file; /* --rules, or NULL */
    es_rules_file rules;    /* of it */
    size_t n_at_once;
    bool status, slurm, no_stop, dry_run;
} arguments;

static es_status take_jobs(size_t *out, const char *text)
{
    int64_t n;
    if (es_int_parse(&n, text, 1, 1024) != ES_OK)
        return es_fail(ES_EUSAGE, "--jobs '%.40s': a number from 1 to 1024",
                       text);
    *out = (size_t)n;
    return ES_OK;
}

static es_status take(void *user, int option, const char *value)
{
    arguments *to = user;
    switch (option) {
    case ES_OPTION_ARGUMENT:
        return es_command_one_file(&to->input, value);
    case OUTPUT:
        to->folder = value;
        return ES_OK;
    case JOBS:
        return take_jobs(&to->n_at_once, value);
    case STATUS:
        to->status = true;
        return ES_OK;
    case SLURM:
        to->slurm = true;
        return ES_OK;
    case RUN:
        to->run = value;
        return ES_OK;
    case RULES:
        es_rules_file_free(&to->rules);
        to->rules_file = value;
        return es_rules_file_read(&to->rules, value);
    case NO_STOP:
        to->no_stop = true;
        return ES_OK;
    case DRY_RUN:
        to->dry_run = true;
        return ES_OK;
    default:
        return es_command_help(&es_sweep_command);
    }
}

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

typedef struct scan_words {
    char **argv; /* (n) owned, room for the plan and more */
    size_t n;
} scan_words;

static void add_word(scan_words *to, char *word)
{
    if (word)
        to->argv[to->n++] = word;
}

/* The run files that are there: a broken run may have none. */
static void add_files(scan_words *to, const char *folder,
                      const es_sweep_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        char *path = es_sweep_path(folder, plan->runs[i].name, ".db");
        if (path && access(path, F_OK) == 0)
            add_word(to, path);
        else
            free(path);
    }
}

static void add_rules(scan_words *to, const char *file)
{
    if (!file)
        return;
    add_word(to, strdup("--rules"));
    add_word(to, strdup(file));
}

/* One word for all: what people would type to see the same again. */
static int scan_all(const arguments *given, const es_sweep_plan *plan)
{
    const char *folder = given->folder;
    char *picture = NULL;
    scan_words to = {.argv = calloc(plan->n + 8, sizeof *to.argv)};
    if (!to.argv || asprintf(&picture, "--bands=%s/bands.png", folder) < 0) {
        free(to.argv);
        return es_command_exit(es_fail(ES_ENOMEM, "out of memory for a table"));
    }
    add_word(&to, strdup("entropy-scan"));
    add_word(&to, picture);
    add_word(&to, strdup("--compare"));
    add_word(&to, strdup("--check"));
    add_rules(&to, given->rules_file);
    add_word(&to, strdup("--"));
    size_t before = to.n;
    add_files(&to, folder, plan);
    int code = to.n > before ? es_scan_main((int)to.n, to.argv) : 0;
    for (size_t i = 0; i < to.n; i++)
        free(to.argv[i]);
    free(to.argv);
    return code;
}

static int check_one(const arguments *given)
{
    char program[] = "entropy-scan", check[] = "--check", quiet[] = "--quiet",
         rules[] = "--rules", dashes[] = "--";
    char *path = es_sweep_path(given->input, given->run, ".db");
    char *file = given->rules_file ? strdup(given->rules_file) : NULL;
    char *by_default[] = {program, check, quiet, dashes, path, NULL};
    char *by_rules[] = {program, check, quiet, rules, file, dashes, path, NULL};
    int code = !path  ? es_command_exit(ES_ENOMEM)
               : file ? es_scan_main(7, by_rules)
                      : es_scan_main(5, by_default);
    free(file);
    free(path);
    return code;
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

int es_sweep_main(int argc, char **argv)
{
    arguments given = {.input = NULL};
    es_status status =
        es_options_parse(&es_sweep_command, argc, argv, take, &given);
    if (status == ES_OK)
        status = check(&given);
    int code = status == ES_OK ? sweep(&given) : es_command_exit(status);
    es_damage_print();
    code = es_damage_exit(code, 2);
    es_rules_file_free(&given.rules);
    return code;
}
