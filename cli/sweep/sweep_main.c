/* entropy-scan sweep: its options, and what comes of a sweep at its end. */
#include "analyzer/base/checked.h"
#include "cli/importance/importance.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/scan/scan.h"
#include "cli/sweep/folder.h"
#include "cli/sweep/sweep.h"
#include "cli/sweep/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static es_status read_rules(void *field, const es_option *option,
                            const char *value, const char *where)
{
    es_sweep_request *given = field;
    given->rules_path = value;
    given->rules = &given->own;
    return es_command_rules(&given->own, option, value, where);
}

static const es_option table[] = {
    {.name = NULL, ES_OPT_TEXT(es_sweep_request, input)},
    {"output", 'o', "DIR", "the folder of the sweep (named after SPEC)",
     ES_OPT_TEXT(es_sweep_request, folder)},
    {"jobs", 'j', "N", "train N at a time (as many as there are processors)",
     ES_OPT_INT(es_sweep_request, n_at_once, 1, 1024),
     .expects = "a number from 1 to 1024"},
    {"status", 0, NULL, "say how far the sweep in DIR is",
     ES_OPT_FLAG(es_sweep_request, status)},
    {"slurm", 0, NULL,
     "submit the runs to Slurm, a task each; print the job's id",
     ES_OPT_FLAG(es_sweep_request, slurm)},
    {"run", 0, "NAME", "train one run of the sweep in DIR: what a task does",
     ES_OPT_TEXT(es_sweep_request, run)},
    {"rules", 0, "FILE", ES_RULES_HELP, ES_OPT_ALL(read_rules)},
    {"forecast", 0, "[stop]",
     "judge by the rule that warns of a run that is heading for a collapse or "
     "NaN, too; stop: stop it",
     ES_OPT_CALL(es_sweep_request, forecast, es_command_forecast)},
    {"all", 0, NULL, "at the end show every run, too, and their distances",
     ES_OPT_FLAG(es_sweep_request, all)},
    {"no-stop", 0, NULL, "leave a run going that is doomed",
     ES_OPT_FLAG(es_sweep_request, no_stop)},
    {"draws", 0, "N", "of a random search, in place of what SPEC says",
     ES_OPT_INT(es_sweep_request, n_draws, 1, ES_SWEEP_RUNS_MOST),
     .expects = "a number from 1 to 10000"},
    {"grace", 0, "SECONDS",
     "end a command that was requested to stop, and has not (60)",
     ES_OPT_INT(es_sweep_request, grace, 0, 86400),
     .expects = "a number of seconds, to 86400"},
    {"dry-run", 0, NULL,
     "print the command line of each run, or the batch script; train nothing",
     ES_OPT_FLAG(es_sweep_request, dry_run)},
    ES_HELP_OPTION,
};

static int sweep_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan sweep sweep.ini -o runs --dry-run",
     "Say which trainings a sweep has"},
    {NULL, NULL}};

const es_command es_sweep_command = {
    .name = "entropy-scan sweep",
    .synopsis = "SPEC [-o DIR] [OPTION...] | DIR --status | DIR --run NAME",
    .examples = examples,
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
        "Random search: keys of [random] have a distribution in place of\n"
        "values, uniform LOW HIGH, log-uniform LOW HIGH, q-uniform LOW HIGH\n"
        "STEP, int-uniform LOW HIGH or choice A B ..., of which n = N in\n"
        "[sweep] values are drawn, the same for the same random-seed = S; "
        "each\n"
        "draw is trained with every combination of the rest.\n"
        "\n"
        "Any program that records is swept by command = ... in [sweep], in\n"
        "place of data, config, program and [train]: its words have {KEY} for\n"
        "the values of arch, seed and [grid], {name} and {run}, the run file\n"
        "that it is to write (also in ENTROPY_RUN); {{ is a brace. No shell\n"
        "reads it unless it is sh -c. What was swept is in the configuration\n"
        "of each run. A program that exits with another code than 0 broke.\n"
        "\n"
        "A SPEC named .yaml or .yml is a sweep of Weights & Biases, of method\n"
        "grid or random (run_cap or --draws say how many); its program finds\n"
        "the run file in ENTROPY_RUN, or {run} is a word of its command.\n"
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
        "At the end it prints the configurations, seeds taken together, best\n"
        "first, and which runs were stopped, failed or broke, and why; with\n"
        "--all what entropy-scan DIR/*.db --compare --check does. It draws\n"
        "DIR/bands.png and, with which settings matter, DIR/importance.png,\n"
        "and exits as --check; with 4 if a run broke.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = sweep_main,
};

