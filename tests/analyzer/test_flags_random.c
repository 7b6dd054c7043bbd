/**
 * Compares the judge, which processes one sample after the other, with the
 * definitions of the flags, which are evaluated afterwards on the complete
 * random series: with sorted medians instead of histograms, and backward
 * searches instead of counters.
 */
#include "analyzer/heads/bands.h"
#include "tests/support/chance.h"
#include "tests/support/judged.h"
#include "tests/support/test.h"

#define MAX_SAMPLES 60
#define MAX_LAYERS 4
#define MAX_HEADS 7
#define MAX_VALUES (MAX_LAYERS * MAX_HEADS)

typedef struct series {
    es_judge_run run;
    size_t n_layers, n_heads, n_values, n_samples;
    int64_t steps[MAX_SAMPLES];
    float entropy[MAX_SAMPLES][MAX_VALUES];
    float logit[MAX_SAMPLES][MAX_VALUES];
    float loss[MAX_SAMPLES];
    float filled[MAX_SAMPLES][MAX_VALUES]; /* entropies in which missing
                                              values are replaced by the last
                                              measured value */
    size_t overload_samples;
    int overload_steps;
    bool too_close; /* true if a mean is so close to a tenth of a median that
                       the judge's histogram may decide differently */
} series;

/* Typical entropies of a layer in nats, at T = 128. The entropies are so far
   apart that a mean is rarely near a tenth of the median of other means. */
static const double moods[] = {0.004, 0.1, 2.0, 3.5};

static float random_entropy(double mood)
{
    size_t kind = chance_below(60);
    if (kind == 0)
        return NAN;
    if (kind == 1)
        return es_missing();
    return (float)(mood * (0.9 + 0.2 * chance_unit()));
}

static float random_logit(void)
{
    static const float levels[] = {5, 5, 5, 5, 5, 5, 5, 5, 150, 2000};
    if (chance_below(200) == 0)
        return es_missing();
    if (chance_below(400) == 0)
        return INFINITY;
    return levels[chance_below(10)];
}

/* Returns a loss, which is usually near 2 and occasionally far above 2 for some
   samples. */
static float random_loss(size_t *high)
{
    if (chance_below(20) == 0)
        return chance_below(2) ? NAN : es_missing();
    if (*high > 0)
        *high -= 1;
    else if (chance_below(20) == 0)
        *high = 1 + chance_below(9);
    return (float)((*high ? 3 + 9 * chance_unit() : 2) *
                   (1 + 0.05 * chance_unit()));
}

static void draw_sample(series *s, size_t i, size_t *mood, size_t *high)
{
    bool none = chance_below(15) == 0;
    for (size_t l = 0; l < s->n_layers; l++) {
        bool dead = chance_below(40) == 0;
        if (chance_below(6) == 0)
            mood[l] = chance_below(4);
        for (size_t h = 0; h < s->n_heads; h++) {
            float value = random_entropy(moods[mood[l]]);
            s->entropy[i][l * s->n_heads + h] = none   ? es_missing()
                                                : dead ? NAN
                                                       : value;
            s->logit[i][l * s->n_heads + h] =
                chance_below(3) ? 5.0F : random_logit();
        }
    }
    s->loss[i] = random_loss(high);
}

static void draw(series *s, uint64_t seed)
{
    static const int contexts[] = {128, 128, 0};
    size_t mood[MAX_LAYERS], high = 0;
    chance_seed(seed);
    s->n_layers = 1 + chance_below(MAX_LAYERS);
    s->n_heads = 1 + chance_below(MAX_HEADS);
    s->n_values = s->n_layers * s->n_heads;
    s->n_samples = 1 + chance_below(chance_below(3) ? MAX_SAMPLES : 4);
    s->run = (es_judge_run){.n_layers = (int)s->n_layers,
                            .n_heads = (int)s->n_heads,
                            .ctx = contexts[chance_below(3)],
                            .planned_steps = chance_below(2) ? 2000 : 0};
    s->too_close = false;
    s->overload_samples = 1 + chance_below(5);
    s->overload_steps = chance_below(4) ? 2001 : 2000;
    for (size_t l = 0; l < s->n_layers; l++)
        mood[l] = chance_below(4);
    int64_t step = (int64_t)chance_below(50);
    for (size_t i = 0; i < s->n_samples; i++) {
        s->steps[i] = step;
        step += 1 + (int64_t)chance_below(30); /* gaps */
        draw_sample(s, i, mood, &high);
    }
    if (chance_below(2)) /* start like an untrained model, near the ceiling,
                            which is 3.8781 at T = 128 */
        for (size_t v = 0; v < s->n_values; v++)
            s->entropy[0][v] = chance_below(20) ? 3.83F : es_missing();
}

