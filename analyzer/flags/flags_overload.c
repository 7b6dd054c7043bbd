/* The share of high heads on its way through a run, for flags_judge.c: it is
   judged mildly until it has come down once from the ceiling. */
#include "analyzer/flags/flags_internal.h"

#include <math.h>

static uint32_t needed_of(const es_flag_rules *rules)
{
    return rules->overload_samples > 1 ? (uint32_t)rules->overload_samples : 1;
}

static void count(uint32_t *streak, bool holds)
{
    *streak = holds ? *streak + (*streak < UINT32_MAX) : 0;
}

static es_severity level_of(const es_overload_track *track, uint32_t needed,
                            bool had_time)
{
    bool severe = track->severe || track->n_severe >= needed;
    if (severe && had_time && track->n_mild >= needed)
        return ES_SEVERITY_ERROR;
    return track->n_mild >= needed ? ES_SEVERITY_WARNING : ES_SEVERITY_NONE;
}

es_severity es_overload_push(es_overload_track *track,
                             const es_flag_rules *rules, int64_t step,
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
    count(&track->n_mild, mild);
    count(&track->n_severe, severe);
    count(&track->n_below, !severe);
    if (track->n_severe >= needed)
        track->severe = true;
    if (track->n_below >= needed || !mild)
        track->severe = false;
    if (track->n_below >= needed)
        track->came_down = true;
    track->last = step;
    track->value = fmax(track->value, share);
    return level_of(track, needed, track->came_down);
}

es_severity es_overload_finish(const es_overload_track *track,
                               const es_flag_rules *rules,
                               int64_t planned_steps)
{
    uint32_t needed = needed_of(rules);
    double end = (1 - rules->warm_up) * (double)planned_steps;
    if (track->n_judged == 0)
        return ES_SEVERITY_NONE;
    if (track->n_judged < needed)
        needed = track->n_judged;
    return level_of(track, needed,
                    track->came_down || (double)track->last + 1 >= end);
}
