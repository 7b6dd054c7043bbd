/* entropy-scan import */
#include "analyzer/base/text.h"
#include "cli/exchange/import_write.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"

#include <stdlib.h>
#include <string.h>

enum {
    OUTPUT,
    FROM,
    NAME,
    ARCH,
    CTX,
    STEP,
    SERIES,
    PHASE,
    QUIET,
    HELP,
};

static const es_option options[] = {
    [OUTPUT] = {"output", 'o', "RUN.db", "the run file to write"},
    [FROM] = {"from", 0, "FORMAT",
              "matrix, long or log, where the content does not tell"},
    [NAME] = {"name", 0, "TEXT", "name of the run (FILE without its ending)"},
    [ARCH] = {"arch", 0, "ARCH", "architecture, such as SM+LN+G"},
    [CTX] = {"ctx", 0, "T", "context length: gives the ceiling ln(T!)/T"},
    [STEP] = {"step", 0, "N", "training step of a matrix (0)"},
    [SERIES] = {"series", 0, "NAME", "what a matrix or a log holds (entropy)"},
    [PHASE] = {"phase", 0, "PHASE", "train or eval (train)"},
    [QUIET] = {"quiet", 'q', NULL, "print errors alone"},
    [HELP] = ES_HELP_OPTION,
};

const es_command es_import_command = {
    .name = "entropy-scan import",
    .synopsis = "FILE -o RUN.db [OPTION...]",
    .summary = "make a run file of a CSV or a log",
    .details =
        "FILE (- is standard input) is one of\n"
        "  matrix  L lines of H numbers: one step of one series, such as a\n"
        "          published heatmap\n"
        "  long    a CSV with the header step,layer,head,SERIES...: head is\n"
        "          empty in rows of a layer, layer too in rows of the run; an\n"
        "          empty cell is no value, NA a missing one; NaN, inf, -inf;\n"
        "          SERIES is a name, with eval: before it in that phase; rows\n"
        "          are sorted by step; what export writes comes back bit by\n"
        "          bit, comments (# key: value) included\n"
        "  log     any text with lines like 'Step 100 - Layer 3: 2.5': one\n"
        "          mean a layer; a step that goes back is a restart, and\n"
        "          voids what came after it\n"
        "\n"
        "Numbers are separated by commas, semicolons, tabs or blanks.\n"
        "Messages name line and column: the cell of a CSV, the character of a\n"
        "log. RUN.db appears whole or not at all; it replaces a run file of\n"
        "that name, and nothing else.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

typedef struct arguments {
    const char *input, *output;
    es_import_format format;
    bool has_format, quiet;
    es_phase_choice phase;
    es_run_info given;
    es_import_options parser;
} arguments;

static es_status parse_whole(int64_t *out, int option, const char *text,
                             int64_t low, int64_t high)
{
    if (es_int_parse(out, text, low, high) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--%s: %s", options[option].name, es_message());
}

static es_status take(void *user, int option, const char *value)
{
    arguments *to = user;
    switch (option) {
    case ES_OPTION_ARGUMENT:
        return es_command_one_file(&to->input, value);
    case OUTPUT:
        to->output = value;
        return ES_OK;
    case FROM:
        to->has_format = true;
        return es_import_format_parse(&to->format, value);
    case NAME:
        to->given.name = value;
        return ES_OK;
    case ARCH:
        to->given.arch = value;
        return ES_OK;
    case CTX:
        return parse_whole(&to->given.ctx, option, value, 1, INT32_MAX);
    case STEP:
        return parse_whole(&to->parser.step, option, value, 0, ES_MAX_STEP);
    case SERIES:
        to->parser.series = value;
        return ES_OK;
    case PHASE:
        return es_command_phase(&to->phase, value);
    case QUIET:
        to->quiet = true;
        return ES_OK;
    default:
        return es_command_help(&es_import_command);
    }
}

static es_status check(const arguments *given)
{
    if (!given->input)
        return es_fail(ES_EUSAGE, "no file to import: see entropy-scan import "
                                  "--help");
    if (!given->output)
        return es_fail(ES_EUSAGE, "no run file to write: -o RUN.db");
    if (!*given->parser.series)
        return es_fail(ES_EUSAGE, "--series: a name is needed");
    return es_output_check(given->output, (char *const *)&given->input, 1);
}

/* "heat" of "maps/heat.csv". To be freed. */
static char *stem_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (strcmp(path, "-") == 0)
        path = "standard input";
    char *stem = strdup(slash ? slash + 1 : path);
    char *dot = stem ? strrchr(stem, '.') : NULL;
    if (dot && dot != stem)
        *dot = 0;
    return stem;
}

static void tell(const arguments *given, const es_imported *about)
{
    static const char *const formats[] = {"matrix", "long CSV", "log"};
    const es_import_report *report = &about->report;
    es_print_note("%s: %zu sample%s of %zu series, L = %lld, H = %lld, from a "
                  "%s",
                  given->output, report->n_samples,
                  report->n_samples == 1 ? "" : "s", about->n_series,
                  (long long)about->n_layer, (long long)about->n_head,
                  formats[about->format]);
    if (report->n_above)
        es_print_note("%s: entropies above ln(ctx) = %.4f: %zu, the largest "
                      "%.4f: another context, or bits in place of nats?",
                      given->input, report->ceiling, report->n_above,
                      (double)report->largest);
    if (report->n_ignored)
        es_print_note("%s: other lines, passed over: %zu", given->input,
                      report->n_ignored);
    if (report->n_replaced)
        es_print_note("%s: values given again, the last one counts: %zu",
                      given->input, report->n_replaced);
    if (report->n_again)
        es_print_note("%s: restarts, each voids what came after it: %zu",
                      given->input, report->n_again);
}

int es_import_main(int argc, char **argv)
{
    arguments given = {.parser = {.series = "entropy"}};
    es_about nothing;
    es_imported about;
    es_about_init(&nothing);
    given.given = nothing.info;
    es_status status =
        es_options_parse(&es_import_command, argc, argv, take, &given);
    if (status == ES_OK)
        status = check(&given);
    if (status != ES_OK)
        return es_command_exit(status);
    given.parser.given = &given.given;
    if (given.phase == ES_PHASE_ONLY_EVAL)
        given.parser.phase = ES_PHASE_EVAL;
    char *stem = stem_of(given.input);
    given.parser.name = stem;
    status =
        es_import_file(&about, given.input, given.output,
                       given.has_format ? &given.format : NULL, &given.parser);
    free(stem);
    if (status == ES_OK && !given.quiet)
        tell(&given, &about);
    return es_command_exit(status);
}
