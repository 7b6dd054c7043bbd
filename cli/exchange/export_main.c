/* Implements the command line of entropy-scan export: selects runs and the
   format, and opens the files. */
#include "analyzer/base/text.h"
#include "cli/exchange/export.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/tree.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 64 };

typedef enum format { OPEN = -1, CSV, JSONL, NPZ, EVENTS } format;
static const char *const formats[] = {"csv", "jsonl", "npz", "tensorboard",
                                      NULL};

typedef struct arguments {
    char **inputs; /* paths of run files (n_inputs); several are allowed only if
                      the format is jsonl */
    size_t n_inputs;
    es_paths found;      /* freed by es_inputs_free */
    size_t n_unreadable; /* number of unreadable files and folders, each of
                            which has been reported */
    const char *output, *run;
    char **names; /* (n_names) */
    size_t n_names;
    format format;
    es_export_options content;
} arguments;

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, inputs, n_inputs)},
    ES_RECURSIVE_OPTION,
    {"output", 'o', "FILE", "write to FILE (-: standard output)",
     ES_OPT_TEXT(arguments, output)},
    {"format", 0, "FORMAT",
     "csv, jsonl, npz or tensorboard (by the extension of FILE, else csv)",
     ES_OPT_CHOICE(arguments, format, formats),
     .expects = "csv, jsonl, npz or tensorboard"},
    {"run", 0, "RUN", "export only the run with this number, name or uuid",
     ES_OPT_TEXT(arguments, run)},
    {"series", 0, "NAME", "export only this series; may be repeated",
     ES_OPT_LIST(arguments, names, n_names), .most = MAX_NAMES},
    {"phase", 0, "PHASE", "export only train or eval",
     ES_OPT_CALL(arguments, content.phase, es_command_phase)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
};

static int export_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan export sm.db --series loss -o loss.csv",
     "Write the loss as CSV"},
    {NULL, NULL}};

const es_command es_export_command = {
    .name = "entropy-scan export",
    .synopsis = "RUN.db... [OPTION...]",
    .examples = examples,
    .summary = "write a run as CSV, JSON lines, NPZ or TensorBoard events",
    .details =
        "csv    import reads it back bit for bit. Comments (# key: value)\n"
        "       describe the run; then follow the header\n"
        "       step,layer,head,SERIES... and one row for the run, each layer\n"
        "       and each head of a step. An empty cell means no sample, NA a\n"
        "       missing value\n"
        "jsonl  one line about the run, then one line per sample; null is a\n"
        "       missing value, \"NaN\", \"inf\" and \"-inf\" are strings\n"
        "npz    for numpy: each series is a float32 array (n, L, H), (n, L)\n"
        "       or (n), its steps are steps/SERIES; missing values are the\n"
        "       NaN of the run file; run.json describes the run\n"
        "tensorboard  an event file, which TensorBoard finds if its name\n"
        "       contains tfevents: -o DIR/events.out.tfevents.RUN. Scalars\n"
        "       are entropy/layer_03/head_07, entropy/layer_03/mean, loss,\n"
        "       eval/loss; a missing value has no scalar; import reads the\n"
        "       file back\n"
        "\n"
        "Readers of plain CSV must skip lines that begin with #. jsonl\n"
        "contains all runs of all files; the other formats need one run, see\n"
        "--run. Events of runs are not exported. Attention maps (--series\n"
        "attention_map) are comments of csv, lines of jsonl and arrays of\n"
        "npz.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = export_main,
};

static format format_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (es_text_ends(path, ".jsonl"))
        return JSONL;
    if (es_text_ends(path, ".npz"))
        return NPZ;
    return strstr(slash ? slash : path, "tfevents") ? EVENTS : CSV;
}

