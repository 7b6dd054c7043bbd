#include "cli/scan/scan_internal.h"

#include "cli/output/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A first word that is neither a file nor a verb is probably a wrong verb. */
static es_status check_inputs(const es_scan_options *to)
{
    if (!to->n_inputs)
        return es_fail(ES_EUSAGE,
                       "no run file: entropy-scan RUN.db, or see entropy-scan "
                       "--help");
    const char *first = to->inputs[0];
    if (!strpbrk(first, "./") && access(first, F_OK) != 0 && errno == ENOENT)
        return es_fail(ES_EUSAGE,
                       "%s: neither a file nor a verb: see "
                       "entropy-scan --help",
                       first);
    return ES_OK;
}

/* The terminal has room for one drawing, and no file takes it. */
static es_status check_tui(const es_scan_gathered *g)
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

/* A baseline that is none of the inputs becomes the last one. */
static void place_baseline(es_scan_options *to)
{
    size_t i = 0;
    if (!to->baseline)
        return;
    while (i < to->n_inputs && !es_path_is_same(to->inputs[i], to->baseline))
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
    while (i + 1 < to->n_inputs &&
           !es_path_is_same(to->inputs[i], to->baseline))
        i++;
    to->baseline_input = i;
    if (!to->baseline_added || i + 1 == to->n_inputs)
        return;
    to->baseline_added = false;
    free(to->found.paths[--to->found.n]);
    to->n_inputs = to->found.n;
}

static es_status choose_text(es_scan_gathered *g)
{
    if (g->json + g->jsonl + g->csv > 1)
        return es_fail(ES_EUSAGE, "--json, --jsonl and --csv exclude each "
                                  "other");
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

/* A line is printed when its run is read, before the others are seen. */
static void choose_max(es_scan_gathered *g)
{
    if (g->jsonl && !g->given[MAX] && !es_figures_any(&g->to->figures))
        g->to->summary.max.policy = ES_MAX_RUN;
}

/* -o belongs to JSON and CSV; else to the figures without a name, if there
   are any; else to the table. */
static es_status place_output(es_scan_gathered *g)
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
static es_status check_users(const es_scan_gathered *g)
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
                           es_scan_table[users[i].option].name, users[i].names);
    }
    if (g->given[SPREAD] && g->given[HEADS])
        return es_fail(ES_EUSAGE, "--spread and --heads exclude each other");
    return ES_OK;
}

static es_status judge_all(es_scan_gathered *g)
{
    es_scan_options *to = g->to;
    es_status status = check_inputs(to);
    if (status == ES_OK)
        status = check_tui(g);
    if (status == ES_OK) {
        place_baseline(to);
        status = choose_text(g);
    }
    if (status == ES_OK) {
        choose_max(g);
        status = place_output(g);
    }
    if (status == ES_OK)
        status = es_figures_set_format(&to->figures,
                                       g->has_format ? &g->format : NULL);
    if (status == ES_OK && g->picture_option >= 0 &&
        !es_figures_any(&to->figures) &&
        !(to->tui && g->picture_option == COLORMAP))
        return es_fail(ES_EUSAGE,
                       "--%s is for a picture: add --heatmap, --curves or "
                       "--figure",
                       es_scan_table[g->picture_option].name);
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

es_status es_scan_judge(es_scan_gathered *g)
{
    es_status status = judge_all(g);
    return status == ES_OK && g->recursive ? find_inputs(g->to) : status;
}
