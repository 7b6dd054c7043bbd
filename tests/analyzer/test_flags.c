/** Tests each flag separately, and the flags of the five published heatmaps. */
#include "analyzer/flags/flags.h"
#include "analyzer/heads/bands.h"
#include "tests/support/judged.h"
#include "tests/support/paper.h"
#include "tests/support/test.h"

/* Two layers of five heads with the context length 128; the ceiling of the
 * entropy is 3.878. */
static const es_judge_run small = {.n_layers = 2, .n_heads = 5, .ctx = 128};
#define N_VALUES 10
#define HEALTHY 2.0F
#define HIGH 3.5F /* above 0.75 ceiling = 2.909 */

static void fill(float *x, float value)
{
    for (size_t i = 0; i < N_VALUES; i++)
        x[i] = value;
}

/* Pushes an entropy sample in which n of the ten heads have a high entropy. */
static void push_high(es_judged *judged, int64_t step, size_t n)
{
    float x[N_VALUES];
    fill(x, HEALTHY);
    for (size_t i = 0; i < n; i++)
        x[i] = HIGH;
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, step, x, N_VALUES);
}

static es_judged *judge_paper(const char *arch)
{
    const es_judge_run run = {.n_layers = ES_PAPER_LAYERS,
                              .n_heads = ES_PAPER_HEADS,
                              .ctx = ES_PAPER_CTX};
    float values[ES_PAPER_VALUES];
    es_paper_heatmap(values, arch);
    es_judged *judged = es_judged_new(run, NULL);
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 32000, values,
                  ES_PAPER_VALUES);
    es_judge_finish(judged->judge);
    return judged;
}

TEST(published_models_have_their_flags)
{
    static const struct {
        const char *arch;
        es_severity overload;
        const char *collapsed;
    } published[] = {
        {"SM+LN+G", ES_SEVERITY_NONE, ""},    {"SM+LN+R", ES_SEVERITY_NONE, ""},
        {"SM+G", ES_SEVERITY_ERROR, ""},      {"SM+R", ES_SEVERITY_WARNING, ""},
        {"SM", ES_SEVERITY_ERROR, "9 10 11"},
    };
    for (size_t i = 0; i < 5; i++) {
        AUTO(es_judged) judged = judge_paper(published[i].arch);
        const es_judged_episode *overload, *collapse;
        overload = es_judged_only(judged, ES_FLAG_OVERLOAD);
        collapse = es_judged_only(judged, ES_FLAG_COLLAPSE);
        assert_int_equal(overload ? overload->said.severity : ES_SEVERITY_NONE,
                         published[i].overload);
        assert_string_equal(collapse ? es_judged_list(collapse->layers, 12)
                                     : "",
                            published[i].collapsed);
        assert_int_equal(judged->n, !!overload + !!collapse);
        for (size_t e = 0; e < judged->n; e++)
            es_judged_span(&judged->episodes[e], 32000, 32000, true);
    }
}

TEST(an_overload_has_two_levels)
{
    for (size_t n = 0; n <= 10; n++) {
        AUTO(es_judged) judged = es_judged_new(small, NULL);
        push_high(judged, 3, n);
        es_judge_finish(judged->judge);
        const es_judged_episode *overload =
            es_judged_only(judged, ES_FLAG_OVERLOAD);
        if (n < 2) {
            assert_null(overload);
        } else {
            es_judged_span(overload, 3, 3, true);
            assert_int_equal(overload->said.severity,
                             n < 4 ? ES_SEVERITY_WARNING : ES_SEVERITY_ERROR);
            assert_true(overload->said.value == (double)n / 10);
            assert_true(overload->said.threshold == (n < 4 ? 0.2 : 0.4));
        }
        assert_int_equal(judged->n, n >= 2);
    }
}

/* The entropies fall from `begin` to `end`, given as fractions of the ceiling.
   The overload has only the severity info if few steps are planned, the heads
   start near the ceiling, and they fall only a little. */
