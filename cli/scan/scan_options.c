/*
 * The options of a scan, entropy-scan RUN.db..., and its command line. What
 * they mean together is judged in scan_judge.c.
 */
#include "cli/scan/scan_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/program/command.h"

#include <stdlib.h>
#include <string.h>

/* --- readers --------------------------------------------------------------*/

static es_status read_step(void *field, const es_option *option,
                           const char *value, const char *where)
{
    int64_t *step = field;
    (void)option, (void)where;
    if (strcmp(value, "first") == 0)
        *step = ES_STEP_FIRST;
    else if (strcmp(value, "last") == 0)
        *step = ES_STEP_LAST;
    else if (es_int_parse(step, value, 0, ES_MAX_STEP) != ES_OK)
        return es_fail(ES_EUSAGE, "--step '%.40s': a number, first or last",
                       value);
    return ES_OK;
}

static es_status read_heads(void *field, const es_option *option,
                            const char *value, const char *where)
{
    es_figure_options *figures = field;
    (void)option, (void)where;
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

static es_status read_all(void *field, const es_option *option,
                          const char *value, const char *where)
{
    (void)option, (void)where;
    es_figures_want_all(field, value);
    return ES_OK;
}

ES_OPTION_READER(read_figures, es_figures_want)
ES_OPTION_READER(read_size, es_figures_set_size)
ES_OPTION_READER(read_max, es_max_parse)
ES_OPTION_READER(read_format, es_format_parse)
ES_OPTION_READER(read_colormap, es_colormap_parse)
ES_OPTION_READER(read_theme, es_theme_parse)
ES_OPTION_READER(read_where, es_where_parse)
ES_OPTION_READER(read_order, es_order_parse)

/* --- the table ------------------------------------------------------------*/

/* In the order of es_medium, es_heads_spread and es_cost. */
static const char *const media[] = {"screen", "column", "page", "slide", NULL};
static const char *const spreads[] = {"none", "range", "quartiles", NULL};
static const char *const costs[] = {"flops", "params", "nonlinear", "tokens",
                                    NULL};

#define PICTURE ES_SCAN_PICTURE
#define OF(figure) (1u << ES_FIGURE_##figure)
#define FIGURE_OF(figure)                                                      \
    ES_OPT_CALL(es_scan_options, figures, read_picture),                       \
        .least = ES_FIGURE_##figure

static const es_option table[] = {
    {.name = NULL, ES_OPT_LIST(es_scan_options, inputs, n_inputs)},
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
     "draw the figures named: see below (RUN-NAME.png)",
     ES_OPT_CALL(es_scan_options, figures, read_figures)},
    {"all", 0, "[DIR]",
     "draw every figure that the runs have the series for, into DIR",
     ES_OPT_CALL(es_scan_options, figures, read_all)},
    {"step", 's', "N", "the step to show: a number, first or last",
     ES_OPT_CALL(es_scan_options, summary.step, read_step), .value = "last"},
    {"series", 0, "NAME", "the series to show",
     ES_OPT_TEXT(es_scan_options, summary.series), .value = "entropy"},
    {"phase", 0, "PHASE",
     "train or eval (train, or eval where there is no train)",
     ES_OPT_CALL(es_scan_options, summary.phase, es_command_phase)},
    {"max", 0, "POLICY",
     "top of the bands and of the colour scale: observed in all runs, run (in "
     "each), ceiling, logT or a number (observed)",
     ES_OPT_CALL(es_scan_options, summary.max, read_max)},
    {"format", 0, "FORMAT", "png, svg or pdf (by FILE's ending, else png)",
     ES_OPT_CALL(es_scan_options, format, read_format), .tags = PICTURE},
    {"size", 0, "WxH", "size in pixels of PNG, points of SVG and PDF",
     ES_OPT_CALL(es_scan_options, figures, read_size), .tags = PICTURE},
    {"for", 0, "MEDIUM",
     "the width of a paper's column or page, or of a slide (screen: as wide "
     "as the content wants)",
     ES_OPT_CHOICE(es_scan_options, figures.medium, media),
     .expects = "screen, column, page or slide", .tags = PICTURE},
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
    {"heads", 0, "LAYER",
     "curves: the heads of one layer instead of the layers",
     ES_OPT_CALL(es_scan_options, figures, read_heads),
     .tags = PICTURE | OF(CURVES)},
    {"perplexity", 0, NULL, "loss: perplexity instead of it",
     ES_OPT_FLAG(es_scan_options, figures.perplexity),
     .tags = PICTURE | OF(LOSS)},
    {"tokens", 0, NULL, "loss: over tokens instead of steps",
     ES_OPT_FLAG(es_scan_options, figures.tokens), .tags = PICTURE | OF(LOSS)},
    {"cost", 0, "COST",
     "what the figure pareto has across: flops, params, nonlinear or tokens",
     ES_OPT_CHOICE(es_scan_options, figures.cost, costs),
     .expects = "flops, params, nonlinear or tokens",
     .tags = PICTURE | OF(PARETO), .value = "flops"},
    {"recursive", 'r', NULL,
     "show the run files (*.db) below the folders given",
     ES_OPT_FLAG(es_scan_options, recursive)},
    {"where", 0, "CONDITIONS",
     "show only runs for which all hold, such as 'arch=SM* flag=collapse "
     "eval_ppl<20'",
     ES_OPT_CALL(es_scan_options, where, read_where)},
    {"sort", 0, "FIELD",
     "sort the runs, such as by eval_ppl; falling with a minus before it",
     ES_OPT_CALL(es_scan_options, order, read_order)},
    {"compare", 0, NULL,
     "hold the runs against each other: settings that differ, perplexity, "
     "bands, onsets, distances, seeds taken together",
     ES_OPT_FLAG(es_scan_options, compare)},
    {"baseline", 0, "FILE", "compare with the run of FILE; implies --compare",
     ES_OPT_TEXT(es_scan_options, baseline)},
    {"json", 0, NULL, "print JSON instead of the table",
     ES_OPT_FLAG(es_scan_options, json)},
    {"jsonl", 0, NULL,
     "print one line of JSON for each run, as they are read (then --max is "
     "run by default)",
     ES_OPT_FLAG(es_scan_options, jsonl)},
    {"csv", 0, NULL, "print CSV instead of the table",
     ES_OPT_FLAG(es_scan_options, csv)},
    {"tui", 0, NULL, "draw the runs on the terminal instead of the table",
     ES_OPT_FLAG(es_scan_options, tui)},
    {"follow", 0, NULL,
     "with --tui: redraw as the runs grow, until they have ended; q quits, "
     "left and right move the step, space goes back to live, s switches the "
     "series, up and down the runs",
     ES_OPT_FLAG(es_scan_options, follow)},
    {"quiet", 'q', NULL, "print no table, and errors alone",
     ES_OPT_FLAG(es_scan_options, quiet)},
    {"output", 'o', "FILE",
     "where to write JSON, CSV, or the one figure that has no FILE of its "
     "own, or else the table (-: standard output); of several figures the "
     "folder",
     ES_OPT_TEXT(es_scan_options, output)},
    {"check", 0, NULL, "exit 1 if a flag of severity error or above stands",
     ES_OPT_FLAG(es_scan_options, check)},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(es_scan_options, rules, es_command_rules)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
    {"version", 0, NULL, "print the version and exit", .type = ES_OPTION_END},
};

