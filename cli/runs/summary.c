/* Reads a run's summary: identity, the sample shown, losses, bands; flags by
   summary_judge.c. Of other series it reads no more than the newest value. */
#include "cli/runs/summary_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void es_summary_options_default(es_summary_options *out)
{
    *out = (es_summary_options){
        .series = "entropy",
        .phase = ES_PHASE_ANY,
        .step = ES_STEP_LAST,
        .max = {.policy = ES_MAX_OBSERVED},
    };
}

static bool is_entropy(const char *series)
{
    return strcmp(series, "entropy") == 0 ||
           strcmp(series, "entropy_min") == 0 ||
           strcmp(series, "entropy_max") == 0;
}

es_status es_summary_options_check(const es_summary_options *options)
{
    es_max_policy policy = options->max.policy;
    if ((policy == ES_MAX_CEILING || policy == ES_MAX_LOGT) &&
        !is_entropy(options->series))
        return es_fail(ES_EUSAGE,
                       "--max %s bounds entropies, not %s: use observed, run "
                       "or a number",
                       es_max_name(policy), options->series);
    return ES_OK;
}

double es_peak_of(double a, double b)
{
    return fmax(a, b); /* the other one if one is NaN */
}

static es_status no_sample(es_reader *reader, size_t run, const char *series)
{
    es_run_info info;
    es_status status = es_reader_run(reader, run, &info);
    if (status < 0)
        return status;
    return es_fail(ES_ENOTFOUND, "%s: run %zu (%s) has no sample of %s yet",
                   es_reader_path(reader), run + 1, info.name, series);
}

/* The series to show; of the phases allowed, the first that has samples. */
static es_status find_series(es_series *out, es_reader *reader, size_t run,
                             const es_summary_options *options)
{
    const bool any = options->phase == ES_PHASE_ANY;
    const es_phase first =
        options->phase == ES_PHASE_ONLY_EVAL ? ES_PHASE_EVAL : ES_PHASE_TRAIN;
    bool empty = false;
    for (int phase = (int)first; phase <= (any ? ES_PHASE_EVAL : (int)first);
         phase++) {
        es_status status =
            es_reader_find(reader, run, options->series, (es_phase)phase, out);
        if (status && status != ES_ENOTFOUND)
            return status;
        if (!status && out->last_step != ES_UNKNOWN)
            return ES_OK;
        empty = empty || !status;
    }
    if (empty || es_reader_n_series(reader, run) == 0)
        return no_sample(reader, run, options->series);
    return es_reader_find(reader, run, options->series, first, out);
}

static es_status read_sample(float **values, int64_t *step, es_reader *reader,
                             const es_series *series, int64_t wanted)
{
    const size_t n = series->n_values;
    es_status status = es_alloc(values, n, sizeof **values, "a sample");
    if (status < 0 || (status = es_reader_sample(reader, series, wanted,
                                                 *values, n, step)) == ES_OK)
        return status;
    free(*values);
    *values = NULL;
    return status;
}

es_status es_summary_peak(double *out, int64_t *step, es_reader *reader,
                          size_t run, const es_summary_options *options)
{
    es_series series;
    float *values;
    es_status status;
    if ((status = find_series(&series, reader, run, options)) < 0 ||
        (status = read_sample(&values, step, reader, &series, options->step)) <
            0)
        return status;
    *out = es_largest_finite(values, series.n_values);
    free(values);
    return ES_OK;
}

