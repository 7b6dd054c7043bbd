/* Defines the options of entropy-scan RUN.db... and of entropy-scan summarise,
   and parses the command line. scan_judge.c checks options that depend on each
   other. */
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
        return es_fail(ES_EUSAGE,
                       "--step '%.40s': expected a number, first or last",
                       value);
    return ES_OK;
}

static es_status set_heads(es_figure_options *figures, const char *value)
{
    figures->by_head = true;
    if (es_int_parse(&figures->layer, value, 0, ES_MAX_LAYERS - 1) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "--heads '%.40s': expected the number of a layer, from 0",
                   value);
}

/* Reads an option that draws a figure, such as --heatmap[=FILE]. option->least
   is the kind of figure. */
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

/* Names of the values of enums, in the order of each enum (es_heads_spread,
   es_grouping, es_cost). */
static const char *const spreads[] = {"none", "range", "quartiles", NULL};
static const char *const groupings[] = {"none", "seed", NULL};
static const char *const check_formats[] = {"table", "github", NULL};
static const char *const costs[] = {"flops",   "params", "communication",
                                    "latency", "tokens", NULL};

/* Tags of an option: PICTURE for options of pictures, OF(figure) for options of
   certain figures, SUMMARY for options that entropy-scan summarise also has. */
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
     "draw a heatmap of layers by heads (RUN-heatmap.png in this directory)",
     FIGURE_OF(HEATMAP)},
    {"curves", 0, "[FILE]", "draw every layer over the steps (RUN-curves.png)",
     FIGURE_OF(CURVES)},
    {"bands", 0, "[FILE]",
     "draw the share of heads in each band (RUN-bands.png)", FIGURE_OF(BANDS)},
    {"nans", 0, "[FILE]", "draw the count of NaN in every layer (RUN-nans.png)",
     FIGURE_OF(NANS)},
    {"figure", 0, "NAME[,NAME...]",
     "draw the named figures, listed below (RUN-NAME.png); NAME+NAME...: on "
     "one page, aligned",
     ES_OPT_CALL(es_scan_options, figures, read_figures)},
    {"all", 0, "[DIR]",
     "draw every figure whose series the runs have, into DIR",
     ES_OPT_CALL(es_scan_options, figures, read_all)},
    {"step", 's', "N", "step to show: a number, first or last",
     ES_OPT_CALL(es_scan_options, summary.step, read_step), .value = "last",
     .tags = SUMMARY},
    {"series", 0, "NAME", "series to show",
     ES_OPT_TEXT(es_scan_options, summary.series), .value = "entropy",
     .tags = SUMMARY},
    {"phase", 0, "PHASE",
     "phase to show: train or eval (train, or eval if there are no samples of "
     "train)",
     ES_OPT_CALL(es_scan_options, summary.phase, es_command_phase),
     .tags = SUMMARY},
    {"max", 0, "POLICY",
     "top of the bands and of the colour scale: observed (largest value of all "
     "runs), run (largest value of each run), ceiling, logT or a number "
     "(observed)",
     ES_OPT_CALL(es_scan_options, summary.max, read_max), .tags = SUMMARY},
    {"format", 0, "FORMAT",
     "png, svg or pdf (by the extension of FILE, else png)",
     ES_OPT_CALL(es_scan_options, format, read_format), .tags = PICTURE},
    {"size", 0, "WxH",
     "size in pixels (PNG) or points (SVG, PDF), or such as 89x60mm, "
     "3.25x2.5in",
     ES_OPT_CALL(es_scan_options, figures, read_size), .tags = PICTURE},
    {"for", 0, "MEDIUM",
     "width of the picture: column, page, slide, icml (one column), neurips "
     "(text width) or screen, which is as wide as the content needs (screen)",
     ES_OPT_CHOICE(es_scan_options, figures.medium, es_media),
     .expects = ES_MEDIA_EXPECTED, .tags = PICTURE},
    {"letters", 0, NULL,
     "label the panels (a), (b), ..., as on a page of several figures",
     ES_OPT_FLAG(es_scan_options, figures.letters), .tags = PICTURE},
    {"font-size", 0, "POINTS",
     "font size of most labels; does not change the picture's size (8.5)",
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
    {"log", 0, NULL, "curves, nans, loss: use a logarithmic scale",
     ES_OPT_FLAG(es_scan_options, figures.logarithmic),
     .tags = PICTURE | OF(CURVES) | OF(NANS) | OF(LOSS)},
    {"spread", 0, "KIND",
     "curves: shade the range or the quartiles of a layer's heads around their "
     "mean",
     ES_OPT_CHOICE(es_scan_options, figures.spread, spreads),
     .expects = "none, range or quartiles", .tags = PICTURE | OF(CURVES),
     .value = "none"},
    {"smooth", 0, "N",
     "curves, loss: smooth by a moving mean of N samples with Gaussian weights",
     ES_OPT_INT(es_scan_options, figures.smooth, 2, 9999),
     .tags = PICTURE | OF(CURVES) | OF(LOSS)},
    {"spikes", 0, "[N]",
     "curves, loss: draw a ring around a sample that is an outlier among the N "
     "samples around it (31)",
     ES_OPT_CALL(es_scan_options, figures, read_spikes),
     .tags = PICTURE | OF(CURVES) | OF(LOSS)},
    {"group", 0, "KEY",
     "overview, heatmap, curves, nans, slopes, loss: with seed, average the "
     "runs that differ only in the seed; lines also show their range",
     ES_OPT_CHOICE(es_scan_options, figures.group, groupings),
     .expects = "none or seed",
     .tags = PICTURE | OF(OVERVIEW) | OF(HEATMAP) | OF(CURVES) | OF(NANS) |
             OF(SLOPES) | OF(LOSS),
     .value = "none"},
    {"heads", 0, "LAYER",
     "curves, maps: show the heads of one layer instead of the layers",
     ES_OPT_CALL(es_scan_options, figures, read_heads),
     .tags = PICTURE | OF(CURVES) | OF(MAPS)},
    {"perplexity", 0, NULL, "loss: show perplexity instead",
     ES_OPT_FLAG(es_scan_options, figures.perplexity),
     .tags = PICTURE | OF(LOSS)},
    {"tokens", 0, NULL, "loss: plot against tokens instead of steps",
     ES_OPT_FLAG(es_scan_options, figures.tokens), .tags = PICTURE | OF(LOSS)},
    {"cost", 0, "COST",
     "horizontal axis of the figure pareto: flops, params, tokens, or the "
     "modelled communication or latency of private inference",
     ES_OPT_CHOICE(es_scan_options, figures.cost, costs),
     .expects = "flops, params, communication, latency or tokens",
     .tags = PICTURE | OF(PARETO), .value = "flops"},
    ES_RECURSIVE_OPTION,
    {"jobs", 'j', "N", "number of processes that read many files (one per CPU)",
     ES_OPT_INT(es_scan_options, n_processes, 1, 256), .tags = SUMMARY},
    {"slurm", 0, NULL,
     "read the files in an array of Slurm tasks, wait for the tasks, and join "
     "their results; options after -- are passed to sbatch",
     ES_OPT_FLAG(es_scan_options, slurm), .tags = SUMMARY},
    {"tasks", 0, "N", "with --slurm: maximum number of tasks",
     ES_OPT_INT(es_scan_options, n_tasks, 1, ES_SCAN_TASKS_MOST), .value = "8",
     .tags = SUMMARY},
    {"work", 0, "DIR",
     "with --slurm: folder for the results and logs of the tasks; all nodes "
     "must see it; removed at the end",
     ES_OPT_TEXT(es_scan_options, work), .value = "summary.parts",
     .tags = SUMMARY},
    {"part", 0, "K",
     "used by the tasks of --slurm: write part K into the folder of --work",
     ES_OPT_INT(es_scan_options, part, 0, ES_SCAN_TASKS_MOST - 1),
     .tags = SUMMARY},
    {"where", 0, "CONDITIONS",
     "show only runs that meet all conditions on fields or members of their "
     "configuration, such as 'arch=SM* flag=collapse lr<0.01'",
     ES_OPT_CALL(es_scan_options, where, read_where), .tags = SUMMARY},
    {"sort", 0, "FIELD",
     "sort the runs by a field or setting, such as eval_ppl or lr; -FIELD: in "
     "descending order",
     ES_OPT_CALL(es_scan_options, order, read_order), .tags = SUMMARY},
    {"compare", 0, NULL,
     "compare the runs: settings that differ, perplexity, bands, onsets, "
     "distances, means over seeds",
     ES_OPT_FLAG(es_scan_options, compare)},
    {"baseline", 0, "FILE", "compare with the run of FILE; implies --compare",
     ES_OPT_TEXT(es_scan_options, baseline)},
    {"trends", 0, NULL,
     "list below the table which layers rise or fall, and when they would "
     "cross a threshold; curves: draw the trends as dashed lines with ranges",
     ES_OPT_FLAG(es_scan_options, trends)},
    {"json", 0, NULL, "print JSON instead of the table",
     ES_OPT_FLAG(es_scan_options, json), .tags = SUMMARY},
    {"jsonl", 0, NULL,
     "print one line of JSON for each run as soon as it is read (--max is then "
     "run by default)",
     ES_OPT_FLAG(es_scan_options, jsonl), .tags = SUMMARY},
    {"csv", 0, NULL, "print CSV instead of the table",
     ES_OPT_FLAG(es_scan_options, csv), .tags = SUMMARY},
    {"tui", 0, NULL,
     "draw the runs on the terminal instead of the table; more than three are "
     "listed: up and down select a run, enter opens it, o sorts",
     ES_OPT_FLAG(es_scan_options, tui)},
    {"follow", 0, NULL,
     "with --tui: redraw as the runs grow, until they end; q quits, left and "
     "right move the step, space returns to live, s switches the series, up "
     "and down switch the run",
     ES_OPT_FLAG(es_scan_options, follow)},
    {"quiet", 'q', NULL, "print no table, only errors",
     ES_OPT_FLAG(es_scan_options, quiet), .tags = SUMMARY},
    {"output", 'o', "FILE",
     "file for JSON or CSV; without these, file for the figure that has no "
     "FILE (for several figures, a folder, or a PDF with one page per figure); "
     "otherwise file for the table (-: standard output)",
     ES_OPT_TEXT(es_scan_options, output), .tags = SUMMARY},
    {"check", 0, "[SEVERITY]",
     "exit 1 if a flag of this severity or above is active at the last step: "
     "info, warning, error or critical (error)",
     ES_OPT_CALL(es_scan_options, check, es_command_severity), .tags = SUMMARY},
    {"check-format", 0, "FORMAT",
     "with --check: github replaces the table by an annotation for GitHub "
     "Actions for each run with an active flag (table)",
     ES_OPT_CHOICE(es_scan_options, check_format, check_formats)},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(es_scan_options, rules, es_command_rules), .tags = SUMMARY},
    ES_SALVAGE_OPTION,
    ES_COLOR_OPTION,
    ES_HELP_OPTION,
    {"version", 'V', NULL,
     "print the versions of the program and its libraries, and exit",
     .type = ES_OPTION_END},
};