static void fill_in(series *s)
{
    for (size_t i = 0; i < s->n_samples; i++)
        for (size_t v = 0; v < s->n_values; v++) {
            size_t j = i;
            while (j > 0 && es_is_missing(s->entropy[j][v]))
                j--;
            s->filled[i][v] = s->entropy[j][v];
        }
}

static bool past_warm_up(const series *s, size_t i)
{
    return s->run.planned_steps <= 0 ||
           (double)s->steps[i] >= 0.05 * (double)s->run.planned_steps;
}

static bool is_sample(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!es_is_missing(x[i]))
            return true;
    return false;
}

static size_t n_measured(const float *x, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += !es_is_missing(x[i]);
    return count;
}

static double mean_of(const float *x, size_t n)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i])) {
            sum += x[i];
            count++;
        }
    }
    return sum / count; /* NaN if count is 0 */
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef enum verdict { UNMEASURED, FINE, COLLAPSED, DEAD } verdict;

/* Computes the verdict on a layer at each sample, and the limit below which its
   heads count as low. */
static void judge_layer(verdict *verdicts, double *limits, series *s,
                        size_t layer)
{
    double means[MAX_SAMPLES];
    double peak = 0;
    size_t n_means = 0;
    double low = s->run.ctx < 2 ? -1 : 0.05 * es_ceiling(s->run.ctx);
    for (size_t i = 0; i < s->n_samples; i++) {
        const float *x = s->filled[i] + layer * s->n_heads;
        bool measured =
            is_sample(s->entropy[i] + layer * s->n_heads, s->n_heads);
        double mean = mean_of(x, s->n_heads), n_low = 0, median = NAN;
        for (size_t h = 0; h < s->n_heads; h++)
            n_low += isfinite(x[h]) && x[h] < low;
        if (n_means >= 3)
            median = means[(n_means - 1) / 2];
        bool judged = measured && past_warm_up(s, i) && isfinite(mean);
        bool by_share =
            n_low > 0 && n_low / (double)n_measured(x, s->n_heads) >= 0.5;
        bool by_median = judged && mean < 0.1 * median;
        bool by_peak = s->run.ctx < 2 && measured && mean < 0.05 * peak;
        bool by_history = by_median || by_peak;
        if (measured)
            peak = fmax(peak, mean);
        if (judged && fabs(mean / median - 0.1) <= 0.1 / 32)
            s->too_close = true;
        if (judged && !by_history) {
            means[n_means++] = mean;
            qsort(means, n_means, sizeof *means, ascending);
        }
        limits[i] = fmax(by_share ? low : 0, by_median ? 0.1 * median : 0);
        if (by_peak)
            limits[i] = fmax(limits[i], 0.05 * peak);
        verdicts[i] = !measured                ? UNMEASURED
                      : isnan(mean)            ? DEAD
                      : by_share || by_history ? COLLAPSED
                                               : FINE;
    }
}

/* Returns true if so many layers are collapsed in sample i that the sample
 * counts as two. */
static bool is_wide(const series *s, verdict verdicts[][MAX_SAMPLES], size_t i)
{
    size_t n = 0;
    for (size_t l = 0; l < s->n_layers; l++)
        n += verdicts[l][i] == COLLAPSED;
    return n >= 3 && 2 * n >= s->n_layers;
}

/* Searches backwards from the sample before `end`. Returns the number of
   consecutive collapsed samples, and sets the first and last of them. */
static size_t streak_at(size_t *first, size_t *last, const verdict *verdicts,
                        size_t end)
{
    size_t n = 0;
    for (size_t j = end;
         j-- > 0 && verdicts[j] != FINE && verdicts[j] != DEAD;) {
        if (verdicts[j] != COLLAPSED)
            continue;
        if (n++ == 0)
            *last = j;
        *first = j;
    }
    return n;
}

