/**
 * Compares the streaming implementation of the rules with their definition,
 * which is computed from the complete history: with sorted medians instead of
 * histograms, and backward searches instead of counters. Some samples are
 * pushed and then undone; they must not affect any result.
 */
#include "tests/support/chance.h"
#include "tests/support/judged.h"
#include "tests/support/test.h"

#define MAX_SAMPLES 60
#define MAX_LAYERS 3
#define MAX_HEADS 5
#define MAX_VALUES (MAX_LAYERS * MAX_HEADS)
#define MAX_RULES 5
#ifdef __SANITIZE_ADDRESS__
/* Fewer seeds than without AddressSanitizer, which makes each seed slower. */
#define N_SEEDS 5000
#else
#define N_SEEDS 20000
#endif
#define CEILING_CTX 128

typedef struct history {
    es_judge_run run;
    size_t n_layers, n_heads, n_values, n_samples;
    int64_t steps[MAX_SAMPLES];
    float values[MAX_SAMPLES][MAX_VALUES];
    float baseline[MAX_SAMPLES][MAX_VALUES];
    bool has_baseline[MAX_SAMPLES];
} history;

/* Returns a random value near one of several levels, selected by `mood`, or a
   missing or non-finite value. The levels are so far apart that no ratio of
   values is near a threshold. */
static float random_value(size_t mood)
{
    static const double moods[] = {0.1, 1, 10};
    size_t kind = chance_below(25);
    if (kind == 0)
        return chance_below(2) ? NAN : -INFINITY;
    if (kind == 1)
        return es_missing();
    return (float)(moods[mood] * (0.9 + 0.2 * chance_unit()));
}

static void draw(history *of, uint64_t seed)
{
    size_t mood[MAX_VALUES] = {0};
    int64_t step = (int64_t)(seed % 7);
    chance_seed(seed);
    of->n_layers = 1 + chance_below(MAX_LAYERS);
    of->n_heads = 1 + chance_below(MAX_HEADS);
    of->n_values = of->n_layers * of->n_heads;
    of->n_samples = 1 + chance_below(chance_below(3) ? MAX_SAMPLES : 4);
    of->run = (es_judge_run){.n_layers = (int)of->n_layers,
                             .n_heads = (int)of->n_heads,
                             .ctx = chance_below(4) ? CEILING_CTX : 0,
                             .planned_steps = chance_below(2) ? 1000 : 0};
    for (size_t i = 0; i < of->n_samples; i++) {
        bool none = chance_below(12) == 0;
        of->steps[i] = step += 1 + (int64_t)chance_below(30);
        of->has_baseline[i] = chance_below(4) > 0;
        for (size_t v = 0; v < of->n_values; v++) {
            if (chance_below(5) == 0)
                mood[v] = chance_below(3);
            of->values[i][v] = none ? es_missing() : random_value(mood[v]);
            of->baseline[i][v] = random_value(1);
        }
    }
}

static es_rule random_rule(bool single)
{
    static const double numbers[] = {0.5, 3.3};
    es_rule rule = es_rule_on("x", (es_rule_aggregate)chance_below(5),
                              (es_rule_comparison)chance_below(4),
                              numbers[chance_below(2)]);
    if (single && chance_below(2))
        rule.aggregate = ES_RULE_RUN;
    rule.reference = (es_rule_reference)chance_below(4);
    rule.share = chance_below(2) ? 0.35 : 0.7;
    rule.samples = (uint32_t)(1 + chance_below(4));
    rule.warm_up = chance_below(2) ? 0.1 : 0;
    rule.warm_up_end = chance_below(2) ? 70 : 0;
    rule.cool_down = (uint32_t)(chance_below(2) ? chance_below(6) : 0);
    if (chance_below(2)) /* near the threshold: just above or just below */
        rule.end = rule.aggregate == ES_RULE_SHARE ? 0.2
                   : rule.comparison % 2 == 0      ? 0.05
                                                   : 30;
    return rule;
}

/* --- the definition -------------------------------------------------------*/

typedef enum verdict { UNSEEN, FINE, BAD } verdict;

#define MAX_UNITS MAX_VALUES

typedef struct oracle {
    const es_rule *rule;
    const history *of;
    size_t n_units, n_references;
    verdict said[MAX_SAMPLES][MAX_UNITS];
    double x[MAX_SAMPLES][MAX_UNITS];
    /* True if the head's value meets the condition of a rule on the share of
     * heads. */
    bool holds[MAX_SAMPLES][MAX_VALUES];
    bool active[MAX_UNITS];
    size_t since; /* first sample after the end of the last episode */
    double past[MAX_VALUES][MAX_SAMPLES]; /* (n_past) sorted */
    size_t n_past[MAX_VALUES];
    bool doubtful; /* true if a ratio is so close to its threshold that the
                      rules' histogram may decide differently */
    es_judged_episode episodes[MAX_SAMPLES];
    size_t n;
} oracle;

