/*
 * The options of a scan, entropy-scan RUN.db..., and of the verb summarise, and
 * their command line; scan_judge.c says what they mean together.
 */
#include "cli/scan/scan.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/program/command.h"
#include "cli/scan/parts.h"

#include <string.h>

/* --- readers --------------------------------------------------------------*/

static es_status set_step(int64_t *step, const char *value)
{
    if (strcmp(value, "first") == 0)
        *step = ES_STEP_FIRST;
    else if (strcmp(value, "last") == 0)
        *step = ES_STEP_LAST;
    else if (es_int_parse(step, value, 0, ES_MAX_STEP) != ES_OK)
        return es_fail(ES_EUSAGE, "--step '%.40s': a number, first or last",
                       value);
    return ES_OK;
}

static es_status set_heads(es_figure_options *figures, const char *value)
{
    figures->by_head = true;
    if (es_int_parse(&figures->layer, value, 0, ES_MAX_LAYERS - 1) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--heads '%.40s': the number of a layer, from 0",
                   value);
}

/* --heatmap[=FILE]: the row says which figure. */
static es_status read_picture(void *field, const es_option *option,
                              const char *value, const char *where)
{
    (void)where;
    es_figures_want_one(field, (es_figure_kind)option->least, value);
    return ES_OK;
}

static es_status want_all(es_figure_options *figures, const char *folder)
{
    es_figures_want_all(figures, folder);
    return ES_OK;
}

ES_OPTION_READER(read_step, set_step)
ES_OPTION_READER(read_heads, set_heads)
ES_OPTION_READER(read_spikes, es_figures_set_spikes)
ES_OPTION_READER(read_all, want_all)
ES_OPTION_READER(read_figures, es_figures_want)
ES_OPTION_READER(read_size, es_figures_set_size)
ES_OPTION_READER(read_max, es_max_parse)
ES_OPTION_READER(read_format, es_format_parse)
ES_OPTION_READER(read_colormap, es_colormap_parse)
ES_OPTION_READER(read_theme, es_theme_parse)
ES_OPTION_READER(read_where, es_where_parse)
ES_OPTION_READER(read_order, es_order_parse)

/* --- the table ------------------------------------------------------------*/

/* In the order of es_heads_spread, es_grouping and es_cost. */
static const char *const spreads[] = {"none", "range", "quartiles", NULL};
static const char *const groupings[] = {"none", "seed", NULL};
static const char *const check_formats[] = {"table", "github", NULL};
static const char *const costs[] = {"flops",   "params", "communication",
                                    "latency", "tokens", NULL};

/* Tags: the figures that have an option, that it is for pictures alone, that
   the verb summarise has it, too. */
#define PICTURE ES_SCAN_PICTURE_TAG
#define OF(figure) (1u << ES_FIGURE_##figure)
#define SUMMARY ES_SUMMARY_TAG
#define FIGURE_OF(figure)                                                      \
    ES_OPT_CALL(es_scan_options, figures, read_picture),                       \
        .least = ES_FIGURE_##figure

