/* Tests the merging of seeds: the seeds of a configuration become one line with
 * mean, range and number of seeds. */
#include "analyzer/statistics/inference.h"
#include "cli/figures/source.h"
#include "tests/support/figured.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { N_RUNS = 4, N_STEPS = 3 };

/* Losses of three seeds with the same learning rate, and of a run with another
 * learning rate. The third seed lacks a step (-1) and ends in NaN. */
static const float losses[N_RUNS][N_STEPS] = {
    {4, 3, 2}, {6, 5, 1}, {5, -1, NAN}, {9, 8, 7}};

static void record(const char *path, size_t i)
{
    es_run_info info = es_run_of(3, 2);
    info.arch = "SM";
    info.seed = (int64_t)i;
    info.config = i < 3 ? "{\"lr\":0.1,\"threads\":1}" : "{\"lr\":0.2}";
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 0, 1.5F);
    for (size_t k = 0; k < N_STEPS; k++)
        if (losses[i][k] != -1)
            es_record_value(&to, "loss", 10 * (int64_t)k, losses[i][k]);
    es_record_close(&to);
}

static void open_runs(es_figured *out, void **state)
{
    const char *paths[N_RUNS];
    static const char *const files[] = {"a.db", "b.db", "c.db", "d.db"};
    for (size_t i = 0; i < N_RUNS; i++)
        record(paths[i] = es_folder_file(state, files[i]), i);
    es_figure(out, "entropy", N_RUNS, paths);
}

TEST(seeds_have_a_mean_and_a_range)
{
    static const float mean[N_STEPS] = {5, 4, 1.5F}, low[N_STEPS] = {4, 3, 1},
                       high[N_STEPS] = {6, 5, 2};
    const es_lines_query query = {
        .series = "loss", .phase = ES_PHASE_TRAIN, .reduction = ES_REDUCE_MEAN};
    char label[ES_GROUP_TEXT_MAX];
    es_group_lines lines;
    es_figured f;
    open_runs(&f, state);
    es_drawing *drawing = &f.drawing;
    es_run_labels_free(&drawing->labels);
    drawing->n = 3; /* exclude the fourth run, which has another learning
                       rate */
    es_assert_ok(es_drawing_group(drawing, f.runs, N_RUNS));
    assert_int_equal(drawing->n, 1);
    es_assert_ok(
        es_run_labels_make(&drawing->labels, drawing->runs, drawing->n));
    es_assert_ok(es_group_lines_read(&lines, drawing, 0, &query, false));
    assert_int_equal(lines.mean.n, N_STEPS);
    es_assert_bits(lines.mean.values, mean, N_STEPS);
    es_assert_bits(lines.low.values, low, N_STEPS);
    es_assert_bits(lines.high.values, high, N_STEPS);
    assert_string_equal(es_group_label(label, drawing, 0, &lines),
                        "SM (3 seeds, 1 NaN)");
    lines.n_runs = 2;
    lines.n_nonfinite = 0;
    assert_string_equal(es_group_label(label, drawing, 0, &lines),
                        "SM (2 of 3 seeds)");
    es_drawing_clear(drawing);
    es_unfigure(&f);
}

TEST(seeds_with_other_steps_are_aligned)
{
    static const int64_t steps[2][3] = {{0, 10, 20}, {0, 4, 20}};
    static const int64_t all[] = {0, 4, 10, 20};
    static const float values[2][3] = {{0, 1, 2}, {2, 2.4F, 4}},
                       mean[] = {1, 1.4F, 2, 3}, low[] = {0, 0.4F, 1, 2};
    const es_lines_query query = {
        .series = "loss", .phase = ES_PHASE_TRAIN, .reduction = ES_REDUCE_MEAN};
    const char *paths[2];
    es_group_lines lines;
    es_figured f;
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (size_t i = 0; i < 2; i++) {
        es_run_info info = es_run_of(3, 2);
        info.seed = (int64_t)i;
        paths[i] = es_folder_file(state, i ? "f.db" : "e.db");
        es_recorded to = es_record(paths[i], &info);
        es_record_all(&to, "entropy", 0, 1.5F);
        for (size_t k = 0; k < 3; k++)
            es_record_value(&to, "loss", steps[i][k], values[i][k]);
        es_record_close(&to);
    }
    es_figure(&f, "entropy", 2, paths);
    es_drawing *drawing = &f.drawing;
    es_assert_ok(es_drawing_group(drawing, f.runs, 2));
    es_assert_ok(es_group_lines_read(&lines, drawing, 0, &query, false));
    assert_int_equal(lines.mean.n, 4);
    for (size_t k = 0; k < 4; k++) {
        assert_int_equal(lines.mean.steps[k], all[k]);
        assert_true(near((double)lines.mean.values[k], (double)mean[k], 1e-6));
        assert_true(near((double)lines.low.values[k], (double)low[k], 1e-6));
    }
    es_drawing_clear(drawing);
    es_unfigure(&f);
}

TEST(other_settings_have_a_separate_line)
{
    es_figured f;
    char label[ES_GROUP_TEXT_MAX];
    open_runs(&f, state);
    es_drawing *drawing = &f.drawing;
    es_assert_ok(es_drawing_group(drawing, f.runs, N_RUNS));
    assert_int_equal(drawing->n, 2);
    assert_int_equal(drawing->n_members[0], 3);
    assert_int_equal(drawing->n_members[1], 1);
    es_run_labels_free(&drawing->labels);
    es_assert_ok(
        es_run_labels_make(&drawing->labels, drawing->runs, drawing->n));
    const es_group_lines one = {.n_runs = 1};
    assert_string_equal(es_group_label(label, drawing, 1, &one), "lr = 0.2");
    es_drawing_clear(drawing);
    es_unfigure(&f);
}

TEST_EACH(es_folder_make, es_folder_remove)
