#include "cli/scan.h"

#include "analyzer/base/text.h"
#include "cli/command.h"
#include "cli/output.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEATMAP,
    CURVES,
    BANDS,
    NANS,
    FIGURE,
    ALL,
    STEP,
    SERIES,
    PHASE,
    MAX,
    FORMAT,
    SIZE,
    FOR,
    TITLE,
    COLORMAP,
    THEME,
    LOG,
    SPREAD,
    HEADS,
    PERPLEXITY,
    TOKENS,
    COST,
    RECURSIVE,
    WHERE,
    SORT,
    COMPARE,
    BASELINE,
    JSON,
    JSONL,
    CSV,
    TUI,
    FOLLOW,
    QUIET,
    OUTPUT,
    CHECK,
    RULES,
    HELP,
    VERSION,
    N_OPTIONS
};

static const es_option table[] = {
    [HEATMAP] = {"heatmap", 0, "[FILE]",
                 "draw layers by heads (RUN-heatmap.png in this directory)"},
    [CURVES] = {"curves", 0, "[FILE]",
                "draw every layer over the steps (RUN-curves.png)"},
    [BANDS] = {"bands", 0, "[FILE]",
               "draw the share of heads in each band (RUN-bands.png)"},
    [NANS] = {"nans", 0, "[FILE]",
              "draw the count of NaN in every layer (RUN-nans.png)"},
    [FIGURE] = {"figure", 0, "NAME[,NAME...]",
                "draw the figures named: see below (RUN-NAME.png)"},
    [ALL] = {"all", 0, "[DIR]",
             "draw every figure that the runs have the series for, into DIR"},
    [STEP] = {"step", 's', "N",
              "the step to show: a number, first or last "
              "(last)"},
    [SERIES] = {"series", 0, "NAME", "the series to show (entropy)"},
    [PHASE] = {"phase", 0, "PHASE",
               "train or eval (train, or eval where there is no train)"},
    [MAX] = {"max", 0, "POLICY",
             "top of the bands and of the colour scale: observed in all runs, "
             "run (in each), ceiling, logT or a number (observed)"},
    [FORMAT] = {"format", 0, "FORMAT",
                "png, svg or pdf (by FILE's ending, else png)"},
    [SIZE] = {"size", 0, "WxH", "size in pixels of PNG, points of SVG and PDF"},
    [FOR] = {"for", 0, "MEDIUM",
             "the width of a paper's column or page, or of a slide (screen: as "
             "wide as the content wants)"},
    [TITLE] = {"title", 0, "TEXT", "title above the picture"},
    [COLORMAP] = {"colormap", 0, "NAME", "viridis, cividis or magma (viridis)"},
    [THEME] = {"theme", 0, "NAME", "light or dark (light)"},
    [LOG] = {"log", 0, NULL,
             "curves, nans, loss: a logarithmic scale for the values"},
    [SPREAD] = {"spread", 0, "KIND",
                "curves: shade range or quartiles of a layer's heads about "
                "their mean (none)"},
    [HEADS] = {"heads", 0, "LAYER",
               "curves: the heads of one layer instead of the layers"},
    [PERPLEXITY] = {"perplexity", 0, NULL, "loss: perplexity instead of it"},
    [TOKENS] = {"tokens", 0, NULL, "loss: over tokens instead of steps"},
    [COST] = {"cost", 0, "COST",
              "what the figure pareto has across: flops, params, nonlinear or "
              "tokens (flops)"},
    [RECURSIVE] = {"recursive", 'r', NULL,
                   "show the run files (*.db) below the folders given"},
    [WHERE] = {"where", 0, "CONDITIONS",
               "show only runs for which all hold, such as "
               "'arch=SM* flag=collapse eval_ppl<20'"},
    [SORT] =
        {"sort", 0, "FIELD",
         "sort the runs, such as by eval_ppl; falling with a minus before it"},
    [COMPARE] = {"compare", 0, NULL,
                 "hold the runs against each other: settings that differ, "
                 "perplexity, bands, onsets, distances, seeds taken together"},
    [BASELINE] = {"baseline", 0, "FILE",
                  "compare with the run of FILE; implies --compare"},
    [JSON] = {"json", 0, NULL, "print JSON instead of the table"},
    [JSONL] = {"jsonl", 0, NULL,
               "print one line of JSON for each run, as they are read"},
    [CSV] = {"csv", 0, NULL, "print CSV instead of the table"},
    [TUI] = {"tui", 0, NULL,
             "draw the runs on the terminal instead of the table"},
    [FOLLOW] = {"follow", 0, NULL,
                "with --tui: redraw as the runs grow, until they have ended; "
                "q quits, left and right move the step, space goes back to "
                "live, s switches the series, up and down the runs"},
    [QUIET] = {"quiet", 'q', NULL, "print no table, and errors alone"},
    [OUTPUT] = {"output", 'o', "FILE",
                "where to write JSON, CSV, or the one figure that has no FILE "
                "of its own, or else the table (-: standard output); of "
                "several figures the folder"},
    [CHECK] = {"check", 0, NULL,
               "exit 1 if a flag of severity error or above stands"},
    [RULES] = {"rules", 0, "FILE",
               "judge by this file's thresholds and rules (entropy-scan rules "
               "prints one)"},
    [HELP] = ES_HELP_OPTION,
    [VERSION] = {"version", 0, NULL, "print the version and exit"},
};

