/* Tests fragments. A reader must see the appended data while the file grows,
   when its tail is torn, on a host that sees blocks late, and after the writer
   has died. */
#include "store/crc32c.h"
#include "store/map.h"
#include "store/merge.h"
#include "store/place.h"
#include "tests/support/esf_files.h"
#include "tests/support/same_run.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* --- equal to a run file -------------------------------------------------- */

static void write_all(const char *path)
{
    static const float cells[] = {0.25F, 0.5F, NAN, 1};
    static const es_event event = {.step = 3,
                                   .kind = "test",
                                   .severity = ES_SEVERITY_WARNING,
                                   .layer = 1,
                                   .head = ES_UNKNOWN,
                                   .message = "a line",
                                   .data = "{\"a\":1}",
                                   .dedupe = "once",
                                   .at = "2026-01-02T03:04:05.678Z"};
    int64_t run, series[4];
    es_run_info info = es_run_of(3, 2);
    info.uuid = ES_ESF_UUID;
    info.family = "gpt2";
    info.seed = 0;
    info.started_at = "2026-01-01T00:00:00.000Z";
    info.config = "{\"steps\":9}";
    es_writer *w = es_open_writer(path);
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &series[0], run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(w, &series[1], run, "alpha", ES_SHAPE_LAYER,
                                  ES_PHASE_TRAIN, "my unit"));
    es_assert_ok(es_writer_series(w, &series[2], run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(w, &series[3], run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_EVAL, NULL));
    for (int64_t step = 0; step < 40; step++) {
        es_assert_ok(es_writer_begin(w));
        es_assert_ok(es_write_values(w, series[0], step, 6));
        es_assert_ok(es_write_values(w, series[1], step * step, 3));
        es_assert_ok(es_write_values(w, series[2], step, 1));
        es_assert_ok(es_write_values(w, series[3], 100 - step, 1));
        es_assert_ok(es_writer_commit(w));
    }
    /* replace the sample at step 7 */
    es_assert_ok(es_write_values(w, series[2], 7, 1));
    es_assert_ok(es_writer_event(w, run, &event));
    es_assert_ok(es_writer_event(w, run, &event));
    const es_map map = {
        .step = 4, .layer = 2, .head = 1, .size = 2, .n_ctx = 9};
    es_assert_ok(es_writer_map(w, run, &map, cells));
    es_assert_ok(es_writer_end_run(w, run, ES_RUN_STOPPED));
    es_assert_ok(es_writer_close(w));
}

static es_status count_map(void *user, const es_map *map, const float *values)
{
    assert_int_equal(map->size, 2);
    assert_non_null(values);
    assert_true(isnan(values[2]) && values[3] == 1);
    ++*(int *)user;
    return ES_OK;
}

TEST(a_fragment_reads_like_a_run_file_of_the_same_calls)
{
    int n_maps = 0;
    es_event const *a, *b;
    size_t n_a, n_b;
    write_all(run_db);
    write_all(run_esf);
    AUTO(es_reader) file = es_open_reader(run_db);
    AUTO(es_reader) fragment = es_open_reader(run_esf);
    assert_int_equal(es_reader_n_runs(fragment), 1);
    es_assert_same_info(file, 0, fragment, 0);
    assert_int_equal(es_assert_same_samples(file, 0, fragment, 0), 160);
    es_assert_ok(es_reader_events(file, 0, &a, &n_a));
    es_assert_ok(es_reader_events(fragment, 0, &b, &n_b));
    assert_int_equal(n_a, 1);
    assert_int_equal(n_b, 1);
    assert_string_equal(a->message, b->message);
    assert_string_equal(a->at, b->at);
    assert_string_equal(a->dedupe, b->dedupe);
    es_assert_ok(es_reader_maps(fragment, 0, count_map, &n_maps));
    assert_int_equal(n_maps, 1);
    assert_false(es_is_written(fragment));
    assert_int_equal(es_planned_steps(fragment, 0), 9);
    assert_int_equal(es_reader_n_damaged(fragment), 0);
    assert_false(es_file_exists_beside(run_esf, "-lock"));
}

/* --- growth --------------------------------------------------------------- */

