/*
 * Keeps a team of threads that compute attention entropies for entropy.c. The
 * team stays between calls, because starting and ending a thread takes as long
 * as computing a head of short rows. Its threads wait when there is no work,
 * and do not keep the process alive. A forked child does not inherit the
 * threads and starts a new team.
 */
#include "analyzer/entropy/entropy_internal.h"

#include <pthread.h>
#include <signal.h>

#define MOST 256

/**
 * One call of es_entropy_threads. The job is on the stack of its caller, and in
 * the team's list until it is done.
 */
typedef struct job {
    void (*work)(void *argument);
    void *argument;
    /* n_wanted: number of team threads that may still join; n_running: number
     * of team threads that work on the job. */
    int n_wanted, n_running;
    struct job *next;
} job;

static struct team {
    pthread_mutex_t lock; /* protects the team; never held while a job's work
                             runs */
    pthread_cond_t posted, ended;
    job *jobs;
    int n_threads, n_free; /* n_free: number of threads without a job */
    bool is_ready;         /* true once the fork handler is registered */
} team = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .posted = PTHREAD_COND_INITIALIZER,
          .ended = PTHREAD_COND_INITIALIZER};

/**
 * Resets the team in a forked child. The team's threads do not exist in the
 * child, and one of them may have held the lock.
 */
static void begin_in_child(void)
{
    team.jobs = NULL;
    team.n_threads = team.n_free = 0;
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.posted, NULL);
    pthread_cond_init(&team.ended, NULL);
}

static void prepare_for_fork(void)
{
    team.is_ready = pthread_atfork(NULL, NULL, begin_in_child) == 0;
}

static job *find_job(void)
{
    job *j = team.jobs;
    while (j && j->n_wanted == 0)
        j = j->next;
    return j;
}

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&team.lock);
    for (;;) {
        job *j = find_job();
        if (!j) {
            pthread_cond_wait(&team.posted, &team.lock);
            continue;
        }
        j->n_wanted--;
        j->n_running++;
        team.n_free--;
        pthread_mutex_unlock(&team.lock);
        j->work(j->argument);
        pthread_mutex_lock(&team.lock);
        team.n_free++;
        if (--j->n_running == 0)
            pthread_cond_broadcast(&team.ended);
    }
    return NULL;
}

/**
 * Starts as many threads as the jobs need, if the system permits. The threads
 * block all signals, which are meant for the program's own threads.
 */
static void grow_team(void)
{
    sigset_t all, before;
    int n_wanted = 0;
    for (const job *j = team.jobs; j; j = j->next)
        n_wanted += j->n_wanted;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team.n_free < n_wanted && team.n_threads < MOST) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, NULL) != 0)
            break;
        pthread_setname_np(thread, "es-entropy");
        pthread_detach(thread);
        team.n_threads++;
        team.n_free++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void post(job *j)
{
    pthread_mutex_lock(&team.lock);
    j->next = team.jobs;
    team.jobs = j;
    if (team.n_free < j->n_wanted || j->next)
        grow_team();
    if (j->n_wanted > 1)
        pthread_cond_broadcast(&team.posted);
    else
        pthread_cond_signal(&team.posted);
    pthread_mutex_unlock(&team.lock);
}

/**
 * Removes a job from the list, so that no other thread can join the job. Waits
 * for the threads that are working on it.
 */
static void withdraw(job *j)
{
    job **at = &team.jobs;
    pthread_mutex_lock(&team.lock);
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    while (j->n_running > 0)
        pthread_cond_wait(&team.ended, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

void es_entropy_threads(void (*work)(void *argument), void *argument,
                        int n_threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    job j = {.work = work, .argument = argument, .n_wanted = n_threads - 1};
    if (n_threads > 1)
        pthread_once(&once, prepare_for_fork);
    if (n_threads < 2 || !team.is_ready) {
        work(argument);
        return;
    }
    post(&j);
    work(argument);
    withdraw(&j);
}
