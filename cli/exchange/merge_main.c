/* Implements entropy-scan merge: copies the runs of many files into one, and
   joins the fragments of distributed training to one run. */
#include "analyzer/base/value.h"
#include "cli/exchange/copies.h"
#include "cli/exchange/merge_fragments.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/summary.h"
#include "cli/runs/tree.h"
#include "store/merge.h"
#include "store/run_row.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct arguments {
    char **inputs; /* (n_inputs) */
    size_t n_inputs;
    es_paths found; /* freed by es_inputs_free */
    size_t n_unreadable;
    const char *output;
    bool quiet;
} arguments;

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, inputs, n_inputs)},
    {"output", 'o', "ALL.db", "the run file to write",
     ES_OPT_TEXT(arguments, output)},
    ES_RECURSIVE_OPTION,
    {"quiet", 'q', NULL, "print only errors", ES_OPT_FLAG(arguments, quiet)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
};

static int merge_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan merge sm.db sm-ln-g.db -o all.db",
     "Merge two runs into one file"},
    {NULL, NULL}};

const es_command es_merge_command = {
    .name = "entropy-scan merge",
    .synopsis = "RUN.db... -o ALL.db",
    .examples = examples,
    .summary = "make one run file of many",
    .details =
        "Every run is copied with its series, samples and events, bit for\n"
        "bit. If several inputs have copies of a run (the same uuid), the\n"
        "copy with the most readable samples is kept; of equal copies, the\n"
        "first. ALL.db is written whole or not at all. An existing ALL.db is\n"
        "replaced only if none of its runs and samples would be lost: to add\n"
        "runs to it, name it among the inputs. If an input cannot be read,\n"
        "the others are merged, and the exit code is 4. The exit code is also\n"
        "4 if copied samples are damaged: ALL.db then has missing values\n"
        "and an event of the kind damaged for each of them.\n"
        "\n"
        "The files that the ranks of distributed training write, RUN.db and\n"
        "RUN.rank1.db, are fragments: those with the same uuid are joined to\n"
        "one run. Ranks with different layers or heads (pipeline or tensor\n"
        "parallel) are placed side by side. For ranks with the same layers\n"
        "and heads (data parallel), means are weighted by the rows of each\n"
        "rank, extremes and counts are combined, and the loss is the mean\n"
        "over ranks. Any other series is kept where the ranks agree, and is\n"
        "missing elsewhere. A step that a rank lacks is computed from the\n"
        "other ranks; the number of these steps is printed and stored as an\n"
        "event of the kind gap. The exit code is 4 if a rank has no fragment,\n"
        "or if fragments do not fit (a rank twice, overlapping heads), which\n"
        "are then omitted.\n"
        "\n"
        "The table summary of ALL.db has a row for each run, for plain SQL:\n"
        "its last step, losses, heads in each quarter of the ceiling, and\n"
        "flags. NULL means that a number was not recorded; a number that is\n"
        "not finite is the text NaN, inf or -inf. SQL's avg and sum treat a\n"
        "text as 0: add filter (where typeof(eval_ppl) = 'real').",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = merge_main,
};

static es_status check_arguments(const arguments *given)
{
    if (!given->n_inputs)
        return es_fail(ES_EUSAGE, "no run files to merge: see entropy-scan "
                                  "merge --help");
    if (!given->output)
        return es_fail(ES_EUSAGE, "no run file to write: add -o ALL.db");
    return es_output_check_run_file(given->output);
}

/* Writes the summary of a run as a row of the table summary. */
static es_status add_row(es_writer *writer, es_reader *reader, size_t run)
{
    char flags[1024] = "no entropy";
    es_run_info info;
    es_run_summary *summary = NULL;
    es_summary_options wanted;
    es_summary_options_default(&wanted);
    wanted.max.policy = ES_MAX_CEILING;
    es_run_row row = {.step = ES_UNKNOWN,
                      .loss = es_missing(),
                      .ppl = es_missing(),
                      .eval_loss = es_missing(),
                      .eval_ppl = es_missing(),
                      .ceiling = NAN,
                      .largest = NAN,
                      .flags = flags};
    es_status status = es_reader_run(reader, run, &info);
    if (status != ES_OK)
        return status;
    status = es_summary_load(&summary, reader, run, &wanted);
    if (status == ES_OK) {
        es_summary_print_flags(flags, sizeof flags, summary);
        row.step = summary->step;
        row.loss = summary->loss;
        row.ppl = summary->ppl;
        row.eval_loss = summary->eval_loss;
        row.eval_ppl = summary->eval_ppl;
        row.ceiling = summary->ceiling;
        row.largest = es_largest_finite(summary->values,
                                        summary->n_rows * summary->n_columns);
        row.bands = summary->bands;
        row.severity = es_summary_severity(summary);
    }
    es_summary_free(summary);
    if (status != ES_OK && status != ES_ENOTFOUND)
        return status;
    return es_writer_run_row(writer, info.uuid, &row);
}