static bool is_low(const es_rule *rule)
{
    return rule->comparison == ES_RULE_BELOW ||
           rule->comparison == ES_RULE_AT_MOST;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the aggregate of the finite values; NaN if no value is finite.
   Stores the number of non-finite values in *n_bad. */
static double aggregate(const oracle *by, const float *x, size_t n,
                        size_t *n_bad)
{
    double sorted[MAX_HEADS], sum = 0;
    size_t n_finite = 0;
    *n_bad = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i]))
            sorted[n_finite++] = x[i];
        else
            *n_bad += !es_is_missing(x[i]);
    }
    if (n_finite == 0)
        return NAN;
    for (size_t i = 0; i < n_finite; i++)
        sum += sorted[i];
    qsort(sorted, n_finite, sizeof *sorted, ascending);
    return by->rule->aggregate == ES_RULE_LAYER_MIN   ? sorted[0]
           : by->rule->aggregate == ES_RULE_LAYER_MAX ? sorted[n_finite - 1]
                                                      : sum / (double)n_finite;
}

static double relate(const oracle *by, size_t i, size_t unit, double value)
{
    const history *of = by->of;
    size_t n = of->n_values / by->n_references, n_bad, needed;
    switch (by->rule->reference) {
    case ES_RULE_HISTORY:
        needed = by->rule->samples < 3 ? 3 : by->rule->samples;
        return by->n_past[unit] < needed
                   ? NAN
                   : value / by->past[unit][(by->n_past[unit] - 1) / 2];
    case ES_RULE_BASELINE:
        return of->has_baseline[i]
                   ? value /
                         aggregate(by, of->baseline[i] + unit * n, n, &n_bad)
                   : NAN;
    case ES_RULE_CEILING: {
        double sum = 0;
        for (int k = 2; k <= of->run.ctx; k++)
            sum += log(k);
        return of->run.ctx ? value / (sum / of->run.ctx) : NAN;
    }
    default:
        return value;
    }
}

/* Uses a strict comparison, because no random value is exactly at a limit. */
static bool exceeds(oracle *by, double x, double limit)
{
    if (by->rule->reference == ES_RULE_HISTORY && fabs(x / limit - 1) < 1. / 32)
        by->doubtful = true;
    return is_low(by->rule) ? x < limit : x > limit;
}

static void remember(oracle *by, size_t unit, double value)
{
    by->past[unit][by->n_past[unit]++] = value;
    qsort(by->past[unit], by->n_past[unit], sizeof(double), ascending);
}

static void judge_unit(oracle *by, size_t i, size_t unit)
{
    size_t n = by->of->n_values / by->n_units, n_bad;
    double value = aggregate(by, by->of->values[i] + unit * n, n, &n_bad);
    const es_rule *rule = by->rule;
    bool second = by->active[unit] && !isnan(rule->end);
    by->said[i][unit] = UNSEEN;
    if (isnan(value))
        return;
    double x = by->x[i][unit] = relate(by, i, unit, value);
    bool bad = exceeds(by, x, second ? rule->end : rule->threshold);
    if (!bad)
        remember(by, unit, value);
    if (bad)
        by->said[i][unit] = BAD;
    else if (!isnan(x) && n_bad == 0)
        by->said[i][unit] = FINE;
}

static void judge_share(oracle *by, size_t i)
{
    const es_rule *rule = by->rule;
    double n = 0, n_holds = 0, n_bad = 0;
    double least = by->active[0] && !isnan(rule->end) ? rule->end : rule->share;
    by->said[i][0] = UNSEEN;
    for (size_t v = 0; v < by->of->n_values; v++) {
        float value = by->of->values[i][v];
        if (!isfinite(value)) {
            n_bad += !es_is_missing(value);
            continue;
        }
        double x = relate(by, i, v, value);
        by->holds[i][v] = exceeds(by, x, rule->threshold);
        if (!by->holds[i][v])
            remember(by, v, value);
        n += !isnan(x);
        n_holds += by->holds[i][v];
    }
    if (n == 0)
        return;
    by->x[i][0] = n_holds / (n + n_bad);
    if (n_holds > 0 && n_holds / (n + n_bad) >= least)
        by->said[i][0] = BAD;
    else if (n_holds + n_bad == 0 || (n_holds + n_bad) / (n + n_bad) < least)
        by->said[i][0] = FINE;
}