/* Returns the index of "--" if --slurm is given before it; the options of
   sbatch follow "--". Returns argc otherwise. */
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
     "Select and sort runs below a folder"},
    {"entropy-scan sm.db sm-ln-g.db --compare --baseline sm.db",
     "Compare two runs"},
    {"entropy-scan sm.db sm-ln-g.db --figure heatmap,loss -o figures.pdf --for "
     "neurips",
     "Draw figures for a paper, one page each"},
    {NULL, NULL}};

const es_command es_scan_command = {
    .name = "entropy-scan",
    .synopsis = "RUN.db... [OPTION...]",
    .examples = examples,
    .summary = "attention entropy of training runs",
    .details =
        "Shows the run, architecture, step, loss, share of heads in each\n"
        "quarter of the largest entropy, and flags. Several runs share one\n"
        "picture and one colour scale.\n"
        "\n"
        "Figures of --figure:\n" ES_FIGURES_HELP "\n"
        "Several figures on one page, aligned and with one legend:\n"
        "--figure heatmap+curves+nans -o page.pdf\n"
        "\n"
        "A sample whose checksum is wrong is shown as a missing value, and\n"
        "the exit code is 3. Files of older versions (schema 1) have no\n"
        "checksums; the member checksums of --json reports this.\n"
        "\n"
        "If the run file describes its layers, the table, JSON, flags and\n"
        "the rows of heatmaps show the kinds and names of the layers, each\n"
        "head is judged by its own ceiling, and heatmaps under --max\n"
        "ceiling show the share of that ceiling. A run with an unknown\n"
        "number of planned steps is too short to judge for overload in its\n"
        "first 1000 steps.\n"
        "\n"
        "JSON has \"schema\":2: the member \"reported\" of a flag, the step "
        "at\n"
        "which it could be reported, was \"told\" in schema 1.\n"
        "\n"
        "Results go to standard output, messages to standard error. Exit\n"
        "codes: 0 success; 1 --check found something; 2 the command line is\n"
        "wrong; 3 an input or output failed; 4 some of several inputs\n"
        "failed, the others were processed; 128+n ended by signal n.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = scan_main,
};