static const es_option table[] = {
    {.name = NULL,
     ES_OPT_LIST(es_scan_options, inputs, n_inputs),
     .tags = SUMMARY},
    {"heatmap", 0, "[FILE]",
     "draw layers by heads (RUN-heatmap.png in this directory)",
     FIGURE_OF(HEATMAP)},
    {"curves", 0, "[FILE]", "draw every layer over the steps (RUN-curves.png)",
     FIGURE_OF(CURVES)},
    {"bands", 0, "[FILE]",
     "draw the share of heads in each band (RUN-bands.png)", FIGURE_OF(BANDS)},
    {"nans", 0, "[FILE]", "draw the count of NaN in every layer (RUN-nans.png)",
     FIGURE_OF(NANS)},
    {"figure", 0, "NAME[,NAME...]",
     "draw the figures named: see below (RUN-NAME.png); NAME+NAME...: on one "
     "page, aligned",
     ES_OPT_CALL(es_scan_options, figures, read_figures)},
    {"all", 0, "[DIR]",
     "draw every figure that the runs have the series for, into DIR",
     ES_OPT_CALL(es_scan_options, figures, read_all)},
    {"step", 's', "N", "the step to show: a number, first or last",
     ES_OPT_CALL(es_scan_options, summary.step, read_step), .value = "last",
     .tags = SUMMARY},
    {"series", 0, "NAME", "the series to show",
     ES_OPT_TEXT(es_scan_options, summary.series), .value = "entropy",
     .tags = SUMMARY},
    {"phase", 0, "PHASE",
     "train or eval (train, or eval where there is no train)",
     ES_OPT_CALL(es_scan_options, summary.phase, es_command_phase),
     .tags = SUMMARY},
    {"max", 0, "POLICY",
     "top of the bands and of the colour scale: observed in all runs, run (in "
     "each), ceiling, logT or a number (observed)",
     ES_OPT_CALL(es_scan_options, summary.max, read_max), .tags = SUMMARY},
    {"format", 0, "FORMAT", "png, svg or pdf (by FILE's ending, else png)",
     ES_OPT_CALL(es_scan_options, format, read_format), .tags = PICTURE},
    {"size", 0, "WxH",
     "size in pixels of PNG, points of SVG and PDF; 89x60mm, 3.25x2.5in",
     ES_OPT_CALL(es_scan_options, figures, read_size), .tags = PICTURE},
    {"for", 0, "MEDIUM",
     "the width of a paper's column or page, or of a slide, or icml: its "
     "column, neurips: its text (screen: as wide as the content wants)",
     ES_OPT_CHOICE(es_scan_options, figures.medium, es_media),
     .expects = ES_MEDIA_EXPECTED, .tags = PICTURE},
    {"letters", 0, NULL,
     "call the panels (a), (b), ..., as those of several figures on a page are",
     ES_OPT_FLAG(es_scan_options, figures.letters), .tags = PICTURE},
    {"font-size", 0, "POINTS",
     "size of most labels, on a picture of the same size (8.5)",
     ES_OPT_REAL(es_scan_options, figures.letters_size, 4, 40),
     .tags = PICTURE},
    {"title", 0, "TEXT", "title above the picture",
     ES_OPT_TEXT(es_scan_options, figures.title), .tags = PICTURE},
    {"colormap", 0, "NAME", "viridis, cividis or magma",
     ES_OPT_CALL(es_scan_options, figures.colormap, read_colormap),
     .tags = PICTURE, .value = "viridis"},
    {"theme", 0, "NAME", "light or dark",
     ES_OPT_CALL(es_scan_options, figures.theme, read_theme), .tags = PICTURE,
     .value = "light"},
    {"log", 0, NULL, "curves, nans, loss: a logarithmic scale for the values",
     ES_OPT_FLAG(es_scan_options, figures.logarithmic),
     .tags = PICTURE | OF(CURVES) | OF(NANS) | OF(LOSS)},
    {"spread", 0, "KIND",
     "curves: shade range or quartiles of a layer's heads about their mean",
     ES_OPT_CHOICE(es_scan_options, figures.spread, spreads),
     .expects = "none, range or quartiles", .tags = PICTURE | OF(CURVES),
     .value = "none"},
    {"smooth", 0, "N",
     "curves, loss: a moving mean of N samples by a Gaussian's weights",
     ES_OPT_INT(es_scan_options, figures.smooth, 2, 9999),
     .tags = PICTURE | OF(CURVES) | OF(LOSS)},
    {"spikes", 0, "[N]",
     "curves, loss: a ring at what stands out of the N samples about it (31)",
     ES_OPT_CALL(es_scan_options, figures, read_spikes),
     .tags = PICTURE | OF(CURVES) | OF(LOSS)},
    {"group", 0, "KEY",
     "overview, heatmap, curves, nans, slopes, loss: seed: runs that differ in "
     "it alone as their mean, of lines with their range",
     ES_OPT_CHOICE(es_scan_options, figures.group, groupings),
     .expects = "none or seed",
     .tags = PICTURE | OF(OVERVIEW) | OF(HEATMAP) | OF(CURVES) | OF(NANS) |
             OF(SLOPES) | OF(LOSS),
     .value = "none"},
    {"heads", 0, "LAYER",
     "curves, maps: the heads of one layer instead of the layers",
     ES_OPT_CALL(es_scan_options, figures, read_heads),
     .tags = PICTURE | OF(CURVES) | OF(MAPS)},
    {"perplexity", 0, NULL, "loss: perplexity instead of it",
     ES_OPT_FLAG(es_scan_options, figures.perplexity),
     .tags = PICTURE | OF(LOSS)},
    {"tokens", 0, NULL, "loss: over tokens instead of steps",
     ES_OPT_FLAG(es_scan_options, figures.tokens), .tags = PICTURE | OF(LOSS)},
    {"cost", 0, "COST",
     "what the figure pareto has across: flops, params, tokens, or as modelled "
     "for private inference communication or latency",
     ES_OPT_CHOICE(es_scan_options, figures.cost, costs),
     .expects = "flops, params, communication, latency or tokens",
     .tags = PICTURE | OF(PARETO), .value = "flops"},
    ES_RECURSIVE_OPTION,
    {"jobs", 'j', "N",
     "processes that read where there are many files (one for each processor)",
     ES_OPT_INT(es_scan_options, n_processes, 1, 256), .tags = SUMMARY},
    {"slurm", 0, NULL,
     "read the files by an array of tasks of Slurm, wait for it, and join what "
     "they find; words behind -- are sbatch's",
     ES_OPT_FLAG(es_scan_options, slurm), .tags = SUMMARY},
    {"tasks", 0, "N", "with --slurm: tasks, at most",
     ES_OPT_INT(es_scan_options, n_tasks, 1, ES_SCAN_TASKS_MOST), .value = "8",
     .tags = SUMMARY},
    {"work", 0, "DIR",
     "with --slurm: a folder that all nodes see, for what tasks find and "
     "print; removed at the end",
     ES_OPT_TEXT(es_scan_options, work), .value = "summary.parts",
     .tags = SUMMARY},
    {"part", 0, "K", "what each task does: part K, into --work",
     ES_OPT_INT(es_scan_options, part, 0, ES_SCAN_TASKS_MOST - 1),
     .tags = SUMMARY},
    {"where", 0, "CONDITIONS",
     "show only runs for which all hold, such as 'arch=SM* flag=collapse "
     "lr<0.01': fields, and members of the configuration",
     ES_OPT_CALL(es_scan_options, where, read_where), .tags = SUMMARY},
    {"sort", 0, "FIELD",
     "sort the runs, such as by eval_ppl or lr; falling with a minus before it",
     ES_OPT_CALL(es_scan_options, order, read_order), .tags = SUMMARY},
    {"compare", 0, NULL,
     "hold the runs against each other: settings that differ, perplexity, "
     "bands, onsets, distances, seeds taken together",
     ES_OPT_FLAG(es_scan_options, compare)},
    {"baseline", 0, "FILE", "compare with the run of FILE; implies --compare",
     ES_OPT_TEXT(es_scan_options, baseline)},
    {"trends", 0, NULL,
     "say below the table which layers rise or fall, and when they would pass "
     "a threshold; curves: dashed, with the range of each",
     ES_OPT_FLAG(es_scan_options, trends)},
    {"json", 0, NULL, "print JSON instead of the table",
     ES_OPT_FLAG(es_scan_options, json), .tags = SUMMARY},
    {"jsonl", 0, NULL,
     "print one line of JSON for each run, as they are read (then --max is "
     "run by default)",
     ES_OPT_FLAG(es_scan_options, jsonl), .tags = SUMMARY},
    {"csv", 0, NULL, "print CSV instead of the table",
     ES_OPT_FLAG(es_scan_options, csv), .tags = SUMMARY},
    {"tui", 0, NULL,
     "draw the runs on the terminal instead of the table; more than three are "
     "lines: up and down choose one, enter opens it, o sorts",
     ES_OPT_FLAG(es_scan_options, tui)},
    {"follow", 0, NULL,
     "with --tui: redraw as the runs grow, until they have ended; q quits, "
     "left and right move the step, space goes back to live, s switches the "
     "series, up and down the runs",
     ES_OPT_FLAG(es_scan_options, follow)},
    {"quiet", 'q', NULL, "print no table, and errors alone",
     ES_OPT_FLAG(es_scan_options, quiet), .tags = SUMMARY},
    {"output", 'o', "FILE",
     "where to write JSON, CSV, or the one figure that has no FILE of its "
     "own, or else the table (-: standard output); of several figures the "
     "folder, or a PDF that has them as pages",
     ES_OPT_TEXT(es_scan_options, output), .tags = SUMMARY},
    {"check", 0, "[SEVERITY]",
     "exit 1 if a flag of this severity or above stands: info, warning, error "
     "or critical (error)",
     ES_OPT_CALL(es_scan_options, check, es_command_severity), .tags = SUMMARY},
    {"check-format", 0, "FORMAT",
     "with --check: github prints, in place of the table, an annotation for "
     "each run in which something stands, as GitHub Actions reads it (table)",
     ES_OPT_CHOICE(es_scan_options, check_format, check_formats)},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(es_scan_options, rules, es_command_rules), .tags = SUMMARY},
    {"forecast", 0, "[stop]", ES_FORECAST_HELP,
     ES_OPT_CALL(es_scan_options, forecast, es_command_forecast),
     .tags = SUMMARY},
    ES_SALVAGE_OPTION,
    ES_COLOR_OPTION,
    ES_HELP_OPTION,
    {"version", 'V', NULL,
     "print the version, and those of the libraries, and exit",
     .type = ES_OPTION_END},
};

