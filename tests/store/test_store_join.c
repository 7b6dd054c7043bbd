/**
 * Tests joining the fragments of ranks into one run. The joined values must
 * equal those computed from the rows of all ranks, and no values may be
 * invented.
 */

#include "tests/support/fragments.h"

#include "analyzer/base/value.h"
#include "analyzer/heads/heads.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define L ES_RANKS_L
#define H ES_RANKS_H

static void put_number(es_writer *w, int64_t run, const char *name,
                       int64_t step, float value)
{
    es_rank_put(w, run, name, ES_PHASE_TRAIN, step, &value, 1);
}

/** Writes a sample of a head series in which all heads have the same value. */
static void put_heads(es_writer *w, int64_t run, const char *name, int64_t step,
                      float value)
{
    float values[L * H];
    for (int i = 0; i < L * H; i++)
        values[i] = value;
    es_rank_put(w, run, name, ES_PHASE_TRAIN, step, values, L * H);
}

static es_status join_two(void **state)
{
    return es_rank_join(state, (const char *[]){"b.db", "a.db"}, 2);
}

static es_reader *open_all(void **state)
{
    return es_open_reader(es_folder_file(state, "all.db"));
}

/**
 * Reads a sample of the joined run into `values`. Fails if the sample does not
 * exist.
 */
static void take(es_reader *r, const char *name, es_phase phase, int64_t step,
                 float *values, size_t n)
{
    es_series series;
    int64_t found;
    es_assert_ok(es_reader_find(r, 0, name, phase, &series));
    assert_int_equal(series.n_values, n);
    es_assert_ok(es_reader_sample(r, &series, step, values, n, &found));
    assert_int_equal(found, step);
}

static float number(es_reader *r, const char *name, int64_t step)
{
    float value;
    take(r, name, ES_PHASE_TRAIN, step, &value, 1);
    return value;
}

static float first_head(es_reader *r, const char *name, int64_t step)
{
    float values[L * H];
    take(r, name, ES_PHASE_TRAIN, step, values, L * H);
    return values[0];
}

/* --- data parallel -------------------------------------------------------- */

#define B 3 /* number of sequences per rank */
#define T 5

typedef struct rows {
    float of[ES_N_ROW_STATISTICS]
            [2 * B * H * T]; /* shape (2*B, H, T): the first B sequences belong
                                to rank 0, the others to rank 1 */
} rows;

/**
 * Generates the statistics of all attention rows of a layer. Some rows are not
 * finite; in layer 1, head 1 of rank 1 has no finite rows.
 */
static void make_rows(rows *out, int layer)
{
    for (int s = 0; s < ES_N_ROW_STATISTICS; s++)
        for (int i = 0; i < 2 * B * H * T; i++)
            out->of[s][i] =
                s == ES_ROW_NONFINITE
                    ? (float)(i % 3)
                    : (float)(((i * 37 + s * 11 + layer * 5) % 101) + 1) / 17;
    for (int i = 0; i < 2 * B * H * T; i++) {
        const int b = i / (H * T), h = i / T % H;
        if (i % 13 == 4 || (layer == 1 && h == 1 && b >= B))
            for (int s = 0; s < ES_N_ROW_STATISTICS; s++)
                if (s != ES_ROW_NONFINITE)
                    out->of[s][i] = NAN;
    }
}

/**
 * Computes the sums (H) of all row statistics over the sequences [first, last).
 */
static void add_rows(es_head_sums *sums, const rows *from, int first, int last)
{
    const float *at[ES_N_ROW_STATISTICS];
    for (int h = 0; h < H; h++)
        sums[h] = es_head_sums_start();
    for (int s = 0; s < ES_N_ROW_STATISTICS; s++)
        at[s] = from->of[s] + first * H * T;
    es_head_sums_add_rows(sums, at, last - first, H, T);
}

/** Computes all head statistics (series,L,H) and the number of finite rows
 *  (L,H). */
static void make_heads(float heads[ES_N_HEAD_SERIES][L * H], float *finite,
                       int first, int last)
{
    for (int layer = 0; layer < L; layer++) {
        rows all;
        es_head_sums sums[H];
        make_rows(&all, layer);
        add_rows(sums, &all, first, last);
        for (int i = 0; i < H * ES_N_HEAD_SERIES; i++)
            heads[i / H][layer * H + i % H] =
                (float)es_head_value(&sums[i % H], (es_head_series)(i / H));
        for (int h = 0; h < H; h++)
            finite[layer * H + h] = (float)sums[h].finite_rows;
    }
}

