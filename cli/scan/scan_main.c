/* entropy-scan RUN.db...: table, JSON, CSV, pictures, --check */
#include "analyzer/base/checked.h"
#include "cli/command.h"
#include "cli/compare/compare.h"
#include "cli/damage.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/scan/csv.h"
#include "cli/scan/scan.h"
#include "cli/scan/table.h"
#include "cli/terminal/show.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct scan {
    es_scan_options options;
    double observed; /* largest value of all runs */
    size_t input;    /* the one that is read */

    es_run_summary **kept; /* (n_kept) for pictures and the comparison; then
                              printed */
    size_t n_kept;
    es_comparison *comparison; /* NULL: not asked for */
    size_t n_shown, n_failed;  /* runs, or files that have none to show */
    size_t n_left_out;         /* of those shown: by --where */
    int output_code;           /* exit code of the first output that failed */
    bool alarms;
    struct heard {
        bool any;           /* sample of some run */
        uint64_t nonfinite; /* values, of all runs */
    } * heard;              /* (rules->n) by each rule; NULL: no rules */

    es_output *output;
    FILE *stream;
    es_table *table;
    es_json json;
} scan;

/* --- text -----------------------------------------------------------------*/

static es_status begin_text(scan *s)
{
    es_table_options table;
    if (s->options.text == ES_TEXT_NONE)
        return ES_OK;
    es_status status =
        es_output_open(&s->output, &s->stream, s->options.text_file);
    if (status != ES_OK)
        return status;
    if (s->options.text == ES_TEXT_JSON)
        es_json_begin(&s->json, s->stream, &s->options.summary.max,
                      s->observed);
    else if (s->options.text == ES_TEXT_CSV)
        es_csv_header(s->stream);
    else if (s->options.text == ES_TEXT_TABLE && !s->comparison) {
        es_table_options_for(&table, s->stream);
        status = es_table_new(&s->table, &table);
    }
    return status;
}

/* Whoever reads the lines need not wait for the next one. */
static es_status add_line(scan *s, const es_run_summary *summary)
{
    es_status status = es_json_line(s->stream, summary);
    fflush(s->stream);
    return status;
}

static es_status add_text(scan *s, const es_run_summary *summary)
{
    if (s->options.text == ES_TEXT_JSON)
        return es_json_run(&s->json, summary);
    if (s->options.text == ES_TEXT_JSON_LINES)
        return add_line(s, summary);
    if (s->options.text == ES_TEXT_CSV)
        return es_csv_run(s->stream, summary);
    if (s->options.text == ES_TEXT_TABLE && !s->comparison)
        return es_table_add(s->table, summary);
    return ES_OK;
}

static es_status end_comparison(scan *s)
{
    es_table_options table;
    es_status status = ES_OK;
    if (s->options.text == ES_TEXT_JSON) {
        es_json_end_runs(&s->json);
        status = es_comparison_json(s->comparison, s->stream);
    } else if (s->options.text == ES_TEXT_TABLE) {
        es_table_options_for(&table, s->stream);
        status = es_comparison_print(s->comparison, s->stream, &table);
    }
    return status;
}

static es_status end_json(scan *s)
{
    const es_rules_file *rules = s->options.summary.rules;
    if (!s->json.ended)
        es_json_end_runs(&s->json);
    es_status status = rules && es_rules_file_is_set(rules)
                           ? es_rules_file_json(s->stream, rules)
                           : ES_OK;
    es_json_end(&s->json);
    return status;
}

static es_status end_text(scan *s)
{
    es_status status = ES_OK;
    if (!s->output)
        return ES_OK;
    if (s->comparison)
        status = end_comparison(s);
    if (status != ES_OK)
        return status;
    if (s->options.text == ES_TEXT_JSON)
        status = end_json(s);
    else if (s->table)
        es_table_print(s->table, s->stream);
    if (status != ES_OK)
        return status;
    status = es_output_close(s->output);
    s->output = NULL;
    return status;
}

/* --- runs -----------------------------------------------------------------*/

typedef es_status run_handler(scan *s, es_reader *reader, size_t run);

/* Calls `handle` for every run of every input. What fails is told of and
   counted if `tell`; the others go on. */
static void for_each_run(scan *s, run_handler *handle, bool tell)
{
    for (size_t i = 0; i < s->options.n_inputs; i++) {
        es_reader *reader = NULL;
        s->input = i;
        es_status status = es_reader_open(&reader, s->options.inputs[i]);
        size_t n = status == ES_OK ? es_reader_n_runs(reader) : 1;
        if (status == ES_OK && !n)
            status =
                es_fail(ES_ENOTFOUND, "%s: has no run", s->options.inputs[i]);
        bool open = status == ES_OK;
        for (size_t run = 0; run < (open ? n : 1); run++) {
            if (open)
                status = handle(s, reader, run);
            if (status != ES_OK && tell) {
                es_print_note("%s", es_message());
                s->n_failed++;
            }
        }
        es_damage_close(reader);
    }
}

