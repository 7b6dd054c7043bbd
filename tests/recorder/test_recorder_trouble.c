/* Tests faults in the middle of a run other than kills: a recorder that is
 * suspended by SIGSTOP, forks, invalid frames in the ring, and a full disk. */
#include "tests/support/recording.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --- full ring ------------------------------------------------------------ */

TEST(stopped_recorder_drops_and_counts)
{
    const char *path = recording_path("full.db");
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    options.wait_ms = 50;
    es_recorder *recorder;
    int series[4];
    es_assert_ok(es_recorder_open(&recorder, &options));
    recording_declare(recorder, series);
    recording_stop(recorder);
    int64_t step = 0;
    uint32_t bell = es_ring_bell(&recorder->ring);
    while (recording_push(recorder, series, 0, step) == ES_OK)
        step++;
    /* Only the first dropped frame has waited for space. A thousand further
     * frames must be dropped without waiting. A push that waits wakes the
     * recorder by incrementing `bell`, a futex of the ring, so `bell` must not
     * change while the thousand frames are dropped. */
    assert_int_not_equal(es_ring_bell(&recorder->ring), bell);
    bell = es_ring_bell(&recorder->ring);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(recording_push(recorder, series, 0, step), ES_EFULL);
    assert_int_equal(es_ring_bell(&recorder->ring), bell);
    assert_non_null(strstr(es_message(), "the ring is full"));
    kill(recorder->child.pid, SIGCONT);
    uint64_t dropped = 1001;
    es_await(es_ring_wait_space(&recorder->ring, CELLS * sizeof(float), 0));
    es_assert_ok(recording_push(recorder, series, 0, step++));
    for (int i = 0; i < 2000; i++, step++) {
        es_status status = recording_push(recorder, series, 0, step);
        if (status == ES_EFULL)
            dropped++, step--;
    }
    es_recorder_report report;
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, &report));
    assert_int_equal(report.dropped, dropped);
    assert_int_equal(report.pushed, step);
    assert_int_equal(report.committed, step);
    assert_int_equal(report.lost, 0);
    assert_int_equal(recording_check(path, 0, 0), step);
    char data[256], expected[64];
    assert_true(recording_event(path, "dropped", NULL, data));
    snprintf(expected, sizeof expected, "{\"dropped\":%llu}",
             (unsigned long long)dropped);
    assert_string_equal(data, expected);
}

/* The recorder is suspended and never continues. es_recorder_close must give up
 * after a while, and report that the recorder does not answer. */
TEST(close_gives_up_on_a_stopped_recorder)
{
    const char *path = recording_path("standstill.db");
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    es_recorder *recorder;
    int series[4];
    es_assert_ok(es_recorder_open(&recorder, &options));
    recorder->answer_ms = 300; /* set after the opening, which may be slow, so
                                  that the short limit applies only to the
                                  end */
    recording_declare(recorder, series);
    pid_t pid = recorder->child.pid;
    recording_stop(recorder);
    for (int64_t step = 0; step < 10; step++)
        es_assert_ok(recording_push(recorder, series, 0, step));
    es_recorder_report report;
    assert_int_equal(es_recorder_close(recorder, ES_RUN_FINISHED, &report),
                     ES_EBROKEN);
    assert_non_null(strstr(es_message(), "does not answer: 10 of 10 frames"));
    assert_int_equal(report.lost, 10);
    /* If the recorder is continued after all, no frame is lost. */
    kill(pid, SIGCONT);
    assert_int_equal(recording_reap_all(), 1);
    assert_int_equal(recording_check(path, 0, 0), 10);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
}

/* --- forks ----------------------------------------------------------------*/

static int misuse_in_child(es_recorder *recorder, const int series[4])
{
    int bad = 0, other;
    bad += recording_push(recorder, series, 0, 1000) != ES_EFORK;
    bad +=
        es_recorder_event(recorder, 0, "k", ES_SEVERITY_INFO, "m") != ES_EFORK;
    bad += es_recorder_series(recorder, &other, "new", ES_SHAPE_RUN,
                              ES_PHASE_TRAIN, NULL) != ES_EFORK;
    bad += es_recorder_stop_requested(recorder);
    es_recorder_report report;
    bad += es_recorder_close(recorder, ES_RUN_FAILED, &report) != ES_EFORK;
    bad += report.pushed != 0;
    return bad;
}

TEST(a_forked_child_must_not_use_the_recorder)
{
    const char *path = recording_path("fork.db");
    es_recorder *recorder = recording_open(path);
    int series[4], status;
    recording_declare(recorder, series);
    es_ring_request_stop(&recorder->ring);
    for (int64_t step = 0; step < 60; step++) {
        es_assert_ok(recording_push(recorder, series, 0, step));
        if (step % 20 != 10)
            continue;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            _exit(misuse_in_child(recorder, series));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_true(es_recorder_stop_requested(recorder));
    es_recorder_report report;
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, &report));
    assert_int_equal(report.committed, 60);
    assert_int_equal(recording_check(path, 0, 0), 60);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
}

