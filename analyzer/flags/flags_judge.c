/* Implements es_judge, the detection of flags (flags.h). Splits samples into
   rows, keeps at most one open episode of each kind, and reports an episode
   when it is over. flags_collapse.c checks each layer for a collapse,
   flags_overload.c tracks the share of heads with high entropy, and
   flags_spike.c finds spikes of the loss. Nothing is allocated: all state is in
   the workspace. */
#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/flags/flags_internal.h"
#include "analyzer/heads/bands.h"

#include <math.h>
#include <string.h>

/* The current episode of one kind of flag. If `open` is false, there is no
   episode, and the other members are unused. */
typedef struct episode {
    bool open;
    es_severity now, reached;
    es_severity announced; /* highest severity announced so far */
    int64_t onset, last, opened, collapse_reported;
    double value;
    unsigned char *layers; /* (L) */
    unsigned char *heads;  /* (L,H) */
} episode;

struct es_judge {
    es_judge_run run;
    es_flag_rules rules;
    es_episode_handler *handler;
    void *user;
    es_episode_handler *announce; /* called when an episode opens or its
                                     severity rises; may be NULL */
    void *announce_user;
    size_t n_layers, n_heads;
    double ceiling; /* ceiling of the run; NaN if it is unknown or is 0 because
                       T = 1 */
    int64_t step;   /* step of the newest sample */
    uint32_t n_entropy;         /* number of entropy samples, counted up to
                                   the number that a collapse needs */
    bool dirty[ES_JUDGE_OTHER]; /* true if the newest sample of the series
                                   had non-finite values */
    bool collapse_by_share;     /* true if a layer in the open episode of
                                   collapse has collapsed because of its share
                                   of heads with low entropy */
    es_overload_track overload;
    es_spike_track spike;
    float *latest; /* newest measured entropy of each head, of shape (L,H) */
    float *scaled; /* buffer of shape (L,H) for one sample scaled by the heads'
                      ceilings; NULL if no scaling is needed */
    episode episodes[ES_N_FLAG_KINDS];
    es_layer_track *tracks; /* (L) */
};

/* One sample as rows of values: a row of heads for each layer, one value for
   each layer, or one value for the run. */
typedef struct judged_sample {
    es_judge_series series;
    int64_t step;
    const float *values;
    size_t n_rows, n_columns;
    bool of_layers, of_heads;
    bool finite; /* true if all values are finite and none is missing */
} judged_sample;

/* Bytes of workspace per head: two entropies, one mark for each kind of
   episode, and one mark in the es_layer_track of its layer. */
#define N_HEAD_BYTES (2 * sizeof(float) + ES_N_FLAG_KINDS + 1)

size_t es_judge_size(const es_judge_run *run)
{
    size_t n_values, maps, tracks, size;
    const size_t track = sizeof(es_layer_track) + ES_N_FLAG_KINDS;
    if (run->n_layers < 1 || run->n_heads < 1)
        return 0;
    if (!es_size_mul(&n_values, (size_t)run->n_layers, (size_t)run->n_heads) ||
        !es_size_mul(&maps, n_values, N_HEAD_BYTES) ||
        !es_size_mul(&tracks, (size_t)run->n_layers, track) ||
        !es_size_add(&size, maps, tracks) ||
        !es_size_add(&size, size, sizeof(es_judge)))
        return 0;
    return size;
}