const es_command es_scan_command = {
    .name = "entropy-scan",
    .synopsis = "RUN.db... [OPTION...]",
    .summary = "attention entropy of training runs",
    .details =
        "Shows run, architecture, step, loss, share of heads in each quarter\n"
        "of the largest entropy, and what is wrong. Several runs share one\n"
        "picture and one colour scale.\n"
        "\n"
        "The figures of --figure:\n"
        "  heatmap     layers by heads at one step\n"
        "  curves      every layer over the steps\n"
        "  delta       heatmap of every run minus the first, or\n"
        "              minus the --baseline\n"
        "  bands       share of heads in each quarter of the largest entropy\n"
        "  thresholds  learnt thresholds, with the layers' mean and variance\n"
        "  nans        NaN and infinities of every layer over the steps\n"
        "  scales      alpha and beta of every layer at one step\n"
        "  slopes      learnable slopes over the steps\n"
        "  loss        train and eval loss of all runs\n"
        "  flops       shares of FFN and attention over context lengths\n"
        "  pareto      perplexity on held-out data against --cost\n"
        "  raster      every layer and every head over the steps, in colours\n"
        "  timeline    flags and events, and what they follow from\n"
        "\n"
        "Results go to standard output, messages to standard error. Exit\n"
        "codes: 0 fine; 1 --check found something; 2 the command line is\n"
        "wrong; 3 an input or output failed; 4 some inputs of several failed,\n"
        "the rest was done; 128+n ended by signal n.",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
};

/* What parsing gathers before the options can be judged together. */
typedef struct gathered {
    es_scan_options *to;
    const char *output;
    bool has_format, json, jsonl, csv, recursive;
    es_format format;
    bool given[N_OPTIONS];
    int picture_option; /* the last one that only a picture needs, or -1 */
} gathered;

static es_status parse_step(int64_t *out, const char *text)
{
    if (strcmp(text, "first") == 0)
        *out = ES_STEP_FIRST;
    else if (strcmp(text, "last") == 0)
        *out = ES_STEP_LAST;
    else if (es_int_parse(out, text, 0, ES_MAX_STEP) != ES_OK)
        return es_fail(ES_EUSAGE, "--step '%.40s': a number, first or last",
                       text);
    return ES_OK;
}

static es_status print_version(void)
{
    puts("entropy-scan " ES_VERSION);
    return ES_DONE;
}

static es_status parse_layer(es_figure_options *to, const char *text)
{
    to->by_head = true;
    if (es_int_parse(&to->layer, text, 0, ES_MAX_LAYERS - 1) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--heads '%.40s': the number of a layer, from 0",
                   text);
}