TEST(a_training_may_be_too_short_for_heads_to_come_down)
{
    static const struct {
        int64_t planned;
        float begin, end;
        es_severity at_the_end;
    } cases[] = {{300, 0.99F, 0.9F, ES_SEVERITY_INFO},
                 {999, 0.981F, 0.9F, ES_SEVERITY_INFO},
                 {1000, 0.99F, 0.9F, ES_SEVERITY_ERROR},
                 {0, 0.99F, 0.9F, ES_SEVERITY_ERROR},
                 {300, 0.979F, 0.9F, ES_SEVERITY_ERROR},
                 {300, NAN, 0.9F, ES_SEVERITY_ERROR},
                 {300, 0.99F, 0.7F, ES_SEVERITY_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_judge_run run = {.n_layers = 2,
                            .n_heads = 3,
                            .ctx = 128,
                            .planned_steps = cases[i].planned};
        const int64_t steps = cases[i].planned > 0 ? cases[i].planned : 300;
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        for (int64_t step = 0; step < steps; step += 4) {
            const float of_ceiling = step == 0 ? cases[i].begin : cases[i].end;
            float x[6];
            for (int v = 0; v < 6; v++)
                x[v] = (float)(es_ceiling(128) * (double)of_ceiling);
            es_judge_push(judged->judge, ES_JUDGE_ENTROPY, step, x, 6);
        }
        es_judge_finish(judged->judge);
        const es_judged_episode *overload =
            es_judged_only(judged, ES_FLAG_OVERLOAD);
        assert_int_equal(overload ? overload->said.severity : ES_SEVERITY_NONE,
                         cases[i].at_the_end);
    }
    assert_string_equal(es_flag_verdict(ES_FLAG_OVERLOAD, ES_SEVERITY_INFO),
                        "too short to judge");
    assert_string_equal(es_flag_verdict(ES_FLAG_LOGITS, ES_SEVERITY_INFO),
                        "info");
}

TEST(an_overload_at_its_edges_is_judged)
{
    const es_judge_run run = {.n_layers = 1, .n_heads = 1, .ctx = 128};
    const float at = (float)(0.75 * es_ceiling(128));
    for (int i = 0; i < 2; i++) {
        float x = nextafterf(at, i ? 9.0F : 0.0F);
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 0, &x, 1);
        es_judge_finish(judged->judge);
        assert_int_equal(es_judged_count(judged, ES_FLAG_OVERLOAD), i);
    }
}

/* If attention is not causal, the run itself states the ceiling of the entropy,
   with or without a context length. */
TEST(a_run_may_have_its_own_ceiling)
{
    static const struct {
        int ctx;
        double ceiling, expected;
    } cases[] = {{128, 4.5, 4.5}, {0, 4.5, 4.5}, {0, NAN, NAN}, {1, 0, NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_judge_run run = {.n_layers = 1,
                            .n_heads = 1,
                            .ctx = cases[i].ctx,
                            .ceiling = cases[i].ceiling};
        assert_true(near(es_judge_run_ceiling(&run), cases[i].expected, 0));
        const float x = 3.2F; /* 0.71 of the ceiling 4.5, but 0.83 of the causal
                                 ceiling ln(128!)/128 */
        es_judged *judged = es_judged_new(run, NULL);
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 0, &x, 1);
        es_judge_finish(judged->judge);
        assert_int_equal(es_judged_count(judged, ES_FLAG_OVERLOAD), 0);
        es_judged_free(judged);
    }
    const es_judge_run causal = {.ctx = 128, .ceiling = NAN};
    assert_true(near(es_judge_run_ceiling(&causal), es_ceiling(128), 0));
}

/* In layer 1 one of five heads has a high entropy; in layer 0 all five heads
 * do. */
TEST(overload_names_layers_over_the_warning)
{
    es_flag_rules rules;
    es_flag_rules_default(&rules);
    rules.overload_warning = 0.3;
    AUTO(es_judged) judged = es_judged_new(small, &rules);
    push_high(judged, 3, 6);
    es_judge_finish(judged->judge);
    const es_judged_episode *overload =
        es_judged_only(judged, ES_FLAG_OVERLOAD);
    assert_non_null(overload);
    assert_string_equal(es_judged_list(overload->layers, 2), "0");
    assert_string_equal(es_judged_list(overload->heads, 10), "0 1 2 3 4 5");
}

/* An entropy exactly at the lower limit is not low; exactly at the upper limit
   it is high. */