static es_judged_episode *open_episode(es_judged *out, es_flag_kind kind,
                                       es_severity severity)
{
    es_judged_episode *opened = &out->episodes[out->n++];
    assert_true(out->n <= ES_JUDGED_EPISODES);
    memset(opened, 0, sizeof *opened);
    opened->said.kind = kind;
    opened->said.severity = severity;
    opened->said.onset = INT64_MAX;
    opened->said.last = INT64_MIN;
    return opened;
}

static void widen(es_judged_episode *episode, int64_t first, int64_t last)
{
    if (first < episode->said.onset)
        episode->said.onset = first;
    if (last > episode->said.last)
        episode->said.last = last;
}

static void join(es_judged_episode *episode, const series *s, size_t layer,
                 const double *limits, size_t first, size_t last)
{
    widen(episode, s->steps[first], s->steps[last]);
    episode->layers[layer] = 1;
    for (size_t i = first; i <= last; i++)
        for (size_t h = 0; h < s->n_heads; h++) {
            float value = s->filled[i][layer * s->n_heads + h];
            if (isfinite(value) && value < limits[i])
                episode->heads[layer * s->n_heads + h] = 1;
        }
}

/* Returns true if a NaN in one of the samples from..to interrupts consecutive
   collapsed samples of a layer. */
static bool is_cut_short(const series *s, verdict verdicts[][MAX_SAMPLES],
                         size_t from, size_t to)
{
    size_t first, last;
    for (size_t i = from; i <= to; i++)
        for (size_t l = 0; l < s->n_layers; l++)
            if (verdicts[l][i] == DEAD &&
                streak_at(&first, &last, verdicts[l], i) > 0)
                return true;
    return false;
}

/* Returns true if layer l belongs to a collapse at sample i. Stores the first
   and the last of its collapsed samples in `first` and `last`. */
static bool is_part(size_t *first, size_t *last, const series *s,
                    verdict verdicts[][MAX_SAMPLES], size_t l, size_t i,
                    size_t needed)
{
    bool dead = verdicts[l][i] == DEAD;
    size_t n = streak_at(first, last, verdicts[l], dead ? i : i + 1);
    size_t n_wide = 0;
    for (size_t j = *first; n > 0 && j <= *last; j++)
        n_wide += verdicts[l][j] == COLLAPSED && is_wide(s, verdicts, j);
    if (n == 0)
        return false;
    return is_cut_short(s, verdicts, *first, i) ||
           n + (needed < 3 ? 0 : n_wide) >= needed;
}

static void expect_collapses(es_judged *out, series *s)
{
    verdict verdicts[MAX_LAYERS][MAX_SAMPLES];
    double limits[MAX_LAYERS][MAX_SAMPLES];
    es_judged_episode *open = NULL;
    size_t n_samples = 0;
    for (size_t l = 0; l < s->n_layers; l++)
        judge_layer(verdicts[l], limits[l], s, l);
    for (size_t i = 0; i < s->n_samples; i++)
        n_samples += is_sample(s->entropy[i], s->n_values);
    for (size_t i = 0, seen = 0; i < s->n_samples; i++) {
        bool holds = false;
        if (!is_sample(s->entropy[i], s->n_values))
            continue;
        /* A collapse needs three samples. If the run has only one or two
         * samples, these suffice at its end. */
        size_t needed = ++seen == n_samples && n_samples < 3 ? n_samples : 3;
        for (size_t l = 0; l < s->n_layers; l++) {
            size_t first = 0, last = 0;
            if (!is_part(&first, &last, s, verdicts, l, i, needed))
                continue;
            holds = holds || verdicts[l][i] != DEAD;
            if (!open)
                open =
                    open_episode(out, ES_FLAG_COLLAPSE, ES_SEVERITY_CRITICAL);
            join(open, s, l, limits[l], first, last);
        }
        if (open)
            open->said.stands = holds;
        if (!holds)
            open = NULL;
    }
}

/* Adds to `out` the expected episodes of a flag that needs only one sample.
   levels (n_samples) contains the severity at each sample: ES_SEVERITY_NONE if
   the flag's condition does not hold, -1 if the series has no sample. */
