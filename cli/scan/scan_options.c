/*
 * The options of a scan, entropy-scan RUN.db..., its command line, and what
 * they mean together: what excludes what, which output goes where, which files
 * are meant.
 */
#include "cli/scan/scan.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/output/output.h"
#include "cli/program/command.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

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

/* Tags: the figures that have an option, and that it is for pictures alone. */
#define PICTURE (1u << 31)
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
     "draw the figures named: see below (RUN-NAME.png); NAME+NAME...: on one "
     "page, aligned",
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
     ES_OPT_INT(es_scan_options, n_processes, 1, 256)},
    {"where", 0, "CONDITIONS",
     "show only runs for which all hold, such as 'arch=SM* flag=collapse "
     "lr<0.01': fields, and members of the configuration",
     ES_OPT_CALL(es_scan_options, where, read_where)},
    {"sort", 0, "FIELD",
     "sort the runs, such as by eval_ppl or lr; falling with a minus before it",
     ES_OPT_CALL(es_scan_options, order, read_order)},
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
     ES_OPT_FLAG(es_scan_options, json)},
    {"jsonl", 0, NULL,
     "print one line of JSON for each run, as they are read (then --max is "
     "run by default)",
     ES_OPT_FLAG(es_scan_options, jsonl)},
    {"csv", 0, NULL, "print CSV instead of the table",
     ES_OPT_FLAG(es_scan_options, csv)},
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
     ES_OPT_FLAG(es_scan_options, quiet)},
    {"output", 'o', "FILE",
     "where to write JSON, CSV, or the one figure that has no FILE of its "
     "own, or else the table (-: standard output); of several figures the "
     "folder, or a PDF that has them as pages",
     ES_OPT_TEXT(es_scan_options, output)},
    {"check", 0, "[SEVERITY]",
     "exit 1 if a flag of this severity or above stands: info, warning, error "
     "or critical (error)",
     ES_OPT_CALL(es_scan_options, check, es_command_severity)},
    {"check-format", 0, "FORMAT",
     "with --check: github prints, in place of the table, an annotation for "
     "each run in which something stands, as GitHub Actions reads it (table)",
     ES_OPT_CHOICE(es_scan_options, check_format, check_formats)},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(es_scan_options, rules, es_command_rules)},
    {"forecast", 0, "[stop]", ES_FORECAST_HELP,
     ES_OPT_CALL(es_scan_options, forecast, es_command_forecast)},
    ES_SALVAGE_OPTION,
    ES_COLOR_OPTION,
    ES_HELP_OPTION,
    {"version", 'V', NULL,
     "print the version, and those of the libraries, and exit",
     .type = ES_OPTION_END},
};

static int scan_main(int argc, char **argv)
{
    es_scan_options given;
    es_status status = es_scan_options_parse(&given, argc, argv);
    int code = status == ES_OK ? es_scan_run(&given) : es_command_exit(status);
    es_scan_options_free(&given);
    return code;
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
    es_rules_file_default(&out->rules);
    es_status status = es_options_default(out, &es_scan_command);
    return status == ES_OK
               ? es_alloc(&out->inputs, n_inputs, sizeof *out->inputs, "inputs")
               : status;
}

/* --- taken together -------------------------------------------------------*/

static bool has(const es_scan_options *options, const char *name)
{
    return es_options_has(&es_scan_command, options->given, name);
}

/* A baseline outside the inputs becomes the last one. */
static void place_baseline(es_scan_options *to)
{
    size_t i = 0;
    if (!to->baseline)
        return;
    while (i < to->n_inputs && !es_path_is_same(to->inputs[i], to->baseline))
        i++;
    to->baseline_input = i;
    to->baseline_added = i == to->n_inputs;
    if (to->baseline_added) /* in the place of its own argument */
        to->inputs[to->n_inputs++] = (char *)(uintptr_t)to->baseline;
}

static es_status choose_text(es_scan_options *to)
{
    if (to->json + to->jsonl + to->csv > 1)
        return es_fail(ES_EUSAGE, "--json, --jsonl and --csv exclude each "
                                  "other");
    if (to->compare && (to->csv || to->jsonl))
        return es_fail(ES_EUSAGE,
                       "--compare prints tables or --json, nothing else");
    if (to->check_format && (to->json || to->jsonl || to->csv || to->compare))
        return es_fail(ES_EUSAGE, "--check-format github takes the place of "
                                  "the table: leave out the other outputs");
    if (to->trends && (to->csv || to->jsonl || to->check_format || to->tui))
        return es_fail(ES_EUSAGE,
                       "--trends is for the table, --json or --curves");
    to->figures.trends = to->trends;
    if (to->check_format && !to->check)
        return es_fail(ES_EUSAGE, "--check-format is for --check: add it");
    to->text = to->check_format ? ES_TEXT_GITHUB
               : to->json       ? ES_TEXT_JSON
               : to->jsonl      ? ES_TEXT_JSON_LINES
               : to->csv        ? ES_TEXT_CSV
               : to->quiet      ? ES_TEXT_NONE
                                : ES_TEXT_TABLE;
    return ES_OK;
}

