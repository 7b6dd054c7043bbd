/* Implements entropy-scan sweep: parses the options, runs the sweep, and prints
 * its results at the end. */
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
    {"output", 'o', "DIR", "folder of the sweep (named after SPEC)",
     ES_OPT_TEXT(es_sweep_request, folder)},
    {"jobs", 'j', "N",
     "train N runs at a time (as many as there are processors)",
     ES_OPT_INT(es_sweep_request, n_at_once, 1, 1024),
     .expects = "a number from 1 to 1024"},
    {"status", 0, NULL, "show the progress of the sweep in DIR",
     ES_OPT_FLAG(es_sweep_request, status)},
    {"slurm", 0, NULL,
     "submit the runs to Slurm, one task each, and print the job's id",
     ES_OPT_FLAG(es_sweep_request, slurm)},
    {"run", 0, "NAME",
     "train one run of the sweep in DIR, as a Slurm task does",
     ES_OPT_TEXT(es_sweep_request, run)},
    {"rules", 0, "FILE", ES_RULES_HELP, ES_OPT_ALL(read_rules)},
    {"all", 0, NULL, "also print all runs and their distances at the end",
     ES_OPT_FLAG(es_sweep_request, all)},
    {"no-stop", 0, NULL, "do not stop runs because of their flags or rules",
     ES_OPT_FLAG(es_sweep_request, no_stop)},
    {"draws", 0, "N",
     "number of draws of a random search, instead of the number in SPEC",
     ES_OPT_INT(es_sweep_request, n_draws, 1, ES_SWEEP_RUNS_MOST),
     .expects = "a number from 1 to 10000"},
    {"grace", 0, "SECONDS",
     "terminate a command that has not stopped SECONDS after a request (60)",
     ES_OPT_INT(es_sweep_request, grace, 0, 86400),
     .expects = "a number of seconds up to 86400"},
    {"dry-run", 0, NULL,
     "print the command line of each run, or the batch script, and train "
     "nothing",
     ES_OPT_FLAG(es_sweep_request, dry_run)},
    ES_HELP_OPTION,
};

static int sweep_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan sweep sweep.ini -o runs --dry-run",
     "Show the command lines of a sweep"},
    {NULL, NULL}};