TEST(a_value_at_its_limit_is_judged)
{
    const es_judge_run run = {.n_layers = 1, .n_heads = 1, .ctx = 128};
    const double ceiling = es_ceiling(128);
    const float low = 0.25F, high = 2.75F;
    es_flag_rules rules;
    es_flag_rules_default(&rules);
    rules.collapse_head = low / ceiling;
    rules.overload_head = high / ceiling;
    assert_true(rules.collapse_head * ceiling == (double)low);
    assert_true(rules.overload_head * ceiling == (double)high);
    AUTO(es_judged) judged = es_judged_new(run, &rules);
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 0, &low, 1);
    es_judge_finish(judged->judge);
    assert_int_equal(judged->n, 0);
    es_judged_free(judged);
    judged = es_judged_new(run, &rules);
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 0, &high, 1);
    es_judge_finish(judged->judge);
    assert_non_null(es_judged_only(judged, ES_FLAG_OVERLOAD));
}

/* Pushes n entropy samples from `step` on, in each of which n_high of the ten
 * heads have a high entropy. */
static int64_t push_many(es_judged *judged, int64_t step, int n, size_t n_high)
{
    for (int i = 0; i < n; i++)
        push_high(judged, step++, n_high);
    return step;
}

TEST(overload_waits_for_the_warm_up)
{
    es_judge_run run = small;
    run.planned_steps = 200;
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    int64_t step = push_many(judged, 0, 20, 5);
    push_many(judged, step, 1, 0);
    es_judge_finish(judged->judge);
    es_judged_span(es_judged_only(judged, ES_FLAG_OVERLOAD), 10, 19, false);
}

TEST(overload_takes_ten_in_a_row)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    int64_t step = push_many(judged, 0, 9, 4);
    step = push_many(judged, step, 1, 1);
    step = push_many(judged, step, 9, 10);
    push_many(judged, step, 1, 1);
    es_judge_finish(judged->judge);
    assert_int_equal(judged->n, 0);
}

/* Every head starts near the ceiling. If heads are high from the first sample
   on, the overload is a warning, and becomes an error only if the heads are
   still high when the run ends. */
TEST(an_overload_from_the_start_is_judged_at_the_end)
{
    static const struct {
        int64_t planned, last;
        es_severity severity;
    } cases[] = {
        {0, 60, ES_SEVERITY_ERROR},      {60, 59, ES_SEVERITY_ERROR},
        {100, 94, ES_SEVERITY_ERROR},    {100, 93, ES_SEVERITY_WARNING},
        {1000, 93, ES_SEVERITY_WARNING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_judge_run run = small;
        run.planned_steps = cases[i].planned;
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        push_many(judged, 0, (int)cases[i].last + 1, 8);
        es_judge_finish(judged->judge);
        const es_judged_episode *overload =
            es_judged_only(judged, ES_FLAG_OVERLOAD);
        assert_int_equal(overload ? overload->said.severity : ES_SEVERITY_NONE,
                         cases[i].last < run.planned_steps / 20 + 9
                             ? ES_SEVERITY_NONE
                             : cases[i].severity);
    }
}

TEST(a_standing_flag_has_its_last_level)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    push_high(judged, 0, 8);
    push_high(judged, 1, 3);
    es_judge_finish(judged->judge);
    const es_judged_episode *overload =
        es_judged_only(judged, ES_FLAG_OVERLOAD);
    es_judged_span(overload, 0, 1, true);
    assert_int_equal(overload->said.severity, ES_SEVERITY_WARNING);
    assert_true(overload->said.value == 0.8);
}

/* The share of high heads first falls, then rises to 0.6 for 12 samples, and is
   finally at a medium level for n_between samples. If n_between is -1, the
   share is low at the end. */
