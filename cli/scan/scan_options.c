#include "cli/scan/scan_internal.h"

#include "analyzer/base/text.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const es_option es_scan_table[] = {
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
               "print one line of JSON for each run, as they are read (then "
               "--max is run by default)"},
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
    [SALVAGE] = ES_SALVAGE_OPTION,
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
        "The figures of --figure:\n" ES_FIGURES_HELP "\n"
        "A sample whose checksum is wrong is shown as a missing value, and\n"
        "the exit code is 3. Files of older versions (schema 1) have no\n"
        "checksums: --json says which.\n"
        "\n"
        "JSON has \"schema\":2: the step at which a flag was reported is\n"
        "\"reported\", which schema 1 called \"told\".\n"
        "\n"
        "Results go to standard output, messages to standard error. Exit\n"
        "codes: 0 fine; 1 --check found something; 2 the command line is\n"
        "wrong; 3 an input or output failed; 4 some inputs of several failed,\n"
        "the rest was done; 128+n ended by signal n.",
    .options = es_scan_table,
    .n_options = sizeof es_scan_table / sizeof es_scan_table[0],
};

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

static es_status take_choice(es_scan_gathered *g, int option, const char *value)
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

/* What an option without a value sets; NULL: it does another thing. */
static bool *switch_of(es_scan_gathered *g, int option)
{
    switch (option) {
    case RECURSIVE:
        return &g->recursive;
    case COMPARE:
        return &g->to->compare;
    case JSON:
        return &g->json;
    case JSONL:
        return &g->jsonl;
    case CSV:
        return &g->csv;
    case TUI:
        return &g->to->tui;
    case FOLLOW:
        return &g->to->follow;
    case QUIET:
        return &g->to->quiet;
    case CHECK:
        return &g->to->check;
    default:
        return NULL;
    }
}

static es_status take(void *user, int option, const char *value)
{
    es_scan_gathered *g = user;
    es_scan_options *to = g->to;
    bool *is_on = switch_of(g, option);
    if (option >= FORMAT && option <= COST)
        g->picture_option = option;
    if (option >= 0)
        g->given[option] = true;
    if (is_on) {
        *is_on = true;
        return ES_OK;
    }
    switch (option) {
    case ES_OPTION_ARGUMENT:
        to->inputs[to->n_inputs++] = (char *)(uintptr_t)value;
        return ES_OK;
    case HEATMAP:
    case CURVES:
    case BANDS:
    case NANS:
        es_figures_want_one(&to->figures, shortcuts[option], value);
        return ES_OK;
    case FIGURE:
        return es_figures_want(&to->figures, value);
    case ALL:
        es_figures_want_all(&to->figures, value);
        return ES_OK;
    case BASELINE:
        to->baseline = value;
        to->compare = true;
        return ES_OK;
    case OUTPUT:
        g->output = value;
        return ES_OK;
    case SALVAGE:
        es_damage_accept();
        return ES_OK;
    case HELP:
        return es_command_help(&es_scan_command);
    case VERSION:
        return print_version();
    default:
        return take_choice(g, option, value);
    }
}

es_status es_scan_options_parse(es_scan_options *out, int argc, char **argv)
{
    es_scan_gathered g = {.to = out, .picture_option = -1};
    *out = (es_scan_options){.text_file = "-"};
    es_summary_options_default(&out->summary);
    out->inputs = calloc((size_t)argc, sizeof *out->inputs);
    if (!out->inputs)
        return es_fail(ES_ENOMEM, "out of memory for %d arguments", argc);
    es_status status = es_options_parse(&es_scan_command, argc, argv, take, &g);
    return status == ES_OK ? es_scan_judge(&g) : status;
}

void es_scan_options_free(es_scan_options *options)
{
    if (options->inputs != options->found.paths)
        free(options->inputs);
    es_rules_file_free(&options->rules);
    es_paths_free(&options->found);
}
