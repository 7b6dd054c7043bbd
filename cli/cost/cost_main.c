/* entropy-scan cost: shows the cost of private inference for runs or
 * architectures, as a table, JSON or a figure. */
#include "cli/cost/cost.h"

#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/tree.h"
#include "cli/terminal/figure.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ES_OPTION_READER(read_size, es_figures_set_size)
ES_OPTION_READER(read_theme, es_theme_parse)
ES_OPTION_READER(read_format, es_format_parse)

static const char *const figures[] = {
    [ES_COST_OF_FLOPS] = "flops",
    [ES_COST_OF_COMMUNICATION] = "communication",
    [ES_COST_OF_LATENCY] = "latency",
    [ES_COST_OF_PERPLEXITY] = "perplexity",
    [ES_COST_OF_INVERSE] = "inverse",
    [ES_COST_OF_WEIGHTS] = "weights"};

/* Reads the name of a figure, or names that are joined by plus signs. */
static es_status read_figures(void *field, const es_option *option,
                              const char *value, const char *where)
{
    es_cost_options *to = field;
    (void)option;
    to->n_figures = 0;
    for (const char *name = value;; name++) {
        const size_t n = strcspn(name, "+");
        size_t i = 0;
        while (i < sizeof figures / sizeof *figures &&
               (strlen(figures[i]) != n || memcmp(figures[i], name, n) != 0))
            i++;
        if (i == sizeof figures / sizeof *figures)
            return es_fail(ES_EUSAGE,
                           "%s '%.40s': expected flops, communication, "
                           "latency, perplexity, inverse or weights",
                           where, value);
        if (to->n_figures == ES_COMPOSITE_MOST)
            return es_fail(ES_EUSAGE,
                           "%s '%.40s...': a page holds at most %d figures",
                           where, value, ES_COMPOSITE_MOST);
        to->figures[to->n_figures++] = (es_cost_quantity)i;
        name += n;
        if (!*name)
            return ES_OK;
    }
}

static const char *const norms[] = {"auto", "on", "off", NULL};
static const char *const overs[] = {"models", "ctx", NULL};

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(es_cost_options, inputs, n_inputs)},
    {"n-layer", 0, "L", "layers",
     ES_OPT_INT(es_cost_options, n_layer, 1, INT32_MAX), .value = "12"},
    {"n-head", 0, "H", "heads per layer",
     ES_OPT_INT(es_cost_options, n_head, 1, INT32_MAX), .value = "12"},
    {"d-model", 0, "D", "model width",
     ES_OPT_INT(es_cost_options, d_model, 1, INT32_MAX), .value = "768"},
    {"ctx", 0, "T", "context length in tokens",
     ES_OPT_INT(es_cost_options, ctx, 1, INT32_MAX), .value = "128"},
    {"vocab", 0, "V", "vocabulary",
     ES_OPT_INT(es_cost_options, vocab, 1, INT32_MAX), .value = "50257"},
    {"mlp-mult", 0, "M", "width of the feed-forward network, in multiples of D",
     ES_OPT_INT(es_cost_options, mlp_mult, 1, INT32_MAX), .value = "4"},
    {"final-norm", 0, "WHEN",
     "norm after the last layer, unless all layers have LN: on, off or auto "
     "(as "
     "in the run)",
     ES_OPT_CHOICE(es_cost_options, final_norm, norms), .value = "auto"},
    {"simplified", 0, NULL,
     "attention without value and output matrices, as in He and Hofmann's "
     "block",
     ES_OPT_FLAG(es_cost_options, simplified)},
    {"inventory", 0, NULL,
     "print the nonlinear operations of each model by kind and its products by "
     "size",
     ES_OPT_FLAG(es_cost_options, inventory)},
    {"polynomial", 0, NULL,
     "print the cost of polynomials for homomorphic encryption; takes no model",
     ES_OPT_FLAG(es_cost_options, polynomial)},
    {"json", 0, NULL, "print JSON instead of the table",
     ES_OPT_FLAG(es_cost_options, json)},
    {"figure", 0, "NAME",
     "draw flops, communication, latency or perplexity as bars (a+b: one "
     "page); "
     "without a model: inverse (polynomial division), weights (PowerSoftmax)",
     ES_OPT_ALL(read_figures)},
    {"over", 0, "WHAT",
     "models: a bar for each model; ctx: a panel for each model and a bar for "
     "each context length (128 to 8K)",
     ES_OPT_CHOICE(es_cost_options, over, overs), .value = "models"},
    {"shares", 0, NULL, "draw shares in per cent instead of absolute values",
     ES_OPT_FLAG(es_cost_options, shares)},
    ES_RECURSIVE_OPTION,
    {"output", 'o', "FILE",
     "where to write table, JSON or figure (-: standard output)",
     ES_OPT_TEXT(es_cost_options, output), .value = "-"},
    {"format", 0, "FORMAT", "png, svg, pdf or txt (by FILE's ending)",
     ES_OPT_CALL(es_cost_options, format, read_format)},
    {"size", 0, "WxH",
     "size in pixels (PNG) or points (SVG, PDF), or with a unit, as in 89x60mm "
     "or 3.25x2.5in",
     ES_OPT_CALL(es_cost_options, look, read_size)},
    {"for", 0, "MEDIUM",
     "width: column, page, slide, icml (column), neurips (text width), or "
     "screen (default), which is as wide as the content needs",
     ES_OPT_CHOICE(es_cost_options, look.medium, es_media),
     .expects = ES_MEDIA_EXPECTED},
    {"font-size", 0, "POINTS",
     "size of most labels; the picture keeps its size (8.5)",
     ES_OPT_REAL(es_cost_options, look.letters_size, 4, 40)},
    {"title", 0, "TEXT", "title above the picture",
     ES_OPT_TEXT(es_cost_options, look.title)},
    {"theme", 0, "NAME", "light or dark (light; dark for txt)",
     ES_OPT_CALL(es_cost_options, look.theme, read_theme)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
};

