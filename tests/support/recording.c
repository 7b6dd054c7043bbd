/* Records runs through the ring and the recorder process, with values that a
 * test can verify in the file. */
#include "tests/support/recording.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static char folder[PATH_MAX];

int recording_setup(void **state)
{
    char program[PATH_MAX], found[PATH_MAX];
    const char *build = getenv("BUILD"), *place = getenv("TMPDIR");
    snprintf(program, sizeof program, "%s/entropy-recorder",
             build ? build : "build");
    if (!realpath(program, found))
        return -1;
    setenv("ENTROPY_RECORDER", found, 1);
    snprintf(folder, sizeof folder, "%s/recording-XXXXXX",
             place ? place : "/tmp");
    /* Orphaned recorders become children of this process, which can then wait
     * for them. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return mkdtemp(folder) ? 0 : -1;
}

int recording_teardown(void **state)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

int recording_begin(void **state)
{
    alarm(300); /* end the program if the test hangs */
    return 0;
}

int recording_end(void **state)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)gettid());
    FILE *children = fopen(path, "r");
    while (children && fscanf(children, "%d", &pid) == 1) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (children)
        fclose(children);
    return 0;
}

const char *recording_path(const char *name)
{
    static char paths[4][PATH_MAX + 64];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void recording_remove(const char *path)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-lock", ".stop"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char file[PATH_MAX + 128];
        snprintf(file, sizeof file, "%s%s", path, tails[i]);
        unlink(file);
    }
}

es_run_info recording_run(void)
{
    return (es_run_info){.size = sizeof(es_run_info),
                         .name = "recording",
                         .n_layer = LAYERS,
                         .n_head = HEADS,
                         .d_model = 35,
                         .ctx = 128,
                         .vocab = 256,
                         .batch = ES_UNKNOWN,
                         .seed = 42,
                         .program = "test"};
}

es_recorder_options recording_options(const char *path, const es_run_info *run)
{
    return (es_recorder_options){.size = sizeof(es_recorder_options),
                                 .path = path,
                                 .run = run,
                                 .ring_bytes = 65536,
                                 .wait_ms = ES_PATIENCE_MS,
                                 .answer_ms = ES_PATIENCE_MS};
}

es_recorder *recording_open(const char *path)
{
    es_recorder *recorder = NULL;
    const es_run_info run = recording_run();
    const es_recorder_options options = recording_options(path, &run);
    if (es_recorder_open(&recorder, &options) != ES_OK)
        fail_msg("%s", es_message());
    assert_non_null(recorder);
    return recorder;
}

static FILE *heard;

es_recorder *recording_open_heard(const es_recorder_options *options)
{
    es_recorder *recorder = NULL;
    const int stream = dup(STDERR_FILENO);
    if (heard)
        fclose(heard);
    heard = tmpfile();
    assert_non_null(heard);
    dup2(fileno(heard), STDERR_FILENO);
    const es_status status = es_recorder_open(&recorder, options);
    dup2(stream, STDERR_FILENO);
    close(stream);
    es_assert_ok(status);
    return recorder;
}

bool recording_has_said(const char *words)
{
    char text[4096];
    const ssize_t n = pread(fileno(heard), text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, words) != NULL;
}

static uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * UINT32_C(0x45d9f3b);
    x = (x ^ (x >> 16)) * UINT32_C(0x45d9f3b);
    return x ^ (x >> 16);
}

void recording_fill(float *values, size_t n, uint32_t series, int64_t step)
{
    static const uint32_t special[] = {ES_MISSING_BITS, 0x7fc00000, 0xffc00001,
                                       0x7f800001,      0x7f800000, 0xff800000,
                                       0x00000000,      0x80000000};
    for (size_t i = 0; i < n; i++) {
        uint32_t random =
            mix((uint32_t)step * 1000003 + series * 7919 + (uint32_t)i);
        uint32_t bits = random % 16 == 0 ? special[random / 16 % 8]
                                         : 0x3f800000 | random >> 9;
        memcpy(values + i, &bits, sizeof bits);
    }
}

static const struct {
    const char *name;
    es_shape shape;
    es_phase phase;
} declared[4] = {{"entropy", ES_SHAPE_HEAD, ES_PHASE_TRAIN},
                 {"beta", ES_SHAPE_LAYER, ES_PHASE_TRAIN},
                 {"loss", ES_SHAPE_RUN, ES_PHASE_TRAIN},
                 {"entropy", ES_SHAPE_HEAD, ES_PHASE_EVAL}};