static bool is_baseline(const scan *s)
{
    return s->options.baseline && s->input == s->options.baseline_input;
}

/* The largest value of the runs that --where lets through. */
static es_status gather_chosen_peak(scan *s, es_reader *reader, size_t run)
{
    es_run_summary *summary = NULL;
    es_summary_options options = s->options.summary;
    options.without_flags = !es_where_judges(&s->options.where);
    es_status status = es_summary_load(&summary, reader, run, &options);
    if (status == ES_OK &&
        (is_baseline(s) || es_where_holds(&s->options.where, summary)))
        s->observed = es_peak_of(s->observed, summary->peak);
    es_summary_free(summary);
    return status;
}

static es_status gather_peak(scan *s, es_reader *reader, size_t run)
{
    double peak;
    if (s->options.where.n > 0)
        return gather_chosen_peak(s, reader, run);
    es_status status = es_summary_peak(&peak, reader, run, &s->options.summary);
    if (status == ES_OK)
        s->observed = es_peak_of(s->observed, peak);
    return status;
}

static es_status reserve(scan *s)
{
    es_run_summary **kept =
        es_resize(s->kept, s->n_kept + 1, sizeof(es_run_summary *));
    if (!kept)
        return es_fail(ES_ENOMEM, "out of memory for %zu runs", s->n_kept + 1);
    s->kept = kept;
    return ES_OK;
}

/* Does what is made of a run need all of them at once? */
static bool keeps_runs(const scan *s)
{
    return s->comparison || s->options.order.given ||
           es_figures_any(&s->options.figures);
}

/* The summary is kept, and *summary NULL then, or printed. */
static es_status take(scan *s, es_reader *reader, size_t run,
                      es_run_summary **summary)
{
    if (!keeps_runs(s))
        return add_text(s, *summary);
    es_status status = reserve(s);
    if (status == ES_OK && s->comparison)
        status = es_comparison_add(s->comparison, reader, run, *summary,
                                   is_baseline(s));
    if (status != ES_OK)
        return status;
    s->kept[s->n_kept++] = *summary;
    *summary = NULL;
    return ES_OK;
}

static void note_heard(scan *s, const es_run_summary *summary)
{
    for (size_t i = 0; s->heard && summary->heard && i < summary->rules->n; i++)
        s->heard[i] = (struct heard){
            .any = s->heard[i].any || summary->heard[i],
            .nonfinite = s->heard[i].nonfinite + summary->nonfinite[i],
        };
}

/* A rule without a series to judge is silent; a misspelled one, too; and one
   of which the values are NaN. */
static void tell_unheard(const scan *s)
{
    for (size_t i = 0; s->heard && s->n_shown && i < s->options.rules.n; i++) {
        const es_rule *rule = &s->options.rules.rules[i];
        if (s->heard[i].nonfinite > 0)
            es_print_note("rule %s: %" PRIu64 " value%s of %s (%s) not "
                          "compared: NaN or infinite",
                          rule->name, s->heard[i].nonfinite,
                          s->heard[i].nonfinite == 1 ? "" : "s", rule->series,
                          rule->eval ? "eval" : "train");
        if (!s->heard[i].any)
            es_print_note("rule %s: not judged: no run has a sample of %s "
                          "(%s)",
                          rule->name, rule->series,
                          rule->eval ? "eval" : "train");
    }
}

static es_status show(scan *s, es_reader *reader, size_t run)
{
    es_run_summary *summary = NULL;
    const bool asked = !is_baseline(s) || !s->options.baseline_added;
    es_status status =
        es_summary_load(&summary, reader, run, &s->options.summary);
    if (status != ES_OK)
        return status;
    s->n_shown++;
    note_heard(s, summary);
    if (!is_baseline(s) && !es_where_holds(&s->options.where, summary)) {
        s->n_left_out++;
        es_summary_free(summary);
        return ES_OK;
    }
    es_summary_set_max(summary, s->observed);
    s->alarms = s->alarms || (asked && es_summary_alarms(summary));
    status = take(s, reader, run, &summary);
    es_summary_free(summary);
    return status;
}

/* --- outputs --------------------------------------------------------------*/

/* A failing output is told of; the others are made all the same. */
static void tell_output(scan *s, es_status status)
{
    if (status == ES_OK)
        return;
    int code = es_command_exit(status);
    if (!s->output_code)
        s->output_code = code;
}