es_judge *es_judge_init(void *workspace, const es_judge_run *run,
                        const es_flag_rules *rules, es_episode_handler *handler,
                        void *user)
{
    es_judge *judge = workspace;
    memset(judge, 0, es_judge_size(run));
    judge->run = *run;
    judge->rules = *rules;
    judge->handler = handler;
    judge->user = user;
    judge->n_layers = (size_t)run->n_layers;
    judge->n_heads = (size_t)run->n_heads;
    judge->ceiling = es_judge_run_ceiling(run);
    size_t n_values = judge->n_layers * judge->n_heads;
    judge->tracks = (es_layer_track *)(judge + 1);
    judge->latest = (float *)(judge->tracks + judge->n_layers);
    for (size_t i = 0; i < n_values; i++)
        judge->latest[i] = es_missing();
    if (run->ceilings)
        judge->scaled = judge->latest + n_values;
    unsigned char *next = (unsigned char *)(judge->latest + 2 * n_values);
    for (size_t l = 0; l < judge->n_layers; l++)
        judge->tracks[l].heads = next + l * judge->n_heads;
    next += n_values;
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
        judge->episodes[kind].heads = next;
        judge->episodes[kind].layers = next + n_values;
        next += n_values + judge->n_layers;
    }
    return judge;
}

static double threshold_of(const es_judge *judge, es_flag_kind kind,
                           es_severity severity)
{
    const es_flag_rules *rules = &judge->rules;
    bool mild = severity < ES_SEVERITY_ERROR;
    switch (kind) {
    case ES_FLAG_COLLAPSE:
        return judge->collapse_by_share ? rules->collapse_share
                                        : rules->collapse_history;
    case ES_FLAG_OVERLOAD:
        return mild ? rules->overload_warning : rules->overload_error;
    case ES_FLAG_LOGITS:
        return mild ? rules->logits_warning : rules->logits_error;
    case ES_FLAG_LOSS_SPIKE:
        return exp(judge->spike.limit);
    default:
        return 0;
    }
}

static es_episode describe(const es_judge *judge, es_flag_kind kind, bool holds)
{
    const episode *current = &judge->episodes[kind];
    es_severity severity = holds ? current->now : current->reached;
    return (es_episode){
        .kind = kind,
        .severity = severity,
        .stands = holds || kind == ES_FLAG_NAN,
        .onset = current->onset,
        .last = current->last,
        .reported = current->opened,
        .collapse_reported =
            kind == ES_FLAG_NAN ? current->collapse_reported : -1,
        .layers = current->layers,
        .heads = current->heads,
        .value = current->value,
        .threshold = threshold_of(judge, kind, severity),
    };
}

static void clear_marks(es_judge *judge, es_flag_kind kind)
{
    episode *current = &judge->episodes[kind];
    memset(current->layers, 0, judge->n_layers);
    memset(current->heads, 0, judge->n_layers * judge->n_heads);
}

static void report(es_judge *judge, es_flag_kind kind, bool holds)
{
    episode *over = &judge->episodes[kind];
    if (!over->open)
        return;
    const es_episode described = describe(judge, kind, holds);
    judge->handler(judge->user, &described);
    clear_marks(judge, kind);
    over->open = false;
    over->announced = ES_SEVERITY_NONE;
}

/* Announces episodes that are new or whose severity has risen. Called after all
   checks of a sample are done, so that all marks of the sample are set. */
static void announce(es_judge *judge)
{
    for (int kind = 0; kind < ES_N_FLAG_KINDS && judge->announce; kind++) {
        episode *current = &judge->episodes[kind];
        if (!current->open || current->now <= current->announced)
            continue;
        const es_episode described = describe(judge, (es_flag_kind)kind, true);
        current->announced = current->now;
        judge->announce(judge->announce_user, &described);
    }
}

void es_judge_announce(es_judge *judge, es_episode_handler *handler, void *user)
{
    judge->announce = handler;
    judge->announce_user = user;
}

/* Opens an episode of this kind of flag, or extends the open episode to `step`,
   because the flag's condition holds at this step. */
static void hold(es_judge *judge, es_flag_kind kind, es_severity severity,
                 int64_t step, double value)
{
    const episode *collapse = &judge->episodes[ES_FLAG_COLLAPSE];
    episode *held = &judge->episodes[kind];
    if (!held->open) {
        held->open = true;
        held->reached = severity;
        held->opened = judge->step;
        held->collapse_reported = collapse->open ? collapse->opened : -1;
        held->onset = step;
        held->value = value;
    }
    held->now = severity;
    held->last = step;
    if (severity > held->reached)
        held->reached = severity;
    held->value = fmax(held->value, value);
}