const es_command es_sweep_command = {
    .name = "entropy-scan sweep",
    .synopsis = "SPEC [-o DIR] [OPTION...] | DIR --status | DIR --run NAME",
    .examples = examples,
    .summary = "train every combination of settings",
    .details =
        "SPEC is a file of lines KEY = VALUE. [sweep] contains arch\n"
        "(several values, separated by semicolons), seed (several,\n"
        "separated by blanks), data, config, and program (entropy-train: in\n"
        "the folder of this program or in PATH); [train] contains options\n"
        "of entropy-train for all runs; [grid] contains options with\n"
        "several values, separated by blanks. An option without an argument\n"
        "has the value true or false. Every combination is a run, named\n"
        "after arch, seed and the values of [grid]. DIR contains its run\n"
        "file NAME.db, its output NAME.log, and its command line NAME.cmd.\n"
        "A run uses one thread unless SPEC sets threads = N.\n"
        "\n"
        "Any program that records runs can be swept with command = ... in\n"
        "[sweep], which replaces data, config, program and [train]: its\n"
        "words contain {KEY} for the values of arch, seed and [grid],\n"
        "{name}, and {run} for the run file to write (also in ENTROPY_RUN);\n"
        "{{ is a brace. The command runs without a shell unless it is sh\n"
        "-c. The swept values are in the configuration of each run. A\n"
        "program whose exit code is not 0 counts as broken.\n"
        "\n"
        "A run is doomed if it has a critical flag, or a rule of --rules\n"
        "applies whose action is stop: it is stopped through NAME.db.stop.\n"
        "A run that fails is reported with the last lines of its log; the\n"
        "others continue. Ctrl-C stops all training. The same command\n"
        "resumes the sweep: runs that ended, were stopped, or had a loss\n"
        "that was not finite are not run again; runs that were interrupted\n"
        "or broke start again or, if SPEC says checkpoint-every = N, resume\n"
        "from their last checkpoint in NAME.checkpoints.\n"
        "\n"
        "At the end the configurations are printed, best first, with seeds\n"
        "combined; then the runs that were stopped, failed or broke, with\n"
        "the reasons. --all prints the output of entropy-scan\n"
        "DIR/*.db --compare --check. DIR/bands.png and, if settings matter,\n"
        "DIR/importance.png are drawn. The exit code is that of --check; 4\n"
        "if a run broke.",
    .further_about = "Random search, sweeps of Weights & Biases, and Slurm",
    .further =
        "Random search: keys of [random] have a distribution instead of\n"
        "values: uniform LOW HIGH, log-uniform LOW HIGH, q-uniform LOW HIGH\n"
        "STEP, int-uniform LOW HIGH or choice A B ... The key n of [sweep]\n"
        "sets the number of draws, which are the same for the same\n"
        "random-seed; each draw is trained with every combination of the\n"
        "rest.\n"
        "\n"
        "A SPEC named .yaml or .yml is a sweep of Weights & Biases with\n"
        "method grid or random (run_cap or --draws sets the number of\n"
        "draws); its program finds the run file in ENTROPY_RUN, or its\n"
        "command contains the word {run}.\n"
        "\n"
        "--slurm writes an array script with one task per run into DIR,\n"
        "submits it with sbatch, and exits; options of sbatch go into\n"
        "[slurm] of SPEC, and -j limits the number of tasks that run at a\n"
        "time. Given again, it submits the runs that are neither done nor\n"
        "in Slurm's queue. A task that is requeued resumes from its last\n"
        "checkpoint. The configuration of a run contains its task as\n"
        "slurm_job; scancel JOB ends all tasks. The output of a task is in\n"
        "DIR/slurm-JOB_TASK.out.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = sweep_main,
};

/* Names the folder after the spec: the folder of path/sweep.ini is "sweep" in
 * the current directory. */
static es_status name_folder(es_sweep_request *given)
{
    const char *slash = strrchr(given->input, '/');
    const char *name = slash ? slash + 1 : given->input;
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name || dot - name > NAME_MAX)
        return es_fail(ES_EUSAGE, "%s: no folder for the runs: add -o DIR",
                       given->input);
    memcpy(given->own_folder, name, (size_t)(dot - name));
    given->folder = given->own_folder;
    return ES_OK;
}

static es_status check_request(es_sweep_request *given)
{
    if (!given->input)
        return es_fail(ES_EUSAGE, "no spec: see entropy-scan sweep --help");
    if (given->status && given->run)
        return es_fail(ES_EUSAGE, "--status and --run are mutually exclusive");
    if ((given->status || given->run) && given->folder)
        return es_fail(
            ES_EUSAGE,
            "%s: takes only the folder: entropy-scan sweep %.200s --status",
            given->status ? "--status" : "--run", given->folder);
    if (given->status || given->run)
        given->folder = given->input;
    return given->folder ? ES_OK : name_folder(given);
}

/* Prints a line for each run that did not finish. */
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

/* Checks the flags of the existing run files, and returns the exit code of
 * --check. A run whose training process failed may have no file. With
 * `picture`, prints and draws the same as entropy-scan DIR/RUN.db --compare
 * --check --bands=DIR/bands.png, except for some tables; otherwise prints
 * nothing. */
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
    options.summary.rules = given->rules;
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

/* Trains one run and returns the exit code of --check for it. */
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

static int train_runs(const es_sweep_request *given, const es_sweep_plan *plan)
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
        es_print_note("%s: interrupted; the same command resumes the sweep",
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
                              : train_runs(given, &plan);
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
    if (status == ES_OK)
        status = check_request(&given);
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
