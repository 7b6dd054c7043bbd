/* entropy-scan report: parses the command line, and collects the summaries and
   series of the runs for the page. */
#include "analyzer/base/checked.h"
#include "analyzer/heads/heads.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/program/command.h"
#include "cli/report/report.h"
#include "cli/runs/damage.h"
#include "cli/runs/settings.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Adds the names in a comma-separated list to the names of the series on the
 * page. Empty names are ignored. */
static es_status add_names(es_report_options *to, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n && to->n_names == ES_REPORT_NAMES)
            return es_fail(ES_EUSAGE, "--series: more than %d names",
                           ES_REPORT_NAMES);
        if (n && !(to->names[to->n_names++] = strndup(list, n)))
            return es_fail(ES_ENOMEM, "out of memory for a name");
        list += n + (list[n] == ',');
    }
    return ES_OK;
}

ES_OPTION_READER(read_names, add_names)
ES_OPTION_READER(read_max, es_max_parse)

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(es_report_options, inputs, n_inputs)},
    {"output", 'o', "FILE", "write the page to FILE (-: standard output)",
     ES_OPT_TEXT(es_report_options, output)},
    ES_RECURSIVE_OPTION,
    {"series", 0, "NAME",
     "series to show, separated by commas or in several options; the table "
     "shows the first (default: entropy, plus max_logit and loss if recorded)",
     ES_OPT_ALL(read_names)},
    {"phase", 0, "PHASE",
     "phase to show: train or eval (train, or eval in runs without train)",
     ES_OPT_CALL(es_report_options, summary.phase, es_command_phase)},
    {"max", 0, "POLICY",
     "upper end of the bands and of the colour scale: observed (the default: "
     "largest value of all runs), run (largest value of each run), ceiling, "
     "logT or a number",
     ES_OPT_CALL(es_report_options, summary.max, read_max)},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(es_report_options, rules, es_command_rules)},
    {"title", 0, "TEXT", "title of the page",
     ES_OPT_TEXT(es_report_options, title)},
    {"quiet", 'q', NULL, "print errors only",
     ES_OPT_FLAG(es_report_options, quiet)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
};

static int report_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan report sm.db sm-ln-g.db -o report.html",
     "Write a page with two runs"},
    {NULL, NULL}};

const es_command es_report_command = {
    .name = "entropy-scan report",
    .synopsis = "RUN.db... -o FILE.html [OPTION...]",
    .examples = examples,
    .summary = "write runs as one page for a browser",
    .details =
        "The page contains all of its data and requests nothing from the\n"
        "network. It shows a table, flags, heatmaps with a slider over the\n"
        "steps, curves, the loss, the differences between configurations\n"
        "and every figure of entropy-scan draw, and offers the values as\n"
        "CSV. With many runs, the table can be sorted and filtered, and\n"
        "parallel coordinates show settings, perplexity and bands; a click\n"
        "opens a run, and two runs can be compared head by head.\n"
        "\n"
        "If a page would exceed 2 MB, or 4 MB with 500 runs, samples are\n"
        "left out, and the page says so. The other samples are unchanged: of\n"
        "each group of samples, the page keeps the first one and the ones\n"
        "furthest below and above it, so that a dip or a NaN at a single step\n"
        "is not lost.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = report_main,
};