/* A forked child must open a separate recorder and file to record. */
TEST(a_forked_child_may_open_its_own_recorder)
{
    const char *mine = recording_path("parent.db");
    const char *other = recording_path("child.db");
    es_recorder *recorder = recording_open(mine);
    int series[4], status;
    recording_declare(recorder, series);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int own[4];
        es_recorder *second = recording_open(other);
        recording_declare(second, own);
        es_status pushed = recording_push(second, own, 0, 0);
        es_status closed = es_recorder_close(second, ES_RUN_FINISHED, NULL);
        _exit(pushed == ES_OK && closed == ES_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    es_assert_ok(recording_push(recorder, series, 0, 0));
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
    assert_int_equal(recording_check(mine, 0, 0), 1);
    assert_int_equal(recording_check(other, 0, 0), 1);
}

/* --- trainer that overwrites the ring ------------------------------------- */

typedef void scribble(es_recorder *recorder);

static es_frame *last_frame(es_recorder *recorder)
{
    es_ring *ring = &recorder->ring;
    uint64_t size = es_ring_frame_size(CELLS * sizeof(float));
    return (es_frame *)(void *)(ring->data +
                                (ring->position - size) % ring->capacity);
}

static void break_length(es_recorder *recorder)
{
    last_frame(recorder)->bytes = 1u << 30;
}

static void break_type(es_recorder *recorder)
{
    last_frame(recorder)->type = 77;
}

static void break_series(es_recorder *recorder)
{
    last_frame(recorder)->series = 4000000000u;
}

static void break_size(es_recorder *recorder)
{
    last_frame(recorder)->series = 1;
}

static void break_strings(es_recorder *recorder)
{
    last_frame(recorder)->type = ES_FRAME_SERIES;
    last_frame(recorder)->series = 4;
}

static void break_event(es_recorder *recorder)
{
    last_frame(recorder)->type = ES_FRAME_EVENT;
}

static void break_head(es_recorder *recorder)
{
    atomic_store(&recorder->ring.words->head, 3);
}

static void break_everything(es_recorder *recorder)
{
    memset(recorder->ring.data, 0xa5, recorder->ring.capacity);
    atomic_fetch_add(&recorder->ring.words->head, 4096);
}

TEST(corrupt_ring_ends_the_run)
{
    static scribble *const scribbles[] = {
        break_length,  break_type,  break_series, break_size,
        break_strings, break_event, break_head,   break_everything};
    for (size_t i = 0; i < sizeof scribbles / sizeof *scribbles; i++) {
        const char *path = recording_path("corrupt.db");
        es_recorder *recorder = recording_open(path);
        int series[4];
        char message[256];
        recording_declare(recorder, series);
        for (int64_t step = 0; step < 5; step++)
            recording_push(recorder, series, 0, step);
        kill(recorder->child.pid, SIGTERM); /* makes the recorder commit each
                                               frame at once */
        recording_await_committed(recorder, 5);
        recording_stop(recorder);
        recording_push(recorder, series, 0, 5);
        scribbles[i](recorder);
        kill(recorder->child.pid, SIGCONT);
        es_await(recorder->ring.words->owner != recorder->owner);
        es_assert_status(ES_EBROKEN, "the ring is corrupt",
                         recording_push(recorder, series, 0, 6));
        es_recorder_report report;
        es_assert_status(ES_EFORMAT, "the ring is corrupt",
                         es_recorder_close(recorder, ES_RUN_FINISHED, &report));
        assert_int_equal(report.committed, 5);
        assert_int_equal(report.lost, 2);
        assert_int_equal(recording_reap_all(), 0);
        recording_check_integrity(path);
        assert_int_equal(recording_check(path, 0, 0), 5);
        assert_int_equal(recording_status(path), ES_RUN_FAILED);
        assert_true(recording_event(path, "ring_corrupt", message, NULL));
        recording_remove(path);
    }
}

/* Writes a frame that is valid for the ring. Its contents may be valid, almost
 * valid, or random. */
static void write_nonsense(es_ring *ring)
{
    _Alignas(8) unsigned char payload[8192];
    uint32_t number = (uint32_t)(rand() % 5);
    es_frame frame = {.type = (uint32_t)(1 + rand() % 3),
                      .series = number,
                      .step = rand() % 3 ? rand() % 100 : -(int64_t)rand()};
    es_series_frame series = {"x", NULL, rand() % 3, rand() % 2};
    es_event_frame event = {"kind", "message", rand() % 5};
    es_pack pack = {
        .mode = ES_PACK_WRITE, .data = payload, .size = sizeof payload};
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (unsigned char)rand();
    if (frame.type == ES_FRAME_SERIES)
        es_pack_series(&pack, &series);
    else if (frame.type == ES_FRAME_EVENT)
        es_pack_event(&pack, &event);
    else
        pack.at = number < 4 ? recording_values((int)number) * 4 : 4;
    frame.bytes = (uint32_t)(rand() % 8 ? pack.at : (unsigned)rand() % 8192);
    if (rand() % 8 == 0)
        frame.type = (uint32_t)rand();
    if (rand() % 4 == 0)
        payload[(size_t)rand() % pack.at] ^= (unsigned char)rand();
    es_ring_write(ring, &frame, payload);
}

TEST(nonsense_in_the_ring_does_not_kill_the_recorder)
{
    srand(4711);
    int failed = 0, refused = 0;
    int stream = dup(STDERR_FILENO), silence = open("/dev/null", O_WRONLY);
    dup2(silence, STDERR_FILENO); /* hides the many messages of the recorder */
    for (int round = 0; round < 60; round++) {
        const char *path = recording_path("nonsense.db");
        es_recorder *recorder = recording_open(path);
        int series[4];
        recording_declare(recorder, series);
        for (int i = 0; i < 2; i++)
            write_nonsense(&recorder->ring);
        es_status status = es_recorder_close(recorder, ES_RUN_FINISHED, NULL);
        if (status != ES_OK && status != ES_EFORMAT && status != ES_EARGUMENT)
            fail_msg("%d: %s", status, es_message());
        failed += recording_status(path) == ES_RUN_FAILED;
        refused += recording_event(path, "refused", NULL, NULL);
        recording_check_integrity(path);
        recording_remove(path);
    }
    dup2(stream, STDERR_FILENO);
    close(stream);
    close(silence);
    printf("# 60 recordings: %d failed, in %d a frame was refused\n", failed,
           refused);
    assert_in_range(failed, 5, 55);
    assert_in_range(refused, 5, 55);
}

/* --- full disk ------------------------------------------------------------ */

enum { FILE_LIMIT = 400000 };

/* Returns true if the write-ahead log is so large that one more page would
 * exceed the limit on file sizes. */
static bool is_log_full(const char *path)
{
    struct stat log;
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "%s-wal", path);
    return stat(name, &log) == 0 && log.st_size > FILE_LIMIT - 4120;
}