static void expect_levels(es_judged *out, const series *s, es_flag_kind kind,
                          const int *levels)
{
    es_judged_episode *open = NULL;
    es_severity highest = ES_SEVERITY_NONE;
    for (size_t i = 0; i < s->n_samples; i++) {
        if (levels[i] < 0)
            continue;
        if (levels[i] == ES_SEVERITY_NONE) {
            if (open) {
                open->said.severity = highest;
                open->said.stands = false;
            }
            open = NULL;
            continue;
        }
        if (!open)
            highest = ES_SEVERITY_NONE;
        if (!open)
            open = open_episode(out, kind, ES_SEVERITY_NONE);
        if ((es_severity)levels[i] > highest)
            highest = (es_severity)levels[i];
        open->said.severity = (es_severity)levels[i];
        open->said.stands = true;
        widen(open, s->steps[i], s->steps[i]);
    }
}

/* Examines the n shares of high heads that end with sample j. Returns true if
   all of them are at least `limit` (if at_least is true) or if all are below it
   (if at_least is false). */
static bool all_up_to(const double *shares, size_t j, size_t n, bool at_least,
                      double limit)
{
    if (j + 1 < n)
        return false;
    for (size_t i = j + 1 - n; i <= j; i++)
        if ((shares[i] >= limit) != at_least)
            return false;
    return true;
}

static es_severity overload_at(const double *shares, size_t j, size_t n,
                               bool had_time, bool too_short)
{
    bool severe = false;
    for (size_t i = 0; i <= j; i++) {
        bool below = all_up_to(shares, i, n, false, 0.4);
        had_time = had_time || below;
        if (all_up_to(shares, i, n, true, 0.4))
            severe = true;
        else if (below || shares[i] < 0.2)
            severe = false;
    }
    if (!all_up_to(shares, j, n, true, 0.2))
        return ES_SEVERITY_NONE;
    if (too_short)
        return ES_SEVERITY_INFO;
    return severe && had_time ? ES_SEVERITY_ERROR : ES_SEVERITY_WARNING;
}

static bool comes_down(const double *shares, size_t end, size_t n)
{
    for (size_t i = 0; i <= end; i++)
        if (all_up_to(shares, i, n, false, 0.4))
            return true;
    return false;
}

/* Returns true if few steps are planned and the heads start at the ceiling. */
static bool is_too_short(const series *s)
{
    for (size_t i = 0; i < s->n_samples; i++) {
        double sum = 0;
        if (!is_sample(s->entropy[i], s->n_values))
            continue;
        for (size_t v = 0; v < s->n_values; v++)
            sum += es_is_missing(s->filled[i][v]) ? 0 : s->filled[i][v];
        return s->run.planned_steps > 0 &&
               s->run.planned_steps < s->overload_steps &&
               sum / (double)n_measured(s->filled[i], s->n_values) >=
                   0.98 * es_ceiling(s->run.ctx);
    }
    return false;
}

/* Adds to `out` the overload episode that is expected to begin at sample
   `first`, if it lasts long enough. Returns the sample after its end. */
static size_t expect_overload(es_judged *out, const double *shares,
                              const int64_t *steps, size_t first,
                              size_t n_judged, const series *s)
{
    size_t end = first, n = s->overload_samples;
    const bool too_short = is_too_short(s);
    es_severity highest = ES_SEVERITY_NONE, now = ES_SEVERITY_NONE;
    bool done =
        s->run.planned_steps <= 0 ||
        (double)steps[n_judged - 1] + 1 >= 0.95 * (double)s->run.planned_steps;
    for (; end < n_judged && shares[end] >= 0.2; end++) {
        now = overload_at(shares, end, n, false,
                          too_short && !comes_down(shares, end, n));
        highest = now > highest ? now : highest;
    }
    if (end == n_judged)
        now = overload_at(shares, end - 1, n < n_judged ? n : n_judged, done,
                          too_short && !comes_down(shares, end - 1, n));
    highest = now > highest ? now : highest;
    if (highest == ES_SEVERITY_NONE)
        return end;
    es_judged_episode *episode =
        open_episode(out, ES_FLAG_OVERLOAD, end == n_judged ? now : highest);
    episode->said.stands = end == n_judged;
    widen(episode, steps[first], steps[end - 1]);
    return end;
}