/* What some figures alone have. */
static es_status take_figure(es_figure_options *to, int option,
                             const char *value)
{
    switch (option) {
    case SPREAD:
        return es_spread_parse(&to->spread, value);
    case HEADS:
        return parse_layer(to, value);
    case LOG:
        to->logarithmic = true;
        return ES_OK;
    case PERPLEXITY:
        to->perplexity = true;
        return ES_OK;
    case TOKENS:
        to->tokens = true;
        return ES_OK;
    default:
        return es_fail(ES_EINTERNAL, "option %d is not handled", option);
    }
}

static es_status take_choice(gathered *g, int option, const char *value)
{
    es_scan_options *to = g->to;
    switch (option) {
    case STEP:
        return parse_step(&to->summary.step, value);
    case SERIES:
        to->summary.series = value;
        return ES_OK;
    case PHASE:
        return es_command_phase(&to->summary.phase, value);
    case MAX:
        return es_max_parse(&to->summary.max, value);
    case RULES:
        es_rules_file_free(&to->rules);
        to->summary.rules = &to->rules;
        return es_rules_file_read(&to->rules, value);
    case WHERE:
        return es_where_parse(&to->where, value);
    case SORT:
        return es_order_parse(&to->order, value);
    case FORMAT:
        g->has_format = true;
        return es_format_parse(&g->format, value);
    case SIZE:
        return es_figures_set_size(&to->figures, value);
    case COLORMAP:
        return es_colormap_parse(&to->figures.colormap, value);
    case FOR:
        return es_medium_parse(&to->figures.medium, value);
    case THEME:
        return es_theme_parse(&to->figures.theme, value);
    case COST:
        return es_cost_parse(&to->figures.cost, value);
    case TITLE:
        to->figures.title = value;
        return ES_OK;
    default:
        return take_figure(&to->figures, option, value);
    }
}

static const es_figure_kind shortcuts[] = {
    [HEATMAP] = ES_FIGURE_HEATMAP,
    [CURVES] = ES_FIGURE_CURVES,
    [BANDS] = ES_FIGURE_BANDS,
    [NANS] = ES_FIGURE_NANS,
};

static es_status take(void *user, int option, const char *value)
{
    gathered *g = user;
    es_scan_options *to = g->to;
    if (option >= FORMAT && option <= COST)
        g->picture_option = option;
    if (option >= 0)
        g->given[option] = true;
    switch (option) {
    case ES_OPTION_ARGUMENT:
        to->inputs[to->n_inputs++] = (char *)(uintptr_t)value;
        break;
    case HEATMAP:
    case CURVES:
    case BANDS:
    case NANS:
        es_figures_want_one(&to->figures, shortcuts[option], value);
        break;
    case FIGURE:
        return es_figures_want(&to->figures, value);
    case ALL:
        es_figures_want_all(&to->figures, value);
        break;
    case RECURSIVE:
        g->recursive = true;
        break;
    case BASELINE:
        to->baseline = value;
        to->compare = true;
        break;
    case COMPARE:
        to->compare = true;
        break;
    case JSON:
        g->json = true;
        break;
    case JSONL:
        g->jsonl = true;
        break;
    case CSV:
        g->csv = true;
        break;
    case TUI:
        to->tui = true;
        break;
    case FOLLOW:
        to->follow = true;
        break;
    case QUIET:
        to->quiet = true;
        break;
    case OUTPUT:
        g->output = value;
        break;
    case CHECK:
        to->check = true;
        break;
    case HELP:
        return es_command_help(&es_scan_command);
    case VERSION:
        return print_version();
    default:
        return take_choice(g, option, value);
    }
    return ES_OK;
}

/* --- judging the options together -----------------------------------------*/

/* A first word that is neither a file nor a verb is probably a wrong verb. */
static es_status check_inputs(const es_scan_options *to)
{
    if (!to->n_inputs)
        return es_fail(ES_EUSAGE,
                       "no run file: entropy-scan RUN.db, or see entropy-scan "
                       "--help");
    const char *first = to->inputs[0];
    if (!strpbrk(first, "./") && access(first, F_OK) != 0)
        return es_fail(ES_EUSAGE,
                       "%s: neither a file nor a verb: see "
                       "entropy-scan --help",
                       first);
    return ES_OK;
}

