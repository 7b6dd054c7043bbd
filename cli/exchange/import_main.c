/* Implements the command line of entropy-scan import, and prints the report of
   an import. */
#include "analyzer/base/text.h"
#include "cli/exchange/import_write.h"
#include "cli/exchange/tags.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/summary.h"

#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    const char *input, *output;
    es_import_format format; /* value of --from */
    bool quiet;
    es_phase_choice phase;
    es_run_info given;
    es_import_options parser;
} arguments;

ES_OPTION_READER(read_format, es_import_format_parse)

static const es_option options[] = {
    {.name = NULL, ES_OPT_TEXT(arguments, input)},
    {"output", 'o', "RUN.db", "the run file to write",
     ES_OPT_TEXT(arguments, output)},
    {"from", 0, "FORMAT",
     "matrix, long, wide, log, history or tensorboard (detected from the "
     "content)",
     ES_OPT_CALL(arguments, format, read_format)},
    {"name", 0, "TEXT", "name of the run (FILE without its extension)",
     ES_OPT_TEXT(arguments, given.name)},
    {"arch", 0, "ARCH", "architecture, such as SM+LN+G",
     ES_OPT_TEXT(arguments, given.arch)},
    {"ctx", 0, "T", "context length; determines the ceiling ln(T!)/T",
     ES_OPT_INT(arguments, given.ctx, 1, INT32_MAX)},
    {"step", 0, "N", "training step of a matrix",
     ES_OPT_INT(arguments, parser.step, 0, ES_MAX_STEP), .value = "0"},
    {"tags", 0, "PATTERN",
     "pattern for names in a history, table or event file, such as "
     "'h{layer}/{head}'; takes precedence over the known names",
     ES_OPT_TEXT(arguments, parser.tags)},
    {"step-key", 0, "NAME",
     "member of a history, or column of a wide table, that has the steps",
     ES_OPT_TEXT(arguments, parser.step_key)},
    {"series", 0, "NAME",
     "name of the series of a matrix or log, or of a PATTERN without {series}",
     ES_OPT_TEXT(arguments, parser.series), .value = "entropy"},
    {"phase", 0, "PHASE", "train or eval",
     ES_OPT_CALL(arguments, phase, es_command_phase), .value = "train"},
    {"quiet", 'q', NULL, "print only errors", ES_OPT_FLAG(arguments, quiet)},
    ES_HELP_OPTION,
};

static int import_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan import table.csv -o imported.db --arch SM --ctx 32",
     "Make a run file from another program's measurements"},
    {NULL, NULL}};

const es_command es_import_command = {
    .name = "entropy-scan import",
    .synopsis = "FILE -o RUN.db [OPTION...]",
    .examples = examples,
    .summary = "make a run file of a CSV, a log, JSON lines or events",
    .details =
        "FILE (- is standard input) has one of these formats:\n"
        "  matrix  L text lines of H numbers: one step of one series, such as\n"
        "          a published heatmap\n"
        "  long    a CSV with the header step,layer,head,SERIES...; a row\n"
        "          with an empty head describes a layer, a row with empty\n"
        "          layer and head the run; an empty cell means no value, NA\n"
        "          a missing value; NaN, inf and -inf are allowed. SERIES\n"
        "          is a name, with the prefix eval: for evaluation. Rows\n"
        "          must be sorted by step. Import restores what export\n"
        "          writes bit for bit\n"
        "  wide    a CSV with a step column and a column for each number,\n"
        "          named like those of a history, as written by Lightning's\n"
        "          CSVLogger, W&B's charts and TensorBoard\n"
        "  log     any text with lines like 'Step 100 - Layer 3: 2.5',\n"
        "          which give the mean of a layer. A step that goes back is\n"
        "          a restart, and invalidates later steps\n"
        "  history  one JSON object per line, with a step and named numbers:\n"
        "          attn.3.head.7.x (W&B), x/layer_3/head_7, x/L3H7,\n"
        "          x[3][7], x/layer_3, also with _orig_mod. or module.\n"
        "          before layers; a list of lists holds layers of heads.\n"
        "          NaN and Infinity are spelled as in Python; null is\n"
        "          missing. The prefixes eval/, val/ and train/ give the\n"
        "          phase. Any other name is a number of the run. For\n"
        "          llm-internal-medicine, the entropy_avg, max and sink of\n"
        "          its qk_stats become entropy, max_logit and sink of a\n"
        "          layer; the prefixes swa_, full_, mla_, csa_ give the\n"
        "          layer's kind. A step that goes back is a restart. A JSON\n"
        "          document is accepted too: an array of objects, or the\n"
        "          trainer_state.json of transformers\n"
        "  tensorboard  an event file with scalars of the same names; to join\n"
        "          several files of a run: cat DIR/*tfevents* |\n"
        "          entropy-scan import - -o RUN.db\n"
        "FILE may also be the folder of an MLflow run,\n"
        "mlruns/EXPERIMENT/RUN.",
    .further_about = "Counters of steps, W&B, and damaged input",
    .further =
        "The steps of a history or a wide table come from one of the counters\n"
        "trainer/global_step, train/global_step, global_step, step and\n"
        "_step: the one whose rows have the most numbers of heads and\n"
        "layers (in a tie, the first in this list). If the file has more\n"
        "than one counter, a note names the chosen one; --step-key selects\n"
        "another, such as epoch. Rows without a step are skipped and\n"
        "counted. If unknown names look like entropies of heads, import\n"
        "prints the --tags option that reads them.\n"
        "\n"
        "To import the history of a W&B run (run wandb sync on a .wandb file\n"
        "first):\n"
        "  python3 -c 'import json, sys, wandb; [print(json.dumps(row))\n"
        "      for row in wandb.Api().run(sys.argv[1]).scan_history()]' \\\n"
        "      ENTITY/PROJECT/RUN | entropy-scan import - -o RUN.db\n"
        "\n"
        "Import skips and reports an incomplete last line or record,\n"
        "damaged records, and rows whose step is not a non-negative integer.\n"
        "Numbers are separated by commas, semicolons, tabs or blanks; if the\n"
        "separator is not a comma, numbers may have decimal commas (1,5).\n"
        "Messages name the line and the column: the number of the cell in a\n"
        "CSV, of the character in a log. RUN.db is written whole or not at\n"
        "all. An existing RUN.db is replaced only if it is a run file.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = import_main,
};