TEST(a_reader_follows_a_fragment_that_grows)
{
    int64_t run, gap;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 0);
    assert_true(es_is_written(r));
    for (int64_t step = 0; step < 20; step += 5) {
        es_esf_commit(w, step, step + 5);
        assert_int_equal(es_esf_check(r, false, &gap), step);
        es_assert_ok(es_reader_refresh(r));
        assert_int_equal(es_esf_check(r, false, &gap), step + 5);
    }
    es_writer_beat(w); /* appends nothing, because it is too early for a
                          heartbeat */
    es_run_info info;
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_int_equal(info.status, ES_RUN_RUNNING);
    assert_int_equal(info.last_step, 19);
    es_assert_ok(es_writer_end_run(w, run, ES_RUN_FINISHED));
    es_assert_ok(es_writer_close(w));
    es_assert_ok(es_reader_refresh(r));
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_int_equal(info.status, ES_RUN_FINISHED);
    assert_false(es_is_written(r));
}

TEST(a_rolled_back_transaction_is_not_in_the_fragment)
{
    int64_t run, gap;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    es_esf_commit(w, 0, 2);
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_write_values(w, 1, 2, ES_ESF_CELLS));
    es_writer_rollback(w);
    es_esf_commit(w, 3, 4);
    es_assert_ok(es_writer_close(w));
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 3);
    assert_int_equal(gap, 2);
}

TEST(a_run_that_never_began_leaves_no_file)
{
    es_writer *w = es_open_writer(run_esf);
    es_assert_ok(es_writer_close(w));
    assert_false(es_file_exists(run_esf));
    w = es_open_writer(run_esf);
    es_writer_abandon(w);
    assert_false(es_file_exists(run_esf));
    assert_false(es_file_exists_beside(run_esf, "-lock"));
}

/* --- resuming ------------------------------------------------------------- */

TEST(a_resumed_run_replaces_what_it_writes_again)
{
    int64_t run, gap;
    es_esf_write(run_esf, 5); /* steps 0 to 9 */
    es_writer *w = es_esf_begin(run_esf, 6, &run);
    es_esf_commit(w, 6, 8);
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 8);
    assert_int_equal(gap, 8);
    es_run_info info;
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_int_equal(es_reader_n_runs(r), 1);
    assert_int_equal(info.last_step, 7);
    assert_int_equal(info.status, ES_RUN_RUNNING);
    es_assert_ok(es_writer_close(w));
}

TEST(another_run_can_follow_the_first)
{
    int64_t run, second, series, gap;
    es_run_info info = es_run_of(1, 1);
    es_esf_write(run_esf, 2);
    es_writer *w = es_open_writer(run_esf);
    es_assert_ok(es_writer_run(w, &second, &info, 0));
    es_assert_ok(es_writer_series(w, &series, second, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_write_values(w, series, 5, 1));
    es_assert_ok(es_writer_close(w));
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_reader_n_runs(r), 2);
    assert_int_equal(es_esf_check(r, false, &gap), 4);
    es_reader_close(r);
    r = NULL;
    w = es_esf_begin(run_esf, 4, &run); /* resumes the first run */
    es_assert_status(ES_EARGUMENT, "no series 2",
                     es_write_values(w, series, 6, 1));
    es_assert_ok(es_writer_close(w));
}

TEST(a_transaction_of_more_than_16_mib_is_refused)
{
    int64_t run, series;
    es_run_info info = es_run_of(256, 256);
    static float values[65536];
    es_writer *w = es_open_writer(run_esf);
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &series, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_begin(w));
    es_status status = ES_OK;
    int64_t step = 0;
    while (status == ES_OK && step < 100)
        status = es_writer_sample(w, series, step++, values, 65536);
    es_assert_status(ES_EARGUMENT, "more than 16 MiB", status);
    assert_int_equal(step, 64);
    es_writer_rollback(w);
    es_assert_ok(es_writer_sample(w, series, 0, values, 65536));
    es_assert_ok(es_writer_close(w));
}

/* --- writers -------------------------------------------------------------- */

TEST(a_second_writer_is_refused)
{
    int64_t run;
    es_writer *second, *w = es_esf_begin(run_esf, 0, &run);
    es_assert_status(ES_ELOCKED, "is writing it",
                     es_writer_open(&second, run_esf, ES_FAST));
    es_assert_ok(es_writer_close(w));
}

