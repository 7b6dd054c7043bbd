/* Kills the trainer, the recorder or both at random moments of a recording. The
 * environment variables TRAINER_KILLS, RECORDER_KILLS and DOUBLE_KILLS set the
 * numbers of kills. */
#include "tests/support/chance.h"
#include "tests/support/recording.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

/* Results of a child. They are in shared memory, so that they remain after the
 * child's death. */
struct shared {
    _Atomic int opened;
    _Atomic int recorder;  /* pid */
    _Atomic int64_t steps; /* number of complete steps, at each of which one
                              frame of each series was pushed */
    _Atomic int64_t refused;
};

static struct shared *shared;
static unsigned random_state;

static unsigned random_below(unsigned n)
{
    return congruence_below(&random_state, n);
}

static int setup(void **state)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -1;
    const char *seed = getenv("ES_SEED");
    random_state = seed ? (unsigned)strtoul(seed, NULL, 10)
                        : (unsigned)time(NULL) ^ (unsigned)getpid();
    printf("# ES_SEED=%u\n", random_state);
    return recording_setup(state);
}

static void await_opened(void)
{
    es_await(atomic_load(&shared->opened) == 1);
}

static void forget(void)
{
    atomic_store(&shared->opened, 0);
    atomic_store(&shared->recorder, 0);
    atomic_store(&shared->steps, 0);
    atomic_store(&shared->refused, 0);
}

/* Records steps in a child process until the process is killed. */
static void train_forever(const char *path, size_t ring_bytes, unsigned pause)
{
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    options.ring_bytes = ring_bytes;
    es_recorder *recorder;
    int series[4];
    if (es_recorder_open(&recorder, &options) != ES_OK)
        _exit(3);
    recording_declare(recorder, series);
    atomic_store(&shared->recorder, recorder->child.pid);
    atomic_store(&shared->opened, 1);
    for (int64_t step = 0;; step++) {
        for (int i = 0; i < 4; i++)
            if (recording_push(recorder, series, i, step) != ES_OK)
                atomic_fetch_add(&shared->refused, 1);
        atomic_store(&shared->steps, step + 1);
        if (pause)
            usleep(pause);
    }
}

static pid_t start_trainer(const char *path, size_t ring_bytes, unsigned pause)
{
    forget();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        train_forever(path, ring_bytes, pause);
    assert_true(pid > 0);
    return pid;
}

/* --- kill -9 of the trainer -----------------------------------------------*/

static void check_orphaned(const char *path)
{
    int64_t steps = atomic_load(&shared->steps);
    if (!atomic_load(&shared->opened) && access(path, F_OK) != 0)
        return; /* the trainer was killed before it had started the recorder */
    recording_check_integrity(path);
    assert_int_equal(atomic_load(&shared->refused), 0);
    for (int i = 0; i < 4; i++)
        assert_in_range(recording_check(path, i, 0), steps, steps + 1);
    assert_int_equal(recording_status(path), ES_RUN_FAILED);
    assert_true(recording_event(path, "trainer_died", NULL, NULL));
    char log[4096];
    snprintf(log, sizeof log, "%s-wal", path);
    assert_int_not_equal(access(log, F_OK), 0);
}

TEST(killed_trainer_loses_nothing)
{
    static const size_t rings[] = {1, 65536, 1 << 20};
    const long n_kills = chance_times("TRAINER_KILLS", 50);
    int64_t steps = 0;
    for (long i = 0; i < n_kills; i++) {
        const char *path = recording_path("killed.db");
        unsigned pause = random_below(3) ? 200 : 0;
        pid_t pid = start_trainer(path, rings[random_below(3)], pause);
        const int64_t enough = 1 + random_below(200);
        if (i % 5)
            es_await(atomic_load(&shared->steps) >= enough);
        else /* kills the trainer at a time at which it may still be starting */
            usleep(random_below(40000));
        kill(pid, SIGKILL);
        recording_reap_all(); /* reaps the trainer and then the recorder, which
                                 has become a child of this process */
        check_orphaned(path);
        recording_remove(path);
        steps += atomic_load(&shared->steps);
    }
    printf("# %ld kills, %lld steps of 4 frames\n", n_kills, (long long)steps);
    assert_true(steps >= n_kills - (n_kills + 4) / 5);
}

/* Records 100 steps in a child process without closing the recorder. */
static void train_a_little(const char *path)
{
    int series[4];
    es_recorder *recorder = recording_open(path);
    recording_declare(recorder, series);
    for (int64_t step = 0; step < 100; step++)
        recording_push(recorder, series, 0, step);
    atomic_store(&shared->opened, 1);
}

