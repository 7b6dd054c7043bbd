/* The options of a scan taken together: what excludes what, which output goes
   where, which files are meant. */
#include "cli/scan/scan_internal.h"

#include "analyzer/base/text.h"
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

/* The terminal has space for one drawing, and no file takes it. */
static es_status check_tui(const es_scan_options *to)
{
    if (to->follow && !to->tui)
        return es_fail(ES_EUSAGE, "--follow is for --tui: add it");
    if (to->tui && (to->json || to->jsonl || to->csv || to->output ||
                    to->quiet || to->compare || es_figures_any(&to->figures)))
        return es_fail(ES_EUSAGE, "--tui draws on the terminal and writes "
                                  "nothing else: leave out the other outputs");
    if (to->tui && (to->where.n || to->order.given))
        return es_fail(ES_EUSAGE, "--tui draws all runs, in the order that "
                                  "they are named: leave out --where, --sort");
    return ES_OK;
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

static es_status choose_text(es_scan_options *to)
{
    if (to->json + to->jsonl + to->csv > 1)
        return es_fail(ES_EUSAGE, "--json, --jsonl and --csv exclude each "
                                  "other");
    if (to->compare && (to->csv || to->jsonl))
        return es_fail(ES_EUSAGE,
                       "--compare prints tables or --json, nothing else");
    to->text = to->json    ? ES_TEXT_JSON
               : to->jsonl ? ES_TEXT_JSON_LINES
               : to->csv   ? ES_TEXT_CSV
               : to->quiet ? ES_TEXT_NONE
                           : ES_TEXT_TABLE;
    return ES_OK;
}

/* A line is printed when its run is read, before the others are seen. */
static void choose_max(es_scan_options *to)
{
    if (to->jsonl && !es_options_has(&es_scan_command, to->given, "max") &&
        !es_figures_any(&to->figures))
        to->summary.max.policy = ES_MAX_RUN;
}

/* -o belongs to JSON and CSV; else to the figures without a name, if there
   are any; else to the table. */
static es_status place_output(es_scan_options *to)
{
    if (!to->output)
        return ES_OK;
    if (!to->json && !to->jsonl && !to->csv &&
        es_figures_place(&to->figures, to->output))
        return ES_OK;
    if (to->text == ES_TEXT_NONE)
        return es_fail(ES_EUSAGE,
                       "-o %s: --quiet leaves nothing to write "
                       "there",
                       to->output);
    to->text_file = to->output;
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

/* "curves, nans or loss": the figures of these tags. */
static void name_figures(es_text *out, unsigned tags)
{
    for (int i = 0; i < ES_N_FIGURES; i++) {
        unsigned later = tags & ~((2u << i) - 1);
        if (tags & (1u << i))
            es_text_append(out, "%s%s", es_figure_name((es_figure_kind)i),
                           !later                ? ""
                           : later & (later - 1) ? ", "
                                                 : " or ");
    }
}

/* An option that none of the figures drawn has is a mistake. */
static es_status check_users(const es_scan_options *to)
{
    char names[128];
    unsigned drawn = 0;
    for (int i = 0; i < ES_N_FIGURES; i++)
        drawn |= to->figures.pictures[i].wanted ? 1u << i : 0;
    for (size_t i = 0; i < es_scan_command.n_options; i++) {
        const es_option *option = &es_scan_command.options[i];
        const unsigned figures = option->tags & ~ES_SCAN_PICTURE;
        es_text list = es_text_begin(names, sizeof names);
        if (!to->given[i] || !option->tags)
            continue;
        if (!drawn && !(to->tui && strcmp(option->name, "colormap") == 0))
            return es_fail(ES_EUSAGE,
                           "--%s is for a picture: add --heatmap, --curves or "
                           "--figure",
                           option->name);
        name_figures(&list, figures);
        if (figures && !(figures & drawn))
            return es_fail(ES_EUSAGE, "--%s is for --figure %s", option->name,
                           names);
    }
    if (es_options_has(&es_scan_command, to->given, "spread") &&
        es_options_has(&es_scan_command, to->given, "heads"))
        return es_fail(ES_EUSAGE, "--spread and --heads exclude each other");
    return ES_OK;
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

es_status es_scan_judge(es_scan_options *to)
{
    es_status status;
    bool has_format = es_options_has(&es_scan_command, to->given, "format");
    if ((status = check_inputs(to)) != ES_OK ||
        (status = check_tui(to)) != ES_OK)
        return status;
    place_baseline(to);
    if ((status = choose_text(to)) != ES_OK)
        return status;
    choose_max(to);
    if ((status = place_output(to)) != ES_OK ||
        (status = es_figures_set_format(
             &to->figures, has_format ? &to->format : NULL)) != ES_OK ||
        (status = check_users(to)) != ES_OK)
        return status;
    drop_table(to);
    if ((status = check_places(to)) != ES_OK ||
        (status = es_summary_options_check(&to->summary)) != ES_OK)
        return status;
    return to->recursive ? find_inputs(to) : ES_OK;
}