/* The newest value of a run series at or before `step`, or missing. */
static es_status newest_value(float *out, es_reader *reader, size_t run,
                              const char *name, es_phase phase, int64_t step)
{
    es_series series;
    es_cursor *cursor;
    const float *value;
    int64_t found;
    *out = es_missing();
    es_status status = es_reader_find(reader, run, name, phase, &series);
    if (status)
        return status == ES_ENOTFOUND ? ES_OK : status;
    if (series.n_values != 1 || series.last_step == ES_UNKNOWN)
        return ES_OK;
    if (series.last_step < step)
        step = series.last_step; /* found at once, not by reading on to it */
    status = es_reader_sample(reader, &series, step, out, 1, &found);
    if (status != ES_ENOTFOUND)
        return status;
    status = es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST, step);
    if (status)
        return status;
    while ((status = es_cursor_next(cursor, &found, &value)) == ES_OK)
        *out = *value;
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static es_status read_loss(float *loss, float *ppl, es_reader *reader,
                           size_t run, es_phase phase, int64_t step)
{
    float ce;
    es_status status;
    if ((status = newest_value(loss, reader, run, "loss", phase, step)) < 0 ||
        (status = newest_value(&ce, reader, run, "ce", phase, step)) < 0)
        return status;
    if (es_is_missing(ce))
        ce = *loss;
    *ppl = es_is_missing(ce) ? es_missing() : (float)exp(ce);
    return ES_OK;
}

static es_status read_status(const char **out, es_reader *reader,
                             const es_run_info *info)
{
    bool written = true;
    es_status status = info->status == ES_RUN_RUNNING
                           ? es_reader_is_written(reader, &written)
                           : ES_OK;
    *out = written ? es_run_status_name(info->status) : "interrupted";
    return status;
}

static es_status read_identity(es_run_summary *summary, es_reader *reader,
                               size_t run)
{
    es_run_info info;
    es_status status;
    if ((status = es_reader_run(reader, run, &info)) < 0)
        return status;
    summary->number = run + 1;
    summary->n_in_file = es_reader_n_runs(reader);
    summary->n_layer = info.n_layer;
    summary->n_head = info.n_head;
    summary->ctx = info.ctx < 1 || info.ctx > INT_MAX ? ES_UNKNOWN : info.ctx;
    summary->d_model = info.d_model;
    summary->vocab = info.vocab;
    summary->batch = info.batch;
    summary->seed = info.seed;
    summary->last_step = info.last_step;
    if ((status = es_copy_text(&summary->path, es_reader_path(reader))) < 0 ||
        (status = es_copy_text(&summary->name, info.name)) < 0 ||
        (status = es_copy_text(&summary->arch, info.arch)) < 0 ||
        (status = es_copy_text(&summary->family, info.family)) < 0 ||
        (status = read_status(&summary->status, reader, &info)) < 0 ||
        (status =
             es_reader_planned_steps(reader, run, &summary->planned_steps)) < 0)
        return status;
    return es_reader_config(reader, run, &summary->config);
}

static es_status read_values(es_run_summary *summary, es_reader *reader,
                             const es_series *series, int64_t wanted)
{
    es_status status;
    summary->shape = series->shape;
    summary->phase = series->phase;
    if ((status = es_copy_text(&summary->series, series->name)) < 0 ||
        (status = es_copy_text(&summary->unit, series->unit)) < 0 ||
        (status = read_sample(&summary->values, &summary->step, reader, series,
                              wanted)) < 0)
        return status;
    summary->n_rows =
        series->shape == ES_SHAPE_RUN ? 1 : (size_t)summary->n_layer;
    summary->n_columns = series->n_values / summary->n_rows;
    return ES_OK;
}

static int ctx_of(const es_run_summary *summary)
{
    return summary->ctx == ES_UNKNOWN ? 0 : (int)summary->ctx;
}

static es_status compute(es_run_summary *summary)
{
    const size_t n_columns = summary->n_columns;
    es_status status = es_alloc(&summary->layers, summary->n_rows,
                                sizeof *summary->layers, "layers");
    if (status < 0)
        return status;
    for (size_t row = 0; row < summary->n_rows; row++)
        es_stats_summary(&summary->layers[row],
                         summary->values + row * n_columns, n_columns, 1);
    summary->ceiling = es_ceiling(ctx_of(summary));
    summary->peak =
        es_largest_finite(summary->values, summary->n_rows * n_columns);
    es_summary_set_max(summary, summary->peak);
    return ES_OK;
}

