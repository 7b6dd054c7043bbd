/* Tracks, for flags_judge.c, the share of a run's heads whose entropy is near
   the ceiling (high heads). The severity is at most a warning until the share
   has come down once from its initial value, and it is info in a run that is
   too short for the share to come down. */
#include "analyzer/flags/flags_internal.h"

#include <math.h>

static uint32_t needed_of(const es_flag_rules *rules)
{
    return rules->overload_samples > 1 ? (uint32_t)rules->overload_samples : 1;
}

static void count_streak(uint32_t *streak, bool holds)
{
    *streak = holds ? *streak + (*streak < UINT32_MAX) : 0;
}

bool es_is_early(const es_flag_rules *rules, const es_judge_run *run,
                 int64_t step)
{
    return run->is_open_ended && run->planned_steps <= 0 &&
           step < (int64_t)rules->overload_steps -
                      1; /* subtracted because steps are numbered from 0 */
}

static es_severity level_of(const es_overload_track *track, uint32_t needed,
                            bool is_early, bool had_time)
{
    bool severe = track->severe || track->n_severe >= needed;
    if (track->n_mild < needed)
        return ES_SEVERITY_NONE;
    if (is_early || (track->is_brief && !track->came_down))
        return ES_SEVERITY_INFO;
    return severe && had_time ? ES_SEVERITY_ERROR : ES_SEVERITY_WARNING;
}

void es_overload_begin(es_overload_track *track, const es_flag_rules *rules,
                       int64_t planned_steps, double mean, double ceiling)
{
    /* A fraction of the ceiling that is below the mean entropy of untrained
       heads, which is at least 0.99 of the ceiling. */
    static const double untrained = 0.98;
    if (track->begun)
        return;
    track->begun = true;
    track->is_brief = planned_steps > 0 &&
                      planned_steps < rules->overload_steps &&
                      mean >= untrained * ceiling;
}

es_severity es_overload_push(es_overload_track *track,
                             const es_flag_rules *rules,
                             const es_judge_run *run, int64_t step,
                             double share)
{
    uint32_t needed = needed_of(rules);
    bool severe = share > 0 && share >= rules->overload_error;
    bool mild = severe || (share > 0 && share >= rules->overload_warning);
    if (mild && track->n_mild == 0) {
        track->onset = step;
        track->value = share;
    }
    track->n_judged += track->n_judged < UINT32_MAX;
    count_streak(&track->n_mild, mild);
    count_streak(&track->n_severe, severe);
    count_streak(&track->n_below, !severe);
    if (track->n_severe >= needed)
        track->severe = true;
    if (track->n_below >= needed || !mild)
        track->severe = false;
    if (track->n_below >= needed)
        track->came_down = true;
    track->last = step;
    track->value = fmax(track->value, share);
    return level_of(track, needed, es_is_early(rules, run, step),
                    track->came_down);
}

es_severity es_overload_finish(const es_overload_track *track,
                               const es_flag_rules *rules,
                               const es_judge_run *run, int64_t step)
{
    uint32_t needed = needed_of(rules);
    double end = (1 - rules->warm_up) * (double)run->planned_steps;
    if (track->n_judged == 0)
        return ES_SEVERITY_NONE;
    if (track->n_judged < needed)
        needed = track->n_judged;
    return level_of(track, needed, es_is_early(rules, run, step),
                    track->came_down || (double)track->last + 1 >= end);
}
