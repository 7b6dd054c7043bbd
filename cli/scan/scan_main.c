/* entropy-scan RUN.db...: table, JSON, CSV, pictures, --check. Under the policy
   observed a table, JSON or CSV takes two passes over the files, so that no
   more than one run is in memory: the first finds the largest value. Pictures,
   --sort and --compare need all runs at once, and one pass. */
#include "analyzer/base/checked.h"
#include "cli/compare/compare.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/json.h"
#include "cli/runs/settings.h"
#include "cli/scan/github.h"
#include "cli/scan/scan.h"
#include "cli/scan/table.h"
#include "cli/terminal/show.h"
#include "cli/trends/trends.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* What the first of two passes found of a run: the second shows that. */
typedef struct found {
    double peak;
    int64_t step; /* of the sample that has it */
    es_phase phase;
    bool left_out; /* by --where */
    bool failed;   /* and was reported */
} found;

typedef struct scan {
    es_scan_options options; /* a copy, but for what it points to */
    double observed;         /* largest value of all runs */
    size_t input;            /* the one that is read */

    /* Of the first pass; NULL where all runs are kept, or m is not theirs. */
    found *found; /* (n_found) runs, in their order */
    size_t n_found;
    size_t *n_runs; /* (n_inputs) of each; 0: it could not be opened */

    es_run_summary **kept; /* (n_kept) for pictures and the comparison; then
                              printed */
    size_t n_kept;
    es_comparison *comparison; /* NULL: no --compare */
    es_trends *trends;         /* NULL: no --trends */
    size_t n_shown, n_failed;  /* runs, or files that have none to show */
    size_t n_left_out;         /* of those shown: by --where */
    es_members_seen seen;      /* of --where and --sort */
    int output_code;           /* exit code of the first output that failed */
    es_severity highest;       /* of what stands, of the inputs shown */
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
    es_status status;
    if (s->options.text == ES_TEXT_NONE)
        return ES_OK;
    if ((status =
             es_output_open(&s->output, &s->stream, s->options.text_file)) < 0)
        return status;
    if (s->options.text == ES_TEXT_JSON)
        es_json_begin(&s->json, s->stream, &s->options.summary.max,
                      s->observed);
    else if (s->options.text == ES_TEXT_CSV)
        es_csv_header(s->stream);
    else if (s->options.text == ES_TEXT_TABLE && !s->comparison) {
        es_table_options_for(&table, s->stream);
        return es_table_new(&s->table, &table);
    }
    return ES_OK;
}

static es_status add_text(scan *s, const es_run_summary *summary)
{
    es_status status = ES_OK;
    if (s->options.text == ES_TEXT_JSON) {
        es_json_run(&s->json, summary);
    } else if (s->options.text == ES_TEXT_JSON_LINES) {
        es_json_line(s->stream, summary);
        fflush(s->stream); /* its reader need not wait for the next one */
    } else if (s->options.text == ES_TEXT_CSV) {
        status = es_csv_run(s->stream, summary);
    } else if (s->options.text == ES_TEXT_GITHUB) {
        status = es_github_run(s->stream, summary, s->options.check);
    } else if (s->table) {
        status = es_table_add(s->table, summary);
    }
    return status;
}

static es_status end_text(scan *s)
{
    es_table_options table;
    es_status status = ES_OK;
    if (!s->output)
        return ES_OK;
    if (s->options.text == ES_TEXT_JSON) {
        es_json_writer *json = es_json_end_runs(&s->json);
        if (s->comparison)
            es_comparison_json(s->comparison, json);
        if (s->trends)
            es_trends_json(s->trends, json);
        es_json_rules(&s->json, s->options.summary.rules);
        es_json_end(&s->json);
    } else if (s->table) {
        status = es_table_print(s->table, s->stream);
    } else if (s->comparison && s->options.text == ES_TEXT_TABLE) {
        es_table_options_for(&table, s->stream);
        status =
            s->options.best_first
                ? es_comparison_print_best(s->comparison, s->stream, &table)
                : es_comparison_print(s->comparison, s->stream, &table);
    }
    if (status < 0)
        return status;
    if (s->trends && s->options.text == ES_TEXT_TABLE)
        es_trends_print(s->trends, s->stream);
    es_output *output = s->output;
    s->output = NULL;
    return es_output_close(output);
}

/* --- runs -----------------------------------------------------------------*/

/* Opens an input that has a run. */
static es_status open_input(es_reader **out, size_t *n_runs, const char *path)
{
    es_status status;
    *n_runs = 0;
    if ((status = es_reader_open(out, path)) < 0)
        return status;
    *n_runs = es_reader_n_runs(*out);
    return *n_runs ? ES_OK : es_fail(ES_ENOTFOUND, "%s: has no run", path);
}