/* With --slurm the words behind "--" are sbatch's. */
static int find_slurm_words(int argc, char **argv)
{
    bool slurm = false;
    for (int i = 1; i < argc; i++) {
        slurm = slurm || strcmp(argv[i], "--slurm") == 0;
        if (strcmp(argv[i], "--") == 0)
            return slurm ? i : argc;
    }
    return argc;
}

static int run(const es_command *command, int argc, char **argv)
{
    es_scan_options given;
    const int n = find_slurm_words(argc, argv);
    es_status status = es_scan_options_parse(&given, command, n, argv);
    given.words = argv;
    given.n_words = n;
    given.n_slurm_words = argc > n ? argc - n - 1 : 0;
    given.slurm_words = argv + argc - given.n_slurm_words;
    int code = status != ES_OK   ? es_command_exit(status)
               : given.part >= 0 ? es_command_exit(es_parts_run(&given))
                                 : es_scan_run(&given);
    es_scan_options_free(&given);
    return code;
}

static int scan_main(int argc, char **argv)
{
    return run(&es_scan_command, argc, argv);
}

static int summarise_main(int argc, char **argv)
{
    return run(&es_summarise_command, argc, argv);
}

static const es_named_text examples[] = {
    {"entropy-scan sm.db sm-ln-g.db", "Show two runs"},
    {"entropy-scan sm.db --heatmap=heatmap.png --curves=curves.pdf",
     "Draw layers by heads, and layers over the steps"},
    {"entropy-scan . --where 'arch=SM* lr<0.01' --sort eval_ppl",
     "Choose among the runs below a folder"},
    {"entropy-scan sm.db sm-ln-g.db --compare --baseline sm.db",
     "Say what differs"},
    {"entropy-scan sm.db sm-ln-g.db --figure heatmap,loss -o figures.pdf --for "
     "neurips",
     "Figures for a paper, as pages"},
    {NULL, NULL}};

