/* Tests properties of the recorder process, and recording from host programs
 * that close streams, reap children or use signals in unusual ways. Host and
 * recorder must not disturb each other. */
#include "tests/support/recording.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static es_recorder *open_within(int answer_ms, const char *path,
                                const char *program)
{
    es_recorder *recorder = NULL;
    const es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    options.program = program;
    options.answer_ms = answer_ms;
    assert_int_equal(es_recorder_open(&recorder, &options), ES_EBROKEN);
    return recorder;
}

/* Tries to open a recorder with an unsuitable program, and checks that no
 * recorder is returned. */
static es_recorder *open_with(const char *path, const char *program)
{
    return open_within(ES_PATIENCE_MS, path, program);
}

static void expect_no_child(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Returns the number in the line of /proc/PID/status that begins with `key`. */
static unsigned long long status_of(pid_t pid, const char *key, int base)
{
    char path[64], line[256];
    unsigned long long value = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        found = strncmp(line, key, strlen(key)) == 0;
        if (found)
            value = strtoull(line + strlen(key), NULL, base);
    }
    fclose(file);
    assert_true(found);
    return value;
}

/* --- programs other than the recorder ------------------------------------- */

static void make_script(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

TEST(a_missing_program_is_named)
{
    const char *path = recording_path("p.db");
    assert_null(open_with(path, "/nonexistent/entropy-recorder"));
    assert_non_null(strstr(es_message(), "set ENTROPY_RECORDER"));
    assert_null(open_with(path, "no-such-program-in-path"));
    assert_null(open_with(path, "/"));
    const char *script = recording_path("not-executable");
    make_script(script, "#!/bin/sh\n", 0644);
    assert_null(open_with(path, script));
    expect_no_child();
    assert_int_not_equal(access(path, F_OK), 0);

    AUTO_FREE char *kept = strdup(getenv("ENTROPY_RECORDER"));
    setenv("ENTROPY_RECORDER", "/nonexistent/recorder", 1);
    const es_run_info run = recording_run();
    const es_recorder_options options = recording_options(path, &run);
    es_recorder *recorder;
    es_assert_status(ES_EBROKEN, "/nonexistent/recorder",
                     es_recorder_open(&recorder, &options));
    setenv("ENTROPY_RECORDER", kept, 1);
}

TEST(the_program_is_found_in_path)
{
    const char *path = recording_path("path.db");
    AUTO_FREE char *program = strdup(getenv("ENTROPY_RECORDER"));
    AUTO_FREE char *places = strdup(getenv("PATH"));
    unsetenv("ENTROPY_RECORDER");
    setenv("PATH", "/nonexistent", 1);
    assert_null(open_with(path, NULL));
    assert_non_null(strstr(es_message(), "cannot start entropy-recorder"));
    char folder[4096];
    snprintf(folder, sizeof folder, "/nonexistent:%.*s",
             (int)(strrchr(program, '/') - program), program);
    setenv("PATH", folder, 1);
    es_recorder *recorder = recording_open(path);
    setenv("PATH", places, 1);
    setenv("ENTROPY_RECORDER", program, 1);
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
}

TEST(another_program_is_reported)
{
    assert_null(open_with(recording_path("p.db"), "/bin/true"));
    assert_non_null(strstr(es_message(), "ended with exit code 0"));
    assert_null(open_with(recording_path("p.db"), "/bin/false"));
    assert_non_null(strstr(es_message(), "ended with exit code 1"));
    const char *script = recording_path("suicide");
    make_script(script, "#!/bin/sh\nkill -SEGV $$\n", 0755);
    assert_null(open_with(recording_path("p.db"), script));
    assert_non_null(strstr(es_message(), "was killed by signal 11"));
    expect_no_child();
}

TEST(a_silent_program_is_killed)
{
    const char *script = recording_path("silent");
    make_script(script, "#!/bin/sh\nexec sleep 1000\n", 0755);
    assert_null(open_within(500, recording_path("p.db"), script));
    assert_non_null(strstr(es_message(), "did not answer within 500 ms"));
    expect_no_child();
}

static int run_recorder(const char *argument)
{
    char command[4096];
    snprintf(command, sizeof command, "\"$ENTROPY_RECORDER\" %s >%s 2>&1",
             argument, recording_path("out"));
    int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(started_by_hand_it_explains_itself)
{
    assert_int_equal(run_recorder("--help"), 0);
    assert_int_equal(run_recorder("-h"), 0);
    assert_int_equal(run_recorder("--version"), 0);
    assert_int_equal(run_recorder("-V"), 0);
    assert_int_equal(run_recorder(""), 2);
    assert_int_equal(run_recorder("run.db"), 2);
    assert_int_equal(run_recorder("-- run.db"), 3);
    assert_int_equal(run_recorder("-- run.db 3</dev/null 4</dev/zero"), 3);
}

/* --- inherited properties ------------------------------------------------- */

TEST(it_has_its_own_session_and_default_signals)
{
    sigset_t all, old;
    sigfillset(&all);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGUSR1, &ignore, &before);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    es_recorder *recorder = recording_open(recording_path("signals.db"));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGUSR1, &before, NULL);
    pid_t pid = recorder->child.pid;
    assert_int_equal(getsid(pid), pid);
    unsigned long long three =
        1ull << (SIGTERM - 1) | 1ull << (SIGINT - 1) | 1ull << (SIGHUP - 1);
    unsigned long long ignored = 1ull << (SIGPIPE - 1) | 1ull << (SIGXFSZ - 1);
    assert_true(status_of(pid, "SigBlk:", 16) == three);
    /* The mask excludes signals 32 and 33, which the C library uses. */
    assert_true((status_of(pid, "SigIgn:", 16) & 0x7fffffff) == ignored);
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
}

