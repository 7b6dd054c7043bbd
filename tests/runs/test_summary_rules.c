/** Tests rules of a rules file on finished and growing runs. */
#include "cli/runs/summary.h"
#include "tests/support/chance.h"
#include "tests/support/judged.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

#define L 3
#define H 2
#define N_STEPS 40
#define N_RULES 4

static es_status load(es_run_summary **out, const char *path,
                      const es_rules_file *rules)
{
    es_summary_options options;
    es_summary_options_default(&options);
    options.rules = rules;
    es_reader *reader = es_open_reader(path);
    es_status status = es_summary_load(out, reader, 0, &options);
    es_reader_close(reader);
    return status;
}

static es_rules_file rules_of(const char *text)
{
    es_rules_file rules;
    es_assert_ok(es_rules_file_parse(&rules, "r.ini", text, strlen(text)));
    return rules;
}

static void assert_says(const es_run_summary *summary, const char *expected)
{
    char said[256];
    es_summary_print_flags(said, sizeof said, summary);
    assert_string_equal(said, expected);
}

/* Writes a run with a context length. At steps 0, 10, ..., 90 all entropies are
   1, except those of layer 1, which are `low` from step 60 on. The run also has
   a loss at every step and an evaluation loss at step 50. */
static char *write_run(void **state, const char *name, float low)
{
    char *path = es_folder_file(state, name);
    const float eval = 9;
    es_run_info info = es_run_of(L, H);
    info.ctx = 128;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 100; step++) {
        float x[L * H] = {1, 1, 1, 1, 1, 1};
        if (step >= 60)
            x[2] = x[3] = low;
        if (step % 10 == 0)
            es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, x, L * H);
        es_record_value(&to, "loss", step, step == 30 ? 8 : 2);
        if (step == 50)
            es_record_sample(&to, "loss", ES_PHASE_EVAL, step, &eval, 1);
    }
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    return path;
}

static void assert_flag(const es_flag *flag, const char *title, int64_t onset,
                        int64_t last, bool stands)
{
    assert_string_equal(es_flag_title(flag), title);
    assert_int_equal(flag->onset, onset);
    assert_int_equal(flag->last, last);
    assert_int_equal(flag->stands, stands);
}

TEST(rules_are_listed_among_the_flags)
{
    char *path = write_run(state, "among.db", 0.5F);
    AUTO(es_run_summary) summary;
    AUTO_BY(es_rules_file_free)
    es_rules_file rules = rules_of("[rule fades]\nseries=entropy\n"
                                   "aggregate=layer_mean\n"
                                   "below=0.7 history\nseverity=error\n"
                                   "[rule spike]\nseries=loss\naggregate=run\n"
                                   "above=3\nseverity=critical\n"
                                   "[rule held-out]\nseries=loss\n"
                                   "phase=eval\naggregate=run\nabove=3\n"
                                   "[rule absent]\nseries=theta\nabove=3\n");
    es_assert_ok(load(&summary, path, &rules));
    assert_int_equal(summary->n_flags, 3);
    assert_flag(&summary->flags[0], "spike", 30, 30, false);
    assert_flag(&summary->flags[1], "held-out", 50, 50, true);
    assert_flag(&summary->flags[2], "fades", 60, 90, true);
    assert_int_equal(summary->flags[2].n_layers, 1);
    assert_int_equal(summary->flags[2].layers[0], 1);
    assert_says(summary, "fades L1 (error); held-out (warning)");
    assert_true(es_summary_alarms(summary));
    es_summary_free(summary);
    es_assert_ok(load(&summary, path, NULL));
    assert_says(summary, "ok");
}

/* With other thresholds, the low entropy of layer 1 counts as a collapse. */
TEST(a_rules_file_sets_the_thresholds_of_flags)
{
    char *path = write_run(state, "own.db", 0.5F);
    AUTO(es_run_summary) summary;
    AUTO_BY(es_rules_file_free)
    es_rules_file rules = rules_of("[collapse]\nhead = 0.2\n");
    es_assert_ok(load(&summary, path, &rules));
    assert_says(summary, "collapse L1 (critical)");
    assert_flag(&summary->flags[0], "collapse", 60, 90, true);
}