void recording_declare(es_recorder *recorder, int series[4])
{
    for (int i = 0; i < 4; i++)
        assert_int_equal(es_recorder_series(recorder, &series[i],
                                            declared[i].name, declared[i].shape,
                                            declared[i].phase, NULL),
                         ES_OK);
}

size_t recording_values(int series)
{
    return es_shape_values(declared[series].shape, LAYERS, HEADS);
}

es_status recording_push(es_recorder *recorder, const int series[4], int which,
                         int64_t step)
{
    float values[CELLS];
    size_t n = recording_values(which);
    recording_fill(values, n, (uint32_t)which, step);
    return es_recorder_push(recorder, series[which], step, values, n);
}

static es_reader *open_reader(const char *path)
{
    es_reader *reader;
    es_status status = es_reader_open(&reader, path);
    if (status != ES_OK)
        print_error("%s\n", es_message());
    assert_int_equal(status, ES_OK);
    assert_int_equal(es_reader_n_runs(reader), 1);
    return reader;
}

int64_t recording_check(const char *path, int which, int64_t first)
{
    es_series series;
    es_cursor *cursor;
    es_reader *reader = open_reader(path);
    if (es_reader_find(reader, 0, declared[which].name, declared[which].phase,
                       &series) != ES_OK) {
        es_reader_close(reader);
        return 0;
    }
    size_t n = recording_values(which);
    assert_int_equal(series.n_values, n);
    assert_int_equal(
        es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST, ES_STEP_LAST),
        ES_OK);
    int64_t step, count = 0;
    const float *values;
    es_status status;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        float expected[CELLS];
        assert_int_equal(step, first + count);
        recording_fill(expected, n, (uint32_t)which, step);
        assert_memory_equal(values, expected, n * sizeof *values);
        count++;
    }
    assert_int_equal(status, ES_DONE);
    es_cursor_close(cursor);
    es_reader_close(reader);
    return count;
}

void recording_check_integrity(const char *path)
{
    char command[PATH_MAX + 128], answer[256] = "";
    snprintf(command, sizeof command,
             "sqlite3 -readonly '%s' 'PRAGMA integrity_check' 2>&1", path);
    FILE *shell = popen(command, "r");
    assert_non_null(shell);
    if (!fgets(answer, sizeof answer, shell))
        answer[0] = '\0';
    pclose(shell);
    assert_string_equal(answer, "ok\n");
}

uint64_t recording_committed(const es_recorder *recorder)
{
    return atomic_load(&recorder->ring.words->committed);
}

void recording_await_committed(const es_recorder *recorder, uint64_t n)
{
    es_await(recording_committed(recorder) >= n);
}

/* A recorder that has read all frames sets wake_at to the position after the
 * next byte, and then sleeps until this byte is written. */
void recording_await_rest(const es_recorder *recorder)
{
    const es_ring *ring = &recorder->ring;
    es_await(atomic_load(&ring->words->wake_at) == ring->position + 1);
}

void recording_stop(const es_recorder *recorder)
{
    siginfo_t info;
    const pid_t pid = recorder->child.pid;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
}

es_run_status recording_status(const char *path)
{
    es_run_info run;
    es_reader *reader = open_reader(path);
    assert_int_equal(es_reader_run(reader, 0, &run), ES_OK);
    es_run_status status = run.status;
    es_reader_close(reader);
    return status;
}

bool recording_is_written(const char *path)
{
    es_reader *reader = open_reader(path);
    bool written;
    assert_int_equal(es_reader_is_written(reader, &written), ES_OK);
    es_reader_close(reader);
    return written;
}

bool recording_event(const char *path, const char *kind, char *message,
                     char *data)
{
    es_reader *reader = open_reader(path);
    const es_event *events;
    size_t n, i = 0;
    assert_int_equal(es_reader_events(reader, 0, &events, &n), ES_OK);
    while (i < n && strcmp(events[i].kind, kind) != 0)
        i++;
    bool found = i < n;
    if (found && message)
        snprintf(message, 256, "%s", events[i].message);
    if (found && data)
        snprintf(data, 256, "%s", events[i].data ? events[i].data : "");
    es_reader_close(reader);
    return found;
}

int recording_reap_all(void)
{
    int n = 0, status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, 0)) > 0 || errno == EINTR) {
        if (pid <= 0)
            continue;
        n++;
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            fail_msg("process %d ended with code %d", (int)pid,
                     WEXITSTATUS(status));
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
            fail_msg("process %d died of signal %d", (int)pid,
                     WTERMSIG(status));
    }
    return n;
}