static void check_a_little(const char *path)
{
    assert_int_equal(recording_check(path, 0, 0), 100);
    assert_int_equal(recording_status(path), ES_RUN_FAILED);
    assert_true(recording_event(path, "trainer_died", NULL, NULL));
}

TEST(a_trainer_that_just_exits_loses_nothing)
{
    const char *path = recording_path("left.db");
    fflush(NULL);
    if (fork() == 0) {
        train_a_little(path);
        _exit(0);
    }
    assert_int_equal(recording_reap_all(), 2);
    check_a_little(path);
}

/* The trainer replaces itself by a program that does not record (exec). */
TEST(a_trainer_that_executes_another_program_ends_the_run)
{
    const char *path = recording_path("became.db");
    forget();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        train_a_little(path);
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    await_opened();
    /* The recorder is still a child of the process that now sleeps, and remains
     * a zombie after its end. */
    es_await(!recording_is_written(path));
    check_a_little(path);
    kill(pid, SIGKILL);
    assert_int_equal(recording_reap_all(), 2);
}

/* The trainer's children inherit all descriptors and mappings and live longer
 * than the trainer. */
TEST(children_of_a_dead_trainer_do_not_delay_the_end)
{
    const char *path = recording_path("workers.db");
    int hold[2];
    assert_int_equal(pipe(hold), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int series[4];
        close(hold[1]);
        es_recorder *recorder = recording_open(path);
        recording_declare(recorder, series);
        recording_push(recorder, series, 0, 0);
        atomic_store(&shared->recorder, recorder->child.pid);
        if (fork() == 0) {
            char byte;
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
        }
        raise(SIGKILL);
    }
    close(hold[0]);
    /* The trainer's child is the last of the three processes to end, because it
     * lives until this test closes the pipe `hold`. */
    int ended = 0;
    pid_t recorder = 0;
    while (ended < 2) {
        int status;
        pid_t dead = waitpid(-1, &status, 0);
        assert_true(dead > 0);
        ended++;
        if (dead == atomic_load(&shared->recorder))
            recorder = dead;
    }
    assert_true(recorder > 0);
    assert_int_equal(recording_check(path, 0, 0), 1);
    assert_int_equal(recording_status(path), ES_RUN_FAILED);
    close(hold[1]);
    assert_int_equal(recording_reap_all(), 1);
}

/* The trainer is killed and restarted immediately, as a supervisor would do. */
TEST(a_restart_waits_for_the_lock)
{
    const char *path = recording_path("again.db");
    /* The pauses between pushes keep the number of uncommitted frames small,
     * because the next recorder waits only 2 s for this recorder to end. */
    pid_t pid = start_trainer(path, 65536, 200);
    es_await(atomic_load(&shared->steps) > 100);
    kill(pid, SIGKILL);
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    es_recorder *recorder;
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    es_status status = es_recorder_open(&recorder, &options);
    es_assert_ok(status);
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
    recording_reap_all();
    recording_check_integrity(path);
}

/* --- kill -9 of the recorder ----------------------------------------------*/

struct kill_later {
    pid_t pid;
    unsigned after; /* microseconds */
};

static void *kill_later(void *argument)
{
    const struct kill_later *plan = argument;
    usleep(plan->after);
    kill(plan->pid, SIGKILL);
    return NULL;
}

/* A simulated training step. Its loss depends on all earlier steps. */
static double train_step(double loss, int64_t step)
{
    return loss * 0.999 + 1.0 / (double)(step + 3) - loss * loss * 1e-4;
}

static int64_t count_in_file(const char *path)
{
    int64_t n = 0;
    for (int i = 0; i < 4; i++)
        n += recording_check(path, i, 0);
    return n;
}