TEST(a_rule_compares_with_a_baseline)
{
    char text[512];
    char *baseline = write_run(state, "baseline.db", 1);
    char *path = write_run(state, "compared.db", 0.5F);
    AUTO(es_run_summary) summary;
    snprintf(text, sizeof text,
             "[rule lower]\nseries=entropy\nbelow=0.6 baseline\n"
             "[baseline]\nrun=%s\n",
             baseline);
    AUTO_BY(es_rules_file_free) es_rules_file rules = rules_of(text);
    es_assert_ok(load(&summary, path, &rules));
    assert_int_equal(summary->n_flags, 1);
    assert_flag(&summary->flags[0], "lower", 60, 90, true);
    assert_int_equal(summary->flags[0].n_heads, 2);
    assert_int_equal(summary->flags[0].heads[1], 3);
    assert_true(summary->flags[0].value == 0.5);
    es_summary_free(summary);
    es_assert_ok(load(&summary, baseline, &rules)); /* the baseline compared
                                                       with itself */
    assert_says(summary, "ok");
}

TEST(invalid_rules_are_reported)
{
    char text[512];
    char *path = write_run(state, "wrong.db", 1);
    char *other = es_folder_file(state, "other.db");
    es_run_summary *summary = NULL;
    es_run_info info = es_run_of(5, 1);
    es_recorded to = es_record(other, &info);
    es_record_all(&to, "entropy", 10, 1);
    es_record_close(&to);
    snprintf(text, sizeof text,
             "[rule a]\nseries=entropy\nabove=3 baseline\n"
             "[baseline]\nrun=%s\n",
             other);
    const struct {
        const char *text, *message;
        es_status status;
    } cases[] = {
        {"[rule a]\nseries=loss\nabove=3\n",
         "rule a: aggregate head does not fit loss, which has 1", ES_EUSAGE},
        {text, "cannot be the baseline of this run: its entropy has 5",
         ES_EUSAGE},
        {"[baseline]\nrun=none.db\n", "none.db", ES_EIO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_BY(es_rules_file_free)
        es_rules_file rules = rules_of(cases[i].text);
        es_assert_status(cases[i].status, cases[i].message,
                         load(&summary, path, &rules));
    }
    assert_null(summary);
}

/* --- a growing file -------------------------------------------------------*/

static float random_value(void)
{
    static const float levels[] = {0.5F, 1, 1, 1, 2, 30};
    uint32_t kind = chance_below(20);
    return kind == 0 ? NAN : kind == 1 ? es_missing() : levels[chance_below(6)];
}

static void draw_rules(es_rule *rules)
{
    for (size_t i = 0; i < N_RULES; i++) {
        rules[i] = es_rule_on("entropy", (es_rule_aggregate)chance_below(5),
                              (es_rule_comparison)chance_below(4), 1.25);
        snprintf(rules[i].name, sizeof rules[i].name, "r%zu", i);
        rules[i].samples = 1 + chance_below(3);
        rules[i].cool_down = chance_below(4);
        rules[i].warm_up_end = chance_below(2) ? 5 : 0;
        if (chance_below(3) == 0)
            rules[i].reference = ES_RULE_HISTORY;
    }
}

/* Pushes the samples from step `from` on; returns the step after the last
   sample. */
static int64_t push_new(es_ruled *ruled, es_reader *reader, int64_t from)
{
    es_series series;
    es_cursor *cursor;
    const float *values;
    int64_t step;
    es_assert_ok(es_reader_refresh(reader));
    es_assert_ok(es_reader_find(reader, 0, "entropy", ES_PHASE_TRAIN, &series));
    es_assert_ok(es_cursor_open(&cursor, reader, &series, from, ES_STEP_LAST));
    es_status status;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        es_rules_push(ruled->rules, "entropy", false, step, values,
                      series.n_values);
        from = step + 1;
    }
    assert_int_equal(status, ES_DONE);
    es_cursor_close(cursor);
    return from;
}