static int scan_main(int argc, char **argv)
{
    es_scan_options given;
    es_status status = es_scan_options_parse(&given, argc, argv);
    int code = status == ES_OK ? es_scan_run(&given) : es_command_exit(status);
    es_scan_options_free(&given);
    return code;
}

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
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .main = scan_main,
};

es_status es_scan_options_default(es_scan_options *out, size_t n_inputs)
{
    *out = (es_scan_options){.text_file = "-"};
    es_summary_options_default(&out->summary);
    es_status status = es_options_default(out, &es_scan_command);
    return status == ES_OK
               ? es_alloc(&out->inputs, n_inputs, sizeof *out->inputs, "inputs")
               : status;
}

es_status es_scan_options_parse(es_scan_options *out, int argc, char **argv)
{
    es_status status = es_scan_options_default(out, (size_t)argc);
    if (status != ES_OK ||
        (status = es_command_parse(out, out->given, &es_scan_command, argc,
                                   argv)) != ES_OK)
        return status;
    if (out->baseline)
        out->compare = true;
    if (es_options_has(&es_scan_command, out->given, "rules"))
        out->summary.rules = &out->rules;
    return es_scan_judge(out);
}

void es_scan_options_free(es_scan_options *options)
{
    if (options->inputs != options->found.paths)
        free(options->inputs);
    es_rules_file_free(&options->rules);
    es_paths_free(&options->found);
}
