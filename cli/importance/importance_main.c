/* Implements the command line of entropy-scan importance, which outputs the
 * settings that are associated with the outcomes of runs, as a table, as JSON
 * or as a bar chart. */
#include "cli/importance/importance.h"

#include "analyzer/base/checked.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/tree.h"
#include "cli/terminal/figure.h"

#include <string.h>
#include <unistd.h>

typedef struct arguments {
    char **inputs; /* the n_inputs run files and folders */
    size_t n_inputs;
    bool json;
    int figure; /* 1: --figure importance */
    const char *output;
    es_format format;
    es_figure_options look;
    es_rules_file rules;
    bool given[ES_MAX_OPTIONS];
} arguments;

ES_OPTION_READER(read_size, es_figures_set_size)
ES_OPTION_READER(read_theme, es_theme_parse)
ES_OPTION_READER(read_format, es_format_parse)

static const char *const figures[] = {"none", "importance", NULL};

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, inputs, n_inputs)},
    {"json", 0, NULL, "print JSON instead of the table",
     ES_OPT_FLAG(arguments, json)},
    {"figure", 0, "NAME",
     "draw a figure of the strengths, with bars for each "
     "setting",
     ES_OPT_CHOICE(arguments, figure, figures), .value = "none",
     .expects = "importance"},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(arguments, rules, es_command_rules)},
    ES_RECURSIVE_OPTION,
    {"output", 'o', "FILE",
     "file for the table, JSON or figure (-: standard output)",
     ES_OPT_TEXT(arguments, output), .value = "-"},
    {"format", 0, "FORMAT", "png, svg, pdf or txt (by the extension of FILE)",
     ES_OPT_CALL(arguments, format, read_format)},
    {"size", 0, "WxH",
     "size in pixels (PNG) or points (SVG, PDF), or with a unit, such as "
     "89x60mm or 3.25x2.5in",
     ES_OPT_CALL(arguments, look, read_size)},
    {"for", 0, "MEDIUM",
     "width of the picture: column, page, slide, icml (one column), neurips "
     "(text width) or screen (default), which is as wide as the content needs",
     ES_OPT_CHOICE(arguments, look.medium, es_media),
     .expects = ES_MEDIA_EXPECTED},
    {"title", 0, "TEXT", "title above the picture",
     ES_OPT_TEXT(arguments, look.title)},
    {"theme", 0, "NAME", "light or dark (light; for txt: dark)",
     ES_OPT_CALL(arguments, look.theme, read_theme)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
};

static int importance_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan importance .", "Show which settings of a sweep matter"},
    {NULL, NULL}};

const es_command es_importance_command = {
    .name = "entropy-scan importance",
    .synopsis = "DIR|RUN.db... [OPTION...]",
    .examples = examples,
    .summary = "which settings are associated with how runs ended",
    .details =
        "For each setting in which the runs differ, except the seed and\n"
        "paths: how strongly it is associated with the final perplexity (or\n"
        "loss), the shares of overloaded and collapsed heads, and the first\n"
        "NaN. For a number this is Spearman's rank correlation, for a\n"
        "category eta squared of ranks; p is computed by permuting the runs\n"
        "and adjusted for all settings and outcomes by Holm.\n"
        "\n"
        "An association need not be cause and effect: settings that were\n"
        "changed together cannot be distinguished.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = importance_main,
};

/* --- the command line -----------------------------------------------------*/

static bool has_option(const arguments *given, const char *name)
{
    return es_options_has(&es_importance_command, given->given, name);
}

static es_status check_arguments(arguments *given)
{
    static const char *const of_figure[] = {"format", "size", "for", "title",
                                            "theme"};
    const es_format format = given->format;
    es_figures_fit_terminal(&given->look, has_option(given, "theme"));
    if (!es_stats_gsl())
        return es_fail(ES_EUSAGE, "importance: this program is built without "
                                  "GSL: build it with libgsl-dev");
    if (given->n_inputs == 0)
        return es_fail(ES_EUSAGE, "importance needs a folder of run files, or "
                                  "run files: entropy-scan importance DIR");
    if (given->figure && given->json)
        return es_fail(ES_EUSAGE, "--figure and --json: choose one");
    for (size_t i = 0; i < sizeof of_figure / sizeof *of_figure; i++)
        if (!given->figure && has_option(given, of_figure[i]))
            return es_fail(ES_EUSAGE, "--%s: needs --figure", of_figure[i]);
    return given->figure
               ? es_figure_format(&given->format, &given->look, given->output,
                                  has_option(given, "format") ? &format : NULL)
               : ES_OK;
}

/* --- runs -----------------------------------------------------------------*/

static es_status add_run(es_importance *to, es_reader *reader, size_t run,
                         const es_summary_options *wanted)
{
    es_run_summary *summary = NULL;
    es_status status;
    if ((status = es_grow(&to->runs, to->n_runs + 1, sizeof *to->runs,
                          "runs")) < 0 ||
        (status = es_summary_load(&summary, reader, run, wanted)) < 0)
        return status;
    to->runs[to->n_runs++] = summary;
    return es_run_settings_read(summary, reader, run);
}

