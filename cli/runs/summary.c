/* Reads the summary of a run, which consists of its identity, the selected
   sample, losses, bands, and the flags that cli/runs/judging.c finds in all
   samples. Keeps the first ES_FLAGS_KEPT episodes of each kind; later episodes
   are merged into the last kept episode. Reads only the newest value of series
   that are neither selected nor used by flags. */
#include "cli/runs/summary.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/heads/heads.h"
#include "cli/runs/judging.h"
#include "store/run_place.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void es_summary_options_default(es_summary_options *out)
{
    *out = (es_summary_options){
        .series = es_head_statistics[ES_HEAD_ENTROPY].name,
        .phase = ES_PHASE_ANY,
        .step = ES_STEP_LAST,
        .max = {.policy = ES_MAX_OBSERVED},
    };
}

static bool is_entropy(const char *series)
{
    static const es_head_series entropies[] = {
        ES_HEAD_ENTROPY, ES_HEAD_ENTROPY_MIN, ES_HEAD_ENTROPY_MAX};
    for (int i = 0; i < 3; i++)
        if (strcmp(series, es_head_statistics[entropies[i]].name) == 0)
            return true;
    return false;
}

es_status es_summary_options_check(const es_summary_options *options)
{
    const es_max_policy policy = options->max.policy;
    bool fits = (policy != ES_MAX_CEILING && policy != ES_MAX_LOGT) ||
                is_entropy(options->series);
    return fits ? ES_OK
                : es_fail(ES_EUSAGE,
                          "--max %s only applies to entropies, not to %s: use "
                          "observed, run or a number",
                          es_max_name(policy), options->series);
}

double es_peak_of(double a, double b)
{
    return fmax(a, b); /* ignores a NaN */
}

/* Finds the selected series, in the first allowed phase in which the series has
   samples. */
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
    if (!empty && es_reader_n_series(reader, run) > 0)
        return es_reader_find(reader, run, options->series, first, out);
    es_run_info info;
    es_status status = es_reader_run(reader, run, &info);
    return status < 0 ? status
                      : es_fail(ES_ENOTFOUND,
                                "%s: run %zu (%s) has no sample of %s yet",
                                es_reader_path(reader), run + 1, info.name,
                                options->series);
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

/* Reads the newest value of a run series at or before `step`; the result is
   missing if there is no such sample. */
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
        step = series.last_step; /* avoids reading all samples up to `step` */
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

es_status es_summary_eval_ppl(float *out, es_reader *reader, size_t run)
{
    float loss;
    return read_loss(&loss, out, reader, run, ES_PHASE_EVAL, ES_STEP_LAST);
}

static int ctx_of(const es_run_summary *summary)
{
    return summary->ctx == ES_UNKNOWN ? 0 : (int)summary->ctx;
}

es_judge_run es_summary_judged(const es_run_summary *summary)
{
    return (es_judge_run){
        .n_layers = (int)summary->n_layer,
        .n_heads = (int)summary->n_head,
        .ctx = ctx_of(summary),
        .planned_steps = summary->planned_steps,
        .ceiling = summary->common_ceiling,
        .ceilings = summary->described ? summary->described->ceilings : NULL,
        .is_open_ended = summary->is_open_ended,
    };
}

double es_summary_layer_ceiling(const es_run_summary *summary, size_t layer)
{
    const es_judge_run run = es_summary_judged(summary);
    return run.ceilings ? es_judge_run_layer_ceiling(&run, layer)
                        : summary->ceiling;
}

void es_summary_shares(float *out, const es_run_summary *summary,
                       const float *values)
{
    const size_t n = summary->n_rows * summary->n_columns;
    const es_judge_run run = es_summary_judged(summary);
    es_judge_run_scale(out, &run, values, n);
    for (size_t i = 0; i < n; i++)
        if (isfinite(out[i]))
            out[i] = summary->ceiling > 0 ? (float)(out[i] / summary->ceiling)
                                          : es_missing();
}

/* Reads the descriptions of the layers, their ceilings and the planned number
   of steps. */