void es_summary_set_max(es_run_summary *summary, double observed)
{
    size_t n = summary->n_rows * summary->n_columns;
    summary->m =
        es_max_value(&summary->max, observed, summary->peak, ctx_of(summary));
    /* Without m no finite head has a band. */
    bool known = !isnan(summary->m) || isnan(summary->peak);
    es_bands_count(&summary->bands, summary->values,
                   summary->shape == ES_SHAPE_HEAD && known ? n : 0,
                   summary->m);
}

/* Did flags or rules need this sample, and is none of its series after it? */
static bool ends_judged_series(const es_run_summary *summary, es_reader *reader,
                               const es_damaged *sample)
{
    const es_rules_file *rules = summary->rules;
    es_series series;
    bool judged = sample->phase == summary->phase &&
                  es_judge_series_of(sample->series) != ES_JUDGE_OTHER;
    for (size_t i = 0; rules && i < rules->n; i++)
        judged = judged || strcmp(rules->rules[i].series, sample->series) == 0;
    return judged &&
           es_reader_find(reader, sample->run, sample->series, sample->phase,
                          &series) == ES_OK &&
           series.last_step == sample->step;
}

static es_status list_damaged(es_run_summary *summary, es_reader *reader,
                              size_t run)
{
    const size_t n = es_reader_n_damaged(reader);
    es_status status;
    summary->checksums = es_reader_has_checksums(reader);
    if (!n)
        return ES_OK;
    if ((status = es_alloc(&summary->damaged, n, sizeof *summary->damaged,
                           "damaged samples")) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        es_damaged *sample = &summary->damaged[summary->n_damaged];
        char *name;
        if ((status = es_reader_damaged(reader, i, sample)) < 0)
            return status;
        if (sample->run != run)
            continue;
        if ((status = es_copy_text(&name, sample->series)) < 0)
            return status;
        sample->series = name;
        summary->n_damaged++;
        summary->end_damaged =
            summary->end_damaged ||
            (summary->judged && ends_judged_series(summary, reader, sample));
    }
    return ES_OK;
}

static es_status load(es_run_summary *summary, es_reader *reader, size_t run,
                      const es_summary_options *options)
{
    /* An evaluation belongs to the model before its step; the one after the
       last step is the result of all of them. */
    int64_t newest_eval = ES_STEP_LAST;
    es_series series;
    es_status status;
    summary->max = options->max;
    if ((status = es_summary_options_check(options)) < 0 ||
        (status = read_identity(summary, reader, run)) < 0 ||
        (status = find_series(&series, reader, run, options)) < 0 ||
        (status = read_values(summary, reader, &series, options->step)) < 0)
        return status;
    if (options->step != ES_STEP_LAST)
        newest_eval = summary->step;
    if ((status = read_loss(&summary->loss, &summary->ppl, reader, run,
                            summary->phase, summary->step)) < 0 ||
        (status = read_loss(&summary->eval_loss, &summary->eval_ppl, reader,
                            run, ES_PHASE_EVAL, newest_eval)) < 0 ||
        (status = compute(summary)) < 0 ||
        (!options->without_flags &&
         (status = es_summary_judge(summary, reader, run, options->rules)) < 0))
        return status;
    return list_damaged(summary, reader, run);
}

es_status es_summary_load(es_run_summary **out, es_reader *reader, size_t run,
                          const es_summary_options *options)
{
    es_run_summary *summary;
    es_status status =
        es_alloc(&summary, 1, sizeof *summary, "a run's summary");
    if (status < 0)
        return status;
    if ((status = load(summary, reader, run, options)) < 0) {
        es_summary_free(summary);
        return status;
    }
    *out = summary;
    return ES_OK;
}

void es_summary_free(es_run_summary *summary)
{
    if (!summary)
        return;
    es_summary_free_flags(summary);
    for (size_t i = 0; i < summary->n_damaged; i++)
        free((char *)(uintptr_t)summary->damaged[i].series);
    free(summary->damaged);
    free(summary->path);
    free(summary->name);
    free(summary->arch);
    free(summary->family);
    free(summary->config);
    free(summary->series);
    free(summary->unit);
    free(summary->values);
    free(summary->layers);
    free(summary->heard);
    free(summary->nonfinite);
    free(summary);
}