/* Adds the runs of a file. Reports, counts and skips runs that cannot be
 * read. */
static es_status add_file(es_importance *to, size_t *n_failed,
                          const char *input, const es_summary_options *wanted)
{
    es_reader *reader = NULL;
    es_status status = es_reader_open(&reader, input);
    const size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    if (status == ES_OK && n == 0)
        status = es_fail(ES_ENOTFOUND, "%s: no run in the file", input);
    for (size_t run = 0; run <= n && status != ES_ENOMEM; run++) {
        if (status < 0) {
            es_print_failure();
            ++*n_failed;
            status = ES_OK;
        }
        if (run < n)
            status = add_run(to, reader, run, wanted);
    }
    es_damage_close(reader);
    return status;
}

/* --- output ---------------------------------------------------------------*/

static es_status write_figure(FILE *stream, const es_importance *importance,
                              const arguments *given)
{
    static const es_picture_note note = {"program", "entropy-scan " ES_VERSION};
    const es_figure_style style = es_figures_style(&given->look, given->format);
    es_picture *picture = NULL;
    es_status status = es_importance_draw(&picture, importance, &style);
    if (status == ES_OK)
        status = es_figure_write(picture, stream, given->format, &given->look,
                                 &note, 1);
    es_picture_free(picture);
    return status;
}

static es_status draw_into(const char *path, const es_importance *importance)
{
    const arguments given = {.format = ES_FORMAT_PNG};
    FILE *stream;
    es_output *output = NULL;
    es_status status = es_output_open(&output, &stream, path);
    if (status < 0)
        return status;
    status = es_output_finish(output, write_figure(stream, importance, &given));
    if (status == ES_OK)
        es_print_note("%s written", path);
    return status == ES_ENOTFOUND ? ES_OK : status;
}

es_status es_importance_of_files(char *const *paths, size_t n,
                                 const es_rules_file *rules, FILE *stream,
                                 const char *picture)
{
    es_importance importance = {.n_runs = 0};
    es_summary_options wanted;
    size_t n_failed = 0;
    es_status status = ES_OK;
    es_summary_options_default(&wanted);
    wanted.rules = rules;
    if (!es_stats_gsl())
        return ES_OK;
    for (size_t i = 0; status == ES_OK && i < n; i++)
        status = add_file(&importance, &n_failed, paths[i], &wanted);
    if (status == ES_OK)
        status = es_importance_measure(&importance);
    if (status == ES_OK) {
        fputs("\n"
              "which settings are associated with how the runs ended\n",
              stream);
        status = es_importance_print(&importance, stream);
    } else if (status == ES_ENOTFOUND) {
        n = 0; /* no association could be measured, so draw nothing */
        status = ES_OK;
    }
    if (status == ES_OK && n > 0)
        status = draw_into(picture, &importance);
    es_importance_free(&importance);
    return status;
}

static es_status write_output(const es_importance *importance,
                              const arguments *given)
{
    FILE *stream;
    es_output *output = NULL;
    es_status status;
    if (given->figure && strcmp(given->output, "-") == 0 &&
        isatty(STDOUT_FILENO) && given->format != ES_FORMAT_TEXT)
        return es_fail(ES_EUSAGE, "standard output is a terminal: a picture "
                                  "needs a file or a pipe (-o FILE)");
    if ((status = es_output_check_text(given->output, given->inputs,
                                       given->n_inputs)) < 0 ||
        (status = es_output_open(&output, &stream, given->output)) < 0)
        return status;
    if (given->figure)
        status = write_figure(stream, importance, given);
    else if (given->json)
        es_importance_print_json(importance, stream);
    else
        status = es_importance_print(importance, stream);
    return es_output_finish(output, status);
}

static int importance_main(int argc, char **argv)
{
    arguments given = {.output = NULL};
    es_importance importance = {.n_runs = 0};
    es_summary_options wanted;
    es_paths found = {.n = 0};
    size_t n_failed = 0;
    es_status status = es_command_parse(&given, given.given,
                                        &es_importance_command, argc, argv);
    if (status == ES_OK)
        status = check_arguments(&given);
    if (status == ES_OK)
        status =
            es_inputs_expand(&given.inputs, &given.n_inputs, &found, &n_failed);
    es_summary_options_default(&wanted);
    wanted.rules = has_option(&given, "rules") ? &given.rules : NULL;
    for (size_t i = 0; status == ES_OK && i < given.n_inputs; i++)
        status = add_file(&importance, &n_failed, given.inputs[i], &wanted);
    if (status == ES_OK)
        status = es_importance_measure(&importance);
    if (status == ES_OK)
        status = write_output(&importance, &given);
    int code = es_command_exit(status);
    if (status == ES_OK && n_failed)
        code = 4;
    code = es_damage_exit(code, given.n_inputs);
    es_importance_free(&importance);
    es_rules_file_free(&given.rules);
    es_inputs_free(given.inputs, &found);
    return code;
}