static void write_rank(void **state, const es_rank_file *f, es_phase phase,
                       int first, int last)
{
    float heads[ES_N_HEAD_SERIES][L * H], finite[L * H];
    es_writer *w;
    int64_t run = es_rank_open(&w, state, f);
    make_heads(heads, finite, first, last);
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        es_rank_put(w, run, es_head_statistics[i].name, phase, 7, heads[i],
                    L * H);
    es_rank_put(w, run, "finite_rows", phase, 7, finite, L * H);
    es_rank_close(w, run);
}

static void check_replicas(void **state, es_phase phase)
{
    float expected[ES_N_HEAD_SERIES][L * H], finite[L * H], got[L * H];
    write_rank(state, &(es_rank_file){"a.db", .ranks = "0"}, phase, 0, B - 1);
    write_rank(state, &(es_rank_file){"b.db", .ranks = "1"}, phase, B - 1,
               2 * B);
    make_heads(expected, finite, 0, 2 * B);
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    for (int s = 0; s < ES_N_HEAD_SERIES; s++) {
        take(r, es_head_statistics[s].name, phase, 7, got, L * H);
        for (int i = 0; i < L * H; i++)
            if (!(fabsf(got[i] - expected[s][i]) <= 1e-6F * expected[s][i]))
                fail_msg("%s %d: %g, not %g", es_head_statistics[s].name, i,
                         (double)got[i], (double)expected[s][i]);
    }
    take(r, "finite_rows", phase, 7, got, L * H);
    es_assert_bits(got, finite, L * H);
    es_reader_close(r);
    assert_string_equal(es_rank_said, "");
}

TEST(replicas_combine_to_the_statistics_of_all_rows)
{
    check_replicas(state, ES_PHASE_TRAIN);
}

TEST(evaluations_are_combined_by_their_own_rows)
{
    check_replicas(state, ES_PHASE_EVAL);
}

TEST(nan_missing_and_zero_stay_distinct)
{
    /* entropy and number of finite rows in rank 0 and in rank 1, and the joined
     * entropy */
    const float missing = es_missing();
    const struct {
        float a, n_a, b, n_b, both;
    } cases[] = {
        {2, 3, 4, 1, 2.5F},
        {0, 5, 0, 2, 0},
        {NAN, 0, 4, 3, 4},
        {NAN, 0, NAN, 0, NAN},
        {missing, 0, 4, 3, 4},
        {missing, 0, NAN, 0, NAN},
        {missing, 0, missing, 0, missing},
        {2, missing, 4, 3, missing},
        {INFINITY, 2, 4, 3, INFINITY},
    };
    es_writer *w[2];
    int64_t run[2];
    run[0] = es_rank_open(&w[0], state, &(es_rank_file){"a.db", .ranks = "0"});
    run[1] = es_rank_open(&w[1], state, &(es_rank_file){"b.db", .ranks = "1"});
    for (int i = 0; i < 9; i++) {
        put_heads(w[0], run[0], "entropy", i, cases[i].a);
        put_heads(w[0], run[0], "finite_rows", i, cases[i].n_a);
        put_heads(w[1], run[1], "entropy", i, cases[i].b);
        put_heads(w[1], run[1], "finite_rows", i, cases[i].n_b);
    }
    es_rank_close(w[0], run[0]);
    es_rank_close(w[1], run[1]);
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    for (int i = 0; i < 9; i++) {
        const float got = first_head(r, "entropy", i);
        const float want = cases[i].both;
        assert_int_equal(es_is_missing(got), es_is_missing(want));
        assert_true(got == want || (isnan(got) && isnan(want)));
    }
    es_reader_close(r);
    assert_string_equal(es_rank_said,
                        "entropy: missing at 1 steps, first at step 7: "
                        "a rank has no finite_rows to weigh its means "
                        "by\n");
}