static es_status read_layers(es_run_summary *summary, es_reader *reader,
                             size_t run)
{
    es_judge_run judged;
    es_status status;
    if ((status = es_reader_layers(&summary->described, reader, run)) < 0 ||
        (status = es_reader_judged(&judged, reader, run, summary->described)) <
            0)
        return status;
    summary->planned_steps = judged.planned_steps;
    summary->is_open_ended = judged.is_open_ended;
    summary->common_ceiling =
        isnan(judged.ceiling) ? es_ceiling(judged.ctx) : judged.ceiling;
    summary->ceiling = judged.ceilings ? es_judge_run_ceiling(&judged)
                                       : summary->common_ceiling;
    return ES_OK;
}

static es_status read_identity(es_run_summary *summary, es_reader *reader,
                               size_t run)
{
    es_run_info info;
    bool written = true;
    es_status status;
    if ((status = es_reader_run(reader, run, &info)) < 0)
        return status;
    es_run_place place;
    if ((status = es_reader_place(&place, reader, run)) < 0)
        return status;
    summary->path = place.path;
    summary->number = place.number;
    summary->n_in_file = place.n_runs;
    summary->n_layer = info.n_layer;
    summary->n_head = info.n_head;
    summary->ctx = info.ctx < 1 || info.ctx > INT_MAX ? ES_UNKNOWN : info.ctx;
    if ((status = read_layers(summary, reader, run)) < 0)
        return status;
    summary->d_model = info.d_model;
    summary->vocab = info.vocab;
    summary->batch = info.batch;
    summary->seed = info.seed;
    summary->last_step = info.last_step;
    if ((status = es_copy_text(&summary->uuid, info.uuid)) < 0 ||
        (status = es_copy_text(&summary->name, info.name)) < 0 ||
        (status = es_copy_text(&summary->arch, info.arch)) < 0 ||
        (status = es_copy_text(&summary->family, info.family)) < 0 ||
        (info.status == ES_RUN_RUNNING &&
         (status = es_reader_is_run_written(reader, run, &written)) < 0))
        return status;
    status = es_run_model_read(&summary->model, reader, run, "a cost");
    if (status < 0 && status != ES_ENOTFOUND)
        return status;
    summary->status = written ? es_run_status_name(info.status) : "interrupted";
    status = es_reader_config(reader, run, &summary->config);
    summary->config_unread = !summary->config && info.config && *info.config;
    return status;
}

static es_status compute_layers(es_run_summary *summary)
{
    const size_t n_columns = summary->n_columns;
    es_status status = es_alloc(&summary->layers, summary->n_rows,
                                sizeof *summary->layers, "layers");
    if (status < 0)
        return status;
    const es_judge_run run = es_summary_judged(summary);
    if (run.ceilings && is_entropy(summary->series)) {
        const size_t n = summary->n_rows * n_columns;
        status = es_alloc(&summary->scaled, n, sizeof *summary->scaled,
                          "a sample divided by its ceilings");
        if (status < 0)
            return status;
        es_judge_run_scale(summary->scaled, &run, summary->values, n);
    }
    for (size_t row = 0; row < summary->n_rows; row++)
        es_stats_summary(&summary->layers[row],
                         summary->values + row * n_columns, n_columns, 1);
    summary->peak =
        es_largest_finite(summary->scaled ? summary->scaled : summary->values,
                          summary->n_rows * n_columns);
    es_summary_set_max(summary, summary->peak);
    return ES_OK;
}

void es_summary_set_max(es_run_summary *summary, double observed)
{
    size_t n = summary->n_rows * summary->n_columns;
    summary->m = es_max_value(&summary->max, observed, summary->peak,
                              summary->ceiling, ctx_of(summary));
    /* Values cannot be assigned to bands if m, the upper edge of the highest
     * band, is unknown. */
    bool known = !isnan(summary->m) || isnan(summary->peak);
    /* If the user has given m as a number, it is in nats and not relative to a
     * ceiling. */
    bool scaled = summary->scaled && summary->max.policy != ES_MAX_NUMBER;
    es_bands_count(&summary->bands, scaled ? summary->scaled : summary->values,
                   summary->shape == ES_SHAPE_HEAD && known ? n : 0,
                   summary->m);
}

