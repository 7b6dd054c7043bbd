/* entropy-scan import: the command line, and the report of an import. */
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
     "matrix, long, wide, log, history or tensorboard, if the content does not "
     "show it",
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
        "  matrix  L lines of H numbers: one step of one series, such as a\n"
        "          published heatmap\n"
        "  long    a CSV with the header step,layer,head,SERIES...; head is\n"
        "          empty in rows of a layer, layer and head in rows of the\n"
        "          run; an empty cell is no value, NA a missing one; NaN,\n"
        "          inf, -inf; SERIES is a name, with the prefix eval: in\n"
        "          that phase; rows must be sorted by step; reads back what\n"
        "          export writes bit for bit, including its comments\n"
        "  wide    a CSV with a column for each number, named like those of\n"
        "          a history, and one for the step, as written by\n"
        "          Lightning's CSVLogger, W&B's charts and TensorBoard\n"
        "  log     any text with lines like 'Step 100 - Layer 3: 2.5': one\n"
        "          mean per layer; a step that goes back is a restart, and\n"
        "          invalidates the later steps\n"
        "  history  a JSON object per line, with a step and named numbers:\n"
        "          attn.3.head.7.x (W&B), x/layer_3/head_7, x/L3H7,\n"
        "          x[3][7], x/layer_3, also with _orig_mod. or module.\n"
        "          before layers; a list of lists is read as heads; NaN and\n"
        "          Infinity as in Python; null is missing; the prefixes\n"
        "          eval/, val/ and train/ give the phase; any other name is\n"
        "          a number of the run. Names of llm-internal-medicine are\n"
        "          known: the entropy_avg, max and sink of its qk_stats\n"
        "          become entropy, max_logit and sink of a layer; the\n"
        "          prefixes swa_, full_, mla_, csa_ give the layer's kind.\n"
        "          A step that goes back is a restart. A JSON document is\n"
        "          read as well: an array of objects, or the\n"
        "          trainer_state.json of transformers\n"
        "  tensorboard  an event file: scalars with the same names; to join\n"
        "          several files of a run: cat DIR/*tfevents* |\n"
        "          entropy-scan import - -o RUN.db\n"
        "FILE may also be the folder of an MLflow run,\n"
        "mlruns/EXPERIMENT/RUN.\n"
        "\n"
        "The steps of a history or a wide table come from one counter: of\n"
        "trainer/global_step, train/global_step, global_step, step and\n"
        "_step the one with the most numbers of heads and layers, or the\n"
        "first of these if there are several. If the file has more than one\n"
        "counter, a line names the one chosen; --step-key chooses another,\n"
        "such as epoch. Rows without a step are skipped and counted. Names\n"
        "that look like entropies of heads but are unknown are printed with\n"
        "the --tags that reads them.\n"
        "\n"
        "The history of a W&B run, also of a .wandb file after wandb sync:\n"
        "  python3 -c 'import json, sys, wandb; [print(json.dumps(row))\n"
        "      for row in wandb.Api().run(sys.argv[1]).scan_history()]' \\\n"
        "      ENTITY/PROJECT/RUN | entropy-scan import - -o RUN.db\n"
        "\n"
        "An incomplete last line or record is skipped and reported, as are\n"
        "damaged records, and rows whose step is not a whole number from 0\n"
        "on. Numbers are separated by commas, semicolons, tabs or blanks;\n"
        "if commas do not separate, they may be decimal commas (1,5).\n"
        "Messages name the line and the column: the cell of a CSV, the\n"
        "character of a log. RUN.db is written whole or not at all; it\n"
        "replaces only a run file.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = import_main,
};

static es_status check(const arguments *given)
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

/* Returns "heat" for "maps/heat.csv"; freed by the caller. */
static char *stem_of(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') /* a folder ends with a slash */
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
        es_print_note("%s: steps are taken from '%s', not from %s: choose with "
                      "--step-key",
                      given->input, report->step_key, report->other_keys);
    if (*report->tags)
        es_print_note("%s: no entropies of heads among its names: for names "
                      "like '%s' use --tags '%s'",
                      given->input, report->tag, report->tags);
    if (report->n_above)
        es_print_note("%s: entropies above ln(ctx) = %.4f: %zu, the largest is "
                      "%.4f: wrong context length, or bits instead of nats?",
                      given->input, report->ceiling, report->n_above,
                      (double)report->largest);
    if (report->n_ignored)
        es_print_note("%s: other lines, skipped: %zu", given->input,
                      report->n_ignored);
    if (report->n_names)
        es_print_note("%s: names that are too long, or with a layer or head "
                      "above %d, skipped: %zu",
                      given->input, ES_MAX_LAYERS - 1, report->n_names);
    if (report->n_damaged)
        es_print_note("%s: damaged records, skipped: %zu", given->input,
                      report->n_damaged);
    if (report->n_cut)
        es_print_note("%s: ends within a line or record, which is skipped",
                      given->input);
    if (report->n_replaced)
        es_print_note(
            "%s: values given more than once, of which the last counts: %zu",
            given->input, report->n_replaced);
    if (report->n_again)
        es_print_note("%s: restarts, which invalidate later steps: %zu",
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
        status = check(&given);
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
