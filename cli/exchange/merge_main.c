/* entropy-scan merge */
#include "analyzer/base/value.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/summary.h"
#include "cli/runs/tree.h"
#include "store/merge.h"
#include "store/run_row.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct arguments {
    char **inputs; /* (n_inputs) */
    size_t n_inputs;
    es_paths found; /* with --recursive: inputs are its paths */
    size_t n_unreadable;
    const char *output;
    bool recursive, quiet;
} arguments;

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, inputs, n_inputs)},
    {"output", 'o', "ALL.db", "the run file to write",
     ES_OPT_TEXT(arguments, output)},
    {"recursive", 'r', NULL,
     "merge the run files (*.db) below the folders given",
     ES_OPT_FLAG(arguments, recursive)},
    {"quiet", 'q', NULL, "print errors alone", ES_OPT_FLAG(arguments, quiet)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
};

static int merge_main(int argc, char **argv);

const es_command es_merge_command = {
    .name = "entropy-scan merge",
    .synopsis = "RUN.db... -o ALL.db",
    .summary = "make one run file of many",
    .details =
        "Every run is copied with its series, samples and events, bit by bit.\n"
        "A run that an earlier file had already (the same uuid) is skipped.\n"
        "ALL.db appears whole or not at all. If it is there already it is\n"
        "replaced, but only if no run of it would be lost: name it among the\n"
        "inputs to add to it. If an input cannot be read the others are "
        "merged\n"
        "all the same, and the exit code is 4. So it is if samples of an\n"
        "input are damaged: ALL.db has missing values in their place, and an\n"
        "event of the kind damaged for each.\n"
        "\n"
        "The table summary of ALL.db has a row for each run, for plain SQL:\n"
        "its last step, losses, heads in each quarter of the ceiling, flags.\n"
        "NULL is a number that was not recorded; one that is not finite is\n"
        "the text NaN, inf or -inf. SQL's avg and sum take a text for 0:\n"
        "add filter (where typeof(eval_ppl) = 'real').",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = merge_main,
};

static es_status check(const arguments *given)
{
    if (!given->n_inputs)
        return es_fail(ES_EUSAGE, "no run files to merge: see entropy-scan "
                                  "merge --help");
    if (!given->output)
        return es_fail(ES_EUSAGE, "no run file to write: -o ALL.db");
    return es_output_check_run_file(given->output);
}

/* What entropy-scan says of a run, as a row beside it. */
static es_status add_row(es_writer *writer, es_reader *reader, size_t run)
{
    char flags[1024] = "no entropy";
    es_run_info info;
    es_run_summary *summary = NULL;
    es_summary_options wanted;
    es_summary_options_default(&wanted);
    wanted.max.policy = ES_MAX_CEILING;
    es_run_row row = {.step = ES_UNKNOWN,
                      .loss = es_missing(),
                      .ppl = es_missing(),
                      .eval_loss = es_missing(),
                      .eval_ppl = es_missing(),
                      .ceiling = NAN,
                      .largest = NAN,
                      .flags = flags};
    es_status status = es_reader_run(reader, run, &info);
    if (status != ES_OK)
        return status;
    status = es_summary_load(&summary, reader, run, &wanted);
    if (status == ES_OK) {
        es_summary_print_flags(flags, sizeof flags, summary);
        row.step = summary->step;
        row.loss = summary->loss;
        row.ppl = summary->ppl;
        row.eval_loss = summary->eval_loss;
        row.eval_ppl = summary->eval_ppl;
        row.ceiling = summary->ceiling;
        row.largest = summary->peak;
        row.bands = summary->bands;
        row.severity = es_summary_severity(summary);
    }
    es_summary_free(summary);
    if (status != ES_OK && status != ES_ENOTFOUND)
        return status;
    return es_writer_run_row(writer, info.uuid, &row);
}

static es_status merge_one(es_writer *writer, const char *path, size_t *copied,
                           size_t *skipped)
{
    es_reader *reader = NULL;
    es_status status = es_reader_open(&reader, path);
    if (status == ES_OK)
        status = es_merge(writer, reader, copied, skipped, add_row);
    es_damage_close(reader);
    return status;
}

/* An input that fails is reported and counted; the others go on. */
static es_status merge_all(const arguments *given, const es_output *output,
                           es_writer *writer, size_t *n_failed, size_t *n_runs)
{
    for (size_t i = 0; i < given->n_inputs; i++) {
        size_t skipped = 0;
        es_status status =
            merge_one(writer, given->inputs[i], n_runs, &skipped);
        if (status != ES_OK && es_output_is_blamed(output))
            return es_output_status(output, status);
        if (status != ES_OK) {
            es_print_note("%s", es_message());
            ++*n_failed;
        }
        if (skipped && !given->quiet)
            es_print_note("%s: %zu of its runs there already: skipped",
                          given->inputs[i], skipped);
    }
    if (!*n_runs)
        return es_fail(ES_EIO, "%s: not written: there is no run to write",
                       given->output);
    return ES_OK;
}

/* What is to be replaced must not hold a run that nothing else does. */
static es_status check_replaced(const arguments *given, es_writer *writer)
{
    size_t copied = 0, skipped = 0;
    es_reader *reader = NULL;
    if (access(given->output, F_OK) != 0 && errno == ENOENT)
        return ES_OK;
    es_status status = es_reader_open(&reader, given->output);
    if (status == ES_OK)
        status = es_merge(writer, reader, &copied, &skipped, NULL);
    es_damage_close(reader);
    if (status != ES_OK || !copied)
        return status;
    return es_fail(ES_EIO,
                   "%s: %zu of its runs are in none of the inputs: name it "
                   "among them to keep those, or remove it",
                   given->output, copied);
}

static es_status write_runs(const arguments *given, const es_output *output,
                            es_writer *writer, size_t *n_failed, size_t *n_runs)
{
    es_status status = merge_all(given, output, writer, n_failed, n_runs);
    if (status == ES_OK)
        status = check_replaced(given, writer);
    if (status == ES_OK)
        return es_output_status(output, es_writer_close(writer));
    es_writer_abandon(writer);
    return status;
}

static int merge(const arguments *given)
{
    size_t n_failed = given->n_unreadable, n_runs = 0;
    es_output *output = NULL;
    es_writer *writer = NULL;
    es_status status = es_output_open_run(&output, &writer, given->output);
    if (status == ES_OK) {
        status = write_runs(given, output, writer, &n_failed, &n_runs);
        status = es_output_finish(output, status);
    }
    if (status != ES_OK)
        return es_command_exit(status);
    if (!given->quiet)
        es_print_note("%s: %zu run%s of %zu file%s", given->output, n_runs,
                      n_runs == 1 ? "" : "s", given->n_inputs - n_failed,
                      given->n_inputs - n_failed == 1 ? "" : "s");
    return n_failed ? ES_EXIT_SOME_FAILED : 0;
}

static int merge_main(int argc, char **argv)
{
    arguments given = {.inputs = NULL};
    es_status status =
        es_command_parse(&given, NULL, &es_merge_command, argc, argv);
    if (status == ES_OK)
        status = check(&given);
    if (status == ES_OK && given.recursive)
        status = es_paths_expand(&given.found, &given.n_unreadable,
                                 given.inputs, given.n_inputs);
    if (given.found.n) {
        free(given.inputs);
        given.inputs = given.found.paths;
        given.n_inputs = given.found.n;
    }
    int code = status == ES_OK ? merge(&given) : es_command_exit(status);
    code = es_damage_exit(code, given.n_inputs);
    if (given.inputs != given.found.paths)
        free(given.inputs);
    es_paths_free(&given.found);
    return code;
}