/* --- flags ----------------------------------------------------------------*/

/* State while episodes are collected. Stores the first failure, because a
   callback cannot stop the evaluation. */
typedef struct collector {
    es_run_summary *summary;
    const es_rule *rules;       /* (n_kinds - ES_N_FLAG_KINDS) borrowed */
    size_t *n_of_kind, *newest; /* number of episodes, and index of the newest
                                   episode; both have an element for each kind
                                   of flag, followed by one for each rule */
    size_t n_heads;             /* total number of heads in the lists of the
                                   kept flags */
    es_status status;
} collector;

/* Adds the indices of the non-zero elements of `marks` to an ascending list. */
static es_status list_marks(uint32_t **list, size_t *n_list,
                            const unsigned char *marks, size_t n_marks)
{
    const uint32_t *old = *list;
    uint32_t *joined;
    size_t n = 0, n_old = *n_list, at = 0;
    for (size_t i = 0; i < n_marks; i++)
        n += marks[i] != 0;
    es_status status =
        es_alloc(&joined, n + n_old, sizeof *joined, "a list of heads");
    if (status < 0)
        return status;
    n = 0;
    for (size_t i = 0; i < n_marks; i++) {
        bool listed = at < n_old && old[at] == i;
        at += listed;
        if (listed || marks[i])
            joined[n++] = (uint32_t)i;
    }
    free(*list);
    *list = joined;
    *n_list = n;
    return ES_OK;
}

static es_status append_flag(collector *to, size_t kind,
                             const es_episode *episode)
{
    es_run_summary *summary = to->summary;
    /* The array grows whenever the number of elements is a power of two, so its
       capacity need not be stored. */
    const size_t n = summary->n_flags;
    es_status status = ES_OK;
    if ((n & (n - 1)) == 0)
        status = es_grow(&summary->flags, n ? 2 * n : 1, sizeof *summary->flags,
                         "flags");
    if (status < 0)
        return status;
    to->newest[kind] = n;
    to->n_of_kind[kind]++;
    summary->flags[summary->n_flags++] = (es_flag){
        .kind = episode->kind,
        .rule =
            kind < ES_N_FLAG_KINDS ? NULL : &to->rules[kind - ES_N_FLAG_KINDS],
        .severity = episode->severity,
        .stands = episode->stands,
        .onset = episode->onset,
        .reported = episode->reported,
        .collapse_reported = episode->collapse_reported,
        .last = episode->last,
        .value = episode->value,
        .threshold = episode->threshold,
    };
    return ES_OK;
}

static void collect_episode(collector *to, size_t kind,
                            const es_episode *episode)
{
    es_run_summary *summary = to->summary;
    const size_t n_of_kind = to->n_of_kind[kind];
    const size_t n_layers = (size_t)summary->n_layer;
    if (to->status == ES_OK &&
        (n_of_kind == 0 ||
         (n_of_kind < ES_FLAGS_KEPT && to->n_heads < ES_FLAG_HEADS_KEPT)))
        to->status = append_flag(to, kind, episode);
    if (to->status < 0)
        return;
    es_flag *flag = &summary->flags[to->newest[kind]];
    if (to->n_of_kind[kind] == n_of_kind) {
        /* No further flag is kept, so merge the episode into the newest flag of
           its kind. */
        if (episode->stands || episode->severity > flag->severity)
            flag->severity = episode->severity;
        flag->stands = flag->stands || episode->stands;
        flag->last = episode->last;
        flag->value =
            flag->rule ? es_rule_worse(flag->rule, flag->value, episode->value)
                       : fmax(flag->value, episode->value);
        flag->threshold = episode->threshold;
    }
    to->n_heads -= flag->n_heads;
    to->status =
        list_marks(&flag->layers, &flag->n_layers, episode->layers, n_layers);
    if (to->status == ES_OK)
        to->status = list_marks(&flag->heads, &flag->n_heads, episode->heads,
                                n_layers * (size_t)summary->n_head);
    to->n_heads += flag->n_heads;
}

static void collect_flag(void *user, const es_episode *episode)
{
    collect_episode(user, episode->kind, episode);
}

