/* Tests --where, which selects runs, and --sort, which orders them. */
#include "cli/scan/where.h"
#include "tests/support/test.h"

static char *text(const char *literal)
{
    return (char *)(uintptr_t)literal;
}

static es_flag collapse = {
    .kind = ES_FLAG_COLLAPSE, .severity = ES_SEVERITY_CRITICAL, .stands = true};
static es_flag past = {
    .kind = ES_FLAG_LOGITS, .severity = ES_SEVERITY_ERROR, .stands = false};

static es_run_summary run_of(const char *arch, float eval_ppl, es_flag *flag)
{
    return (es_run_summary){.path = text("sweep/a b.db"),
                            .name = text("seed 3"),
                            .arch = text(arch),
                            .status = "finished",
                            .n_layer = 5,
                            .n_head = 7,
                            .ctx = ES_UNKNOWN,
                            .d_model = ES_UNKNOWN,
                            .seed = 3,
                            .planned_steps = 50,
                            .step = 40,
                            .last_step = 45,
                            .loss = 2.5f,
                            .ppl = 12,
                            .eval_loss = NAN,
                            .eval_ppl = eval_ppl,
                            .peak = 2,
                            .judged = true,
                            .flags = flag,
                            .n_flags = flag ? 1 : 0};
}

/* Checks conditions, which are separated by bars. If `wanted` is true, every
   condition must hold for the run; otherwise, none may hold. */
static void assert_each(const es_run_summary *run, bool wanted,
                        const char *conditions)
{
    for (const char *end; *conditions; conditions = end + (*end != '\0')) {
        char where[128];
        es_where parsed = {.n = 0};
        end = conditions + strcspn(conditions, "|");
        snprintf(where, sizeof where, "%.*s", (int)(end - conditions),
                 conditions);
        assert_int_equal(es_where_parse(&parsed, where), ES_OK);
        if (es_where_holds(&parsed, run) != wanted)
            fail_msg("%s is %s", where, wanted ? "false" : "true");
    }
}

TEST(texts_are_matched_by_patterns)
{
    es_run_summary run = run_of("SM+LN+G", 9, NULL);
    assert_each(&run, true,
                "|arch=SM+LN+G|arch=SM*|arch!=SM|arch=*+?|run=seed*|"
                "status=f*|path=sweep/*");
    assert_each(&run, false, "arch=SM|phase=eval");
    run.arch = NULL;
    assert_each(&run, true, "arch=");
    assert_each(&run, false, "arch=SM*");
}

TEST(numbers_are_compared)
{
    es_run_summary run = run_of("SM", 9.5f, NULL);
    assert_each(&run, true,
                "eval_ppl<9.6|eval_ppl<=9.5|eval_ppl>=9.5|layers=5 heads=7|"
                "seed=3 planned_steps>45|d_model!=0 family=|"
                " step=40\tlast_step!=40 ");
    assert_each(&run, false,
                "eval_ppl<9.5|eval_ppl>9.5|layers=7|d_model>0|loss>2 ppl<12");
}

/* NaN and missing values must not count as above, below or equal to a
   number. */
TEST(nan_and_missing_satisfy_only_inequality)
{
    es_run_summary run = run_of("SM", NAN, NULL);
    for (int i = 0; i < 2; i++) {
        assert_each(&run, true, "eval_ppl!=0");
        assert_each(&run, false, "eval_ppl<1e30|eval_ppl>=0|eval_ppl=0");
        run.eval_ppl = es_missing();
    }
    assert_each(&run, false, "ctx=0|ctx<1000|balanced<=1");
}

TEST(only_active_flags_match)
{
    es_run_summary run = run_of("SM", 9, &collapse);
    assert_each(&run, true,
                "flag=collapse|flag=c*|severity>=3|severity=critical");
    assert_each(&run, false,
                "flag=nan|flag=ok|flag!=collapse|severity>critical|"
                "severity=none");
    run = run_of("SM", 9, &past);
    assert_each(&run, true, "flag=ok|severity=0");
    assert_each(&run, false, "flag=logits");
    run.judged = false;
    assert_each(&run, false, "flag=ok|severity=0");
}

TEST(conditions_know_if_they_need_judging)
{
    es_where where = {.n = 0};
    assert_int_equal(es_where_parse(&where, "arch=SM"), ES_OK);
    assert_false(es_where_judges(&where));
    assert_int_equal(es_where_parse(&where, "flag=nan"), ES_OK);
    assert_int_equal(where.n, 2);
    assert_true(es_where_judges(&where));
}