TEST(run_series_are_combined_or_equal_or_missing)
{
    es_writer *w[2];
    int64_t run[2];
    run[0] = es_rank_open(&w[0], state, &(es_rank_file){"a.db", .ranks = "0"});
    run[1] = es_rank_open(&w[1], state, &(es_rank_file){"b.db", .ranks = "1"});
    for (int i = 0; i < 2; i++) {
        put_number(w[i], run[i], "loss", 1, i ? 3.0F : 1.5F);
        put_number(w[i], run[i], "loss", 2, i ? NAN : 1.5F);
        put_number(w[i], run[i], "loss", 3, i ? es_missing() : 1.5F);
        put_number(w[i], run[i], "tokens_per_s", 1, i ? 30 : 12);
        put_number(w[i], run[i], "lr", 1, 0.25F);
        put_number(w[i], run[i], "accuracy", 1, 0.5F);
        put_number(w[i], run[i], "accuracy", 2, i ? 0.5F : 0.75F);
    }
    put_number(w[0], run[0], "loss", 4, 8);
    es_rank_close(w[0], run[0]);
    es_rank_close(w[1], run[1]);
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    assert_true(number(r, "loss", 1) == 2.25F);
    assert_true(isnan(number(r, "loss", 2)));
    assert_false(es_is_missing(number(r, "loss", 2)));
    assert_true(number(r, "loss", 3) == 1.5F);
    assert_true(number(r, "loss", 4) == 8);
    assert_true(number(r, "tokens_per_s", 1) == 42);
    assert_true(number(r, "lr", 1) == 0.25F);
    assert_true(number(r, "accuracy", 1) == 0.5F);
    assert_true(es_is_missing(number(r, "accuracy", 2)));
    const es_event *events;
    size_t n;
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 1);
    assert_string_equal(events[0].kind, "unjoined");
    assert_string_equal(events[0].message,
                        "accuracy: missing at 1 steps, first at step 2: the "
                        "ranks differ, and no rule combines them");
    es_reader_close(r);
}

/* --- side by side -------------------------------------------------------- */

TEST(stages_and_halves_of_heads_are_put_side_by_side)
{
    /* rank 0 has layers 0 and 1; of layers 2 to 4, rank 1 has heads 0 to 2 and
     * rank 2 has heads 3 and 4 */
    const es_rank_file parts[] = {
        {"a.db", .ranks = "0", .world = 3, .n_layer = 2, .n_head = 5},
        {"b.db", .ranks = "1", .world = 3, .first_layer = 2, .n_head = 3},
        {"c.db", .ranks = "2", .world = 3, .first_layer = 2, .first_head = 3},
    };
    const size_t sizes[] = {10, 9, 6};
    float values[3][10], got[25];
    for (int i = 0; i < 3; i++) {
        es_writer *w;
        int64_t run = es_rank_open(&w, state, &parts[i]);
        for (size_t j = 0; j < sizes[i]; j++)
            values[i][j] = es_value_of(i + 1, 7, j);
        es_rank_put(w, run, "entropy", ES_PHASE_TRAIN, 7, values[i], sizes[i]);
        es_rank_close(w, run);
    }
    es_assert_ok(
        es_rank_join(state, (const char *[]){"c.db", "a.db", "b.db"}, 3));
    es_reader *r = open_all(state);
    take(r, "entropy", ES_PHASE_TRAIN, 7, got, 25);
    es_assert_bits(got, values[0], 10);
    for (int layer = 0; layer < 3; layer++) {
        es_assert_bits(got + 10 + layer * 5, values[1] + layer * 3, 3);
        es_assert_bits(got + 13 + layer * 5, values[2] + layer * 2, 2);
    }
    es_reader_close(r);
    assert_string_equal(es_rank_said, "");
}

TEST(replicas_of_stages_are_combined_stage_by_stage)
{
    const char *names[] = {"a.db", "b.db", "c.db", "d.db"};
    const char *ranks[] = {"0", "1", "2", "3"};
    for (int i = 0; i < 4; i++) {
        es_writer *w;
        int64_t run = es_rank_open(&w, state,
                                   &(es_rank_file){.name = names[i],
                                                   .ranks = ranks[i],
                                                   .world = 4,
                                                   .first_layer = i % 2 * L});
        put_heads(w, run, "entropy", 2, (float)(1 + i));
        put_heads(w, run, "finite_rows", 2, i < 2 ? 1 : 3);
        if (i % 2)
            put_number(w, run, "loss", 2, (float)i);
        es_rank_close(w, run);
    }
    es_assert_ok(es_rank_join(state, names, 4));
    es_reader *r = open_all(state);
    float got[2 * L * H];
    take(r, "entropy", ES_PHASE_TRAIN, 2, got, 2 * L * H);
    assert_true(got[0] == 2.5F && got[2 * L * H - 1] == 3.5F);
    assert_true(number(r, "loss", 2) == 2);
    es_run_info info;
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_int_equal(info.batch, 8);
    es_reader_close(r);
}