/* The terminal has room for one drawing, and no file takes it. */
static es_status check_tui(const gathered *g)
{
    const es_scan_options *to = g->to;
    if (to->follow && !to->tui)
        return es_fail(ES_EUSAGE, "--follow is for --tui: add it");
    if (to->tui && (g->json || g->jsonl || g->csv || g->output || to->quiet ||
                    to->compare || es_figures_any(&to->figures)))
        return es_fail(ES_EUSAGE, "--tui draws on the terminal and writes "
                                  "nothing else: leave out the other outputs");
    if (to->tui && (to->where.n || to->order.given))
        return es_fail(ES_EUSAGE, "--tui draws all runs, in the order that "
                                  "they are named: leave out --where, --sort");
    return ES_OK;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* A baseline that is none of the inputs becomes the last one. */
static void place_baseline(es_scan_options *to)
{
    size_t i = 0;
    if (!to->baseline)
        return;
    while (i < to->n_inputs && !is_same_file(to->inputs[i], to->baseline))
        i++;
    to->baseline_input = i;
    to->baseline_added = i == to->n_inputs;
    if (to->baseline_added) /* its own argument left room for it */
        to->inputs[to->n_inputs++] = (char *)(uintptr_t)to->baseline;
}

/* Where the baseline is among the files found; once, if it was added. */
static void find_baseline(es_scan_options *to)
{
    size_t i = 0;
    if (!to->baseline)
        return;
    while (i + 1 < to->n_inputs && !is_same_file(to->inputs[i], to->baseline))
        i++;
    to->baseline_input = i;
    if (!to->baseline_added || i + 1 == to->n_inputs)
        return;
    to->baseline_added = false;
    free(to->found.paths[--to->found.n]);
    to->n_inputs = to->found.n;
}

static es_status choose_text(gathered *g)
{
    if (g->json + g->jsonl + g->csv > 1)
        return es_fail(ES_EUSAGE, "--json, --jsonl and --csv exclude each "
                                  "other");
    if (g->json && g->csv)
        return es_fail(ES_EUSAGE, "--json and --csv exclude each other");
    if (g->to->compare && (g->csv || g->jsonl))
        return es_fail(ES_EUSAGE,
                       "--compare prints tables or --json, nothing else");
    g->to->text = g->json        ? ES_TEXT_JSON
                  : g->jsonl     ? ES_TEXT_JSON_LINES
                  : g->csv       ? ES_TEXT_CSV
                  : g->to->quiet ? ES_TEXT_NONE
                                 : ES_TEXT_TABLE;
    return ES_OK;
}

/* -o belongs to JSON and CSV; else to the figures without a name, if there
   are any; else to the table. */
static es_status place_output(gathered *g)
{
    es_scan_options *to = g->to;
    if (!g->output)
        return ES_OK;
    if (!g->json && !g->jsonl && !g->csv &&
        es_figures_place(&to->figures, g->output))
        return ES_OK;
    if (to->text == ES_TEXT_NONE)
        return es_fail(ES_EUSAGE,
                       "-o %s: --quiet leaves nothing to write "
                       "there",
                       g->output);
    to->text_file = g->output;
    return ES_OK;
}

static es_status check_different(const char *a, const char *b)
{
    if (!a || !b || strcmp(a, b) != 0)
        return ES_OK;
    return es_fail(ES_EUSAGE, "%s: two outputs of one name",
                   strcmp(a, "-") == 0 ? "standard output" : a);
}

/* A table gives way to a picture on standard output. */
static void drop_table(es_scan_options *to)
{
    for (int i = 0; i < ES_N_FIGURES; i++)
        if (to->text == ES_TEXT_TABLE && to->figures.pictures[i].file &&
            strcmp(to->figures.pictures[i].file, "-") == 0 &&
            strcmp(to->text_file, "-") == 0)
            to->text = ES_TEXT_NONE;
}

/* No two outputs in one place, none in an input's. */
static es_status check_places(const es_scan_options *to)
{
    const char *places[ES_N_FIGURES + 1] = {0};
    es_status status = ES_OK;
    for (int i = 0; i < ES_N_FIGURES; i++)
        places[i] = to->figures.pictures[i].file;
    if (to->text != ES_TEXT_NONE)
        places[ES_N_FIGURES] = to->text_file;
    for (int i = 0; i <= ES_N_FIGURES; i++) {
        for (int j = 0; j < i && status == ES_OK; j++)
            status = check_different(places[i], places[j]);
        if (status == ES_OK && places[i])
            status = es_output_check_text(places[i], to->inputs, to->n_inputs);
    }
    return status;
}

/* An option that none of the figures asked for has is a mistake. */
static es_status check_users(const gathered *g)
{
    static const struct {
        int option;
        const char *names;
        es_figure_kind figures[3];
        size_t n;
    } users[] = {
        {SPREAD, "curves", {ES_FIGURE_CURVES}, 1},
        {HEADS, "curves", {ES_FIGURE_CURVES}, 1},
        {PERPLEXITY, "loss", {ES_FIGURE_LOSS}, 1},
        {TOKENS, "loss", {ES_FIGURE_LOSS}, 1},
        {COST, "pareto", {ES_FIGURE_PARETO}, 1},
        {LOG,
         "curves, nans or loss",
         {ES_FIGURE_CURVES, ES_FIGURE_NANS, ES_FIGURE_LOSS},
         3},
    };
    const es_picture_request *pictures = g->to->figures.pictures;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        bool used = !g->given[users[i].option];
        for (size_t k = 0; k < users[i].n; k++)
            used = used || pictures[users[i].figures[k]].wanted;
        if (!used)
            return es_fail(ES_EUSAGE, "--%s is for --figure %s",
                           table[users[i].option].name, users[i].names);
    }
    if (g->given[SPREAD] && g->given[HEADS])
        return es_fail(ES_EUSAGE, "--spread and --heads exclude each other");
    return ES_OK;
}