/* Searches backwards from sample i. Returns the number of consecutive samples
   at which the condition holds, and sets the first and last of them. */
static size_t streak_at(size_t *first, size_t *last, const oracle *by, size_t i,
                        size_t unit)
{
    size_t n = 0;
    for (size_t j = i + 1; j-- > by->since && by->said[j][unit] != FINE;) {
        if (by->said[j][unit] != BAD)
            continue;
        if (n++ == 0)
            *last = j;
        *first = j;
    }
    return n;
}

static void mark_share(const oracle *by, es_judged_episode *to, size_t i)
{
    for (size_t l = 0; l < by->of->n_layers; l++) {
        double n = 0, n_holds = 0;
        for (size_t h = 0; h < by->of->n_heads; h++) {
            size_t v = l * by->of->n_heads + h;
            n += !es_is_missing(by->of->values[i][v]);
            n_holds += by->holds[i][v];
            to->heads[v] = to->heads[v] || by->holds[i][v];
        }
        if (n_holds > 0 && n_holds / n >= by->rule->share)
            to->layers[l] = 1;
    }
}

static void extend(const oracle *by, es_judged_episode *to, size_t unit,
                   size_t first, size_t last)
{
    bool share = by->rule->aggregate == ES_RULE_SHARE;
    for (size_t i = first; i <= last; i++) {
        if (by->said[i][unit] != BAD)
            continue;
        if (by->of->steps[i] < to->said.onset)
            to->said.onset = by->of->steps[i];
        if (by->of->steps[i] > to->said.last)
            to->said.last = by->of->steps[i];
        double x = by->x[i][unit];
        bool low = is_low(by->rule) && !share;
        if (isnan(to->said.value) ||
            (low ? x < to->said.value : x > to->said.value))
            to->said.value = x;
        if (share)
            mark_share(by, to, i);
    }
    if (by->rule->aggregate == ES_RULE_HEAD) {
        to->heads[unit] = 1;
        to->layers[unit / by->of->n_heads] = 1;
    } else if (!share && by->rule->aggregate != ES_RULE_RUN) {
        to->layers[unit] = 1;
    }
}

static es_judged_episode *open_episode(oracle *by)
{
    es_judged_episode *to = &by->episodes[by->n++];
    memset(to, 0, sizeof *to);
    to->said.onset = INT64_MAX;
    to->said.last = INT64_MIN;
    to->said.value = NAN;
    return to;
}

static bool is_judged(const oracle *by, size_t i)
{
    const history *of = by->of;
    int64_t warm_up =
        of->run.planned_steps > 0 && by->rule->warm_up > 0 ? 100 : 0;
    bool measured = false;
    for (size_t v = 0; v < of->n_values; v++)
        measured = measured || !es_is_missing(of->values[i][v]);
    return measured && of->steps[i] >= warm_up &&
           of->steps[i] >= by->rule->warm_up_end;
}

static void expect(oracle *by)
{
    const es_rule *rule = by->rule;
    es_judged_episode *open = NULL;
    size_t quiet = 0;
    for (size_t i = 0; i < by->of->n_samples; i++) {
        bool any = false;
        if (!is_judged(by, i))
            continue;
        if (rule->aggregate == ES_RULE_SHARE)
            judge_share(by, i);
        for (size_t u = 0; u < by->n_units; u++) {
            if (rule->aggregate != ES_RULE_SHARE)
                judge_unit(by, i, u);
            by->active[u] = by->active[u] && by->said[i][u] != FINE;
            any = any || by->active[u];
        }
        if (!open && quiet > 0) {
            quiet--;
            continue;
        }
        for (size_t u = 0; u < by->n_units; u++) {
            size_t first = 0, last = 0;
            if (streak_at(&first, &last, by, i, u) < rule->samples)
                continue;
            if (!open)
                open = open_episode(by);
            any = by->active[u] = true;
            extend(by, open, u, first, last);
        }
        if (open)
            open->said.stands = any;
        if (open && !any) {
            open = NULL;
            by->since = i + 1;
            quiet = rule->cool_down;
        }
    }
}

static oracle *consult(const es_rule *rule, const history *of)
{
    oracle *by = calloc(1, sizeof *by);
    assert_non_null(by);
    by->rule = rule;
    by->of = of;
    by->n_units = rule->aggregate == ES_RULE_HEAD    ? of->n_values
                  : rule->aggregate == ES_RULE_SHARE ? 1
                  : rule->aggregate == ES_RULE_RUN   ? 1
                                                     : of->n_layers;
    by->n_references =
        rule->aggregate == ES_RULE_SHARE ? of->n_values : by->n_units;
    expect(by);
    return by;
}

