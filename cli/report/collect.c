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

void es_report_free(es_report *report)
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
    if (status != ES_OK || n_samples == 0)
        return status;
    es_report_series *grown =
        es_resize(to->series, to->n_series + 1, sizeof *grown);
    if (!grown)
        return es_fail(ES_ENOMEM, "out of memory for a series");
    to->series = grown;
    size_t n_rows =
        series->shape == ES_SHAPE_RUN ? 1 : (size_t)to->summary->n_layer;
    es_report_series *s = &grown[to->n_series++];
    *s = (es_report_series){.series = *series,
                            .name = strdup(series->name),
                            .unit = strdup(series->unit),
                            .n_rows = n_rows,
                            .n_columns = series->n_values / n_rows,
                            .n_samples = (size_t)n_samples};
    return s->name && s->unit
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for a series");
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
        if (status == ES_ENOTFOUND)
            continue;
        if (status == ES_OK && series.last_step == ES_UNKNOWN)
            continue;
        if (status == ES_OK && *n_found && series.shape != ES_SHAPE_RUN)
            break;
        if (status == ES_OK)
            status = add_series(to, reader, &series);
        if (status != ES_OK)
            return status;
        ++*n_found;
    }
    return ES_OK;
}

static es_status read_run(es_report_run *to, size_t *n_absent,
                          es_reader *reader, size_t run,
                          const es_report_options *options)
{
    es_status status =
        es_summary_load(&to->summary, reader, run, &options->summary);
    for (size_t i = 0; status == ES_OK && i < options->n_names; i++) {
        size_t n_found = 0;
        es_series series;
        status = add_name(to, &n_found, reader, run, options->names[i],
                          options->summary.phase);
        if (status != ES_OK || n_found || !options->named)
            continue;
        ++*n_absent;
        /* its message names the series there are */
        if (es_reader_find(reader, run, options->names[i], to->summary->phase,
                           &series) != ES_OK)
            es_print_note("%s", es_message());
    }
    return status;
}

es_status es_report_add(es_report *report, size_t *n_absent, es_reader *reader,
                        size_t run, const es_report_options *options)
{
    es_report_run one = {0};
    es_report_run *grown =
        es_resize(report->runs, report->n_runs + 1, sizeof *grown);
    if (!grown)
        return es_fail(ES_ENOMEM, "out of memory for %zu runs",
                       report->n_runs + 1);
    report->runs = grown;
    es_status status = read_run(&one, n_absent, reader, run, options);
    if (status != ES_OK) {
        free_run(&one);
        return status;
    }
    report->observed = report->n_runs == 0
                           ? one.summary->peak
                           : es_peak_of(report->observed, one.summary->peak);
    grown[report->n_runs++] = one;
    return ES_OK;
}

/* --- shares of the page ---------------------------------------------------*/

/* Numbers of a series written whole: a step takes about as much room. */
static size_t whole(const es_report_series *series)
{
    size_t n;
    bool fits = es_size_mul(&n, series->n_samples, series->series.n_values + 1);
    return fits ? n : SIZE_MAX;
}

/* Gives their share to the open series that need no more than `share`, or,
   with `all`, to every one. Returns how many are open. */
static size_t give(es_report *report, size_t *left, size_t share, bool all)
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

void es_report_allot(es_report *report, size_t n_values)
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