TEST(malformed_conditions_are_named)
{
    static const char *const wrong[][2] = {
        {"arch", "arch=SM*"},
        {"arch==SM", "did you mean arch=SM?"},
        {"eval_ppl<low", "is not a number"},
        {"arch<SM", "is a text"},
        {"=3", "fields are flag"},
        {"step=", "is not a number"},
        {"severity=bad", "or severity (none,"},
        {"step=critical", "is not a number"},
        {"lr<low", "is not a number"},
        {"config.=1", "such as config.gamma"},
        {"lr=<1", "did you mean lr<=1?"},
        {"lr=!1", "relations are"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        es_where where = {.n = 0};
        assert_int_equal(es_where_parse(&where, wrong[i][0]), ES_EUSAGE);
        assert_non_null(strstr(es_message(), wrong[i][1]));
        assert_int_equal(where.n, 0);
    }
    char longest[ES_WHERE_TEXT + 8];
    es_where where = {.n = 0};
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "run=", 4);
    longest[4 + ES_WHERE_TEXT - 1] = '\0';
    assert_int_equal(es_where_parse(&where, longest), ES_OK);
    longest[4 + ES_WHERE_TEXT - 1] = 'x';
    longest[4 + ES_WHERE_TEXT] = '\0';
    assert_int_equal(es_where_parse(&where, longest), ES_EUSAGE);
    for (int i = 1; i < ES_WHERE_MOST; i++)
        assert_int_equal(es_where_parse(&where, "step>1"), ES_OK);
    assert_int_equal(es_where_parse(&where, "step>1"), ES_EUSAGE);
}

TEST(nan_comes_last_in_both_directions)
{
    es_run_summary low = run_of("SM", 3, &collapse);
    es_run_summary high = run_of("SM+G", 7, NULL);
    es_run_summary none = run_of("SM", NAN, NULL);
    es_order order = {.given = false};
    assert_int_equal(es_order_compare(&order, &low, &high), 0);
    assert_int_equal(es_order_parse(&order, "eval_ppl"), ES_OK);
    assert_true(es_order_compare(&order, &low, &high) < 0);
    assert_true(es_order_compare(&order, &high, &none) < 0);
    assert_true(es_order_compare(&order, &none, &low) > 0);
    assert_int_equal(es_order_compare(&order, &none, &none), 0);
    assert_int_equal(es_order_parse(&order, "-eval_ppl"), ES_OK);
    assert_true(es_order_compare(&order, &low, &high) > 0);
    assert_true(es_order_compare(&order, &high, &none) < 0);
    assert_true(es_order_compare(&order, &none, &low) > 0);
    assert_int_equal(es_order_parse(&order, "arch"), ES_OK);
    assert_true(es_order_compare(&order, &low, &high) < 0);
    assert_int_equal(es_order_parse(&order, "-flag"), ES_OK);
    assert_true(es_order_compare(&order, &low, &high) < 0);
}

/* Numbers come first, sorted by value. Text follows, then members that are NaN
   or missing. */
TEST(runs_are_sorted_by_a_member_of_the_configuration)
{
    enum { N = 6 };
    es_run_setting settings[N - 1] = {
        {(char[]){"gamma"}, (char[]){"\"auto\""}, ES_CONFIG_TEXT, NAN, 0},
        {(char[]){"gamma"}, (char[]){"1e-1"}, ES_CONFIG_NUMBER, 0.1, 0},
        {(char[]){"gamma"}, (char[]){"NaN"}, ES_CONFIG_TEXT, NAN, 0},
        {(char[]){"gamma"}, (char[]){"0.02"}, ES_CONFIG_NUMBER, 0.02, 0},
        {(char[]){"gamma"}, (char[]){"null"}, ES_CONFIG_NULL, NAN, 0}};
    static const int up[N] = {2, 1, 3, 0, 3, 3}, down[N] = {2, 0, 3, 1, 3, 3};
    es_run_summary runs[N] = {0};
    es_order order;
    for (size_t i = 0; i < N - 1; i++)
        runs[i].settings = (es_run_settings){.list = &settings[i], .n = 1};
    for (int falling = 0; falling < 2; falling++) {
        const int *places = falling ? down : up;
        es_assert_ok(
            es_order_parse(&order, falling ? "-config.gamma" : "config.gamma"));
        for (size_t i = 0; i < N; i++)
            for (size_t k = 0; k < N; k++) {
                int sign = es_order_compare(&order, &runs[i], &runs[k]);
                assert_int_equal((sign > 0) - (sign < 0),
                                 (places[i] > places[k]) -
                                     (places[i] < places[k]));
            }
    }
    es_assert_status(ES_EUSAGE, "expected a member of the configuration",
                     es_order_parse(&order, "-config."));
}

static es_run_setting members[] = {
    {(char[]){"device"}, (char[]){"cuda:0"}, ES_CONFIG_TEXT, NAN, 0},
    {(char[]){"lr"}, (char[]){"1e-3"}, ES_CONFIG_NUMBER, 1e-3, 0},
    {(char[]){"seed"}, (char[]){"9"}, ES_CONFIG_NUMBER, 9, 0},
    {(char[]){"tied"}, (char[]){"true"}, ES_CONFIG_BOOLEAN, NAN, 0}};