/* --- missing data -------------------------------------------------------- */

static const es_event *find_event(es_reader *r, const char *kind, size_t *n)
{
    const es_event *events, *found = NULL;
    size_t n_events;
    es_assert_ok(es_reader_events(r, 0, &events, &n_events));
    *n = 0;
    for (size_t i = 0; i < n_events; i++)
        if (strcmp(events[i].kind, kind) == 0 && ++*n == 1)
            found = &events[i];
    return found;
}

TEST(a_dead_rank_leaves_a_counted_gap)
{
    size_t n;
    for (int i = 0; i < 2; i++) {
        es_writer *w;
        int64_t run = es_rank_open(
            &w, state,
            &(es_rank_file){i ? "b.db" : "a.db", .ranks = i ? "1" : "0"});
        for (int step = 0; step < (i ? 20 : 50); step += 5) {
            put_heads(w, run, "entropy", step, (float)(1 + i * 2));
            put_heads(w, run, "finite_rows", step, 10);
        }
        es_rank_close(w, run);
    }
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    assert_true(first_head(r, "entropy", 15) == 2);
    assert_true(first_head(r, "entropy", 20) == 1);
    assert_true(first_head(r, "finite_rows", 20) == 10);
    const es_event *gap = find_event(r, "gap", &n);
    assert_int_equal(n, 1);
    assert_int_equal(gap->step, 20);
    assert_string_equal(gap->message, "rank 1: lacks 6 of 10 training steps, "
                                      "from step 20 to step 45");
    assert_int_equal(strncmp(es_rank_said, gap->message, strlen(gap->message)),
                     0);
    es_reader_close(r);
}

TEST(a_dead_stage_leaves_missing_values)
{
    float got[2 * L * H];
    for (int i = 0; i < 2; i++) {
        es_writer *w;
        int64_t run = es_rank_open(&w, state,
                                   &(es_rank_file){.name = i ? "b.db" : "a.db",
                                                   .ranks = i ? "1" : "0",
                                                   .first_layer = i * L});
        put_heads(w, run, "entropy", 1, (float)(1 + i));
        if (i)
            put_heads(w, run, "entropy", 2, 2);
        es_rank_close(w, run);
    }
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    take(r, "entropy", ES_PHASE_TRAIN, 2, got, 2 * L * H);
    assert_true(es_is_missing(got[0]) && es_is_missing(got[L * H - 1]));
    assert_true(got[L * H] == 2);
    es_reader_close(r);
    assert_non_null(
        strstr(es_rank_said, "rank 0: lacks 1 of 2 training steps"));
}

TEST(an_empty_fragment_lacks_every_step)
{
    es_writer *w;
    int64_t run =
        es_rank_open(&w, state, &(es_rank_file){"a.db", .ranks = "0"});
    put_heads(w, run, "entropy", 3, 1.5F);
    es_rank_close(w, run);
    run = es_rank_open(&w, state, &(es_rank_file){"b.db", .ranks = "1"});
    es_rank_close(w, run);
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    assert_true(first_head(r, "entropy", 3) == 1.5F);
    es_reader_close(r);
    assert_string_equal(es_rank_said,
                        "rank 1: lacks 1 of 1 training steps, from step "
                        "3 to step 3\n");
}

TEST(ranks_without_a_fragment_are_named)
{
    es_writer *w;
    int64_t run = es_rank_open(
        &w, state, &(es_rank_file){"a.db", .ranks = "0, 2", .world = 5});
    put_heads(w, run, "entropy", 3, 1.5F);
    es_rank_close(w, run);
    es_assert_ok(es_rank_join(state, (const char *[]){"a.db"}, 1));
    assert_string_equal(es_rank_said,
                        "ranks 1, 3, 4 of 5: no fragment was given\n");
}

