/* Tests the state that a watcher keeps for a growing fragment. es_growth_look
   must read only the data that was appended since its last call, and must keep
   no descriptor open. */
#include "store/growth.h"
#include "tests/support/esf_files.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <string.h>

AUTO_OF(es_growth, es_growth_end)

static char *run_esf;

static int make(void **state)
{
    static char path[4300];
    if (es_folder_make(state) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/run.esf", (char *)*state);
    run_esf = path;
    es_esf_shift_clock(0);
    return 0;
}

/* Starts to follow run.esf from its current end. */
static es_growth *begin(void)
{
    es_growth *growth;
    AUTO(es_reader) r = es_open_reader(run_esf);
    es_assert_ok(es_growth_begin(&growth, r));
    return growth;
}

static es_growth_news look(es_growth *growth)
{
    es_growth_news news;
    es_assert_ok(es_growth_look(&news, growth));
    return news;
}

static void add_event(es_writer *w, int64_t run)
{
    const es_event event = {
        .step = 3, .kind = "test", .severity = ES_SEVERITY_ERROR};
    es_assert_ok(es_writer_event(w, run, &event));
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Fails unless the samples that es_growth_look found equal those that a reader
   finds at the steps [first, end) of each series. */
static void assert_samples_are_read(const es_growth *growth, int64_t first,
                                    int64_t end)
{
    size_t n, n_found = 0;
    AUTO(es_reader) r = es_open_reader(run_esf);
    const es_growth_sample *samples = es_growth_samples(&n, growth);
    for (size_t i = 0; i < n; i++) {
        float values[64];
        int64_t step;
        es_series series;
        es_assert_ok(es_reader_find(r, samples[i].run, samples[i].name,
                                    samples[i].phase, &series));
        es_assert_ok(es_reader_sample(r, &series, samples[i].step, values,
                                      samples[i].n, &step));
        assert_memory_equal(samples[i].values, values,
                            samples[i].n * sizeof(float));
        assert_in_range(step, first, end - 1);
        n_found++;
    }
    assert_int_equal(n_found,
                     (end - first) * (int64_t)es_reader_n_series(r, 0));
}

TEST(samples_are_distinguished_from_other_records)
{
    int64_t run;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    AUTO(es_growth) growth = begin();
    assert_non_null(growth);
    assert_int_equal(look(growth), ES_GROWTH_NONE);
    es_esf_commit(w, 0, 4);
    assert_int_equal(look(growth), ES_GROWTH_SAMPLES);
    assert_int_equal(look(growth), ES_GROWTH_NONE);
    es_esf_commit(w, 4, 6);
    es_esf_commit(w, 6, 8);
    assert_int_equal(look(growth), ES_GROWTH_SAMPLES);
    assert_samples_are_read(growth, 4, 8);
    add_event(w, run);
    es_esf_commit(w, 8, 9);
    assert_int_equal(look(growth), ES_GROWTH_OTHER);
    es_assert_ok(es_writer_end_run(w, run, ES_RUN_FINISHED));
    assert_int_equal(look(growth), ES_GROWTH_OTHER);
    es_assert_ok(es_writer_close(w));
    assert_int_equal(look(growth), ES_GROWTH_OTHER);
}

TEST(repeated_records_are_not_news)
{
    int64_t run, step = 0;
    const int64_t steps = 100; /* number of steps per commit, which makes frames
                                  of 5.6 KiB */
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    AUTO(es_growth) growth = begin();
    for (; step < 3 * ES_ESF_AGAIN_FIRST / 56; step += steps) {
        es_esf_commit(w, step, step + steps);
        assert_int_equal(look(growth), ES_GROWTH_SAMPLES);
        assert_samples_are_read(growth, step, step + steps);
    }
    es_assert_ok(es_writer_close(w));
    size_t n;
    unsigned char *bytes = es_file_read(run_esf, &n);
    int n_again = 0;
    for (char *at = (char *)bytes;
         (at = memmem(at, n - (size_t)(at - (char *)bytes), "SM+LN+G", 7));
         at++)
        n_again++;
    assert_int_equal(n_again, 2); /* the original record and one repetition */
    free(bytes);
}

TEST(a_run_file_and_a_closed_fragment_have_no_growth)
{
    es_growth *growth;
    es_write_run(run_db, "x", 3);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_ok(es_growth_begin(&growth, r));
    assert_null(growth);
    es_esf_write(run_esf, 2);
    assert_null(begin());
}

TEST(a_torn_frame_is_not_news_until_it_is_complete)
{
    int64_t run;
    size_t n;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    AUTO(es_growth) growth = begin();
    es_esf_commit(w, 0, 2);
    unsigned char *bytes = es_file_read(run_esf, &n);
    int fd = open(run_esf, O_WRONLY);
    for (size_t cut = 1; cut < 150; cut += 10) {
        assert_int_equal(ftruncate(fd, (off_t)(n - cut)), 0);
        assert_int_equal(look(growth), ES_GROWTH_NONE);
    }
    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    close(fd);
    assert_int_equal(look(growth), ES_GROWTH_SAMPLES);
    free(bytes);
    es_writer_abandon(w);
}

TEST(a_replaced_or_truncated_file_has_to_be_reopened)
{
    int64_t run;
    size_t n;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    es_esf_commit(w, 0, 2);
    unsigned char *bytes = es_file_read(run_esf, &n);
    es_esf_commit(w, 2, 4);
    AUTO(es_growth) growth = begin();
    /* simulates a power failure that loses the last commit */
    assert_int_equal(truncate(run_esf, (off_t)n), 0);
    assert_int_equal(look(growth), ES_GROWTH_OTHER);
    es_growth_end(growth);
    growth = begin();
    assert_int_equal(look(growth), ES_GROWTH_NONE);
    unlink(run_esf);
    es_file_write(run_esf, bytes, n); /* a different file with the same bytes */
    assert_int_equal(look(growth), ES_GROWTH_OTHER);
    unlink(run_esf);
    es_growth_news news;
    es_assert_status(ES_EIO, "cannot open", es_growth_look(&news, growth));
    assert_int_equal(news, ES_GROWTH_OTHER);
    free(bytes);
    es_writer_abandon(w);
}

TEST(no_descriptor_stays_open_between_two_looks)
{
    enum { N = 50 };
    es_growth *growths[N];
    int64_t run;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    const int before = count_descriptors();
    for (int i = 0; i < N; i++)
        growths[i] = begin();
    es_esf_commit(w, 0, 2);
    for (int i = 0; i < N; i++)
        assert_int_equal(look(growths[i]), ES_GROWTH_SAMPLES);
    assert_int_equal(count_descriptors(), before);
    for (int i = 0; i < N; i++)
        es_growth_end(growths[i]);
    es_assert_ok(es_writer_close(w));
}

TEST(a_writer_on_another_machine_is_recognised)
{
    int64_t run;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    es_growth *growth = begin();
    assert_false(es_growth_is_abroad(growth));
    es_growth_end(growth);
    es_esf_move_abroad(run_esf);
    growth = begin();
    assert_true(es_growth_is_abroad(growth));
    es_growth_end(growth);
    es_writer_abandon(w);
}

/* A writer on another machine is known to be alive only by its heartbeats.
   es_growth_look must report once that the writer has died, and once that it
   has returned. */
TEST(the_death_of_a_writer_is_news_once)
{
    int64_t run;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    es_esf_move_abroad(run_esf);
    AUTO(es_growth) growth = begin();
    assert_int_equal(look(growth), ES_GROWTH_NONE);
    es_esf_shift_clock(ES_ESF_SILENT_MS + 5000);
    assert_int_equal(look(growth), ES_GROWTH_OTHER);
    es_growth_end(growth);
    growth = begin();
    assert_int_equal(look(growth), ES_GROWTH_NONE);
    es_esf_shift_clock(0);
    assert_int_equal(look(growth), ES_GROWTH_OTHER);
    es_writer_abandon(w);
}

/* --- a long foreign tail -------------------------------------------------- */

enum { STEP_BYTES = 1 << 20, TAIL = 12 }; /* MiB */

/* Writes run.esf with additional bytes, which do not form frames, inserted at
   offset `place` between two frames. */
static void write_tail(const unsigned char *bytes, size_t n, size_t place)
{
    static unsigned char other[STEP_BYTES];
    memset(other, 0x5a, sizeof other);
    AUTO(FILE) file = fopen(run_esf, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, place, file), place);
    for (int i = 0; i < TAIL; i++)
        assert_int_equal(fwrite(other, 1, sizeof other, file), sizeof other);
    assert_int_equal(fwrite(bytes + place, 1, n - place, file), n - place);
}

/* Calls es_growth_look until it has searched all inserted bytes for frames.
 * Returns the number of calls. */
static int search(es_growth *growth, es_growth_news *news)
{
    int n = 0;
    for (; es_growth_is_searching(growth) && n < 100; n++)
        *news = look(growth);
    return n;
}

TEST(a_long_tail_is_searched_step_by_step_and_once)
{
    size_t n;
    int64_t gap;
    es_esf_frame frame;
    uint32_t seed;
    es_growth *growth;
    es_growth_news news = ES_GROWTH_NONE;
    es_reader *r = NULL;
    es_esf_write(run_esf, 40);
    unsigned char *bytes = es_file_read(run_esf, &n);
    const size_t place = es_esf_find(&frame, &seed, bytes, n, 20);
    for (int is_torn = 0; is_torn < 2; is_torn++) {
        write_tail(bytes, is_torn ? place : n, place);
        const long long before = es_bytes_read();
        es_assert_ok(es_growth_open(&r, run_esf, NULL, STEP_BYTES));
        es_assert_ok(es_growth_begin(&growth, r));
        assert_int_equal(es_esf_check(r, false, &gap), 38);
        es_reader_close(r);
        assert_true(es_bytes_read() - before < 2 * STEP_BYTES);
        assert_true(es_growth_is_searching(growth));
        const int n_looks = search(growth, &news);
        assert_true(n_looks >= TAIL - 2 && n_looks <= TAIL);
        assert_int_equal(news, is_torn ? ES_GROWTH_NONE : ES_GROWTH_OTHER);
        /* allows for the bytes directly behind the last frame, which every call
         * reads */
        assert_true(es_bytes_read() - before <
                    TAIL * (STEP_BYTES + (200 << 10)));
        const long long searched = es_bytes_read();
        es_assert_ok(es_growth_open(&r, run_esf, growth, STEP_BYTES));
        assert_int_equal(es_esf_check(r, true, &gap), is_torn ? 38 : 80);
        es_reader_close(r);
        assert_true(es_bytes_read() - searched < STEP_BYTES);
        es_growth_end(growth);
    }
    free(bytes);
}

TEST_EACH(make, es_folder_remove)
