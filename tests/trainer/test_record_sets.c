/* Tests which series are written by --record core, standard and all, and at
 * which steps. Also tests that recording does not change any bit of the trained
 * model. */
#include "analyzer/heads/details.h"
#include "hooks/trainer/trainer.h"
#include "tests/support/test.h"
#include "tests/support/training.h"

enum { L = 2, H = 3, STEPS = 23 };

static es_settings settings_of(const char *arch, es_family family,
                               es_series_set set)
{
    es_settings s = training_small();
    es_assert_ok(es_arch_parse(&s.model.arch, arch));
    s.model.family = family;
    s.train.steps = STEPS;
    s.record_every = 2;
    s.record = set;
    return s;
}

static bool has(const char *name, es_phase phase)
{
    es_series series;
    return es_reader_find(training_reader(), 0, name, phase, &series) ==
               ES_OK &&
           series.last_step != ES_UNKNOWN;
}

static bool is_of_another(const char *arch, es_detail detail)
{
    const bool named = detail >= ES_DETAIL_SIGMA_Q;
    if (detail == ES_DETAIL_RANGE_ATTN)
        return !strstr(arch, "PSM");
    if (detail == ES_DETAIL_RANGE_NORM)
        return !strstr(arch, "LN");
    return named && !strstr(arch, detail < ES_DETAIL_G_Q ? "SNorm" : "WNorm");
}

static void check_set(const char *arch, es_series_set set)
{
    training_seen seen = {0};
    training_record(&seen, settings_of(arch, ES_FAMILY_GPT2, set));
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (es_head_series_exists((es_head_series)i, strstr(arch, "PSM")
                                                         ? ES_POWER_SOFTMAX
                                                         : ES_SOFTMAX))
            for (int phase = ES_PHASE_TRAIN; phase <= ES_PHASE_EVAL; phase++)
                if (has(es_head_statistics[i].name, (es_phase)phase) !=
                    (es_head_statistics[i].set <= set))
                    fail_msg("%s: %s", arch, es_head_statistics[i].name);
    for (int i = 0; i < ES_N_DETAILS; i++) {
        const es_detail_line *line = &es_details[i];
        const bool wanted = line->set <= set &&
                            line->source != ES_DETAIL_POLYNOMIAL &&
                            !is_of_another(arch, (es_detail)i);
        const bool evaluated = wanted && line->source <= ES_DETAIL_INPUTS;
        if (has(line->name, ES_PHASE_TRAIN) != wanted ||
            has(line->name, ES_PHASE_EVAL) != evaluated)
            fail_msg("%s: series %s should %sexist", arch, line->name,
                     wanted ? "" : "not ");
    }
}

TEST(each_set_includes_the_smaller_sets)
{
    check_set("SM+LN+G", ES_SERIES_CORE);
    check_set("SM+LN+G", ES_SERIES_STANDARD);
    check_set("SM+LN+G+SNorm(QKVO,FFN)", ES_SERIES_STANDARD);
    check_set("PSM(4)+GS", ES_SERIES_STANDARD);
    check_set("SM+R+WNorm(QKVO,FFN)", ES_SERIES_ALL);
}

/* With a range loss, even the core set includes the range loss and all
 * ranges. */
TEST(a_range_loss_records_its_term_and_all_ranges)
{
    training_seen seen = {0};
    es_settings settings =
        settings_of("PSM(4)+LN+G", ES_FAMILY_GPT2, ES_SERIES_CORE);
    static const char *const names[] = {"range", "range_attn", "range_act",
                                        "range_norm"};
    training_record(&seen, settings);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(has(names[i], ES_PHASE_TRAIN));
    settings.model.range_weight[ES_RANGE_ACT] = 1e-2;
    seen = (training_seen){0};
    training_record(&seen, settings);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int phase = ES_PHASE_TRAIN; phase <= ES_PHASE_EVAL; phase++)
            if (!has(names[i], (es_phase)phase))
                fail_msg("no %s", names[i]);
}

TEST(the_run_records_its_set)
{
    training_seen seen = {0};
    training_record(&seen,
                    settings_of("SM+R", ES_FAMILY_GPT2, ES_SERIES_STANDARD));
    assert_non_null(strstr(training_info().config, "\"record\":\"standard\""));
}

TEST(weights_and_updates_are_taken_at_every_tenth_record)
{
    static const int64_t tenth[] = {0, 20, 22};
    static const int64_t each[] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22};
    training_seen seen = {0};
    training_record(&seen,
                    settings_of("SM+LN+G", ES_FAMILY_GPT2, ES_SERIES_ALL));
    training_assert_steps("qk_sigma", ES_PHASE_TRAIN, tenth, 3);
    training_assert_steps("update_ratio", ES_PHASE_TRAIN, tenth, 3);
    training_assert_steps("head_grad_norm", ES_PHASE_TRAIN, each, 12);
    training_assert_steps("q_rms", ES_PHASE_TRAIN, tenth, 3);
    training_assert_steps("act_max", ES_PHASE_TRAIN, each, 12);
}

static void expect_same_weights(es_model *a, es_model *b)
{
    for (size_t i = 0; i < es_model_n_arrays(a); i++) {
        const size_t n = es_model_parameter(a, i).n;
        AUTO_FREE float *x = calloc(n, sizeof *x);
        AUTO_FREE float *y = calloc(n, sizeof *y);
        es_assert_ok(es_model_get(a, i, x, n));
        es_assert_ok(es_model_get(b, i, y, n));
        assert_memory_equal(x, y, n * sizeof *x);
    }
}

static void check_bits(const char *arch, es_family family, int d_model,
                       es_precision precision)
{
    es_settings s = settings_of(arch, family, ES_SERIES_CORE);
    es_trainer *plain = NULL, *measured = NULL;
    s.model.d_model = d_model;
    s.precision = precision;
    snprintf(s.backend, sizeof s.backend, "cpu");
    s.train.accumulate = 2;
    s.train.clip = 0.1;
    es_assert_ok(es_trainer_new(&plain, &s));
    s.record = ES_SERIES_ALL;
    es_assert_ok(es_trainer_new(&measured, &s));
    for (int64_t step = 0; step < 4; step++) {
        es_step one, other;
        es_losses losses;
        es_assert_ok(es_trainer_step(plain, &one, step, false));
        es_assert_ok(es_trainer_step(measured, &other, step, true));
        assert_memory_equal(&one.losses, &other.losses, sizeof one.losses);
        assert_true(one.grad_norm == other.grad_norm);
        es_assert_ok(es_trainer_evaluate(measured, &losses));
    }
    expect_same_weights(plain->model, measured->model);
    es_trainer_free(plain);
    es_trainer_free(measured);
}

TEST(measuring_everything_changes_no_bit_of_a_training)
{
    check_bits("SM+LN+G", ES_FAMILY_GPT2, 12, ES_FP32);
    check_bits("SM+LN+G", ES_FAMILY_PYTHIA, 12, ES_FP32);
    check_bits("EReg(SM(t)+ScFFN)", ES_FAMILY_PYTHIA, 48, ES_FP32);
    check_bits("PSM(2)+R+SNorm(QK,FFN)", ES_FAMILY_GPT2, 48, ES_FP32);
    check_bits("SM+LN+G", ES_FAMILY_GPT2, 48, ES_BF16);
}

TEST_GROUP(training_set_up, training_tear_down)