TEST(a_damaged_sample_has_the_value_of_the_other_ranks)
{
    size_t n;
    for (int i = 0; i < 2; i++) {
        es_writer *w;
        int64_t run = es_rank_open(
            &w, state,
            &(es_rank_file){i ? "b.db" : "a.db", .ranks = i ? "1" : "0"});
        put_heads(w, run, "entropy", 4, (float)(1 + i));
        put_heads(w, run, "finite_rows", 4, 10);
        es_rank_close(w, run);
    }
    es_sqlite(es_folder_file(state, "b.db"),
              "UPDATE sample SET crc = crc + 1 WHERE series_id ="
              " (SELECT series_id FROM series WHERE name = 'entropy')");
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    assert_true(first_head(r, "entropy", 4) == 1);
    const es_event *damaged = find_event(r, "damaged", &n);
    assert_int_equal(n, 1);
    assert_non_null(strstr(damaged->message, "rank 1: "));
    es_reader_close(r);
}

/* --- the run -------------------------------------------------------------- */

TEST(events_keep_their_rank_and_place)
{
    const es_rank_file parts[] = {
        {"a.db", .ranks = "0", .world = 3},
        {"b.db", .ranks = "1", .world = 3, .first_head = 4},
        {"c.db", .ranks = "2", .world = 3, .first_layer = L},
    };
    size_t n;
    for (int i = 0; i < 3; i++) {
        es_writer *w;
        int64_t run = es_rank_open(&w, state, &parts[i]);
        const es_event event = {.step = 6,
                                .kind = "nan",
                                .severity = ES_SEVERITY_ERROR,
                                .layer = 2,
                                .head = i ? 1 : ES_UNKNOWN,
                                .message = "was seen",
                                .dedupe = "once"};
        es_assert_ok(es_writer_event(w, run, &event));
        es_rank_close(w, run);
    }
    es_assert_ok(
        es_rank_join(state, (const char *[]){"a.db", "b.db", "c.db"}, 3));
    es_reader *r = open_all(state);
    const es_event *event = find_event(r, "nan", &n);
    assert_int_equal(n, 3);
    assert_string_equal(event[0].message, "rank 0: was seen");
    assert_string_equal(event[1].message, "rank 1: was seen");
    assert_int_equal(event[0].layer, 2);
    assert_true(event[0].head == ES_UNKNOWN);
    assert_int_equal(event[1].layer, 2);
    assert_int_equal(event[1].head, 5);
    assert_int_equal(event[2].layer, L + 2);
    es_run_info info;
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_int_equal(info.batch, 4); /* not summed, because all ranks see the
                                        same sequences */
    es_reader_close(r);
}

TEST(the_joined_run_covers_all_ranks)
{
    es_run_info info;
    char *config;
    for (int i = 0; i < 2; i++) {
        es_writer *w;
        int64_t run = es_rank_open(
            &w, state,
            &(es_rank_file){i ? "b.db" : "a.db", .ranks = i ? "1" : "0"});
        if (i)
            es_assert_ok(es_writer_end_run(w, run, ES_RUN_FAILED));
        else
            es_assert_ok(es_writer_end_run(w, run, ES_RUN_FINISHED));
        es_assert_ok(es_writer_close(w));
    }
    es_sqlite(es_folder_file(state, "a.db"),
              "UPDATE run SET started_at = '2025-02-01', ended_at = '2025-03'");
    es_sqlite(es_folder_file(state, "b.db"),
              "UPDATE run SET started_at = '2025-01-01', ended_at = '2025-02'");
    es_assert_ok(join_two(state));
    es_reader *r = open_all(state);
    assert_int_equal(es_reader_n_runs(r), 1);
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_string_equal(info.uuid, ES_RANKS_UUID);
    assert_int_equal(info.n_layer, L);
    assert_int_equal(info.n_head, H);
    assert_int_equal(info.batch, 8);
    assert_int_equal(info.status, ES_RUN_FAILED);
    assert_string_equal(info.started_at, "2025-01-01");
    assert_string_equal(info.ended_at, "2025-03");
    es_assert_ok(es_reader_config(r, 0, &config));
    assert_string_equal(config, "{\"lr\":0.5}");
    free(config);
    es_fragment none;
    assert_int_equal(es_fragment_read(&none, r, 0), ES_DONE);
    es_reader_close(r);
    assert_int_equal(join_two(state), ES_DONE);
}

TEST_EACH(es_folder_make, es_folder_remove)
