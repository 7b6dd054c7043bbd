/* Detects spikes of the loss for flags_judge.c: losses far above the median
   of the previous losses. Compares logarithms, because the noise of a loss
   grows with the loss and has a longer tail above than below. Measures the
   spread by the median absolute deviation from the median, which a single spike
   does not increase. */
#include "analyzer/flags/flags_internal.h"

#include <math.h>
#include <string.h>

enum {
    LEAST = 32, /* number of losses that are recorded before the first loss is
                   judged */
    FACTOR = 2  /* a single loss is a spike if its rise is this many times
                   the largest rise in the window */
};
/* Standard deviation divided by the median absolute deviation, for a normal
 * distribution. */
#define NORMAL 1.4826

/* Returns the lower median of the window. */
static double median_of(const es_spike_track *track)
{
    return track->sorted[(track->n - 1) / 2];
}

/* Estimates the standard deviation from the half of the losses that is nearest
   to the median. */
static double deviation_of(const es_spike_track *track)
{
    const double median = median_of(track);
    size_t low = (track->n - 1) / 2, high = low + 1;
    double farthest = 0;
    for (uint32_t i = 0; i < track->n / 2; i++) {
        double below = low > 0 ? median - track->sorted[low - 1] : INFINITY;
        double above =
            high < track->n ? track->sorted[high] - median : INFINITY;
        farthest = fmin(below, above);
        low -= below <= above;
        high += below > above;
    }
    return NORMAL * farthest;
}

static double largest_rise(const es_spike_track *track)
{
    float largest = 0;
    for (uint32_t i = 0; i < track->n; i++)
        largest = fmaxf(largest, track->rises[i]);
    return largest;
}

/* Returns the number of losses in the window that are below `loss`. */
static uint32_t count_below(const es_spike_track *track, float loss)
{
    uint32_t low = 0, high = track->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (track->sorted[middle] < loss)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Inserts a loss into the window. If the window is full, removes its oldest
   loss. */
static void insert_loss(es_spike_track *track, float loss, float rise)
{
    float *sorted = track->sorted;
    uint32_t from = track->n, to = count_below(track, loss);
    if (track->n == ES_SPIKE_WINDOW)
        from = count_below(track, track->losses[track->next]);
    else
        track->n++;
    /* Shift the values between the position of the removed loss and the
     * position of the new loss by one. */
    if (from < to) {
        to--;
        memmove(sorted + from, sorted + from + 1, (to - from) * sizeof *sorted);
    } else {
        memmove(sorted + to + 1, sorted + to, (from - to) * sizeof *sorted);
    }
    sorted[to] = loss;
    track->losses[track->next] = loss;
    track->rises[track->next] = rise;
    track->next = (track->next + 1) % ES_SPIKE_WINDOW;
}

/* Judges a loss, given as its logarithm, while no spike is open. The loss may
   begin a streak, extend a streak, or turn a streak into a spike. */
static void follow_loss(es_spike_track *track, const es_flag_rules *rules,
                        int64_t step, double level)
{
    if (level <= track->limit)
        track->streak = 0;
    if (track->streak == 0) {
        const double least = log1p(rules->spike_rise);
        track->median = median_of(track);
        if (!(level - track->median > least))
            return;
        const double rise =
            fmax(least, rules->spike_deviations * deviation_of(track));
        track->limit = track->median + rise;
        track->back = track->median + rise / 2;
        track->onset = step;
        track->largest = 0;
        if (!(level > track->limit))
            return;
    }
    track->streak++;
    track->open = track->streak >= (uint32_t)rules->spike_samples ||
                  level - track->median > FACTOR * largest_rise(track);
}

bool es_spike_push(es_spike_track *track, const es_flag_rules *rules,
                   bool past_warm_up, int64_t step, float loss)
{
    const float level = logf(loss);
    const float rise = track->n ? level - (float)median_of(track) : 0;
    if (track->open) {
        track->open = level > track->back;
        track->streak = track->open ? track->streak : 0;
    } else if (track->n >= LEAST && past_warm_up) {
        follow_loss(track, rules, step, level);
    }
    if (track->streak > 0)
        track->largest = fmax(track->largest, loss);
    insert_loss(track, level, rise);
    return track->open;
}