TEST(a_writer_on_another_host_is_alive_by_its_heartbeat)
{
    int64_t run, gap;
    es_writer *second, *w = es_esf_begin(run_esf, 0, &run);
    es_esf_commit(w, 0, 4);
    es_writer_abandon(w); /* appends the end mark, which this test then
                             removes */
    size_t n;
    es_esf_frame frame;
    uint32_t seed;
    unsigned char *bytes = es_file_read(run_esf, &n);
    size_t end = es_esf_find(&frame, &seed, bytes, n, 2);
    assert_true(frame.closed);
    es_file_write(run_esf, bytes, end);
    free(bytes);
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_false(es_is_written(r)); /* the writer ran on this machine, but its
                                       lock is gone, so it counts as dead */
    es_esf_move_abroad(run_esf);
    es_reader_close(r);
    r = es_open_reader(run_esf);
    assert_true(es_is_written(r));
    es_assert_status(ES_ELOCKED, "of host",
                     es_writer_open(&second, run_esf, ES_FAST));
    es_esf_shift_clock(ES_ESF_SILENT_MS + 5000);
    assert_false(es_is_written(r));
    w = es_esf_begin(run_esf, 4, &run);
    es_esf_commit(w, 4, 6);
    es_assert_ok(es_reader_refresh(r));
    assert_int_equal(es_esf_check(r, false, &gap), 6);
    es_assert_ok(es_writer_close(w));
}

TEST(a_clock_before_1970_loses_nothing)
{
    int64_t run, gap;
    es_esf_shift_clock(-70LL * 365 * 86400 * 1000);
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    es_esf_commit(w, 0, 6);
    es_assert_ok(es_writer_close(w));
    es_esf_shift_clock(0);
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 6);
}

/* --- torn tails ----------------------------------------------------------- */

TEST(a_truncated_fragment_has_its_complete_commits)
{
    size_t n;
    int64_t gap = 0, before = -1;
    es_esf_write(run_esf, 4);
    unsigned char *bytes = es_file_read(run_esf, &n);
    for (size_t i = 1; i <= n; i++) {
        es_file_write(run_esf, bytes, i);
        int64_t found = es_esf_check_file(run_esf, false, &gap);
        assert_true(found >= before && (found < 0 || found % 2 == 0));
        assert_true(found < 0 || gap == found);
        before = found;
    }
    assert_int_equal(before, 8);
    free(bytes);
}

TEST(a_torn_tail_is_truncated_and_overwritten)
{
    size_t n;
    int64_t run, gap;
    es_esf_write(run_esf, 4);
    unsigned char *bytes = es_file_read(run_esf, &n);
    es_esf_frame frame;
    uint32_t seed;
    size_t place = es_esf_find(&frame, &seed, bytes, n, 4);
    es_file_write(run_esf, bytes, place + 70); /* truncates the last frame,
                                                  which has two samples */
    free(bytes);
    es_writer *w = es_esf_begin(run_esf, 6, &run);
    es_esf_commit(w, 6, 20);
    es_assert_ok(es_writer_close(w));
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 20);
    assert_int_equal(gap, 20);
    assert_int_equal(es_reader_n_damaged(r), 0);
}

TEST(a_reader_starts_over_if_the_file_has_changed)
{
    size_t n;
    int64_t run, gap;
    es_esf_write(run_esf, 4);
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 8);
    unsigned char *bytes = es_file_read(run_esf, &n);
    es_esf_frame frame;
    uint32_t seed;
    size_t place = es_esf_find(&frame, &seed, bytes, n, 3);
    /* simulate a power loss */
    assert_int_equal(truncate(run_esf, (off_t)place), 0);
    free(bytes);
    es_writer *w = es_esf_begin(run_esf, 2, &run);
    es_esf_commit(w, 2, 3);
    es_esf_commit(w, 5, 30);
    es_assert_ok(es_writer_close(w));
    es_assert_ok(es_reader_refresh(r));
    assert_int_equal(es_esf_check(r, false, &gap), 28);
    assert_int_equal(gap, 3);
}

TEST(late_blocks_give_old_data_and_never_wrong_data)
{
    size_t n;
    int64_t gap;
    es_esf_frame frame;
    uint32_t seed;
    es_esf_write(run_esf, 40);
    unsigned char *bytes = es_file_read(run_esf, &n), *seen = calloc(1, n);
    assert_non_null(seen);
    size_t place = es_esf_find(&frame, &seed, bytes, n, 3);
    memcpy(seen, bytes, n);
    memset(seen + place + 30, 0, 512); /* simulates 512 bytes that this host
                                          does not see yet */
    es_file_write(run_esf, seen, n);
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 4);
    int fd = open(run_esf, O_WRONLY);
    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    close(fd);
    es_assert_ok(es_reader_refresh(r));
    assert_int_equal(es_esf_check(r, false, &gap), 80);
    assert_int_equal(es_reader_n_damaged(r), 0);
    const es_event *events;
    size_t n_events;
    es_assert_ok(es_reader_events(r, 0, &events, &n_events));
    assert_int_equal(n_events, 0);
    free(seen);
    free(bytes);
}