static void mark(es_judge *judge, es_flag_kind kind,
                 const judged_sample *sample, size_t row, size_t column)
{
    if (sample->of_layers)
        judge->episodes[kind].layers[row] = 1;
    if (sample->of_heads)
        judge->episodes[kind].heads[row * judge->n_heads + column] = 1;
}

static bool past_warm_up(const es_judge *judge, int64_t step)
{
    double planned = (double)judge->run.planned_steps;
    return planned <= 0 || (double)step >= judge->rules.warm_up * planned;
}

/* In most samples no value is non-finite or above a threshold, and a run may
   have very many samples. The next two functions therefore have no branch per
   value, so that the compiler can vectorise them. */
static bool is_finite(const float *x, size_t n)
{
    uint32_t nonfinite = 0;
#pragma omp simd reduction(| : nonfinite)
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        nonfinite |= (bits & UINT32_C(0x7fffffff)) >= UINT32_C(0x7f800000);
    }
    return !nonfinite;
}

static bool any_above(const float *x, size_t n, double limit)
{
    uint32_t above = 0;
#pragma omp simd reduction(| : above)
    for (size_t i = 0; i < n; i++)
        above |= x[i] > limit; /* the comparison is false for NaN */
    return above;
}

/* Returns the number of non-finite values that one value of a series stands
   for: 1 if the value itself is not finite; otherwise the value itself in
   series that count non-finite values, and 0 in other series. */
static double n_nonfinite(es_judge_series series, float value)
{
    if (es_is_missing(value))
        return 0;
    if (!isfinite(value))
        return 1;
    if (series == ES_JUDGE_NONFINITE_ROWS || series == ES_JUDGE_NAN_ACTIVATIONS)
        return value > 0 ? value : 0;
    return 0;
}

/* Marks the heads or layers with non-finite values and returns the number of
   these values. */
static double gather_nan(es_judge *judge, const judged_sample *sample)
{
    double total = 0;
    for (size_t i = 0; i < sample->n_rows * sample->n_columns; i++) {
        double n = n_nonfinite(sample->series, sample->values[i]);
        if (n > 0)
            mark(judge, ES_FLAG_NAN, sample, i / sample->n_columns,
                 i % sample->n_columns);
        total += n;
    }
    return total;
}

static bool is_dirty(const es_judge *judge)
{
    for (int series = 0; series < ES_JUDGE_OTHER; series++)
        if (judge->dirty[series])
            return true;
    return false;
}

static void judge_nan(es_judge *judge, const judged_sample *sample)
{
    size_t n = sample->n_rows * sample->n_columns;
    bool counts = sample->series == ES_JUDGE_NONFINITE_ROWS ||
                  sample->series == ES_JUDGE_NAN_ACTIVATIONS;
    bool clean = sample->finite && !(counts && any_above(sample->values, n, 0));
    double total = clean ? 0 : gather_nan(judge, sample);
    judge->dirty[sample->series] = total > 0;
    if (total > 0)
        hold(judge, ES_FLAG_NAN, ES_SEVERITY_CRITICAL, sample->step, total);
    else if (!is_dirty(judge))
        report(judge, ES_FLAG_NAN, false);
}

/* Adds a layer to the episode of the flag collapse. Its streak must be long
   enough for a collapse. */
static void join_collapse(es_judge *judge, size_t layer)
{
    const es_layer_track *track = &judge->tracks[layer];
    episode *joined = &judge->episodes[ES_FLAG_COLLAPSE];
    if (!joined->open) {
        joined->open = true;
        joined->now = joined->reached = ES_SEVERITY_CRITICAL;
        joined->opened = judge->step;
        joined->onset = track->onset;
        joined->last = track->last;
        joined->value = track->ratio;
        judge->collapse_by_share = false;
    }
    if (track->onset < joined->onset)
        joined->onset = track->onset;
    if (track->last > joined->last)
        joined->last = track->last;
    if (track->share > 0 && !judge->collapse_by_share) {
        judge->collapse_by_share = true;
        joined->value = 0;
    }
    joined->value = judge->collapse_by_share
                        ? fmax(joined->value, track->share)
                        : fmin(joined->value, track->ratio);
    joined->layers[layer] = 1;
    unsigned char *restrict heads = joined->heads + layer * judge->n_heads;
    const unsigned char *restrict low = track->heads;
    for (size_t h = 0; h < judge->n_heads; h++)
        heads[h] |= low[h];
}