/* The run's own seed is 3: a field takes precedence over a member with the same
   name. */
TEST(members_of_the_configuration_are_compared)
{
    es_run_summary run = run_of("SM", 9, NULL);
    run.settings = (es_run_settings){.list = members, .n = 4};
    assert_each(&run, true,
                "lr<0.01|lr=0.001|config.lr>=1e-3 lr<=1e-3|lr!=2|lr=1e-*|"
                "device=cuda*|device!=cpu|tied=true|seed=3|config.seed=9|"
                "absent!=1|config.absent!=x");
    assert_each(&run, false,
                "lr>0.001|lr=0.002|device<1|device=cpu|tied=false|seed=9|"
                "config.seed=3|absent=1|absent<1|absent=");
    es_where where = {.n = 0};
    es_assert_ok(es_where_parse(&where, "seed=3"));
    assert_false(es_where_reads(&where));
    es_assert_ok(es_where_parse(&where, "config.seed=3"));
    assert_true(es_where_reads(&where));
}

TEST(a_member_that_no_run_has_is_named)
{
    es_run_summary runs[2] = {run_of("SM", 9, NULL), run_of("SM", 9, NULL)};
    es_where where = {.n = 0};
    es_order order = {.given = false};
    es_members_seen seen = {.n = 0};
    runs[1].settings = (es_run_settings){.list = members, .n = 4};
    es_assert_ok(es_where_parse(&where, "lr<1 eval_ppl<20"));
    es_assert_ok(es_members_check(&seen, &where, &order));
    es_members_see(&seen, &where, &order, &runs[0]);
    es_assert_status(
        ES_EUSAGE,
        "--where 'lr': neither a field nor a member of any run's configuration",
        es_members_check(&seen, &where, &order));
    es_members_see(&seen, &where, &order, &runs[1]);
    es_assert_ok(es_members_check(&seen, &where, &order));
    es_assert_ok(es_order_parse(&order, "-config.gama"));
    es_assert_status(ES_ENOTFOUND, "--sort config.gama: no run has this member",
                     es_members_check(&seen, &where, &order));
    es_assert_ok(es_order_parse(&order, "tied"));
    es_members_see(&seen, &where, &order, &runs[1]);
    es_assert_ok(es_members_check(&seen, &where, &order));
}

static es_run_setting nested[] = {
    {(char[]){"data.lr"}, (char[]){"5"}, ES_CONFIG_NUMBER, 5, 0},
    {(char[]){"lr"}, (char[]){"1e-3"}, ES_CONFIG_NUMBER, 1e-3, 0},
    {(char[]){"optimizer.adam.lr"}, (char[]){"0.2"}, ES_CONFIG_NUMBER, 0.2, 0},
    {(char[]){"optimizer.xlr"}, (char[]){"7"}, ES_CONFIG_NUMBER, 7, 0}};

TEST(a_nested_member_is_found_by_its_own_name)
{
    es_run_summary run = run_of("SM", 9, NULL);
    run.settings = (es_run_settings){.list = nested + 2, .n = 2};
    assert_each(&run, true,
                "lr=0.2|config.lr<1|adam.lr=0.2|optimizer.adam.lr=0.2");
    assert_each(&run, false, "lr=7|optimizer.lr=0.2|optimizer=0.2");
    run.settings = (es_run_settings){.list = nested, .n = 4};
    assert_each(&run, true, "lr=0.001|data.lr=5");
}

TEST(two_nested_members_of_one_name_are_ambiguous)
{
    es_run_summary runs[3] = {run_of("SM", 9, NULL), run_of("SM", 9, NULL),
                              run_of("SM", 9, NULL)};
    es_where where = {.n = 0};
    const es_order order = {.given = false};
    es_members_seen seen = {.n = 0};
    runs[0].settings = (es_run_settings){.list = nested, .n = 4};
    runs[1].settings = (es_run_settings){.list = nested, .n = 1};
    runs[2].settings = (es_run_settings){.list = nested + 2, .n = 2};
    es_assert_ok(es_where_parse(&where, "lr<1"));
    es_members_see(&seen, &where, &order, &runs[0]);
    es_members_see(&seen, &where, &order, &runs[1]);
    es_members_see(&seen, &where, &order, &runs[1]);
    es_assert_ok(es_members_check(&seen, &where, &order));
    es_members_see(&seen, &where, &order, &runs[2]);
    es_assert_status(
        ES_EUSAGE,
        "--where 'lr': ambiguous: did you mean data.lr or optimizer.adam.lr?",
        es_members_check(&seen, &where, &order));
}