TEST(killed_recorder_is_noticed)
{
    const long n_kills = chance_times("RECORDER_KILLS", 10);
    for (long round = 0; round < n_kills; round++) {
        const char *path = recording_path("broken.db");
        es_recorder *recorder = recording_open(path);
        int series[4];
        pthread_t thread;
        recording_declare(recorder, series);
        struct kill_later plan = {recorder->child.pid, random_below(30000)};
        pthread_create(&thread, NULL, kill_later, &plan);
        uint64_t tried = 0, broken = 0;
        double loss = 4.25, alone = 4.25;
        int64_t step = 0;
        /* Trains until a push reports the recorder's death, and then continues
         * for 50 more steps. */
        for (int64_t after = 0; after < 50; step++) {
            loss = train_step(loss, step);
            alone = train_step(alone, step);
            for (int i = 0; i < 4; i++) {
                es_status status = recording_push(recorder, series, i, step);
                tried++;
                broken += status == ES_EBROKEN;
                assert_true(status == ES_OK ? broken == 0
                                            : status == ES_EBROKEN);
            }
            after += broken > 0;
            if (round % 2)
                usleep(100);
        }
        pthread_join(thread, NULL);
        assert_memory_equal(&loss, &alone, sizeof loss);
        es_recorder_report report;
        es_assert_status(ES_EBROKEN, "was killed by signal 9",
                         es_recorder_close(recorder, ES_RUN_FINISHED, &report));
        assert_int_equal(report.dropped, 0);
        assert_int_equal(report.pushed + broken, tried);
        assert_int_equal(report.committed + report.lost, tried);
        recording_check_integrity(path);
        assert_in_range(count_in_file(path), report.committed, report.pushed);
        assert_int_equal(recording_reap_all(), 0);
        recording_remove(path);
    }
}

/* A recorder that was killed while it slept cannot be woken. A push must notice
 * its death nevertheless. */
TEST(a_recorder_killed_in_its_sleep_is_noticed)
{
    const char *path = recording_path("asleep.db");
    es_recorder *recorder = recording_open(path);
    int series[4];
    recording_declare(recorder, series);
    recording_await_rest(recorder);
    kill(recorder->child.pid, SIGKILL);
    es_await(recorder->ring.words->owner != recorder->owner);
    es_assert_status(ES_EBROKEN, "has ended",
                     recording_push(recorder, series, 0, 0));
    int late = 5;
    assert_int_equal(es_recorder_series(recorder, &late, "late", ES_SHAPE_RUN,
                                        ES_PHASE_TRAIN, NULL),
                     ES_EBROKEN);
    assert_int_equal(late, -1);
    float value = 1;
    assert_int_equal(es_recorder_push(recorder, late, 0, &value, 1),
                     ES_EBROKEN);
    es_recorder_report report;
    assert_int_equal(es_recorder_close(recorder, ES_RUN_FINISHED, &report),
                     ES_EBROKEN);
    assert_int_equal(report.pushed, 0);
    assert_int_equal(report.lost, 2);
}

static void *kill_when_waited_for(void *argument)
{
    const es_recorder *recorder = argument;
    es_await(atomic_load(&recorder->ring.words->wants_space) == 1);
    kill(recorder->child.pid, SIGKILL);
    return NULL;
}

/* The recorder is killed while a push waits for space in the ring. The push
 * must then stop waiting. */
TEST(killing_the_recorder_ends_a_wait_for_space)
{
    es_recorder *recorder = recording_open(recording_path("waited.db"));
    int series[4];
    pthread_t thread;
    recording_declare(recorder, series);
    recorder->wait_ms = ES_FOR_EVER_MS;
    recording_stop(recorder);
    alarm(ES_PATIENCE_S);
    pthread_create(&thread, NULL, kill_when_waited_for, recorder);
    es_status status = ES_OK;
    int64_t step = 0;
    while (status == ES_OK)
        status = recording_push(recorder, series, 0, step++);
    assert_int_equal(status, ES_EBROKEN);
    pthread_join(thread, NULL);
    assert_int_equal(es_recorder_close(recorder, ES_RUN_FINISHED, NULL),
                     ES_EBROKEN);
}

/* Opens and closes the file once more, which fails if a killed recorder has
 * left a lock or an invalid write-ahead log. */
static void record_nothing(const char *path)
{
    es_assert_ok(
        es_recorder_close(recording_open(path), ES_RUN_FINISHED, NULL));
    recording_check_integrity(path);
}

TEST(killing_both_leaves_an_intact_file)
{
    const long n_kills = chance_times("DOUBLE_KILLS", 5);
    for (long round = 0; round < n_kills; round++) {
        const char *path = recording_path("both.db");
        pid_t pid = start_trainer(path, 65536, random_below(2) ? 100 : 0);
        await_opened();
        usleep(random_below(60000));
        pid_t recorder = atomic_load(&shared->recorder);
        bool trainer_first = random_below(2) != 0;
        kill(trainer_first ? pid : recorder, SIGKILL);
        kill(trainer_first ? recorder : pid, SIGKILL);
        recording_reap_all();
        recording_check_integrity(path);
        int64_t steps = atomic_load(&shared->steps);
        for (int i = 0; i < 4; i++)
            assert_in_range(recording_check(path, i, 0), 0, steps + 1);
        /* Checks that another recorder can write the file afterwards. */
        record_nothing(path);
        recording_remove(path);
    }
}

TEST_GROUP(setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