static void count_sample(size_t n_bytes)
{
    es_progress_line_add(n_bytes);
}

/* Returns the size of a file in bytes, or 0 if the size cannot be read. The
   error is reported when the file is opened. */
static uint64_t size_of(const char *path)
{
    const es_stamp stamp = es_stamp_of(path);
    return stamp.size > 0 ? (uint64_t)stamp.size : 0;
}

typedef struct merging {
    const arguments *given;
    const es_output *output;
    es_writer *writer;
    es_copies *copies;
    es_fragments *fragments;
    es_merged *merged;
} merging;

/* Copies a run, or, if the run is a fragment, keeps the fragment until all
   inputs have been read. */
static es_status merge_run(merging *m, es_reader *reader, size_t run,
                           bool *is_fragment)
{
    size_t skipped = 0;
    es_status status = es_fragments_add(m->fragments, reader, run);
    *is_fragment = status == ES_OK;
    if (status == ES_DONE)
        status = es_merge_run(m->writer, reader, run, &m->merged->n_runs,
                              &skipped, add_row, count_sample);
    if (skipped) { /* the run was added to the file after es_copies_find */
        es_print_note(
            "%s: a run was added during the merge and is omitted; merge again",
            es_reader_path(reader));
        m->merged->n_incomplete++;
    }
    return status;
}

/* Copies the runs of a file. Keeps the reader open if the file has
   fragments. */
static es_status merge_one(merging *m, size_t input)
{
    const char *path = m->given->inputs[input];
    es_reader *reader = NULL;
    bool has_fragments = false;
    size_t n_left_out = 0;
    es_status status = es_reader_open(&reader, path);
    const size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    for (size_t run = 0; run < n && status >= 0; run++) {
        bool is_fragment = false;
        if (es_copies_leave_out(m->copies, input, run))
            n_left_out++;
        else
            status = merge_run(m, reader, run, &is_fragment);
        has_fragments |= is_fragment;
    }
    if (status >= 0 && n_left_out < n && es_merge_is_behind(reader)) {
        es_print_note(
            "%s: cannot be read completely: frames are damaged, or not visible "
            "to this host yet; merge it again in a minute",
            path);
        m->merged->n_incomplete++;
    }
    if (n_left_out && !m->given->quiet)
        es_print_note("%s: %zu of its runs skipped: another file has a copy "
                      "with at least as many samples",
                      path, n_left_out);
    if (has_fragments)
        return es_fragments_keep(m->fragments, reader, status);
    if (n_left_out < n)
        es_damage_close(reader);
    else
        es_reader_close(reader);
    return status;
}

/* Merges all inputs. If an input cannot be read, reports and counts the failure
   and continues with the next input. */
static es_status merge_all(merging *m)
{
    const arguments *given = m->given;
    uint64_t total = 0, read = 0;
    for (size_t i = 0; i < given->n_inputs; i++)
        total += size_of(given->inputs[i]);
    es_progress_line_begin(given->quiet, "merging into", given->output,
                           ES_PROGRESS_BYTES, total);
    for (size_t i = 0; i < given->n_inputs; i++) {
        es_progress_line_set(read);
        read += size_of(given->inputs[i]);
        es_status status = merge_one(m, i);
        if (status != ES_OK && es_output_is_blamed(m->output)) {
            es_progress_line_end();
            return es_output_status(m->output, status);
        }
        if (status != ES_OK) {
            es_print_note("%s", es_message());
            m->merged->n_failed++;
        }
    }
    es_progress_line_end();
    es_status status = es_fragments_join(m->fragments, m->writer, m->output,
                                         add_row, given->quiet, m->merged);
    if (status == ES_OK && !m->merged->n_runs)
        return es_fail(ES_EIO, "%s: not written: there is no run to write",
                       given->output);
    return status;
}