static void collect_rule(void *user, size_t rule, const es_episode *episode)
{
    collect_episode(user, ES_N_FLAG_KINDS + rule, episode);
}

static int by_onset(const void *a, const void *b)
{
    const es_flag *x = a, *y = b;
    if (x->onset != y->onset)
        return x->onset < y->onset ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->rule > y->rule) - (x->rule < y->rule);
}

static es_status note_heard(es_run_summary *summary, const es_judging *judging,
                            const es_rules_file *rules)
{
    es_status status;
    if (!rules || !rules->n)
        return ES_OK;
    if ((status = es_alloc(&summary->heard, rules->n, sizeof *summary->heard,
                           "judging a run")) < 0 ||
        (status = es_alloc(&summary->nonfinite, rules->n,
                           sizeof *summary->nonfinite, "judging a run")) < 0)
        return status;
    for (size_t i = 0; i < rules->n; i++) {
        summary->heard[i] = es_judging_heard(judging, i);
        summary->nonfinite[i] = es_judging_nonfinite(judging, i);
    }
    return ES_OK;
}

/* Passes all samples of the run to the flag detection and the rules. Sets
   `judged` and `flags`, which are sorted by onset, kind and rule. If `rules`
   is NULL, the default thresholds apply. The flags are valid even after a
   failure. */
static es_status judge_run(es_run_summary *summary, es_reader *reader,
                           size_t run, const es_rules_file *rules)
{
    const size_t n_kinds = ES_N_FLAG_KINDS + (rules ? rules->n : 0);
    collector found = {.summary = summary,
                       .rules = rules ? rules->rules : NULL};
    const es_judging_options options = {.run = es_summary_judged(summary),
                                        .phase = summary->phase,
                                        .rules = rules,
                                        .flag = collect_flag,
                                        .rule = collect_rule,
                                        .user = &found};
    es_judging *judging = NULL;
    es_status status;
    if ((status = es_alloc(&found.n_of_kind, n_kinds, sizeof *found.n_of_kind,
                           "judging a run")) < 0 ||
        (status = es_alloc(&found.newest, n_kinds, sizeof *found.newest,
                           "judging a run")) < 0 ||
        (status = es_judging_open(&judging, &options)) < 0 ||
        (status = es_judging_read(judging, reader, run)) != ES_OK)
        goto done;
    es_judging_finish(judging);
    if ((status = found.status) == ES_OK)
        status = note_heard(summary, judging, rules);
done:
    es_judging_close(judging);
    if (summary->n_flags > 0)
        qsort(summary->flags, summary->n_flags, sizeof *summary->flags,
              by_onset);
    summary->rules = rules;
    summary->judged = status == ES_OK;
    free(found.n_of_kind);
    free(found.newest);
    return status;
}

/* --- damage ---------------------------------------------------------------*/

/* Returns true if flags or rules use this series. */
static bool is_judged(const es_run_summary *summary, const char *series,
                      es_phase phase)
{
    const es_rules_file *rules = summary->rules;
    bool judged =
        phase == summary->phase && es_judge_series_of(series) != ES_JUDGE_OTHER;
    for (size_t i = 0; rules && i < rules->n; i++)
        judged = judged || strcmp(rules->rules[i].series, series) == 0;
    return judged;
}

/* Returns true if the damaged sample, or a sample in the damaged frames, may be
   the last sample of a series that flags or rules use. */
static bool ends_judged_series(const es_run_summary *summary, es_reader *reader,
                               const es_damaged *sample)
{
    es_series series;
    if (sample->table)
        return false;
    if (!sample->n_frames)
        return is_judged(summary, sample->series, sample->phase) &&
               es_reader_find(reader, sample->run, sample->series,
                              sample->phase, &series) == ES_OK &&
               series.last_step == sample->step;
    for (size_t i = 0; i < es_reader_n_series(reader, sample->run); i++)
        if (es_reader_series(reader, sample->run, i, &series) == ES_OK &&
            is_judged(summary, series.name, series.phase) &&
            series.last_step <= sample->step)
            return true;
    return false;
}