const es_command es_scan_command = {
    .name = "entropy-scan",
    .synopsis = "RUN.db... [OPTION...]",
    .examples = examples,
    .summary = "attention entropy of training runs",
    .details =
        "Shows run, architecture, step, loss, share of heads in each quarter\n"
        "of the largest entropy, and what is wrong. Several runs share one\n"
        "picture and one colour scale.\n"
        "\n"
        "The figures of --figure:\n" ES_FIGURES_HELP "\n"
        "Several on one page, aligned and with one legend: --figure\n"
        "heatmap+curves+nans -o page.pdf\n"
        "\n"
        "A sample whose checksum is wrong is shown as a missing value, and\n"
        "the exit code is 3. Files of older versions (schema 1) have no\n"
        "checksums: --json says which.\n"
        "\n"
        "Where the file says what its layers are, flags, the table, JSON and\n"
        "the rows of heatmaps have their kinds and names, and each head is\n"
        "judged by its own ceiling: under --max ceiling heatmaps show shares "
        "of\n"
        "it. A training that does not say how many steps it plans is too "
        "short\n"
        "to judge for overload in its first 1000.\n"
        "\n"
        "JSON has \"schema\":2: the step at which a flag was reported is\n"
        "\"reported\", which schema 1 called \"told\".\n"
        "\n"
        "Results go to standard output, messages to standard error. Exit\n"
        "codes: 0 fine; 1 --check found something; 2 the command line is\n"
        "wrong; 3 an input or output failed; 4 some inputs of several failed,\n"
        "the rest was done; 128+n ended by signal n.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = scan_main,
};