static int cost_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan cost SM+LN+G SM+ScFuFFN", "Compare two architectures"},
    {"entropy-scan cost sm.db --inventory",
     "Show what the cost of a run consists of"},
    {NULL, NULL}};

const es_command es_cost_command = {
    .name = "entropy-scan cost",
    .synopsis = "RUN.db|ARCH|MODEL... [OPTION...]",
    .examples = examples,
    .summary = "FLOPs, communication and latency of private inference",
    .details =
        "Shows the cost of one forward pass over T tokens, for the model of\n"
        "each run or for an architecture such as SM+LN+G in the given shape\n"
        "(default: GPT-2 small). A given size also replaces that of a run.\n"
        "SAS:SM+ScFFN has He and Hofmann's simplified blocks. A MODEL is\n"
        "gpt2, gpt2-medium, gpt2-large, gpt2-xl, or pythia- and 70m, 160m,\n"
        "410m, 1b, 1.4b or 2.8b, and has its published size.\n"
        "\n"
        "FLOPs and operations are counted. Communication and latency are\n"
        "modelled: their coefficients are fitted to tables 4 to 7 of AERO\n"
        "(arXiv 2410.13060), with 12 to 18 layers, 128 to 512 tokens,\n"
        "d_model 768 and 12 heads; the 95% interval is wider outside of\n"
        "this range. PowerSoftmax has no published cost, so it is not\n"
        "modelled.\n"
        "\n"
        "  entropy-scan cost SM+LN+G SM+ScFuFFNi6 --inventory\n"
        "  entropy-scan cost gpt2 gpt2-xl pythia-70m --figure flops --shares\n"
        "      --over ctx -o flops.png",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = cost_main,
};

/* --- combinations of options ---------------------------------------------- */

static bool has_option(const es_cost_options *given, const char *name)
{
    return es_options_has(&es_cost_command, given->given, name);
}

static bool has_figure(const es_cost_options *given, es_cost_quantity figure)
{
    for (size_t i = 0; i < given->n_figures; i++)
        if (given->figures[i] == figure)
            return true;
    return false;
}

static bool needs_no_model(const es_cost_options *given)
{
    return has_figure(given, ES_COST_OF_INVERSE) ||
           has_figure(given, ES_COST_OF_WEIGHTS);
}

static es_status check_figures(const es_cost_options *given)
{
    const char *const name = given->n_figures ? figures[given->figures[0]] : "";
    if (needs_no_model(given) && given->n_figures > 1)
        return es_fail(ES_EUSAGE, "--figure: draw inverse and weights "
                                  "separately, without other figures");
    if (needs_no_model(given) &&
        (given->n_inputs || has_option(given, "over") ||
         has_option(given, "shares")))
        return es_fail(ES_EUSAGE,
                       "--figure %s: takes no model, and neither --over nor "
                       "--shares",
                       name);
    if (has_figure(given, ES_COST_OF_PERPLEXITY) &&
        (given->over == ES_COST_OVER_CTX || given->shares))
        return es_fail(ES_EUSAGE,
                       "--figure perplexity: has neither shares nor "
                       "context lengths: leave out %s",
                       given->shares ? "--shares" : "--over ctx");
    return ES_OK;
}