static void draw_pictures(scan *s)
{
    const es_figure_job job = {
        .options = &s->options.figures,
        .inputs = s->options.inputs,
        .n_inputs = s->options.n_inputs,
        .runs = (const es_run_summary *const *)s->kept,
        .n = s->n_kept,
        .baseline = s->options.baseline
                        ? s->options.inputs[s->options.baseline_input]
                        : NULL,
        .quiet = s->options.quiet,
    };
    for (int i = 0; i < ES_N_FIGURES && s->n_kept; i++) {
        size_t n_failed = 0;
        if (!job.options->pictures[i].wanted)
            continue;
        es_status status = es_figure_make(&n_failed, &job, (es_figure_kind)i);
        tell_output(s, status);
        if (status == ES_OK)
            s->n_failed += n_failed;
    }
}

static int in_order(const void *a, const void *b, void *order)
{
    const es_run_summary *x = *(es_run_summary *const *)a;
    const es_run_summary *y = *(es_run_summary *const *)b;
    int sign = es_order_compare(order, x, y);
    if (sign == 0)
        sign = strcmp(x->path, y->path);
    return sign ? sign : (x->number > y->number) - (x->number < y->number);
}

/* Pictures come first: a reader of the table may close its pipe early. */
static void show_together(scan *s)
{
    es_status status = ES_OK;
    for_each_run(s, show, true);
    if (s->options.order.given && s->n_kept)
        qsort_r(s->kept, s->n_kept, sizeof(es_run_summary *), in_order,
                &s->options.order);
    draw_pictures(s);
    if (s->comparison)
        status = es_comparison_finish(s->comparison,
                                      (const es_run_summary *const *)s->kept,
                                      s->options.baseline);
    if (status == ES_OK)
        status = begin_text(s);
    for (size_t i = 0; status == ES_OK && i < s->n_kept; i++)
        status = add_text(s, s->kept[i]);
    if (status == ES_OK)
        status = end_text(s);
    tell_output(s, status);
}

static void show_one_by_one(scan *s)
{
    es_status status = begin_text(s);
    if (status == ES_OK) {
        for_each_run(s, show, true);
        status = end_text(s);
    }
    tell_output(s, status);
}

static void show_on_terminal(scan *s)
{
    es_show_result result;
    const es_show_options options = {.inputs = s->options.inputs,
                                     .n_inputs = s->options.n_inputs,
                                     .summary = s->options.summary,
                                     .colormap = s->options.figures.colormap,
                                     .follow = s->options.follow};
    tell_output(s, es_show(&result, &options));
    s->n_shown = result.n_shown;
    s->n_failed = s->options.n_unreadable + result.n_failed;
    s->alarms = result.alarms;
}

static int exit_code(const scan *s)
{
    if (s->output_code)
        return s->output_code;
    if (s->n_failed && !s->n_shown)
        return es_exit_code(ES_EIO);
    if (s->n_failed)
        return ES_EXIT_SOME_FAILED;
    return s->options.check && s->alarms;
}

static void finish(scan *s)
{
    es_output_abandon(s->output);
    es_table_free(s->table);
    es_comparison_free(s->comparison);
    for (size_t i = 0; i < s->n_kept; i++)
        es_summary_free(s->kept[i]);
    free(s->kept);
    free(s->heard);
    es_scan_options_free(&s->options);
}

static es_status show_runs(scan *s)
{
    s->n_failed += s->options.n_unreadable;
    es_summary_options *summary = &s->options.summary;
    es_status status = ES_OK;
    summary->without_flags =
        s->options.text == ES_TEXT_NONE && !s->options.check &&
        !es_where_judges(&s->options.where) && !s->options.order.given &&
        !s->options.figures.pictures[ES_FIGURE_TIMELINE].wanted;
    if (s->options.compare && s->options.text != ES_TEXT_NONE)
        status = es_comparison_new(&s->comparison, summary);
    if (status != ES_OK)
        return status;
    if (summary->max.policy == ES_MAX_OBSERVED)
        for_each_run(s, gather_peak, false);
    if (!summary->without_flags && s->options.rules.n) {
        s->heard = calloc(s->options.rules.n, sizeof *s->heard);
        if (!s->heard)
            return es_fail(ES_ENOMEM, "out of memory for rules");
    }
    if (keeps_runs(s))
        show_together(s);
    else
        show_one_by_one(s);
    tell_unheard(s);
    if (s->n_left_out && s->n_left_out == s->n_shown && !s->options.quiet)
        es_print_note("--where: none of %zu run%s is such", s->n_shown,
                      s->n_shown == 1 ? "" : "s");
    return ES_OK;
}

int es_scan_main(int argc, char **argv)
{
    scan s = {.observed = NAN};
    es_status status = es_scan_options_parse(&s.options, argc, argv);
    int code;
    if (status == ES_OK) {
        if (s.options.tui)
            show_on_terminal(&s);
        else
            tell_output(&s, show_runs(&s));
        code = es_damage_exit(exit_code(&s), s.options.n_inputs);
    } else {
        code = es_command_exit(status);
    }
    finish(&s);
    return code;
}
