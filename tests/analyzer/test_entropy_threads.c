/* Tests the threads that es_qk_statistics keeps between calls: their number and
   their signal masks. Also tests that the threads hinder neither a fork nor the
   end of the program. */
#include "analyzer/base/value.h"
#include "tests/support/await.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { H = 8, T = 64, D = 32, N = H * T, N_THREADS = 4 };

static float queries[N * D], wanted[N];

static void run_call(float *entropy, int n_threads)
{
    const es_attention_shape shape = SHAPE(1, H, T, T, D, true);
    const es_entropy_input in = queries_at(queries, &shape);
    const es_rows rows = {.size = sizeof rows, .entropy = entropy};
    if (es_qk_statistics(&rows, NULL, &in, &in, &shape, n_threads) != ES_OK)
        abort();
}

static int set_up(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (int i = 0; i < N * D; i++)
        queries[i] = (float)random_normal(&seed);
    run_call(wanted, 1);
    return 0;
}

static bool is_right(int n_threads)
{
    float entropy[N];
    run_call(entropy, n_threads);
    return memcmp(entropy, wanted, sizeof wanted) == 0;
}

/**
 * Returns true if the thread whose /proc status is given blocks SIGTERM,
 * SIGALRM and SIGINT.
 */
static bool is_deaf(const char *status)
{
    const char *blocked = strstr(status, "SigBlk:");
    assert_non_null(blocked);
    const unsigned long long signals = strtoull(blocked + 7, NULL, 16);
    return signals >> (SIGTERM - 1) & signals >> (SIGALRM - 1) &
           signals >> (SIGINT - 1) & 1;
}

/**
 * Returns the number of worker threads that es_qk_statistics has started in
 * this process, and asserts that they block signals.
 */
static int count_team(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], text[4096] = "";
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_true(fread(text, 1, sizeof text - 1, file) > 0);
        fclose(file);
        if (strstr(text, "es-entropy")) {
            assert_true(is_deaf(text));
            n++;
        }
    }
    closedir(tasks);
    return n;
}

static void test_entropy_threads__a_team_stays_and_does_not_grow(void **state)
{
    (void)state;
    assert_int_equal(count_team(), 0);
    assert_true(is_right(N_THREADS));
    assert_int_equal(count_team(), N_THREADS - 1);
    for (int i = 0; i < 200; i++)
        assert_true(is_right(1 + i % N_THREADS));
    assert_int_equal(count_team(), N_THREADS - 1);
}

static _Atomic int n_began, n_ended;

/**
 * The work of one thread, in a call with two threads. The first thread waits
 * until the second has begun; the second then takes longer than the first.
 */
static void linger(void *first)
{
    const bool is_first = pthread_equal(*(pthread_t *)first, pthread_self());
    atomic_fetch_add(&n_began, 1);
    while (is_first && atomic_load(&n_began) < 2)
        sched_yield();
    if (!is_first)
        usleep(20000);
    atomic_fetch_add(&n_ended, 1);
}

static void
test_entropy_threads__threads_that_have_begun_are_waited_for(void **state)
{
    pthread_t self = pthread_self();
    (void)state;
    es_entropy_threads(linger, &self, N_THREADS);
    assert_true(atomic_load(&n_began) >= 2);
    assert_int_equal(atomic_load(&n_ended), atomic_load(&n_began));
}

static _Atomic bool is_over;
static _Atomic int n_wrong, n_calls;

static void *call_on(void *unused)
{
    (void)unused;
    while (!atomic_load(&is_over)) {
        atomic_fetch_add(&n_wrong, !is_right(N_THREADS));
        atomic_fetch_add(&n_calls, 1);
    }
    return NULL;
}

static void start_calls(pthread_t *threads, int n)
{
    atomic_store(&is_over, false);
    atomic_store(&n_calls, 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_on, NULL), 0);
    while (atomic_load(&n_calls) < n)
        sched_yield();
}

static void end_calls(const pthread_t *threads, int n)
{
    atomic_store(&is_over, true);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&n_wrong), 0);
}

static void
test_entropy_threads__concurrent_calls_give_the_same_bits(void **state)
{
    pthread_t threads[5];
    (void)state;
    start_calls(threads, 5);
    for (int i = 0; i < 30; i++)
        assert_true(is_right(7));
    end_calls(threads, 5);
}

/**
 * Forks while other threads are in calls, as may happen when a data loader
 * forks its workers.
 */
static void test_entropy_threads__a_forked_child_has_a_new_team(void **state)
{
    pthread_t thread;
    (void)state;
    if (SANITIZED)
        es_skip("the sanitizer's allocator does not survive a fork");
    start_calls(&thread, 1);
    for (int i = 0; i < 20; i++) {
        int status;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(ES_PATIENCE_S); /* SIGALRM ends a child that hangs */
            _exit(!(is_right(N_THREADS) && is_right(2)));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    end_calls(&thread, 1);
}

static void test_entropy_threads__a_program_ends_amid_calls(void **state)
{
    (void)state;
    if (SANITIZED)
        es_skip("the sanitizer reports memory of running threads as a leak");
    for (int i = 0; i < 5; i++) {
        int status;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            pthread_t threads[2];
            alarm(ES_PATIENCE_S);
            start_calls(threads, 2);
            exit(7);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropy_threads__a_team_stays_and_does_not_grow),
        cmocka_unit_test(
            test_entropy_threads__threads_that_have_begun_are_waited_for),
        cmocka_unit_test(
            test_entropy_threads__concurrent_calls_give_the_same_bits),
        cmocka_unit_test(test_entropy_threads__a_forked_child_has_a_new_team),
        cmocka_unit_test(test_entropy_threads__a_program_ends_amid_calls),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
