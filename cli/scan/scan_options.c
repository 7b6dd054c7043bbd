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
ES_OPTION_READER(read_steps, es_figures_set_steps)
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

/* Tags of an option. They name the verbs that accept it. PICTURE marks options
   of pictures, OF(figure) options of certain figures, and OLD options that the
   help of entropy-scan RUN.db leaves out. */
#define OF(figure) (1u << ES_FIGURE_##figure)
#define OLD ES_SCAN_OLD_TAG
#define PICTURE (ES_SCAN_PICTURE_TAG | ES_DRAW_TAG | OLD)
#define SUMMARY ES_SUMMARY_TAG
#define DRAW ES_DRAW_TAG
#define COMPARE ES_COMPARE_TAG
#define TUI ES_TUI_TAG
#define TRENDS ES_TRENDS_TAG
#define FIGURE_OF(figure)                                                      \
    ES_OPT_CALL(es_scan_options, figures, read_picture),                       \
        .least = ES_FIGURE_##figure

static const es_option table[] = {
    {.name = NULL,
     ES_OPT_LIST(es_scan_options, inputs, n_inputs),
     .tags = ES_SCAN_VERB_TAGS},
    {"heatmap", 0, "[FILE]", "draw a heatmap of layers by heads",
     FIGURE_OF(HEATMAP)},
    {"curves", 0, "[FILE]", "draw every layer over the steps",
     FIGURE_OF(CURVES)},
    {"bands", 0, "[FILE]", "draw the share of heads in each band",
     FIGURE_OF(BANDS), .tags = OLD},
    {"nans", 0, "[FILE]", "draw the count of NaN in every layer",
     FIGURE_OF(NANS), .tags = OLD},
    {"figure", 0, "NAME[,NAME...]",
     "draw the named figures (entropy-scan help draw) into RUN-NAME.png; a+b: "
     "on one page, aligned",
     ES_OPT_CALL(es_scan_options, figures, read_figures)},
    {"all", 0, "[DIR]", "draw every figure that the runs have, into DIR",
     ES_OPT_CALL(es_scan_options, figures, read_all)},
    {"step", 's', "N", "step to show: a number, first or last",
     ES_OPT_CALL(es_scan_options, summary.step, read_step), .value = "last",
     .tags = SUMMARY | DRAW | COMPARE | TRENDS},
    {"steps", 0, "A-B", "draw only steps A to B, as in 200-400 or 200-",
     ES_OPT_CALL(es_scan_options, figures, read_steps),
     .tags = PICTURE | OF(CURVES) | OF(NANS) | OF(SLOPES) | OF(LOSS) |
             OF(VALUES) | OF(RASTER) | OF(TIMELINE)},
    {"series", 0, "NAME", "series to show",
     ES_OPT_TEXT(es_scan_options, summary.series), .value = "entropy",
     .tags = SUMMARY | DRAW | TUI | TRENDS},
    {"phase", 0, "PHASE", "phase to show: train or eval (train, else eval)",
     ES_OPT_CALL(es_scan_options, summary.phase, es_command_phase),
     .tags = SUMMARY | DRAW | COMPARE | TUI | TRENDS},
    {"max", 0, "POLICY",
     "top of bands and colours: observed (all runs), run (each run), ceiling, "
     "logT or a number (observed)",
     ES_OPT_CALL(es_scan_options, summary.max, read_max),
     .tags = SUMMARY | DRAW | COMPARE | TUI},
    {"format", 0, "FORMAT",
     "png, svg, pdf, txt (by the name of FILE, else png)",
     ES_OPT_CALL(es_scan_options, format, read_format), .tags = PICTURE},
    {"size", 0, "WxH", "pixels (PNG), characters (txt), points or 89x60mm",
     ES_OPT_CALL(es_scan_options, figures, read_size), .tags = PICTURE},
    {"for", 0, "MEDIUM",
     "width: column, page, slide, icml, neurips, or screen (default, as wide "
     "as needed)",
     ES_OPT_CHOICE(es_scan_options, figures.medium, es_media),
     .expects = ES_MEDIA_EXPECTED, .tags = PICTURE},
    {"letters", 0, NULL, "label the panels (a), (b), ...",
     ES_OPT_FLAG(es_scan_options, figures.letters), .tags = PICTURE},
    {"font-size", 0, "POINTS", "font size of most labels (8.5)",
     ES_OPT_REAL(es_scan_options, figures.letters_size, 4, 40),
     .tags = PICTURE},
    {"title", 0, "TEXT", "title above the picture",
     ES_OPT_TEXT(es_scan_options, figures.title), .tags = PICTURE},
    {"colormap", 0, "NAME", "viridis, cividis or magma",
     ES_OPT_CALL(es_scan_options, figures.colormap, read_colormap),
     .tags = PICTURE | TUI, .value = "viridis"},
    {"theme", 0, "NAME", "light or dark (light; for txt: dark)",
     ES_OPT_CALL(es_scan_options, figures.theme, read_theme), .tags = PICTURE},
    {"log", 0, NULL, "curves, nans, loss, values: logarithmic scale",
     ES_OPT_FLAG(es_scan_options, figures.logarithmic),
     .tags = PICTURE | OF(CURVES) | OF(NANS) | OF(LOSS) | OF(VALUES)},
    {"spread", 0, "KIND", "curves: shade a layer's range or quartiles",
     ES_OPT_CHOICE(es_scan_options, figures.spread, spreads),
     .expects = "none, range or quartiles", .tags = PICTURE | OF(CURVES),
     .value = "none"},
    {"smooth", 0, "N", "curves, loss, values: moving mean of N samples",
     ES_OPT_INT(es_scan_options, figures.smooth, 2, 9999),
     .tags = PICTURE | OF(CURVES) | OF(LOSS) | OF(VALUES)},
    {"spikes", 0, "[N]", "circle the outliers in windows of N samples (31)",
     ES_OPT_CALL(es_scan_options, figures, read_spikes),
     .tags = PICTURE | OF(CURVES) | OF(LOSS) | OF(VALUES)},
    {"group", 0, "KEY", "seed: average configurations over seeds",
     ES_OPT_CHOICE(es_scan_options, figures.group, groupings),
     .expects = "none or seed",
     .tags = PICTURE | OF(OVERVIEW) | OF(HEATMAP) | OF(CURVES) | OF(NANS) |
             OF(SLOPES) | OF(LOSS) | OF(VALUES),
     .value = "none"},
    {"heads", 0, "LAYER", "curves, maps: the heads of one layer",
     ES_OPT_CALL(es_scan_options, figures, read_heads),
     .tags = PICTURE | OF(CURVES) | OF(MAPS)},
    {"perplexity", 0, NULL, "loss: show perplexity instead of the loss",
     ES_OPT_FLAG(es_scan_options, figures.perplexity),
     .tags = PICTURE | OF(LOSS)},
    {"full", 0, NULL, "loss, values: fit the axis to all losses",
     ES_OPT_FLAG(es_scan_options, figures.full),
     .tags = PICTURE | OF(LOSS) | OF(VALUES)},
    {"tokens", 0, NULL, "loss, values: plot against tokens, not steps",
     ES_OPT_FLAG(es_scan_options, figures.tokens),
     .tags = PICTURE | OF(LOSS) | OF(VALUES)},
    {"cost", 0, "COST",
     "horizontal axis of pareto: flops, params, tokens, communication or "
     "latency",
     ES_OPT_CHOICE(es_scan_options, figures.cost, costs),
     .expects = "flops, params, communication, latency or tokens",
     .tags = PICTURE | OF(PARETO), .value = "flops"},
    ES_RECURSIVE_OPTION,
    {"jobs", 'j', "N", "number of reading processes (one per CPU)",
     ES_OPT_INT(es_scan_options, n_processes, 1, 256), .tags = SUMMARY},
    {"slurm", 0, NULL,
     "read the files in an array of Slurm tasks, wait for the tasks, and join "
     "their results; options after -- are passed to sbatch",
     ES_OPT_FLAG(es_scan_options, slurm), .tags = SUMMARY | OLD},
    {"tasks", 0, "N", "with --slurm: maximum number of tasks",
     ES_OPT_INT(es_scan_options, n_tasks, 1, ES_SCAN_TASKS_MOST), .value = "8",
     .tags = SUMMARY | OLD},
    {"work", 0, "DIR",
     "with --slurm: folder for the results and logs of the tasks; all nodes "
     "must see it; removed at the end",
     ES_OPT_TEXT(es_scan_options, work), .value = "summary.parts",
     .tags = SUMMARY | OLD},
    {"part", 0, "K",
     "used by the tasks of --slurm: write part K into the folder of --work",
     ES_OPT_INT(es_scan_options, part, 0, ES_SCAN_TASKS_MOST - 1),
     .tags = SUMMARY | OLD},
    {"where", 0, "CONDITIONS",
     "show only runs that meet all conditions, such as 'arch=SM* flag=collapse "
     "lr<0.01'",
     ES_OPT_CALL(es_scan_options, where, read_where),
     .tags = SUMMARY | DRAW | COMPARE | TRENDS},
    {"sort", 0, "FIELD", "sort by a field or setting; -FIELD: descending",
     ES_OPT_CALL(es_scan_options, order, read_order),
     .tags = SUMMARY | DRAW | COMPARE | TRENDS},
    {"compare", 0, NULL,
     "compare the runs: settings that differ, perplexity, bands, onsets, "
     "distances, means over seeds",
     ES_OPT_FLAG(es_scan_options, compare), .tags = OLD},
    {"baseline", 0, "FILE", "compare with the run of FILE",
     ES_OPT_TEXT(es_scan_options, baseline), .tags = COMPARE | DRAW | OLD},
    {"trends", 0, NULL,
     "list below the table which layers rise or fall, and when they would "
     "cross a threshold; curves: draw the trends as dashed lines with ranges",
     ES_OPT_FLAG(es_scan_options, trends), .tags = OLD},
    {"json", 0, NULL, "print JSON instead of the table",
     ES_OPT_FLAG(es_scan_options, json), .tags = SUMMARY | COMPARE | TRENDS},
    {"jsonl", 0, NULL, "print one line of JSON for each run",
     ES_OPT_FLAG(es_scan_options, jsonl), .tags = SUMMARY},
    {"csv", 0, NULL, "print CSV instead of the table",
     ES_OPT_FLAG(es_scan_options, csv), .tags = SUMMARY},
    {"tui", 0, NULL,
     "draw the runs on the terminal instead of the table; more than three are "
     "listed: up and down select a run, enter opens it, o sorts",
     ES_OPT_FLAG(es_scan_options, tui), .tags = OLD},
    {"follow", 0, NULL,
     "redraw as the runs grow, until they end; q quits, left and right move "
     "the step, space returns to live, s switches the series, f shows "
     "figures, up and down switch the run",
     ES_OPT_FLAG(es_scan_options, follow), .tags = TUI | OLD},
    {"quiet", 'q', NULL, "print no table, only errors",
     ES_OPT_FLAG(es_scan_options, quiet), .tags = SUMMARY},
    {"output", 'o', "FILE",
     "file for JSON or CSV, else for the figures, else for the table (-: "
     "standard output)",
     ES_OPT_TEXT(es_scan_options, output),
     .tags = SUMMARY | DRAW | COMPARE | TRENDS},
    {"check", 0, "[SEVERITY]",
     "exit 1 if a flag of this severity or above is active: info, warning, "
     "error or critical (error)",
     ES_OPT_CALL(es_scan_options, check, es_command_severity), .tags = SUMMARY},
    {"check-format", 0, "FORMAT",
     "with --check: github prints annotations for GitHub Actions instead of "
     "the table (table)",
     ES_OPT_CHOICE(es_scan_options, check_format, check_formats)},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(es_scan_options, rules, es_command_rules),
     .tags = SUMMARY | DRAW | COMPARE | TUI},
    ES_SALVAGE_OPTION,
    ES_COLOR_OPTION,
    ES_HELP_OPTION,
    {"version", 'V', NULL, "print the versions and exit",
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

static int run_scan(const es_command *command, int argc, char **argv)
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

#define MAIN(verb)                                                             \
    static int verb##_main(int argc, char **argv)                              \
    {                                                                          \
        return run_scan(&es_##verb##_command, argc, argv);                     \
    }
MAIN(scan)
MAIN(draw)
MAIN(compare)
MAIN(tui)
MAIN(trends)
MAIN(summarise)

#define TABLE .options = table, .n_options = sizeof table / sizeof table[0]

static const es_named_text examples[] = {
    {"entropy-scan sm.db sm-ln-g.db", "Show two runs"},
    {"entropy-scan sm.db --heatmap=heatmap.png --curves=curves.pdf",
     "Draw layers by heads, and layers over the steps"},
    {"entropy-scan . --where 'arch=SM* lr<0.01' --sort eval_ppl",
     "Select and sort runs below a folder"},
    {NULL, NULL}};

const es_command es_scan_command = {
    .name = "entropy-scan",
    .synopsis = "RUN.db... [OPTION...]",
    .examples = examples,
    .summary = "attention entropy of training runs",
    .details = "Shows the run, architecture, step, loss, share of heads in "
               "each quarter\n"
               "of the largest entropy, and flags. Exit codes: 0 success; 1 "
               "--check found\n"
               "something; 2 wrong command line; 3 failed or damaged; 4 some "
               "inputs failed.",
    TABLE,
    .old = OLD,
    .main = scan_main,
};

static const es_named_text draw_examples[] = {
    {"entropy-scan draw heatmap,curves sm.db", "Draw two figures of a run"},
    {"entropy-scan draw heatmap,loss sm.db sm-ln-g.db -o figures.pdf --for "
     "neurips",
     "Draw figures of two runs for a paper, one page each"},
    {NULL, NULL}};

const es_command es_draw_command = {
    .name = "entropy-scan draw",
    .synopsis = "FIGURE[,FIGURE...]|all RUN.db... [OPTION...]",
    .examples = draw_examples,
    .summary = "draw figures of runs",
    .details =
        "Figures:\n" ES_FIGURES_HELP
        "all: every figure. a+b: a and b on one page. -o -: on the terminal.",
    TABLE,
    .takes = DRAW,
    .main = draw_main,
};

static const es_named_text compare_examples[] = {
    {"entropy-scan compare sm.db sm-ln-g.db --baseline sm.db",
     "Compare two runs"},
    {NULL, NULL}};

const es_command es_compare_command = {
    .name = "entropy-scan compare",
    .synopsis = "RUN.db... [--baseline RUN.db] [OPTION...]",
    .examples = compare_examples,
    .summary = "compare runs: settings, perplexity, bands, onsets, distances",
    .details =
        "Prints the settings that differ, perplexity, bands, distances\n"
        "between the runs, and the steps at which flags began; averages\n"
        "runs that differ only in the seed.",
    TABLE,
    .takes = COMPARE,
    .main = compare_main,
};

static const es_named_text tui_examples[] = {
    {"entropy-scan tui sm.db --follow", "Watch a run while it trains"},
    {NULL, NULL}};

const es_command es_tui_command = {
    .name = "entropy-scan tui",
    .synopsis = "RUN.db... [--follow] [OPTION...]",
    .examples = tui_examples,
    .summary = "draw runs on the terminal, also while they train",
    .details =
        "More than three runs are shown as a list: up and down select a run,\n"
        "enter opens it, o sorts. --follow redraws as the runs grow.",
    TABLE,
    .takes = TUI,
    .main = tui_main,
};

static const es_named_text trends_examples[] = {
    {"entropy-scan trends sm.db", "List the layers that rise or fall"},
    {NULL, NULL}};

const es_command es_trends_command = {
    .name = "entropy-scan trends",
    .synopsis = "RUN.db... [OPTION...]",
    .examples = trends_examples,
    .summary = "list which layers rise or fall, and towards which threshold",
    .details =
        "Lists the layers whose mean entropy rises or falls, and the steps\n"
        "at which they would cross a threshold.",
    TABLE,
    .takes = TRENDS,
    .main = trends_main,
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
    TABLE,
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

/* Requests the figures that the first word after `draw` names. */
static es_status take_figures(es_scan_options *to)
{
    if (!to->n_inputs)
        return es_fail(ES_EUSAGE, "no figure given: try entropy-scan draw "
                                  "heatmap RUN.db, or see entropy-scan draw "
                                  "--help");
    const char *names = to->inputs[0];
    memmove(to->inputs, to->inputs + 1, --to->n_inputs * sizeof *to->inputs);
    to->quiet = true;
    if (strcmp(names, "all") != 0)
        return es_figures_want(&to->figures, names);
    es_figures_want_all(&to->figures, NULL);
    return ES_OK;
}

es_status es_scan_options_parse(es_scan_options *out, const es_command *command,
                                int argc, char **argv)
{
    es_status status = es_scan_options_default(out, (size_t)argc);
    if (status != ES_OK || (status = es_command_parse(out, out->given, command,
                                                      argc, argv)) != ES_OK)
        return status;
    if (command == &es_draw_command) {
        if ((status = take_figures(out)) != ES_OK)
            return status;
    } else if (out->baseline || command == &es_compare_command) {
        out->compare = true;
    }
    out->tui = out->tui || command == &es_tui_command;
    out->trends = out->trends || command == &es_trends_command;
    if (es_options_has(command, out->given, "rules"))
        out->summary.rules = &out->rules;
    return es_scan_judge(out);
}

void es_scan_options_free(es_scan_options *options)
{
    es_inputs_free(options->inputs, &options->found);
    es_rules_file_free(&options->rules);
}