static const es_named_text summarise_examples[] = {
    {"entropy-scan summarise runs --csv -o runs.csv",
     "All runs below a folder, by all processors"},
    {"entropy-scan summarise runs --slurm --tasks 64 --csv -o runs.csv -- "
     "--time=0:30:00 --partition=short",
     "The same by 64 tasks of Slurm"},
    {NULL, NULL}};

const es_command es_summarise_command = {
    .name = "entropy-scan summarise",
    .synopsis = "DIR... [OPTION...] [-- SBATCH-OPTION...]",
    .examples = summarise_examples,
    .summary = "a line for each of very many runs, here or by Slurm",
    .details =
        "Prints what entropy-scan DIR does, by all processors. With --slurm\n"
        "the files are split into parts, each task of an array reads one,\n"
        "and this process waits and joins them. A task that failed, was\n"
        "cancelled or ran out of time is named with its log, and nothing is\n"
        "written; the parts of the others stay in the folder of --work, so\n"
        "that the same command again submits what is missing. Where this\n"
        "process is ended, the job goes on: the same command again joins\n"
        "what it left.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .takes = SUMMARY,
    .main = summarise_main,
};

es_status es_scan_options_default(es_scan_options *out, size_t n_inputs)
{
    *out = (es_scan_options){.text_file = "-", .part = -1};
    es_summary_options_default(&out->summary);
    es_rules_file_default(&out->rules);
    es_status status = es_options_default(out, &es_scan_command);
    return status == ES_OK
               ? es_alloc(&out->inputs, n_inputs, sizeof *out->inputs, "inputs")
               : status;
}

es_status es_scan_options_parse(es_scan_options *out, const es_command *command,
                                int argc, char **argv)
{
    es_status status = es_scan_options_default(out, (size_t)argc);
    if (status != ES_OK || (status = es_command_parse(out, out->given, command,
                                                      argc, argv)) != ES_OK)
        return status;
    if (out->baseline)
        out->compare = true;
    if (es_options_has(command, out->given, "rules") || out->forecast)
        out->summary.rules = &out->rules;
    status = es_rules_file_add_forecast(&out->rules, out->forecast);
    return status == ES_OK ? es_scan_judge(out) : status;
}

void es_scan_options_free(es_scan_options *options)
{
    es_inputs_free(options->inputs, &options->found);
    es_rules_file_free(&options->rules);
}
