/* entropy-scan export */
#include "analyzer/base/text.h"
#include "cli/exchange/export.h"
#include "cli/output/output.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"

#include <string.h>

enum { OUTPUT, FORMAT, RUN, SERIES, PHASE, SALVAGE, HELP };
enum { MAX_NAMES = 64 };

static const es_option options[] = {
    [OUTPUT] = {"output", 'o', "FILE", "write to FILE (-: standard output)"},
    [FORMAT] = {"format", 0, "FORMAT",
                "csv or jsonl (by FILE's ending, else csv)"},
    [RUN] = {"run", 0, "RUN",
             "which run of a merged file: its number, name or uuid"},
    [SERIES] = {"series", 0, "NAME",
                "export this series alone; may be given several times"},
    [PHASE] = {"phase", 0, "PHASE", "train or eval alone"},
    [SALVAGE] = ES_SALVAGE_OPTION,
    [HELP] = ES_HELP_OPTION,
};

const es_command es_export_command = {
    .name = "entropy-scan export",
    .synopsis = "RUN.db [OPTION...]",
    .summary = "write a run as CSV or JSON lines",
    .details =
        "csv    what import reads back bit by bit: comments (# key: value)\n"
        "       about the run, then step,layer,head,SERIES... with one row\n"
        "       for the run, each layer and each head of a step; an empty\n"
        "       cell: no sample; NA: a missing value\n"
        "jsonl  one line about the run, then one for each sample; null is a\n"
        "       missing value, \"NaN\", \"inf\" and \"-inf\" are strings\n"
        "\n"
        "Readers of plain CSV are told to skip lines that begin with #. All\n"
        "runs of a merged file go into jsonl; csv takes one: see --run.\n"
        "Events are not exported.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

typedef enum format { CSV, JSONL } format;

typedef struct arguments {
    const char *input, *output, *run;
    const char *names[MAX_NAMES];
    bool has_format;
    format format;
    es_export_options what;
} arguments;

static es_status parse_format(arguments *to, const char *text)
{
    if (strcmp(text, "csv") != 0 && strcmp(text, "jsonl") != 0)
        return es_fail(ES_EUSAGE, "--format '%.40s': csv or jsonl", text);
    to->format = text[0] == 'c' ? CSV : JSONL;
    to->has_format = true;
    return ES_OK;
}

static es_status take_name(arguments *to, const char *name)
{
    if (to->what.n_names == MAX_NAMES)
        return es_fail(ES_EUSAGE, "--series: more than %d names", MAX_NAMES);
    to->names[to->what.n_names++] = name;
    return ES_OK;
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
    case FORMAT:
        return parse_format(to, value);
    case RUN:
        to->run = value;
        return ES_OK;
    case SERIES:
        return take_name(to, value);
    case PHASE:
        return es_command_phase(&to->what.phase, value);
    case SALVAGE:
        es_damage_accept();
        return ES_OK;
    default:
        return es_command_help(&es_export_command);
    }
}

static es_status check(arguments *given)
{
    if (!given->input)
        return es_fail(ES_EUSAGE, "no run file to export: see entropy-scan "
                                  "export --help");
    if (!given->has_format && es_text_ends(given->output, ".jsonl"))
        given->format = JSONL;
    given->what.names = given->names;
    return es_output_check_text(given->output, (char *const *)&given->input, 1);
}

/* --- which run ------------------------------------------------------------*/

static bool is_run(const es_run_info *info, size_t number, const char *asked)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", number);
    return strcmp(asked, text) == 0 || strcmp(asked, info->name) == 0 ||
           (info->uuid && strcmp(asked, info->uuid) == 0);
}

/* The runs from *first to before *end are to be exported. */
static es_status choose(const arguments *given, es_reader *reader,
                        size_t *first, size_t *end)
{
    size_t n = es_reader_n_runs(reader), n_found = 0;
    *first = 0;
    *end = n;
    if (!n)
        return es_fail(ES_ENOTFOUND, "%s: has no run", given->input);
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
        return es_fail(ES_ENOTFOUND,
                       "%s: no run '%s' among its %zu: give a number, a name "
                       "or a uuid",
                       given->input, given->run, n);
    return es_fail(ES_EUSAGE,
                   "%s: holds %zu runs%s: choose one with --run=1, "
                   "--run=2 ...",
                   given->input, given->run ? n_found : n,
                   given->run ? " of that name" : "");
}

static es_status write_runs(const arguments *given, es_reader *reader,
                            size_t first, size_t end)
{
    FILE *stream;
    es_output *output = NULL;
    es_status status = es_output_open(&output, &stream, given->output);
    for (size_t run = first; status == ES_OK && run < end; run++)
        status = given->format == CSV
                     ? es_export_csv(stream, reader, run, &given->what)
                     : es_export_jsonl(stream, reader, run, &given->what);
    return es_output_finish(output, status);
}

int es_export_main(int argc, char **argv)
{
    arguments given = {.output = "-"};
    es_reader *reader = NULL;
    size_t first, end;
    es_status status =
        es_options_parse(&es_export_command, argc, argv, take, &given);
    if (status == ES_OK)
        status = check(&given);
    if (status == ES_OK)
        status = es_reader_open(&reader, given.input);
    if (status == ES_OK)
        status = choose(&given, reader, &first, &end);
    if (status == ES_OK)
        status = write_runs(&given, reader, first, end);
    es_damage_close(reader);
    return es_damage_exit(es_command_exit(status), 1);
}