static void expect_overloads(es_judged *out, const series *s)
{
    double shares[MAX_SAMPLES], limit = 0.75 * es_ceiling(s->run.ctx);
    int64_t steps[MAX_SAMPLES];
    size_t n = 0;
    for (size_t i = 0; i < s->n_samples; i++) {
        double n_high = 0;
        if (!is_sample(s->entropy[i], s->n_values) || !past_warm_up(s, i) ||
            s->run.ctx < 2)
            continue;
        for (size_t v = 0; v < s->n_values; v++)
            n_high += s->filled[i][v] >= limit;
        steps[n] = s->steps[i];
        shares[n++] = n_high / (double)n_measured(s->filled[i], s->n_values);
    }
    for (size_t j = 0; j < n;)
        j = shares[j] < 0.2 ? j + 1
                            : expect_overload(out, shares, steps, j, n, s);
}

static void expect_logits(es_judged *out, const series *s)
{
    int levels[MAX_SAMPLES];
    for (size_t i = 0; i < s->n_samples; i++) {
        float largest = -INFINITY;
        for (size_t v = 0; v < s->n_values; v++)
            largest = fmaxf(largest, s->logit[i][v]);
        levels[i] = !is_sample(s->logit[i], s->n_values) ? -1
                    : largest > 1000                     ? ES_SEVERITY_ERROR
                    : largest > 100                      ? ES_SEVERITY_WARNING
                                                         : ES_SEVERITY_NONE;
    }
    expect_levels(out, s, ES_FLAG_LOGITS, levels);
}

/* Logarithms of the finite losses, and the index of the sample of each. */
typedef struct levels {
    float y[MAX_SAMPLES];
    size_t sample[MAX_SAMPLES], n;
} levels;

static double median_before(const levels *of, size_t i)
{
    double sorted[MAX_SAMPLES];
    for (size_t k = 0; k < i; k++)
        sorted[k] = of->y[k];
    qsort(sorted, i, sizeof *sorted, ascending);
    return sorted[(i - 1) / 2];
}

/* Returns the rise above the preceding median that makes a loss a spike. */
static double rise_before(const levels *of, size_t i)
{
    double median = median_before(of, i), deviations[MAX_SAMPLES];
    for (size_t k = 0; k < i; k++)
        deviations[k] = fabs(of->y[k] - median);
    qsort(deviations, i, sizeof *deviations, ascending);
    return fmax(log1p(0.15), 7 * (1.4826 * deviations[i / 2]));
}

/* Examines the consecutive losses above `limit` that begin at `first`. Returns
   the sample at which they become a spike; n if they do not. Sets *end to the
   first loss that is not above the limit. */
static size_t find_spike(size_t *end, const levels *of, size_t first,
                         double limit)
{
    const double median = median_before(of, first);
    for (*end = first; *end < of->n && of->y[*end] > limit; ++*end) {
        float largest = 0;
        for (size_t k = 1; k < *end; k++)
            largest = fmaxf(largest, of->y[k] - (float)median_before(of, k));
        if (*end - first + 1 >= 5 || of->y[*end] - median > 2 * largest)
            return *end;
    }
    return of->n;
}

static void expect_spikes(es_judged *out, const series *s)
{
    levels of = {.n = 0};
    for (size_t i = 0; i < s->n_samples; i++)
        if (isfinite(s->loss[i])) {
            of.sample[of.n] = i;
            of.y[of.n++] = logf(s->loss[i]);
        }
    for (size_t i = 32; i < of.n;) {
        const double rise = rise_before(&of, i);
        const double median = median_before(&of, i);
        size_t end = i, last;
        if (!past_warm_up(s, of.sample[i]) || !(of.y[i] > median + rise)) {
            i++;
            continue;
        }
        last = find_spike(&end, &of, i, median + rise);
        if (last == of.n) {
            i = end;
            continue;
        }
        while (last + 1 < of.n && of.y[last + 1] > median + rise / 2)
            last++;
        es_judged_episode *spike =
            open_episode(out, ES_FLAG_LOSS_SPIKE, ES_SEVERITY_WARNING);
        widen(spike, s->steps[of.sample[i]], s->steps[of.sample[last]]);
        spike->said.stands = last + 1 == of.n;
        i = last + 2;
    }
}

static int clean(const float *x, size_t n)
{
    if (!is_sample(x, n))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]) && !es_is_missing(x[i]))
            return 0;
    return 1;
}

/* Asserts that all samples with NaN or infinities lie in episodes of the flag
   nan, and that all these episodes begin and end at such samples. */