static es_status check_arguments(const arguments *given)
{
    if (!given->input)
        return es_fail(ES_EUSAGE, "no file to import: see entropy-scan import "
                                  "--help");
    if (!given->output)
        return es_fail(ES_EUSAGE, "no run file to write: add -o RUN.db");
    if (!*given->parser.series)
        return es_fail(ES_EUSAGE, "--series: the name must not be empty");
    es_status status =
        given->parser.tags ? es_tag_pattern_check(given->parser.tags) : ES_OK;
    return status < 0 ? status
                      : es_output_check(given->output,
                                        (char *const *)&given->input, 1);
}

/* Returns the file name without folder and extension: "heat" for
   "maps/heat.csv". The caller frees the string. */
static char *stem_of(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 &&
           path[n - 1] == '/') /* ignore slashes at the end of the path */
        n--;
    const char *slash = memrchr(path, '/', n);
    char *stem = strcmp(path, "-") == 0
                     ? strdup("standard input")
                     : strndup(slash ? slash + 1 : path,
                               n - (size_t)(slash ? slash + 1 - path : 0));
    char *dot = stem ? strrchr(stem, '.') : NULL;
    if (dot && dot != stem)
        *dot = 0;
    return stem;
}

static void report_run(const arguments *given, const es_imported *about)
{
    static const char *const formats[] = {"a matrix",      "a long CSV",
                                          "a log",         "a history",
                                          "an event file", "a wide table"};
    const es_import_report *report = &about->report;
    es_print_note("%s: %zu sample%s of %zu series, L = %lld, H = %lld, from %s",
                  given->output, report->n_samples,
                  report->n_samples == 1 ? "" : "s", about->n_series,
                  (long long)about->n_layer, (long long)about->n_head,
                  about->what ? about->what : formats[about->format]);
    if (*report->step_key)
        es_print_note("%s: the steps come from '%s', not from %s; to choose "
                      "another counter, use --step-key",
                      given->input, report->step_key, report->other_keys);
    if (*report->tags)
        es_print_note("%s: no name is a known entropy of heads; to read names "
                      "like '%s', use --tags '%s'",
                      given->input, report->tag, report->tags);
    if (report->n_above)
        es_print_note(
            "%s: entropies above ln(ctx) = %.4f: %zu (largest %.4f); is the "
            "context length wrong, or are they in bits instead of nats?",
            given->input, report->ceiling, report->n_above,
            (double)report->largest);
    if (report->n_ignored)
        es_print_note("%s: skipped lines without a log entry or a step: %zu",
                      given->input, report->n_ignored);
    if (report->n_names)
        es_print_note("%s: skipped names that are too long, or have a layer or "
                      "head above %d: %zu",
                      given->input, ES_MAX_LAYERS - 1, report->n_names);
    if (report->n_damaged)
        es_print_note("%s: skipped damaged records: %zu", given->input,
                      report->n_damaged);
    if (report->n_cut)
        es_print_note("%s: the incomplete last line or record was skipped",
                      given->input);
    if (report->n_replaced)
        es_print_note(
            "%s: values given again (the last one of each is used): %zu",
            given->input, report->n_replaced);
    if (report->n_again)
        es_print_note("%s: restarts (each discards the earlier samples of the "
                      "same and later steps): %zu",
                      given->input, report->n_again);
}

static int import_main(int argc, char **argv)
{
    bool is_given[ES_MAX_OPTIONS] = {false};
    arguments given = {.input = NULL};
    es_about nothing;
    es_imported about;
    es_about_init(&nothing);
    given.given = nothing.info;
    es_status status =
        es_command_parse(&given, is_given, &es_import_command, argc, argv);
    if (status == ES_OK)
        status = check_arguments(&given);
    if (status != ES_OK)
        return es_command_exit(status);
    given.parser.given = &given.given;
    if (given.phase == ES_PHASE_ONLY_EVAL)
        given.parser.phase = ES_PHASE_EVAL;
    char *stem = stem_of(given.input);
    given.parser.name = stem;
    bool has_format = es_options_has(&es_import_command, is_given, "from");
    status = es_import_file(&about, given.input, given.output,
                            has_format ? &given.format : NULL, &given.parser,
                            given.quiet);
    free(stem);
    if (status == ES_OK && !given.quiet)
        report_run(&given, &about);
    return es_command_exit(status);
}