static const es_named_text summarise_examples[] = {
    {"entropy-scan summarise runs --csv -o runs.csv",
     "Summarise all runs below a folder, using all CPUs"},
    {"entropy-scan summarise runs --slurm --tasks 64 --csv -o runs.csv -- "
     "--time=0:30:00 --partition=short",
     "Do the same with 64 Slurm tasks"},
    {NULL, NULL}};

const es_command es_summarise_command = {
    .name = "entropy-scan summarise",
    .synopsis = "DIR... [OPTION...] [-- SBATCH-OPTION...]",
    .examples = summarise_examples,
    .summary =
        "print one line per run for very many runs, here or through Slurm",
    .details =
        "Prints the same as entropy-scan DIR, using all CPUs. With --slurm,\n"
        "the files are split into parts, each task of a Slurm array reads\n"
        "one part, and this process waits and joins the results. If a task\n"
        "fails, is cancelled or runs out of time, a message names its log,\n"
        "and no output is written; the other parts stay in the folder of\n"
        "--work, so repeating the command submits only the missing parts.\n"
        "If this process is ended, the job continues, and repeating the\n"
        "command joins its results.",
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
    if (es_options_has(command, out->given, "rules"))
        out->summary.rules = &out->rules;
    return es_scan_judge(out);
}

void es_scan_options_free(es_scan_options *options)
{
    es_inputs_free(options->inputs, &options->found);
    es_rules_file_free(&options->rules);
}