static es_status list_damaged(es_run_summary *summary, es_reader *reader,
                              size_t run)
{
    const es_event *events;
    size_t n_events;
    /* es_reader_events also makes the reader list lost frames. Events that
       cannot be read are listed as damage, so ES_EFORMAT is not an error
       here. */
    es_status status = es_reader_events(reader, run, &events, &n_events);
    if (status < 0 && status != ES_EFORMAT)
        return status;
    const size_t n = es_reader_n_damaged(reader);
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

static es_status load_run(es_run_summary *summary, es_reader *reader,
                          size_t run, const es_summary_options *options)
{
    /* An evaluation measures the model before the training step of the same
       number, so the evaluation after the last step measures the final
       model. */
    int64_t newest_eval = ES_STEP_LAST;
    es_series series;
    es_status status;
    summary->max = options->max;
    if ((status = es_summary_options_check(options)) < 0 ||
        (status = read_identity(summary, reader, run)) < 0 ||
        (status = find_series(&series, reader, run, options)) < 0)
        return status;
    summary->shape = series.shape;
    summary->phase = series.phase;
    if ((status = es_copy_text(&summary->series, series.name)) < 0 ||
        (status = es_copy_text(&summary->unit, series.unit)) < 0 ||
        (status = read_sample(&summary->values, &summary->step, reader, &series,
                              options->step)) < 0)
        return status;
    summary->n_rows =
        series.shape == ES_SHAPE_RUN ? 1 : (size_t)summary->n_layer;
    summary->n_columns = series.n_values / summary->n_rows;

    if (options->step != ES_STEP_LAST)
        newest_eval = summary->step;
    if ((status = read_loss(&summary->loss, &summary->ppl, reader, run,
                            summary->phase, summary->step)) < 0 ||
        (status = read_loss(&summary->eval_loss, &summary->eval_ppl, reader,
                            run, ES_PHASE_EVAL, newest_eval)) < 0 ||
        (status = compute_layers(summary)) < 0 ||
        (!options->without_flags &&
         (status = judge_run(summary, reader, run, options->rules)) < 0))
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
    if ((status = load_run(summary, reader, run, options)) < 0) {
        es_summary_free(summary);
        return status;
    }
    *out = summary;
    return ES_OK;
}

/* Frees the flags and the list of damaged samples. */
static void clear_flags(es_run_summary *summary)
{
    for (size_t i = 0; i < summary->n_flags; i++) {
        free(summary->flags[i].layers);
        free(summary->flags[i].heads);
    }
    free(summary->flags);
    for (size_t i = 0; i < summary->n_damaged; i++)
        free((char *)(uintptr_t)summary->damaged[i].series);
    free(summary->damaged);
    free(summary->heard);
    free(summary->nonfinite);
    summary->flags = NULL;
    summary->damaged = NULL;
    summary->heard = NULL;
    summary->nonfinite = NULL;
    summary->n_flags = summary->n_damaged = 0;
    summary->judged = summary->end_damaged = false;
}

void es_summary_move_flags(es_run_summary *to, es_run_summary *from)
{
    clear_flags(to);
    to->flags = from->flags;
    to->n_flags = from->n_flags;
    to->damaged = from->damaged;
    to->n_damaged = from->n_damaged;
    to->end_damaged = from->end_damaged;
    to->heard = from->heard;
    to->nonfinite = from->nonfinite;
    to->rules = from->rules;
    to->judged = from->judged;
    from->flags = NULL;
    from->damaged = NULL;
    from->heard = NULL;
    from->nonfinite = NULL;
    from->n_flags = from->n_damaged = 0;
    clear_flags(from);
}

void es_summary_free(es_run_summary *summary)
{
    if (!summary)
        return;
    clear_flags(summary);
    free(summary->path);
    free(summary->uuid);
    free(summary->name);
    free(summary->arch);
    free(summary->family);
    free(summary->config);
    es_run_settings_free(&summary->settings);
    free(summary->series);
    free(summary->unit);
    free(summary->values);
    free(summary->scaled);
    es_layers_free(summary->described);
    free(summary->layers);
    free(summary);
}