/* -o belongs to JSON and CSV; else to the figures without a name, if there
   are any; else to the table. */
static es_status place_output(es_scan_options *to)
{
    es_format format;
    if (!to->output)
        return ES_OK;
    if (!to->json && !to->jsonl && !to->csv &&
        es_figures_place(&to->figures, to->output))
        return to->figures.folder == to->output &&
                       es_format_of_path(&format, to->output) &&
                       !es_path_is_folder(to->output)
                   ? es_fail(ES_EUSAGE,
                             "-o %s: of several figures: name a folder, or a "
                             ".pdf that has them as pages, or --figure a+b",
                             to->output)
                   : ES_OK;
    if (to->text == ES_TEXT_NONE)
        return es_fail(ES_EUSAGE,
                       "-o %s: --quiet leaves nothing to write "
                       "there",
                       to->output);
    to->text_file = to->output;
    return ES_OK;
}

/* A table gives way to a picture on standard output; no two outputs in one
   place, none in an input's. */
static es_status check_places(es_scan_options *to)
{
    const char *places[ES_N_PICTURES + 2];
    es_status status;
    for (int i = 0; i < ES_N_PICTURES; i++) {
        places[i] = to->figures.pictures[i].file;
        if (to->text == ES_TEXT_TABLE && places[i] &&
            strcmp(places[i], "-") == 0 && strcmp(to->text_file, "-") == 0)
            to->text = ES_TEXT_NONE;
    }
    places[ES_N_PICTURES] = to->text != ES_TEXT_NONE ? to->text_file : NULL;
    places[ES_N_PICTURES + 1] = to->figures.document;
    for (int i = 0; i <= ES_N_PICTURES + 1; i++) {
        for (int j = 0; j < i; j++)
            if (places[i] && places[j] && strcmp(places[i], places[j]) == 0)
                return es_fail(ES_EUSAGE, "%s: two outputs of one name",
                               strcmp(places[i], "-") == 0 ? "standard output"
                                                           : places[i]);
        if (places[i] && (status = es_output_check_text(places[i], to->inputs,
                                                        to->n_inputs)) != ES_OK)
            return status;
    }
    return ES_OK;
}

/* An option that none of the figures drawn has is a mistake. */
static es_status check_users(const es_scan_options *to)
{
    char names[128];
    unsigned drawn = 0;
    for (int i = 0; i < ES_N_FIGURES; i++)
        drawn |=
            es_figure_is_drawn(&to->figures, (es_figure_kind)i) ? 1u << i : 0;
    for (size_t i = 0; i < es_scan_command.n_options; i++) {
        const es_option *option = &es_scan_command.options[i];
        const unsigned figures = option->tags & ~PICTURE;
        es_text list = es_text_begin(names, sizeof names);
        if (!to->given[i] || !option->tags)
            continue;
        if (!drawn && !(to->tui && strcmp(option->name, "colormap") == 0))
            return es_fail(ES_EUSAGE,
                           "--%s is for a picture: add --heatmap, --curves or "
                           "--figure",
                           option->name);
        for (int k = 0; k < ES_N_FIGURES; k++) { /* "curves, nans or loss" */
            unsigned later = figures & ~((2u << k) - 1);
            if (figures & (1u << k))
                es_text_append(&list, "%s%s", es_figure_name((es_figure_kind)k),
                               !later                ? ""
                               : later & (later - 1) ? ", "
                                                     : " or ");
        }
        if (figures && !(figures & drawn))
            return es_fail(ES_EUSAGE, "--%s is for --figure %s", option->name,
                           names);
    }
    es_status status = es_figures_check_group(&to->figures);
    if (status < 0)
        return status;
    if (to->figures.group != ES_GROUP_NONE &&
        to->figures.spread != ES_SPREAD_NONE)
        return es_fail(ES_EUSAGE, "--spread and --group exclude each other: "
                                  "one range is shaded");
    if (has(to, "spread") && has(to, "heads"))
        return es_fail(ES_EUSAGE, "--spread and --heads exclude each other");
    return ES_OK;
}

/* Folders become the run files below them; a baseline that was added and is
   one of them comes once. */
static es_status find_inputs(es_scan_options *to)
{
    size_t i = 0;
    es_status status = es_inputs_expand(&to->inputs, &to->n_inputs, &to->found,
                                        &to->n_unreadable);
    if (status != ES_OK || !to->found.n)
        return status;
    if (!to->baseline)
        return ES_OK;
    while (i + 1 < to->n_inputs &&
           !es_path_is_same(to->inputs[i], to->baseline))
        i++;
    to->baseline_input = i;
    if (!to->baseline_added || i + 1 == to->n_inputs)
        return ES_OK;
    to->baseline_added = false;
    free(to->found.paths[--to->found.n]);
    to->n_inputs = to->found.n;
    return ES_OK;
}

static bool is_absent(const char *path)
{
    return access(path, F_OK) != 0 && errno == ENOENT;
}