/* Adds all layers whose streaks are long enough to the episode of the flag
   collapse. Returns true if at least one layer was added. */
static bool join_layers(es_judge *judge)
{
    uint32_t n_needed = es_collapse_samples(&judge->rules);
    bool any = false;
    for (size_t l = 0; l < judge->n_layers; l++) {
        const es_layer_track *track = &judge->tracks[l];
        if (track->streak == 0 ||
            (uint64_t)track->streak + track->n_wide < n_needed)
            continue;
        join_collapse(judge, l);
        any = true;
    }
    return any;
}

/* Returns the sample with missing heads replaced by their last measured
   entropy, which the judge keeps. */
static judged_sample fill_in(es_judge *judge, const judged_sample *sample)
{
    size_t n = judge->n_layers * judge->n_heads;
    judged_sample filled = *sample;
    if (!sample->of_heads)
        return filled;
    if (sample->finite) {
        memcpy(judge->latest, sample->values, n * sizeof *judge->latest);
        return filled;
    }
    for (size_t i = 0; i < n; i++)
        if (!es_is_missing(sample->values[i]))
            judge->latest[i] = sample->values[i];
    filled.values = judge->latest;
    filled.finite = is_finite(judge->latest, n);
    return filled;
}

static bool follow_layer(es_judge *judge, const judged_sample *sample,
                         size_t layer)
{
    const es_layer_row row = {
        .values = sample->values + layer * sample->n_columns,
        .n = sample->n_columns,
        .of_heads = sample->of_heads,
        .finite = sample->finite,
        .past_warm_up = past_warm_up(judge, sample->step),
        .by_history = !es_is_early(&judge->rules, &judge->run, sample->step),
        .step = sample->step,
    };
    return es_layer_track_push(&judge->tracks[layer], &judge->rules,
                               judge->ceiling, &row);
}

/* Counts a sample twice in the streaks of its low layers if many layers are low
   in it. A single bad batch still causes no collapse, because it lowers the
   entropies of many layers in at most one sample. */
static void weigh_layers(es_judge *judge, int64_t step)
{
    size_t n_low = 0, n_needed = (size_t)judge->rules.collapse_layers;
    for (size_t l = 0; l < judge->n_layers; l++)
        n_low += judge->tracks[l].streak > 0 && judge->tracks[l].last == step;
    if (n_low < n_needed || 2 * n_low < judge->n_layers)
        return;
    for (size_t l = 0; l < judge->n_layers; l++) {
        es_layer_track *track = &judge->tracks[l];
        if (track->streak > 0 && track->last == step)
            track->n_wide += track->n_wide < UINT32_MAX;
    }
}

/* Updates the flag collapse with one sample. `measured` is the sample as
   recorded; in `sample` the missing heads are filled in. */
static void judge_collapse(es_judge *judge, const judged_sample *measured,
                           const judged_sample *sample)
{
    size_t n = sample->n_columns;
    bool cut_short = false;
    judge->n_entropy += judge->n_entropy < es_collapse_samples(&judge->rules);
    for (size_t l = 0; l < judge->n_layers; l++) {
        if (!measured->finite && !es_is_measured(measured->values + l * n, n))
            continue;
        if (!follow_layer(judge, sample, l))
            continue;
        join_collapse(judge, l);
        cut_short = true;
    }
    if (cut_short) {
        /* If a layer becomes NaN during a streak of samples with low entropy,
           it counts as collapsed, and so do the other layers that are low at
           the same time. */
        for (size_t l = 0; l < judge->n_layers; l++)
            if (judge->tracks[l].streak > 0)
                judge->tracks[l].n_wide = UINT32_MAX;
        announce(judge);
    }
    weigh_layers(judge, sample->step);
    if (!join_layers(judge))
        report(judge, ES_FLAG_COLLAPSE, false);
}