/* --- damage --------------------------------------------------------------- */

/** Counts the events of the kind "damaged". */
static int count_damage(const char *path)
{
    const es_event *events;
    size_t n;
    int found = 0;
    AUTO(es_reader) r = es_open_reader(path);
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    for (size_t i = 0; i < n; i++)
        found += strcmp(events[i].kind, "damaged") == 0;
    assert_int_equal(es_reader_n_damaged(r), found);
    return found;
}

TEST(damage_of_any_byte_of_a_fragment_is_detected)
{
    size_t n;
    int64_t gap = 0;
    es_esf_write(run_esf, 3);
    unsigned char *bytes = es_file_read(run_esf, &n);
    int n_whole = 0, n_noted = 0;
    for (size_t i = 0; i < n; i++) {
        es_esf_clock_after(bytes, n, 1000);
        bytes[i] ^= (unsigned char)(1 << i % 8);
        es_file_write(run_esf, bytes, n);
        int64_t young = -1;
        if (i % 4 == 0) {
            young = es_esf_check_file(run_esf, false, &gap);
            assert_true(young < 0 || gap == young);
        }
        bytes[i] ^= (unsigned char)(1 << i % 8);
        es_esf_clock_after(bytes, n, ES_ESF_SETTLED_MS + 60000);
        int64_t old = es_esf_check_file(run_esf, false, &gap);
        assert_true(old < 6 || gap == 6);
        if (old >= 0) { /* only frames at the end may be lost without an
                           event */
            int noted = count_damage(run_esf);
            assert_true(noted == 1 || (old == 6 && noted == 0));
            n_whole += old == 6;
            n_noted += noted;
            assert_true(old >= young);
        }
    }
    assert_true(n_noted > (int)n / 3);
    /* These flipped bits are in the last two frames, which contain none of the
     * compared samples. */
    assert_true(n_whole > 60 && n_whole < 400);
    free(bytes);
}

/* Writes a fragment of forty frames and flips a bit in the frame with index 3.
   Sets the clock to `ms` milliseconds after the first frame. */
static void write_damaged(int64_t ms)
{
    size_t n;
    es_esf_frame frame;
    uint32_t seed;
    es_esf_write(run_esf, 40);
    unsigned char *bytes = es_file_read(run_esf, &n);
    bytes[es_esf_find(&frame, &seed, bytes, n, 3) + 60] ^= 1;
    es_file_write(run_esf, bytes, n);
    es_esf_clock_after(bytes, n, ms);
    free(bytes);
}

static int64_t count_samples(void)
{
    int64_t gap;
    AUTO(es_reader) r = es_open_reader(run_esf);
    return es_esf_check(r, false, &gap);
}

TEST(frames_behind_a_hole_are_found_without_reading_it)
{
    size_t n;
    es_esf_frame frame;
    uint32_t seed;
    es_esf_write(run_esf, 40);
    unsigned char *bytes = es_file_read(run_esf, &n);
    const size_t place = es_esf_find(&frame, &seed, bytes, n, 20);
    const int64_t far = INT64_C(40) << 30;
    int fd = open(run_esf, O_WRONLY | O_TRUNC);
    assert_int_equal(pwrite(fd, bytes, place, 0), place);
    assert_int_equal(pwrite(fd, bytes + place, n - place, far), n - place);
    const long long before = es_bytes_read();
    assert_int_equal(count_samples(), 80);
    assert_true(es_bytes_read() - before < 10 << 20);
    assert_int_equal(ftruncate(fd, (off_t)place), 0);
    assert_int_equal(ftruncate(fd, far), 0); /* the file now ends with a hole */
    assert_int_equal(count_samples(), 38);
    close(fd);
    free(bytes);
}

TEST(a_long_foreign_tail_is_searched_up_to_a_limit)
{
    static unsigned char other[1 << 20];
    memset(other, 0x5a, sizeof other);
    es_esf_write(run_esf, 40);
    int fd = open(run_esf, O_WRONLY | O_APPEND);
    for (int i = 0; i < 160; i++)
        assert_int_equal(write(fd, other, sizeof other), sizeof other);
    close(fd);
    const long long before = es_bytes_read();
    AUTO(es_reader) r = es_open_reader(run_esf);
    int64_t gap;
    assert_int_equal(es_esf_check(r, false, &gap), 80);
    assert_true(es_merge_is_behind(r));
    assert_true(es_bytes_read() - before < 90 << 20);
    es_writer *w = NULL;
    assert_int_equal(es_writer_open(&w, run_esf, ES_DURABLE), ES_EFORMAT);
}