static es_status judge(gathered *g)
{
    es_scan_options *to = g->to;
    es_status status = check_inputs(to);
    if (status == ES_OK)
        status = check_tui(g);
    if (status == ES_OK) {
        place_baseline(to);
        status = choose_text(g);
    }
    if (status == ES_OK)
        status = place_output(g);
    if (status == ES_OK)
        status = es_figures_set_format(&to->figures,
                                       g->has_format ? &g->format : NULL);
    if (status == ES_OK && g->picture_option >= 0 &&
        !es_figures_any(&to->figures) &&
        !(to->tui && g->picture_option == COLORMAP))
        return es_fail(ES_EUSAGE,
                       "--%s is for a picture: add --heatmap, --curves or "
                       "--figure",
                       table[g->picture_option].name);
    if (status == ES_OK)
        status = check_users(g);
    if (status == ES_OK) {
        drop_table(to);
        status = check_places(to);
    }
    if (status == ES_OK)
        status = es_summary_options_check(&to->summary);
    return status;
}

/* Folders become the run files below them. */
static es_status find_inputs(es_scan_options *to)
{
    es_status status = es_paths_expand(&to->found, &to->n_unreadable,
                                       to->inputs, to->n_inputs);
    if (status != ES_OK)
        return status;
    free(to->inputs);
    to->inputs = to->found.paths;
    to->n_inputs = to->found.n;
    find_baseline(to);
    return ES_OK;
}

es_status es_scan_options_parse(es_scan_options *out, int argc, char **argv)
{
    gathered g = {.to = out, .picture_option = -1};
    *out = (es_scan_options){.text_file = "-"};
    es_summary_options_default(&out->summary);
    out->inputs = calloc((size_t)argc, sizeof *out->inputs);
    if (!out->inputs)
        return es_fail(ES_ENOMEM, "out of memory for %d arguments", argc);
    es_status status = es_options_parse(&es_scan_command, argc, argv, take, &g);
    if (status == ES_OK)
        status = judge(&g);
    return status == ES_OK && g.recursive ? find_inputs(out) : status;
}

void es_scan_options_free(es_scan_options *options)
{
    if (options->inputs != options->found.paths)
        free(options->inputs);
    es_rules_file_free(&options->rules);
    es_paths_free(&options->found);
}
