/* Checks options of a scan that depend on each other: rejects contradictory
   options, determines the file of each output, and expands folders. */
#include "cli/scan/scan.h"

#include "analyzer/base/text.h"
#include "cli/output/output.h"
#include "cli/program/command.h"
#include "cli/terminal/figure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_option(const es_scan_options *options, const char *name)
{
    return es_options_has(&es_scan_command, options->given, name);
}

/* Finds the baseline among the inputs, or appends it to the inputs if it is
   missing. */
static void place_baseline(es_scan_options *to)
{
    size_t i = 0;
    if (!to->baseline)
        return;
    while (i < to->n_inputs && !es_path_is_same(to->inputs[i], to->baseline))
        i++;
    to->baseline_input = i;
    to->baseline_added = i == to->n_inputs;
    if (to->baseline_added) /* the array has space for the baseline */
        to->inputs[to->n_inputs++] = (char *)(uintptr_t)to->baseline;
}

static es_status choose_text(es_scan_options *to)
{
    if (to->json + to->jsonl + to->csv > 1)
        return es_fail(ES_EUSAGE,
                       "--json, --jsonl and --csv are mutually exclusive");
    if (to->compare && (to->csv || to->jsonl))
        return es_fail(ES_EUSAGE, "--compare prints only tables or --json");
    if (to->check_format && (to->json || to->jsonl || to->csv || to->compare))
        return es_fail(
            ES_EUSAGE,
            "--check-format github replaces the table: omit the other outputs");
    if (to->trends && (to->csv || to->jsonl || to->check_format || to->tui))
        return es_fail(ES_EUSAGE,
                       "--trends needs the table, --json or --curves");
    to->figures.trends = to->trends;
    if (to->check_format && !to->check)
        return es_fail(ES_EUSAGE, "--check-format needs --check");
    to->text = to->check_format ? ES_TEXT_GITHUB
               : to->json       ? ES_TEXT_JSON
               : to->jsonl      ? ES_TEXT_JSON_LINES
               : to->csv        ? ES_TEXT_CSV
               : to->quiet      ? ES_TEXT_NONE
                                : ES_TEXT_TABLE;
    return ES_OK;
}

/* Determines which output is written to the file of option -o: JSON or CSV if
   one of them is requested, otherwise the figures for which no file is named,
   otherwise the table. */
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
                             "-o %s: cannot contain several figures: name a "
                             "folder, or a .pdf with one page for each, or "
                             "use --figure a+b",
                             to->output)
                   : ES_OK;
    if (to->text == ES_TEXT_NONE)
        return es_fail(ES_EUSAGE, "-o %s: with --quiet there is no output",
                       to->output);
    to->text_file = to->output;
    return ES_OK;
}

/* Returns true if output i is a figure that is written as text to standard
   output, where several figures may follow each other. */
static bool is_text(const es_scan_options *to, int i)
{
    return i < ES_N_PICTURES && to->figures.pictures[i].file &&
           strcmp(to->figures.pictures[i].file, "-") == 0 &&
           to->figures.pictures[i].format == ES_FORMAT_TEXT;
}

/* Omits the table if a picture is written to standard output. Rejects two
   outputs with the same name, and an output that would overwrite an input. */
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
            if (places[i] && places[j] && strcmp(places[i], places[j]) == 0 &&
                !(is_text(to, i) && is_text(to, j)))
                return es_fail(ES_EUSAGE,
                               "%s: two outputs have this name: rename one",
                               strcmp(places[i], "-") == 0 ? "standard output"
                                                           : places[i]);
        if (places[i] && (status = es_output_check_text(places[i], to->inputs,
                                                        to->n_inputs)) != ES_OK)
            return status;
    }
    return ES_OK;
}

/* Rejects options that apply to none of the drawn figures. */
static es_status check_users(const es_scan_options *to)
{
    char names[128];
    unsigned drawn = 0;
    for (int i = 0; i < ES_N_FIGURES; i++)
        drawn |=
            es_figure_is_drawn(&to->figures, (es_figure_kind)i) ? 1u << i : 0;
    for (size_t i = 0; i < es_scan_command.n_options; i++) {
        const es_option *option = &es_scan_command.options[i];
        const unsigned figures = option->tags & ((1u << ES_N_FIGURES) - 1);
        es_text list = es_text_begin(names, sizeof names);
        if (!to->given[i] || !(figures || option->tags & ES_SCAN_PICTURE_TAG))
            continue;
        if (!drawn && !(to->tui && strcmp(option->name, "colormap") == 0))
            return es_fail(ES_EUSAGE,
                           "--%s applies only to pictures: add --heatmap, "
                           "--curves or --figure",
                           option->name);
        for (int k = 0; k < ES_N_FIGURES; k++) { /* list the figures as "curves,
                                                    nans or loss" */
            unsigned later = figures & ~((2u << k) - 1);
            if (figures & (1u << k))
                es_text_append(&list, "%s%s", es_figure_name((es_figure_kind)k),
                               !later                ? ""
                               : later & (later - 1) ? ", "
                                                     : " or ");
        }
        if (figures && !(figures & drawn))
            return es_fail(ES_EUSAGE, "--%s applies only to --figure %s",
                           option->name, names);
    }
    es_status status = es_figures_check_group(&to->figures);
    if (status < 0)
        return status;
    if (to->figures.group != ES_GROUP_NONE &&
        to->figures.spread != ES_SPREAD_NONE)
        return es_fail(
            ES_EUSAGE,
            "--spread and --group are mutually exclusive: both shade a range");
    if (has_option(to, "trends") && has_option(to, "steps"))
        return es_fail(ES_EUSAGE,
                       "--trends and --steps are mutually exclusive: a trend "
                       "is fitted to the second half of a run");
    if (has_option(to, "spread") && has_option(to, "heads"))
        return es_fail(ES_EUSAGE,
                       "--spread and --heads are mutually exclusive");
    return ES_OK;
}

