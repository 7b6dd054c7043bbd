/* entropy-scan RUN.db...: table, JSON, CSV, pictures, --check */
#include "analyzer/base/checked.h"
#include "cli/compare/compare.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/json.h"
#include "cli/scan/csv.h"
#include "cli/scan/scan.h"
#include "cli/scan/table.h"
#include "cli/terminal/show.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What the first of two passes found of a run: the second shows that. */
typedef struct found {
    double peak;
    int64_t step;  /* of the sample that has it */
    bool left_out; /* by --where */
    bool failed;   /* and was reported */
} found;

typedef struct scan {
    es_scan_options options;
    double observed; /* largest value of all runs */
    size_t input;    /* the one that is read */

    /* Of the first pass; NULL where all runs are kept, or m is not theirs. */
    found *found; /* (n_found) runs, in their order */
    size_t n_found;
    size_t *n_runs; /* (n_inputs) of each; 0: it could not be opened */

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

static void end_json(scan *s)
{
    const es_rules_file *rules = s->options.summary.rules;
    if (!s->json.ended)
        es_json_end_runs(&s->json);
    if (rules && es_rules_file_is_set(rules))
        es_rules_file_json(
            &(es_json_writer){.stream = s->stream, .comma = true}, rules);
    es_json_end(&s->json);
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
        end_json(s);
    else if (s->table)
        es_table_print(s->table, s->stream);
    status = es_output_close(s->output);
    s->output = NULL;
    return status;
}

/* --- runs -----------------------------------------------------------------*/

/* Opens an input that has a run. */
static es_status open_input(es_reader **out, size_t *n_runs, const char *path)
{
    es_status status = es_reader_open(out, path);
    *n_runs = status == ES_OK ? es_reader_n_runs(*out) : 0;
    if (status == ES_OK && !*n_runs)
        status = es_fail(ES_ENOTFOUND, "%s: has no run", path);
    return status;
}

/* What fails is reported and counted; the others go on. */
static void report_failure(scan *s)
{
    es_print_note("%s", es_message());
    s->n_failed++;
}

static bool is_baseline(const scan *s)
{
    return s->options.baseline && s->input == s->options.baseline_input;
}

/* --- first pass -----------------------------------------------------------*/

/* Whether --where lets the run through takes its whole summary. */
static es_status find_chosen_peak(scan *s, found *out, es_reader *reader,
                                  size_t run)
{
    es_run_summary *summary = NULL;
    es_summary_options options = s->options.summary;
    options.without_flags = !es_where_judges(&s->options.where);
    es_status status = es_summary_load(&summary, reader, run, &options);
    if (status != ES_OK)
        return status;
    out->left_out =
        !is_baseline(s) && !es_where_holds(&s->options.where, summary);
    out->step = summary->step;
    out->peak = summary->peak;
    es_summary_free(summary);
    return ES_OK;
}

static es_status find_peak(scan *s, es_reader *reader, size_t run)
{
    found *grown = es_resize(s->found, s->n_found + 1, sizeof *grown);
    if (!grown)
        return es_fail(ES_ENOMEM, "out of memory for %zu runs", s->n_found + 1);
    s->found = grown;
    found *out = &grown[s->n_found++];
    *out = (found){.failed = false};
    es_status status = s->options.where.n > 0
                           ? find_chosen_peak(s, out, reader, run)
                           : es_summary_peak(&out->peak, &out->step, reader,
                                             run, &s->options.summary);
    out->failed = status != ES_OK;
    if (status == ES_OK && !out->left_out)
        s->observed = es_peak_of(s->observed, out->peak);
    return status;
}

/* The largest value of the runs that the second pass is to show. */
static es_status find_peaks(scan *s)
{
    s->n_runs = calloc(s->options.n_inputs, sizeof *s->n_runs);
    if (!s->n_runs)
        return es_fail(ES_ENOMEM, "out of memory for %zu files",
                       s->options.n_inputs);
    for (s->input = 0; s->input < s->options.n_inputs; s->input++) {
        es_reader *reader = NULL;
        size_t *n = &s->n_runs[s->input];
        if (open_input(&reader, n, s->options.inputs[s->input]) != ES_OK)
            report_failure(s);
        for (size_t run = 0; run < *n; run++)
            if (find_peak(s, reader, run) != ES_OK)
                report_failure(s);
        es_damage_close(reader);
    }
    return ES_OK;
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
    return s->comparison || s->options.order.field ||
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

static bool is_as_before(const es_run_summary *summary, const found *before)
{
    return summary->step == before->step &&
           (summary->peak == before->peak ||
            (isnan(summary->peak) && isnan(before->peak)));
}

/* The sample that the first pass found, though the run may have grown since:
   m may be too small for another. */
static es_status load(es_run_summary **out, scan *s, es_reader *reader,
                      size_t run, const found *before)
{
    es_summary_options options = s->options.summary;
    es_status status = es_summary_load(out, reader, run, &options);
    if (status != ES_OK || !before || is_as_before(*out, before))
        return status;
    es_summary_free(*out);
    *out = NULL;
    options.step = before->step;
    status = es_summary_load(out, reader, run, &options);
    if (status != ES_OK || is_as_before(*out, before))
        return status;
    es_summary_free(*out);
    *out = NULL;
    return es_fail(ES_EIO, "%s: changed while it was read",
                   es_reader_path(reader));
}

/* before: what the first pass found; NULL: there was none */
static es_status show(scan *s, es_reader *reader, size_t run,
                      const found *before)
{
    es_run_summary *summary = NULL;
    const bool asked = !is_baseline(s) || !s->options.baseline_added;
    es_status status = load(&summary, s, reader, run, before);
    if (status != ES_OK)
        return status;
    s->n_shown++;
    note_heard(s, summary);
    if (before
            ? before->left_out
            : !is_baseline(s) && !es_where_holds(&s->options.where, summary)) {
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

static bool all_failed(const found *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!of[i].failed)
            return false;
    return true;
}

/* before: what the first pass found of its n runs; NULL: there was none */
static void show_input(scan *s, const found *before, size_t n)
{
    es_reader *reader = NULL;
    size_t n_now;
    es_status status = open_input(&reader, &n_now, s->options.inputs[s->input]);
    if (status == ES_OK && n_now < n)
        status = es_fail(ES_EIO, "%s: changed while it was read",
                         es_reader_path(reader));
    if (status != ES_OK)
        report_failure(s);
    for (size_t run = 0; run < n_now && (!before || run < n); run++)
        if (!before || !before[run].failed)
            if (show(s, reader, run, before ? &before[run] : NULL) != ES_OK)
                report_failure(s);
    es_damage_close(reader);
}

static void show_inputs(scan *s)
{
    const found *before = s->found;
    for (s->input = 0; s->input < s->options.n_inputs; s->input++) {
        size_t n = s->n_runs ? s->n_runs[s->input] : 0;
        if (!s->n_runs)
            show_input(s, NULL, 0);
        else if (!all_failed(before, n)) /* else that was reported */
            show_input(s, before, n);
        if (n)
            before += n;
    }
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

/* All runs are known: they need no pass of their own for the largest value. */
static void set_observed(scan *s)
{
    for (size_t i = 0; i < s->n_kept; i++)
        s->observed = es_peak_of(s->observed, s->kept[i]->peak);
    for (size_t i = 0; i < s->n_kept; i++)
        es_summary_set_max(s->kept[i], s->observed);
}

/* Pictures come first: a reader of the table may close its pipe early. */
static void show_together(scan *s)
{
    es_status status = ES_OK;
    show_inputs(s);
    set_observed(s);
    if (s->options.order.field && s->n_kept)
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

/* A run that fails in the second pass alone has still counted for m. */
static void show_one_by_one(scan *s)
{
    es_status status = ES_OK;
    if (s->options.summary.max.policy == ES_MAX_OBSERVED)
        status = find_peaks(s);
    if (status == ES_OK)
        status = begin_text(s);
    if (status == ES_OK) {
        show_inputs(s);
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
    free(s->found);
    free(s->n_runs);
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
        !es_where_judges(&s->options.where) && !s->options.order.field &&
        !s->options.figures.pictures[ES_FIGURE_TIMELINE].wanted;
    if (s->options.compare && s->options.text != ES_TEXT_NONE)
        status = es_comparison_new(&s->comparison, summary);
    if (status != ES_OK)
        return status;
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