/* Sets *out to true if a run of the file to be replaced is missing from the new
   file, or has fewer samples in the new file. */
static es_status is_lost(bool *out, const merging *m, es_reader *old,
                         size_t run, es_reader *made, const es_run_index *index)
{
    bool is_fragment = false;
    es_run_info info;
    size_t found;
    es_status status =
        es_fragments_check(m->fragments, old, run, &is_fragment, out);
    if (status == ES_OK)
        status = es_reader_run(old, run, &info);
    if (status != ES_OK || *out || is_fragment)
        return status;
    *out = !es_run_index_find(&found, index, info.uuid);
    return *out ? ES_OK : es_copy_has_more(out, old, run, made, found);
}

static es_status count_lost(size_t *n_lost, const merging *m, es_reader *old)
{
    es_reader *made = NULL;
    es_run_index *index = NULL;
    es_status status = es_merge_open(&made, m->writer);
    if (status == ES_OK)
        status = es_run_index_make(&index, made);
    const size_t n = es_reader_n_runs(old);
    for (size_t run = 0; run < n && status == ES_OK; run++) {
        bool lost = false;
        status = is_lost(&lost, m, old, run, made, index);
        *n_lost += lost;
    }
    es_run_index_free(index);
    es_reader_close(made);
    return status;
}

/* Checks that the new file contains every run of the file to be replaced, with
   at least as many samples. */
static es_status check_replaced(const merging *m)
{
    const char *path = m->given->output;
    size_t n_lost = 0;
    es_reader *old = NULL;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return ES_OK;
    es_status status = es_reader_open(&old, path);
    if (status == ES_OK)
        status = count_lost(&n_lost, m, old);
    es_reader_close(old);
    if (status != ES_OK || !n_lost)
        return status;
    return es_fail(ES_EIO,
                   "%s: %zu of its runs are missing from the inputs, or have "
                   "fewer samples there: name this file among the inputs to "
                   "keep them, or remove it",
                   path, n_lost);
}

static es_status write_runs(merging *m)
{
    const arguments *given = m->given;
    es_status status = es_fragments_make(&m->fragments);
    if (status == ES_OK)
        status = es_copies_find(&m->copies, given->inputs, given->n_inputs);
    if (status == ES_OK)
        status = merge_all(m);
    if (status == ES_OK)
        status = check_replaced(m);
    es_copies_free(m->copies);
    es_fragments_free(m->fragments);
    if (status == ES_OK)
        return es_output_status(m->output, es_writer_close(m->writer));
    es_writer_abandon(m->writer);
    return status;
}

static int merge_inputs(const arguments *given)
{
    es_merged merged = {.n_failed = given->n_unreadable};
    es_output *output = NULL;
    es_writer *writer = NULL;
    es_status status = es_output_open_run(&output, &writer, given->output);
    if (status == ES_OK) {
        merging m = {.given = given,
                     .output = output,
                     .writer = writer,
                     .merged = &merged};
        status = write_runs(&m);
        status = es_output_finish(output, status);
    }
    if (status != ES_OK)
        return es_command_exit(status);
    const size_t n_files = given->n_inputs - merged.n_failed;
    if (!given->quiet)
        es_print_note("%s: %zu run%s from %zu file%s", given->output,
                      merged.n_runs, merged.n_runs == 1 ? "" : "s", n_files,
                      n_files == 1 ? "" : "s");
    return merged.n_failed || merged.n_incomplete ? ES_EXIT_SOME_FAILED : 0;
}

static int merge_main(int argc, char **argv)
{
    arguments given = {.inputs = NULL};
    es_status status =
        es_command_parse(&given, NULL, &es_merge_command, argc, argv);
    if (status == ES_OK)
        status = check_arguments(&given);
    if (status == ES_OK)
        status = es_inputs_expand(&given.inputs, &given.n_inputs, &given.found,
                                  &given.n_unreadable);
    int code = status == ES_OK ? merge_inputs(&given) : es_command_exit(status);
    code = es_damage_exit(code, given.n_inputs);
    es_inputs_free(given.inputs, &given.found);
    return code;
}