TEST(no_stray_descriptors_are_inherited)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0); /* without O_CLOEXEC, because many host
                                        programs omit it */
    int high = dup2(ends[1], 77);    /* a descriptor number that no other code
                                        uses */
    es_recorder *recorder = recording_open(recording_path("fds.db"));
    close(ends[1]);
    close(high);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, ES_PATIENCE_MS), 1);
    assert_true(end.revents & POLLHUP);
    close(ends[0]);

    char link[64], target[256] = "";
    snprintf(link, sizeof link, "/proc/%d/fd/1", (int)recorder->child.pid);
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    assert_string_equal(target, "/dev/null");
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
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

TEST(the_host_keeps_no_descriptor)
{
    const char *path = recording_path("leak.db");
    int before = count_descriptors();
    es_assert_ok(
        es_recorder_close(recording_open(path), ES_RUN_FINISHED, NULL));
    assert_int_equal(count_descriptors(), before);
    assert_null(open_with(path, "/nonexistent/entropy-recorder"));
    assert_null(open_with(path, "/bin/true"));
    assert_int_equal(count_descriptors(), before);
}

/* The host has closed its standard streams. The memory files of a recording
 * then get descriptors 0 to 2. */
TEST(a_host_may_close_its_standard_streams)
{
    const char *path = recording_path("streams.db");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int series[4], bad = 0;
        close(0);
        close(1);
        close(2);
        es_recorder *recorder = recording_open(path);
        recording_declare(recorder, series);
        for (int64_t step = 0; step < 10; step++)
            bad += recording_push(recorder, series, 0, step) != ES_OK;
        bad += es_recorder_close(recorder, ES_RUN_FINISHED, NULL) != ES_OK;
        _exit(bad);
    }
    assert_int_equal(recording_reap_all(), 1);
    assert_int_equal(recording_check(path, 0, 0), 10);
}

/* --- unusual hosts -------------------------------------------------------- */

static void record_a_little(const char *path)
{
    int series[4];
    es_recorder *recorder = recording_open(path);
    recording_declare(recorder, series);
    for (int64_t step = 0; step < 10; step++)
        es_assert_ok(recording_push(recorder, series, 0, step));
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
    assert_int_equal(recording_check(path, 0, 0), 10);
    recording_remove(path);
}

TEST(a_host_may_ignore_its_children)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGCHLD, &ignore, &before);
    record_a_little(recording_path("ignore.db"));
    sigaction(SIGCHLD, &before, NULL);
    expect_no_child();
}

static void reap_everything(int signal)
{
    (void)signal;
    const int before = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = before;
}

