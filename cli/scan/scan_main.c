/* Implements entropy-scan RUN.db..., which outputs runs as a table, JSON, CSV
   or pictures, and checks them. Each file is read once, by several processes if
   there are many files. Under the policy `observed`, the largest value of all
   runs must be known before a table, JSON or CSV can be written. Until then,
   the first summaries wait in memory, and the others in a temporary file.
   Pictures, --sort and --compare need all runs at once. */
#include "analyzer/base/checked.h"
#include "cli/compare/compare.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/gather.h"
#include "cli/runs/json.h"
#include "cli/runs/settings.h"
#include "cli/scan/github.h"
#include "cli/scan/parts.h"
#include "cli/scan/scan.h"
#include "cli/scan/table.h"
#include "cli/terminal/show.h"
#include "cli/trends/trends.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Maximum number of summaries that wait in memory, and maximum number of values
   in all these summaries. */
enum { KEPT_MOST = 64, KEPT_VALUES_MOST = 1 << 18 };

typedef struct scan {
    es_scan_options options; /* shallow copy */
    double observed;         /* largest value of the shown series in all runs
                                so far */
    size_t input;            /* index of the current input */

    es_run_summary **kept; /* (n_kept) runs that are kept because pictures or
                              the comparison need them, or until the largest
                              value of all runs is known */
    size_t n_kept, n_kept_values;
    FILE *waiting;             /* temporary file with the summaries that wait
                                  for the largest value but are not in
                                  `kept`; NULL if not used */
    es_comparison *comparison; /* NULL without --compare */
    es_trends *trends;         /* NULL without --trends */
    size_t n_shown, n_failed;  /* number of runs that were read; number of runs
                                  and files that failed */
    size_t n_left_out;         /* number of runs that --where excludes; also
                                  counted in n_shown */
    es_members_seen seen;      /* members of configurations that --where and
                                  --sort name, and which of them were found */
    int output_code;           /* exit code of the first output that failed */
    es_severity highest;       /* highest severity of the active flags of all
                                  inputs */
    struct heard {
        bool any;           /* true if some run has a sample of the rule's
                               series */
        uint64_t nonfinite; /* number of NaN and infinite values of the rule's
                               series in all runs */
    } * heard;              /* (rules->n) one element for each rule; NULL
                               without rules */

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
        fflush(s->stream); /* so that a program that reads a pipe gets each run
                              immediately */
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

/* Reports and counts a failure to read a run or file. The scan then continues
   with the other runs. */
static void report_failure(scan *s)
{
    es_print_failure();
    s->n_failed++;
}

static bool is_baseline(const scan *s)
{
    return s->options.baseline && s->input == s->options.baseline_input;
}

/* Returns true if --where or --sort needs the runs' settings. */
static bool reads_members(const scan *s)
{
    return es_where_reads(&s->options.where) || s->options.order.given;
}

/* Checks that each configuration member that --where or --sort names exists in
   some run. If no run has a member KEY, the name "KEY" is an error, since it is
   probably misspelled, but "config.KEY" only causes a note. */
static es_status check_members(const scan *s)
{
    const es_status status =
        es_members_check(&s->seen, &s->options.where, &s->options.order);
    if (status != ES_ENOTFOUND)
        return status;
    es_print_note("%s", es_message());
    return ES_OK;
}

/* Returns true if an output needs all runs at once. */
static bool keeps_runs(const scan *s)
{
    return s->comparison || s->options.order.given ||
           es_figures_any(&s->options.figures);
}

/* Begins the progress line of a pass over many files, unless text is printed on
   a terminal during the pass. */
static void begin_pass(const scan *s, const char *verb)
{
    const es_text_kind text = s->options.text;
    const bool is_streamed = !keeps_runs(s) && text != ES_TEXT_TABLE &&
                             text != ES_TEXT_NONE && isatty(STDOUT_FILENO);
    es_progress_line_begin(s->options.quiet || is_streamed ||
                               s->options.n_inputs < 2,
                           verb, NULL, "files", s->options.n_inputs);
}

/* --- reading --------------------------------------------------------------*/

static es_status keep_run(scan *s, es_run_summary *run)
{
    es_status status =
        es_grow(&s->kept, s->n_kept + 1, sizeof *s->kept, "runs");
    if (status == ES_OK) {
        s->kept[s->n_kept++] = run;
        s->n_kept_values += run->n_rows * run->n_columns;
    }
    return status;
}

/* Appends a summary to an unnamed temporary file, which disappears with the
   process. */
static es_status wait_in_file(scan *s, const es_run_summary *run)
{
    const es_finding finding = {.kind = ES_FINDING_RUN,
                                .run = (es_run_summary *)(uintptr_t)run};
    if (!s->waiting && !(s->waiting = tmpfile()))
        return es_fail(ES_EIO, "cannot make a temporary file in /tmp: %s",
                       strerror(errno));
    es_status status = es_finding_write(s->waiting, &finding);
    if (status == ES_OK && ferror(s->waiting))
        status = es_fail(ES_EIO, "cannot write a temporary file in /tmp: %s",
                         strerror(errno));
    return status;
}

/* Stores a summary until the largest value of all runs is known. Sets *run to
   NULL if the summary is kept in memory. */
static es_status let_wait(scan *s, es_run_summary **run)
{
    const size_t n = (*run)->n_rows * (*run)->n_columns;
    s->observed = es_peak_of(s->observed, (*run)->peak);
    if (s->waiting || s->n_kept >= KEPT_MOST ||
        (s->n_kept && n > KEPT_VALUES_MOST - s->n_kept_values))
        return wait_in_file(s, *run);
    es_status status = keep_run(s, *run);
    if (status == ES_OK)
        *run = NULL;
    return status;
}

/* Keeps a run for pictures, --sort and --compare, and sets *run to NULL. */
static es_status keep_for_all(scan *s, es_run_summary **run, es_reader *reader,
                              size_t index)
{
    es_status status;
    if (s->comparison &&
        (status = es_comparison_add(s->comparison, reader, index, *run,
                                    is_baseline(s))) < 0)
        return status;
    if ((status = keep_run(s, *run)) == ES_OK)
        *run = NULL;
    return status;
}

/* Implements the callback es_gather_sink.run. Takes ownership of `run`. */
static es_status take_run(void *user, es_run_summary *run, es_reader *reader,
                          size_t index)
{
    scan *s = user;
    es_status status = ES_OK;
    s->n_shown++;
    es_summary_note_config(run);
    if (reads_members(s))
        es_members_see(&s->seen, &s->options.where, &s->options.order, run);
    for (size_t i = 0; s->heard && run->heard && i < run->rules->n; i++) {
        s->heard[i].any = s->heard[i].any || run->heard[i];
        s->heard[i].nonfinite += run->nonfinite[i];
    }
    if (!is_baseline(s) && !es_where_holds(&s->options.where, run)) {
        s->n_left_out++;
        goto done;
    }
    if ((!is_baseline(s) || !s->options.baseline_added) &&
        es_summary_severity(run) > s->highest)
        s->highest = es_summary_severity(run);
    if (!s->trends ||
        (status = es_trends_add(s->trends, reader, index, run)) == ES_OK) {
        if (keeps_runs(s))
            status = keep_for_all(s, &run, reader, index);
        else if (s->options.summary.max.policy == ES_MAX_OBSERVED)
            status = let_wait(s, &run);
        else
            status = add_text(s, run);
    }
done:
    es_summary_free(run);
    return status;
}

static void take_failure(void *user, es_status code)
{
    (void)code;
    report_failure(user);
}

static void take_damage(void *user, const char *path, const es_damaged *sample)
{
    (void)user;
    es_damage_note(path, sample);
}

static void begin_input(void *user, size_t i)
{
    scan *s = user;
    s->input = i;
    es_progress_line_set(i);
}

static es_status read_inputs(scan *s)
{
    es_status status = ES_OK;
    const es_gather_job job = {.inputs = s->options.inputs,
                               .n_inputs = s->options.n_inputs,
                               .options = &s->options.summary,
                               .settings = reads_members(s) || keeps_runs(s),
                               .readers = s->comparison || s->trends,
                               .n_processes = (size_t)s->options.n_processes,
                               .sink = {.user = s,
                                        .begin = begin_input,
                                        .run = take_run,
                                        .failed = take_failure,
                                        .damaged = take_damage}};
    begin_pass(s, "reading");
    if (s->options.slurm)
        status = es_parts_join(&s->options, &job);
    else
        es_gather(&job);
    es_progress_line_end();
    return status;
}

/* --- outputs --------------------------------------------------------------*/

/* If an output failed, prints the error and records the exit code. The other
   outputs are still written. */
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

/* Writes the outputs that need all runs at once. Writes pictures first, because
   the program that reads the table from a pipe may close the pipe early. */
static es_status show_together(scan *s)
{
    es_status status = read_inputs(s);
    if (status < 0 || (status = check_members(s)) < 0)
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

static void show_waiting(scan *s, es_run_summary *run)
{
    es_summary_set_max(run, s->observed);
    if (add_text(s, run) < 0)
        report_failure(s);
}

static es_status show_all_waiting(scan *s)
{
    es_finding finding;
    es_status status = ES_OK;
    for (size_t i = 0; i < s->n_kept; i++)
        show_waiting(s, s->kept[i]);
    if (!s->waiting)
        return ES_OK;
    if (fflush(s->waiting) != 0)
        return es_fail(ES_EIO, "cannot write a temporary file in /tmp: %s",
                       strerror(errno));
    rewind(s->waiting);
    while ((status = es_finding_read(&finding, s->waiting,
                                     s->options.summary.rules)) == ES_OK) {
        show_waiting(s, finding.run);
        es_finding_clear(&finding);
    }
    es_finding_clear(&finding);
    return status == ES_DONE ? ES_OK
           : status == ES_EFORMAT
               ? es_fail(ES_EIO, "cannot read a temporary file in /tmp")
               : status;
}

static es_status show_one_by_one(scan *s)
{
    const bool waits = s->options.summary.max.policy == ES_MAX_OBSERVED;
    es_status status;
    if (waits) {
        if ((status = read_inputs(s)) < 0 || (status = check_members(s)) < 0 ||
            (status = begin_text(s)) < 0 || (status = show_all_waiting(s)) < 0)
            return status;
        return end_text(s);
    }
    if ((status = begin_text(s)) < 0 || (status = read_inputs(s)) < 0)
        return status;
    status = end_text(s);
    return status == ES_OK ? check_members(s) : status;
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
    /* A rule never holds if its series is missing or all values of the series
       are NaN. Report such rules, since the name of the series may be
       misspelled. */
    for (size_t i = 0; s->heard && s->n_shown && i < s->options.rules.n; i++) {
        const es_rule *rule = &s->options.rules.rules[i];
        const struct heard *heard = &s->heard[i];
        const char *phase = rule->eval ? "eval" : "train";
        if (heard->nonfinite > 0)
            es_print_note("rule %s: %" PRIu64
                          " value%s of %s (%s) not compared: NaN or infinite",
                          rule->name, heard->nonfinite,
                          heard->nonfinite == 1 ? "" : "s", rule->series,
                          phase);
        if (!heard->any)
            es_print_note("rule %s not applied: no run has a sample of %s (%s)",
                          rule->name, rule->series, phase);
    }
    if (s->n_left_out && s->n_left_out == s->n_shown && !s->options.quiet &&
        !s->output_code)
        es_print_note("--where: no run matches (%zu run%s read)", s->n_shown,
                      s->n_shown == 1 ? "" : "s");
    return ES_OK;
}

int es_scan_run(const es_scan_options *options)
{
    scan s = {.options = *options, .observed = NAN};
    es_status status = ES_OK;
    if (s.options.slurm)
        note_output(&s, status = es_parts_submit(&s.options));
    if (s.options.tui)
        show_on_terminal(&s);
    else if (status == ES_OK)
        note_output(&s, show_runs(&s));
    if (s.options.slurm && !s.output_code)
        es_parts_remove(&s.options);
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
    if (s.waiting)
        fclose(s.waiting);
    free(s.heard);
    return code;
}