/* What fails is reported and counted; the others go on. */
static void report_failure(scan *s)
{
    es_print_failure();
    s->n_failed++;
}

static bool is_baseline(const scan *s)
{
    return s->options.baseline && s->input == s->options.baseline_input;
}

/* Of a run that was loaded, what --where and --sort go by. */
static es_status read_members(scan *s, es_run_summary *summary,
                              es_reader *reader, size_t run)
{
    const es_scan_options *options = &s->options;
    es_status status;
    if (!es_where_reads(&options->where) && !options->order.given)
        return ES_OK;
    if ((status = es_run_settings_read(summary, reader, run)) < 0)
        return status;
    es_members_see(&s->seen, &options->where, &options->order, summary);
    return ES_OK;
}

/* Does --where leave the run out? The baseline it does not. */
static bool is_left_out(const scan *s, const es_run_summary *summary)
{
    return !is_baseline(s) && !es_where_holds(&s->options.where, summary);
}

/* A member that no run has is probably misspelled; "config.KEY" was meant. */
static es_status check_members(const scan *s)
{
    const es_status status =
        es_members_check(&s->seen, &s->options.where, &s->options.order);
    if (status != ES_ENOTFOUND)
        return status;
    es_print_note("%s", es_message());
    return ES_OK;
}

/* Does some output need all runs at once? */
static bool keeps_runs(const scan *s)
{
    return s->comparison || s->options.order.given ||
           es_figures_any(&s->options.figures);
}

/* One line for a pass over many files. Text that is printed meanwhile, and on a
   terminal, leaves no line to it. */
static void begin_pass(const scan *s, const char *verb)
{
    const es_text_kind text = s->options.text;
    const bool is_streamed = !keeps_runs(s) && text != ES_TEXT_TABLE &&
                             text != ES_TEXT_NONE && isatty(STDOUT_FILENO);
    es_progress_line_begin(s->options.quiet || is_streamed ||
                               s->options.n_inputs < 2,
                           verb, NULL, "files", s->options.n_inputs);
}

/* --- first pass -----------------------------------------------------------*/

/* The peak of a run, and whether --where admits it, which takes its whole
   summary. */
static es_status find_peak(scan *s, es_reader *reader, size_t run)
{
    es_summary_options options = s->options.summary;
    es_run_summary *summary = NULL;
    es_status status =
        es_grow(&s->found, s->n_found + 1, sizeof *s->found, "runs");
    if (status < 0)
        return status;
    found *out = &s->found[s->n_found++];
    *out = (found){.failed = false};
    if (s->options.where.n == 0) {
        status = es_summary_peak(&out->peak, &out->step, &out->phase, reader,
                                 run, &options);
    } else {
        options.without_flags = !es_where_judges(&s->options.where);
        status = es_summary_load(&summary, reader, run, &options);
        if (status == ES_OK &&
            (status = read_members(s, summary, reader, run)) == ES_OK) {
            out->left_out = is_left_out(s, summary);
            out->step = summary->step;
            out->phase = summary->phase;
            out->peak = summary->peak;
        }
        es_summary_free(summary);
    }
    out->failed = status < 0;
    if (status == ES_OK && !out->left_out)
        s->observed = es_peak_of(s->observed, out->peak);
    return status;
}

/* The largest value of the runs that the second pass is to show. */
static es_status find_peaks(scan *s)
{
    es_status status =
        es_alloc(&s->n_runs, s->options.n_inputs, sizeof *s->n_runs, "files");
    if (status < 0)
        return status;
    begin_pass(s, "comparing");
    for (s->input = 0; s->input < s->options.n_inputs; s->input++) {
        es_progress_line_set(s->input);
        es_reader *reader = NULL;
        size_t *n = &s->n_runs[s->input];
        if (open_input(&reader, n, s->options.inputs[s->input]) != ES_OK)
            report_failure(s);
        for (size_t run = 0; run < *n; run++)
            if (find_peak(s, reader, run) != ES_OK)
                report_failure(s);
        es_damage_close(reader);
    }
    es_progress_line_end();
    return check_members(s);
}

/* The summary is printed, or kept, and *summary is NULL then. */
static es_status show_summary(scan *s, es_reader *reader, size_t run,
                              es_run_summary **summary)
{
    es_status status;
    if (!keeps_runs(s))
        return add_text(s, *summary);
    if ((status = es_grow(&s->kept, s->n_kept + 1, sizeof *s->kept, "runs")) <
            0 ||
        (status = es_run_settings_read(*summary, reader, run)) < 0 ||
        (s->comparison &&
         (status = es_comparison_add(s->comparison, reader, run, *summary,
                                     is_baseline(s))) < 0))
        return status;
    s->kept[s->n_kept++] = *summary;
    *summary = NULL;
    return ES_OK;
}