static int by_rule(const void *a, const void *b)
{
    const es_judged_episode *x = a, *y = b;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    return (x->said.onset > y->said.onset) - (x->said.onset < y->said.onset);
}

static void assert_same_as_finished(es_ruled *ruled, const char *path,
                                    const es_rules_file *rules)
{
    AUTO(es_run_summary) summary;
    size_t n = 0;
    es_assert_ok(load(&summary, path, rules));
    qsort(ruled->episodes, ruled->n, sizeof *ruled->episodes, by_rule);
    for (size_t r = 0; r < rules->n; r++) {
        for (size_t i = 0; i < summary->n_flags; i++) {
            const es_flag *flag = &summary->flags[i];
            if (flag->rule != &rules->rules[r])
                continue;
            assert_true(n < ruled->n);
            const es_episode *said = &ruled->episodes[n].said;
            assert_int_equal(ruled->episodes[n].rule, r);
            assert_flag(flag, rules->rules[r].name, said->onset, said->last,
                        said->stands);
            assert_true(flag->value == said->value);
            for (size_t h = 0; h < flag->n_heads; h++)
                assert_int_equal(ruled->episodes[n].heads[flag->heads[h]], 1);
            n++;
        }
    }
    assert_int_equal(n, ruled->n);
}

/* Evaluates the flags and rules of a file repeatedly while it is written.
   Between two readings, a random number of samples is added (one, several, or
   all that remain). Returns the number of episodes. */
static size_t follow_one(void **state, uint64_t seed)
{
    char name[32];
    es_rule rules[N_RULES];
    const es_rules_file file = {.rules = rules, .n = N_RULES};
    es_rules_file with_flags = file;
    es_run_info info = es_run_of(L, H);
    es_reader *reader = NULL;
    int64_t from = 0;
    chance_seed(seed);
    es_flag_rules_default(&with_flags.flags);
    draw_rules(rules);
    snprintf(name, sizeof name, "grow%d.db", (int)seed);
    char path[512];
    snprintf(path, sizeof path, "%s", es_folder_file(state, name));
    es_ruled *ruled = es_ruled_new((es_judge_run){.n_layers = L, .n_heads = H},
                                   rules, N_RULES);
    es_recorded to = es_record(path, &info);
    uint32_t rhythm = 1 + chance_below(N_STEPS);
    for (int64_t step = 0; step < N_STEPS; step++) {
        float x[L * H];
        for (size_t i = 0; i < L * H; i++)
            x[i] = random_value();
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, x, L * H);
        if (!reader)
            es_assert_ok(es_reader_open(&reader, path));
        if (chance_below(rhythm) == 0)
            from = push_new(ruled, reader, from);
    }
    (void)push_new(ruled, reader, from);
    es_reader_close(reader);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    es_rules_finish(ruled->rules);
    assert_same_as_finished(ruled, path, &with_flags);
    size_t n = ruled->n;
    es_ruled_free(ruled);
    return n;
}

static uint64_t seed_now; /* 0: none yet */

/* Prints the seed if a test failed. */
static int clean(void **state)
{
    if (seed_now)
        print_message("last seed: ES_SEED=%llu\n",
                      (unsigned long long)seed_now);
    return es_folder_remove(state);
}

TEST(a_growing_file_gives_the_same_episodes)
{
    const char *only = getenv("ES_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, n = 0;
    for (seed_now = first; seed_now < first + (only ? 1 : 40); seed_now++)
        n += follow_one(state, seed_now);
    seed_now--;
    assert_true(only || n > 100);
}

TEST_EACH(es_folder_make, clean)
