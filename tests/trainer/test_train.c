/* Tests the results of the training loop and the run file that it records. */
#include "analyzer/heads/bands.h"
#include "tests/support/test.h"
#include "tests/support/training.h"

/* --- the numbers --------------------------------------------------------- */

TEST(the_same_seed_gives_the_same_bits)
{
    es_settings s = training_small();
    s.threads = 2;
    training_seen first = {0}, again = {0}, other = {0};
    es_train_result result = training_run(&first, &s);
    training_run(&again, &s);
    assert_int_equal(result.status, ES_RUN_FINISHED);
    assert_int_equal(first.n_steps, 23);
    assert_memory_equal(&first, &again, sizeof first);
    s.model.seed = 8;
    training_run(&other, &s);
    assert_memory_not_equal(first.loss, other.loss, sizeof first.loss);
}

TEST(recording_changes_no_bit)
{
    es_settings s = training_small();
    s.threads = 2;
    s.record_every = 1;
    training_seen without = {0}, with = {0};
    training_run(&without, &s);
    es_train_result result = training_record(&with, s);
    assert_int_equal(result.recorded, ES_OK);
    assert_int_equal(with.n_warnings, 0);
    assert_true(with.measured[3] && !without.measured[3]);
    assert_memory_equal(without.loss, with.loss, sizeof with.loss);
    assert_memory_equal(without.norm, with.norm, sizeof with.norm);
    assert_memory_equal(without.eval, with.eval, sizeof with.eval);
}

TEST(a_learnable_pattern_is_learnt)
{
    es_settings s = training_small();
    s.train.steps = 300;
    s.train.lr = 1e-2;
    s.eval_every = 100;
    training_seen out = {0};
    es_train_result result = training_run(&out, &s);
    assert_true(fabs(out.loss[0] - log(TRAINING_VOCAB)) < 0.1);
    /* The tokens have period 5, except that one token in 31 is random. A model
     * that learns the period has a loss far below ln 5, the entropy of single
     * tokens. */
    assert_true(result.last.loss < 0.8);
    assert_true(result.eval.ce < 0.8);
    assert_int_equal(out.n_evals, 4);
    assert_int_equal(out.eval_step[3], 300);
    assert_true(out.eval[3] == result.eval.ce);
}

TEST(held_out_data_is_held_out)
{
    es_settings s = training_small();
    s.train.steps = 100;
    s.train.lr = 1e-2;
    training_seen out = {0};
    training_write_data(1);
    es_train_result result = training_run(&out, &s);
    training_write_data(0);
    /* The held-out tokens follow a different rule than the training tokens. The
     * training loss must be small, whereas the held-out loss must exceed that
     * of a random guess. */
    assert_true(result.last.loss < 1.5);
    assert_true(result.eval.ce > log(TRAINING_VOCAB));
}

TEST(a_step_is_the_mean_of_its_micro_batches)
{
    es_settings s = training_small();
    s.train.lr = 0; /* so that all batches use the same parameters */
    s.train.steps = 12;
    s.eval_every = 1;
    training_seen single = {0}, threefold = {0};
    training_run(&single, &s);
    s.train.steps = 4;
    s.train.accumulate = 3;
    training_run(&threefold, &s);
    for (int i = 0; i < 4; i++) {
        double mean = (single.loss[3 * i] + single.loss[3 * i + 1] +
                       single.loss[3 * i + 2]) /
                      3;
        assert_true(fabs(threefold.loss[i] - mean) <= 1e-12 * mean);
        assert_true(threefold.norm[i] > 0);
        /* The norm of the mean of several gradients is at most the largest of
         * their norms. */
        assert_true(threefold.norm[i] <=
                    1.0001 *
                        fmax(single.norm[3 * i], fmax(single.norm[3 * i + 1],
                                                      single.norm[3 * i + 2])));
    }
    assert_true(single.loss[0] != single.loss[1]);
    assert_true(single.eval[0] == single.eval[12]);
}

TEST(the_schedule_is_followed)
{
    es_settings s = training_small();
    training_seen out = {0};
    training_run(&out, &s);
    for (int i = 0; i < out.n_steps; i++)
        assert_true(out.lr[i] == es_schedule(&s.train, i));
    assert_true(out.lr[22] < out.lr[10]);
}

/* --- the record ---------------------------------------------------------- */

TEST(the_promised_steps_are_recorded)
{
    const int64_t train_steps[] = {0, 4, 8, 12, 16, 20, 22};
    const int64_t eval_steps[] = {0, 10, 20, 23};
    static const char *const both[] = {"entropy",
                                       "entropy_min",
                                       "entropy_max",
                                       "nonfinite_rows",
                                       "nonfinite_weights",
                                       "max_logit",
                                       "sink",
                                       "nan_activations",
                                       "act_rms",
                                       "distance",
                                       "top",
                                       "loss",
                                       "ce"};
    static const char *const train_only[] = {"lr", "grad_norm", "tokens_per_s"};
    training_seen out = {0};
    training_record(&out, training_small());
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        training_assert_steps(both[i], ES_PHASE_TRAIN, train_steps, 7);
        training_assert_steps(both[i], ES_PHASE_EVAL, eval_steps, 4);
    }
    for (size_t i = 0; i < sizeof train_only / sizeof *train_only; i++)
        training_assert_steps(train_only[i], ES_PHASE_TRAIN, train_steps, 7);
    assert_int_equal(es_reader_n_series(training_reader(), 0), 2 * 13 + 3);
}