/* Returns the number of finite values at or above `limit`. */
static uint32_t count_above(const float *x, size_t n, double limit)
{
    uint32_t n_above = 0;
#pragma omp simd reduction(+ : n_above)
    for (size_t i = 0; i < n; i++)
        n_above += (x[i] >= limit) & (x[i] < INFINITY);
    return n_above;
}

/* Sets the mark of each value that count_above would count. Existing marks stay
   set. */
static void mark_above(unsigned char *restrict marks, const float *restrict x,
                       size_t n, double limit)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        marks[i] |= (x[i] >= limit) & (x[i] < INFINITY);
}

static size_t count_measured(const judged_sample *sample, const float *x,
                             size_t n)
{
    size_t n_measured = 0;
    if (sample->finite)
        return n;
    for (size_t i = 0; i < n; i++)
        n_measured += !es_is_missing(x[i]);
    return n_measured;
}

/* Returns the mean of the measured values; NaN if one of them is NaN or no
   value was measured. */
static double mean_of(const float *values, size_t n)
{
    double sum = 0;
    size_t n_measured = 0;
    for (size_t i = 0; i < n; i++) {
        if (es_is_missing(values[i]))
            continue;
        sum += values[i];
        n_measured++;
    }
    return sum / (double)n_measured;
}

static void mark_overload(es_judge *judge, const judged_sample *sample,
                          double limit)
{
    size_t n = sample->n_columns;
    for (size_t l = 0; l < sample->n_rows; l++) {
        const float *row = sample->values + l * n;
        uint32_t n_above = count_above(row, n, limit);
        double share = n_above / (double)count_measured(sample, row, n);
        if (n_above > 0 && share >= judge->rules.overload_warning)
            judge->episodes[ES_FLAG_OVERLOAD].layers[l] = 1;
        mark_above(judge->episodes[ES_FLAG_OVERLOAD].heads + l * n, row, n,
                   limit);
    }
}

/* Extends the episode of the flag overload. Opens it once the streak is long
   enough, with the start of the streak as its onset. */
static void hold_overload(es_judge *judge, es_severity severity)
{
    const es_overload_track *track = &judge->overload;
    if (severity == ES_SEVERITY_NONE)
        return;
    hold(judge, ES_FLAG_OVERLOAD, severity, track->last, track->value);
    judge->episodes[ES_FLAG_OVERLOAD].onset = track->onset;
}

static void judge_overload(es_judge *judge, const judged_sample *sample)
{
    double limit = judge->rules.overload_head * judge->ceiling;
    size_t n = sample->n_rows * sample->n_columns;
    if (!sample->of_heads || isnan(limit))
        return;
    if (!judge->overload.begun)
        es_overload_begin(&judge->overload, &judge->rules,
                          judge->run.planned_steps, mean_of(sample->values, n),
                          judge->ceiling);
    if (!past_warm_up(judge, sample->step))
        return;
    uint32_t n_above = count_above(sample->values, n, limit);
    double share = n_above / (double)count_measured(sample, sample->values, n);
    es_severity severity = es_overload_push(&judge->overload, &judge->rules,
                                            &judge->run, sample->step, share);
    if (judge->overload.n_mild == 0) {
        report(judge, ES_FLAG_OVERLOAD, false);
        clear_marks(judge, ES_FLAG_OVERLOAD);
        return;
    }
    mark_overload(judge, sample, limit);
    hold_overload(judge, severity);
}

