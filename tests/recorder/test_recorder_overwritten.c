/* Simulates bugs of a training process that overwrite words of the shared
 * memory or close descriptors which the process did not open. Recording must
 * never hang, crash, or report success after losing a frame. */
#include "tests/support/recording.h"
#include "tests/support/test.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { STEPS = 1000, ANSWER_MS = 500 };

/* --- overwritten words ----------------------------------------------------*/

#define FIELD(name)                                                            \
    {                                                                          \
#name, offsetof(es_ring_words, name),                                  \
            sizeof(((es_ring_words *)NULL)->name)                              \
    }

static const struct field {
    const char *name;
    size_t offset, size;
} fields[] = {
    FIELD(head), FIELD(dropped),   FIELD(wants_space), FIELD(closing),
    FIELD(tail), FIELD(committed), FIELD(space_bell),  FIELD(said),
    FIELD(bell), FIELD(wake_at),   FIELD(stop),        FIELD(owner),
};

/* Values that overwrite words of the shared memory. The fourth is a valid
 * position in the ring buffer of this recording; the last is the value that the
 * kernel stores in a robust lock whose owner has died. */
static const uint32_t patterns[] = {0, UINT32_MAX, 0x9e3779b9, 8 * 168,
                                    FUTEX_OWNER_DIED};
enum { N_PATTERNS = sizeof patterns / sizeof *patterns };

static int64_t count_in_file(const char *path)
{
    es_series series;
    es_cursor *cursor;
    const float *values;
    int64_t step, n = 0;
    es_reader *reader = es_open_reader(path);
    es_status status =
        es_reader_find(reader, 0, "entropy", ES_PHASE_TRAIN, &series);
    if (status == ES_OK) {
        status = es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST,
                                ES_STEP_LAST);
        while (status == ES_OK &&
               (status = es_cursor_next(cursor, &step, &values)) == ES_OK)
            n++;
        es_cursor_close(cursor);
        assert_int_equal(status, ES_DONE);
    }
    es_reader_close(reader);
    return n;
}

static void check_outcome(const char *path, es_status status,
                          const es_recorder_report *report, uint64_t refused)
{
    if (status == ES_OK && report->lost != 0)
        fail_msg("ES_OK, %d lost", (int)report->lost);
    if (status != ES_OK && !strstr(es_message(), path))
        fail_msg("message does not name the file: %s", es_message());
    char counted[64];
    snprintf(counted, sizeof counted, "%d of %d frames", (int)report->lost,
             (int)(STEPS - report->dropped));
    if (status != ES_OK && report->lost > 0 && !strstr(es_message(), counted))
        fail_msg("message does not count the lost frames: %s", es_message());
    assert_int_equal(report->pushed + refused, STEPS);
    assert_int_equal(report->pushed - report->committed + refused -
                         report->dropped,
                     report->lost);
    recording_check_integrity(path);
    assert_true((uint64_t)count_in_file(path) >= report->committed);
    if (status == ES_OK)
        assert_int_equal(count_in_file(path), report->pushed);
}

/* Records while the word at `offset` of the shared memory is overwritten
 * several times: once while the recorder sleeps, and otherwise while it
 * works. */
static es_status record_over(const char *path, size_t offset, uint32_t pattern,
                             es_recorder_report *report, uint64_t *refused)
{
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    options.wait_ms = 100;
    es_recorder *recorder;
    int series[4];
    *refused = 0;
    alarm(ES_PATIENCE_S);
    es_assert_ok(es_recorder_open(&recorder, &options));
    recorder->answer_ms = ANSWER_MS; /* set after es_recorder_open, which may be
                                        slow, so that the short limit applies
                                        only to es_recorder_close */
    recording_declare(recorder, series);
    char *words = (char *)recorder->ring.words;
    for (int64_t step = 0; step < STEPS; step++) {
        *refused += recording_push(recorder, series, 0, step) != ES_OK;
        if (step % 250 == 249)
            memcpy(words + offset, &pattern, sizeof pattern);
        if (step == 499) /* waits until the recorder sleeps, so that both states
                            are tested */
            usleep(3000);
    }
    assert_false(es_recorder_stop_requested(recorder));
    return es_recorder_close(recorder, ES_RUN_FINISHED, report);
}

TEST(no_overwritten_word_hides_a_loss)
{
    int fine = 0, n = 0;
    int stream = dup(STDERR_FILENO), silence = open("/dev/null", O_WRONLY);
    dup2(silence, STDERR_FILENO); /* hides the many messages of the recorder */
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (size_t at = 0; at < fields[i].size; at += 4)
            for (int p = 0; p < N_PATTERNS; p++) {
                if (patterns[p] == FUTEX_OWNER_DIED &&
                    fields[i].offset != offsetof(es_ring_words, owner))
                    continue;
                const char *path = recording_path("words.db");
                es_recorder_report report;
                uint64_t refused;
                es_status status = record_over(path, fields[i].offset + at,
                                               patterns[p], &report, &refused);
                if (status != ES_OK || report.dropped > 0)
                    printf("# %s+%zu %08x: %d, %d lost, %d dropped: %s\n",
                           fields[i].name, at, (unsigned)patterns[p], status,
                           (int)report.lost, (int)report.dropped, es_message());
                recording_reap_all(); /* also reaps the recorders that did not
                                         answer */
                check_outcome(path, status, &report, refused);
                fine += status == ES_OK;
                n++;
                recording_remove(path);
            }
    dup2(stream, STDERR_FILENO);
    close(stream);
    close(silence);
    printf("# %d words overwritten, %d recordings complete\n", n, fine);
}