TEST(an_overload_that_comes_later_is_an_error)
{
    static const struct {
        int n_between;
        /* Expected severity when the run ends; ES_SEVERITY_INFO: the episode
         * has ended earlier. */
        es_severity stands;
    } cases[] = {{0, ES_SEVERITY_ERROR},
                 {9, ES_SEVERITY_ERROR},
                 {10, ES_SEVERITY_WARNING},
                 {-1, ES_SEVERITY_INFO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO(es_judged) judged = es_judged_new(small, NULL);
        int64_t step = push_many(judged, 0, 3, 10);
        step = push_many(judged, step, 10, 1);
        step = push_many(judged, step, 12, 6);
        if (cases[i].n_between < 0)
            push_high(judged, step, 0);
        else
            push_many(judged, step, cases[i].n_between, 3);
        es_judge_finish(judged->judge);
        const es_judged_episode *overload =
            es_judged_only(judged, ES_FLAG_OVERLOAD);
        bool stands = cases[i].stands > ES_SEVERITY_INFO;
        es_judged_span(overload, 13, 24 + (stands ? cases[i].n_between : 0),
                       stands);
        assert_int_equal(overload->said.severity,
                         stands ? cases[i].stands : ES_SEVERITY_ERROR);
        assert_true(overload->said.value == 0.6);
    }
}

TEST(flags_that_need_the_ceiling_need_ctx)
{
    /* The ceiling is unknown for ctx < 1, and 0 for ctx = 1. */
    for (int ctx = -1; ctx <= 1; ctx++) {
        es_judge_run run = small;
        run.ctx = ctx;
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        es_judged_push_all(judged, ES_JUDGE_ENTROPY, 0, 0.0F);
        es_judged_push_all(judged, ES_JUDGE_ENTROPY, 1, 100.0F);
        es_judge_finish(judged->judge);
        assert_int_equal(judged->n, 0);
    }
}

TEST(logits_have_two_levels)
{
    static const struct {
        float largest;
        es_severity severity;
    } cases[] = {
        {99.0F, ES_SEVERITY_NONE},     {100.0F, ES_SEVERITY_NONE},
        {100.5F, ES_SEVERITY_WARNING}, {1000.0F, ES_SEVERITY_WARNING},
        {1000.5F, ES_SEVERITY_ERROR},  {INFINITY, ES_SEVERITY_ERROR},
        {-INFINITY, ES_SEVERITY_NONE}, {NAN, ES_SEVERITY_NONE},
        {-2000.0F, ES_SEVERITY_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[N_VALUES];
        AUTO(es_judged) judged = es_judged_new(small, NULL);
        fill(x, 7.0F);
        x[8] = cases[i].largest;
        es_judge_push(judged->judge, ES_JUDGE_MAX_LOGIT, 4, x, N_VALUES);
        es_judge_finish(judged->judge);
        const es_judged_episode *logits =
            es_judged_only(judged, ES_FLAG_LOGITS);
        assert_int_equal(logits ? logits->said.severity : ES_SEVERITY_NONE,
                         cases[i].severity);
        if (logits) {
            assert_true(logits->said.value == (double)cases[i].largest);
            assert_string_equal(es_judged_list(logits->layers, 2), "1");
            assert_string_equal(es_judged_list(logits->heads, 10), "8");
        }
        assert_int_equal(es_judged_count(judged, ES_FLAG_NAN),
                         !isfinite(cases[i].largest));
    }
}

static void push_clean(es_judged *judged, int64_t step)
{
    const float none[2] = {0.0F, 0.0F}, loss = 2.5F;
    es_judged_push_all(judged, ES_JUDGE_ENTROPY, step, HEALTHY);
    es_judged_push_all(judged, ES_JUDGE_NONFINITE_ROWS, step, 0.0F);
    es_judge_push(judged->judge, ES_JUDGE_NAN_ACTIVATIONS, step, none, 2);
    es_judged_push_all(judged, ES_JUDGE_MAX_LOGIT, step, 9.0F);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, step, &loss, 1);
}

/* Puts one NaN or infinity into each position of each series. */
TEST(a_planted_nan_is_found)
{
    static const size_t sizes[] = {N_VALUES, N_VALUES, 2, N_VALUES, 1};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int series = 0; series < ES_JUDGE_OTHER; series++) {
        for (size_t at = 0; at < sizes[series] * 3; at++) {
            float x[N_VALUES];
            size_t place = at % sizes[series];
            AUTO(es_judged) judged = es_judged_new(small, NULL);
            for (int step = 0; step < 5; step++)
                push_clean(judged, step * 3);
            fill(x, series == ES_JUDGE_ENTROPY ? HEALTHY : 0.0F);
            x[place] = bad[at / sizes[series]];
            es_judge_push(judged->judge, (es_judge_series)series, 15, x,
                          sizes[series]);
            push_clean(judged, 18);
            es_judge_finish(judged->judge);
            const es_judged_episode *nan_flag =
                es_judged_only(judged, ES_FLAG_NAN);
            es_judged_span(nan_flag, 15, 15, true);
            assert_int_equal(nan_flag->said.severity, ES_SEVERITY_CRITICAL);
            assert_true(nan_flag->said.value == 1);
            bool of_heads = sizes[series] == N_VALUES;
            assert_int_equal(nan_flag->heads[place], of_heads);
            size_t layer = of_heads ? place / 5 : place;
            assert_int_equal(nan_flag->layers[layer], series != ES_JUDGE_LOSS);
        }
    }
}