static void judge_logits(es_judge *judge, const judged_sample *sample)
{
    size_t n = sample->n_rows * sample->n_columns;
    if (!any_above(sample->values, n, judge->rules.logits_warning)) {
        report(judge, ES_FLAG_LOGITS, false);
        return;
    }
    float largest = -INFINITY;
    for (size_t i = 0; i < sample->n_rows * sample->n_columns; i++) {
        if (!(sample->values[i] > judge->rules.logits_warning))
            continue;
        mark(judge, ES_FLAG_LOGITS, sample, i / sample->n_columns,
             i % sample->n_columns);
        largest = fmaxf(largest, sample->values[i]);
    }

    hold(judge, ES_FLAG_LOGITS,
         largest > judge->rules.logits_error ? ES_SEVERITY_ERROR
                                             : ES_SEVERITY_WARNING,
         sample->step, largest);
}

static void judge_spike(es_judge *judge, int64_t step, float loss)
{
    es_spike_track *track = &judge->spike;
    if (!isfinite(loss) || loss <= 0)
        return;
    if (!es_spike_push(track, &judge->rules, past_warm_up(judge, step), step,
                       loss)) {
        report(judge, ES_FLAG_LOSS_SPIKE, false);
        return;
    }
    hold(judge, ES_FLAG_LOSS_SPIKE, ES_SEVERITY_WARNING, step, track->largest);
    judge->episodes[ES_FLAG_LOSS_SPIKE].onset = track->onset;
}

/* Sets the number of rows and columns of the sample. Returns false if its
   series cannot have n values. */
static bool shape_of(judged_sample *sample, const es_judge *judge, size_t n)
{
    bool heads = n == judge->n_layers * judge->n_heads;
    bool layers = n == judge->n_layers;
    sample->of_heads = heads && sample->series != ES_JUDGE_NAN_ACTIVATIONS &&
                       sample->series != ES_JUDGE_LOSS;
    sample->of_layers = sample->series != ES_JUDGE_LOSS;
    sample->n_rows = sample->of_layers ? judge->n_layers : 1;
    sample->n_columns = sample->of_heads ? judge->n_heads : 1;
    switch (sample->series) {
    case ES_JUDGE_ENTROPY:
        return heads || layers;
    case ES_JUDGE_NONFINITE_ROWS:
    case ES_JUDGE_MAX_LOGIT:
        return heads;
    case ES_JUDGE_NAN_ACTIVATIONS:
        return layers;
    case ES_JUDGE_LOSS:
        return n == 1;
    default:
        return false;
    }
}

void es_judge_push(es_judge *judge, es_judge_series series, int64_t step,
                   const float *values, size_t n)
{
    judged_sample sample = {.series = series, .step = step, .values = values};
    if (!shape_of(&sample, judge, n))
        return;
    sample.finite = is_finite(values, n);
    if (!sample.finite && !es_is_measured(values, n))
        return;
    judge->step = step;
    judge_nan(judge, &sample);
    if (series == ES_JUDGE_ENTROPY) {
        if (judge->scaled) {
            es_judge_run_scale(judge->scaled, &judge->run, values, n);
            sample.values = judge->scaled;
            sample.finite = is_finite(judge->scaled, n);
        }
        const judged_sample filled = fill_in(judge, &sample);
        judge_collapse(judge, &sample, &filled);
        judge_overload(judge, &filled);
    } else if (series == ES_JUDGE_MAX_LOGIT) {
        judge_logits(judge, &sample);
    } else if (series == ES_JUDGE_LOSS) {
        judge_spike(judge, step, *values);
    }
    announce(judge);
}

void es_judge_finish(es_judge *judge)
{
    if (judge->n_entropy < es_collapse_samples(&judge->rules)) {
        /* If the run has fewer samples than a collapse requires, a layer counts
           as collapsed if its entropy is low in all samples. */
        for (size_t l = 0; l < judge->n_layers; l++)
            if (judge->n_entropy > 0 &&
                judge->tracks[l].streak >= judge->n_entropy)
                join_collapse(judge, l);
    }
    hold_overload(judge, es_overload_finish(&judge->overload, &judge->rules,
                                            &judge->run, judge->step));
    announce(judge);
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        report(judge, (es_flag_kind)kind, true);
}