TEST(a_host_may_reap_all_children)
{
    struct sigaction reap = {.sa_handler = reap_everything}, before;
    sigaction(SIGCHLD, &reap, &before); /* without SA_RESTART, so that
                                           signals interrupt system calls */
    record_a_little(recording_path("reap.db"));
    sigaction(SIGCHLD, &before, NULL);
    expect_no_child();
}

static void count_signal(int signal)
{
    (void)signal;
}

/* The host has a timer whose signal interrupts every wait. */
TEST(signals_of_the_host_do_no_harm)
{
    struct sigaction tick = {.sa_handler = count_signal}, before;
    sigaction(SIGALRM, &tick, &before);
    ualarm(2000, 2000);
    for (int i = 0; i < 5; i++)
        record_a_little(recording_path("ticks.db"));
    ualarm(0, 0);
    sigaction(SIGALRM, &before, NULL);
}

TEST(no_zombie_is_left)
{
    record_a_little(recording_path("zombie.db"));
    expect_no_child();
}

/* --- sleep and signals ----------------------------------------------------*/

/* Returns the number of voluntary context switches of all threads. Sets *asleep
 * to true if all threads sleep. */
static unsigned long long count_wakes(bool *asleep, pid_t pid)
{
    char path[64];
    unsigned long long n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    *asleep = true;
    for (struct dirent *entry; (entry = readdir(folder));) {
        const pid_t thread = (pid_t)atoi(entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        *asleep &= es_is_asleep(pid, thread);
        n += status_of(thread, "voluntary_ctxt_switches:", 10);
    }
    closedir(folder);
    return n;
}

TEST(idle_recorder_sleeps)
{
    es_recorder *recorder = recording_open(recording_path("idle.db"));
    unsigned long long before = 0, last;
    bool asleep;
    recording_await_rest(recorder);
    es_await((last = before, before = count_wakes(&asleep, recorder->child.pid),
              asleep && before == last));
    usleep(1500000);
    /* Without a pidfd the recorder wakes once a second to check whether the
     * trainer lives. */
    assert_in_range(count_wakes(&asleep, recorder->child.pid) - before, 0,
                    recorder->child.watched ? 0 : 2);
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
}

TEST(batch_is_committed_while_idle)
{
    const char *path = recording_path("batch.db");
    es_recorder *recorder = recording_open(path);
    int series[4];
    recording_declare(recorder, series);
    for (int64_t step = 0; step < 3; step++) {
        recording_push(recorder, series, 0, step);
        recording_await_committed(recorder, (uint64_t)step + 1);
        recording_await_rest(recorder);
    }
    assert_int_equal(recording_check(path, 0, 0), 3);
    assert_int_equal(recording_status(path), ES_RUN_RUNNING);
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
}

/* Returns true if the recorder has uncommitted frames and waits for further
 * frames. */
static bool is_gathering(const es_recorder *recorder)
{
    const uint64_t wake_at = atomic_load(&recorder->ring.words->wake_at);
    return wake_at > recorder->ring.position + 1 && wake_at != UINT64_MAX;
}

/* After SIGTERM, SIGINT or SIGHUP the recorder commits each frame at once, but
 * does not end, because the trainer may still push frames. */
TEST(after_sigterm_each_frame_is_committed_at_once)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < 3; i++) {
        const char *path = recording_path("term.db");
        es_recorder *recorder = recording_open(path);
        int series[4];
        bool gathered = false;
        recording_declare(recorder, series);
        recording_await_rest(recorder);
        uint32_t bell = es_ring_bell(&recorder->ring);
        kill(recorder->child.pid, signals[i]);
        es_await(es_ring_bell(&recorder->ring) !=
                 bell); /* waits until the signal
                           has arrived */
        for (uint64_t step = 0; step < 20; step++) {
            es_assert_ok(recording_push(recorder, series, 0, (int64_t)step));
            es_await((gathered |= is_gathering(recorder),
                      recording_committed(recorder) > step));
        }
        assert_false(gathered); /* if the recorder waited for further frames,
                                   each commit would be up to 0.9 s late */
        es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
        assert_int_equal(recording_check(path, 0, 0), 20);
        recording_remove(path);
    }
}

TEST_GROUP(recording_setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
