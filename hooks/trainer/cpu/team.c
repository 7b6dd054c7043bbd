/* Implements a team of threads. The threads wait for a task, each of them does
 * its share of the task, and then they report that they have finished. */
#include "hooks/trainer/cpu/team.h"

#include "analyzer/base/checked.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N_SPINS 1000

/* A counter on which threads wait until another thread changes it. */
typedef struct signal_word {
    _Atomic uint32_t value;
    _Atomic uint32_t n_asleep;
} signal_word;

typedef struct worker {
    es_team *team;
    pthread_t thread;
    int number;
} worker;

struct es_team {
    int n_threads;
    int n_workers; /* number of started threads, not counting the caller */
    int n_spins;   /* number of times that a waiting thread checks the signal
                    * word before it sleeps */
    worker *workers;
    es_team_task *task;
    void *argument;
    bool stops;
    double *waited;                   /* seconds that the caller has waited
                                       * so far; NULL if not measured */
    _Alignas(64) signal_word round;   /* number of tasks started so far */
    _Alignas(64) signal_word working; /* number of workers that have not
                                       * finished the current task */
};

/* --- waiting -------------------------------------------------------------- */

static void pause_processor(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void sleep_while(signal_word *word, uint32_t value)
{
    atomic_fetch_add(&word->n_asleep, 1);
    while (atomic_load(&word->value) == value)
        syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, value, NULL);
    atomic_fetch_sub(&word->n_asleep, 1);
}

/* Waits until the value of `word` differs from `value`. Returns the new
 * value. */
static uint32_t wait_while(const es_team *team, signal_word *word,
                           uint32_t value)
{
    for (int i = 0; i < team->n_spins; i++) {
        if (atomic_load(&word->value) != value)
            return atomic_load(&word->value);
        pause_processor();
    }
    sleep_while(word, value);
    return atomic_load(&word->value);
}

/* Wakes the threads that sleep on `word`, after its value has changed. A thread
 * that is about to sleep has either been counted in n_asleep, or will see the
 * changed value and not sleep. */
static void wake_threads(signal_word *word)
{
    if (atomic_load(&word->n_asleep) > 0)
        syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX);
}

/* --- the team ------------------------------------------------------------- */

static void *run_worker(void *argument)
{
    const worker *self = argument;
    es_team *team = self->team;
    uint32_t round = 0;
    for (;;) {
        round = wait_while(team, &team->round, round);
        if (team->stops)
            return NULL;
        team->task(team->argument, (es_share){self->number, team->n_threads});
        if (atomic_fetch_sub(&team->working.value, 1) == 1)
            wake_threads(&team->working);
    }
}

/* Follows OpenMP's variable OMP_WAIT_POLICY: with `passive`, waiting threads
 * sleep almost at once. */
static int choose_spins(void)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    return policy && strcasecmp(policy, "passive") == 0 ? 1 : N_SPINS;
}

static es_status start_worker(es_team *team)
{
    worker *self = &team->workers[team->n_workers];
    *self = (worker){.team = team, .number = team->n_workers + 1};
    if (pthread_create(&self->thread, NULL, run_worker, self) != 0)
        return es_fail(ES_ENOMEM,
                       "cannot start thread %d of %d: use fewer "
                       "--threads",
                       self->number + 1, team->n_threads);
    team->n_workers++;
    return ES_OK;
}

es_status es_team_new(es_team **out, int n_threads)
{
    *out = NULL;
    es_team *team = aligned_alloc(64, (sizeof *team + 63) / 64 * 64);
    worker *workers = es_resize(NULL, (size_t)n_threads, sizeof *workers);
    if (!team || !workers) {
        free(team);
        free(workers);
        return es_fail(ES_ENOMEM, "out of memory for %d threads", n_threads);
    }
    *team = (es_team){
        .n_threads = n_threads, .workers = workers, .n_spins = choose_spins()};
    es_status status = ES_OK;
    while (status == ES_OK && team->n_workers < n_threads - 1)
        status = start_worker(team);
    if (status == ES_OK)
        *out = team;
    else
        es_team_free(team);
    return status;
}

void es_team_free(es_team *team)
{
    if (!team)
        return;
    team->stops = true;
    atomic_fetch_add(&team->round.value, 1);
    wake_threads(&team->round);
    for (int i = 0; i < team->n_workers; i++)
        pthread_join(team->workers[i].thread, NULL);
    free(team->workers);
    free(team);
}

void es_team_time(es_team *team, double *seconds)
{
    team->waited = seconds;
}

static void wait_for_workers(es_team *team)
{
    for (uint32_t left; (left = atomic_load(&team->working.value)) > 0;)
        wait_while(team, &team->working, left);
}

static void wait_timed(es_team *team)
{
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    wait_for_workers(team);
    clock_gettime(CLOCK_MONOTONIC, &end);
    *team->waited += (double)(end.tv_sec - start.tv_sec) +
                     1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

void es_team_run(es_team *team, es_team_task *task, void *argument)
{
    team->task = task;
    team->argument = argument;
    atomic_store(&team->working.value, (uint32_t)team->n_workers);
    atomic_fetch_add(&team->round.value, 1);
    wake_threads(&team->round);
    task(argument, (es_share){0, team->n_threads});
    if (team->waited && team->n_workers > 0)
        wait_timed(team);
    else
        wait_for_workers(team);
}