static es_status check_arguments(arguments *given)
{
    es_status status;
    if (!given->n_inputs)
        return es_fail(ES_EUSAGE, "no run file to export: see entropy-scan "
                                  "export --help");
    if (given->format == OPEN)
        given->format = format_of(given->output);
    const char *first = given->inputs[0];
    if ((status = es_inputs_expand(&given->inputs, &given->n_inputs,
                                   &given->found, &given->n_unreadable)) < 0)
        return status;
    if (given->format != JSONL && given->n_inputs > 1)
        return es_fail(
            ES_EUSAGE,
            "%s: %zu run files, but format %s needs exactly one: name "
            "one file, or use --format=jsonl",
            first, given->n_inputs, formats[given->format]);
    given->content.names = (const char *const *)given->names;
    given->content.n_names = given->n_names;
    return es_output_check_text(given->output, given->inputs, given->n_inputs);
}

/* --- which run ------------------------------------------------------------*/

static bool is_run(const es_run_info *info, size_t number, const char *wanted)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", number);
    return strcmp(wanted, text) == 0 || strcmp(wanted, info->name) == 0 ||
           (info->uuid && strcmp(wanted, info->uuid) == 0);
}

/* Chooses the runs to export, whose indices are in [*first, *end). */
static es_status choose_runs(size_t *first, size_t *end, const arguments *given,
                             es_reader *reader)
{
    const char *path = es_reader_path(reader);
    size_t n = es_reader_n_runs(reader), n_found = 0;
    *first = 0;
    *end = n;
    if (!n)
        return es_fail(ES_ENOTFOUND, "%s: contains no run", path);
    if (!given->run && (n == 1 || given->format == JSONL))
        return ES_OK;
    for (size_t i = 0; given->run && i < n; i++) {
        es_run_info info;
        es_status status = es_reader_run(reader, i, &info);
        if (status != ES_OK)
            return status;
        if (!is_run(&info, i + 1, given->run))
            continue;
        n_found++;
        *first = i;
        *end = i + 1;
    }
    if (n_found == 1)
        return ES_OK;
    if (given->run && !n_found)
        return es_fail(
            ES_ENOTFOUND,
            "%s: no run '%s' (%zu runs): give a number, a name or a uuid", path,
            given->run, n);
    return es_fail(
        ES_EUSAGE,
        "%s: contains %zu runs%s: choose one with --run=1, --run=2, ...", path,
        given->run ? n_found : n, given->run ? " with this name" : "");
}

static es_status write_runs(FILE *stream, const arguments *given,
                            es_reader *reader)
{
    static es_status (*const writers[])(FILE *, es_reader *, size_t,
                                        const es_export_options *) = {
        es_export_csv, es_export_jsonl, es_export_npz, es_export_events};
    size_t first, end;
    es_status status = choose_runs(&first, &end, given, reader);
    for (size_t run = first; status == ES_OK && run < end; run++)
        status = writers[given->format](stream, reader, run, &given->content);
    return status;
}

/* If one of several files cannot be opened, reports it and exports the others.
   A later failure ends the export, because the output would contain an
   incomplete run. */
static es_status write_files(arguments *given)
{
    FILE *stream;
    es_output *output = NULL;
    size_t n_read = 0;
    es_status status = es_output_open(&output, &stream, given->output);
    for (size_t i = 0; status == ES_OK && i < given->n_inputs; i++) {
        es_reader *reader = NULL;
        status = es_reader_open(&reader, given->inputs[i]);
        if (status == ES_OK) {
            n_read++;
            status = write_runs(stream, given, reader);
        } else if (given->n_inputs > 1 && (i + 1 < given->n_inputs || n_read)) {
            es_print_note("%s", es_message());
            given->n_unreadable++;
            status = ES_OK;
        }
        es_damage_close(reader);
    }
    return es_output_finish(output, status);
}

static int export_main(int argc, char **argv)
{
    arguments given = {.output = "-", .format = OPEN};
    es_status status;
    if ((status = es_command_parse(&given, NULL, &es_export_command, argc,
                                   argv)) == ES_OK &&
        (status = check_arguments(&given)) == ES_OK)
        status = write_files(&given);
    int code = es_command_exit(status);
    if (!code && given.n_unreadable)
        code = ES_EXIT_SOME_FAILED;
    code = es_damage_exit(code, given.n_inputs);
    free(given.names);
    es_inputs_free(given.inputs, &given.found);
    return code;
}