TEST(a_date_in_the_future_hides_no_frame)
{
    write_damaged(1000);
    assert_int_equal(count_samples(), 4);
    es_esf_shift_clock(-1000LL * 3600 * 24 * 365);
    assert_int_equal(count_samples(), 78);
}

TEST(damage_hides_no_frame_of_an_unchanged_file)
{
    write_damaged(-30000); /* as if the writer's clock had been ahead */
    assert_int_equal(count_samples(), 4);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {es_esf_clock() / 1000 - 61, 0}};
    assert_int_equal(utimensat(AT_FDCWD, run_esf, times, 0), 0);
    assert_int_equal(count_samples(), 78);
}

TEST(a_damaged_resume_shows_no_replaced_samples)
{
    size_t n;
    int64_t run, gap;
    es_esf_frame frame;
    uint32_t seed;
    es_esf_write(run_esf, 5);
    es_writer *w = es_esf_begin(run_esf, 3, &run);
    es_esf_commit(w, 3, 5);
    es_assert_ok(es_writer_close(w));
    unsigned char *bytes = es_file_read(run_esf, &n);
    /* eight frames precede: the run, 5 commits, the run's end, and the mark
     * that the file was closed; the frame of the resumed run follows */
    size_t place = es_esf_find(&frame, &seed, bytes, n, 8);
    assert_int_equal(frame.attempt, 2);
    assert_int_equal(frame.resume, 3);
    bytes[place + ES_ESF_FRAME_BYTES + 40] ^= 1;
    es_file_write(run_esf, bytes, n);
    free(bytes);
    assert_int_equal(es_esf_check_file(run_esf, false, &gap), 10);
    es_esf_shift_clock(ES_ESF_SETTLED_MS + 1000);
    assert_int_equal(es_esf_check_file(run_esf, false, &gap), 5);
    assert_int_equal(gap, 5);
    assert_int_equal(count_damage(run_esf), 1);
    es_writer *refused;
    es_assert_status(ES_EFORMAT, "record into another file",
                     es_writer_open(&refused, run_esf, ES_FAST));
}

TEST(a_sample_that_changes_under_a_reader_is_damaged)
{
    size_t n;
    int64_t gap;
    es_esf_write(run_esf, 3);
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap), 6);
    unsigned char *bytes = es_file_read(run_esf, &n);
    es_esf_frame frame;
    uint32_t seed;
    size_t place = es_esf_find(&frame, &seed, bytes, n, 2);
    int fd = open(run_esf, O_WRONLY);
    assert_int_equal(pwrite(fd, "\1\2\3", 3, (off_t)place + 56 + 36), 3);
    close(fd);
    assert_int_equal(es_esf_check(r, true, &gap), 6);
    assert_int_equal(es_reader_n_damaged(r), 1);
    free(bytes);
}

/**
 * Flips a bit in the frame with index i, and sets the clock so far ahead that
 * all hosts see the whole file.
 */
static void damage_frame(int i)
{
    es_esf_frame frame;
    uint32_t seed;
    size_t n;
    unsigned char *bytes = es_file_read(run_esf, &n);
    bytes[es_esf_find(&frame, &seed, bytes, n, i) + ES_ESF_FRAME_BYTES] ^= 1;
    es_file_write(run_esf, bytes, n);
    es_esf_clock_after(bytes, n, ES_ESF_SETTLED_MS + 60000);
    free(bytes);
}

/** Returns the number of damaged frames. Fails unless the reader reports damage
 *  at exactly one place. */
static uint64_t damaged_frames(const es_reader *reader)
{
    es_damaged damaged;
    assert_int_equal(es_reader_n_damaged(reader), 1);
    es_assert_ok(es_reader_damaged(reader, 0, &damaged));
    return damaged.n_frames;
}

/* Number of steps per commit, which makes frames of 54.7 KiB. */
#define LONG_STEPS 1000
/* Number of commits before the records of the run and its series are
   repeated. */
#define AGAIN_FROM 3