static es_status parse(es_report_options *given, int argc, char **argv)
{
    bool is_given[ES_MAX_OPTIONS] = {false};
    es_status status;
    es_summary_options_default(&given->summary);
    es_rules_file_default(&given->rules);
    if ((status = es_command_parse(given, is_given, &es_report_command, argc,
                                   argv)) != ES_OK)
        return status;
    if (!given->n_inputs)
        return es_fail(ES_EUSAGE, "no run file given: see entropy-scan "
                                  "report --help");
    if ((status = es_inputs_expand(&given->inputs, &given->n_inputs,
                                   &given->found, &given->n_unreadable)) !=
        ES_OK)
        return status;
    if (es_options_has(&es_report_command, is_given, "rules"))
        given->summary.rules = &given->rules;
    if (!given->output)
        return es_fail(ES_EUSAGE, "no output given: use -o report.html");
    if (strcmp(given->output, "-") == 0 && isatty(STDOUT_FILENO))
        return es_fail(ES_EUSAGE, "standard output is a terminal: a page needs "
                                  "a file or a pipe");
    given->named = given->n_names > 0;
    if ((status = es_output_check_text(given->output, given->inputs,
                                       given->n_inputs)) != ES_OK ||
        /* without --series the page shows these three series, but a run needs
         * only the first of them */
        (!given->n_names &&
         ((status = add_names(
               given, es_head_statistics[ES_HEAD_ENTROPY].name)) != ES_OK ||
          (status = add_names(
               given, es_head_statistics[ES_HEAD_MAX_LOGIT].name)) != ES_OK ||
          (status = add_names(given, "loss")) != ES_OK)))
        return status;
    given->summary.series = given->names[0];
    return es_summary_options_check(&given->summary);
}

/* --- the runs -------------------------------------------------------------*/

static void free_run(es_report_run *run)
{
    es_summary_free(run->summary);
    for (size_t i = 0; i < run->n_series; i++) {
        free(run->series[i].name);
        free(run->series[i].unit);
    }
    free(run->series);
}

static es_status add_series(es_report_run *to, es_reader *reader,
                            const es_series *series)
{
    int64_t n_samples;
    es_status status = es_reader_count(reader, series, &n_samples);
    if (status < 0 || n_samples == 0 ||
        (status = es_grow(&to->series, to->n_series + 1, sizeof *to->series,
                          "a series")) < 0)
        return status;
    const size_t n_rows =
        series->shape == ES_SHAPE_RUN ? 1 : (size_t)to->summary->n_layer;
    es_report_series *s = &to->series[to->n_series++];
    *s = (es_report_series){.series = *series,
                            .n_rows = n_rows,
                            .n_columns = series->n_values / n_rows,
                            .n_samples = (size_t)n_samples};
    if ((status = es_copy_text(&s->name, series->name)) < 0)
        return status;
    return es_copy_text(&s->unit, series->unit);
}

/* Adds a series of a run to the page. A series with one value per head or layer
 * is added in the phase of the summary, or in the other phase if it exists only
 * there. A series with one value per step, such as the loss, is added in both
 * phases. */
static es_status add_name(es_report_run *to, size_t *n_found, es_reader *reader,
                          size_t run, const char *name, es_phase_choice choice)
{
    es_phase first = to->summary->phase;
    *n_found = 0;
    for (int k = 0; k < (choice == ES_PHASE_ANY ? 2 : 1); k++) {
        es_series series;
        es_phase phase = k == 0                    ? first
                         : first == ES_PHASE_TRAIN ? ES_PHASE_EVAL
                                                   : ES_PHASE_TRAIN;
        es_status status = es_reader_find(reader, run, name, phase, &series);
        if (status == ES_ENOTFOUND ||
            (status == ES_OK && series.last_step == ES_UNKNOWN))
            continue;
        if (status < 0)
            return status;
        if (*n_found && series.shape != ES_SHAPE_RUN)
            break;
        if ((status = add_series(to, reader, &series)) < 0)
            return status;
        ++*n_found;
    }
    return ES_OK;
}

/* Reads everything about a run except the samples of its series. Adds to
 * *n_absent the number of series in --series that the run lacks; each missing
 * series is also reported on standard error. */
static es_status read_run(es_report_run *to, size_t *n_absent,
                          es_reader *reader, size_t run,
                          const es_report_options *given)
{
    es_status status;
    if ((status = es_summary_load(&to->summary, reader, run, &given->summary)) <
            0 ||
        (status = es_run_settings_read(to->summary, reader, run)) < 0)
        return status;
    for (size_t i = 0; i < given->n_names; i++) {
        size_t n_found = 0;
        es_series series;
        if ((status = add_name(to, &n_found, reader, run, given->names[i],
                               given->summary.phase)) < 0)
            return status;
        if (n_found || !given->named)
            continue;
        ++*n_absent;
        /* es_reader_find fails, and its message lists the series of the run */
        if (es_reader_find(reader, run, given->names[i], to->summary->phase,
                           &series) != ES_OK)
            es_print_note("%s", es_message());
    }
    return ES_OK;
}