/* Replaces folders by the run files below them. If a folder contains the
   baseline that place_baseline appended, removes the appended copy. */
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

/* Verbs (first words of a command line) that users know from other programs,
   and the equivalent command. */
static const char *const verbs_of_others[][2] = {
    {"show", "entropy-scan RUN.db"},
    {"view", "entropy-scan RUN.db"},
    {"ls", "entropy-scan DIR"},
    {"list", "entropy-scan DIR"},
    {"diff", "entropy-scan compare A.db B.db"},
    {"check", "entropy-scan RUN.db --check"},
    {"plot", "entropy-scan draw NAME RUN.db"},
    {"figure", "entropy-scan draw NAME RUN.db"},
    {"heatmap", "entropy-scan draw heatmap RUN.db"},
    {"curves", "entropy-scan draw curves RUN.db"},
    {"top", "entropy-scan tui RUN.db --follow"},
    {"version", "entropy-scan --version"},
    {"query", "entropy-scan sql RUN.db 'SELECT ...'"},
    {"train", "entropy-train --data FILE -o RUN.db"},
    {"probe", "entropy-train probe"},
    {"bench", "entropy-train bench"}};

/* A first word that is neither a file nor a verb is probably a mistyped
   verb. */
static es_status check_first(const char *word)
{
    if (strpbrk(word, "./") || !is_absent(word))
        return ES_OK;
    for (size_t i = 0; i < sizeof verbs_of_others / sizeof *verbs_of_others;
         i++)
        if (strcmp(word, verbs_of_others[i][0]) == 0)
            return es_fail(ES_EUSAGE,
                           "%s: is neither a file nor a verb: did you mean %s?",
                           word, verbs_of_others[i][1]);
    const char *verb = es_program_nearest(&es_scan_program, word);
    return verb ? es_fail(ES_EUSAGE,
                          "%s: is neither a file nor a verb: did you mean %s?",
                          word, verb)
                : es_fail(ES_EUSAGE,
                          "%s: is neither a file nor a verb: see entropy-scan "
                          "--help",
                          word);
}

/* Rejects "--heatmap x.png", where x.png would be an input and the picture
   would get another name. The user probably means --heatmap=x.png. */
static es_status check_picture_names(const es_scan_options *to)
{
    const es_option *picture = NULL;
    for (size_t i = 0; !picture && i < es_scan_command.n_options; i++) {
        const es_option *row = &es_scan_command.options[i];
        if (to->given[i] && row->argument &&
            strcmp(row->argument, "[FILE]") == 0 &&
            !to->figures.pictures[row->least].file)
            picture = row;
    }
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

static es_status check_slurm(const es_scan_options *to)
{
    static const char *const only[] = {"tasks", "work"};
    for (size_t i = 0; i < 2; i++)
        if (has_option(to, only[i]) && !to->slurm)
            return es_fail(ES_EUSAGE, "--%s needs --slurm", only[i]);
    if (to->slurm &&
        (to->tui || to->compare || to->trends || es_figures_any(&to->figures)))
        return es_fail(ES_EUSAGE, "--slurm prints only the table, JSON or CSV: "
                                  "omit the other outputs");
    return to->part < 0 || to->slurm
               ? ES_OK
               : es_fail(ES_EUSAGE, "--part is only for the tasks of --slurm");
}

es_status es_scan_judge(es_scan_options *to)
{
    es_status status;
    if (!to->n_inputs)
        return es_fail(
            ES_EUSAGE,
            "no run file: try entropy-scan RUN.db, or see entropy-scan --help");
    if ((status = check_first(to->inputs[0])) != ES_OK ||
        (status = check_picture_names(to)) != ES_OK)
        return status;
    if ((status = check_slurm(to)) != ES_OK)
        return status;
    if (to->tui && to->check_format)
        return es_fail(ES_EUSAGE, "--check-format excludes --tui");
    if (to->follow && !to->tui)
        return es_fail(ES_EUSAGE, "--follow needs --tui");
    if (to->tui && (to->json || to->jsonl || to->csv || to->output ||
                    to->quiet || to->compare || es_figures_any(&to->figures)))
        return es_fail(ES_EUSAGE, "--tui draws on the terminal and writes no "
                                  "file: omit the other outputs");
    if (to->tui && (to->where.n || to->order.given))
        return es_fail(ES_EUSAGE, "--tui draws all runs in the order in which "
                                  "they are given: omit --where and --sort");

    place_baseline(to);
    if ((status = choose_text(to)) != ES_OK)
        return status;
    /* With --jsonl, the line of a run is printed before the later runs are
       read, so the largest value of all runs is not known yet. */
    if (to->jsonl && !has_option(to, "max") && !es_figures_any(&to->figures))
        to->summary.max.policy = ES_MAX_RUN;
    es_figures_fit_terminal(&to->figures, has_option(to, "theme"));
    to->figures.step_given = has_option(to, "step");
    if ((status = place_output(to)) != ES_OK ||
        (status = es_figures_set_format(
             &to->figures, has_option(to, "format") ? &to->format : NULL)) !=
            ES_OK ||
        (status = check_users(to)) != ES_OK ||
        (status = check_places(to)) != ES_OK ||
        (status = es_summary_options_check(&to->summary)) != ES_OK)
        return status;
    /* A Slurm task reads its inputs from a file that lists all inputs. */
    return to->part < 0 ? find_inputs(to) : ES_OK;
}