static es_status check_options(es_cost_options *given)
{
    static const char *const of_figure[] = {"over",  "shares", "format",
                                            "size",  "for",    "font-size",
                                            "title", "theme"};
    const bool draws = given->n_figures > 0;
    if (given->polynomial &&
        (given->n_inputs || draws || given->json || given->inventory))
        return es_fail(
            ES_EUSAGE,
            "--polynomial: takes no model and no other output option");
    es_status status = check_figures(given);
    if (status < 0)
        return status;
    if (given->n_inputs == 0 && !given->polynomial && !needs_no_model(given))
        return es_fail(
            ES_EUSAGE,
            "cost needs run files or architectures: entropy-scan cost SM+LN+G");
    if (draws && (given->json || given->inventory))
        return es_fail(ES_EUSAGE,
                       "--figure, --json and --inventory: choose one");
    if (given->json && given->inventory)
        return es_fail(ES_EUSAGE,
                       "--json includes the inventory: leave out --inventory");
    for (size_t i = 0; i < sizeof of_figure / sizeof *of_figure; i++)
        if (!draws && has_option(given, of_figure[i]))
            return es_fail(ES_EUSAGE, "--%s: needs --figure", of_figure[i]);
    const es_format format = given->format;
    es_figures_fit_terminal(&given->look, has_option(given, "theme"));
    return draws
               ? es_figure_format(&given->format, &given->look, given->output,
                                  has_option(given, "format") ? &format : NULL)
               : ES_OK;
}

/* --- output ---------------------------------------------------------------*/

static es_status write_figure(FILE *stream, const es_cost_entry *entries,
                              size_t n, const es_cost_options *given)
{
    static const es_picture_note note = {"program", "entropy-scan " ES_VERSION};
    es_picture *picture = NULL;
    es_status status = has_figure(given, ES_COST_OF_INVERSE)
                           ? es_cost_draw_inverse(&picture, given)
                       : has_figure(given, ES_COST_OF_WEIGHTS)
                           ? es_cost_draw_weights(&picture, given)
                           : es_cost_draw(&picture, entries, n, given);
    if (status == ES_OK)
        status = es_figure_write(picture, stream, given->format, &given->look,
                                 &note, 1);
    es_picture_free(picture);
    return status;
}

static es_status write_output(const es_cost_entry *entries, size_t n,
                              const es_cost_options *given)
{
    FILE *stream;
    es_output *output = NULL;
    const bool piped = strcmp(given->output, "-") == 0;
    es_status status;
    if (given->n_figures && piped && isatty(STDOUT_FILENO) &&
        given->format != ES_FORMAT_TEXT)
        return es_fail(ES_EUSAGE, "standard output is a terminal: a picture "
                                  "needs a file or a pipe (-o FILE)");
    if ((status = es_output_check_text(given->output, given->inputs,
                                       given->n_inputs)) < 0 ||
        (status = es_output_open(&output, &stream, given->output)) < 0)
        return status;
    if (given->n_figures)
        status = write_figure(stream, entries, n, given);
    else if (given->polynomial)
        status = es_cost_print_polynomials(stream);
    else if (given->json)
        es_cost_print_json(stream, entries, n);
    else
        status = es_cost_print_table(stream, entries, n, given->inventory);
    return es_output_finish(output, status);
}

static int cost_main(int argc, char **argv)
{
    es_cost_options given = {.output = NULL};
    es_cost_entry *entries = NULL;
    es_paths found = {.n = 0};
    size_t n = 0, n_failed = 0;
    int code;
    es_status status =
        es_command_parse(&given, given.given, &es_cost_command, argc, argv);
    if (status == ES_OK)
        status = check_options(&given);
    if (status == ES_OK)
        status =
            es_inputs_expand(&given.inputs, &given.n_inputs, &found, &n_failed);
    if (status == ES_OK)
        status = es_cost_entries_read(&entries, &n, &n_failed, &given);
    if (status == ES_OK &&
        (n > 0 || given.polynomial || needs_no_model(&given)))
        status = write_output(entries, n, &given);
    code = es_command_exit(status);
    if (status == ES_OK && n_failed)
        code = n ? 4 : es_exit_code(ES_EIO);
    code = es_damage_exit(code, given.n_inputs);
    es_cost_entries_free(entries, n);
    es_inputs_free(given.inputs, &found);
    return code;
}