TEST(missing_is_not_nan)
{
    const float none[2] = {es_missing(), es_missing()};
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    for (int series = 0; series < ES_JUDGE_OTHER; series++)
        es_judged_push_all(judged, (es_judge_series)series, 0, es_missing());
    es_judge_push(judged->judge, ES_JUDGE_NAN_ACTIVATIONS, 1, none, 2);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 1, none, 1);
    es_judge_finish(judged->judge);
    assert_int_equal(judged->n, 0);
}

TEST(counts_of_nan_are_added_up)
{
    float x[N_VALUES] = {0, 3, 0, 0, 0, 0, 0, 4, 0, es_missing()};
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    es_judge_push(judged->judge, ES_JUDGE_NONFINITE_ROWS, 5, x, N_VALUES);
    x[1] = 1;
    es_judge_push(judged->judge, ES_JUDGE_NONFINITE_ROWS, 6, x, N_VALUES);
    es_judge_finish(judged->judge);
    const es_judged_episode *nan_flag = es_judged_only(judged, ES_FLAG_NAN);
    es_judged_span(nan_flag, 5, 6, true);
    assert_true(nan_flag->said.value == 7);
    assert_true(nan_flag->said.threshold == 0);
    assert_string_equal(es_judged_list(nan_flag->heads, 10), "1 7");
}

/* An episode of the flag nan ends when the newest sample of every series has
   only finite values. */
TEST(nan_episodes_end_when_all_is_clean)
{
    const float good = 2.0F, bad = NAN;
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 0, &bad, 1);
    es_judged_push_all(judged, ES_JUDGE_NONFINITE_ROWS, 0, 1.0F);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 1, &good, 1);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 2, &bad, 1);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 3, &good, 1);
    assert_int_equal(judged->n, 0);
    es_judged_push_all(judged, ES_JUDGE_NONFINITE_ROWS, 4, 0.0F);
    assert_int_equal(judged->n, 1);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 5, &bad, 1);
    es_judge_finish(judged->judge);
    assert_int_equal(judged->n, 2);
    es_judged_span(&judged->episodes[0], 0, 2, true);
    es_judged_span(&judged->episodes[1], 5, 5, true);
    assert_string_equal(es_judged_list(judged->episodes[1].heads, 10), "");
}

TEST(samples_of_another_size_are_ignored)
{
    float x[N_VALUES + 1];
    for (size_t i = 0; i <= N_VALUES; i++)
        x[i] = NAN;
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 0, x, N_VALUES + 1);
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 0, x, 0);
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 0, x, 1);
    es_judge_push(judged->judge, ES_JUDGE_MAX_LOGIT, 0, x, 2);
    es_judge_push(judged->judge, ES_JUDGE_NONFINITE_ROWS, 0, x, 9);
    es_judge_push(judged->judge, ES_JUDGE_NAN_ACTIVATIONS, 0, x, N_VALUES);
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 0, x, 2);
    es_judge_push(judged->judge, ES_JUDGE_OTHER, 0, x, N_VALUES);
    es_judge_finish(judged->judge);
    assert_int_equal(judged->n, 0);
}

TEST(without_samples_nothing_is_reported)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    es_judge_finish(judged->judge);
    assert_int_equal(judged->n, 0);
}

/* --- announcements --------------------------------------------------------*/

typedef struct announced {
    es_episode episodes[16];
    size_t n;
} announced;

static void listen(void *user, const es_episode *episode)
{
    announced *to = user;
    assert_true(to->n < 16);
    to->episodes[to->n++] = *episode;
}