/* Adds a run to the report, or leaves it out if reading it fails. */
static es_status add_run(es_report_data *report, size_t *n_absent,
                         es_reader *reader, size_t run,
                         const es_report_options *given)
{
    es_report_run one = {0};
    es_status status;
    if ((status = es_grow(&report->runs, report->n_runs + 1,
                          sizeof *report->runs, "runs")) < 0 ||
        (status = read_run(&one, n_absent, reader, run, given)) < 0) {
        free_run(&one);
        return status;
    }
    es_summary_note_config(one.summary);
    report->observed = es_peak_of(report->observed, one.summary->peak);
    report->runs[report->n_runs++] = one;
    return ES_OK;
}

/* Adds all runs of a file to the report. Runs that cannot be read are reported
 * and counted in *n_failed. */
static void add_file(es_report_data *report, size_t *n_failed,
                     const es_report_options *given, const char *path)
{
    es_reader *reader = NULL;
    es_status status = es_reader_open(&reader, path);
    size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    if (status == ES_OK && !n)
        status = es_fail(ES_ENOTFOUND, "%s: contains no runs", path);
    for (size_t run = 0; run < (n ? n : 1); run++) {
        if (n)
            status = add_run(report, n_failed, reader, run, given);
        if (status != ES_OK) {
            es_print_note("%s", es_message());
            ++*n_failed;
        }
    }
    es_damage_close(reader);
}

static uint64_t count_samples(const es_report_data *report)
{
    uint64_t n = 0;
    for (size_t i = 0; i < report->n_runs; i++)
        for (size_t k = 0; k < report->runs[i].n_series; k++)
            n += report->runs[i].series[k].n_samples;
    return n;
}

static es_status write_page(es_report_data *report,
                            const es_report_options *given)
{
    FILE *stream;
    es_output *output = NULL;
    es_status status = es_output_open(&output, &stream, given->output);
    if (status != ES_OK)
        return status;
    es_progress_line_begin(given->quiet, "writing", given->output, "samples",
                           count_samples(report));
    status = es_report_write(stream, report, given);
    es_progress_line_end();
    status = es_output_finish(output, status);
    if (status == ES_OK && !given->quiet && strcmp(given->output, "-") != 0)
        es_print_note("%s written", given->output);
    return status;
}

static int make_report(const es_report_options *given)
{
    es_report_data report = {.observed = NAN};
    size_t n_failed = given->n_unreadable;
    int code;
    es_progress_line_begin(given->quiet, "reading", NULL, "files",
                           given->n_inputs);
    for (size_t i = 0; i < given->n_inputs; i++) {
        es_progress_line_set(i);
        add_file(&report, &n_failed, given, given->inputs[i]);
    }
    es_progress_line_end();
    if (report.n_runs) {
        code = es_command_exit(write_page(&report, given));
        if (!code && n_failed)
            code = ES_EXIT_SOME_FAILED;
    } else {
        code = es_exit_code(ES_EIO); /* already reported */
    }
    for (size_t i = 0; i < report.n_runs; i++)
        free_run(&report.runs[i]);
    free(report.runs);
    return es_damage_exit(code, given->n_inputs);
}

static int report_main(int argc, char **argv)
{
    es_report_options given = {0};
    es_status status = parse(&given, argc, argv);
    int code = status == ES_OK ? make_report(&given) : es_command_exit(status);
    for (size_t i = 0; i < given.n_names; i++)
        free(given.names[i]);
    es_inputs_free(given.inputs, &given.found);
    es_rules_file_free(&given.rules);
    return code;
}
