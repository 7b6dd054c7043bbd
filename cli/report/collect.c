/* What the page will show: summaries and series of the runs, and the share of
   the page that each series gets. */
#include "cli/report/report.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"

#include <math.h>
#include <string.h>

static void free_run(es_report_run *run)
{
    es_summary_free(run->summary);
    for (size_t i = 0; i < run->n_series; i++) {
        free(run->series[i].name);
        free(run->series[i].unit);
    }
    free(run->series);
}

void es_report_free(es_report_data *report)
{
    for (size_t i = 0; i < report->n_runs; i++)
        free_run(&report->runs[i]);
    free(report->runs);
}

static es_status add_series(es_report_run *to, es_reader *reader,
                            const es_series *series)
{
    int64_t n_samples;
    es_status status = es_reader_count(reader, series, &n_samples);
    if (status < 0 || n_samples == 0 ||
        (status = es_grow(&to->series, to->n_series + 1, sizeof *to->series,
                          "a series")) < 0)
        return status;
    const size_t n_rows =
        series->shape == ES_SHAPE_RUN ? 1 : (size_t)to->summary->n_layer;
    es_report_series *s = &to->series[to->n_series++];
    *s = (es_report_series){.series = *series,
                            .n_rows = n_rows,
                            .n_columns = series->n_values / n_rows,
                            .n_samples = (size_t)n_samples};
    if ((status = es_copy_text(&s->name, series->name)) < 0)
        return status;
    return es_copy_text(&s->unit, series->unit);
}

/* Of values for each head or layer the phase of the summary, or the other
   where that has none; of a run's own values, as the loss, both. */
static es_status add_name(es_report_run *to, size_t *n_found, es_reader *reader,
                          size_t run, const char *name, es_phase_choice choice)
{
    es_phase first = to->summary->phase;
    *n_found = 0;
    for (int k = 0; k < (choice == ES_PHASE_ANY ? 2 : 1); k++) {
        es_series series;
        es_phase phase = k == 0                    ? first
                         : first == ES_PHASE_TRAIN ? ES_PHASE_EVAL
                                                   : ES_PHASE_TRAIN;
        es_status status = es_reader_find(reader, run, name, phase, &series);
        if (status == ES_ENOTFOUND ||
            (status == ES_OK && series.last_step == ES_UNKNOWN))
            continue;
        if (status < 0)
            return status;
        if (*n_found && series.shape != ES_SHAPE_RUN)
            break;
        if ((status = add_series(to, reader, &series)) < 0)
            return status;
        ++*n_found;
    }
    return ES_OK;
}

static es_status read_run(es_report_run *to, size_t *n_absent,
                          es_reader *reader, size_t run,
                          const es_report_options *options)
{
    es_status status;
    if ((status =
             es_summary_load(&to->summary, reader, run, &options->summary)) < 0)
        return status;
    for (size_t i = 0; i < options->n_names; i++) {
        size_t n_found = 0;
        es_series series;
        if ((status = add_name(to, &n_found, reader, run, options->names[i],
                               options->summary.phase)) < 0)
            return status;
        if (n_found || !options->named)
            continue;
        ++*n_absent;
        /* its message names the series there are */
        if (es_reader_find(reader, run, options->names[i], to->summary->phase,
                           &series) != ES_OK)
            es_print_note("%s", es_message());
    }
    return ES_OK;
}

es_status es_report_add(es_report_data *report, size_t *n_absent,
                        es_reader *reader, size_t run,
                        const es_report_options *options)
{
    es_report_run one = {0};
    es_status status;
    if ((status = es_grow(&report->runs, report->n_runs + 1,
                          sizeof *report->runs, "runs")) < 0 ||
        (status = read_run(&one, n_absent, reader, run, options)) < 0) {
        free_run(&one);
        return status;
    }
    report->observed = report->n_runs == 0
                           ? one.summary->peak
                           : es_peak_of(report->observed, one.summary->peak);
    report->runs[report->n_runs++] = one;
    return ES_OK;
}

/* --- shares of the page ---------------------------------------------------*/

/* Numbers of a series written whole: a step takes about as much space. */
static size_t whole(const es_report_series *series)
{
    size_t n;
    bool fits = es_size_mul(&n, series->n_samples, series->series.n_values + 1);
    return fits ? n : SIZE_MAX;
}

/* Gives their share to the open series that need no more than `share`, or,
   with `all`, to every one. Returns how many are open. */
static size_t give(es_report_data *report, size_t *left, size_t share, bool all)
{
    size_t n_open = 0;
    for (size_t i = 0; i < report->n_runs; i++)
        for (size_t k = 0; k < report->runs[i].n_series; k++) {
            es_report_series *s = &report->runs[i].series[k];
            if (s->share)
                continue;
            if (!all && whole(s) > share) {
                n_open++;
                continue;
            }
            s->share = whole(s) < share ? whole(s) : share;
            *left -= s->share < *left ? s->share : *left;
        }
    return n_open;
}

void es_report_allot(es_report_data *report, size_t n_values)
{
    size_t left = n_values, before;
    size_t n_open = give(report, &left, 0, false);
    do {
        before = n_open;
        if (n_open)
            n_open = give(report, &left, left / n_open, false);
    } while (n_open && n_open < before);
    if (n_open)
        give(report, &left, left / n_open ? left / n_open : 1, true);
}