static void check_nan(const es_judged *judged, const series *s)
{
    for (size_t i = 0; i < s->n_samples; i++) {
        bool bad = clean(s->entropy[i], s->n_values) == 0 ||
                   clean(s->logit[i], s->n_values) == 0 ||
                   clean(&s->loss[i], 1) == 0;
        bool inside = false, edge = false;
        for (size_t e = 0; e < judged->n; e++) {
            const es_episode *said = &judged->episodes[e].said;
            if (said->kind != ES_FLAG_NAN)
                continue;
            assert_true(said->stands);
            edge =
                edge || said->onset == s->steps[i] || said->last == s->steps[i];
            inside = inside ||
                     (said->onset <= s->steps[i] && s->steps[i] <= said->last);
        }
        assert_true(!bad || inside);
        assert_true(bad || !edge);
    }
}

/* Pushes all samples of the series to the judge; the order of the series within
   a step is random. */
static void feed(es_judged *judged, const series *s)
{
    for (size_t i = 0; i < s->n_samples; i++) {
        size_t first = chance_below(3);
        for (size_t k = 0; k < 3; k++) {
            size_t which = (first + k) % 3;
            if (which == 0)
                es_judge_push(judged->judge, ES_JUDGE_ENTROPY, s->steps[i],
                              s->entropy[i], s->n_values);
            else if (which == 1)
                es_judge_push(judged->judge, ES_JUDGE_MAX_LOGIT, s->steps[i],
                              s->logit[i], s->n_values);
            else
                es_judge_push(judged->judge, ES_JUDGE_LOSS, s->steps[i],
                              &s->loss[i], 1);
        }
    }
    es_judge_finish(judged->judge);
}

static bool same_episode(const es_judged_episode *a, const es_judged_episode *b)
{
    bool same = a->said.kind == b->said.kind &&
                a->said.severity == b->said.severity &&
                a->said.stands == b->said.stands &&
                a->said.onset == b->said.onset && a->said.last == b->said.last;
    if (a->said.kind == ES_FLAG_COLLAPSE)
        same = same && memcmp(a->layers, b->layers, sizeof a->layers) == 0 &&
               memcmp(a->heads, b->heads, sizeof a->heads) == 0;
    return same;
}

static size_t count_like(const es_judged *judged, const es_judged_episode *like)
{
    size_t n = 0;
    for (size_t i = 0; i < judged->n; i++)
        n += same_episode(&judged->episodes[i], like);
    return n;
}

static void compare(const es_judged *judged, const es_judged *expected)
{
    size_t n_nan = es_judged_count(judged, ES_FLAG_NAN);
    assert_int_equal(judged->n - n_nan, expected->n);
    for (size_t i = 0; i < expected->n; i++)
        assert_int_equal(count_like(judged, &expected->episodes[i]), 1);
}

TEST(streaming_agrees_with_the_definition)
{
    size_t seen[ES_N_FLAG_KINDS] = {0}, n_close = 0, n_too_short = 0;
    es_flag_rules rules;
    es_flag_rules_default(&rules);
    AUTO_FREE series *s = calloc(1, sizeof *s);
    AUTO_FREE es_judged *expected = calloc(1, sizeof *expected);
    assert_true(s && expected);
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        draw(s, seed);
        fill_in(s);
        rules.overload_samples = (int)s->overload_samples;
        rules.overload_steps = s->overload_steps;
        AUTO(es_judged) judged = es_judged_new(s->run, &rules);
        feed(judged, s);
        expected->n = 0;
        expect_collapses(expected, s);
        expect_overloads(expected, s);
        expect_logits(expected, s);
        expect_spikes(expected, s);
        n_close += s->too_close;
        if (!s->too_close)
            compare(judged, expected);
        check_nan(judged, s);
        for (size_t i = 0; i < judged->n; i++)
            seen[judged->episodes[i].said.kind]++;
        for (size_t i = 0; i < judged->n; i++)
            n_too_short +=
                judged->episodes[i].said.severity == ES_SEVERITY_INFO;
    }
    assert_true(n_too_short > 20);
    assert_true(n_close < 100);
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        /* The random series must contain enough episodes of each kind. */
        assert_true(seen[kind] > (kind == ES_FLAG_LOSS_SPIKE ? 200 : 1000));
}