TEST(the_computed_values_are_recorded)
{
    training_seen out = {0};
    training_record(&out, training_small());
    int64_t steps[TRAINING_MAX_STEPS];
    float values[TRAINING_MAX_STEPS];
    const struct {
        const char *name;
        const double *want;
    } series[] = {{"loss", out.loss},
                  {"ce", out.ce},
                  {"grad_norm", out.norm},
                  {"lr", out.lr}};
    for (int k = 0; k < 4; k++) {
        int n = training_steps(series[k].name, ES_PHASE_TRAIN, steps, values);
        for (int i = 0; i < n; i++)
            assert_true(values[i] == (float)series[k].want[steps[i]]);
    }
    int n = training_steps("ce", ES_PHASE_EVAL, steps, values);
    for (int i = 0; i < n; i++)
        assert_true(values[i] == (float)out.eval[i]);
}

TEST(entropies_are_in_their_range)
{
    enum { LH = 6, L = 2 };
    training_seen out = {0};
    training_record(&out, training_small());
    float mean[LH], min[LH], max[LH], sink[LH], rows[LH], rms[L], bad[L];
    training_sample(mean, "entropy", ES_PHASE_TRAIN, 0, LH);
    training_sample(min, "entropy_min", ES_PHASE_TRAIN, 0, LH);
    training_sample(max, "entropy_max", ES_PHASE_TRAIN, 0, LH);
    training_sample(sink, "sink", ES_PHASE_TRAIN, 0, LH);
    training_sample(rows, "nonfinite_rows", ES_PHASE_TRAIN, 0, LH);
    training_sample(rms, "act_rms", ES_PHASE_TRAIN, 0, L);
    training_sample(bad, "nan_activations", ES_PHASE_TRAIN, 0, L);
    for (int h = 0; h < LH; h++) {
        /* With the small initial weights, attention is almost uniform at the
         * start. */
        assert_true(mean[h] > 0.98 * es_ceiling(9));
        assert_true(mean[h] <= es_ceiling(9) * (1 + 1e-6));
        assert_true(min[h] <= mean[h] && mean[h] <= max[h]);
        assert_true(min[h] < max[h]);
        /* In a uniform row i, key 0 has the weight 1/(i+1). */
        assert_true(fabs(sink[h] - 2.828968 / 9) < 0.02);
        assert_true(rows[h] == 0);
    }
    for (int l = 0; l < L; l++)
        assert_true(rms[l] > 0 && bad[l] == 0);
}

/* With T = 9 rows and an epsilon of 3, the missing mass of row i is at least 3
 * / (3 + i + 1). */
TEST(missing_mass_is_recorded)
{
    enum { LH = 6 };
    const int64_t eval_steps[] = {0, 10, 20, 23};
    training_seen out = {0};
    es_settings s = training_small();
    es_assert_ok(es_arch_parse(&s.model.arch, "PSM(2,3)+LN+G"));
    training_record(&out, s);
    training_assert_steps("missing_mass", ES_PHASE_EVAL, eval_steps, 4);
    float missing[LH];
    double least = 0;
    for (int i = 0; i < 9; i++)
        least += 3.0 / (4 + i) / 9;
    for (int step = 0; step <= 20; step += 4) {
        training_sample(missing, "missing_mass", ES_PHASE_TRAIN, step, LH);
        for (int h = 0; h < LH; h++)
            assert_true(missing[h] > least && missing[h] < 0.75 + 0.05);
    }
}

TEST(the_run_describes_itself)
{
    training_seen out = {0};
    training_record(&out, training_small());
    int64_t planned;
    const es_run_info info = training_info();
    assert_string_equal(info.name, "run");
    assert_string_equal(info.arch, "SM+LN+G");
    assert_string_equal(info.family, "gpt2");
    assert_int_equal(info.n_layer, 2);
    assert_int_equal(info.n_head, 3);
    assert_int_equal(info.d_model, 12);
    assert_int_equal(info.ctx, 9);
    assert_int_equal(info.vocab, TRAINING_VOCAB);
    assert_int_equal(info.batch, 5);
    assert_int_equal(info.seed, 7);
    assert_int_equal(info.status, ES_RUN_FINISHED);
    es_assert_ok(es_reader_planned_steps(training_reader(), 0, &planned));
    assert_int_equal(planned, 23);
    assert_non_null(strstr(info.config, "\"vocab\":17"));
}

TEST(statistics_cover_all_micro_batches)
{
    enum { LH = 6 };
    es_settings s = training_small();
    s.train.lr = 0;
    s.train.steps = 2;
    s.record_every = 1;
    training_seen out = {0};
    float single[2][LH], both[LH], low[2][LH], least[LH];
    training_record(&out, s);
    for (int i = 0; i < 2; i++) {
        training_sample(single[i], "entropy", ES_PHASE_TRAIN, i, LH);
        training_sample(low[i], "entropy_min", ES_PHASE_TRAIN, i, LH);
    }
    s.train.steps = 1;
    s.train.accumulate = 2;
    out = (training_seen){0};
    training_record(&out, s);
    training_sample(both, "entropy", ES_PHASE_TRAIN, 0, LH);
    training_sample(least, "entropy_min", ES_PHASE_TRAIN, 0, LH);
    for (int h = 0; h < LH; h++) {
        assert_true(single[0][h] != single[1][h]);
        assert_true(fabs(both[h] - 0.5 * (single[0][h] + single[1][h])) < 1e-6);
        assert_true(least[h] == fminf(low[0][h], low[1][h]));
    }
}

TEST_GROUP(training_set_up, training_tear_down)