/* The sample that the first pass found, though the run may have grown since:
   m may be too small for another. */
static es_status load(es_run_summary **out, const scan *s, es_reader *reader,
                      size_t run, const found *before)
{
    es_summary_options options = s->options.summary;
    for (int attempt = 0; attempt < 2; attempt++) {
        es_status status = es_summary_load(out, reader, run, &options);
        if (status < 0 || !before ||
            ((*out)->step == before->step && (*out)->phase == before->phase &&
             ((*out)->peak == before->peak ||
              (isnan((*out)->peak) && isnan(before->peak)))))
            return status;
        es_summary_free(*out);
        *out = NULL;
        options.step = before->step;
        options.phase = before->phase == ES_PHASE_EVAL ? ES_PHASE_ONLY_EVAL
                                                       : ES_PHASE_ONLY_TRAIN;
    }
    return es_fail(ES_EIO, "%s: changed while it was read",
                   es_reader_path(reader));
}

/* before: what the first pass found; NULL: there was none */
static es_status show(scan *s, es_reader *reader, size_t run,
                      const found *before)
{
    es_run_summary *summary = NULL;
    const bool is_input = !is_baseline(s) || !s->options.baseline_added;
    es_status status = load(&summary, s, reader, run, before);
    if (status < 0)
        return status;
    if (!before && (status = read_members(s, summary, reader, run)) < 0) {
        es_summary_free(summary);
        return status;
    }
    s->n_shown++;
    for (size_t i = 0; s->heard && summary->heard && i < summary->rules->n;
         i++) {
        s->heard[i].any = s->heard[i].any || summary->heard[i];
        s->heard[i].nonfinite += summary->nonfinite[i];
    }
    if (before ? before->left_out : is_left_out(s, summary)) {
        s->n_left_out++;
    } else {
        es_summary_set_max(summary, s->observed);
        if (is_input && es_summary_severity(summary) > s->highest)
            s->highest = es_summary_severity(summary);
        if (!s->trends ||
            (status = es_trends_add(s->trends, reader, run, summary)) == ES_OK)
            status = show_summary(s, reader, run, &summary);
    }
    es_summary_free(summary);
    return status;
}

/* Of a file that the first pass has read, the runs that it found, unless all of
   them failed, which was reported. */
static void show_inputs(scan *s)
{
    const found *before = s->found;
    begin_pass(s, "reading");
    for (s->input = 0; s->input < s->options.n_inputs; s->input++) {
        es_progress_line_set(s->input);
        const size_t n = s->n_runs ? s->n_runs[s->input] : 0;
        bool any = !s->n_runs;
        for (size_t run = 0; run < n; run++)
            any = any || !before[run].failed;
        es_reader *reader = NULL;
        size_t n_now = 0;
        es_status status =
            any ? open_input(&reader, &n_now, s->options.inputs[s->input])
                : ES_OK;
        if (any && status == ES_OK && n_now < n)
            status = es_fail(ES_EIO, "%s: changed while it was read",
                             es_reader_path(reader));
        if (status != ES_OK)
            report_failure(s);
        for (size_t run = 0; run < n_now && (!s->n_runs || run < n); run++) {
            const found *seen = s->n_runs ? &before[run] : NULL;
            if (!(seen && seen->failed) && show(s, reader, run, seen) != ES_OK)
                report_failure(s);
        }
        if (n)
            before += n;
        es_damage_close(reader);
    }
    es_progress_line_end();
}

/* --- outputs --------------------------------------------------------------*/