/* sweep of path/sweep.ini, in the directory in which the program runs. */
static es_status name_folder(es_sweep_request *given)
{
    const char *slash = strrchr(given->input, '/');
    const char *name = slash ? slash + 1 : given->input;
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name || dot - name > NAME_MAX)
        return es_fail(ES_EUSAGE, "%s: no folder for the runs: -o DIR",
                       given->input);
    memcpy(given->own_folder, name, (size_t)(dot - name));
    given->folder = given->own_folder;
    return ES_OK;
}

static es_status check(es_sweep_request *given)
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
        given->folder = given->input;
    return given->folder ? ES_OK : name_folder(given);
}

/* The runs that did not come to a good end, each in a line. */
static void print_ends(const es_sweep_request *given, const es_sweep_plan *plan)
{
    es_sweep_view view;
    size_t n = 0;
    for (size_t i = 0; i < plan->n; i++) {
        const char *name = plan->runs[i].name;
        if (es_sweep_view_read_any(&view, given->folder, name, given->rules) !=
                ES_OK ||
            view.stage == ES_SWEEP_FINISHED)
            continue;
        if (n++ == 0)
            puts("\nnot finished:");
        printf("%s: %s", name, es_sweep_stage_name(view.stage));
        if (view.step >= 0)
            printf(" at step %lld", (long long)view.step);
        printf("%s%s\n", *view.flags ? ", " : "", view.flags);
    }
}

/* Those of --rules, or the defaults, and that of --forecast. */
static es_status read_all_rules(es_rules_file *out,
                                const es_sweep_request *given)
{
    es_status status = ES_OK;
    es_rules_file_default(out);
    if (given->rules_path)
        status = es_rules_file_read(out, given->rules_path);
    return status == ES_OK ? es_rules_file_add_forecast(out, given->forecast)
                           : status;
}

/* Judges the run files that are there, for a broken run may have none, and
   returns the exit code of --check; with a picture it is what entropy-scan
   DIR/RUN.db --compare --check --bands=DIR/bands.png does, but for the
   tables, else quiet. */
static int scan_runs(const es_sweep_request *given, const es_sweep_plan *plan,
                     bool picture)
{
    es_scan_options options;
    es_sweep_file bands = es_sweep_path(given->folder, "bands", ".png");
    es_sweep_file settings = es_sweep_path(given->folder, "importance", ".png");
    int code = 0;
    es_status status = es_scan_options_default(&options, plan->n);
    for (size_t i = 0; status == ES_OK && i < plan->n; i++) {
        es_sweep_file file =
            es_sweep_run_file(given->folder, plan->runs[i].name);
        if (!picture || access(file.path, F_OK) == 0)
            status =
                es_copy_text(&options.inputs[options.n_inputs++], file.path);
    }
    if (picture)
        es_figures_want_one(&options.figures, ES_FIGURE_BANDS, bands.path);
    options.compare = picture;
    options.best_first = !given->all;
    options.quiet = !picture;
    options.check = ES_SEVERITY_ERROR;
    if (status == ES_OK && given->rules && options.n_inputs) {
        options.summary.rules = &options.rules;
        status = read_all_rules(&options.rules, given);
    }
    if (status == ES_OK && options.n_inputs)
        status = es_scan_judge(&options);
    if (status != ES_OK)
        code = es_command_exit(status);
    else if (options.n_inputs)
        code = es_scan_run(&options);
    if (picture && status == ES_OK &&
        es_importance_of_files(options.inputs, options.n_inputs,
                               options.summary.rules, stdout,
                               settings.path) < 0) {
        es_print_failure();
        code = code ? code : es_exit_code(ES_EIO);
    }
    for (size_t i = 0; i < options.n_inputs; i++)
        free(options.inputs[i]);
    es_scan_options_free(&options);
    return code;
}