/* Opens a recorder and kills its process. The caller then overwrites the shared
 * memory so that it claims that the recorder lives. */
static es_recorder *open_killed(int series[4])
{
    es_recorder *recorder = recording_open(recording_path("killed.db"));
    recording_declare(recorder, series);
    assert_int_equal(kill(recorder->child.pid, SIGKILL), 0);
    es_await(es_process_has_ended(&recorder->child, 10));
    return recorder;
}

TEST(a_dead_recorder_is_detected_whatever_the_owner_word)
{
    int series[4];
    es_recorder *recorder = open_killed(series);
    atomic_store(&recorder->ring.words->owner, 0x9e3779b9);
    assert_true(es_recorder_is_gone(recorder));
    assert_int_equal(atomic_load(&recorder->ring.words->owner), 0x9e3779b9);
    assert_int_equal(recording_push(recorder, series, 0, 0), ES_EBROKEN);
    (void)es_recorder_close(recorder, ES_RUN_FINISHED, NULL);
}

TEST(a_ring_without_a_reader_costs_one_wait)
{
    int series[4];
    int64_t step = 0;
    es_recorder *recorder = open_killed(series);
    atomic_store(&recorder->ring.words->owner, recorder->owner);
    while (recording_push(recorder, series, 0, step) == ES_OK)
        step++;
    for (int i = 0; i < 2; i++) {
        assert_true(recorder->stalled); /* the next push therefore does not
                                           wait */
        assert_int_equal(recording_push(recorder, series, 0, step), ES_EBROKEN);
    }
    (void)es_recorder_close(recorder, ES_RUN_FINISHED, NULL);
}

/* --- closed descriptors ---------------------------------------------------*/

static es_recorder *open_closed(const char *path, int series[4])
{
    es_recorder *recorder = recording_open(path);
    recording_declare(recorder, series);
    closefrom(3);
    return recorder;
}

/* Records after closing all descriptors. Does this in a child process, because
 * the test's own descriptors must stay open. */
static int record_without(const char *path)
{
    int series[4], bad = 0;
    es_recorder *recorder = open_closed(path, series);
    for (int64_t step = 0; step < STEPS; step++) {
        bad += recording_push(recorder, series, 0, step) != ES_OK;
        if (step == STEPS / 2)
            usleep(100000);
    }
    es_recorder_report report;
    if (es_recorder_close(recorder, ES_RUN_FINISHED, &report) != ES_OK) {
        print_error("%s\n", es_message());
        bad++;
    }
    bad += report.lost != 0 || report.committed != STEPS;
    return bad > 0;
}

static void run_in_child(int (*record)(const char *), const char *path)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(record(path));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    recording_reap_all();
}

TEST(closed_descriptors_cost_nothing)
{
    const char *path = recording_path("closefrom.db");
    run_in_child(record_without, path);
    assert_int_equal(recording_check(path, 0, 0), STEPS);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
    assert_false(recording_event(path, "trainer_died", NULL, NULL));
}

/* After all descriptors were closed, opens sockets, which reuse the descriptor
 * numbers, and records. A library that still read from its closed descriptors
 * would take the sockets' messages, so these messages must still be there at
 * the end. */
static int record_with_own_files(const char *path)
{
    int series[4], pairs[8][2], bad = 0;
    char byte;
    es_recorder *recorder = open_closed(path, series);
    for (int i = 0; i < 8; i++) {
        bad += socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pairs[i]) != 0;
        for (int side = 0; side < 2; side++)
            bad += send(pairs[i][side], "x", 1, 0) != 1;
    }
    for (int64_t step = 0; step < STEPS; step++)
        bad += recording_push(recorder, series, 0, step) != ES_OK;
    bad += es_recorder_close(recorder, ES_RUN_FINISHED, NULL) != ES_OK;
    for (int i = 0; i < 8; i++)
        for (int side = 0; side < 2; side++) {
            int fd = pairs[i][side];
            bad += recv(fd, &byte, 1, MSG_DONTWAIT) != 1 || byte != 'x';
            bad += recv(fd, &byte, 1, MSG_DONTWAIT) != -1;
        }
    return bad > 0;
}

TEST(reused_descriptor_numbers_are_left_alone)
{
    const char *path = recording_path("reused.db");
    run_in_child(record_with_own_files, path);
    assert_int_equal(recording_check(path, 0, 0), STEPS);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
}

static int record_and_leave(const char *path)
{
    int series[4];
    es_recorder *recorder = open_closed(path, series);
    for (int64_t step = 0; step < 100; step++)
        recording_push(recorder, series, 0, step);
    /* Waits a little, so that the recorder notices that the socket was closed
     * before the trainer dies. */
    usleep(100000);
    return 0;
}

static int record_and_become(const char *path)
{
    record_and_leave(path);
    execlp("true", "true", (char *)NULL);
    return 1;
}

/* After the trainer's end of the socket was closed, the recorder must still
 * notice the trainer's death. */
TEST(the_trainers_death_is_noticed_without_descriptors)
{
    static int (*const ways[])(const char *) = {record_and_leave,
                                                record_and_become};
    for (int i = 0; i < 2; i++) {
        const char *path = recording_path("gone.db");
        run_in_child(ways[i], path);
        assert_int_equal(recording_check(path, 0, 0), 100);
        assert_int_equal(recording_status(path), ES_RUN_FAILED);
        assert_true(recording_event(path, "trainer_died", NULL, NULL));
        recording_remove(path);
    }
}

TEST_GROUP(recording_setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