/* What people try first, and what does it. */
static const char *const verbs_of_others[][2] = {
    {"show", "entropy-scan RUN.db"},
    {"view", "entropy-scan RUN.db"},
    {"ls", "entropy-scan DIR"},
    {"list", "entropy-scan DIR"},
    {"compare", "entropy-scan A.db B.db --compare"},
    {"diff", "entropy-scan A.db B.db --compare"},
    {"check", "entropy-scan RUN.db --check"},
    {"plot", "entropy-scan RUN.db --figure NAME"},
    {"figure", "entropy-scan RUN.db --figure NAME"},
    {"heatmap", "entropy-scan RUN.db --heatmap"},
    {"curves", "entropy-scan RUN.db --curves"},
    {"tui", "entropy-scan RUN.db --tui"},
    {"top", "entropy-scan RUN.db --tui --follow"},
    {"version", "entropy-scan --version"},
    {"query", "entropy-scan sql RUN.db 'SELECT ...'"},
    {"train", "entropy-train --data FILE -o RUN.db"},
    {"probe", "entropy-train probe"},
    {"bench", "entropy-train bench"}};

/* A first word that is neither a file nor a verb is probably a wrong verb. */
static es_status check_first(const char *word)
{
    if (strpbrk(word, "./") || !is_absent(word))
        return ES_OK;
    for (size_t i = 0; i < sizeof verbs_of_others / sizeof *verbs_of_others;
         i++)
        if (strcmp(word, verbs_of_others[i][0]) == 0)
            return es_fail(ES_EUSAGE,
                           "%s: neither a file nor a verb: did you mean %s?",
                           word, verbs_of_others[i][1]);
    const char *verb = es_program_nearest(&es_scan_program, word);
    return verb ? es_fail(ES_EUSAGE,
                          "%s: neither a file nor a verb: did you mean %s?",
                          word, verb)
                : es_fail(ES_EUSAGE,
                          "%s: neither a file nor a verb: see "
                          "entropy-scan --help",
                          word);
}

/* "--heatmap x.png": before a picture of another name is written. */
static es_status check_picture_names(const es_scan_options *to)
{
    const es_option *picture = NULL;
    for (size_t i = 0; !picture && i < sizeof table / sizeof *table; i++)
        if (table[i].read == read_picture && to->given[i] &&
            !to->figures.pictures[table[i].least].file)
            picture = &table[i];
    for (size_t i = 0; es_figures_any(&to->figures) && i < to->n_inputs; i++) {
        const char *name = to->inputs[i];
        es_format format;
        if (es_format_of_path(&format, name) && is_absent(name))
            return es_fail(ES_EUSAGE,
                           "%s: no such file: did you mean %s%s%s%s?", name,
                           picture ? "--" : "-o", picture ? picture->name : "",
                           picture ? "=" : " ", name);
    }
    return ES_OK;
}

es_status es_scan_judge(es_scan_options *to)
{
    es_status status;
    /* The terminal has space for one drawing, and no file takes it. */
    if (!to->n_inputs)
        return es_fail(ES_EUSAGE,
                       "no run file: entropy-scan RUN.db, or see entropy-scan "
                       "--help");
    if ((status = check_first(to->inputs[0])) != ES_OK ||
        (status = check_picture_names(to)) != ES_OK)
        return status;
    if (to->tui && to->check_format)
        return es_fail(ES_EUSAGE, "--check-format is for text: leave out "
                                  "--tui");
    if (to->follow && !to->tui)
        return es_fail(ES_EUSAGE, "--follow is for --tui: add it");
    if (to->tui && (to->json || to->jsonl || to->csv || to->output ||
                    to->quiet || to->compare || es_figures_any(&to->figures)))
        return es_fail(ES_EUSAGE, "--tui draws on the terminal and writes "
                                  "nothing else: leave out the other outputs");
    if (to->tui && (to->where.n || to->order.given))
        return es_fail(ES_EUSAGE, "--tui draws all runs, in the order that "
                                  "they are named: leave out --where, --sort");

    place_baseline(to);
    if ((status = choose_text(to)) != ES_OK)
        return status;
    /* A line is printed when its run is read, before the others are seen. */
    if (to->jsonl && !has(to, "max") && !es_figures_any(&to->figures))
        to->summary.max.policy = ES_MAX_RUN;
    if ((status = place_output(to)) != ES_OK ||
        (status = es_figures_set_format(
             &to->figures, has(to, "format") ? &to->format : NULL)) != ES_OK ||
        (status = check_users(to)) != ES_OK ||
        (status = check_places(to)) != ES_OK ||
        (status = es_summary_options_check(&to->summary)) != ES_OK)
        return status;
    return find_inputs(to);
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
    if (has(out, "rules") || out->forecast)
        out->summary.rules = &out->rules;
    status = es_rules_file_add_forecast(&out->rules, out->forecast);
    return status == ES_OK ? es_scan_judge(out) : status;
}

void es_scan_options_free(es_scan_options *options)
{
    es_inputs_free(options->inputs, &options->found);
    es_rules_file_free(&options->rules);
}