/* --- streaming ------------------------------------------------------------*/

static void push(es_ruled *ruled, const history *of, size_t i)
{
    if (of->has_baseline[i])
        es_rules_push_baseline(ruled->rules, "x", false, of->steps[i],
                               of->baseline[i], of->n_values);
    es_rules_push(ruled->rules, "x", false, of->steps[i], of->values[i],
                  of->n_values);
}

/* Pushes samples and then undoes them, as the recorder does with a failed
   transaction. */
static void detour(es_ruled *ruled, const history *of, size_t from)
{
    size_t n = ruled->n, n_opened = ruled->n_opened;
    AUTO_FREE void *before = malloc(ruled->size);
    assert_non_null(before);
    memcpy(before, ruled->workspace, ruled->size);
    for (size_t i = from; i < of->n_samples && i < from + 5; i++)
        push(ruled, of, i);
    memcpy(ruled->workspace, before, ruled->size);
    ruled->n = n;
    ruled->n_opened = n_opened;
}

static void assert_same(const es_judged_episode *a, const es_judged_episode *b,
                        const oracle *by)
{
    double slack = by->rule->reference == ES_RULE_HISTORY ? 1.0 / 32 : 1e-12;
    double value = b->said.value;
    if (by->rule->reference == ES_RULE_CEILING &&
        by->rule->aggregate != ES_RULE_SHARE)
        value *= lgamma(CEILING_CTX + 1) / CEILING_CTX;
    assert_int_equal(a->said.onset, b->said.onset);
    assert_int_equal(a->said.last, b->said.last);
    assert_int_equal(a->said.stands, b->said.stands);
    assert_true(fabs(a->said.value - value) <= slack * fabs(value));
    assert_memory_equal(a->layers, b->layers, by->of->n_layers);
    assert_memory_equal(a->heads, b->heads, by->of->n_values);
}

/* Asserts that each episode (period in which a rule is violated) was announced
   exactly once, between its onset and its end. */
static void check_announced(const es_ruled *ruled)
{
    assert_int_equal(ruled->n, ruled->n_opened);
    for (size_t i = 0; i < ruled->n; i++) {
        size_t n = 0;
        for (size_t k = 0; k < ruled->n_opened; k++)
            n += ruled->opened[k].rule == ruled->episodes[i].rule &&
                 ruled->opened[k].said.last >= ruled->episodes[i].said.onset &&
                 ruled->opened[k].said.last <= ruled->episodes[i].said.last;
        assert_int_equal(n, 1);
    }
}

static size_t check(const history *of, const es_rule *rules, size_t n_rules)
{
    size_t n = 0;
    es_ruled *ruled = es_ruled_new(of->run, rules, n_rules);
    for (size_t i = 0; i < of->n_samples; i++) {
        if (chance_below(4) == 0)
            detour(ruled, of, i);
        push(ruled, of, i);
    }
    es_rules_finish(ruled->rules);
    for (size_t r = 0; r < n_rules; r++) {
        oracle *by = consult(&rules[r], of);
        size_t seen = 0;
        for (size_t e = 0; e < ruled->n && !by->doubtful; e++) {
            if (ruled->episodes[e].rule != r)
                continue;
            assert_true(seen < by->n);
            assert_same(&ruled->episodes[e], &by->episodes[seen++], by);
        }
        assert_true(seen == by->n || by->doubtful);
        n += seen;
        free(by);
    }
    check_announced(ruled);
    es_ruled_free(ruled);
    return n;
}

static uint64_t seed_now;

/* Prints the last seed, which is the failing seed if the test failed. */
static int print_seed(void **state)
{
    print_message("last seed: ES_SEED=%llu\n", (unsigned long long)seed_now);
    return 0;
}

TEST(streaming_agrees_with_the_definition)
{
    const char *only = getenv("ES_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    uint64_t n_seeds = only ? 1 : N_SEEDS, n = 0;
    for (seed_now = first; seed_now < first + n_seeds; seed_now++) {
        history of;
        es_rule rules[MAX_RULES];
        draw(&of, seed_now);
        size_t n_rules = 1 + chance_below(MAX_RULES);
        for (size_t i = 0; i < n_rules; i++)
            rules[i] = random_rule(of.n_values == 1);
        n += check(&of, rules, n_rules);
    }
    seed_now--;
    assert_true(only || n > N_SEEDS); /* the random histories must contain
                                         enough episodes */
}

TEST_EACH(NULL, print_seed)
