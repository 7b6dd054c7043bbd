/* Tracks the collapse of one layer for flags_judge.c. A layer counts as low in
   a sample if many of its heads have an entropy below the head threshold, or if
   its mean entropy is small compared with its own history. If the ceiling is
   unknown, the mean is also compared with the largest mean so far. */
#include "analyzer/base/value.h"
#include "analyzer/flags/flags_internal.h"

#include <math.h>
#include <string.h>

/* Values computed from one sample of a layer, which decide whether the layer
   counts as low (see the top of this file). */
typedef struct row_state {
    size_t n_measured, n_finite;
    double mean;  /* mean entropy of the finite heads */
    double share; /* share of heads below the head threshold; 0 if the share is
                     too small for a collapse */
    double ratio; /* ratio of the layer's mean to the median or the maximum of
                     its means so far; infinite if the ratio is too large for a
                     collapse */
    double limit; /* heads whose entropy is below this limit have collapsed */
} row_state;

uint32_t es_collapse_samples(const es_flag_rules *rules)
{
    return rules->collapse_samples > 1 ? (uint32_t)rules->collapse_samples : 1;
}

static void measure_some(row_state *state, const es_layer_row *row)
{
    double sum = 0;
    for (size_t i = 0; i < row->n; i++) {
        state->n_measured += !es_is_missing(row->values[i]);
        if (!isfinite(row->values[i]))
            continue;
        state->n_finite++;
        sum += row->values[i];
    }
    state->mean = sum / (double)state->n_finite;
}

static void measure_row(row_state *state, const es_layer_row *row)
{
    double sum = 0;
    if (!row->finite) {
        measure_some(state, row);
        return;
    }
    for (size_t i = 0; i < row->n; i++)
        sum += row->values[i];
    state->n_measured = state->n_finite = row->n;
    state->mean = sum / (double)row->n;
}

static uint32_t count_below(const float *x, size_t n, double limit)
{
    uint32_t n_below = 0;
#pragma omp simd reduction(+ : n_below)
    for (size_t i = 0; i < n; i++)
        n_below += (x[i] < limit) & (x[i] > -INFINITY);
    return n_below;
}

/* Sets the mark of each value that count_below would count. Existing marks stay
   set. */
static void mark_below(unsigned char *restrict marks, const float *restrict x,
                       size_t n, double limit)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        marks[i] |= (x[i] < limit) & (x[i] > -INFINITY);
}

static void judge_share(row_state *state, const es_flag_rules *rules,
                        double ceiling, const es_layer_row *row)
{
    double low = rules->collapse_head * ceiling;
    uint32_t n_low = count_below(row->values, row->n, low);
    double share = n_low / (double)state->n_measured;
    if (n_low == 0 || share < rules->collapse_share)
        return;
    state->share = share;
    state->limit = low;
}

static void judge_history(row_state *state, const es_flag_rules *rules,
                          const es_history *history)
{
    double median = es_history_median(history);
    if (history->n < es_collapse_samples(rules) || median <= 0)
        return;
    double ratio = state->mean / median;
    if (ratio >= rules->collapse_history)
        return;
    state->ratio = fmin(state->ratio, ratio);
    state->limit = fmax(state->limit, rules->collapse_history * median);
}

/* Compares the layer's mean with its largest mean so far, if the ceiling or the
   values of single heads are unknown. Every head starts near the ceiling, so
   the largest mean replaces the ceiling. */
static void judge_peak(row_state *state, const es_flag_rules *rules,
                       es_layer_track *track)
{
    double low = rules->collapse_head * track->peak;
    if (state->mean < low) {
        state->ratio = fmin(state->ratio, state->mean / track->peak);
        state->limit = fmax(state->limit, low);
    }
    track->peak = fmax(track->peak, state->mean);
}

static void extend(es_layer_track *track, const row_state *state,
                   const es_layer_row *row)
{
    if (track->streak == 0) {
        track->n_wide = 0;
        track->onset = row->step;
        track->share = 0;
        track->ratio = INFINITY;
        if (row->of_heads)
            memset(track->heads, 0, row->n);
    }
    track->streak += track->streak < UINT32_MAX;
    track->last = row->step;
    track->share = fmax(track->share, state->share);
    track->ratio = fmin(track->ratio, state->ratio);
    if (row->of_heads)
        mark_below(track->heads, row->values, row->n, state->limit);
}

bool es_layer_track_push(es_layer_track *track, const es_flag_rules *rules,
                         double ceiling, const es_layer_row *row)
{
    row_state state = {.ratio = INFINITY};
    measure_row(&state, row);
    if (state.n_measured == 0)
        return false;
    if (state.n_finite == 0) {
        bool cut_short = track->streak > 0;
        track->streak = 0;
        return cut_short;
    }
    if (row->of_heads && ceiling > 0)
        judge_share(&state, rules, ceiling, row);
    else
        judge_peak(&state, rules, track);
    row_state compared = state;
    judge_history(&compared, rules, &track->history);
    if (row->past_warm_up && !isfinite(compared.ratio))
        es_history_add(&track->history, state.mean);
    if (row->by_history)
        state = compared;
    if (state.share > 0 || isfinite(state.ratio))
        extend(track, &state, row);
    else
        track->streak = 0;
    return false;
}