/* A failing output is reported; the others are made all the same. */
static void note_output(scan *s, es_status status)
{
    int code = status < 0 ? es_command_exit(status) : 0;
    if (!s->output_code)
        s->output_code = code;
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

static es_status print_together(scan *s)
{
    es_status status;
    if ((s->comparison &&
         (status = es_comparison_finish(s->comparison,
                                        (const es_run_summary *const *)s->kept,
                                        s->options.baseline)) < 0) ||
        (status = begin_text(s)) < 0)
        return status;
    for (size_t i = 0; i < s->n_kept; i++)
        if ((status = add_text(s, s->kept[i])) < 0)
            return status;
    return end_text(s);
}

/* All runs are kept: they need no pass of their own for the largest value.
   Pictures come first: a reader of the table may close its pipe early. */
static es_status show_together(scan *s)
{
    show_inputs(s);
    es_status status = check_members(s);
    if (status < 0)
        return status;
    for (size_t i = 0; i < s->n_kept; i++)
        s->observed = es_peak_of(s->observed, s->kept[i]->peak);
    for (size_t i = 0; i < s->n_kept; i++)
        es_summary_set_max(s->kept[i], s->observed);
    if (s->options.order.given && s->n_kept)
        qsort_r(s->kept, s->n_kept, sizeof *s->kept, in_order,
                &s->options.order);
    const es_figure_job job = {
        .options = &s->options.figures,
        .inputs = s->options.inputs,
        .n_inputs = s->options.n_inputs,
        .runs = (const es_run_summary *const *)s->kept,
        .n = s->n_kept,
        .baseline = s->options.baseline
                        ? s->options.inputs[s->options.baseline_input]
                        : NULL,
        .n_unread = s->n_failed,
        .quiet = s->options.quiet,
    };
    size_t n_failed = 0;
    int code = es_exit_code(es_figures_make(&n_failed, &job));
    s->n_failed += n_failed;
    s->output_code = s->output_code ? s->output_code : code;
    note_output(s, print_together(s));
    return ES_OK;
}

/* A run that fails in the second pass alone has still counted for m. */
static es_status show_one_by_one(scan *s)
{
    es_status status;
    if ((s->options.summary.max.policy == ES_MAX_OBSERVED &&
         (status = find_peaks(s)) < 0) ||
        (status = begin_text(s)) < 0)
        return status;
    show_inputs(s);
    status = end_text(s);
    return status == ES_OK && !s->n_runs ? check_members(s) : status;
}

static void show_on_terminal(scan *s)
{
    es_show_result result;
    const es_show_options options = {.inputs = s->options.inputs,
                                     .n_inputs = s->options.n_inputs,
                                     .summary = s->options.summary,
                                     .colormap = s->options.figures.colormap,
                                     .follow = s->options.follow};
    note_output(s, es_show(&result, &options));
    s->n_shown = result.n_shown;
    s->n_failed = s->options.n_unreadable + result.n_failed;
    s->highest = result.highest;
}

static es_status show_runs(scan *s)
{
    s->n_failed += s->options.n_unreadable;
    es_summary_options *summary = &s->options.summary;
    es_status status;
    summary->without_flags =
        s->options.text == ES_TEXT_NONE && !s->options.check &&
        !es_where_judges(&s->options.where) && !s->options.order.given &&
        !es_figure_is_drawn(&s->options.figures, ES_FIGURE_TIMELINE) &&
        !es_figure_is_drawn(&s->options.figures, ES_FIGURE_OVERVIEW);
    if (s->options.compare && s->options.text != ES_TEXT_NONE &&
        (status = es_comparison_new(&s->comparison, summary)) < 0)
        return status;
    if (s->options.trends && s->options.text != ES_TEXT_NONE &&
        (status = es_trends_new(&s->trends)) < 0)
        return status;
    if (!summary->without_flags && s->options.rules.n &&
        (status = es_alloc(&s->heard, s->options.rules.n, sizeof *s->heard,
                           "rules")) < 0)
        return status;
    note_output(s, keeps_runs(s) ? show_together(s) : show_one_by_one(s));
    /* A rule without a series to judge is silent; so is a misspelled one, and
     * one of which the values are NaN. */
    for (size_t i = 0; s->heard && s->n_shown && i < s->options.rules.n; i++) {
        const es_rule *rule = &s->options.rules.rules[i];
        const struct heard *heard = &s->heard[i];
        const char *phase = rule->eval ? "eval" : "train";
        if (heard->nonfinite > 0)
            es_print_note("rule %s: %" PRIu64 " value%s of %s (%s) not "
                          "compared: NaN or infinite",
                          rule->name, heard->nonfinite,
                          heard->nonfinite == 1 ? "" : "s", rule->series,
                          phase);
        if (!heard->any)
            es_print_note("rule %s: not judged: no run has a sample of %s (%s)",
                          rule->name, rule->series, phase);
    }
    if (s->n_left_out && s->n_left_out == s->n_shown && !s->options.quiet &&
        !s->output_code)
        es_print_note("--where: none of %zu run%s is such", s->n_shown,
                      s->n_shown == 1 ? "" : "s");
    return ES_OK;
}

int es_scan_run(const es_scan_options *options)
{
    scan s = {.options = *options, .observed = NAN};
    if (s.options.tui)
        show_on_terminal(&s);
    else
        note_output(&s, show_runs(&s));
    int code = s.output_code              ? s.output_code
               : s.n_failed && !s.n_shown ? es_exit_code(ES_EIO)
               : s.n_failed               ? ES_EXIT_SOME_FAILED
                            : s.options.check && s.highest >= s.options.check;
    code = es_damage_exit(code, s.options.n_inputs);
    es_output_abandon(s.output);
    es_table_free(s.table);
    es_comparison_free(s.comparison);
    es_trends_free(s.trends);
    for (size_t i = 0; i < s.n_kept; i++)
        es_summary_free(s.kept[i]);
    free(s.kept);
    free(s.found);
    free(s.n_runs);
    free(s.heard);
    return code;
}