/* Records in a child process under a limit on file sizes, until the ring is
 * full of frames that cannot be written. */
static int record_under_limit(const char *path, int64_t *steps)
{
    const struct rlimit limit = {FILE_LIMIT, FILE_LIMIT};
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    options.wait_ms = 100;
    es_recorder *recorder;
    int series[4], bad = 0;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (es_recorder_open(&recorder, &options) != ES_OK)
        return 100;
    recording_declare(recorder, series);
    int64_t step = 0;
    es_status status;
    /* Continues if the ring buffer is full although the write-ahead log has not
     * reached the limit, because then the machine is merely busy. */
    while ((status = recording_push(recorder, series, 0, step)) == ES_OK ||
           (status == ES_EFULL && !is_log_full(path)))
        step += status == ES_OK;
    bad += status != ES_EFULL;
    es_recorder_report report;
    status = es_recorder_close(recorder, ES_RUN_FINISHED, &report);
    bad += (status != ES_EIO) * 2;
    bad += (strstr(es_message(), path) == NULL) * 4;
    bad += (report.pushed != report.committed + report.lost) * 8;
    bad += (report.dropped == 0) * 16;
    *steps = (int64_t)report.committed;
    return bad;
}

TEST(a_file_size_limit_leaves_an_intact_file)
{
    const char *path = recording_path("limit.db");
    int64_t *steps = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(record_under_limit(path, steps));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    recording_check_integrity(path);
    assert_int_equal(recording_check(path, 0, 0), *steps);
    assert_true(*steps > 100);
    munmap(steps, sizeof *steps);
}

static void fill_disk(const char *path)
{
    char block[4096];
    memset(block, 'b', sizeof block);
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) > 0)
        ;
    close(fd);
}

/* The disk is full for a while. Meanwhile frames wait in the ring, and all of
 * them must be recorded afterwards. */
TEST(recording_continues_once_the_disk_has_space)
{
    const char *place = recording_path("disk");
    assert_int_equal(mkdir(place, 0777), 0);
    if (mount("none", place, "tmpfs", 0, "size=2m") != 0)
        es_skip("mounting a tmpfs is not permitted");
    const char *path = recording_path("disk/run.db");
    const char *ballast = recording_path("disk/ballast");
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    options.ring_bytes = 1 << 20;
    int series[4];
    es_recorder *recorder = recording_open_heard(&options);
    recording_declare(recorder, series);
    int64_t step = 0;
    for (; step < 100; step++)
        es_assert_ok(recording_push(recorder, series, 0, step));
    kill(recorder->child.pid, SIGTERM); /* makes the recorder commit each frame
                                           at once */
    recording_await_committed(recorder, 100);
    fill_disk(ballast);
    for (; step < 600; step++)
        es_assert_ok(recording_push(recorder, series, 0, step));
    es_await(recording_has_said("retrying"));
    uint64_t before = recording_committed(recorder);
    unlink(ballast);
    es_recorder_report report;
    es_status status = es_recorder_close(recorder, ES_RUN_FINISHED, &report);
    int64_t found = recording_check(path, 0, 0);
    umount2(place, MNT_DETACH);
    assert_in_range(before, 100, 599);
    assert_int_equal(status, ES_OK);
    assert_int_equal(report.committed, 600);
    assert_int_equal(found, 600);
}

TEST_GROUP(recording_setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
