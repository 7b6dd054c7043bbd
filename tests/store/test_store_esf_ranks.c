/* Tests ranks of one training run that record into fragment files. Joining them
   must have the same result as joining run files that the same calls have
   written. A killed rank must leave a gap that is counted. */
#include "tests/support/test.h"

#include "tests/support/fragments.h"
#include "tests/support/same_run.h"

#include <string.h>

#define L ES_RANKS_L
#define H ES_RANKS_H
#define STEPS 12

static void put(es_writer *w, int64_t run, const char *name, int64_t step,
                int rank, size_t n)
{
    float values[L * H];
    for (size_t i = 0; i < n; i++)
        values[i] = es_value_of(rank + (int64_t)strlen(name), step, i);
    es_rank_put(w, run, name, ES_PHASE_TRAIN, step, values, n);
}

/**
 * Writes the series finite_rows of a rank. Each head has a different number,
 * which is sometimes 0.
 */
static void put_rows(es_writer *w, int64_t run, int64_t step, int rank)
{
    float rows[L * H];
    for (int i = 0; i < L * H; i++)
        rows[i] = (float)((step + 3 * rank + i) % 5 * 100);
    es_rank_put(w, run, "finite_rows", ES_PHASE_TRAIN, step, rows, L * H);
}

/** Writes the fragment file of a rank with the steps before `end`. */
static void write_rank(void **state, const char *name, int rank, int64_t end)
{
    char ranks[2] = {(char)('0' + rank), '\0'};
    es_writer *w;
    int64_t run =
        es_rank_open(&w, state, &(es_rank_file){name, .ranks = ranks});
    for (int64_t step = 0; step < end; step++) {
        put_rows(w, run, step, rank);
        put(w, run, "entropy", step, rank, L * H);
        put(w, run, "entropy_max", step, rank, L * H);
        put(w, run, "nonfinite_rows", step, rank, L * H);
        put(w, run, "nan_activations", step, rank, L);
        put(w, run, "loss", step, rank, 1);
    }
    es_rank_close(w, run);
}

/** Joins the files a and b into all.db, renames it to `name`, and opens it. */
static es_reader *join(void **state, const char *a, const char *b,
                       const char *name)
{
    char *to = es_folder_file(state, name);
    es_assert_ok(es_rank_join(state, (const char *[]){b, a}, 2));
    assert_int_equal(rename(es_folder_file(state, "all.db"), to), 0);
    return es_open_reader(to);
}

TEST(joined_fragments_equal_joined_run_files)
{
    write_rank(state, "a.db", 0, STEPS);
    write_rank(state, "b.db", 1, STEPS);
    AUTO(es_reader) files = join(state, "a.db", "b.db", "files.db");
    write_rank(state, "a.esf", 0, STEPS);
    write_rank(state, "b.esf", 1, STEPS);
    AUTO(es_reader) fragments = join(state, "a.esf", "b.esf", "fragments.db");
    assert_int_equal(es_assert_same_samples(files, 0, fragments, 0), 6 * STEPS);
    AUTO(es_reader) mixed = join(state, "a.db", "b.esf", "mixed.db");
    es_assert_same_samples(files, 0, mixed, 0);
    assert_string_equal(es_rank_said, "");
}

TEST(means_of_joined_ranks_are_weighted_by_their_rows)
{
    es_series series;
    int64_t found;
    float mean[L * H], most[L * H];
    write_rank(state, "a.esf", 0, STEPS);
    write_rank(state, "b.esf", 1, STEPS);
    AUTO(es_reader) r = join(state, "a.esf", "b.esf", "all2.db");
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &series));
    es_assert_ok(es_reader_sample(r, &series, 4, mean, L * H, &found));
    es_assert_ok(es_reader_find(r, 0, "entropy_max", ES_PHASE_TRAIN, &series));
    es_assert_ok(es_reader_sample(r, &series, 4, most, L * H, &found));
    int n_finite = 0;
    for (int i = 0; i < L * H; i++) {
        double rows[2], values[2], peaks[2];
        for (int rank = 0; rank < 2; rank++) {
            rows[rank] = (4 + 3 * rank + i) % 5 * 100;
            values[rank] = (double)es_value_of(rank + 7, 4, (size_t)i);
            peaks[rank] = (double)es_value_of(rank + 11, 4, (size_t)i);
        }
        if (isnan(values[0]) || isnan(values[1]) || isnan(peaks[0]) ||
            isnan(peaks[1]) || rows[0] == 0 || rows[1] == 0)
            continue;
        n_finite++;
        double all = rows[0] + rows[1];
        assert_true(near((double)mean[i],
                         (rows[0] * values[0] + rows[1] * values[1]) / all,
                         1e-5 * values[1]));
        assert_true((double)most[i] == fmax(peaks[0], peaks[1]));
    }
    assert_true(n_finite >= 2);
}

TEST(a_killed_rank_leaves_a_counted_gap)
{
    size_t n;
    write_rank(state, "a.esf", 0, STEPS);
    write_rank(state, "b.esf", 1, STEPS);
    /* Truncates the second fragment file in the middle of a frame. */
    char *path = es_folder_file(state, "b.esf");
    unsigned char *bytes = es_file_read(path, &n);
    assert_int_equal(truncate(path, (off_t)(n - n / 3)), 0);
    free(bytes);
    AUTO(es_reader) killed = es_open_reader(path);
    AUTO(es_reader) r = join(state, "a.esf", "b.esf", "all2.db");
    es_series series, left;
    es_assert_ok(es_reader_find(killed, 0, "loss", ES_PHASE_TRAIN, &left));
    assert_true(left.last_step > 2 && left.last_step < STEPS - 2);
    es_assert_ok(es_reader_find(r, 0, "loss", ES_PHASE_TRAIN, &series));
    assert_int_equal(series.last_step, STEPS - 1);
    const es_event *events;
    int n_gaps = 0;
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    for (size_t i = 0; i < n; i++)
        if (strcmp(events[i].kind, "gap") == 0) {
            n_gaps++;
            assert_non_null(strstr(events[i].message, "rank 1: lacks "));
            assert_true(events[i].step > 2);
        }
    assert_int_equal(n_gaps, 1);
    /* Only the first rank has recorded the last step, so the joined value is
     * the first rank's value. */
    float loss;
    int64_t found;
    es_assert_ok(es_reader_sample(r, &series, STEPS - 1, &loss, 1, &found));
    assert_true(near((double)loss, (double)es_value_of(4, STEPS - 1, 0), 0));
}

TEST_EACH(es_folder_make, es_folder_remove)