/* One run, whose end is the exit code of --check. */
static int train_one(const es_sweep_request *given)
{
    es_sweep_plan plan;
    char *program = NULL;
    es_sweep_result result;
    es_status status;
    int code;
    if ((status = es_sweep_folder_run(&plan, given->folder, given->run)) < 0 ||
        (status = es_sweep_program(&program, plan.runs[0].argv[0])) < 0 ||
        (status = es_sweep_run_all(&result, given, &plan, program)) < 0)
        code = es_command_exit(status);
    else if (result.signal)
        code = 128 + result.signal;
    else if (result.n_broken || result.n_taken)
        code = es_exit_code(ES_EIO);
    else
        code = scan_runs(given, &plan, false);
    free(program);
    es_sweep_plan_free(&plan);
    return code;
}

static int train(const es_sweep_request *given, const es_sweep_plan *plan)
{
    int lock = -1;
    char *program = NULL;
    es_sweep_result result;
    es_status status;
    if ((status = es_sweep_program(&program, plan->runs[0].argv[0])) == ES_OK &&
        (status = es_sweep_folder_take(&lock, given->folder, plan)) == ES_OK)
        status = es_sweep_run_all(&result, given, plan, program);
    if (lock >= 0)
        close(lock);
    free(program);
    if (status < 0)
        return es_command_exit(status);
    if (result.signal) {
        es_print_note("%s: interrupted: the same command goes on with it",
                      given->folder);
        return 128 + result.signal;
    }
    int code = scan_runs(given, plan, true);
    print_ends(given, plan);
    if (result.n_broken)
        es_print_note("%zu of %zu runs broke: see their logs in %s",
                      result.n_broken, plan->n, given->folder);
    bool some_failed = result.n_broken || result.n_taken;
    return some_failed && code <= 1 ? ES_EXIT_SOME_FAILED : code;
}

static es_status print_plan(const es_sweep_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        char *line = es_sweep_command_line(&plan->runs[i]);
        if (!line)
            return ES_ENOMEM;
        es_print_escaped(stdout, line, ES_ESCAPE_TERMINAL);
        putchar('\n');
        free(line);
    }
    return ES_OK;
}

static int sweep_all(const es_sweep_request *given)
{
    es_sweep_spec spec;
    es_sweep_plan plan = {.n = 0};
    int code, lock = -1;
    es_status status;
    if ((status = es_sweep_spec_read(&spec, given->input, given->n_draws)) <
            0 ||
        (status = es_sweep_plan_make(&plan, &spec)) < 0) {
        code = es_command_exit(status);
    } else if (given->slurm) {
        if (given->dry_run || (status = es_sweep_folder_take(
                                   &lock, given->folder, &plan)) == ES_OK)
            status = es_sweep_submit(given, &spec, &plan);
        code = es_command_exit(status);
    } else {
        code = given->dry_run ? es_command_exit(print_plan(&plan))
                              : train(given, &plan);
    }
    if (lock >= 0)
        close(lock);
    es_sweep_plan_free(&plan);
    es_sweep_spec_free(&spec);
    return code;
}

static int sweep_main(int argc, char **argv)
{
    es_sweep_request given = {.grace = ES_SWEEP_GRACE};
    size_t n_failed = 0;
    int code;
    es_status status =
        es_command_parse(&given, NULL, &es_sweep_command, argc, argv);
    if (status == ES_OK && given.forecast) {
        es_rules_file_free(&given.own);
        given.rules = &given.own;
        status = read_all_rules(&given.own, &given);
    }
    if (status == ES_OK)
        status = check(&given);
    if (status == ES_OK && given.status)
        status = es_sweep_print_status(stdout, &n_failed, &given);
    if (status != ES_OK || given.status)
        code = status == ES_OK && n_failed ? ES_EXIT_SOME_FAILED
                                           : es_command_exit(status);
    else
        code = given.run ? train_one(&given) : sweep_all(&given);
    es_damage_print();
    code = es_damage_exit(code, 2);
    es_rules_file_free(&given.own);
    return code;
}