TEST(an_episode_is_announced_when_it_opens)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    announced heard = {.n = 0};
    es_judge_announce(judged->judge, listen, &heard);
    for (int64_t step = 0; step < 8; step++) {
        es_judged_push_all(judged, ES_JUDGE_ENTROPY, step, 0.001f);
        assert_int_equal(heard.n, step >= 2);
    }
    assert_int_equal(heard.episodes[0].kind, ES_FLAG_COLLAPSE);
    assert_int_equal(heard.episodes[0].onset, 0);
    assert_int_equal(heard.episodes[0].last, 2);
    assert_true(heard.episodes[0].stands);
    /* The first episode ends, and a second one begins. */
    es_judged_push_all(judged, ES_JUDGE_ENTROPY, 8, 0.5f);
    for (int64_t step = 9; step < 12; step++)
        es_judged_push_all(judged, ES_JUDGE_ENTROPY, step, 0.001f);
    assert_int_equal(heard.n, 2);
    assert_int_equal(heard.episodes[1].onset, 9);
    es_judge_finish(judged->judge);
    assert_int_equal(heard.n, 2);
    assert_int_equal(judged->n, 2);
}

TEST(a_rising_severity_is_announced_again)
{
    static const float logits[] = {50, 200, 300, 2000, 200, 3000, 50, 150};
    static const es_severity severities[] = {
        ES_SEVERITY_WARNING, ES_SEVERITY_ERROR, ES_SEVERITY_WARNING};
    static const int64_t onsets[] = {1, 1, 7};
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    announced heard = {.n = 0};
    es_judge_announce(judged->judge, listen, &heard);
    for (int64_t step = 0; step < 8; step++)
        es_judged_push_all(judged, ES_JUDGE_MAX_LOGIT, step, logits[step]);
    assert_int_equal(heard.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(heard.episodes[i].severity, severities[i]);
        assert_int_equal(heard.episodes[i].onset, onsets[i]);
    }
    assert_true(heard.episodes[1].value == 2000 &&
                heard.episodes[1].threshold == 1000);
    es_judge_finish(judged->judge);
}

/* Two low samples are a collapse only if the run has no other samples. */
TEST(a_short_run_is_announced_at_its_end)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    announced heard = {.n = 0};
    es_judge_announce(judged->judge, listen, &heard);
    es_judged_push_all(judged, ES_JUDGE_ENTROPY, 0, 0.001f);
    es_judged_push_all(judged, ES_JUDGE_ENTROPY, 5, 0.001f);
    assert_int_equal(heard.n, 0);
    es_judge_finish(judged->judge);
    assert_int_equal(heard.n, 1);
    assert_int_equal(heard.episodes[0].onset, 0);
}

TEST(workspace_sizes_do_not_overflow)
{
    es_judge_run run = {.n_layers = 0, .n_heads = 4};
    assert_int_equal(es_judge_size(&run), 0);
    run = (es_judge_run){.n_layers = 4, .n_heads = -1};
    assert_int_equal(es_judge_size(&run), 0);
    run = (es_judge_run){.n_layers = INT_MAX, .n_heads = INT_MAX};
    assert_int_equal(es_judge_size(&run), 0);
    run = (es_judge_run){.n_layers = 96, .n_heads = 128};
    assert_true(es_judge_size(&run) > 96 * 128);
    assert_true(es_judge_size(&run) < 1 << 20);
}

TEST(each_flag_has_its_name)
{
    static const char *const series[] = {
        "entropy", "nonfinite_rows", "nan_activations", "max_logit", "loss"};
    for (int i = 0; i < ES_JUDGE_OTHER; i++)
        assert_int_equal(es_judge_series_of(series[i]), i);
    assert_int_equal(es_judge_series_of("entropy_min"), ES_JUDGE_OTHER);
    assert_int_equal(es_judge_series_of(""), ES_JUDGE_OTHER);
    assert_string_equal(es_flag_name(ES_FLAG_COLLAPSE), "collapse");
    assert_string_equal(es_flag_name(ES_FLAG_LOGITS), "logits");
    assert_string_equal(es_severity_name(ES_SEVERITY_CRITICAL), "critical");
    assert_string_equal(es_severity_name(ES_SEVERITY_NONE), "none");
}