TEST(a_run_with_a_damaged_beginning_is_read_from_its_repetition)
{
    int64_t run, gap;
    es_run_info info;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    for (int i = 0; i < AGAIN_FROM + 2; i++)
        es_esf_commit(w, i * LONG_STEPS, (i + 1) * LONG_STEPS);
    es_assert_ok(es_writer_close(w));
    AUTO(es_reader) whole = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(whole, false, &gap),
                     (AGAIN_FROM + 2) * LONG_STEPS);
    damage_frame(0);
    AUTO(es_reader) r = es_open_reader(run_esf);
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_string_equal(info.uuid, ES_ESF_UUID);
    assert_string_equal(info.arch, "SM+LN+G");
    assert_int_equal(es_esf_check(r, false, &gap), 2 * LONG_STEPS);
    assert_int_equal(damaged_frames(r), 1 + AGAIN_FROM);
}

TEST(a_damaged_series_is_read_from_its_repetition)
{
    int64_t run, loss, gap, n;
    es_series series;
    es_writer *w = es_esf_begin(run_esf, 0, &run);
    es_assert_ok(es_writer_series(w, &loss, run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    for (int64_t step = 0; step < (AGAIN_FROM + 2) * LONG_STEPS; step++) {
        if (step % LONG_STEPS == 0)
            es_assert_ok(es_writer_begin(w));
        es_assert_ok(es_write_values(w, loss, step, 1));
        es_assert_ok(es_write_values(w, 1, step, ES_ESF_CELLS));
        if (step % LONG_STEPS == LONG_STEPS - 1)
            es_assert_ok(es_writer_commit(w));
    }
    es_assert_ok(es_writer_close(w));
    damage_frame(1); /* a separate transaction */
    AUTO(es_reader) r = es_open_reader(run_esf);
    assert_int_equal(es_esf_check(r, false, &gap),
                     (AGAIN_FROM + 2) * LONG_STEPS);
    es_assert_ok(es_reader_find(r, 0, "loss", ES_PHASE_TRAIN, &series));
    es_assert_ok(es_reader_count(r, &series, &n));
    assert_int_equal(series.first_step, 2 * LONG_STEPS);
    assert_int_equal(n, AGAIN_FROM * LONG_STEPS);
    /* One frame is damaged. Two further frames have samples of "loss", but the
       record of this series is lost. */
    assert_int_equal(damaged_frames(r), 3);
}

TEST(a_file_that_is_not_a_fragment_is_refused)
{
    es_reader *r;
    size_t n;
    uint32_t newer = 2, crc;
    es_file_write(run_esf, "", 0);
    es_assert_status(ES_EFORMAT, "not a fragment", es_reader_open(&r, run_esf));
    es_write_run(run_db, "x", 3);
    assert_int_equal(rename(run_db, run_esf), 0);
    es_assert_status(ES_EFORMAT, "not a fragment", es_reader_open(&r, run_esf));
    unlink(run_esf);
    es_esf_write(run_esf, 1);
    unsigned char *bytes = es_file_read(run_esf, &n);
    memcpy(bytes + 8, &newer, 4);
    crc = es_crc32c(0, bytes, 60);
    memcpy(bytes + 60, &crc, 4);
    es_file_write(run_esf, bytes, n);
    es_assert_status(ES_EVERSION, "upgrade", es_reader_open(&r, run_esf));
    free(bytes);
}

TEST(a_fragment_that_is_being_written_is_not_folded)
{
    write_all(run_esf);
    es_writer *other = es_open_writer(run_esf);
    assert_int_equal(es_place_fold(run_esf, run_db), ES_ELOCKED);
    assert_int_equal(access(run_esf, F_OK), 0);
    assert_int_not_equal(access(run_db, F_OK), 0);
    es_assert_ok(es_writer_close(other));
    es_assert_ok(es_place_fold(run_esf, run_db));
    assert_int_not_equal(access(run_esf, F_OK), 0);
    assert_int_equal(access(run_db, F_OK), 0);
}

TEST(a_fragment_with_a_gap_is_not_removed)
{
    es_esf_frame frame;
    uint32_t seed;
    size_t n;
    es_esf_write(run_esf, 3);
    unsigned char *bytes = es_file_read(run_esf, &n);
    const size_t place = es_esf_find(&frame, &seed, bytes, n, 2);
    /* The damage is so recent that the reader must not report it yet: another
     * host may see a block late. */
    bytes[place + ES_ESF_FRAME_BYTES + 36] ^= 1;
    es_file_write(run_esf, bytes, n);
    es_assert_status(ES_EFORMAT, "kept next to",
                     es_place_fold(run_esf, run_db));
    assert_int_equal(access(run_esf, F_OK), 0);
    free(bytes);
}

TEST_EACH(make, es_folder_remove)
